"""Facilities that share areas by a table: which part of an area's people attends which facility."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
import shapely
from numpy.typing import NDArray

from vbagg.errors import did_you_mean, unknown_name
from vbagg.geo.files import SHOWN, plural, some
from vbagg.geo.grid import Floats, Grid
from vbagg.geo.joining import UNMATCHED
from vbagg.geo.keys import Candidates, is_date, key_of, oddity
from vbagg.geo.overlay import SPECK, Overlay
from vbagg.geo.polygons import Polygons
from vbagg.geo.responses import number_of
from vbagg.geo.runs import laid_out, starts_of
from vbagg.geo.table_lines import is_missing
from vbagg.geo.tables import Needed, Table, read_table
from vbagg.numerals import coordinate

COLUMNS = ("area", "facility", "share")
ROUNDING = 0.01
"""By how much shares of an area may add up to more than 1 and be taken for rounded: they are divided by their sum."""
EXACT = 1e-9
NO_SHARE = "no row has a share of"
"""Words of a note on areas from which nobody attends."""


@dataclass(frozen=True, eq=False)
class AreaShares:
    """Parts of the people of areas who attend facilities.

    Attributes
    ----------
    areas
        Polygons.
    n_facilities
        Number of facilities.
    starts
        Where the run of each area begins, and the end of the last (n + 1); empty for an area from which nobody attends.
    facility, share
        Position of a facility, and part of the people of the area who attend it, run by run.
    notes
        What was assumed, in sentences.
    """

    areas: Polygons
    n_facilities: int
    starts: NDArray[np.intp]
    facility: NDArray[np.intp]
    share: Floats
    notes: tuple[str, ...] = ()

    @property
    def crs(self) -> str:
        """That of the areas."""
        return self.areas.crs

    @property
    def sums(self) -> Floats:
        """Part of the people of each area who attend any facility (n)."""
        area = np.repeat(np.arange(len(self.areas)), np.diff(self.starts))
        return np.bincount(area, self.share, len(self.areas)).astype(np.float64)

    def pairs(self, grid: Grid, rows: slice = slice(None)) -> pd.DataFrame:
        """Facilities and cells of some rows of a grid, with the part of the cell's people as `coverage`.

        Where areas overlap, the people of a cell are shared among them.
        """
        area, cell, coverage = self._covered(grid, rows)
        at, place = laid_out(self.starts[area], self.starts[area + 1])
        key = self.facility[place] * np.int64(grid.n_cells) + cell[at]
        distinct, group = np.unique(key, return_inverse=True)
        share = np.bincount(group, coverage[at] * self.share[place], distinct.size)
        facility, own = np.divmod(distinct, grid.n_cells)
        found = pd.DataFrame({"polygon": facility.astype(np.intp), "cell": own, "coverage": share})
        return found[found["coverage"] > SPECK].reset_index(drop=True)

    def served(self, grid: Grid, rows: slice) -> Floats:
        """Part of each cell whose people are counted as attending some facility or none: what lies in areas."""
        first, last, _ = rows.indices(grid.height)
        _, cell, coverage = self._covered(grid, rows)
        return np.bincount(cell - first * grid.width, coverage, (last - first) * grid.width).astype(np.float64)

    def expected_pixels(self, grid: Grid) -> float:
        """About how many pairs there are on a grid."""
        across, down = grid.resolution
        inside = shapely.area(shapely.clip_by_rect(self.areas.on(grid).geometry, *grid.bounds))
        return float(inside @ np.diff(self.starts)) / (across * down)

    def outlines(self) -> NDArray[Any]:
        """Areas where each facility has the largest share (n), or else the area where its own is largest."""
        area = np.repeat(np.arange(len(self.areas)), np.diff(self.starts))
        order = np.lexsort((self.facility, -self.share, area))
        first = np.flatnonzero(np.diff(area[order], prepend=-1))
        shapes, own = self.areas.geometry, order[first]
        found = [list(shapes[area[own[self.facility[own] == facility]]]) for facility in range(self.n_facilities)]
        for facility, parts in enumerate(found):
            if not parts:
                mine = np.flatnonzero(self.facility == facility)
                parts.append(shapes[area[mine[np.argmax(self.share[mine])]]])
        return np.array([shapely.union_all(parts) for parts in found], dtype=object)

    def _covered(self, grid: Grid, rows: slice) -> tuple[NDArray[np.intp], NDArray[np.int64], Floats]:
        """Areas, cells of some rows, and parts of these that lie in the areas: at most 1 in all of them."""
        pairs = _over(self.areas, grid).pairs(rows)
        area, cell, coverage = (pairs[name].to_numpy() for name in ("polygon", "cell", "coverage"))
        if not cell.size:
            return area.astype(np.intp), cell.astype(np.int64), coverage
        distinct, group = np.unique(cell, return_inverse=True)
        whole = np.bincount(group, coverage, distinct.size)
        return area.astype(np.intp), cell.astype(np.int64), coverage / np.maximum(whole, 1.0)[group]


@lru_cache(maxsize=1)  # asked for band by band
def _over(areas: Polygons, grid: Grid) -> Overlay:
    return Overlay(areas.to(grid.crs), grid)


def read_shares(
    source: Any,
    areas: Polygons,
    columns: Sequence[str] = COLUMNS,
    sheet: str | None = None,
    unmatched: str = "refuse",
) -> tuple[AreaShares, list[str]]:
    """Shares from a table with a row for each area and facility; and the keys of the facilities, in order.

    Parameters
    ----------
    source
        The table: CSV, Excel, Parquet, or a data frame.
    areas
        Polygons, whose ids are the keys of areas.
    columns
        Columns with keys of areas, keys of facilities, and shares from 0 to 1.
    sheet
        Sheet of a workbook, if it has several.
    unmatched
        `"refuse"` or `"drop"`: what becomes of rows whose area is not among the polygons.
    """
    if unmatched not in UNMATCHED:
        raise unknown_name("unmatched", unmatched, UNMATCHED)
    table = _table_of(source, columns, sheet)
    area_keys, facility_keys = (_keys(table, name) for name in columns[:2])
    share = _shares(table, columns[2])
    _require_once(table, area_keys, facility_keys)
    place = pd.Index([key_of(label) for label in areas.labels]).get_indexer(pd.Index(area_keys))
    notes = [f"{table.file}: {note}" for note in table.of.notes]
    gone = np.flatnonzero(place < 0)
    if gone.size:
        text = _unmatched(table, area_keys, gone, areas, columns[0])
        if unmatched == "refuse" or gone.size == place.size:
            raise ValueError(
                f"{table.path} must have rows that each belong to an area of {areas.file}; {text}. Correct the keys of "
                f"{columns[0]!r}, name the column with the ids of the areas by `--id`, or leave out such rows by "
                "`--unmatched drop`."
            )
        notes.append(f"{table.file}: left out: {text}.")
    used = np.flatnonzero((place >= 0) & (share > 0))
    if not used.size:
        raise ValueError(f"{table.path} must have a share above 0 in column {columns[2]!r}; it has none.")
    facilities = sorted({facility_keys[at] for at in used})
    number = pd.Index(facilities).get_indexer(pd.Index([facility_keys[at] for at in used]))
    order = np.lexsort((number, place[used]))
    area, facility, parts = place[used][order], number[order].astype(np.intp), share[used][order]
    sums: Floats = np.bincount(area, parts, len(areas)).astype(np.float64)
    notes += _require_sums(table, sums, areas, [table.places[at] for at in used[order]], area)
    parts = parts / np.maximum(sums, 1.0)[area]
    notes += _without_shares(table, sums, areas)
    shares = AreaShares(areas, len(facilities), starts_of(area, len(areas)), facility, parts, tuple(notes))
    return shares, facilities


def _table_of(source: Any, columns: Sequence[str], sheet: str | None) -> Table:
    """The table, which has the three columns."""
    uses = dict(zip(columns, ("of areas", "of facilities", "of shares"), strict=True))
    remedy = "Name the columns of areas, facilities and shares by `--share-columns AREA,FACILITY,SHARE`."
    table = read_table(source, Needed(columns[0], uses[columns[0]], remedy), sheet, "shares")
    for name, use in uses.items():
        if name not in table.header:
            known = [other for other in table.header if other]
            raise ValueError(f"{table.path} has no column {name!r} {use}{did_you_mean(name, known)} {remedy}")
        if (flaw := table.flaw(name)) is not None:
            raise ValueError(flaw)
    return table


def _keys(table: Table, name: str) -> list[str]:
    """Keys of a column, all there, none a date."""
    cells = table.cells(name)
    keys = [key_of(cell) for cell in cells]
    for cell, key, place in zip(cells, keys, table.places, strict=True):
        if is_date(cell):
            raise ValueError(
                f"{table.path} must hold keys in column {name!r}; {place} holds the date {cell:%Y-%m-%d}, which "
                "spreadsheets make of codes such as 1-2 or MAR1. Format the column as text, and enter the codes again."
            )
        if not key:
            raise ValueError(f"{table.path} must hold a key in column {name!r} for every row; {place} has none.")
    return keys


def _shares(table: Table, name: str) -> Floats:
    """Numbers from 0 to 1."""
    cells = table.cells(name)
    share = np.array([np.nan if is_missing(cell) else number_of(cell) for cell in cells])
    share = np.where((share > 1) & (share <= 1 + ROUNDING), 1.0, share)
    bad = np.flatnonzero(~((share >= 0) & (share <= 1)))
    if bad.size:
        at = int(bad[0])
        got = "nothing" if is_missing(cells[at]) else repr(cells[at])
        more = f", the first of {plural(bad.size, 'such row')}" if bad.size > 1 else ""
        percent = np.nanmax(share, initial=0.0) > 1 and not (share < 0).any()
        remedy = "Percentages must be divided by 100." if percent else "Correct it; leave out rows of shares unknown."
        raise ValueError(
            f"{table.path} must hold shares from 0 to 1 in column {name!r}; {table.places[at]} has {got}{more}. "
            f"{remedy}"
        )
    return share


def _require_once(table: Table, areas: Sequence[str], facilities: Sequence[str]) -> None:
    pairs = list(zip(areas, facilities, strict=True))
    repeated = pd.Series(pairs)[pd.Series(pairs).duplicated()]
    if len(repeated):
        area, facility = repeated.iloc[0]
        where = [place for pair, place in zip(pairs, table.places, strict=True) if pair == (area, facility)]
        raise ValueError(
            f"{table.path} must have one row for each area and facility; {area!r} and {facility!r} are there "
            f"{len(where)} times ({some(where, quote=False)}). Add up their shares, or choose a period."
        )


def _unmatched(table: Table, keys: Sequence[str], gone: NDArray[np.intp], areas: Polygons, column: str) -> str:
    """Which rows belong to no area, the first few with a reason if there is one."""
    candidates = Candidates([key_of(label) for label in areas.labels])
    told, seen = list[str](), set[str]()
    for at in gone.tolist():
        key = keys[at]
        if key not in seen:
            seen.add(key)
            why = (candidates.like(key) or oddity(key)) if len(told) < SHOWN else None
            told.append(f"{key!r} ({table.places[at]}{f': {why}' if why else ''})")
    verb = "matches" if gone.size == 1 else "match"
    return f"{plural(gone.size, 'row')} {verb} none: {some(told, quote=False)}"


def _require_sums(
    table: Table, sums: Floats, areas: Polygons, places: Sequence[str], area: NDArray[np.intp]
) -> list[str]:
    """Raise for areas whose shares add up to more than 1; a note on those that were rounded to a little more."""
    over = np.flatnonzero(sums > 1 + ROUNDING)
    labels = areas.labels
    if over.size:
        first = int(over[0])
        where = [place for place, own in zip(places, area, strict=True) if own == first]
        more = f", the first of {plural(over.size, 'such area')}" if over.size > 1 else ""
        remedy = "Divide them by their sum, or leave out rows of another period."
        raise ValueError(
            f"{table.path}: the shares of an area must add up to at most 1; those of {labels[first]!r} "
            f"({some(where, quote=False)}) add up to {coordinate(sums[first])}{more}. {remedy}"
        )
    rounded = np.flatnonzero(sums > 1 + EXACT)
    if not rounded.size:
        return []
    names = some(labels[rounded].tolist())
    return [
        f"{table.file}: the shares of {plural(rounded.size, 'area')} ({names}) add up to as much as "
        f"{coordinate(sums[rounded].max())} and were divided by their sum."
    ]


def _without_shares(table: Table, sums: Floats, areas: Polygons) -> list[str]:
    bare = np.flatnonzero(sums == 0)
    if not bare.size:
        return []
    return [
        f"{table.file}: {NO_SHARE} {plural(bare.size, 'area')} ({some(areas.labels[bare].tolist())}), whose people are "
        "taken to attend none of the facilities."
    ]
