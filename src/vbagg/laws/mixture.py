"""Finite mixtures, for averaging predictions over hyper-parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

from .base import Array, Law
from .latent_mixtures import OfGaussian, shared_quantile
from .numerics import first_reaching


class Mixture(Law):
    """Laws of the same rows, mixed with one weight each (laws), or one for each row (laws, rows).

    Weights are normalised to sum to 1.
    """

    def __init__(self, laws: Sequence[Law], weights: npt.ArrayLike) -> None:
        weights = np.asarray(weights, dtype=np.float64)
        _check(laws, weights)
        used: npt.NDArray[np.bool_] = weights > 0 if weights.ndim == 1 else np.ones(len(laws), bool)
        self.laws = [law for law, own in zip(laws, used, strict=True) if own]
        self.weights = weights[used] / weights.sum(axis=0)
        self.discrete = self.laws[0].discrete
        self._length = len(self.laws[0])

    def __getitem__(self, rows: slice | npt.NDArray[Any]) -> Mixture:
        return Mixture([law[rows] for law in self.laws], self.weights[..., rows] if self._by_row else self.weights)

    @property
    def _by_row(self) -> bool:
        return self.weights.ndim == 2

    def _mean(self) -> Array:
        return self._average(lambda law: law.mean)

    def _std(self) -> Array:
        mean = self.mean
        return np.sqrt(self._average(lambda law: law.std**2 + (law.mean - mean) ** 2))

    def _tail(self, x: Array, upper: bool) -> Array:
        return self._average(lambda law: law._tail(x, upper))

    def _log_prob(self, y: Array) -> Array:
        with np.errstate(divide="ignore"):
            logs = np.log(self.weights)
        log_probs = [law.log_prob(y) + w for law, w in zip(self.laws, logs, strict=True)]
        return logsumexp(log_probs, axis=0)

    def _average(self, part: Callable[[Law], Array]) -> Array:
        return sum((w * part(law) for law, w in zip(self.laws, self.weights, strict=True)), start=np.zeros(()))

    def _quantile(self, q: float) -> Array:
        gaussian = [] if self._by_row else _of_one_function(self.laws)
        if gaussian:
            return shared_quantile(gaussian, self.weights, q)
        quantiles = [law.quantile(q) for law in self.laws]
        lower, upper = np.min(quantiles, axis=0), np.max(quantiles, axis=0)
        return first_reaching(self._cdf_of, q, lower, upper, whole=self.discrete)

    def _sample(self, n: int, rng: np.random.Generator) -> Array:
        """One component per draw, the same for all rows unless their weights differ, so that a draw is one model's."""
        if self._by_row:
            component = np.sum(rng.random((n, 1, 1)) > np.cumsum(self.weights, axis=0)[:-1], axis=1)
        else:
            component = rng.choice(len(self.laws), size=n, p=self.weights)
        draws = np.empty((n, len(self)))
        for position, law in enumerate(self.laws):
            chosen = component == position
            if self._by_row:
                draws = np.where(chosen, law.sample(n, rng), draws)
            else:
                draws[chosen] = law.sample(int(chosen.sum()), rng)
        return draws


def _of_one_function(laws: Sequence[Law]) -> list[OfGaussian]:
    """The laws, if they are those of one function of finite Gaussians."""
    found = [law for law in laws if isinstance(law, OfGaussian) and np.isfinite(law.location).all()]
    return found if len(found) == len(laws) and all(found[0].same_function(law) for law in found) else []


def _check(laws: Sequence[Law], weights: Array) -> None:
    if not len(laws) or weights.shape not in ((len(laws),), (len(laws), len(laws[0]))):
        raise ValueError(f"`weights` must hold one number per law; got shape {weights.shape} for {len(laws)} laws.")
    if not (np.isfinite(weights).all() and (weights >= 0).all() and (weights.sum(axis=0) > 0).all()):
        raise ValueError(f"`weights` must be non-negative, finite and not all zero; got {weights.tolist()}.")
    lengths = [len(law) for law in laws]
    if len(set(lengths)) > 1:
        raise ValueError(f"Laws of a mixture must have the same rows; got lengths {lengths}.")
    if len({law.discrete for law in laws}) > 1:
        kinds = [type(law).__name__ for law in laws]
        raise ValueError(f"Laws of a mixture must be all continuous or all discrete; got {kinds}.")
