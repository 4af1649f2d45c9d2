"""Totals that stand out from what the other polygons say, and fitted ones beside official ones, in words and tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vbagg.effects import FALSE_ALARMS
from vbagg.geo.files import some
from vbagg.geo.told import REPORTED
from vbagg.likelihoods import get_likelihood
from vbagg.links import get_link
from vbagg.numerals import count, level, ratio, share, span, with_span
from vbagg.report import Table
from vbagg.texts import Texts, texts_in
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
        say, asked, odd = texts_in(), self.asked, self.odd
        if asked.empty:
            return say("odd.nothing", response=self.response)
        if odd.empty:
            return say("odd.none_of", n=len(asked), response=self.response)
        names = some([str(name) for name in odd[self.id]])
        return say("odd.some_of", n=len(odd), response=self.response, all=say("odd.totals", n=len(asked)), names=names)

    def explained(self) -> str:
        """What stands out, in words."""
        say, odd, all_ = texts_in(), self.odd, texts_in()("odd.totals", n=len(self.asked))
        if odd.empty:
            return " ".join([say("odd.none", all=all_), say("odd.how"), say("odd.furthest")])
        chance = say("odd.by_chance", share=share(FALSE_ALARMS))
        return " ".join([say("odd.stand_out", n=len(odd), all=all_), say("odd.how"), chance])

    def shown(self) -> Table:
        """Those that stand out, or the furthest."""
        say, odd = texts_in(), self.odd
        rows = self.asked.head(FURTHEST) if odd.empty else odd.head(MOST_ROWS)
        more = " " + say("odd.first", n=MOST_ROWS, all=len(odd)) if len(odd) > MOST_ROWS else ""
        return Table(
            [say(f"odd.{name}") for name in ("polygon", "official", "expected", "ratio", "chance")],
            [self._row(row) for row in rows.to_dict("records")],
            say("odd.caption", level=level(self.level)) + more,
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
        return "" if known.empty else " ".join(self._fitted(known, may_match, matched))

    def _fitted(self, known: pd.DataFrame, may_match: bool, matched: bool) -> Iterator[str]:
        kind = "_reported" if REPORTED in known else ""
        say, official, fitted = texts_in(), known["observed"], known[REPORTED if kind else "fitted"]
        sums = {"official": count(official.sum()), "fitted": count(fitted.sum())}
        yield say(f"odd.sums{kind}", apart=_apart(say, fitted.sum(), official.sum()), **sums)
        yield say("odd.why")
        apart = np.abs(fitted - official) > APART * np.abs(official)
        if not apart.any():
            yield say("odd.all_near", share=share(APART))
            return
        furthest = known.loc[(np.abs(fitted - official) / np.maximum(np.abs(official), 0.5)).idxmax()]
        yield say(
            "odd.off",
            n=int(apart.sum()),
            all=len(known),
            share=share(APART),
            name=str(furthest[self.id]),
            official=count(official[furthest.name]),
            fitted=count(fitted[furthest.name]),
        )
        if may_match:
            yield say(f"odd.matched{kind}") if matched else say(f"odd.may_match{kind}", option=OPTION)

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


def _apart(say: Texts, value: float, reference: float) -> str:
    if reference == 0:
        return say("odd.of_nothing")
    more = value / reference - 1
    if abs(more) < 5e-4:
        return say("odd.same")
    return say("odd.more" if more > 0 else "odd.less", share=share(abs(more)))
