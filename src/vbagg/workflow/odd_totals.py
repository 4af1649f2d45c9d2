"""Totals that stand out from what the other polygons say, and fitted ones beside official ones, in words and tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vbagg.effects import FALSE_ALARMS
from vbagg.geo.files import plural, some
from vbagg.geo.told import REPORTED
from vbagg.likelihoods import get_likelihood
from vbagg.links import get_link
from vbagg.numerals import count, level, ratio, share, span, with_span
from vbagg.report import Table
from vbagg.workflow.results import written_by

if TYPE_CHECKING:
    import pandas as pd

    from vbagg.workflow.run import Run
    from vbagg.workflow.settings import Settings

FURTHEST, MOST_ROWS = 5, 50
"""Polygons that are shown where none stands out, and the most that are."""
APART = 0.05
"""Share by which a fitted total differs notably from the official one."""
TINY = 1e-9
OPTION = "--match-totals"


def told_of_odd_totals(run: Run) -> list[str]:
    """A sentence on each response of a run with maps."""
    import pandas as pd

    found, id = [], run.prepared().polygons.id
    for response in run.settings.data.response:
        with written_by("predict", run.maps(response) / "polygons.csv"):
            table = pd.read_csv(run.maps(response) / "polygons.csv", dtype={id: str})
            found.append(OddTotals(table, id, response, run.settings.maps.level).sentence())
    return found


def are_differences(settings: Settings) -> bool:
    """Whether effects are differences, and not ratios."""
    chosen = settings.model
    return get_link(chosen.link or get_likelihood(chosen.likelihood).links[0]).in_units_of_data


@dataclass(frozen=True, eq=False)
class OddTotals:
    """What is said of the totals of a response.

    Attributes
    ----------
    table
        What `polygon_table` gave.
    id
        The column with the names of polygons.
    response
        What was counted.
    level
        Level of intervals.
    """

    table: pd.DataFrame
    id: str
    response: str
    level: float

    @property
    def asked(self) -> pd.DataFrame:
        """Polygons of whose totals anything is known, the oddest first."""
        return self.table[self.table["chance"].notna()].sort_values("chance", kind="stable")

    @property
    def odd(self) -> pd.DataFrame:
        """Those that stand out."""
        asked = self.asked
        return asked[asked["stands_out"].astype(bool)]

    def sentence(self) -> str:
        """How many stand out, and which: for a log."""
        asked, odd = self.asked, self.odd
        if asked.empty:
            return f"{self.response}: nothing is said of odd totals"
        if odd.empty:
            return f"{self.response}: none of {plural(len(asked), 'total')} stands out from what the other polygons say"
        names = some([str(name) for name in odd[self.id]])
        verb = "stands" if len(odd) == 1 else "stand"
        return f"{self.response}: {len(odd)} of {plural(len(asked), 'total')} {verb} out: {names}"

    def explained(self) -> str:
        """What stands out, in words."""
        asked, odd = self.asked, self.odd
        how = (
            "Each total is compared with what covariates and all other polygons lead to expect, its own total left out."
            " Far-off totals may be faults of reporting, a wrong number of people, cases treated elsewhere, or an"
            " outbreak: look at them before at the map."
        )
        chance = f"Of those that stand out, up to about {share(FALSE_ALARMS)} are expected to do so by chance alone."
        if odd.empty:
            return f"None of {plural(len(asked), 'total')} stands out. {how} The furthest out are below."
        number = "One" if len(odd) == 1 else count(len(odd))
        return f"{number} of {plural(len(asked), 'total')} {'stands' if len(odd) == 1 else 'stand'} out. {how} {chance}"

    def shown(self) -> Table:
        """Those that stand out, or the furthest."""
        odd = self.odd
        rows = self.asked.head(FURTHEST) if odd.empty else odd.head(MOST_ROWS)
        more = f" The first {MOST_ROWS} of {count(len(odd))}." if len(odd) > MOST_ROWS else ""
        return Table(
            ["polygon", "official", "expected from the others", "official over expected", "chance"],
            [self._row(row) for row in rows.to_dict("records")],
            f"Median and {level(self.level)} interval of a count expected from the other polygons. Chance: how often"
            f" a total is at least so far off on its side, doubled.{more}",
        )

    def _row(self, row: dict[str, Any]) -> list[str | float | None]:
        known = np.isfinite(row["observed"])
        official = count(row["observed"]) if known else span(row["observed_lower"], row["observed_upper"], count)
        expected, ends = row["from_others"], (row["from_others_lower"], row["from_others_upper"])
        interval = with_span(expected, *ends, count)
        times = ratio(row["observed"] / expected) if known and expected > 0 and row["observed"] >= 0 else None
        return [str(row[self.id]), official, interval, times, percentage(row["chance"])]

    def fitted_beside_official(self, may_match: bool, matched: bool) -> str:
        """How fitted totals differ from official ones, and why; `may_match` if counts can be rescaled to them."""
        known = self.table[self.table["observed"].notna() & self.table["fitted"].notna()]
        if known.empty:
            return ""
        is_part = REPORTED in known
        official, fitted = known["observed"], known[REPORTED if is_part else "fitted"]
        apart = np.abs(fitted - official) > APART * np.abs(official)
        text = (
            f"Official totals add up to {count(official.sum())}, fitted ones{' of what is reported' if is_part else ''}"
            f" to {count(fitted.sum())} ({_apart(fitted.sum(), official.sum())}). "
        )
        text += (
            "A fitted total is what is to be expected of a polygon, not what was counted: counts scatter about what is"
            " expected, so that part of what is unusual about a polygon is taken for chance, the more the smaller its"
            " count. "
        )
        if not apart.any():
            return text + f"Here all of them are within {share(APART)} of the official ones."
        furthest = known.loc[(np.abs(fitted - official) / np.maximum(np.abs(official), 0.5)).idxmax()]
        text += (
            f"{plural(int(apart.sum()), 'fitted total')} of {count(len(known))} {'is' if apart.sum() == 1 else 'are'}"
            f" more than {share(APART)} off, the furthest {furthest[self.id]} (official"
            f" {count(official[furthest.name])}, fitted {count(fitted[furthest.name])})."
        )
        if not may_match:
            return text
        sums = f"the official totals{' over the share that is reported' if is_part else ''}"
        if matched:
            return f"{text} Cells of the map of matched counts add up to {sums}."
        return f"{text} For a map of counts that add up to {sums}, add {OPTION} to the command."

    def blocks(self, may_match: bool, matched: bool) -> Iterator[str | Table]:
        """For a section of the report; none where the model says nothing."""
        if not self.asked.empty:
            yield self.explained()
            yield self.shown()
        text = self.fitted_beside_official(may_match, matched)
        if text:
            yield text


def percentage(chance: float) -> str:
    """A chance, which is never nothing."""
    return share(max(chance, TINY))


def _apart(value: float, reference: float) -> str:
    if reference == 0:
        return "of 0"
    more = value / reference - 1
    return "the same" if abs(more) < 5e-4 else f"{share(abs(more))} {'more' if more > 0 else 'less'}"
