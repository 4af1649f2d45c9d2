"""Latent functions with weights to learn, for models without uncertainty: on landmark features, or a network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from vbagg.elbo import Parameters
from vbagg.features import FeatureMap, combine_features, feature_count, make_basis

Array = Any
JITTER = 1e-6
FAST = jnp.float32
ENTRIES = 2**21
"""Of a kernel matrix; a larger one, and its slopes, go through the processor's cache in pieces of so many rows:"""
ROWS_PER_PIECE = 1024


class LatentFunction(Protocol):
    """`f(x)` given weights and parameters; hashable, since compiled functions depend on it."""

    def start(self, parameters: Parameters, n_columns: int, seed: int) -> Any:
        """Weights to start from."""
        ...

    def apply(self, weights: Any, parameters: Parameters, X: Array) -> Array:
        """`f` (n) of rows in standard units."""
        ...

    def penalty(self, weights: Any) -> Array:
        """Half the sum of squared weights: minus their log density under a standard normal prior."""
        ...


@dataclass(frozen=True)
class LandmarkFunction:
    """`f = A(x) beta`, `A` the landmark features of a kernel, `beta` standard normal."""

    feature_map: FeatureMap

    def start(self, parameters: Parameters, n_columns: int, seed: int) -> Any:  # noqa: D102
        m = feature_count(parameters.landmarks, self.feature_map)
        return {"beta": 0.1 * np.random.default_rng(seed).standard_normal(m).astype(np.float32)}

    def apply(self, weights: Any, parameters: Parameters, X: Array) -> Array:  # noqa: D102
        jitter = tuple(JITTER for _ in self.feature_map.components)
        basis = make_basis(self.feature_map, parameters.kernel, parameters.landmarks, jitter)

        def combine(rows: Array) -> Array:
            return combine_features(self.feature_map, basis, rows, weights["beta"]).astype(FAST)

        if len(X) * len(weights["beta"]) <= ENTRIES:
            return combine(X.astype(FAST))
        short = -len(X) % ROWS_PER_PIECE
        pieces = jnp.pad(X.astype(FAST), ((0, short), (0, 0))).reshape(-1, ROWS_PER_PIECE, X.shape[1])
        # slopes from the rows again, which costs less than keeping matrices of all pieces
        return jax.lax.map(jax.checkpoint(combine), pieces).reshape(-1)[: len(X)]

    def penalty(self, weights: Any) -> Array:  # noqa: D102
        return 0.5 * jnp.sum(weights["beta"] ** 2)


@dataclass(frozen=True)
class Network:
    """One hidden layer of rectified linear units."""

    hidden: int

    def start(self, parameters: Parameters, n_columns: int, seed: int) -> Any:  # noqa: D102
        rng = np.random.default_rng(seed)
        weights = {
            "inner": rng.standard_normal((n_columns, self.hidden)) * np.sqrt(2 / n_columns),
            "bias": np.zeros(self.hidden),
            "outer": rng.standard_normal(self.hidden) * np.sqrt(0.1 / self.hidden),
            "constant": np.zeros(()),
        }
        return {name: value.astype(np.float32) for name, value in weights.items()}

    def apply(self, weights: Any, parameters: Parameters, X: Array) -> Array:  # noqa: D102
        layer = jax.nn.relu(X.astype(FAST) @ weights["inner"] + weights["bias"])
        return layer @ weights["outer"] + weights["constant"]

    def penalty(self, weights: Any) -> Array:  # noqa: D102
        return 0.5 * (jnp.sum(weights["inner"] ** 2) + jnp.sum(weights["outer"] ** 2))
