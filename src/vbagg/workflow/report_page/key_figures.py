"""Key figures of a page."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from vbagg import numerals
from vbagg.doctor.words import between
from vbagg.geo.bounds import Interval
from vbagg.geo.observed_totals import MISSING, SUPPRESSED, states_in
from vbagg.geo.told import COMPLETENESS

if TYPE_CHECKING:
    import geopandas as gpd
    import pandas as pd

    from vbagg.workflow.report_page.subject import Subject


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums over the polygons that have people: the others are left out of the fit.

    Attributes
    ----------
    subject
        The response that totals are of.
    table
        Its polygons.
    """

    subject: Subject
    table: gpd.GeoDataFrame

    @cached_property
    def used(self) -> gpd.GeoDataFrame:
        """Polygons with people."""
        return self.table[self.table[self.subject.prepared.exposure] > 0]

    @property
    def states(self) -> np.ndarray:
        """What is known of their totals."""
        return states_in(self.used)

    @property
    def people(self) -> float:
        """People, or what else the exposure is."""
        return float(self.used[self.subject.prepared.exposure].sum())

    @property
    def counts(self) -> dict[str, int]:
        """Number of polygons by what is known of their totals, where that is not all."""
        return {state: int((self.states == state).sum()) for state in (MISSING, SUPPRESSED)}

    @property
    def total(self) -> Interval:
        """Between which numbers the sum of the totals is."""
        ends = ("observed_lower", "observed_upper") if any(self.counts.values()) else ("observed", "observed")
        low, high = (float(self.used[end].sum()) for end in ends)
        return low, high

    @property
    def base(self) -> float:
        """What the total is relative to: people of polygons whose totals are known, or trials."""
        prepared, trials = self.subject.prepared, self.subject.run.settings.model.trials
        if trials is not None:
            return float(prepared.y(trials)[prepared.y(self.subject.response).notna()].sum())
        share = self.used[COMPLETENESS].fillna(1.0) if prepared.told.completeness else 1.0
        return float((share * self.used[prepared.exposure])[self.states != MISSING].sum())

    @property
    def rate(self) -> Interval:
        """Of all of them together."""
        low, high = (self.subject.units.per * end / self.base for end in self.total)
        return low, high


def key_figures(subject: Subject, sums: Sums) -> list[tuple[str, str]]:
    """Labels and texts."""
    units, completeness, say = subject.units, subject.prepared.told.completeness, subject.say
    per: dict[str, Any] = {"per": numerals.given(units.per), "exposed": units.exposed}
    title = say("figures.risk") if units.is_relative else say("figures.rate", **per)
    trials = subject.run.settings.model.trials is not None
    exposure = subject.prepared.exposure
    figures = [
        (subject.name, between(sums.total, numerals.count)),
        *((say(f"figures.{state}"), numerals.count(count)) for state, count in sums.counts.items() if count),
        *([(say("figures.reported"), reported_share(sums.used))] if completeness else []),
        (say(f"figures.{exposure}"), numerals.count(sums.people)),
        *([(say("figures.trials"), numerals.count(sums.base))] if trials else []),
        (title, between(sums.rate, numerals.rate)),
    ]
    validation = subject.run.validation(subject.response)
    if validation is not None:
        scores = validation.scores().loc["vbagg"]
        figures.append((say("figures.inside"), numerals.share(scores["coverage_95"])))
    return figures


def reported_share(used: pd.DataFrame) -> str:
    """Completeness of polygons, from the least to the largest."""
    low, high = used[COMPLETENESS].min(), used[COMPLETENESS].max()
    return numerals.span(low, high, numerals.share)
