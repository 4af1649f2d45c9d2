"""Facilities that share cells by travel time: who attends which, cell by cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import shapely
from numpy.typing import ArrayLike, NDArray

from vbagg.geo.files import some
from vbagg.geo.grid import Floats, Grid, is_geographic, same_crs, transformer
from vbagg.geo.longitudes import near
from vbagg.geo.overlay import SPECK
from vbagg.geo.runs import laid_out
from vbagg.geo.travel import Minutes
from vbagg.numerals import coordinate

ROUNDING = 1e-6
"""By how much shares of a cell may add up to more than 1."""


@dataclass(frozen=True, eq=False)
class CellShares:
    """Parts of the people of cells who attend facilities.

    Attributes
    ----------
    grid
        Where the cells are.
    n_facilities
        Number of facilities.
    cells, starts
        Numbers of the cells from which anybody attends, in order, and where the run of each begins, with the end of
        the last (n + 1).
    facility, share
        Position of a facility, and part of the people of the cell who attend it, run by run.
    notes
        What was assumed, in sentences.
    """

    grid: Grid
    n_facilities: int
    cells: NDArray[np.int64]
    starts: NDArray[np.intp]
    facility: NDArray[np.intp]
    share: Floats
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        sums = self.sums
        bad = np.flatnonzero(~(sums <= 1 + ROUNDING))
        if bad.size or not (self.share >= 0).all():
            at = int(bad[0]) if bad.size else int(np.searchsorted(self.starts, np.argmin(self.share), "right")) - 1
            row, column = divmod(int(self.cells[at]), self.grid.width)
            own = self.share[self.starts[at] : self.starts[at + 1]].tolist()
            raise ValueError(
                f"Shares of a cell must not be negative, nor add up to more than 1; those of the cell in row {row}, "
                f"column {column} are {some(own)}, {coordinate(sums[at])} in all. Divide them by their sum."
            )

    @property
    def crs(self) -> str:
        """That of the cells."""
        return self.grid.crs

    @property
    def sums(self) -> Floats:
        """Part of the people of each cell who attend any facility."""
        return np.add.reduceat(self.share, self.starts[:-1]) if self.cells.size else np.empty(0)

    def pairs(self, grid: Grid, rows: slice = slice(None)) -> pd.DataFrame:
        """Facilities and cells of some rows of a grid, with the share as `coverage`: see `Overlay.pairs`.

        A cell of another grid has the shares of the cell in which its middle lies.
        """
        first, last, _ = rows.indices(grid.height)
        cells = np.arange(first * grid.width, last * grid.width)
        known, at = self._cells_under(*grid.centres(cells), crs=grid.crs)
        own, place = laid_out(self.starts[at], self.starts[at + 1])
        found = {"polygon": self.facility[place], "cell": cells[known][own], "coverage": self.share[place]}
        order = np.lexsort((found["cell"], found["polygon"]))
        order = order[found["coverage"][order] > SPECK]
        return pd.DataFrame({name: values[order] for name, values in found.items()})

    def served(self, grid: Grid, rows: slice) -> Floats:
        """Part of each cell whose people are counted as attending some facility or none: all of every cell."""
        first, last, _ = rows.indices(grid.height)
        return np.ones((last - first) * grid.width)

    def expected_pixels(self, grid: Grid) -> float:
        """About how many pairs there are on a grid."""
        return self.facility.size * _cell_area(self.grid) / _cell_area(grid)

    def outlines(self) -> NDArray[Any]:
        """Cells where each facility has the largest share (n), or else the cell where its own is largest."""
        order = np.lexsort((self.facility, -self.share, np.repeat(np.arange(self.cells.size), np.diff(self.starts))))
        largest = self.facility[order[self.starts[:-1]]]
        shapes = _outlined(self.grid, self.cells, largest, self.n_facilities)
        cell = np.repeat(self.cells, np.diff(self.starts))
        for facility in np.flatnonzero(shapely.is_empty(shapes)):
            own = np.flatnonzero(self.facility == facility)
            if own.size:
                most = cell[own[np.argmax(self.share[own])]][None]
                shapes[facility] = _outlined(self.grid, most, np.zeros(1, np.intp), 1)[0]
        return shapes

    def _cells_under(self, x: Floats, y: Floats, crs: str) -> tuple[NDArray[np.bool_], NDArray[np.intp]]:
        """Which points lie in cells with shares, and which of `cells` these are."""
        if not same_crs(crs, self.grid.crs):
            x, y = transformer(crs, self.grid.crs).transform(x, y)
        if is_geographic(self.grid.crs):
            west, _, east, _ = self.grid.bounds
            x = near(x, (west + east) / 2, self.grid.crs)
        column, row = self.grid.positions(x, y)
        with np.errstate(invalid="ignore"):
            inside = (column >= 0) & (column < self.grid.width) & (row >= 0) & (row < self.grid.height)
        number = np.full(x.shape, -1, dtype=np.int64)
        number[inside] = np.floor(row[inside]).astype(np.int64) * self.grid.width + column[inside].astype(np.int64)
        at = np.minimum(np.searchsorted(self.cells, number), self.cells.size - 1)
        known = self.cells[at] == number
        return known, at[known]


def attendance(
    minutes: Minutes,
    decay: float,
    attraction: ArrayLike | None = None,
    staying: float = 0.0,
    most: float = np.inf,
) -> CellShares:
    """Which part of the people of each cell attend which facility, by gravity.

    Of the people in cell `i`, the part `a_j exp(-t_ij / decay) / (staying + sum_k a_k exp(-t_ik / decay))` attends
    facility `j`, over all facilities `k` within reach. Where no facility is within reach nobody attends any.

    Parameters
    ----------
    minutes
        `t_ij`, in minutes.
    decay
        Minutes by which a facility must be farther away for its attraction to fall to 1 / e = 0.37 of what it is.
    attraction
        `a_j`, how much each facility attracts, such as its number of beds; only ratios count, but for `staying`.
        Default: 1 each.
    staying
        Attraction of attending none, in the units of `a_j`: that of a facility no minute away. Those who stay leak.
    most
        Minutes beyond which nobody travels, if fewer than `minutes` were found for.
    """
    if not (np.isfinite(decay) and decay > 0):
        raise ValueError(f"`--decay` must be a number of minutes above 0; got {decay}.")
    if not (np.isfinite(staying) and staying >= 0):
        raise ValueError(f"`--staying` must be a number from 0 on; got {staying}.")
    attracts = np.ones(minutes.n_facilities) if attraction is None else np.asarray(attraction, dtype=np.float64)
    if attracts.shape != (minutes.n_facilities,) or not (np.isfinite(attracts) & (attracts > 0)).all():
        raise ValueError(
            f"`attraction` must hold a number above 0 for each of the {minutes.n_facilities} facilities; got "
            f"{some(attracts.tolist())}. Leave out facilities that attract nobody."
        )
    within = np.flatnonzero(minutes.minutes <= most)
    within = within[np.lexsort((minutes.facility[within], minutes.cell[within]))]
    if not within.size:
        raise ValueError(f"Some cell must be within {most:g} minutes of a facility; none is. Choose a longer reach.")
    facility = minutes.facility[within]
    cells, starts = np.unique(minutes.cell[within], return_index=True)
    ends = np.append(starts, within.size)
    pull = np.log(attracts[facility]) - minutes.minutes[within] / decay
    with np.errstate(divide="ignore"):
        none = np.log(staying)
    # exp(pull - top): the largest pull of a cell, or that of staying, would overflow or vanish by itself
    top = np.maximum(np.maximum.reduceat(pull, starts), none)
    pulls = np.exp(pull - np.repeat(top, np.diff(ends)))
    whole = np.add.reduceat(pulls, starts) + np.exp(none - top)
    share = pulls / np.repeat(whole, np.diff(ends))
    return CellShares(minutes.grid, minutes.n_facilities, cells, ends.astype(np.intp), facility, share, minutes.notes)


def _outlined(grid: Grid, cells: NDArray[np.int64], owner: NDArray[np.intp], n: int) -> NDArray[Any]:
    """Cells of each owner as one shape (n), empty for those without any."""
    from affine import Affine
    from rasterio.features import shapes

    row, column = np.divmod(cells, grid.width)
    part = grid.sub(slice(int(row.min()), int(row.max()) + 1), slice(int(column.min()), int(column.max()) + 1))
    owners = np.full(part.shape, -1, dtype=np.int32)
    owners[row - row.min(), column - column.min()] = owner
    found: list[list[Any]] = [[] for _ in range(n)]
    for shape, value in shapes(owners, mask=owners >= 0, transform=Affine(*part.transform)):
        found[int(value)].append(shapely.geometry.shape(shape))
    return np.array([shapely.union_all(parts) if parts else shapely.MultiPolygon() for parts in found], dtype=object)


def _cell_area(grid: Grid) -> float:
    """Square kilometres of a cell in the middle of a grid."""
    middle = grid.height // 2
    return float(grid.areas(slice(middle, middle + 1)).mean())


def shares_of(cells: Sequence[int], facility: Sequence[int], share: Sequence[float], grid: Grid, n: int) -> CellShares:
    """Shares from a table with a row for each cell, by number, and facility, by position, in any order."""
    number, place = np.asarray(cells, dtype=np.int64), np.asarray(facility, dtype=np.intp)
    order = np.lexsort((place, number))
    distinct, starts = np.unique(number[order], return_index=True)
    ends = np.append(starts, number.size).astype(np.intp)
    return CellShares(grid, n, distinct, ends, place[order], np.asarray(share, dtype=np.float64)[order])
