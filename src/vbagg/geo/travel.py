"""Minutes from cells to facilities over a raster of friction, along the way that takes least.

From a cell one goes to its eight neighbours; a step takes its length in cells, 1 or the root of 2, times the mean
friction of the two cells. Ways begin at the middle of a facility's cell, which takes no time, and do not enter cells
without friction. Each facility is looked at in a window of its own, which grows until nothing within reach lies at its
edge: neither the whole raster nor its graph is ever in memory.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.sparse.csgraph import dijkstra

from vbagg.geo import target
from vbagg.geo.bands import kept_open
from vbagg.geo.covariates import open_one
from vbagg.geo.files import plural, some
from vbagg.geo.grid import Floats, Grid, crs_title
from vbagg.geo.rasters import Layer
from vbagg.numerals import coordinate

FIRST = 32
"""Cells from a facility to the edge of the first window."""
DIAGONAL = float(np.sqrt(2))
ALL_BUT_FIRST, ALL_BUT_LAST, EVERY = slice(1, None), slice(None, -1), slice(None)
STEPS = (
    ((EVERY, ALL_BUT_LAST), (EVERY, ALL_BUT_FIRST), 1.0),
    ((ALL_BUT_LAST, EVERY), (ALL_BUT_FIRST, EVERY), 1.0),
    ((ALL_BUT_LAST, ALL_BUT_LAST), (ALL_BUT_FIRST, ALL_BUT_FIRST), DIAGONAL),
    ((ALL_BUT_LAST, ALL_BUT_FIRST), (ALL_BUT_FIRST, ALL_BUT_LAST), DIAGONAL),
)
"""Cells, their neighbours in one of four directions, and the length of the step in cells."""


@dataclass(frozen=True, eq=False)
class Minutes:
    """Cells that are within reach of facilities.

    Attributes
    ----------
    grid
        Cells of the friction.
    n_facilities
        Number of facilities.
    facility, cell, minutes
        Position of a facility, number of a cell, and minutes from one to the other; sorted by both.
    notes
        What was assumed of the friction, in sentences.
    """

    grid: Grid
    n_facilities: int
    facility: NDArray[np.intp]
    cell: NDArray[np.int64]
    minutes: Floats
    notes: tuple[str, ...] = ()


def travel_minutes(
    friction: Layer | str | os.PathLike[str],
    places: ArrayLike,
    reach: float,
    labels: Sequence[Any] | None = None,
    progress: Callable[[str], None] | None = None,
) -> Minutes:
    """Minutes from each facility to all cells within reach.

    Parameters
    ----------
    friction
        Raster of the minutes that it takes to cross a cell, above 0; ways do not lead through cells without a value.
    places
        Coordinates x (or longitude) and y of the facilities, in the CRS of the raster (n, 2).
    reach
        Minutes beyond which nobody travels.
    labels
        Names of the facilities, for messages. Default: 1, 2, 3, ...
    progress
        Called with a few words before each facility.
    """
    layer, points = friction if isinstance(friction, Layer) else open_one(friction), np.asarray(places, np.float64)
    if not (np.isfinite(reach) and reach > 0):
        raise ValueError(f"`--reach` must be a number of minutes above 0; got {reach}.")
    names = list(range(1, len(points) + 1)) if labels is None else list(labels)
    layer = layer.facing((float(points[:, 0].min()), float(points[:, 0].max())))
    if not layer.grid.is_upright:
        raise ValueError(f"{layer.path} must be north up and not rotated. Straighten it, for example with `gdalwarp`.")
    tell = progress or (lambda text: None)
    with kept_open():
        row, column = _cells_of(layer, points, names)
        layer = layer.masked(*_window(layer.grid, row, column, FIRST))
        _require_friction(layer, row, column, names)
        cells, minutes, number = [], [], 0
        for at in range(len(points)):
            tell(f"travel time: facility {at + 1:,} of {len(points):,}")
            own, taken = _within(layer, int(row[at]), int(column[at]), reach)
            number += own.size
            if number > target.MOST_PIXELS:
                raise ValueError(
                    f"{layer.path}: at most {target.MOST_PIXELS:,} pairs of a facility and a cell within its reach can "
                    f"be held; there are more from the first {at + 1:,} of {len(points):,} facilities. Choose a smaller"
                    f" `--reach` than {reach:g} minutes, or a coarser raster."
                )
            cells.append(own)
            minutes.append(taken)
    facility = np.repeat(np.arange(len(points)), [own.size for own in cells])
    return Minutes(layer.grid, len(points), facility, np.concatenate(cells), np.concatenate(minutes), layer.notes)


def least_minutes(friction: ArrayLike, start: tuple[int, int], reach: float = np.inf) -> Floats:
    """Minutes from a cell to all cells of a raster in memory; infinite where that is more than `reach`.

    Parameters
    ----------
    friction
        Minutes to cross a cell, NaN where nobody passes (rows, columns).
    start
        Row and column of the cell.
    reach
        The most minutes that count.
    """
    minutes = np.asarray(friction, dtype=np.float64)
    known, number = np.isfinite(minutes), np.arange(minutes.size).reshape(minutes.shape)
    edges = []
    for here, there, length in STEPS:
        passable = known[here] & known[there]
        taken = length * (minutes[here] + minutes[there])[passable] / 2
        edges.append((number[here][passable], number[there][passable], taken))
    one, other, taken = (np.concatenate(parts) for parts in zip(*edges, strict=True))
    graph = sparse.csr_array((taken, (one, other)), shape=(minutes.size, minutes.size))
    found = dijkstra(graph, directed=False, indices=int(number[start]), limit=reach)
    return np.asarray(found, dtype=np.float64).reshape(minutes.shape)


def _within(layer: Layer, row: int, column: int, reach: float) -> tuple[NDArray[np.int64], Floats]:
    """Numbers of the cells within reach of a cell, in order, and their minutes."""
    height, width = layer.grid.shape
    radius = FIRST
    while True:
        rows, columns = _window(layer.grid, np.array([row]), np.array([column]), radius)
        friction = layer.read(rows, columns)
        _require_positive(layer, friction, rows, columns)
        minutes = least_minutes(friction, (row - rows.start, column - columns.start), reach)
        reached = np.isfinite(minutes)
        edges = (
            (rows.start > 0, reached[0]),
            (rows.stop < height, reached[-1]),
            (columns.start > 0, reached[:, 0]),
            (columns.stop < width, reached[:, -1]),
        )
        if not any(goes_on and edge.any() for goes_on, edge in edges):
            down, right = np.nonzero(reached)
            return (rows.start + down) * width + columns.start + right, minutes[reached]
        radius *= 2


def _window(grid: Grid, row: NDArray[np.intp], column: NDArray[np.intp], radius: int) -> tuple[slice, slice]:
    """Rows and columns of the grid up to so many cells from some cells."""
    return (
        slice(max(0, int(row.min()) - radius), min(grid.height, int(row.max()) + radius + 1)),
        slice(max(0, int(column.min()) - radius), min(grid.width, int(column.max()) + radius + 1)),
    )


def _cells_of(layer: Layer, points: Floats, names: Sequence[Any]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Row and column of the cell of each facility."""
    column, row = (np.floor(found).astype(np.intp) for found in layer.grid.positions(*points.T))
    outside = np.flatnonzero((row < 0) | (row >= layer.grid.height) | (column < 0) | (column >= layer.grid.width))
    if outside.size:
        left, bottom, right, top = map(coordinate, layer.grid.bounds)
        shown = [f"{names[at]!r} at ({', '.join(map(coordinate, points[at].tolist()))})" for at in outside.tolist()]
        raise ValueError(
            f"{layer.path} must reach all facilities; it covers x {left} to {right}, y {bottom} to {top} "
            f"({crs_title(layer.grid.crs)}), and {plural(outside.size, 'facility').replace('ys', 'ies')} "
            f"{'lies' if outside.size == 1 else 'lie'} outside: {some(shown, quote=False)}. Correct their coordinates "
            "(longitude comes first), leave them out, or use a larger raster."
        )
    return row, column


def _require_friction(layer: Layer, row: NDArray[np.intp], column: NDArray[np.intp], names: Sequence[Any]) -> None:
    """Raise for facilities in cells that nobody can leave."""
    bare = [
        names[at]
        for at in range(len(row))
        if not np.isfinite(
            layer.read(slice(int(row[at]), int(row[at]) + 1), slice(int(column[at]), int(column[at]) + 1))
        ).all()
    ]
    if bare:
        one = len(bare) == 1
        raise ValueError(
            f"{layer.path} must have friction in the cells of all facilities; it has none at {some(bare)}, which "
            f"nobody could reach. {'Is it' if one else 'Are they'} in the sea or a lake of the raster? Move "
            f"{'it' if one else 'them'} to the next cell on land, or leave {'it' if one else 'them'} out."
        )


def _require_positive(layer: Layer, friction: NDArray[np.float32], rows: slice, columns: slice) -> None:
    """Raise for cells that would take no time, or less."""
    bad = np.argwhere(friction <= 0)
    if len(bad):
        row, column = rows.start + int(bad[0, 0]), columns.start + int(bad[0, 1])
        x, y = (float(side) for side in layer.grid.centres(row * layer.grid.width + column))
        raise ValueError(
            f"{layer.path} must hold the minutes that it takes to cross a cell, above 0; got "
            f"{friction[tuple(bad[0])]:g} at ({coordinate(x)}, {coordinate(y)}), the first of "
            f"{plural(len(bad), 'such cell')}. Declare the value for missing cells where nobody passes, or correct it."
        )
