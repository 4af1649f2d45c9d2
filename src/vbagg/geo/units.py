"""Words for what is predicted: units of rates and counts, and names of a model's parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from vbagg.errors import unknown_name
from vbagg.geo.exposure import WEIGHED
from vbagg.likelihoods import get_likelihood
from vbagg.likelihoods.base import Likelihood
from vbagg.links import Link, get_link
from vbagg.numerals import given
from vbagg.texts import texts_in


@dataclass(frozen=True)
class Units:
    """Units of rates and counts.

    Parameters
    ----------
    response
        Column of the observed totals, which names what is counted.
    per
        Rates are given per so many units of exposure.
    exposure
        "population", "area" or "expected".
    likelihood
        Name of the likelihood, None if rates are relative to the exposure.
    """

    response: str
    per: float
    exposure: str
    likelihood: str | None = None

    def __post_init__(self) -> None:
        if not self.per > 0:
            raise ValueError(f"`per` must be positive; got {self.per!r}. Rates per 1000 people have `per=1000`.")

    @property
    def weighed(self) -> str:
        """What cells hold: people, square kilometres, or expected counts."""
        return texts_in().noun(WEIGHED[self.exposure])

    @property
    def exposed(self) -> str:
        """What rates are relative to: that, or trials."""
        return texts_in().noun(self._base)

    @property
    def has_counts(self) -> bool:
        """Whether cells have expected counts: not in models of trials, since trials of cells are unknown."""
        return self._base == WEIGHED[self.exposure]

    @property
    def is_relative(self) -> bool:
        """Whether rates are relative risks."""
        return self._base == WEIGHED["expected"]

    @property
    def rate(self) -> str:
        """Such as "cases per 1000 people"; of expected counts, rates are relative risks."""
        say, per = texts_in(), given(self.per)
        if not self.is_relative:
            return say("units.rate", response=self.response, per=per, exposed=self.exposed)
        risk = say("units.risk", response=self.response)
        return risk if self.per == 1 else say("units.times", per=per, risk=risk)

    @property
    def count(self) -> str:
        """Such as "cases per cell"."""
        return texts_in()("units.cell", what=self.response)

    @property
    def _base(self) -> str:
        weighed = WEIGHED[self.exposure]
        return weighed if self.likelihood is None else get_likelihood(self.likelihood).exposed(weighed)


def usual_per(exposure: str, per: float) -> float:
    """What rates are given per: `per`, but for relative risks, which are given as they are."""
    return 1.0 if exposure == "expected" else per


def units_of(prepared: Any, response: str | None, per: float, likelihood: str | None = None) -> Units:
    """Units of a response of prepared data, by default the first, in a model with this likelihood.

    On new ground nothing was observed: prepared data of it have no responses.
    """
    response = prepared.responses[0] if response is None else response
    if prepared.responses and response not in prepared.responses:
        raise unknown_name("response", response, prepared.responses)
    return Units(response, per, prepared.exposure, likelihood)


def likelihood_of(model: Any) -> Likelihood:
    """A model's likelihood."""
    return get_likelihood(model.get_params()["likelihood"])


def link_of(model: Any) -> Link:
    """A model's link; that of a regression with its likelihood if it has none of its own."""
    return get_link(model.get_params().get("link") or likelihood_of(model).links[0])
