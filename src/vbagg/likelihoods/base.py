"""What every likelihood offers; defaults by quadrature for all but a log density and two moments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from vbagg import laws
from vbagg.bags import BagTable
from vbagg.kernels import Prior
from vbagg.likelihoods.numerical import draw_outputs, mixed_law
from vbagg.likelihoods.within import Terms, log_sum_of_counts
from vbagg.matched import Matched

Array = jax.Array
Facts = dict[str, Any]
"""What is known of each bag besides its output, by name: arrays (b)."""
Parameters = dict[str, Array]
"""Logarithms of what a likelihood learns, by name."""
Learnt = dict[str, float]
"""The learnt values themselves, in the user's units."""


@dataclass(frozen=True)
class Lemma1:
    """Single-individual expectations that bounds are made of; filled in as far as the likelihood asks."""

    log_total: Any = None
    """`log sum_i w_i exp(E log Psi(f_i)) <= E log T`."""
    log_rest: Any = None
    """The same for `1 - T`."""
    reciprocal: Any = None
    """`1 / sum_i (w_i / E[1 / Psi(f_i)]) >= E[1/T]`."""


@dataclass(frozen=True)
class Likelihood:
    """Density of a bag's output given its total.

    Totals may be uncertain beyond what the landmarks explain. `spread` says how much: the variance of `T` in units of
    `unit_variance(T)`, so zero for a known total.
    """

    name: ClassVar[str]
    links: ClassVar[tuple[str, ...]]
    """Links it works with, the one for regressions on bag means first."""
    refused: ClassVar[dict[str, str]] = {}
    """Why others do not."""
    counts: ClassVar[bool] = False
    """Whether outputs are whole numbers."""
    needs_trials: ClassVar[bool] = False
    """Whether outputs are counts among `trials`, to which rates refer."""
    individual_effect: ClassVar[bool] = False
    """Whether the default kernel has an effect of each individual: real rates vary on their own."""
    outputs: ClassVar[str] = "values"
    """What outputs are, in words."""
    rates_per: ClassVar[float | None] = None
    """Customary unit of rates; None for a power of ten that makes them legible."""
    bounds: ClassVar[tuple[str, ...]] = ()
    """Expectations of `Lemma1` that `bound` needs."""
    relative_spread: ClassVar[bool] = True
    """Whether a spread is relative to the squared total, so that it stays the same where totals are multiplied."""
    exact: ClassVar[bool] = False
    """Whether `matched` is exact, so that no other approximation is needed."""
    bounded: ClassVar[bool] = False
    """Whether some outputs are known within bounds only: they may tell nothing near the mean, and much farther out."""

    # what it is given, learns and accepts

    def priors(self) -> dict[str, Prior]:
        """Prior of each learnt parameter, in the units of training; its median is where learning starts."""
        return {}

    def facts(self, bags: BagTable, trials: np.ndarray | None, rate_scale: float = 1.0) -> Facts:
        """What is known of each bag, in units in which weights are multiplied by `rate_scale`."""
        return {"trials": trials} if self.needs_trials else {}

    def in_users_units(self, log_values: Any, rate_scale: float) -> Learnt:
        """Learnt parameters from their logarithms in the units of training."""
        return {name: float(np.exp(value)) for name, value in log_values.items()}

    def exposure(self, bags: BagTable, trials: np.ndarray | None) -> np.ndarray:
        """What outputs are divided by to give rates (b)."""
        return bags.totals() if trials is None else trials

    def exposed(self, population: str) -> str:
        """What rates are relative to, in words, where weights are a `population`."""
        return "trials" if self.needs_trials else population

    def moment_estimate(self, y: np.ndarray, T: np.ndarray, facts: Facts, spent: float) -> Learnt | None:
        """Learnt values from outputs with known totals, `spent` degrees of freedom gone; None if likeliest is best."""
        return None

    def check_outputs(self, y: np.ndarray, labels: Any, trials: np.ndarray | None) -> None:
        """Refuse outputs that the likelihood cannot have produced."""

    def check_trials(self, trials: Any) -> None:
        """Refuse trials where they have no meaning, and their absence where they are needed."""
        if self.needs_trials and trials is None:
            raise ValueError(f"likelihood {self.name!r} needs `trials`: the number examined in each bag.")
        if trials is not None and not self.needs_trials:
            raise ValueError(f"`trials` goes with likelihood 'binomial'; got it with {self.name!r}.")

    def check_link(self, link: str) -> None:
        """Refuse a link that does not go with this likelihood, with the reason."""
        if link not in self.links:
            reason = self.refused.get(link, f"it works with {', '.join(map(repr, self.links))}")
            raise ValueError(f"`link`={link!r} does not go with likelihood {self.name!r}: {reason}.")

    def check_approximation(self, name: str) -> None:
        """Refuse an approximation that does not go with this likelihood, with the reason."""

    # the density

    def log_prob(self, y: Any, T: Any, facts: Facts, p: Parameters, spread: Any = 0.0) -> Array:
        """Log density of an output given its total, MATH (12)."""
        raise NotImplementedError

    def log_interval(
        self, lower: Any, upper: Any, T: Any, facts: Facts, p: Parameters, spread: Any, terms: Terms
    ) -> Array:
        """Log probability that an output lies from `lower` to `upper`, ends included, MATH (16): a sum over counts."""
        if not self.counts:
            raise ValueError(
                f"`upper` does not go with likelihood {self.name!r}, whose probability of an interval is not known."
                " Give exact outputs, or NaN for those that are not."
            )
        each = {name: jnp.asarray(values)[..., None] for name, values in facts.items()}
        T, spread = jnp.asarray(T)[..., None], jnp.asarray(spread)[..., None]
        largest = self.support(facts)[1]
        return log_sum_of_counts(lambda y: self.log_prob(y, T, each, p, spread), lower, upper, largest, terms)

    @property
    def numbers_per_output(self) -> int:
        """About how many densities `log_prob` works out for one."""
        return 1

    def mean(self, T: Any, facts: Facts, p: Parameters) -> Any:
        """Expected output; linear in `T`."""
        return T

    def variance(self, T: Any, facts: Facts, p: Parameters) -> Any:
        """Variance of an output given its total."""
        raise NotImplementedError

    def unit_variance(self, M: Any, V: Any = 0.0) -> Any:
        """Variance that is a `spread` of one, on average over totals of mean `M` and variance `V`."""
        return M**2 + V

    def fisher(self, T: Array, facts: Facts, p: Parameters, spread: Any = 0.0) -> Array:
        """Information about `T`: squared slope of the mean over the variance."""
        slope = jax.jvp(lambda T: self.mean(T, facts, p), (T,), (jnp.ones_like(T),))[1]
        return slope**2 / (self.variance(T, facts, p) + slope**2 * spread * self.unit_variance(T))

    def information(
        self, T: Array, M: Array, V: Array, link: Any, facts: Facts, p: Parameters, spread: Any = 0.0
    ) -> Array:
        """What outputs tell about totals near `T` to a posterior by which these have the mean `M` and variance `V`."""
        return self.fisher(T, facts, p, spread)

    def matched(
        self, y: Array, M: Array, V: Array, law: Matched, facts: Facts, p: Parameters, spread: Any = 0.0
    ) -> Array:
        """`E log p(y | T)` when `T` follows the matched distribution with mean `M` and variance `V`."""
        T, weight = law.nodes(M, V)
        several = {name: value[..., None] for name, value in facts.items()}
        spread = jnp.broadcast_to(spread, M.shape)[..., None]
        return jnp.sum(weight * self.log_prob(y[..., None], T, several, p, spread), axis=-1)

    def bound(self, y: Array, M: Array, lower: Lemma1, facts: Facts, p: Parameters) -> Array:
        """Lower bound of `E log p(y | T)` from expectations of single individuals (Lemma 1)."""
        raise NotImplementedError(
            f"approximation 'bound' is not known for likelihood {self.name!r}; use 'matched' or 'montecarlo'"
        )

    # prediction

    def predictive(self, total: laws.Law, facts: Facts, learnt: Learnt) -> laws.Law:
        """Distribution of a new output of each bag whose total follows `total`: noise, and a new bag effect."""
        return mixed_law(self, total, facts, self.logs(learnt))

    def predictive_with_error(self, total: laws.Law, facts: Facts, learnt: Learnt, rho: np.ndarray) -> laws.Law | None:
        """The same where totals are multiplied by an error of mean one and variance `rho`; None for quadrature."""
        return None

    def simulate(self, T: np.ndarray, facts: Facts, learnt: Learnt, rng: np.random.Generator) -> np.ndarray:
        """Outputs drawn for given totals (s, b)."""
        return draw_outputs(self, T, facts, self.logs(learnt), rng)

    def logs(self, learnt: Learnt) -> Parameters:
        """Logarithms of learnt values."""
        return {name: np.log(value) for name, value in learnt.items()}

    def support(self, facts: Facts) -> tuple[Any, Any]:
        """Least and largest output."""
        return (0.0 if self.counts else -np.inf), facts.get("trials", np.inf)

    @property
    def may_be_negative(self) -> bool:
        """Whether outputs may be."""
        return float(self.support({})[0]) < 0

    # the bag's own effect

    def effect_spread(self, learnt: Learnt) -> float:
        """Spread of the bag's own effect on its total, part of the output's variance; zero where it has none."""
        return 0.0

    def without_effect(self, learnt: Learnt) -> Likelihood:
        """The same likelihood given the total with the bag's effect in it."""
        return self
