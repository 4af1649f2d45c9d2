"""Outputs of which some are known within bounds only: `lower <= Y <= upper`, MATH (16)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from vbagg.likelihoods.base import Array, Facts, Lemma1, Likelihood, Parameters
from vbagg.likelihoods.within import MOST_COUNTS, TAIL, Terms, terms_needed
from vbagg.likelihoods.wrapped import Wrapped
from vbagg.matched import Matched

ROOM = 4_000_000
"""Numbers that expectations of several bags may hold at once."""
LOWER, UPPER = "lower", "upper"
"""Facts of a bag: bounds of its output, the same where it is known."""


@dataclass(frozen=True)
class Censored(Wrapped):
    """The likelihood `of` outputs, where bags have the facts `lower` and `upper` that of an output in between.

    Everything else is that of the outputs themselves.
    """

    terms: Terms = field(default_factory=Terms)
    bounded: ClassVar[bool] = True

    @property
    def numbers_per_output(self) -> int:  # noqa: D102
        return self.terms.inside + self.terms.below

    # the density

    def log_prob(self, y: Any, T: Any, facts: Facts, p: Parameters, spread: Any = 0.0) -> Array:  # noqa: D102
        exact = self.of.log_prob(y, T, facts, p, spread)
        if UPPER not in facts:
            return exact
        return jnp.where(facts[UPPER] > facts[LOWER], self._log_interval(T, facts, p, spread), exact)

    def matched(  # noqa: D102
        self, y: Array, M: Array, V: Array, law: Matched, facts: Facts, p: Parameters, spread: Any = 0.0
    ) -> Array:
        exact = self.of.matched(y, M, V, law, facts, p, spread)
        T, weight = law.nodes(M, V)
        spread = jnp.broadcast_to(spread, M.shape)
        if T.size * self.numbers_per_output > ROOM:
            each = max(1, ROOM // (T.shape[-1] * self.numbers_per_output))
            one = jax.checkpoint(lambda own: self._log_interval(own[0], own[1], p, own[2]))
            within = jax.lax.map(one, (T, facts, spread), batch_size=each)
        else:
            several = {name: value[..., None] for name, value in facts.items()}
            within = self._log_interval(T, several, p, spread[..., None])
        return jnp.where(facts[UPPER] > facts[LOWER], jnp.sum(weight * within, axis=-1), exact)

    def bound(self, y: Array, M: Array, lower: Lemma1, facts: Facts, p: Parameters) -> Array:  # noqa: D102
        self.check_approximation("bound")
        raise AssertionError

    def fisher(self, T: Array, facts: Facts, p: Parameters, spread: Any = 0.0) -> Array:
        """Information about `T`, less what the place inside the interval would have told: MATH (17)."""
        full = self.of.fisher(T, facts, p, spread)
        if UPPER not in facts:
            return full

        def expected(T: Array) -> Array:
            slope = jax.grad(lambda T: jnp.sum(self._log_interval(T, facts, p, spread)))(T)
            return slope / self.of.fisher(T, facts, p, spread)

        change = jax.jvp(expected, (T,), (jnp.ones_like(T),))[1]
        return jnp.where(facts[UPPER] > facts[LOWER], jnp.clip(-full * change, 0.0, full), full)

    def information(
        self, T: Array, M: Array, V: Array, link: Any, facts: Facts, p: Parameters, spread: Any = 0.0
    ) -> Array:
        """`fisher`, of an interval on average over its total: MATH (17b)."""
        full = self.fisher(T, facts, p, spread)
        if UPPER not in facts:
            return full
        nodes, weight = link.matched.nodes(M, V)
        weight = jnp.moveaxis(jnp.broadcast_to(weight, nodes.shape), -1, 0)

        def about_coordinate(T: Array) -> Array:
            return self.fisher(T, facts, p, spread) / link.coordinate_slope(T) ** 2

        average = jnp.sum(weight * jax.lax.map(about_coordinate, jnp.moveaxis(nodes, -1, 0)), axis=0)
        return jnp.where(facts[UPPER] > facts[LOWER], average * link.coordinate_slope(T) ** 2, full)

    def _log_interval(self, T: Any, facts: Facts, p: Parameters, spread: Any) -> Array:
        return self.of.log_interval(facts[LOWER], facts[UPPER], T, facts, p, spread, self.terms)

    def check_approximation(self, name: str) -> None:  # noqa: D102
        if name in ("taylor", "bound"):
            raise ValueError(
                f"`approximation`={name!r} does not go with `upper`: it needs the density of an output, and an interval"
                " has a probability that is no function of these expectations. Use 'matched' or 'montecarlo'."
            )


def censored(
    likelihood: Likelihood, lower: np.ndarray, upper: np.ndarray, labels: np.ndarray, facts: Facts
) -> tuple[Likelihood, Facts]:
    """The likelihood of outputs within these bounds, and further facts that it needs of each bag."""
    hidden = upper > lower
    if not hidden.any():
        return likelihood, {}
    terms = Terms()
    if likelihood.counts:
        largest = np.broadcast_to(likelihood.support(facts)[1], lower.shape)
        inside, below = (np.where(hidden, number, 1) for number in terms_needed(lower, upper, largest))
        most = np.maximum(inside, below)
        if most.max() > MOST_COUNTS:
            at = int(np.argmax(most))
            what = "of fewer counts" if inside[at] else "of at least fewer counts"
            raise ValueError(
                f"an interval of counts must be {what}, {MOST_COUNTS} at most; got {most[at]:g} of them for bag"
                f" {labels[at]!r}: {lower[at]:g} to {upper[at]:g}. Narrow it, or give NaN for `y` there."
            )
        open_ends = below[hidden].max() > 0
        terms = Terms(_rounded(max(inside.max(), TAIL * open_ends)), _rounded(below[hidden].max()) if open_ends else 0)
        upper = np.where(np.isfinite(upper) & (inside > 0), upper, np.inf)
    bounds = {LOWER: lower, UPPER: upper}
    made = Censored(likelihood, terms)
    some = {name: values[hidden][:1] for name, values in (facts | bounds).items()}
    with jax.enable_x64(True):
        logs = dict.fromkeys(made.priors(), jnp.zeros(()))
        # refused here by likelihoods that know of no intervals
        jax.eval_shape(lambda: made._log_interval(np.ones(1), some, logs, 0.1))
    return made, bounds


def _rounded(number: float) -> int:
    """As many, or a power of two, so that few different functions are compiled."""
    number = max(int(number), 1)
    return number if number <= 8 else 1 << (number - 1).bit_length()
