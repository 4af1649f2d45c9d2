"""The population raster: how it was read, where it is missing or negative, and who lives in no polygon."""

from __future__ import annotations

import numpy as np

from vbagg.doctor.findings import Gathered, Level
from vbagg.doctor.layers import check_file
from vbagg.doctor.overlaid import Overlaid
from vbagg.doctor.tallies import People
from vbagg.doctor.words import held, most, number
from vbagg.geo.exposure import Shares
from vbagg.geo.files import percent, some
from vbagg.numerals import coordinate, count

MUCH = 0.01
"""Part of the area without a value from which on it must be looked at."""
LITTLE = 0.001
"""Part of the area without a value up to which it is not worth a word."""
HALF = 0.5
"""The same for one polygon."""
BORDER = 0.01
"""Part of the population that may be in the uncovered parts of cells along the border."""


def check_people(laid: Overlaid, column: str | None, found: Gathered) -> None:
    """Look at the population, be it a raster or a column; with neither, nothing is looked at."""
    people = laid.people
    if laid.layout.shares is not None and column is not None:
        _check_column(laid, column, laid.layout.shares, found)
    if people is None:
        return
    check_file(people, found)
    if laid.reading is not None and "as asked" not in laid.reading.note:
        unclear = "most such files are" in laid.reading.note
        found.add("warning" if unclear else "advice", "population-guess", laid.reading.note, people.layer.file)
    if not laid.totals.any():
        text = f"{people.layer.path} must hold people under the polygons; it holds none. Check its extent and CRS."
        found.add("error", "no-people", text, people.layer.file)
        return
    _check_negative(laid, people, found)
    _check_gaps(laid, people, found)
    _check_empty(laid, people, found)
    if laid.polygons.catchments is None:
        _check_border(laid, people, found)


def _check_column(laid: Overlaid, column: str, shares: Shares, found: Gathered) -> None:
    """A column that is spread over cells: polygons with nothing, and those where the raster is of no use."""
    polygons, what = laid.polygons, "people" if laid.kind == "population" else "expected counts"
    if not laid.totals.any():
        text = f"{polygons.path_of(column)}: the column {column!r} must hold {what}; it is 0 everywhere. Name another."
        found.add("error", "no-people", text, polygons.file_of(column))
        return
    empty = np.flatnonzero((laid.layout.pixels > 0) & (shares.amounts == 0))
    if empty.size:
        names = laid.labels[empty].tolist()
        text = (
            f"{number(names, 'polygon has', 'polygons have')} no {what} ({some(names)}) and will be left out, with "
            f"{held(polygons, laid.responses, empty)}. Check the column."
        )
        found.add("warning", "empty", text, polygons.file, names)
    layer = laid.layout.spread_by.layer if laid.layout.spread_by is not None else None
    note = None if layer is None else shares.note(polygons, layer)
    if layer is not None and note is not None:
        found.add("warning", "spread-by-area", note, layer.file, laid.labels[shares.by_area].tolist())


def _check_negative(laid: Overlaid, people: People, found: Gathered) -> None:
    if not people.n_negative:
        return
    x, y = (float(side) for side in laid.grid.centres(people.lowest_cell))
    polygons = laid.labels[people.has_negative].tolist()
    text = (
        f"{people.layer.path} must not be negative; it is in {number(people.n_negative, 'cell', 'cells')} under "
        f"polygons {some(polygons)}, down to {people.lowest:g} at ({coordinate(x)}, {coordinate(y)}). Declare its "
        "value for missing cells, or correct it."
    )
    found.add("error", "negative-population", text, people.layer.file, polygons)


def _check_gaps(laid: Overlaid, people: People, found: Gathered) -> None:
    whole, gone = laid.layout.covered, people.gap_area
    shares = np.divide(gone, whole, out=np.zeros_like(whole), where=whole > 0)
    bare = np.flatnonzero(shares > HALF)
    if gone.sum() <= LITTLE * whole.sum() and not bare.size:
        return
    text = (
        f"{people.layer.file}: there is no value in {people.n_gaps:,} of {laid.n_cells:,} cells under "
        f"polygons, {percent(gone.sum(), whole.sum())} of their area, where nobody is taken to live"
    )
    if gone.sum() > MUCH * whole.sum() or bare.size:
        text += f"; most in {most(laid.labels, shares, np.flatnonzero(gone))}. Fill these cells if people live there."
        found.add("warning", "missing-population", text, people.layer.file, laid.labels[bare].tolist())
    else:
        found.add("advice", "missing-population", f"{text}.", people.layer.file)


def _check_empty(laid: Overlaid, people: People, found: Gathered) -> None:
    empty = np.flatnonzero((laid.layout.pixels > 0) & (laid.totals == 0))
    if not empty.size:
        return
    names = laid.labels[empty].tolist()
    text = (
        f"{people.layer.file}: {number(names, 'polygon has', 'polygons have')} no people ({some(names)}) and will be "
        f"left out, with {held(laid.polygons, laid.responses, empty)}. Check the population there."
    )
    found.add("warning", "empty", text, people.layer.file, names)


def _check_border(laid: Overlaid, people: People, found: Gathered) -> None:
    """People in the parts of cells that no polygon covers: abroad, or inside where the border is a coast."""
    outside = people.beyond
    if outside.sum() <= BORDER * laid.totals.sum():
        return
    shares = np.divide(outside, laid.totals, out=np.zeros_like(outside), where=laid.totals > 0)
    much = np.flatnonzero(shares > HALF)
    text = (
        f"{people.layer.file}: cells that polygons cover only in part hold {count(outside.sum())} people who count as "
        f"living outside ({percent(outside.sum(), laid.totals.sum())} of those inside). Along a coast they may live "
        f"inside: the population would grow most in {most(laid.labels, shares, np.flatnonzero(shares))}. Use a finer "
        "raster, or polygons that reach into the sea."
    )
    level: Level = "warning" if much.size else "advice"
    found.add(level, "border-cells", text, people.layer.file, laid.labels[much].tolist())
