"""Nodes and weights that average a smooth function over a random bag total."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import expit, log_expit, logsumexp

from .base import Array, Law
from .compound_rules import logit_drop, rarer, total_drop
from .gaussian import LogNormal, Normal
from .numerics import GAUSSIAN_REACH, ends, reach
from .totals import Beta, Gamma

_TINY = float(np.finfo(float).tiny)
_BEND = 4.0  # distance from the peak beyond which nodes spread out over a slow exponential tail


def total_nodes(total: Law, n: int = 128) -> tuple[Array, Array]:
    """Nodes T and log weights, each (n, rows), such that E f(T) is the sum of exp(log_weight) f(T) over nodes.

    The weights of a row sum to 1. Means, variances and mean logarithms come out to 1e-8 with the default ``n``
    for relative standard deviations up to 1.8. What is averaged should vary little between neighbouring nodes,
    which lie about 17 / n standard deviations of log T apart (of T for a `Normal`, of logit T for a `Beta`).

    Parameters
    ----------
    total
        A `LogNormal`, `Gamma`, `Normal` or `Beta` law; a row without variance has all its nodes at the mean.
    n
        Number of nodes.
    """
    if isinstance(total, LogNormal):
        # T^2 times the density of log T peaks two log variances higher
        t, log_weight = _bell(total.spread, n)
        return total._value(total.location + total.spread * t), log_weight
    if isinstance(total, Normal):
        t, log_weight = _bell(np.zeros(len(total)), n)
        return total.location + total.spread * t, log_weight
    if isinstance(total, Gamma):
        return _gamma_nodes(total, n)
    if isinstance(total, Beta):
        return _beta_nodes(total, n)
    name = type(total).__name__
    raise TypeError(f"`total` must be a LogNormal, Gamma, Normal or Beta law; got {name}. Match one to its moments.")


def _bell(spread: Array, n: int) -> tuple[Array, Array]:
    """Nodes of a standard normal, up to ``2 spread`` further on the right."""
    left, right = np.full(spread.shape, -GAUSSIAN_REACH), GAUSSIAN_REACH + 2 * spread
    t = left + np.multiply.outer(np.arange(n) / (n - 1), right - left)
    return t, _normalised(-0.5 * t**2)


def _gamma_nodes(total: Gamma, n: int) -> tuple[Array, Array]:
    root = np.sqrt(total._shape)
    u, log_weight = _stretched(
        lambda u: total_drop(root * u, 1 / root), reach(total._shape), np.maximum(1 / total._shape, 1.0), 1.0, n
    )
    with np.errstate(divide="ignore", under="ignore"):
        value = np.maximum(total.mean * np.exp(u), _TINY)
    return np.where(total._fixed, total.mean, value), np.where(total._fixed, -np.log(n), log_weight)


def _beta_nodes(total: Beta, n: int) -> tuple[Array, Array]:
    alpha, beta = total._alpha, total._beta
    share, side = rarer(alpha, beta)
    u, log_weight = _stretched(
        lambda u: (alpha + beta) * logit_drop(side * u, share),
        reach(alpha / (alpha + beta) * beta),
        np.maximum(1 / alpha, 1.0),
        np.maximum(1 / beta, 1.0),
        n,
    )
    value = np.clip(expit(np.log(alpha) - np.log(beta) + u), _TINY, 1 - 2.0**-53)
    return np.where(total._fixed, total.mean, value), np.where(total._fixed, -np.log(n), log_weight)


def _stretched(
    drop: Callable[[Array], Array], outer: Array, left_stretch: Array, right_stretch: Array | float, n: int
) -> tuple[Array, Array]:
    """Nodes u of the density exp(-drop), equidistant in w but for the tails, where du / dw is the stretch."""

    def place(w: Array) -> Array:
        left = (left_stretch - 1) * (log_expit(w + _BEND) - log_expit(_BEND))
        return w + left - (right_stretch - 1) * (log_expit(_BEND - w) - log_expit(_BEND))

    left, right = ends(lambda w: drop(place(w)), outer)
    w = left + np.multiply.outer(np.arange(n) / (n - 1), right - left)
    slope = 1 + (left_stretch - 1) * expit(-w - _BEND) + (right_stretch - 1) * expit(w - _BEND)
    u = place(w)
    return u, _normalised(np.log(slope) - drop(u))


def _normalised(log_weight: Array) -> Array:
    return log_weight - logsumexp(log_weight, axis=0)
