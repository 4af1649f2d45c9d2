"""Formulas that are written once, for NumPy on the host and for JAX inside compiled functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.special
import numpy as np
import scipy.special

State = tuple[Any, ...]


@dataclass(frozen=True)
class Arrays:
    """Functions of arrays of one kind."""

    np: Any
    """NumPy or `jax.numpy`."""
    ndtr: Callable[[Any], Any]
    """Standard normal cdf, accurate in the lower tail."""
    ndtri: Callable[[Any], Any]
    expit: Callable[[Any], Any]
    repeat: Callable[[Callable[[State], Any], Callable[[State], State], State], State]
    """`repeat(unfinished, step, state)`."""
    total: Callable[[Callable[[Any, Any], State], np.ndarray, np.ndarray], State]
    """Sums of `part(node, weight)` over the nodes and weights of a quadrature."""


def _repeat(unfinished: Callable[[State], Any], step: Callable[[State], State], state: State) -> State:
    with np.errstate(all="ignore"):
        while unfinished(state):
            state = step(state)
    return state


def _total(part: Callable[[Any, Any], State], nodes: np.ndarray, weights: np.ndarray) -> State:
    first, *others = (part(node, weight) for node, weight in zip(nodes, weights, strict=True))
    for values in others:
        first = tuple(a + b for a, b in zip(first, values, strict=True))
    return first


def _compiled_total(part: Callable[[Any, Any], State], nodes: np.ndarray, weights: np.ndarray) -> State:
    pairs = jnp.asarray(nodes), jnp.asarray(weights)

    def add(i: Any, sums: State) -> State:
        values = part(pairs[0][i], pairs[1][i])
        return tuple(a + b for a, b in zip(sums, values, strict=True))

    return jax.lax.fori_loop(1, len(nodes), add, part(pairs[0][0], pairs[1][0]))


HOST = Arrays(np, scipy.special.ndtr, scipy.special.ndtri, scipy.special.expit, _repeat, _total)
COMPILED = Arrays(
    jnp,
    lambda x: 0.5 * jax.scipy.special.erfc(-(0.5**0.5) * x),
    jax.scipy.special.ndtri,
    jax.nn.sigmoid,
    jax.lax.while_loop,
    _compiled_total,
)
