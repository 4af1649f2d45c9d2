"""Error of each approximation of `E log T` and of each residual mode's variance, against Monte Carlo and all pairs.

    python benchmarks/approximations.py [--out benchmarks/results/approximations.md]

First table: bags of `n` individuals with equal weights, latent variance `S`, correlation `rho`, means spread by 0.5;
a million draws of `T`. Second: bags of a spatial data set with few or many landmarks.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import jax
import numpy as np
from common import machine

from vbagg.links import get_link
from vbagg.matched import MatchedGamma, MatchedLogNormal


def log_total_errors(link_name: str, n: int, S: float, rho: float, draws: int) -> dict[str, float]:
    rng = np.random.default_rng(n)
    link = get_link(link_name)
    centre = 1.0 if link_name == "square" else 0.0
    mean = centre + 0.5 * rng.standard_normal(n)
    weight = rng.gamma(2.0, size=n)
    covariance = S * ((1 - rho) * np.eye(n) + rho)
    logs, totals = [], []
    for _ in range(draws // 20_000):
        f = (
            mean
            + np.sqrt(S * rho) * rng.standard_normal((20_000, 1))
            + np.sqrt(S * (1 - rho)) * rng.standard_normal((20_000, n))
        )
        T = np.asarray(link.value(f)) @ weight
        logs.append(np.log(T))
        totals.append(T)
    with jax.enable_x64(True):
        M = float(weight @ np.asarray(link.mean(mean, np.diag(covariance))))
        slope = np.asarray(link.slope(mean, np.diag(covariance)))
        V = float(weight @ np.asarray(link.covariance(slope[:, None], slope[None], covariance)) @ weight)
        first_order = float((weight * slope) @ covariance @ (weight * slope))
        laws = {
            "gamma": float(MatchedGamma().expected_log(M, V)),
            "lognormal": float(MatchedLogNormal().expected_log(M, V)),
        }
        bound = float(np.log(weight @ np.exp(np.asarray(link.expected_log(mean, np.diag(covariance))))))
    # control variate: E T is known
    T = np.concatenate(totals)
    truth = float(np.mean(np.concatenate(logs) - (T / M - 1)))
    matched = laws["gamma" if link_name == "square" else "lognormal"]
    return {
        "E log T": truth,
        "matched": matched - truth,
        "taylor": np.log(M) - V / (2 * M**2) - truth,
        "bound": bound - truth,
        "other law": laws["lognormal" if link_name == "square" else "gamma"] - truth,
        "V first order / V": first_order / V,
    }


def residual_errors(link_name: str, landmarks: int) -> dict[str, float]:
    """Ratio of bag sd to the exact one, mean and extremes over bags."""
    import vbagg

    rng = np.random.default_rng(3)
    X = rng.uniform(0, 10, (6000, 2))
    bag = (X[:, 0] // 2).astype(int) * 5 + (X[:, 1] // 2).astype(int)
    bags = vbagg.Bags(X, bag, rng.gamma(1.0, size=len(X)), coordinates=(0, 1))
    rate = np.exp(np.sin(X[:, 0]) + 0.5 * np.cos(2 * X[:, 1]))
    y = rng.poisson(bags.sum_by_bag(bags.weight * rate[bags.rows]))
    kernel = vbagg.kernels.Matern32(variance=0.5, lengthscale=0.5, fixed=("variance", "lengthscale"))
    sds = {}
    for residual in ("exact", "subset", "diagonal"):
        model = vbagg.VBAgg("poisson", link_name, kernel=kernel, landmarks=landmarks, residual=residual).fit(bags, y)
        sds[residual] = model.posterior_bags(bags).std
    return {mode: float(np.mean(sds[mode] / sds["exact"])) for mode in ("subset", "diagonal")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=1_000_000)
    parser.add_argument("--out", default=None)
    options = parser.parse_args()
    lines = ["# Errors of the approximations", "", "`E log T`: approximation minus truth, in nats.", ""]
    header = None
    for link in ("square", "exp"):
        for n in (1, 5, 50):
            for S in (0.05, 0.5, 2.0):
                for rho in (0.0, 0.5, 0.95):
                    if n == 1 and rho > 0:
                        continue
                    row = {"link": link, "n": n, "S": S, "rho": rho, **log_total_errors(link, n, S, rho, options.draws)}
                    if header is None:
                        header = list(row)
                        lines += ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
                    cells = [
                        f"{v:.4f}" if isinstance(v, float) and k not in ("S", "rho") else str(v) for k, v in row.items()
                    ]
                    lines.append("| " + " | ".join(cells) + " |")
                    print(lines[-1], flush=True)
    lines += ["", "Sd of bag totals relative to all pairs (25 bags of about 240 individuals, Matern 3/2).", ""]
    lines += ["| link | landmarks | subset | diagonal |", "|---|---|---|---|"]
    for link in ("square", "exp"):
        for landmarks in (15, 60, 240):
            ratio = residual_errors(link, landmarks)
            lines.append(f"| {link} | {landmarks} | {ratio['subset']:.3f} | {ratio['diagonal']:.3f} |")
            print(lines[-1], flush=True)
    lines += ["", f"Command: `python benchmarks/approximations.py`, {options.draws} draws. Machine: {machine()}."]
    if options.out:
        target = Path(options.out)
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_suffix(".tmp")
        temporary.write_text("\n".join(lines) + "\n")
        temporary.replace(target)


if __name__ == "__main__":
    main()
