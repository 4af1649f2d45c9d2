"""Log probabilities of intervals, MATH (16): sums over counts, differences of distribution functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Array = jax.Array
MOST_COUNTS = 512
"""Counts that a sum may have."""
TAIL = 64
"""Counts of an upper tail that are summed at least, before it is taken as geometric."""
SMALL_TAIL = 1e-6
"""Upper tails below it are summed; larger ones are one minus the rest."""
NEVER = -1e30
"""Log mass of what does not count; minus infinity has no slopes."""
STEEPEST, FLATTEST = 1e-300, 0.999
"""Ratios of neighbouring counts in a tail."""


@dataclass(frozen=True)
class Terms:
    """How many counts are summed: `inside` intervals, and `below` those that have no upper end."""

    inside: int = 1
    below: int = 0


def terms_needed(lower: np.ndarray, upper: np.ndarray, largest: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Counts to be summed inside each interval, and below it where that is less work: one of both is zero."""
    end = np.minimum(upper, largest)
    inside = end - lower + 1
    from_below = (upper >= largest) & (inside > lower)
    return np.where(from_below, 0, inside), np.where(from_below, lower, 0)


def log_sum_of_counts(
    log_mass: Callable[[Array], Array], lower: Array, upper: Array, largest: Any, terms: Terms
) -> Array:
    """`log P(lower <= Y <= upper)` of counts up to `largest`, summed along a new last axis.

    `log_mass` takes counts with that axis. An interval that has more than `terms.inside` counts is an upper tail: one
    minus the rest, or its first counts and a geometric series where that would cancel.
    """
    lower, upper = (jnp.asarray(end, float)[..., None] for end in (lower, upper))
    end = jnp.minimum(upper, jnp.asarray(largest, float)[..., None])
    counts = lower + np.arange(terms.inside)
    inside = counts <= end
    # beyond the end the last one stands in, where the mass exists
    found = jnp.maximum(log_mass(jnp.minimum(counts, end)), NEVER)
    total = jax.nn.logsumexp(jnp.where(inside, found, NEVER), axis=-1)
    if not terms.below:
        return total
    open_ = (end - lower + 1 > terms.inside)[..., 0]
    last, before = found[..., -1], found[..., -2]
    ratio = jnp.clip(jnp.exp(jnp.minimum(last - before, 0.0)), STEEPEST, FLATTEST)
    total = jnp.where(open_, jnp.logaddexp(total, last + jnp.log(ratio) - jnp.log1p(-ratio)), total)
    counts = jnp.broadcast_to(jnp.arange(float(terms.below)), (*lower.shape[:-1], terms.below))
    beneath = counts < lower
    rest = jnp.maximum(log_mass(jnp.minimum(counts, jnp.maximum(lower - 1, 0.0))), NEVER)
    rest = jax.nn.logsumexp(jnp.where(beneath, rest, NEVER), axis=-1)
    exact = open_ & (rest < np.log1p(-SMALL_TAIL))
    return jnp.where(exact, log_one_minus(jnp.where(exact, rest, -1.0)), total)


def log_one_minus(log_p: Array) -> Array:
    """`log(1 - p)` from `log p < 0`."""
    likely = log_p > -np.log(2.0)
    return jnp.where(
        likely, jnp.log(-jnp.expm1(jnp.where(likely, log_p, -0.1))), jnp.log1p(-jnp.exp(jnp.minimum(log_p, -0.5)))
    )


def log_difference(log_more: Array, log_less: Array) -> Array:
    """`log(exp(log_more) - exp(log_less))`."""
    return log_more + log_one_minus(log_less - log_more)
