"""Responses: whether they are totals, whether they fit the likelihood, and which stand out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from vbagg.bags import Bags
from vbagg.doctor.findings import Gathered, Level
from vbagg.doctor.overlaid import Overlaid
from vbagg.doctor.words import number
from vbagg.geo.exposure import WEIGHED
from vbagg.geo.files import some
from vbagg.geo.grid import Floats
from vbagg.geo.observed_totals import FEWEST, Totals
from vbagg.likelihoods import get_likelihood
from vbagg.likelihoods.censored import censored
from vbagg.models.notes import claim_of_exactness
from vbagg.numerals import count, given, rate, ratio

if TYPE_CHECKING:
    from vbagg.workflow.settings import Model

MANY = 0.2
"""Part of the polygons whose totals are missing, or suppressed, from which on that must be looked at."""
ENOUGH = 10
"""Polygons that are needed to say what is usual."""
FAR = 5.0
"""Robust standard deviations from which on a rate stands out."""
LEAST_SPREAD = 0.05
"""Standard deviation of log rates that is taken for granted."""
LOW = 0.05
"""Quantile of the other rates that counts as a low rate."""
EXPECTED = 10.0
"""Cases at a low rate from which on none is strange."""
SPREAD_PEOPLE = 0.3
"""Standard deviation of log populations from which on totals should follow them."""
RATE_LIKE = 1000.0
"""Rates are rarely given per more people than makes them smaller than this."""


@dataclass(frozen=True)
class Response:
    """A response in polygons that have exposure.

    Attributes
    ----------
    name, where
        The column, and the file with it.
    y, per
        Totals, and what they are totals of: people, square kilometres, or trials.
    unit
        What `per` is, in a word.
    labels
        Ids of the polygons.
    base
        What rates are relative to: `per`, times the share that is reported.
    """

    name: str
    where: str
    y: Floats
    per: Floats
    unit: str
    labels: NDArray[np.object_]
    base: Floats

    @property
    def file(self) -> str:
        """The file."""
        return self.where.partition(",")[0]

    @cached_property
    def scores(self) -> Floats:
        """Robust standard deviations from the usual log rate, given the noise of small counts; NaN for zeros."""
        positive = self.y > 0
        log_rate = np.full(self.y.shape, np.nan)
        log_rate[positive] = np.log(self.y[positive] / self.base[positive])
        off = log_rate - np.median(log_rate[positive])
        spread = 1.4826 * np.median(np.abs(off[positive]))
        return off / np.sqrt(spread**2 + LEAST_SPREAD**2 + 1 / np.maximum(self.y, 1.0))

    def say(
        self, found: Gathered, code: str, text: str, which: NDArray[np.intp] | None = None, level: Level = "warning"
    ) -> None:
        """Take down a finding about all or some polygons."""
        polygons = () if which is None else self.labels[which].tolist()
        found.add(level, code, f"{self.file}: {text}", self.where, polygons)

    def named(self, which: NDArray[np.intp]) -> str:
        """The first few of these polygons with their totals."""
        shown = [f"{self.labels[i]!r} ({count(self.y[i])} {self.name}, {rate(self.per[i])} {self.unit})" for i in which]
        return some(shown, quote=False)


def check_responses(laid: Overlaid, model: Model | None, usable_trials: bool, found: Gathered) -> None:
    """Look at every response, as a total of trials where these are usable, and at its gaps."""
    for name in laid.responses:
        where = f"{laid.polygons.file_of(name)}, column {name}"
        totals = laid.polygons.totals(name)
        used = laid.totals > 0
        _say_gaps(laid, name, totals, found)
        if used.any() and not _has_enough(laid, name, totals, used, found):
            continue
        if not _any(totals.most[used if used.any() else ...]):
            which = "every polygon" if not _any(totals.most) else f"every polygon that has {laid.kind}"
            text = (
                f"{laid.polygons.path_of(name)}: the response {name!r} must not be 0 in {which}. Name the right column."
            )
            found.add("error", "response", text, where)
            continue
        _check_bounds(laid, name, totals, model, usable_trials, found)
        if not totals.known.any():
            continue
        _check_whole(laid, name, totals.exact, model, found)
        _check_exactness(laid, name, totals.exact, model, found)
        response = _response(laid, name, totals.exact, model, usable_trials)
        if response is not None and (response.y < 0).any():
            _check_far(response, found)
        elif response is not None:
            _check_kind(response, found)
            _check_outliers(response, found)


def _any(totals: Floats) -> bool:
    """Whether any is known and not zero."""
    return bool(np.nan_to_num(totals).any())


def _say_gaps(laid: Overlaid, name: str, totals: Totals, found: Gathered) -> None:
    """How many totals are missing or suppressed."""
    file = laid.polygons.file_of(name)
    for gap in totals.gaps(name, file, laid.labels.tolist()):
        level: Level = "warning" if gap.which.size > MANY * len(totals.least) else "advice"
        polygons = laid.labels[gap.which].tolist()
        found.add(level, f"{gap.kind}-totals", gap.text, f"{file}, column {name}", polygons)


def _has_enough(laid: Overlaid, name: str, totals: Totals, used: NDArray[np.bool_], found: Gathered) -> bool:
    """Whether a fit has totals to learn from in polygons with exposure."""
    number = int((used & ~totals.missing).sum())
    if number >= min(FEWEST, len(used)) or not totals.missing.any():
        return True
    text = (
        f"{laid.polygons.path_of(name)}: the response {name!r} must be known in at least {FEWEST} polygons that have "
        f"{laid.kind}; it is in {number or 'none'}. Fill it in, or check the {laid.kind} there."
    )
    found.add("error", "response", text, f"{laid.polygons.file_of(name)}, column {name}")
    return False


def _check_bounds(
    laid: Overlaid, name: str, totals: Totals, model: Model | None, usable_trials: bool, found: Gathered
) -> None:
    """Bounds must be such that the likelihood can work out how probable they are."""
    hidden = totals.suppressed
    if model is None or not hidden.any():
        return
    likelihood = get_likelihood(model.likelihood)
    if likelihood.needs_trials and not usable_trials:
        return
    trials = laid.polygons.frame[model.trials].to_numpy(np.float64)[hidden] if likelihood.needs_trials else None
    labels, file = laid.labels[hidden], laid.polygons.file_of(name)
    stand_in = Bags(np.zeros((len(labels), 1)), labels)
    try:
        censored(likelihood, totals.least[hidden], totals.most[hidden], labels, likelihood.facts(stand_in, trials))
    except ValueError as error:
        text = f"{laid.polygons.path_of(name)}: {error} Correct the suppressed totals of {name!r}."
        found.add("error", "suppressed-totals", text, f"{file}, column {name}")


def _response(laid: Overlaid, name: str, totals: Floats, model: Model | None, usable_trials: bool) -> Response | None:
    per, unit = laid.totals, WEIGHED[laid.kind]
    if model is not None and usable_trials:
        per, unit = laid.polygons.frame[model.trials].to_numpy(dtype=np.float64), "trials"
    elif laid.exposure is None or (model is not None and get_likelihood(model.likelihood).needs_trials):
        return None
    some_exposure = (per > 0) & np.isfinite(totals)
    if not totals[some_exposure].any():
        return None
    where = f"{laid.polygons.file_of(name)}, column {name}"
    base = (per if unit == "trials" else laid.reporting)[some_exposure]
    return Response(name, where, totals[some_exposure], per[some_exposure], unit, laid.labels[some_exposure], base)


def _check_whole(laid: Overlaid, name: str, totals: Floats, model: Model | None, found: Gathered) -> None:
    """Counts should be whole numbers."""
    if model is None or not get_likelihood(model.likelihood).counts or np.nanmax(totals) <= 1:
        return
    broken = np.flatnonzero(np.isfinite(totals) & (totals % 1 != 0))
    if broken.size:
        large, size = np.nanmedian(totals) >= ENOUGH, np.isfinite(totals).sum()
        text = (
            f"{laid.polygons.file_of(name)}: counts are whole numbers, but {broken.size:,} of {size:,} values "
            f"of {name} are not (first: {given(totals[broken[0]])} for {laid.labels[broken[0]]!r}). "
        )
        text += "As they are large, this does no harm." if large else "Check where they come from; round them."
        where = f"{laid.polygons.file_of(name)}, column {name}"
        found.add("advice" if large else "warning", "not-whole", text, where, laid.labels[broken].tolist())


def _check_exactness(laid: Overlaid, name: str, totals: Floats, model: Model | None, found: Gathered) -> None:
    """A Poisson model of large counts claims that they are exact."""
    if model is None:
        return
    likelihood = get_likelihood(model.likelihood)
    if likelihood.counts and not likelihood.needs_trials and not likelihood.priors():
        for sentence in claim_of_exactness(totals[np.isfinite(totals)], likelihood.name):
            where = f"{laid.polygons.file_of(name)}, column {name}"
            found.add("warning", "claim-of-exactness", f"{laid.polygons.file_of(name)}: {sentence}", where)


def _check_kind(response: Response, found: Gathered) -> None:
    """A total grows with the population, and does not exceed it."""
    y, per, name = response.y, response.per, response.name
    if y.max() <= 1 and (y % 1 != 0).any():
        text = (
            f"no value of {name} exceeds 1, so it looks like a rate, not a total. Totals are needed: multiply a rate "
            "by what it is a rate of."
        )
        response.say(found, "rate-not-total", text)
        return
    above = np.flatnonzero(y > per)
    if above.size and response.unit == "people":
        text = (
            f"{name} exceeds the population in {number(above, 'polygon', 'polygons')}: {response.named(above)}. Check "
            "the units of the population, and whether it covers these polygons."
        )
        response.say(found, "more-than-people", text, above)
    usual = np.abs(response.scores) <= FAR
    if response.unit != "people" or usual.sum() < ENOUGH or np.log(per[usual]).std() < SPREAD_PEOPLE:
        return
    slope, error = _slope(np.log(per[usual]), np.log(y[usual]))
    if slope + 2 * error < 0.5:
        text = (
            f"{name} does not grow with the population: in polygons with twice the people it is about "
            f"{2**slope:.1f} times as large. "
        )
        if y.max() <= RATE_LIKE:
            text += "Is it a rate? Totals are needed: multiply a rate by what it is a rate of."
            response.say(found, "rate-not-total", text)
        else:
            text += "If these are totals, rates are lower where more people live; if they are rates, make totals."
            response.say(found, "rate-not-total", text, level="advice")


def _slope(x: Floats, y: Floats) -> tuple[float, float]:
    """Slope of the regression line, and its standard error."""
    x, y = x - x.mean(), y - y.mean()
    slope = x @ y / (x @ x)
    rest = y - slope * x
    return float(slope), float(np.sqrt(rest @ rest / max(1, x.size - 2) / (x @ x)))


def _check_far(response: Response, found: Gathered) -> None:
    """Totals that may be negative, and are far from the others for their number of people."""
    rates = response.y / response.per
    off = rates - np.median(rates)
    spread = 1.4826 * np.median(np.abs(off))
    far = np.flatnonzero(np.abs(off) > FAR * spread)
    if rates.size >= ENOUGH and spread > 0 and far.size:
        text = (
            f"the rate of {response.name} is far from that elsewhere in {number(far, 'polygon', 'polygons')}, by up to "
            f"{rate(np.abs(off[far]).max() / spread)} robust standard deviations: {response.named(far)}. Check the "
            f"total and the {response.unit} there."
        )
        response.say(found, "outlier", text, far)


def _check_outliers(response: Response, found: Gathered) -> None:
    """Rates far from the others, and zeros where there should be many."""
    y, base, name, scores = response.y, response.base, response.name, response.scores
    positive = y > 0
    if positive.sum() < ENOUGH:
        return
    usual = np.median(y[positive] / base[positive])
    for side, word in ((scores > FAR, "higher"), (scores < -FAR, "lower")):
        which = np.flatnonzero(side)
        if which.size:
            times = y[which] / base[which] / usual
            far = f"up to {rate(times.max())} times" if word == "higher" else f"down to {ratio(times.min())} of"
            text = (
                f"the rate of {name} is far {word} than elsewhere in {number(which, 'polygon', 'polygons')}, {far} the "
                f"usual rate: {response.named(which)}. Check the total and the {response.unit} there."
            )
            response.say(found, "outlier", text, which)
    low_rate = np.quantile(y[positive] / base[positive], LOW)
    strange = np.flatnonzero((y == 0) & (base * low_rate > EXPECTED))
    if strange.size:
        text = (
            f"{name} is 0 in {number(strange, 'polygon', 'polygons')} where even a low rate would give more than "
            f"{EXPECTED:.0f}: {response.named(strange)}. If nothing was reported there, empty the total."
        )
        response.say(found, "zero-in-large-population", text, strange)
