"""Positives among trials: binomial, and the beta-binomial whose bags have a probability of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln

from vbagg import laws
from vbagg.kernels import Prior
from vbagg.likelihoods.base import Array, Facts, Learnt, Lemma1, Likelihood, Parameters
from vbagg.likelihoods.checks import check_counts, check_trials
from vbagg.special import log_rising

SMALLEST, LARGEST = 1e-12, 0.99
"""Correlations between the trials of a bag beyond which the density is not followed."""


@dataclass(frozen=True)
class Binomial(Likelihood):
    """`y ~ Binomial(trials, T)`, `T` the weighted mean probability of the bag."""

    name = "binomial"
    links = ("logistic",)
    counts = True
    needs_trials = True
    individual_effect = True
    outputs = "counts"
    rates_per = 100.0
    relative_spread = False
    bounds: ClassVar[tuple[str, ...]] = ("log_total", "log_rest")
    refused: ClassVar[dict[str, str]] = dict.fromkeys(
        ("identity", "exp", "square"), "a probability lies between zero and one; use 'logistic'"
    )

    def check_outputs(self, y: np.ndarray, labels: Any, trials: np.ndarray | None) -> None:  # noqa: D102
        check_counts(y, labels, self.name)
        self.check_trials(trials)
        assert trials is not None
        check_trials(y, labels, trials)

    def correlation(self, p: Parameters) -> Any:
        """Correlation between the trials of a bag that its own effect makes."""
        return 0.0

    def unit_variance(self, M: Any, V: Any = 0.0) -> Any:
        """Largest variance of a probability."""
        return M * (1 - M) - V

    def log_prob(self, y: Any, T: Any, facts: Facts, p: Parameters, spread: Any = 0.0) -> Array:
        """Log mass of a beta-binomial whose trials are correlated by the bag's effect and by the `spread`."""
        own = self.correlation(p)
        correlation = jnp.clip(own + spread - own * spread, SMALLEST, LARGEST)
        trials, size = facts["trials"], 1 / correlation - 1
        T = _inside(T)
        constant = gammaln(trials + 1) - gammaln(y + 1) - gammaln(trials - y + 1)
        likely = jax.scipy.special.xlogy(y, T) + jax.scipy.special.xlog1py(trials - y, -T)
        clumped = log_rising(y, T * size) + log_rising(trials - y, (1 - T) * size) - log_rising(trials, size)
        return constant + likely + clumped

    def mean(self, T: Any, facts: Facts, p: Parameters) -> Any:  # noqa: D102
        return facts["trials"] * T

    def variance(self, T: Any, facts: Facts, p: Parameters) -> Any:  # noqa: D102
        trials = facts["trials"]
        return trials * T * (1 - T) * (1 + (trials - 1) * self.correlation(p))

    def bound(self, y: Array, M: Array, lower: Lemma1, facts: Facts, p: Parameters) -> Array:  # noqa: D102
        trials = facts["trials"]
        constant = gammaln(trials + 1) - gammaln(y + 1) - gammaln(trials - y + 1)
        return constant + y * lower.log_total + (trials - y) * lower.log_rest

    def predictive(self, total: laws.Law, facts: Facts, learnt: Learnt) -> laws.Law:  # noqa: D102
        return laws.BetaBinomial.from_moments(facts["trials"], total.mean, total.std**2)

    def simulate(self, T: np.ndarray, facts: Facts, learnt: Learnt, rng: np.random.Generator) -> np.ndarray:  # noqa: D102
        return rng.binomial(np.round(facts["trials"]).astype(int), np.clip(T, 0.0, 1.0)).astype(float)


def _inside(T: Any) -> Array:
    """Probabilities that rounding took to zero or one, next to it: their logarithms exist."""
    limits = jnp.finfo(jnp.result_type(T, float))
    return jnp.clip(T, limits.tiny, 1 - limits.epsneg)


@dataclass(frozen=True)
class BetaBinomial(Binomial):
    """A binomial whose bags have a probability of their own around `T`: trials of a bag go together.

    Learns `correlation_odds`, the correlation between two trials of a bag over its distance from one.
    """

    name = "beta_binomial"
    bounds = ()

    def priors(self) -> dict[str, Prior]:  # noqa: D102
        return {"correlation_odds": Prior(0.05, 1.5)}

    def correlation(self, p: Parameters) -> Any:  # noqa: D102
        return jax.nn.sigmoid(p["correlation_odds"])

    def bound(self, y: Array, M: Array, lower: Lemma1, facts: Facts, p: Parameters) -> Array:  # noqa: D102
        return Likelihood.bound(self, y, M, lower, facts, p)

    def predictive(self, total: laws.Law, facts: Facts, learnt: Learnt) -> laws.Law:  # noqa: D102
        return Likelihood.predictive(self, total, facts, learnt)

    def simulate(self, T: np.ndarray, facts: Facts, learnt: Learnt, rng: np.random.Generator) -> np.ndarray:  # noqa: D102
        size = 1 / learnt["correlation_odds"]
        T = np.clip(T, 1e-12, 1 - 1e-12)
        return super().simulate(rng.beta(T * size, (1 - T) * size), facts, learnt, rng)

    def effect_spread(self, learnt: Learnt) -> float:  # noqa: D102
        odds = learnt["correlation_odds"]
        return odds / (1 + odds)

    def without_effect(self, learnt: Learnt) -> Likelihood:  # noqa: D102
        return Binomial()
