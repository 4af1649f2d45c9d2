"""Likelihoods of a bag's output given its total `T`, and their expectations when `T` follows a matched law.

A likelihood is stateless and hashable; what it learns (`tau`, `dispersion`) arrives as log-parameters `p`, what is
known per bag (trials, variance factor, known dispersion) as `aux`. Adding one: subclass `Likelihood`, fill in the
methods, list it in `LIKELIHOODS`.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import digamma, gammaln

from vbagg import laws, special
from vbagg.errors import DataWarning, unknown_name

Array = jax.Array
Parameters = dict[str, Array]
Learnt = dict[str, float]
MATCHED_LAW = {"identity": "normal", "exp": "lognormal", "square": "gamma", "logistic": "beta"}
HERMITE_NODES, HERMITE_WEIGHTS = np.polynomial.hermite_e.hermegauss(32)
HERMITE_WEIGHTS = HERMITE_WEIGHTS / HERMITE_WEIGHTS.sum()


def expected_log_total(M: Array, V: Array, law: str) -> Array:
    """`E log T` of the matched law: gamma for the square link, log-normal for exp (MATH section 4)."""
    if law == "gamma":
        return jnp.log(M) + special.digamma_minus_log(M**2 / V)
    return jnp.log(M) - 0.5 * jnp.log1p(V / M**2)


@dataclass(frozen=True)
class Likelihood:
    """Density of a bag's output. `links` are the links it works with; `refused` says why others do not."""

    name: ClassVar[str]
    links: ClassVar[tuple[str, ...]]
    refused: ClassVar[dict[str, str]] = {}
    counts: ClassVar[bool] = False

    def start(self) -> dict[str, float]:
        """Starting values of the learnt parameters."""
        return {}

    def log_prob(self, y: Array, T: Array, aux: Array, p: Parameters) -> Array:
        """Log density of output `y` given the total."""
        raise NotImplementedError

    def fisher(self, T: Array, aux: Array, p: Parameters) -> Array:
        """Fisher information about `T`."""
        raise NotImplementedError

    def matched(self, y: Array, M: Array, V: Array, law: str, aux: Array, p: Parameters) -> Array:
        """`E log p(y | T)` when `T` follows the matched law with mean `M` and variance `V`."""
        raise NotImplementedError

    def bound(self, y: Array, M: Array, lower: Lemma1, aux: Array, p: Parameters) -> Array:
        """Lower bound of `E log p(y | T)` from expectations of single individuals (Lemma 1)."""
        raise NotImplementedError

    def predictive(self, M: np.ndarray, V: np.ndarray, link: str, aux: np.ndarray, p: Learnt) -> laws.Law:
        """Law of a new output of each bag: noise, and a new bag effect where there is one (MATH section 6)."""
        raise NotImplementedError

    def simulate(self, T: np.ndarray, aux: np.ndarray, p: Learnt, rng: np.random.Generator) -> np.ndarray:
        """Outputs drawn for given totals (s, b)."""
        raise NotImplementedError

    def check_outputs(self, y: np.ndarray, labels: Any, trials: np.ndarray | None) -> None:
        """Refuse outputs that the likelihood cannot have produced."""
        if self.counts:
            _check_counts(y, labels, self.name)

    def check_link(self, link: str) -> None:
        """Refuse a link that does not go with this likelihood, with the reason."""
        if link not in self.links:
            reason = self.refused.get(link, f"it works with {', '.join(map(repr, self.links))}")
            raise ValueError(f"`link`={link!r} does not go with likelihood {self.name!r}: {reason}.")


@dataclass(frozen=True)
class Lemma1:
    """Single-individual expectations that bounds are made of; filled in as far as the likelihood asks."""

    log_total: Any = None
    """`log sum_i w_i exp(E log Psi(f_i)) <= E log T`."""
    log_rest: Any = None
    """The same for `1 - T` of the logistic link."""
    reciprocal: Any = None
    """`1 / sum_i (w_i / E[1 / Psi(f_i)]) >= E[1/T]`."""


@dataclass(frozen=True)
class Poisson(Likelihood):
    """`y ~ Poisson(T)`."""

    name = "poisson"
    links = ("square", "exp")
    counts = True
    refused: ClassVar[dict[str, str]] = {
        "identity": "a Poisson mean cannot be negative; use 'square' or 'exp'",
        "logistic": "a rate is not bounded by one; use 'square' or 'exp'",
    }

    def log_prob(self, y: Array, T: Array, aux: Array, p: Parameters) -> Array:  # noqa: D102
        return jax.scipy.special.xlogy(y, T) - T - gammaln(y + 1)

    def fisher(self, T: Array, aux: Array, p: Parameters) -> Array:  # noqa: D102
        return 1 / T

    def matched(self, y: Array, M: Array, V: Array, law: str, aux: Array, p: Parameters) -> Array:  # noqa: D102
        return y * expected_log_total(M, V, law) - M - gammaln(y + 1)

    def bound(self, y: Array, M: Array, lower: Lemma1, aux: Array, p: Parameters) -> Array:  # noqa: D102
        return y * lower.log_total - M - gammaln(y + 1)

    def predictive(self, M: np.ndarray, V: np.ndarray, link: str, aux: np.ndarray, p: Learnt) -> laws.Law:  # noqa: D102
        kind = laws.NegativeBinomial if link == "square" else laws.PoissonLogNormal
        return kind.from_moments(M, V)

    def simulate(self, T: np.ndarray, aux: np.ndarray, p: Learnt, rng: np.random.Generator) -> np.ndarray:  # noqa: D102
        return rng.poisson(T).astype(float)


@dataclass(frozen=True)
class NegativeBinomial(Likelihood):
    """`Var y = T + dispersion T^2`: a Poisson with a gamma effect of mean 1 per bag.

    Parameters
    ----------
    dispersion
        Known dispersion; learnt when None.
    """

    dispersion: float | None = None
    name = "negative_binomial"
    links = ("exp", "square")
    counts = True
    refused: ClassVar[dict[str, str]] = Poisson.refused

    def __post_init__(self) -> None:
        if self.dispersion is not None and not self.dispersion > 0:
            raise ValueError(f"`dispersion` must be positive; got {self.dispersion!r}. Use 'poisson' for zero.")

    def start(self) -> dict[str, float]:  # noqa: D102
        return {} if self.dispersion is not None else {"dispersion": 0.3}

    def value(self, p: Parameters) -> Array:
        """The dispersion in force."""
        return jnp.exp(p["dispersion"]) if self.dispersion is None else jnp.asarray(self.dispersion)

    def _constant(self, y: Array, phi: Array) -> Array:
        return gammaln(y + 1 / phi) - gammaln(1 / phi) - gammaln(y + 1) + y * jnp.log(phi)

    def log_prob(self, y: Array, T: Array, aux: Array, p: Parameters) -> Array:  # noqa: D102
        phi = self.value(p)
        return self._constant(y, phi) + jax.scipy.special.xlogy(y, T) - (y + 1 / phi) * jnp.log1p(phi * T)

    def fisher(self, T: Array, aux: Array, p: Parameters) -> Array:  # noqa: D102
        return 1 / (T + self.value(p) * T**2)

    def matched(self, y: Array, M: Array, V: Array, law: str, aux: Array, p: Parameters) -> Array:  # noqa: D102
        phi = self.value(p)
        if law == "gamma":
            log1p = special.gamma_expectation_log1p(M, M**2 / V, phi)
        else:
            spread = jnp.log1p(V / M**2)
            log_T = (jnp.log(M) - spread / 2)[..., None] + jnp.sqrt(spread)[..., None] * HERMITE_NODES
            log1p = jax.nn.softplus(jnp.log(phi) + log_T) @ HERMITE_WEIGHTS
        return self._constant(y, phi) + y * expected_log_total(M, V, law) - (y + 1 / phi) * log1p

    def bound(self, y: Array, M: Array, lower: Lemma1, aux: Array, p: Parameters) -> Array:  # noqa: D102
        phi = self.value(p)
        return self._constant(y, phi) + y * lower.log_total - (y + 1 / phi) * jnp.log1p(phi * M)

    def predictive(self, M: np.ndarray, V: np.ndarray, link: str, aux: np.ndarray, p: Learnt) -> laws.Law:  # noqa: D102
        phi = float(self.dispersion or p["dispersion"])
        return laws.NegativeBinomial(M, M**2 / (V + phi * (V + M**2)))

    def simulate(self, T: np.ndarray, aux: np.ndarray, p: Learnt, rng: np.random.Generator) -> np.ndarray:  # noqa: D102
        size = 1 / float(self.dispersion or p["dispersion"])
        return rng.poisson(T * rng.gamma(size, 1 / size, T.shape)).astype(float)


@dataclass(frozen=True)
class Exponential(Likelihood):
    """`y` exponential with mean `T`."""

    name = "exponential"
    links = ("exp",)
    refused: ClassVar[dict[str, str]] = {
        "square": "E[1/f^2] is infinite for Gaussian f, and so is E[1/T] of a bag whose covariance has rank two"
        " or less, so the objective would not exist; use 'exp'",
        "identity": "an exponential mean cannot be negative; use 'exp'",
        "logistic": "a mean is not bounded by one; use 'exp'",
    }

    def log_prob(self, y: Array, T: Array, aux: Array, p: Parameters) -> Array:  # noqa: D102
        return -y / T - jnp.log(T)

    def fisher(self, T: Array, aux: Array, p: Parameters) -> Array:  # noqa: D102
        return 1 / T**2

    def matched(self, y: Array, M: Array, V: Array, law: str, aux: Array, p: Parameters) -> Array:  # noqa: D102
        return -y * (1 + V / M**2) / M - expected_log_total(M, V, law)

    def bound(self, y: Array, M: Array, lower: Lemma1, aux: Array, p: Parameters) -> Array:  # noqa: D102
        return -y * lower.reciprocal - jnp.log(M)

    def predictive(self, M: np.ndarray, V: np.ndarray, link: str, aux: np.ndarray, p: Learnt) -> laws.Law:  # noqa: D102
        return laws.ExponentialLogNormal.from_moments(M, V)

    def simulate(self, T: np.ndarray, aux: np.ndarray, p: Learnt, rng: np.random.Generator) -> np.ndarray:  # noqa: D102
        return rng.exponential(T)

    def check_outputs(self, y: np.ndarray, labels: Any, trials: np.ndarray | None) -> None:  # noqa: D102
        _check_nonnegative(y, labels, "an exponential output")


@dataclass(frozen=True)
class Normal(Likelihood):
    """`y ~ N(T, tau sum_i w_i^2)`.

    Parameters
    ----------
    tau
        Known variance per squared weight: a number, an array in label order or a Series by label; learnt when None.
    """

    tau: Any = field(default=None, compare=False)
    known: bool = field(init=False)
    name = "normal"
    links = ("identity",)

    def __post_init__(self) -> None:
        object.__setattr__(self, "known", self.tau is not None)

    def start(self) -> dict[str, float]:  # noqa: D102
        return {} if self.known else {"tau": 1.0}

    def variance(self, aux: Array, p: Parameters) -> Array:
        """Variance of each bag's output; `aux` is `sum w^2`, times the known `tau`."""
        return aux if self.known else aux * jnp.exp(p["tau"])

    def log_prob(self, y: Array, T: Array, aux: Array, p: Parameters) -> Array:  # noqa: D102
        s2 = self.variance(aux, p)
        return -0.5 * (jnp.log(2 * jnp.pi * s2) + (y - T) ** 2 / s2)

    def fisher(self, T: Array, aux: Array, p: Parameters) -> Array:  # noqa: D102
        return 1 / self.variance(aux, p)

    def matched(self, y: Array, M: Array, V: Array, law: str, aux: Array, p: Parameters) -> Array:  # noqa: D102
        return self.log_prob(y, M, aux, p) - V / (2 * self.variance(aux, p))

    def predictive(self, M: np.ndarray, V: np.ndarray, link: str, aux: np.ndarray, p: Learnt) -> laws.Law:  # noqa: D102
        return laws.Normal.from_moments(M, V + p.get("tau", 1.0) * aux)

    def simulate(self, T: np.ndarray, aux: np.ndarray, p: Learnt, rng: np.random.Generator) -> np.ndarray:  # noqa: D102
        return rng.normal(T, np.sqrt(p.get("tau", 1.0) * aux))


@dataclass(frozen=True)
class Binomial(Likelihood):
    """`y ~ Binomial(trials, T)`, `T` the weighted mean probability of the bag."""

    name = "binomial"
    links = ("logistic",)
    counts = True
    refused: ClassVar[dict[str, str]] = dict.fromkeys(
        ("identity", "exp", "square"), "a probability lies between zero and one; use 'logistic'"
    )

    def log_prob(self, y: Array, T: Array, aux: Array, p: Parameters) -> Array:  # noqa: D102
        xlogy, xlog1py = jax.scipy.special.xlogy, jax.scipy.special.xlog1py
        return self._constant(y, aux) + xlogy(y, T) + xlog1py(aux - y, -T)

    def _constant(self, y: Array, trials: Array) -> Array:
        return gammaln(trials + 1) - gammaln(y + 1) - gammaln(trials - y + 1)

    def fisher(self, T: Array, aux: Array, p: Parameters) -> Array:  # noqa: D102
        return aux / (T * (1 - T))

    def matched(self, y: Array, M: Array, V: Array, law: str, aux: Array, p: Parameters) -> Array:  # noqa: D102
        size = beta_size(M, V)
        log_T = digamma(M * size) - digamma(size)
        log_rest = digamma((1 - M) * size) - digamma(size)
        return self._constant(y, aux) + y * log_T + (aux - y) * log_rest

    def bound(self, y: Array, M: Array, lower: Lemma1, aux: Array, p: Parameters) -> Array:  # noqa: D102
        return self._constant(y, aux) + y * lower.log_total + (aux - y) * lower.log_rest

    def predictive(self, M: np.ndarray, V: np.ndarray, link: str, aux: np.ndarray, p: Learnt) -> laws.Law:  # noqa: D102
        return laws.BetaBinomial.from_moments(aux, M, V)

    def simulate(self, T: np.ndarray, aux: np.ndarray, p: Learnt, rng: np.random.Generator) -> np.ndarray:  # noqa: D102
        return rng.binomial(np.round(aux).astype(int), np.clip(T, 0.0, 1.0)).astype(float)

    def check_outputs(self, y: np.ndarray, labels: Any, trials: np.ndarray | None) -> None:  # noqa: D102
        super().check_outputs(y, labels, trials)
        if trials is None:
            raise ValueError("likelihood 'binomial' needs `trials`: the number examined in each bag.")
        _check_nonnegative(trials, labels, "`trials`")
        fractional = np.flatnonzero(trials != np.round(trials))
        if len(fractional):
            at = fractional[0]
            raise ValueError(f"`trials` must be whole numbers; got {trials[at]:g} for bag {labels[at]!r}. Round them.")
        above = np.flatnonzero(y > trials)
        if len(above):
            at = above[0]
            raise ValueError(
                f"`y` must not exceed `trials`; got y={y[at]:g}, trials={trials[at]:g} for bag {labels[at]!r}"
                f" ({len(above)} such bags)."
            )


def beta_size(M: Array, V: Array) -> Array:
    """`alpha + beta` of the beta law with mean `M` and variance `V`, the variance kept below `M (1 - M)`."""
    limit = M * (1 - M)
    return limit / jnp.minimum(V, 0.99 * limit) - 1


def _check_nonnegative(y: np.ndarray, labels: Any, what: str) -> None:
    bad = np.flatnonzero(y < 0)
    if len(bad):
        raise ValueError(
            f"{what} must not be negative; got {y[bad[0]]:g} for bag {labels[bad[0]]!r} ({len(bad)} such bags)."
        )


def _check_counts(y: np.ndarray, labels: Any, what: str) -> None:
    _check_nonnegative(y, labels, f"a count ({what})")
    fractional = np.flatnonzero(y != np.round(y))
    if len(fractional):
        at = fractional[0]
        warnings.warn(
            f"{len(fractional)} of {len(y)} counts ({what}) are not whole numbers (first: {y[at]:g} for bag"
            f" {labels[at]!r}); the density is continued by the gamma function.",
            DataWarning,
            stacklevel=4,
        )


LIKELIHOODS: dict[str, type[Likelihood]] = {
    kind.name: kind for kind in (Poisson, Normal, Exponential, NegativeBinomial, Binomial)
}


def get_likelihood(likelihood: str | Likelihood) -> Likelihood:
    """Return a likelihood from its name or pass an instance through."""
    if isinstance(likelihood, Likelihood):
        return likelihood
    if likelihood not in LIKELIHOODS:
        raise unknown_name("likelihood", likelihood, LIKELIHOODS)
    return LIKELIHOODS[likelihood]()
