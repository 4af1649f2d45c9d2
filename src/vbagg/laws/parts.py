"""The law of an output that is one part of a known one: noise about a mean that is uncertain itself."""

from __future__ import annotations

import numpy as np
from scipy.special import bdtr, ndtr, ndtri

from .base import Array, Law, row_chunks
from .numerics import first_reaching

LARGE = 25.0
"""Variance of a count from which its noise is taken for Normal."""
REACH = 8.0


class PartOf(Law):
    """`y = t + e`: `t` is any of the nodes (k, rows), `e` has the variance `noise` where `t` has its mean.

    With `whole`, the known sum (rows) of a count and others, a part is a count, a binomial given its share `t / whole`;
    its noise depends on `t` as that of a binomial does.
    """

    def __init__(self, nodes: Array, noise: Array, whole: Array | None = None) -> None:
        self.discrete = whole is not None
        self._nodes, self._noise = nodes, noise
        self._whole = np.zeros_like(noise) if whole is None else np.round(whole)
        self._length = nodes.shape[1]

    def _mean(self) -> Array:
        return self._nodes.mean(axis=0)

    def _std(self) -> Array:
        return np.sqrt(self._nodes.var(axis=0) + self._variance.mean(axis=0))

    @property
    def _variance(self) -> Array:
        """Of the noise, by node (k, rows)."""
        if not self.discrete:
            return np.broadcast_to(self._noise, self._nodes.shape)
        whole = np.maximum(self._whole, 1e-300)
        of_nodes, of_mean = (t * np.maximum(1 - t / whole, 0.0) for t in (self._nodes, self.mean))
        return self._noise * of_nodes / np.maximum(of_mean, 1e-300)

    def _tail(self, x: Array, upper: bool) -> Array:
        x = np.broadcast_to(x, np.broadcast_shapes(x.shape, (len(self),)))
        found = np.empty(x.shape)
        for rows in row_chunks(len(self)):
            found[..., rows] = self[rows]._tail_of(x[..., rows], upper)
        return found

    def _tail_of(self, x: Array, upper: bool) -> Array:
        found = np.empty(x.shape)
        small = self.discrete & (self._noise < LARGE)
        for exact in (False, True):
            own = np.flatnonzero(small == exact)
            if len(own):
                part = self[own]
                found[..., own] = (part._binomial if exact else part._normal)(x[..., own], upper)
        return found

    def _normal(self, x: Array, upper: bool) -> Array:
        sd = np.sqrt(np.maximum(self._variance, 1e-300))
        at = np.floor(x) + 0.5 if self.discrete else x
        sign = -1.0 if upper else 1.0
        return np.mean([ndtr(sign * (at - t) / s) for t, s in zip(self._nodes, sd, strict=True)], axis=0)

    def _binomial(self, x: Array, upper: bool) -> Array:
        share = np.clip(self._nodes / np.maximum(self._whole, 1.0), 0.0, 1.0)
        k = np.clip(np.floor(x), -1.0, self._whole)
        below = np.mean(
            [np.where(k < 0, 0.0, bdtr(np.maximum(k, 0.0), self._whole.astype(int), p)) for p in share], axis=0
        )
        return 1 - below if upper else below

    def _log_prob(self, y: Array) -> Array:
        if self.discrete:
            with np.errstate(divide="ignore"):
                return np.log(np.maximum(self._tail(np.floor(y), False) - self._tail(np.floor(y) - 1, False), 0.0))
        variance = np.maximum(self._variance, 1e-300)
        logs = [-0.5 * ((y - t) ** 2 / v + np.log(2 * np.pi * v)) for t, v in zip(self._nodes, variance, strict=True)]
        return np.logaddexp.reduce(logs, axis=0) - np.log(len(logs))

    def _quantile(self, q: float) -> Array:
        sd = np.sqrt(self._variance.max(axis=0)) * max(REACH, abs(float(ndtri(q))) + 1)
        lower, upper = self._nodes.min(axis=0) - sd - 1, self._nodes.max(axis=0) + sd + 1
        if self.discrete:
            lower, upper = np.zeros_like(lower), np.minimum(np.ceil(upper + LARGE), self._whole)
        return first_reaching(self._cdf_of, q, lower, upper, whole=self.discrete)

    def _sample(self, n: int, rng: np.random.Generator) -> Array:
        node = np.take_along_axis(self._nodes, rng.integers(len(self._nodes), size=(n, len(self))), axis=0)
        if not self.discrete:
            return rng.normal(node, np.sqrt(self._noise))
        share = np.clip(node / np.maximum(self._whole, 1.0), 0.0, 1.0)
        return rng.binomial(self._whole.astype(int), share).astype(float)
