"""Likelihoods of a bag's output given its total `T`. One file each; a line of `REGISTERED` makes one known by name.

A likelihood owns all that depends on it: which outputs are valid, what it must be told of each bag, what it learns and
its priors, the density given a total that is itself uncertain, prediction, simulation, and words for people.
`Likelihood` has a default for all but a log density and two moments.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from vbagg.errors import unknown_name

REGISTERED = {
    "poisson": "counts.Poisson",
    "normal": "normal.Normal",
    "exponential": "exponential.Exponential",
    "negative_binomial": "counts.NegativeBinomial",
    "binomial": "binomial.Binomial",
    "beta_binomial": "binomial.BetaBinomial",
    "zero_inflated_poisson": "zero_inflated.ZeroInflatedPoisson",
}
"""Module and class by name."""

if TYPE_CHECKING:
    from vbagg.likelihoods.base import Likelihood
    from vbagg.likelihoods.binomial import BetaBinomial, Binomial
    from vbagg.likelihoods.censored import Censored
    from vbagg.likelihoods.counts import NegativeBinomial, Poisson
    from vbagg.likelihoods.exponential import Exponential
    from vbagg.likelihoods.normal import Normal
    from vbagg.likelihoods.reported import Reported
    from vbagg.likelihoods.zero_inflated import ZeroInflatedPoisson

__all__ = [
    "REGISTERED",
    "BetaBinomial",
    "Binomial",
    "Censored",
    "Exponential",
    "Likelihood",
    "NegativeBinomial",
    "Normal",
    "Poisson",
    "Reported",
    "ZeroInflatedPoisson",
    "get_likelihood",
    "likelihood_classes",
]

_HOMES = {place.split(".")[1]: place.split(".")[0] for place in REGISTERED.values()} | {
    "Likelihood": "base",
    "Censored": "censored",
    "Reported": "reported",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'vbagg.likelihoods' has no attribute {name!r}")
    return getattr(import_module(f"vbagg.likelihoods.{_HOMES[name]}"), name)


def likelihood_classes() -> dict[str, type[Likelihood]]:
    """All likelihoods by name."""
    return {name: __getattr__(place.split(".")[1]) for name, place in REGISTERED.items()}


def get_likelihood(likelihood: str | Likelihood) -> Likelihood:
    """Return a likelihood from its name or pass an instance through."""
    if not isinstance(likelihood, str):
        return likelihood
    if likelihood not in REGISTERED:
        raise unknown_name("likelihood", likelihood, REGISTERED)
    return likelihood_classes()[likelihood]()
