"""Further outputs of a fit: of other bags, perhaps of another kind, that depend on the same latent function."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np

from vbagg.bags import Bags
from vbagg.elbo import Spec
from vbagg.inference.result import Fit
from vbagg.kernels import Prior
from vbagg.likelihoods import get_likelihood
from vbagg.likelihoods.base import Likelihood
from vbagg.links import Link, get_link
from vbagg.models.frame import Frame, check_is_bags
from vbagg.models.setup import TrainingData, further_data
from vbagg.numerals import rate, ratio
from vbagg.view import PLAIN, SLOPE, View

LEARNT = "learnt"
SLOPE_PRIOR = Prior(1.0, 0.5)
"""Of a learnt slope: both kinds of outputs are expected to follow the function about as strongly."""


@dataclass(frozen=True, eq=False)
class Observations:
    """Outputs of further bags, for `VBAgg.fit(..., also=[...])`: survey points beside districts, for example.

    Without a `likelihood` they are outputs as the model's own, of rates in the same units. With one of their own they
    share the latent function alone: theirs is `intercept + slope * f`.

    Parameters
    ----------
    bags
        With the columns of the model's own bags. A survey point is a bag of one individual.
    y, trials, upper
        Outputs, numbers examined and upper bounds, as in `fit`.
    likelihood
        Name or instance, as in `VBAgg`; None for the model's own, with its parameters and intercept.
    link
        Of a likelihood of their own; None for the first that it works with.
    slope
        A positive number, or `"learnt"`; of a likelihood of their own.
    offset
        Known term of their latent function per row of the data that made `bags`.
    name
        By which messages, `priors` and `observations_` call them; made up if not given.

    Notes
    -----
    What landmarks do not explain of the function, an effect of single individuals above all, is taken as independent
    between bags, also where an individual is in a bag of either kind.
    """

    bags: Bags
    y: Any
    likelihood: str | Likelihood | None = None
    link: str | None = None
    trials: Any = None
    slope: float | str = 1.0
    offset: Any = None
    upper: Any = None
    name: str | None = None

    def __post_init__(self) -> None:
        check_is_bags(self.bags)
        number = isinstance(self.slope, Real) and not isinstance(self.slope, bool) and 0 < self.slope < np.inf
        if self.slope != LEARNT and not number:
            raise ValueError(f"`slope` of Observations must be a positive number or 'learnt'; got {self.slope!r}.")
        if self.likelihood is None and (self.link is not None or self.slope != 1.0):
            raise ValueError(
                "`link` and `slope` of Observations go with a `likelihood` of their own; got none, which stands for"
                " that of the model, with its link and intercept. Name the likelihood, or leave them out."
            )
        if self.name is not None and not (isinstance(self.name, str) and self.name):
            raise ValueError(f"`name` of Observations must be some text; got {self.name!r}.")

    def own_likelihood(self, of_model: Likelihood, link_of_model: Link) -> tuple[Likelihood, Link]:
        """Their likelihood and link, refused if these do not go together, or with the model's."""
        if self.likelihood is None:
            return of_model, link_of_model
        likelihood = get_likelihood(self.likelihood)
        link = get_link(likelihood.links[0] if self.link is None else self.link)
        likelihood.check_link(link.name)
        if link.folded != link_of_model.folded:
            raise ValueError(
                f"`link`={link.name!r} of Observations does not go with the model's {link_of_model.name!r}: with"
                " 'square' f and -f have the same rate, with others they have not. Choose another link for one of them."
            )
        return likelihood, link


@dataclass(frozen=True)
class Kind:
    """Outputs of one kind in a fit, beside the model's own."""

    name: str
    spec: Spec
    data: TrainingData
    shares_all: bool
    """Whether likelihood, units and intercept are the model's."""

    def priors(self) -> dict[str, Prior]:
        """Of the parameters that it does not share, by their names among those of all kinds."""
        if self.shares_all:
            return {}
        own = dict(self.spec.likelihood.priors())
        if self.spec.view.slope is None:
            own[SLOPE] = SLOPE_PRIOR
        return {self.spec.view.prefix + name: prior for name, prior in own.items()}


def check_also(also: Any) -> tuple[Observations, ...]:
    """What `fit` was given, each with a name."""
    given = (also,) if isinstance(also, Observations) else tuple(also or ())
    for one in given:
        if not isinstance(one, Observations):
            raise TypeError(f"`also` must be a list of vbagg.Observations; got {type(one).__name__} in it.")
    named = [replace(one, name=one.name or f"observations {at}") for at, one in enumerate(given, 1)]
    twice = [name for name, times in Counter(one.name for one in named).items() if times > 1]
    if twice:
        raise ValueError(f"`name` of Observations must differ from those of others; got {twice[0]!r} more than once.")
    return tuple(named)


def number_of_means(also: Sequence[Observations]) -> int:
    """How many have an intercept of their own."""
    return sum(one.likelihood is not None for one in also)


def kinds_of(also: Sequence[Observations], spec: Spec, likelihood: Likelihood, frame: Frame) -> tuple[Kind, ...]:
    """Checked outputs of each kind, and how they see the function of a model with this likelihood and frame."""
    kinds, means = [], 0
    for one in also:
        assert one.name is not None
        own, link = one.own_likelihood(likelihood, spec.link)
        own.check_approximation("matched" if own.exact else spec.approximation)
        shares_all = one.likelihood is None
        try:
            data = further_data(
                one.bags, one.y, one.trials, one.offset, one.upper, own, None if shares_all else link, frame
            )
        except ValueError as error:
            raise ValueError(f"Observations {one.name!r}: {error}") from error
        view = PLAIN
        if not shares_all:
            slope = None if one.slope == LEARNT else float(one.slope)
            view, means = View(f"{one.name}.", means, link.mean_sd, slope), means + 1
        approximation = "matched" if own.exact else spec.approximation
        seen = replace(spec, likelihood=data.likelihood, link=link, approximation=approximation, view=view)
        kinds.append(Kind(one.name, seen, data, shares_all))
    return tuple(kinds)


@dataclass(frozen=True)
class FittedObservations:
    """What was learnt of one kind of further outputs.

    Attributes
    ----------
    name, n_bags, likelihood, link
        Which they are.
    intercept, intercept_sd
        Mean and sd of their latent function, in the units of their link (log odds for `logistic`), where the model's
        rate is the overall rate `rate_scale_`. None where they share the model's.
    slope
        By what the model's latent function is multiplied, at the best parameters.
    parameters
        Of their likelihood.
    """

    name: str
    n_bags: int
    likelihood: str
    link: str
    intercept: float | None
    intercept_sd: float | None
    slope: float
    parameters: Mapping[str, float]

    @classmethod
    def of(cls, kind: Kind, fit: Fit) -> FittedObservations:
        """From the fit at the best parameters."""
        spec, frame, p = kind.spec, kind.data.frame, fit.parameters.likelihood
        view, intercept, sd = spec.view, None, None
        if view.mean is not None:
            at = view.mean - spec.feature_map.own_means
            unit = spec.link.latent_unit(frame.rate_scale)
            mean = frame.base + view.mean_sd * float(fit.posterior.mu[at])
            intercept = unit * mean + spec.link.latent_shift(frame.rate_scale)
            sd = unit * view.mean_sd * float(np.linalg.norm(fit.posterior.factor[at]))
        slope = float(np.exp(p[view.prefix + SLOPE])) if view.slope is None else view.slope
        learnt = spec.likelihood.in_users_units(spec.own(p), frame.rate_scale)
        number = len(kind.data.outline)
        return cls(kind.name, number, spec.likelihood.name, spec.link.name, intercept, sd, slope, learnt)

    def __str__(self) -> str:
        text = f"{self.n_bags} outputs, {self.likelihood}"
        if self.intercept is None or self.intercept_sd is None:
            return f"{text}, intercept and parameters of the model"
        return f"{text}, intercept {rate(self.intercept)} (sd {ratio(self.intercept_sd)}), slope {rate(self.slope)}"
