"""Totals of polygons as far as they were observed: some are missing, of some only bounds are known."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from vbagg.geo.bounds import MARK, Interval, are_possible, bounds_of, in_words
from vbagg.geo.files import percent, plural, some
from vbagg.geo.polygon_rows import Origin
from vbagg.geo.responses import PLAIN, number_of, read_totals
from vbagg.geo.table_lines import is_missing

Floats = NDArray[np.float64]
SILENT = (0.0, np.inf)
"""Bounds that say nothing."""
FEWEST = 2
"""Polygons whose totals must be known, exactly or within bounds."""
DATE = re.compile(r"\d{4}-\d\d-\d\d")
OBSERVED, SUPPRESSED, MISSING = "observed", "suppressed", "missing"
"""What is known of a total: all, bounds, nothing."""
STATE = "observation"
"""Column of a table of polygons with these words."""


class Gap(NamedTuple):
    """Polygons whose totals are not known, and a sentence about them."""

    kind: str
    text: str
    which: NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Totals:
    """One for each polygon.

    Attributes
    ----------
    least, most
        What the total can be: the same where it is known, NaN where nothing is.
    """

    least: Floats
    most: Floats

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Where nothing is known."""
        return np.isnan(self.least)

    @property
    def suppressed(self) -> NDArray[np.bool_]:
        """Where only bounds are known."""
        return self.most > self.least

    @property
    def known(self) -> NDArray[np.bool_]:
        """Where the total itself is known."""
        return self.most == self.least

    @property
    def exact(self) -> Floats:
        """Totals that are known, NaN elsewhere."""
        return np.where(self.known, self.least, np.nan)

    @property
    def upper(self) -> Floats:
        """Upper bounds where only bounds are known, NaN elsewhere."""
        return np.where(self.suppressed, self.most, np.nan)

    @property
    def states(self) -> NDArray[np.object_]:
        """What is known of each, in a word."""
        kinds = np.array([OBSERVED, SUPPRESSED, MISSING], dtype=object)
        return kinds[np.where(self.missing, 2, np.where(self.suppressed, 1, 0))]

    @property
    def gap_sizes(self) -> dict[str, int]:
        """Number of totals that are not known, by what is known of them."""
        sizes = {MISSING: int(self.missing.sum()), SUPPRESSED: int(self.suppressed.sum())}
        return {state: size for state, size in sizes.items() if size}

    def sum(self, which: Any = ...) -> Interval:
        """The least and the largest sum of these that are possible; missing ones count for nothing."""
        return float(np.nansum(self.least[which])), float(np.nansum(self.most[which]))

    def gaps(self, name: str, file: str, labels: Sequence[Any]) -> list[Gap]:
        """What a user should know of gaps and bounds in a column of a file."""
        found, of = [], f"of {plural(len(self.least), 'polygon')}"
        for kind, where in ((MISSING, self.missing), (SUPPRESSED, self.suppressed)):
            which = np.flatnonzero(where)
            if not which.size:
                continue
            one = which.size == 1
            names, share = some([labels[at] for at in which.tolist()]), percent(which.size, len(self.least))
            if kind == MISSING:
                text = (
                    f"{file}: {which.size:,} {of} ({share}) {'has' if one else 'have'} no total of {name!r} ({names}): "
                    f"{'it is' if one else 'they are'} left out of the fit, and predicted from the others. Where "
                    "nothing occurred, the total is 0."
                )
            else:
                text = (
                    f"{file}: in {which.size:,} {of} ({share}) only bounds of {name!r} are known ({names}): the fit "
                    "takes any total within them as possible."
                )
            found.append(Gap(kind, text, which))
        return found


def states_in(table: pd.DataFrame) -> NDArray[np.object_]:
    """What is known of each total of a table that `polygon_table` made, whose other columns may be called alike."""
    known = table.get("observed", pd.Series(0.0, index=table.index)).notna().to_numpy()
    if known.all() or STATE not in table:
        return np.full(len(table), OBSERVED, dtype=object)
    return np.where(known, OBSERVED, table[STATE].to_numpy(dtype=object))


def read_observed(
    values: pd.Series,
    origin: Origin,
    labels: Sequence[Any],
    marks: Mapping[str, Interval] | None = None,
    negative: bool = False,
) -> tuple[Totals, tuple[str, ...]]:
    """Totals, where they are known, of all polygons, and sentences on how they were read if they are text.

    Parameters
    ----------
    values
        The column.
    origin, labels
        Where the column comes from, and the id of each polygon, for messages.
    marks
        What marks of suppressed totals stand for; see `marks_of`.
    negative
        Whether totals may be negative, and are no counts that bounds could stand for.
    """
    column = _Column(values, origin, labels, negative)
    missing = values.isna().to_numpy() | np.array([is_missing(cell) for cell in column.cells], dtype=bool)
    bounds = column.bounds(np.flatnonzero(~missing).tolist(), marks or {})
    plain = np.setdiff1d(np.flatnonzero(~missing), list(bounds))
    numbers, notes = column.numbers(plain.tolist(), bool(bounds))
    least, most = np.full(len(values), np.nan), np.full(len(values), np.nan)
    least[plain] = most[plain] = numbers
    for at, (low, high) in bounds.items():
        if (low, high) != SILENT:
            least[at], most[at] = low, high
    totals = Totals(least, most)
    _require_enough(values, origin, int(np.count_nonzero(~totals.missing)))
    return totals, notes if not bounds else (*notes, _how_read(column, bounds))


@dataclass(frozen=True, eq=False)
class _Column:
    """Cells of a response, and where they come from."""

    values: pd.Series
    origin: Origin
    labels: Sequence[Any]
    negative: bool

    @cached_property
    def cells(self) -> list[Any]:
        return self.values.tolist()

    def places(self, rows: Sequence[int]) -> list[str]:
        """Where the cells of rows are."""
        known = self.origin.places
        return [f"row {at + 1}" if known is None else known[at] for at in rows]

    def bounds(self, rows: Sequence[int], marks: Mapping[str, Interval]) -> dict[int, Interval]:
        """Those of the cells that say bounds, by row."""
        said = {at: self.cells[at].strip() for at in rows if isinstance(self.cells[at], str)}
        found = {at: bounds for at, text in said.items() if (bounds := marks.get(text) or bounds_of(text))}
        if self.negative:
            self._refuse(
                list(found),
                "the response {} must be a number, or empty, since bounds are those of counts",
                lambda text: "Leave it empty where the total is not known.",
            )
        self._refuse(
            [at for at, bounds in found.items() if not are_possible(bounds)],
            "bounds of the response {} must be whole numbers, the lower first",
            lambda text: "Write them as 1-4, <5 or >=100.",
        )
        self._refuse(
            [at for at, text in said.items() if at not in found and np.isnan(number_of(text))],
            "the response {} must be a number, or empty"
            if self.negative
            else "the response {} must be a non-negative number, bounds such as 1-4 or <5, or empty",
            _remedy,
        )
        return found

    def numbers(self, rows: Sequence[int], beside_bounds: bool) -> tuple[Floats, tuple[str, ...]]:
        """The numbers of rows, and how they were read, unless text is due to bounds alone."""
        own = self.values.iloc[rows].infer_objects()
        places = Origin(self.origin.path, self.places(rows))
        labels, numbers, how = [self.labels[at] for at in rows], np.empty(0), None
        if rows:
            numbers, how = read_totals(own, places, labels, negative=self.negative)
        is_plain = beside_bounds and all(PLAIN.fullmatch(str(cell).strip()) for cell in own)
        return numbers, () if how is None or is_plain else (how,)

    def _refuse(self, rows: Sequence[int], what: str, remedy: Callable[[str], str]) -> None:
        if rows:
            first, more = rows[0], f", the first of {len(rows):,} such values" if len(rows) > 1 else ""
            raise ValueError(
                f"{self.origin.path}: {what.format(repr(self.values.name))}; got {self.cells[first]!r} for "
                f"{self.labels[first]!r} ({self.places([first])[0]}){more}. {remedy(self.cells[first].strip())}"
            )


def _remedy(text: str) -> str:
    if DATE.match(text):
        return "Spreadsheets make dates of text such as 1-4: format the column as text, and enter it again."
    if text.endswith("%"):
        return "Totals are needed: multiply a percentage by what it is of."
    if text.startswith("#"):
        return "Correct the formula, or leave it empty where nobody counted."
    mark = "" if text == MARK else f"{text}="
    return (
        "Write it as a number, such as 1234.5, or leave it empty where nobody counted. If it stands for a suppressed "
        f"count, say within which bounds, as in `--suppressed {shlex.quote(f'{mark}1-4')}`."
    )


def _require_enough(values: pd.Series, origin: Origin, observed: int) -> None:
    if observed < min(FEWEST, len(values)):
        raise ValueError(
            f"{origin.path}: the response {values.name!r} must be known in at least {plural(FEWEST, 'polygon')}; it is "
            f"in {observed or 'none'} of {len(values):,}, the others are empty. Name the right column, or fill it in."
        )


def _how_read(column: _Column, bounds: Mapping[int, Interval]) -> str:
    """With an example of each way to write them, three at most."""
    read = {column.cells[at].strip(): in_words(found) for at, found in bounds.items()}
    examples = ", ".join([f"{text!r} as {words}" for text, words in read.items()][:3])
    count = "1 total was" if len(bounds) == 1 else f"{len(bounds):,} totals were"
    return f"the response {column.values.name!r}: {count} read as bounds, for example {examples}."
