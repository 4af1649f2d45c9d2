"""Outputs of which a known share is reported, among people whose number is uncertain: MATH (18), (19).

The output of a bag comes from `c E T`: `c` is the share of what occurs that is reported, `E` the true weight of the bag
over the one that it was given, of mean one and variance `rho`. Both say how an output follows from a total. Neither is
part of the total, and so of the risk of individuals.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from vbagg import laws
from vbagg.likelihoods.base import Array, Facts, Learnt, Lemma1, Likelihood, Parameters
from vbagg.likelihoods.numerical import mixed_law
from vbagg.likelihoods.within import Terms
from vbagg.likelihoods.wrapped import Wrapped
from vbagg.matched import Matched

COMPLETENESS, EXPOSURE_SPREAD = "completeness", "exposure_spread"
"""Facts of a bag: the share `c` that is reported, and the variance `rho` of its true weight over the given one."""


@dataclass(frozen=True)
class Reported(Wrapped):
    """The likelihood `of` outputs, where bags may have the facts `completeness` and `exposure_spread`.

    A bag without them is reported in full, and its weight is exact. `uncertain` says whether weights of any may be off.
    """

    uncertain: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        # the variance of a Normal output then depends on its total
        for name, value in (("exact", self.of.exact and not self._varies), ("bounds", self.of.bounds)):
            object.__setattr__(self, name, value)

    @property
    def _varies(self) -> bool:
        """Whether the spread of what is reported depends on the total."""
        return self.uncertain and not self.relative_spread

    def check_approximation(self, name: str) -> None:  # noqa: D102
        if name == "bound" and self.uncertain:
            raise ValueError(
                "`approximation`='bound' does not go with `weight_sd`: it takes totals for known. Use 'matched',"
                " 'montecarlo' or 'taylor'."
            )
        super().check_approximation(name)

    # the density

    def log_prob(self, y: Any, T: Any, facts: Facts, p: Parameters, spread: Any = 0.0) -> Array:  # noqa: D102
        return self.of.log_prob(y, _share(facts) * T, facts, p, self._spread(T, facts, spread))

    def log_interval(  # noqa: D102
        self, lower: Any, upper: Any, T: Any, facts: Facts, p: Parameters, spread: Any, terms: Terms
    ) -> Array:
        spread = self._spread(T, facts, spread)
        return self.of.log_interval(lower, upper, _share(facts) * T, facts, p, spread, terms)

    def matched(  # noqa: D102
        self, y: Array, M: Array, V: Array, law: Matched, facts: Facts, p: Parameters, spread: Any = 0.0
    ) -> Array:
        if self._varies:
            return super().matched(y, M, V, law, facts, p, spread)
        c = _share(facts)
        return self.of.matched(y, c * M, c**2 * V, law, facts, p, self._spread(M, facts, spread))

    def bound(self, y: Array, M: Array, lower: Lemma1, facts: Facts, p: Parameters) -> Array:  # noqa: D102
        c = _share(facts)
        log_total = None if lower.log_total is None else lower.log_total + jnp.log(c)
        reciprocal = None if lower.reciprocal is None else lower.reciprocal / c
        return self.of.bound(y, c * M, replace(lower, log_total=log_total, reciprocal=reciprocal), facts, p)

    def fisher(self, T: Array, facts: Facts, p: Parameters, spread: Any = 0.0) -> Array:  # noqa: D102
        c = _share(facts)
        return c**2 * self.of.fisher(c * T, facts, p, self._spread(T, facts, spread))

    def mean(self, T: Any, facts: Facts, p: Parameters) -> Any:  # noqa: D102
        return self.of.mean(_share(facts) * T, facts, p)

    def variance(self, T: Any, facts: Facts, p: Parameters) -> Any:
        """That of the wrapped likelihood on average over `E`, and that of its mean, MATH (19).

        A variance is a polynomial of degree two in the total: its leading term follows from three of its values.
        """
        reported, rho = _share(facts) * T, facts.get(EXPOSURE_SPREAD, 0.0)
        none, once, twice = (self.of.variance(times * reported, facts, p) for times in (0, 1, 2))
        return once + rho * ((twice - 2 * once + none) / 2 + self.of.mean(reported, facts, p) ** 2)

    def _spread(self, T: Any, facts: Facts, spread: Any) -> Any:
        """Variance of `c E T` about `c T`, in the units of the wrapped likelihood: MATH (18)."""
        c, rho = _share(facts), facts.get(EXPOSURE_SPREAD, 0.0)
        if self.relative_spread:
            return spread + rho + spread * rho
        unit = self.of.unit_variance(T)
        return c**2 * (spread * unit * (1 + rho) + rho * T**2) / self.of.unit_variance(c * T)

    # prediction

    def predictive(self, total: laws.Law, facts: Facts, learnt: Learnt) -> laws.Law:  # noqa: D102
        c: Any = _share(facts)
        reported = type(total).from_moments(c * total.mean, (c * total.std) ** 2)  # type: ignore[attr-defined]
        if EXPOSURE_SPREAD not in facts:
            return self.of.predictive(reported, facts, learnt)
        found = self.of.predictive_with_error(reported, facts, learnt, facts[EXPOSURE_SPREAD])
        return mixed_law(self, total, facts, self.logs(learnt)) if found is None else found

    def simulate(self, T: np.ndarray, facts: Facts, learnt: Learnt, rng: np.random.Generator) -> np.ndarray:
        """Outputs for given totals; `E` follows a gamma distribution."""
        rho = np.broadcast_to(facts.get(EXPOSURE_SPREAD, 0.0), T.shape)
        shape = 1 / np.where(rho > 0, rho, 1.0)
        off = np.where(rho > 0, rng.gamma(shape) / shape, 1.0) if self.uncertain else 1.0
        return self.of.simulate(_share(facts) * T * off, facts, learnt, rng)


def _share(facts: Facts) -> Any:
    return facts.get(COMPLETENESS, 1.0)


def reported(likelihood: Likelihood, told: Facts) -> Likelihood:
    """The likelihood of outputs of bags of which these facts are `told`; what does not go with it is refused."""
    if not told:
        return likelihood
    if likelihood.needs_trials:
        word = "completeness" if COMPLETENESS in told else "weight_sd"
        reason = (
            "positives among those examined do not depend on how many of them are reported"
            if word == "completeness"
            else "the number examined is known, and weights only say where in a bag it counts"
        )
        raise ValueError(f"`{word}` does not go with likelihood {likelihood.name!r}: {reason}. Leave it out.")
    uncertain = EXPOSURE_SPREAD in told
    if isinstance(likelihood, Wrapped):
        return _within(likelihood, uncertain)
    return Reported(likelihood, uncertain)


def _within(likelihood: Wrapped, uncertain: bool) -> Likelihood:
    """The same, below what else has been done to a likelihood."""
    if isinstance(likelihood, Reported):
        return replace(likelihood, uncertain=likelihood.uncertain or uncertain)
    inner = likelihood.of
    inner = _within(inner, uncertain) if isinstance(inner, Wrapped) else Reported(inner, uncertain)
    return replace(likelihood, of=inner)
