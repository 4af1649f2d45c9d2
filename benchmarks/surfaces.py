"""Kernels that follow the surface on which individuals lie (`Graph`), beside straight distances (`RBF`).

    python benchmarks/surfaces.py [--cases roll-square,roll-exp,cube,elevators] [--seeds 5]
                                  [--out benchmarks/results/surfaces.json]

- `roll-square`, `roll-exp`: the paper's swiss roll, 150 bags, Poisson; a sheet rolled up among 18 columns
- `cube`: no surface: 100 bags of 20, five independent uniform columns, Poisson; log rates are drawn from an ARD RBF,
  bags are cut along the first column
- `elevators`: real data in 17 columns, 225 bags, Normal (needs the data folder)

Scores are of training individuals, which no fit sees: squared error of the mean, coverage error (mean distance of the
coverage of 70% to 95% intervals from their level), the same to be expected of a perfectly calibrated posterior with the
same correlations, and the interval score. Coverage pooled over the seeds stands in the summary: errors of one data set
go together, so that its own coverage is off by chance, the more so the fewer ways there are to be wrong. A run that
was stopped continues.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from common import machine, timed, write_json
from swiss_roll import chance_coverage_error

import vbagg
from vbagg import kernels, metrics

KERNELS = {
    "rbf": lambda ard: kernels.RBF(ard=ard),
    "graph": lambda ard: kernels.Graph(),
    "rbf + graph": lambda ard: kernels.RBF(ard=ard) + kernels.Graph(),
}
CASES = ("roll-square", "roll-exp", "cube", "elevators")


def cube(seed: int) -> tuple[vbagg.Bags, np.ndarray, np.ndarray]:
    """Bags, totals and true rates of individuals that fill a cube."""
    rng = np.random.default_rng([seed, 5])
    X = rng.uniform(size=(2000, 5)) * [3.0, 1.0, 2.0, 5.0, 1.0]
    X = X[np.argsort(X[:, 0])]
    scaled = X / X.std(axis=0) / rng.lognormal(1.0, 0.5, 5)
    distance = np.sum((scaled[:, None] - scaled[None]) ** 2, axis=-1)
    K = 0.5 * np.exp(-0.5 * distance) + 1e-8 * np.eye(len(X))
    rate = 5.0 * np.exp(np.linalg.cholesky(K) @ rng.standard_normal(len(X)))
    bags = vbagg.Bags(X, np.arange(len(X)) // 20)
    return bags, rng.poisson(bags.sum_by_bag(rate)).astype(float), rate


def load(case: str, seed: int) -> tuple[vbagg.Bags, np.ndarray, np.ndarray, tuple[str, str], bool]:
    """Bags, totals, truth of individuals, likelihood and link, and whether each column has its length-scale."""
    if case.startswith("roll"):
        data = vbagg.datasets.swiss_roll(seed=seed)
        return data.bags, data.y, data.rate, ("poisson", case.split("-")[1]), False
    if case == "cube":
        return *cube(seed), ("poisson", "exp"), True
    train = vbagg.datasets.elevators_parts(seed, 50, 25)["train"]
    return train.bags, train.y, train.individual_y, ("normal", "identity"), True


def row(case: str, seed: int, name: str) -> dict[str, Any]:
    """Scores of one fit."""
    bags, y, truth, choices, ard = load(case, seed)
    model = vbagg.VBAgg(*choices, kernel=KERNELS[name](ard))
    with timed() as clock:
        model.fit(bags, y)
        posterior = model.posterior(bags.X)
    noise = model.likelihood_parameters_.get("tau", 0.0)  # outputs of single individuals, not their means

    def interval(level: float) -> tuple[np.ndarray, np.ndarray]:
        lower, upper = posterior.interval(level)
        widen = np.sqrt(1 + noise / posterior.std**2)
        return posterior.mean + widen * (lower - posterior.mean), posterior.mean + widen * (upper - posterior.mean)

    coverage = [metrics.coverage(truth, *interval(level)) for level in metrics.LEVELS]
    few = model.posterior(bags.X[::8])
    return {
        "case": case,
        "seed": seed,
        "kernel": name,
        "mse": metrics.mse(truth, posterior.mean),
        "relative_mse": metrics.mse(truth, posterior.mean) / float(np.var(truth)),
        "coverage": coverage,
        "coverage_error": float(np.mean(np.abs(np.subtract(coverage, metrics.LEVELS)))),
        "chance_coverage_error": chance_coverage_error(few),
        "interval_score_90": metrics.interval_score(truth, *interval(0.9), 0.9),
        "elbo": model.elbo_,
        "cpu_seconds": clock.cpu,
    }


def summary(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Means over seeds, and the error of the coverage that is pooled over them."""
    for case, name in dict.fromkeys((r["case"], r["kernel"]) for r in rows):
        own = [r for r in rows if (r["case"], r["kernel"]) == (case, name)]
        pooled = np.mean([r["coverage"] for r in own], axis=0)
        averaged = (
            "mse",
            "relative_mse",
            "coverage_error",
            "chance_coverage_error",
            "interval_score_90",
            "cpu_seconds",
        )
        yield {
            "case": case,
            "kernel": name,
            "seeds": len(own),
            **{key: float(np.mean([r[key] for r in own])) for key in averaged},
            "pooled_coverage": pooled.tolist(),
            "pooled_coverage_error": float(np.mean(np.abs(pooled - metrics.LEVELS))),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--kernels", default=",".join(KERNELS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", default=None)
    options = parser.parse_args()
    rows = json.loads(Path(options.out).read_text())["rows"] if options.out and Path(options.out).exists() else []
    done = {(r["case"], r["seed"], r["kernel"]) for r in rows}
    for seed in range(options.seeds):
        for case in options.cases.split(","):
            for name in options.kernels.split(","):
                if (case, seed, name) in done:
                    continue
                rows.append(row(case, seed, name))
                shown = {key: value for key, value in rows[-1].items() if isinstance(value, float)}
                print(case, seed, name, *(f"{key} {value:.4g}" for key, value in shown.items()), flush=True)
                if options.out:
                    write_json(options.out, {"summary": list(summary(rows)), "rows": rows, "machine": machine()})
    for line in summary(rows):
        print(*(f"{key} {value:.4g}" if isinstance(value, float) else f"{value}" for key, value in line.items()))


if __name__ == "__main__":
    main()
