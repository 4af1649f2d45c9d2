"""How wide is the variational posterior beside the exact one? Kernel parameters known, truth drawn from the prior.

    python benchmarks/against_mcmc.py [--out benchmarks/results/against_mcmc.json]

The swiss roll's individuals and bags, rates drawn from the model itself, counts drawn from them. The exact posterior of
the weights is sampled by elliptical slices around `q` (Nishihara, Murray and Adams, 2014). Ratios are of posterior
standard deviations of `f` at single individuals, `q` over exact; `linearised` is the covariance `(I + J^T F J)^-1` at
the mean of `q`, which ignores that totals are curved in `f`.
"""

from __future__ import annotations

import argparse

import jax
import numpy as np
from common import machine, write_json

import vbagg
from vbagg import metrics
from vbagg.features import features
from vbagg.scaling import Scaler

KERNELS = {"square": {"lengthscale": 4.5, "variance": 0.1}, "exp": {"lengthscale": 4.0, "variance": 0.3}}
LEVELS = (0.5, 0.8, 0.9, 0.95)


class Exact:
    """Log posterior of the weights and rates of all individuals, for a fitted model whose residual is negligible."""

    def __init__(self, model: vbagg.VBAgg, bags: vbagg.Bags, y: np.ndarray) -> None:
        frame, member = model._fitted.frame, model._fitted.optimum
        with jax.enable_x64(True):
            A = features(member.spec.feature_map, member.basis, frame.scaler.forward(bags.X))
        self.A = np.asarray(A, dtype=np.float32)
        self.base, self.scale, self.link = frame.base, frame.rate_scale, member.spec.link.name
        self.q, self.bags, self.y = member.q, bags, y

    def latent(self, v: np.ndarray) -> np.ndarray:
        """`f` of all individuals."""
        return self.base + self.A @ v.astype(np.float32)

    def rates(self, f: np.ndarray) -> np.ndarray:
        """`Psi(f)` in the units of the data."""
        return self.scale * (f**2 if self.link == "square" else np.exp(f)).astype(float)

    def log_posterior(self, v: np.ndarray) -> float:
        """Up to a constant."""
        T = np.add.reduceat(self.bags.weight * self.rates(self.latent(v)), self.bags.starts[:-1])
        return float(np.sum(self.y * np.log(T) - T) - 0.5 * v @ v)

    def sample(self, steps: int, seed: int, keep_every: int = 10, width: float = 1.3) -> np.ndarray:
        """Weights (s, m) after a burn-in of a sixth of the steps."""
        rng = np.random.default_rng(seed)
        mu, factor = self.q.mu, width * self.q.factor
        inverse = np.linalg.inv(factor)

        def log_ratio(v: np.ndarray) -> float:
            z = inverse @ (v - mu)
            return self.log_posterior(v) + 0.5 * float(z @ z)

        v, kept = mu, []
        current = log_ratio(v)
        for step in range(steps):
            other = factor @ rng.standard_normal(len(mu))
            level = current + np.log(rng.random())
            angle = rng.uniform(0, 2 * np.pi)
            low, high = angle - 2 * np.pi, angle
            while True:
                trial = mu + (v - mu) * np.cos(angle) + other * np.sin(angle)
                current = log_ratio(trial)
                if current > level:
                    break
                low, high = (angle, high) if angle < 0 else (low, angle)
                angle = rng.uniform(low, high)
            v = trial
            if step >= steps // 6 and step % keep_every == 0:
                kept.append(v)
        return np.array(kept)

    def linearised_sd(self, rows: slice) -> np.ndarray:
        """Standard deviation of `f` with the Gauss-Newton covariance."""
        f = self.latent(self.q.mu).astype(float)
        slope = self.scale * (2 * f if self.link == "square" else np.exp(f))
        starts = self.bags.starts[:-1]
        J = np.add.reduceat((self.bags.weight * slope)[:, None] * self.A, starts, axis=0)
        T = np.add.reduceat(self.bags.weight * self.rates(f), starts)
        covariance = np.linalg.inv(np.eye(J.shape[1]) + (J.T / T) @ J)
        A = self.A[rows].astype(float)
        return np.sqrt(np.einsum("nm,ml,nl->n", A, covariance, A))


def prior_draw(X: np.ndarray, lengthscale: float, variance: float, rng: np.random.Generator) -> np.ndarray:
    """A function of the kernel at the rows of X, from 300 landmarks."""
    from scipy.spatial.distance import cdist

    Z = X[rng.choice(len(X), 300, replace=False)]

    def covariance(one: np.ndarray, other: np.ndarray) -> np.ndarray:
        return variance * np.exp(-cdist(one, other, "sqeuclidean") / (2 * lengthscale**2))

    L = np.linalg.cholesky(covariance(Z, Z) + 1e-8 * variance * np.eye(len(Z)))
    return np.linalg.solve(L, covariance(Z, X)).T @ rng.standard_normal(len(Z))


def compare(link: str, seed: int, steps: int) -> dict[str, float | str | list[float]]:
    bags = vbagg.datasets.swiss_roll(seed=20).bags
    rng = np.random.default_rng(seed)
    f = prior_draw(Scaler.fit(bags).forward(bags.X), **KERNELS[link], rng=rng)
    truth = 4.7 * ((1 + f) ** 2 if link == "square" else np.exp(f))
    y = rng.poisson(bags.sum_by_bag(truth)).astype(float)
    kernel = vbagg.kernels.RBF(**KERNELS[link], fixed=("lengthscale", "variance"))
    model = vbagg.VBAgg("poisson", link, kernel=kernel, hyper="point").fit(bags, y)
    exact, rows = Exact(model, bags, y), slice(None, None, 8)
    sample = exact.sample(steps, seed=1)
    latent = exact.base + sample @ exact.A[rows].T
    rates, posterior = exact.rates(latent), model.posterior(bags.X[rows])
    sd, q_sd = latent.std(axis=0), np.sqrt(np.sum((exact.A[rows] @ exact.q.factor) ** 2, axis=1))
    half = len(latent) // 2
    drift = np.abs(latent[:half].mean(axis=0) - latent[half:].mean(axis=0)) / sd
    inside = [metrics.coverage(truth[rows], *posterior.interval(level)) for level in LEVELS]
    tails = [np.quantile(rates, [0.5 - level / 2, 0.5 + level / 2], axis=0) for level in LEVELS]
    return {
        "link": link,
        "seed": seed,
        "sd_ratio": float(np.median(q_sd / sd)),
        "sd_ratio_linearised": float(np.median(exact.linearised_sd(rows) / sd)),
        "mean_shift_in_sd": float(np.median(np.abs(exact.latent(exact.q.mu)[rows] - latent.mean(axis=0)) / sd)),
        "drift_between_halves_in_sd": float(np.median(drift)),
        "coverage": inside,
        "coverage_exact": [metrics.coverage(truth[rows], *tail) for tail in tails],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=12_000)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--out", default=None)
    options = parser.parse_args()
    rows = []
    for link in KERNELS:
        for seed in map(int, options.seeds.split(",")):
            rows.append(compare(link, seed, options.steps))
            print(rows[-1], flush=True)
            if options.out:
                write_json(
                    options.out, {"levels": LEVELS, "options": vars(options), "rows": rows, "machine": machine()}
                )


if __name__ == "__main__":
    main()
