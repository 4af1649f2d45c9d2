"""Sums that are the same in whatever parts and order their terms come: in twice the usual precision."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import jax
import numpy as np


class Exact(NamedTuple):
    """A tree of arrays, and what rounding has left out of each."""

    value: Any
    left_out: Any


def summed(parts: Iterable[Any]) -> Exact:
    """Sum of trees of arrays."""
    return _all_added(Exact(part, None) for part in parts)


def total(parts: Iterable[Exact]) -> Any:
    """Sum of sums, as a tree of arrays in double precision."""
    value, left_out = _all_added(parts)
    return jax.tree.map(lambda high, low: high + np.where(np.isfinite(low), low, 0.0), value, left_out)


def _all_added(parts: Iterable[Exact]) -> Exact:
    sums: list[list[np.ndarray]] = []
    structure = None
    for value, left_out in parts:
        structure = jax.tree.structure(value)
        leaves = [np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(value)]
        errors = [np.zeros(())] * len(leaves) if left_out is None else jax.tree.leaves(left_out)
        if not sums:
            sums = [[leaf, error] for leaf, error in zip(leaves, errors, strict=True)]
            continue
        for own, leaf, error in zip(sums, leaves, errors, strict=True):
            own[:] = _added(own[0], leaf, own[1] + error)
    assert structure is not None
    values, rests = zip(*sums, strict=True) if sums else ((), ())
    return Exact(jax.tree.unflatten(structure, values), jax.tree.unflatten(structure, rests))


def _added(one: np.ndarray, other: np.ndarray, left_out: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Knuth's sum of two numbers, which knows its own rounding error."""
    with np.errstate(invalid="ignore"):
        both = one + other
        part = both - one
        return both, left_out + ((one - (both - part)) + (other - part))
