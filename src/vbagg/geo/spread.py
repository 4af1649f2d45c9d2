"""Splitting the cells of one grid among the cells of another, in proportion to the area they share.

In one CRS the split is exact, and done along rows and columns in turn. Between two CRS each source cell is cut into
pieces smaller than a target cell; a piece is a rectangle of the target grid with the place, width and height that the
piece has there. All pieces are kept whole, so sums are kept in either case.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vbagg.geo.grid import Floats, Grid, is_geographic, same_crs, transformer
from vbagg.geo.longitudes import near

SNAP = 1e-4  # edges this near, in target cells, are one
PIECES = 1_000_000  # pieces in memory at once
SMALL = 0.5  # cells up to this width, in target cells, stay in one piece
LEAP = 50  # cells that span this many times the usual width lie across the edge of a map


def spread(planes: Floats, source: Grid, target: Grid) -> Floats:
    """Sums (k, rows, columns of the target) of what the source's cells hold (k, rows, columns of the source)."""
    return _splitter(source, target)(planes)


def coarsen(planes: Floats, grid: Grid, factor: int) -> tuple[Floats, Grid]:
    """Sums over blocks of cells, from the first corner on, and their grid."""
    if factor == 1:
        return planes, grid
    height, width = -(-grid.height // factor), -(-grid.width // factor)
    padded = np.zeros((len(planes), height * factor, width * factor))
    padded[:, : grid.height, : grid.width] = planes
    a, b, c, d, e, f = grid.transform
    coarse = Grid(grid.crs, (a * factor, b * factor, c, d * factor, e * factor, f), height, width)
    return padded.reshape(len(planes), height, factor, width, factor).sum((2, 4)), coarse


def positions_in(source: Grid, target: Grid, column: Floats, row: Floats) -> tuple[Floats, Floats]:
    """Column and row in the target of points given by column and row in the source."""
    points = source.coordinates(column, row)
    if not same_crs(source.crs, target.crs):
        x, y = transformer(source.crs, target.crs).transform(*points)
        left, _, right, _ = target.bounds
        points = near(x, (left + right) / 2, target.crs) if is_geographic(target.crs) else x, y
    return target.positions(*points)


@lru_cache(maxsize=8)  # layers on the same grid are spread one after the other
def _splitter(source: Grid, target: Grid) -> Callable[[Floats], Floats]:
    if same_crs(source.crs, target.crs) and source.is_upright and target.is_upright:
        columns, _ = target.positions(*source.coordinates(np.arange(source.width + 1), 0))
        _, rows = target.positions(*source.coordinates(0, np.arange(source.height + 1)))
        down, across = _overlaps(rows, target.height), _overlaps(columns, target.width)
        return lambda planes: np.stack([(across @ (down @ plane).T).T for plane in planes])
    matrix = _pieces(source, target)
    return lambda planes: (matrix @ planes.reshape(len(planes), -1).T).T.reshape(-1, *target.shape)


def _overlaps(edges: Floats, n: int) -> Any:
    """Part of each source interval within each of the target's intervals 0..1, ..., n-1..n: (n, intervals)."""
    from scipy.sparse import csr_array

    edges = np.where(np.abs(edges - np.round(edges)) < SNAP, np.round(edges), edges)
    start, stop = edges[:-1], edges[1:]
    first = np.floor(start).astype(np.int64)
    count = np.ceil(stop).astype(np.int64) - first
    source = np.repeat(np.arange(start.size), count)
    target = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count - first, count)
    shared = np.minimum(stop[source], target + 1) - np.maximum(start[source], target)
    inside = (target >= 0) & (target < n)
    part = (shared / (stop - start)[source])[inside]
    return csr_array((part, (target[inside], source[inside])), shape=(n, start.size))


def _pieces(source: Grid, target: Grid) -> Any:
    """Part of each source cell within each target cell, between two CRS: (target cells, source cells)."""
    from scipy.sparse import csr_array

    corners = np.meshgrid(np.arange(source.width + 1.0), np.arange(source.height + 1.0))
    u, v = (_corners(values) for values in positions_in(source, target, *corners))
    cells = np.flatnonzero(_near(u, target.width) & _near(v, target.height))
    shape = target.n_cells, source.n_cells
    if cells.size == 0:
        return csr_array(shape)
    u, v = u[:, cells], v[:, cells]
    wide, high = _extent(u), _extent(v)
    usual = (wide < LEAP * np.median(wide)) & (high < LEAP * np.median(high))
    cells, u, v, wide, high = cells[usual], u[:, usual], v[:, usual], wide[usual], high[usual]
    widest = max(wide.max(), high.max())
    cut = 1 if widest <= SMALL else max(2, int(np.ceil(widest)))
    matrix = csr_array(shape)
    step = max(1, PIECES // cut**2)
    for start in range(0, cells.size, step):
        some = slice(start, start + step)
        matrix = matrix + _deposit(
            cells[some], u[:, some], v[:, some], wide[some] / cut, high[some] / cut, cut, target, shape
        )
    return matrix


def _deposit(
    cells: NDArray[np.int64],
    u: Floats,
    v: Floats,
    wide: Floats,
    high: Floats,
    cut: int,
    target: Grid,
    shape: tuple[int, int],
) -> Any:
    """Split each of `cut` x `cut` pieces of each cell among the at most four target cells it touches."""
    from scipy.sparse import csr_array

    middles = (np.arange(cut) + 0.5) / cut
    across, down = (axis.reshape(-1, 1) for axis in np.meshgrid(middles, middles))
    weights = [(1 - across) * (1 - down), across * (1 - down), (1 - across) * down, across * down]
    columns, rows = (_two_parts(sum(w * p for w, p in zip(weights, points, strict=True)), size)
                     for points, size in ((u, wide), (v, high)))  # fmt: skip
    rows_of, columns_of, parts = [], [], []
    source = np.broadcast_to(cells, columns[0][0].shape)
    for column, in_column in columns:
        for row, in_row in rows:
            inside = (column >= 0) & (column < target.width) & (row >= 0) & (row < target.height)
            rows_of.append((row * target.width + column)[inside])
            columns_of.append(source[inside])
            parts.append((in_column * in_row / cut**2)[inside])
    entries = np.concatenate(parts), (np.concatenate(rows_of), np.concatenate(columns_of))
    return csr_array(entries, shape=shape)


def _two_parts(middle: Floats, width: Floats) -> list[tuple[NDArray[np.int64], Floats]]:
    """The interval that a piece's left end lies in with the part of the piece in it, and the next with the rest."""
    left = middle - width / 2
    first = np.floor(left).astype(np.int64)
    part = np.minimum(1.0, (first + 1 - left) / width)
    return [(first, part), (first + 1, 1 - part)]


def _corners(values: Floats) -> Floats:
    """Values at the four corners of each cell: (4, cells), from values at all corners of a grid."""
    return np.stack([values[:-1, :-1], values[:-1, 1:], values[1:, :-1], values[1:, 1:]]).reshape(4, -1)


def _near(corners: Floats, size: int) -> NDArray[np.bool_]:
    """Whether a cell may reach into 0..size; cells without a place do not."""
    with np.errstate(invalid="ignore"):
        return np.isfinite(corners).all(0) & (corners.max(0) > -1) & (corners.min(0) < size + 1)


def _extent(corners: Floats) -> Floats:
    """Width of an upright rectangle that spreads as far as the cell: sqrt of summed squares of its two sides."""
    first, second, third, fourth = corners
    along, across = (second - first + fourth - third) / 2, (third - first + fourth - second) / 2
    return np.hypot(along, across)
