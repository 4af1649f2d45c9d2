"""Tables joined to polygons by a key: which row belongs to which polygon, and what is wrong where none does."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from vbagg.errors import did_you_mean, unknown_name
from vbagg.geo.files import SHOWN, plural, some
from vbagg.geo.keys import Candidates, is_date, key_of, oddity
from vbagg.geo.polygon_rows import Origin, PolygonRows
from vbagg.geo.table_lines import is_empty
from vbagg.geo.tables import Table, as_column, read_table

UNMATCHED = ("refuse", "drop")
NO_ROW = "no row matches"
"""Words of a note on polygons without a row."""
SIMILAR = 0.5
"""Part of the rows that another pair of columns must match to be proposed."""
FEWEST = 3
"""The same, at least."""
MOST_COLUMNS = 50
"""Columns of either side that are compared."""


@dataclass(frozen=True, eq=False)
class JoinedBy:
    """A table, and how its rows are matched with polygons.

    Attributes
    ----------
    source
        File (CSV, Excel or Parquet) or data frame.
    key, column
        Columns of the polygons and of the table that hold the same keys.
    sheet
        Sheet of a workbook, if it has several.
    unmatched
        `"refuse"` or `"drop"`: what becomes of rows that match no polygon.
    """

    source: str | pd.DataFrame
    key: str
    column: str
    sheet: str | None = None
    unmatched: str = "refuse"

    @property
    def file(self) -> str:
        """The table's name without its folder."""
        return Path(self.source).name if isinstance(self.source, str) else "totals"

    def join(self, rows: PolygonRows, id: str | None = None) -> PolygonRows:
        """Polygons with the columns of the table, which take the place of their own of the same names, but for the id.

        Polygons without a row miss its columns, and a note says which.
        """
        table, frame = read_table(self.source, self.column, self.sheet), rows.frame
        if self.key not in frame or self.key == "geometry":
            raise ValueError(
                f"{rows.path} has no column {self.key!r} to join {self.file} by{did_you_mean(self.key, rows.known())}"
            )
        polygons, lines = _polygon_keys(frame[self.key], rows.path), self._line_keys(table)
        place = pd.Index(lines).get_indexer(pd.Index(polygons))
        _require_any(place, table, rows, self)
        bare, extra = self._unmatched(polygons, lines, place, table)
        if extra and self.unmatched == "refuse":
            raise ValueError(self._refusal(bare, extra, table, rows))
        notes = tuple(f"{self.file}: {note}" for note in table.of.notes)
        if extra:
            notes += (f"{self.file}: left out, since they match no {rows.noun}: {some(extra, quote=False)}.",)
        if bare:
            told = f"{NO_ROW} {plural(len(bare), rows.noun)} ({some(bare, quote=False)})"
            notes += (f"{self.file}: {told}, whose totals are missing; where nothing occurred, add a row with 0.",)
        own = {self.column, self.key, "geometry", *({id} & set(frame.columns))}
        columns = {name: values for name, values in table.columns(place.tolist()).items() if name not in own}
        places = [table.places[at] if at >= 0 else "no row" for at in place]
        own |= {""}
        flaws = {name: table.flaw(name) for name in table.header if name not in own}
        return replace(
            rows,
            frame=frame.assign(**{name: values.to_numpy() for name, values in columns.items()}),
            key=self.key,
            origins={name: Origin(table.path, places, flaw) for name, flaw in flaws.items()},
            notes=(*rows.notes, *notes),
        )

    def _line_keys(self, table: Table) -> list[str]:
        """Keys of the table, all there, none a date, each once."""
        cells, places = table.cells(self.column), table.places
        keys = [key_of(cell) for cell in cells]
        for cell, place, line in zip(cells, places, table.lines, strict=True):
            if is_date(cell):
                raise ValueError(
                    f"{table.path} must hold keys in column {self.column!r}; {place} holds the date {cell:%Y-%m-%d}, "
                    "which spreadsheets make of codes such as 1-2 or MAR1. Format the column as text, and enter the "
                    "codes again."
                )
            if is_empty(cell):
                held = some([str(other) for other in line.cells if not is_empty(other)][:3])
                raise ValueError(
                    f"{table.path} must hold a key in column {self.column!r} for every row; {place} has none beside "
                    f"{held}. Fill it in; a row of totals, a note or merged cells must go."
                )
        _require_once(
            keys, places, table.path, self.column, "Keep one row for each polygon: choose a period, or add them up"
        )
        return keys

    def _unmatched(
        self, polygons: Sequence[str], lines: Sequence[str], place: NDArray[np.intp], table: Table
    ) -> tuple[list[str], list[str]]:
        """Polygons that have no row, and rows that match no polygon, the first few with a reason if there is one."""
        bare = [polygons[at] for at in np.flatnonzero(place < 0).tolist()]
        extra = np.setdiff1d(np.arange(len(lines)), place)
        spare = [lines[at] for at in extra]
        for_rows, for_polygons = Candidates(bare), Candidates(spare)
        sums = _rows_of_sums(table, place[place >= 0].tolist(), extra[:SHOWN].tolist())
        named = []
        for number, (at, key) in enumerate(zip(extra, spare, strict=True)):
            why = None
            if number < SHOWN:  # no more are shown
                why = for_rows.like(key) or oddity(key) or ("a row of totals?" if at in sums else None)
            named.append(f"{key!r} ({table.places[at]}{f': {why}' if why else ''})")
        lacking = [_with_reason(key, for_polygons.like(key) if at < SHOWN else None) for at, key in enumerate(bare)]
        return lacking, named

    def _refusal(self, bare: Sequence[str], extra: Sequence[str], table: Table, rows: PolygonRows) -> str:
        """That rows match no polygon, with the polygons that have none."""
        by = f"column {self.column!r}" if self.column == self.key else f"{self.column!r} as {self.key!r}"
        verb = "matches" if len(extra) == 1 else "match"
        parts = [f"{plural(len(extra), 'row')} {verb} none: {some(extra, quote=False)}"]
        if bare:
            parts.append(f"{plural(len(bare), rows.noun)} without a row: {some(bare, quote=False)}")
        lost_zeros = any("leading zeros" in row for row in extra)
        first = "Make text of the column that has lost its zeros" if lost_zeros else "Correct the keys"
        return (
            f"{table.path} must have rows that each belong to a {rows.noun} of {Path(rows.path).name}, by {by}; "
            f"{'; '.join(parts)}. {first}, or leave out rows that match no {rows.noun} by `--unmatched drop`."
        )


def joined_by(
    totals: str | os.PathLike[str] | pd.DataFrame | None,
    on: str | None,
    sheet: str | None = None,
    unmatched: str = "refuse",
) -> JoinedBy | None:
    """How a table comes to polygons, None without a table.

    Parameters
    ----------
    totals
        The table.
    on
        Column of the polygons with the keys, or `KEY=COLUMN` if that of the table has another name.
    sheet, unmatched
        See `JoinedBy`.
    """
    if unmatched not in UNMATCHED:
        raise unknown_name("unmatched", unmatched, UNMATCHED)
    if totals is None:
        for name, value in (("on", on), ("sheet", sheet)):
            if value is not None:
                raise ValueError(f"`{name}` goes with a table; none was named. Name it by `--totals`.")
        return None
    key, _, column = (on or "").partition("=")
    if not key.strip():
        name = "the table" if isinstance(totals, pd.DataFrame) else os.fspath(totals)
        raise ValueError(
            f"{name} is joined to polygons by a key. Name the column with it by `--on KEY`, or `--on KEY=COLUMN` if "
            "the table has another name for it."
        )
    source = totals if isinstance(totals, pd.DataFrame) else os.fspath(totals)
    return JoinedBy(source, key.strip(), column.strip() or key.strip(), sheet, unmatched)


def _polygon_keys(values: pd.Series, path: str) -> list[str]:
    """Keys of the polygons, all there, each once."""
    keys = [key_of(value) for value in values]
    places = [f"row {number}" for number in range(1, len(keys) + 1)]
    if "" in keys:
        raise ValueError(
            f"{path} must have a key in column {values.name!r} for every polygon; {places[keys.index('')]} has none. "
            "Fill it in, or join by another column."
        )
    _require_once(keys, places, path, str(values.name), "A row of the table would count for each of them: merge them")
    return keys


def _require_once(keys: Sequence[str], places: Sequence[str], path: str, column: str, remedy: str) -> None:
    repeated = pd.Series(keys)[pd.Series(keys).duplicated()].unique().tolist()
    if repeated:
        where = [place for key, place in zip(keys, places, strict=True) if key == repeated[0]]
        others = f", as are {some(repeated[1:])}" if len(repeated) > 1 else ""
        raise ValueError(
            f"{path} must have each key in column {column!r} once; {repeated[0]!r} is there {len(where)} times "
            f"({some(where, quote=False)}){others}. {remedy}, or join by another column."
        )


def _require_any(place: NDArray[np.intp], table: Table, rows: PolygonRows, join: JoinedBy) -> None:
    """Raise if no row matches any polygon, with the pair of columns that would."""
    if (place >= 0).any():
        return
    own = {name: {key_of(value) for value in rows.frame[name]} - {""} for name in rows.known()[:MOST_COLUMNS]}
    theirs = {
        name: {key_of(cell) for cell in table.cells(name)} - {""}
        for name in table.header[:MOST_COLUMNS]
        if name and table.header.count(name) == 1
    }
    matches = {(key, column): len(own[key] & theirs[column]) for key in own for column in theirs}
    (key, column), most = max(matches.items(), key=lambda pair: pair[1])
    if most >= max(FEWEST, SIMILAR * min(len(table.lines), len(rows.frame))):
        on = key if key == column else f"{key}={column}"
        remedy = f"By `--on {on}`, {most:,} of {len(table.lines):,} would."
    else:
        remedy = "Name the columns that hold the same keys by `--on KEY=COLUMN`."
    keys = [key_of(cell) for cell in table.cells(join.column)]
    candidates = Candidates([key_of(value) for value in rows.frame[join.key]])
    told = [_with_reason(key, candidates.like(key)) for key in keys[:SHOWN]]
    raise ValueError(
        f"{table.path} must have rows that match {rows.noun}s; no key in column {join.column!r}, such as "
        f"{some(told[:3], quote=False)}, is in column {join.key!r} of {rows.path}, with "
        f"{some([key_of(value) for value in rows.frame[join.key]][:3])}. {remedy}"
    )


def _with_reason(key: str, why: str | None) -> str:
    return f"{key!r} ({why})" if why else repr(key)


def _rows_of_sums(table: Table, matched: Sequence[int], extra: Sequence[int]) -> set[int]:
    """Which extra rows hold, in some column of numbers, the sum of all rows that match."""
    found: set[int] = set()
    for name, values in table.columns(matched).items():
        if values.dtype.kind in "if" and (total := float(values.sum())) > 0:
            cells = table.cells(name)
            found |= {at for at in extra if np.isclose(_number(cells[at]), total, rtol=1e-9, atol=0)}
    return found


def _number(cell: Any) -> float:
    value = as_column([cell])[0]
    return float(value) if isinstance(value, (int, float, np.integer)) else np.nan
