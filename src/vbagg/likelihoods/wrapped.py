"""A likelihood made of another one: everything that it does not change is that of the other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from vbagg import laws
from vbagg.bags import BagTable
from vbagg.kernels import Prior
from vbagg.likelihoods.base import Array, Facts, Learnt, Likelihood, Parameters
from vbagg.likelihoods.within import Terms


@dataclass(frozen=True)
class Wrapped(Likelihood):
    """The likelihood `of` outputs under other conditions, which subclasses say."""

    of: Likelihood
    shared: ClassVar[tuple[str, ...]] = (
        *("name", "links", "refused", "counts", "needs_trials", "individual_effect", "outputs", "rates_per"),
        "relative_spread",
    )

    def __post_init__(self) -> None:
        for name in self.shared:
            object.__setattr__(self, name, getattr(self.of, name))

    # what it is given, learns and accepts

    def priors(self) -> dict[str, Prior]:  # noqa: D102
        return self.of.priors()

    def facts(self, bags: BagTable, trials: np.ndarray | None, rate_scale: float = 1.0) -> Facts:  # noqa: D102
        return self.of.facts(bags, trials, rate_scale)

    def in_users_units(self, log_values: Any, rate_scale: float) -> Learnt:  # noqa: D102
        return self.of.in_users_units(log_values, rate_scale)

    def exposure(self, bags: BagTable, trials: np.ndarray | None) -> np.ndarray:  # noqa: D102
        return self.of.exposure(bags, trials)

    def check_outputs(self, y: np.ndarray, labels: Any, trials: np.ndarray | None) -> None:  # noqa: D102
        self.of.check_outputs(y, labels, trials)

    def check_approximation(self, name: str) -> None:  # noqa: D102
        self.of.check_approximation(name)

    # the density

    @property
    def numbers_per_output(self) -> int:  # noqa: D102
        return self.of.numbers_per_output

    def log_prob(self, y: Any, T: Any, facts: Facts, p: Parameters, spread: Any = 0.0) -> Array:  # noqa: D102
        return self.of.log_prob(y, T, facts, p, spread)

    def log_interval(  # noqa: D102
        self, lower: Any, upper: Any, T: Any, facts: Facts, p: Parameters, spread: Any, terms: Terms
    ) -> Array:
        return self.of.log_interval(lower, upper, T, facts, p, spread, terms)

    def mean(self, T: Any, facts: Facts, p: Parameters) -> Any:  # noqa: D102
        return self.of.mean(T, facts, p)

    def variance(self, T: Any, facts: Facts, p: Parameters) -> Any:  # noqa: D102
        return self.of.variance(T, facts, p)

    def unit_variance(self, M: Any, V: Any = 0.0) -> Any:  # noqa: D102
        return self.of.unit_variance(M, V)

    # prediction

    def predictive(self, total: laws.Law, facts: Facts, learnt: Learnt) -> laws.Law:  # noqa: D102
        return self.of.predictive(total, facts, learnt)

    def simulate(self, T: np.ndarray, facts: Facts, learnt: Learnt, rng: np.random.Generator) -> np.ndarray:  # noqa: D102
        return self.of.simulate(T, facts, learnt, rng)

    def support(self, facts: Facts) -> tuple[Any, Any]:  # noqa: D102
        return self.of.support(facts)

    # the bag's own effect

    def effect_spread(self, learnt: Learnt) -> float:  # noqa: D102
        return self.of.effect_spread(learnt)

    def without_effect(self, learnt: Learnt) -> Likelihood:  # noqa: D102
        return replace(self, of=self.of.without_effect(learnt))
