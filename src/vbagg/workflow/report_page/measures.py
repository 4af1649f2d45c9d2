"""What a table of areas says of each: columns with the cells that a reader sees and the numbers of the file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vbagg import numerals
from vbagg.geo.bounds import in_words
from vbagg.geo.observed_totals import MISSING, OBSERVED, STATE
from vbagg.report import Cell, Column
from vbagg.workflow.odd_totals import percentage

if TYPE_CHECKING:
    import pandas as pd

    from vbagg.texts import Texts
    from vbagg.workflow.report_page.subject import Subject

Row = Mapping[str, Any]
HALF_WIDTHS = {"high": 0.1, "fair": 0.3}
"""Half the width of an interval, relative to the rate, up to which a rate is known so well."""
NOTHING = Cell("\u2013")


@dataclass(frozen=True)
class Measure:
    """A column.

    Attributes
    ----------
    column
        Its head.
    cell
        What it shows of a row.
    file
        Columns of the downloaded file, and what they hold: the name of a column of the table, or a function of a row.
    sum
        What it shows below all rows.
    """

    column: Column
    cell: Callable[[Row], Cell]
    file: Mapping[str, str | Callable[[Row], Any]]
    sum: Callable[[pd.DataFrame], Cell] = lambda table: Cell("")

    def record(self, row: Row) -> list[Any]:
        """A row of the file."""
        return [plain(row[of] if isinstance(of, str) else of(row)) for of in self.file.values()]


def plain(value: Any) -> str | float | None:
    """A value as JSON has it."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    return None if value is None or not np.isfinite(value) else float(value)


def name_column(say: Texts) -> Column:
    """That of the names."""
    return Column(say("table.name"), numeric=False, falling=False)


def official(subject: Subject) -> Measure:
    """Totals as they were reported."""
    say = subject.say

    def cell(row: Row) -> Cell:
        if np.isfinite(row["observed"]):
            return Cell(numerals.count(row["observed"]), float(row["observed"]))
        if row[STATE] == MISSING:
            return Cell(say("table.missing"))
        ends = row["observed_lower"], row["observed_upper"]
        return Cell(say("table.suppressed"), float(ends[0]), in_words(ends))

    file: dict[str, Any] = {"official": "observed"}
    if STATE in subject.table:
        file |= {
            "official_state": lambda row: row[STATE] or OBSERVED,
            "official_lower": "observed_lower",
            "official_upper": "observed_upper",
        }
    title = say("table.official", response=subject.response)
    return Measure(Column(title, about=say("table.official_about")), cell, file, summed("observed"))


def people(subject: Subject) -> Measure:
    """What rates are relative to."""
    name = subject.prepared.exposure
    return Measure(
        Column(subject.say(f"table.{name}")),
        lambda row: number(row[name], numerals.count),
        {name: name},
        summed(name),
    )


def people_above(subject: Subject, threshold: float) -> Measure:
    """People of a district who live above the threshold of the run; draws tell their sum, with its interval."""
    name, say = f"{subject.prepared.exposure}_above", subject.say
    title = say(f"above.column_{subject.prepared.exposure}", threshold=numerals.given(threshold))
    return Measure(
        Column(title, about=say("above.column_about")), lambda row: number(row[name], numerals.count), {name: name}
    )


def total(subject: Subject, name: str, title: str) -> Measure:
    """A total that is known within an interval."""
    column = Column(subject.say(f"table.{title}", response=subject.response), about=subject.say(f"table.{title}_about"))
    file = {f"{name}{end}": f"{name}{end}" for end in ("", "_lower", "_upper")}
    return Measure(column, lambda row: ranged(subject.say, row, name, numerals.count), file, summed(name))


def matched(subject: Subject) -> Measure:
    """Sums of the cells of the map that was rescaled to official totals."""
    column = Column(subject.say("table.matched"), about=subject.say("table.matched_about"))
    return Measure(
        column, lambda row: number(row["matched"], numerals.count), {"matched": "matched"}, summed("matched")
    )


def rate(subject: Subject, overall: Callable[[pd.DataFrame], float] | None) -> Measure:
    """The fitted rate, and that of all together."""
    units = subject.units
    title = subject.say("table.risk" if units.is_relative else "table.rate", rate=units.rate)
    return Measure(
        Column(title[:1].upper() + title[1:], about=subject.say("table.rate_about", level=subject.level)),
        lambda row: ranged(subject.say, row, "rate", numerals.rate),
        {f"rate{end}": f"rate{end}" for end in ("", "_lower", "_upper")},
        lambda table: number(float("nan") if overall is None else overall(table), numerals.rate),
    )


def certainty(say: Texts) -> Measure:
    """How narrow the interval of the rate is."""

    def cell(row: Row) -> Cell:
        width = half_width(row)
        if not np.isfinite(width):
            return NOTHING
        word = next((word for word, most in HALF_WIDTHS.items() if width <= most), "low")
        return Cell(say(f"table.certainty_{word}"), width, say("table.give_or_take", share=numerals.share(width)))

    column = Column(say("table.certainty"), numeric=False, falling=False, about=say("table.certainty_about"))
    return Measure(column, cell, {"relative_half_width": half_width})


def half_width(row: Row) -> float:
    """Half the width of the interval of a rate, relative to the rate."""
    size = abs(float(row["rate"]))
    return float((row["rate_upper"] - row["rate_lower"]) / 2 / size) if size > 0 else float("nan")


def odd(say: Texts) -> Measure:
    """Whether a total is far from what all others say of it, and on which side."""

    def side(row: Row) -> str:
        if not row["stands_out"]:
            return ""
        middle = row["observed"] if np.isfinite(row["observed"]) else row["observed_lower"]
        return "higher" if middle > row["from_others"] else "lower"

    def cell(row: Row) -> Cell:
        if not np.isfinite(row["chance"]):
            return NOTHING
        value = -float(row["chance"])
        if not side(row):
            return Cell(say("table.not_odd"), value)
        return Cell(say(f"table.{side(row)}"), value, say("table.chance", chance=percentage(row["chance"])))

    column = Column(say("table.odd"), numeric=False, about=say("table.odd_about"))
    return Measure(column, cell, {"stands_out": side, "chance": "chance"})


def covered(say: Texts) -> Measure:
    """The part of an area that the map covers."""
    column = Column(say("table.covered"), about=say("table.covered_about"))
    return Measure(column, lambda row: number(row["covered"], numerals.share), {"covered": "covered"})


def number(value: float, write: numerals.Write) -> Cell:
    """A number alone."""
    return Cell(write(value), float(value)) if np.isfinite(value) else NOTHING


def ranged(say: Texts, row: Row, name: str, write: numerals.Write) -> Cell:
    """A number with its interval."""
    value, low, high = (float(row[f"{name}{end}"]) for end in ("", "_lower", "_upper"))
    if not np.isfinite(value):
        return NOTHING
    return Cell(write(value), value, say("numbers.range", low=write(low), high=write(high)))


def summed(name: str) -> Callable[[pd.DataFrame], Cell]:
    """The sum of a column."""
    return lambda table: number(float(table[name].sum()), numerals.count)
