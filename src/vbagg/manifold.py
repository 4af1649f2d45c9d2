"""Manifold regularisation: the latent function should vary little between individuals, or bags, that are alike.

With a kernel matrix `K` of individuals and its Laplacian `Lap = diag(K 1) - K`, the penalty is `f^T Lap f`. `K` is
never formed: with features `F` such that `K ~ F F^T`, it is `f^T diag(F F^T 1) f - |F^T f|^2` (MATH section 10).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from vbagg.bags import Bags
from vbagg.compiling import jit
from vbagg.errors import unknown_name
from vbagg.features import Basis, FeatureMap, compiled_basis, features, needed_jitter
from vbagg.kernels import RBF, Kernel, Matern12, Matern32, Matern52
from vbagg.kernels.families import Stationary
from vbagg.landmarks import choose_landmarks

Array = Any
APPROXIMATIONS = ("fourier", "nystrom")
ROWS_PER_CHUNK = 65536
DEGREES: dict[type[Kernel], float] = {RBF: np.inf, Matern12: 1.0, Matern32: 3.0, Matern52: 5.0}
"""Degrees of freedom of the Student distribution that a kernel's frequencies follow: twice its smoothness."""


@dataclass(frozen=True)
class Manifold:
    """Options of the penalty.

    Parameters
    ----------
    strength
        Of the penalty on individuals, `lambda_1 / n^2` for `n` individuals in a mini-batch.
    bag_strength
        Of the penalty on bag means, `lambda_2 / b^2` for `b` bags in a mini-batch. Bags are alike when the mean
        embeddings of their individuals are, and their covariates where `fit` is given any.
    kernel
        That says which individuals are alike; None: an `RBF` on all columns with the median distance as its
        length-scale. Its parameters stay at their starting values.
    approximation
        "fourier": random Fourier features, for sums of `RBF` and Matern kernels; "nystrom": features of landmarks.
        Entries of either can be slightly negative, where the penalty could reward rough functions: it is cut off
        at zero.
    number
        Features (in all for "fourier", landmarks per additive component for "nystrom").
    """

    strength: float = 1.0
    bag_strength: float = 0.0
    kernel: Kernel | None = None
    approximation: str = "fourier"
    number: int = 100

    def __post_init__(self) -> None:
        for name in ("strength", "bag_strength"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"`{name}` of Manifold must be non-negative; got {getattr(self, name)!r}.")
        if self.approximation not in APPROXIMATIONS:
            raise unknown_name("approximation", self.approximation, APPROXIMATIONS)
        if not (isinstance(self.number, int) and self.number >= 1):
            raise ValueError(f"`number` of Manifold must be a whole number >= 1; got {self.number!r}.")
        if self.kernel is not None and not isinstance(self.kernel, Kernel):
            raise TypeError(f"`kernel` of Manifold must be a kernel or None; got {self.kernel!r}.")


def laplacian_form(f: Array, F: Array) -> Array:
    """`f^T (diag(F F^T 1) - F F^T) f`, cut off at zero; `F` is zero in rows that do not count."""
    degree = F @ jnp.sum(F, axis=0)
    return jnp.maximum(jnp.sum(degree * f**2) - jnp.sum((F.T @ f) ** 2), 0.0)


def bag_laplacian_form(mean: Array, K: Array) -> Array:
    """The same for bag means and the kernel matrix of a few bags."""
    return jnp.sum(jnp.sum(K, axis=1) * mean**2) - mean @ K @ mean


def similarity_features(options: Manifold, bags: Bags, seed: int) -> np.ndarray:
    """`F` (n, k) with `F F^T ~ K` of all individuals, in float32; bags in standard units."""
    kernel = (options.kernel or RBF()).resolve(bags.feature_names)
    components = kernel.components()
    log_params = tuple(c.initial_log_parameters(bags.X, 1.0 / len(components)) for c in components)
    if options.approximation == "fourier":
        return _fourier_features(components, log_params, bags.X, options.number, seed)
    feature_map = FeatureMap(components, 1.0)
    landmarks = tuple(_landmarks(component, bags, options.number, seed) for component in components)
    basis = compiled_basis(feature_map, log_params, landmarks, needed_jitter(feature_map, log_params, landmarks))
    parts = [
        np.asarray(_landmark_features(feature_map, basis, bags.X[start : start + ROWS_PER_CHUNK]))
        for start in range(0, bags.n_individuals, ROWS_PER_CHUNK)
    ]
    return np.concatenate(parts)


def bag_kernel(similar: np.ndarray, bags: Bags, covariates: np.ndarray | None) -> np.ndarray:
    """Kernel matrix (b, b) of bags from the mean embeddings of their individuals and, if given, covariates."""
    K = _gaussian(bags.sum_by_bag(similar) / bags.sizes[:, None])
    if covariates is not None:
        spread = covariates.std(axis=0)
        K = K * _gaussian((covariates - covariates.mean(axis=0)) / np.where(spread > 0, spread, 1.0))
    return K


def check_bag_covariates(bags: Bags, covariates: Any) -> np.ndarray | None:
    """Bag covariates (b, k) as finite numbers."""
    if covariates is None:
        return None
    table = np.asarray(covariates, dtype=float)
    table = table[:, None] if table.ndim == 1 else table
    if table.ndim != 2 or len(table) != len(bags):
        raise ValueError(f"`bag_covariates` must hold one row for each of {len(bags)} bags; got shape {table.shape}.")
    if not np.isfinite(table).all():
        at = int(np.flatnonzero(~np.isfinite(table).all(axis=1))[0])
        raise ValueError(f"`bag_covariates` must be finite; got {table[at].tolist()} for bag {bags.labels[at]!r}.")
    return table


def _landmarks(component: Kernel, bags: Bags, number: int, seed: int) -> np.ndarray | None:
    if component.exact_features:
        return None
    X = bags.X[:, list(component.columns_used)]
    return choose_landmarks(X, bags.weight, min(number, len(np.unique(X, axis=0))), "kmeans++", seed, bag=bags.bag)


@jit(static_argnums=0)
def _landmark_features(feature_map: FeatureMap, basis: Basis, X: Array) -> Array:
    return features(feature_map, basis, X)[:, 1:].astype(jnp.float32)


def _fourier_features(
    components: tuple[Kernel, ...], log_params: tuple[Any, ...], X: np.ndarray, number: int, seed: int
) -> np.ndarray:
    """`sqrt(2 variance / k) cos(w x + phase)` with k random frequencies `w` for each component."""
    rng = np.random.default_rng(seed)
    count = max(1, number // len(components))
    columns = []
    for component, params in zip(components, log_params, strict=True):
        degrees = DEGREES.get(type(component))
        if degrees is None:
            raise ValueError(
                f"`approximation`='fourier' is for sums of {', '.join(kind.__name__ for kind in DEGREES)};"
                f" got {type(component).__name__}. Use Manifold(approximation='nystrom')."
            )
        assert isinstance(component, Stationary)
        own = X[:, list(component.column_numbers)] / np.exp(params["lengthscale"])
        frequency = rng.standard_normal((own.shape[1], count))
        if np.isfinite(degrees):
            frequency *= np.sqrt(degrees / rng.chisquare(degrees, count))
        angle = (own @ frequency + rng.uniform(0, 2 * np.pi, (count,))).astype(np.float32)
        columns.append(np.sqrt(2 * np.exp(params["variance"]) / count).astype(np.float32) * np.cos(angle))
    return np.concatenate(columns, axis=1)


def _gaussian(rows: np.ndarray) -> np.ndarray:
    """RBF matrix of rows with their median distance as length-scale."""
    r2 = np.sum((rows[:, None, :] - rows[None, :, :]) ** 2, axis=-1)
    apart = r2[np.triu_indices(len(rows), 1)]
    scale = float(np.median(apart)) if len(apart) else 1.0
    return np.exp(-0.5 * r2 / (scale or 1.0))
