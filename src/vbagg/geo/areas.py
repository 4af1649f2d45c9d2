"""Totals of any polygons as sums over parts of the fitted ones, given the totals that were observed of these.

Cells of the other polygons go to scratch files, band of rows by band of rows. A piece of the table of pixels then finds
what its fitted polygons have of them; cells that lie outside of the fitted polygons are bags of their own. A model
adds up what pieces tell: given its weights, different bags are independent of each other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import shapely
from numpy.typing import NDArray

from vbagg.bags import Bags
from vbagg.geo.cell_features import cell_features
from vbagg.geo.cell_index import Band, CellIndex, Sorted, by_cell
from vbagg.geo.overlay import Overlay, cells_covered
from vbagg.geo.pieces import PIECE_ROWS, Piece, PieceRows, whole_runs
from vbagg.geo.polygons import Polygons
from vbagg.geo.prepared import Prepared
from vbagg.geo.runs import laid_out
from vbagg.models.areas import AreaSums

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]
TOUCH = 1e-6
"""Part of the smaller of two polygons below which they only touch."""
CELLS_PER_BAND = 1 << 20
"""Cells of the grid whose pairs with other polygons are in memory at once."""


@dataclass(frozen=True)
class Meetings:
    """Which other polygons share more than a border with which fitted ones, as sorted numbers.

    Outlines do not tell that of catchments: all facilities of a cell count, however little they have of it.
    """

    numbers: NDArray[np.int64]
    n_fitted: int
    are_all: bool = False

    @classmethod
    def of(cls, prepared: Prepared, others: Polygons) -> Meetings:
        """Compare their shapes."""
        if prepared.is_shared:
            return cls(np.empty(0, np.int64), len(prepared.polygons), are_all=True)
        crs = prepared.stack.grid.crs
        fitted, shapes = (np.asarray(polygons.to(crs).geometry) for polygons in (prepared.polygons, others))
        own, other = shapely.STRtree(fitted).query(shapes, predicate="intersects")[::-1]
        shared = shapely.area(shapely.intersection(fitted[own], shapes[other]))
        least = np.minimum(shapely.area(fitted[own]), shapely.area(shapes[other]))
        return cls(np.sort((other * len(fitted) + own)[shared > TOUCH * least]), len(fitted))

    @classmethod
    def none(cls) -> Meetings:
        """Where there are no fitted polygons."""
        return cls(np.empty(0, np.int64), 1)

    def meet(self, other: Integers, fitted: Integers) -> NDArray[np.bool_]:
        """Whether pairs of positions are among them."""
        if self.are_all:
            return np.ones(len(other), dtype=bool)
        return np.isin(other * self.n_fitted + fitted, self.numbers)


@dataclass(frozen=True)
class Areas:
    """Other polygons over the grid and over the fitted polygons.

    Attributes
    ----------
    pairs
        Columns cell, area (position of another polygon), weight (exposure of the area in that cell), and the part of
        the cell in those fitted polygons that the area overlaps, 0 where it is outside of them. Where a column was
        spread over polygons, which have densities of their own in a cell, it is what they have there instead.
    exposure, cells
        Sums of weights, and numbers of cells with all covariates, of each area (n).
    meetings
        Which of them overlap fitted polygons.
    is_spread
        Whether a column was spread.
    is_new
        Whether there are no fitted polygons here.
    """

    pairs: Sorted
    exposure: Floats
    cells: Floats
    meetings: Meetings
    is_spread: bool = False
    is_new: bool = False

    @classmethod
    def of(cls, prepared: Prepared, others: Polygons, index: CellIndex, folder: Path) -> Areas:
        """Walk over the grid in bands of rows."""
        grid, n = prepared.stack.grid, len(others)
        meetings = Meetings.none() if index.is_empty else Meetings.of(prepared, others)
        laid = Overlay(others, grid)
        exposure, cells = np.zeros(n), np.zeros(n)

        def bands() -> Iterator[Floats]:
            for rows in grid.bands(CELLS_PER_BAND):
                pairs = laid.pairs(rows)
                features, size = cell_features(prepared, pairs["cell"].to_numpy())
                known = features.notna().all(axis=1).to_numpy()
                cells[:] += cells_covered(pairs[known], n)
                weight = pairs["coverage"].to_numpy() * size
                used = np.flatnonzero(known & (weight > 0))
                if len(used):
                    used = used[by_cell(pairs["cell"].to_numpy()[used])]
                    cell, area, coverage = (pairs[name].to_numpy()[used] for name in ("cell", "polygon", "coverage"))
                    band, own = index.rows(rows), weight[used]
                    covered = _sums(band, meetings, cell, area, "coverage")
                    if prepared.is_spread:
                        shared = _sums(band, meetings, cell, area, "weight")
                        density = np.divide(shared, covered, out=np.zeros_like(shared), where=covered > 0)
                        own, covered = np.where(covered > 0, coverage * density, own), shared
                    some = own > 0
                    exposure[:] += np.bincount(area[some], own[some], n)
                    if some.any():
                        yield np.stack([cell, area, own, covered])[:, some]

        return cls(
            Sorted.write(folder, "pairs", bands()), exposure, cells, meetings, prepared.is_spread, index.is_empty
        )

    def parts(self, labels: NDArray[np.object_]) -> AreaParts:
        """What to ask about the fitted polygons, whose labels these are."""
        return AreaParts(self, labels)

    @property
    def outside_parts(self) -> AreaParts:
        """What to ask about cells outside of them."""
        return AreaParts(self, None, "outside")

    @cached_property
    def digest(self) -> str:
        """Tells these areas from any others."""
        found = hashlib.sha256(self.exposure.tobytes() + self.meetings.numbers.tobytes())
        for path in self.pairs.paths:
            found.update(path.read_bytes())
        return found.hexdigest()

    def totals(self, model: Any, answers: Iterable[Floats]) -> tuple[Integers, Any]:
        """Areas that anything is known of, and the law of their totals."""
        at = np.flatnonzero(self.exposure > 0)
        number = np.full(len(self.exposure), -1)
        number[at] = np.arange(len(at))
        return at, model.area_law(AreaSums.added(answers, number))


def _sums(
    band: Band | None, meetings: Meetings, cell: NDArray[np.int64], area: Integers, what: Literal["coverage", "weight"]
) -> Floats:
    """Part of each pair's cell in those fitted polygons that its area overlaps, or what they have there."""
    if band is None:
        return np.zeros(len(cell))
    polygon, place, coverage = band.pairs
    at, row = joined(cell, band.cells[place])
    meets = band.fitted[row] & meetings.meet(area[at], polygon[row])
    summed = coverage if what == "coverage" else band.weight
    return np.bincount(at[meets], summed[row[meets]], len(cell)).astype(np.float64)


@dataclass(frozen=True, eq=False)
class AreaParts:
    """Asks for sums over the parts that areas have in the polygons of a piece: see `AreaSums.packed`."""

    areas: Areas
    labels: NDArray[np.object_] | None
    """Of all fitted polygons; None for pieces whose bags are parts of areas themselves."""
    name: str = "areas"

    def told(self) -> str:
        """What is known of the areas."""
        return self.areas.digest

    def answer(self, model: Any, rows: PieceRows) -> Floats:
        """Packed sums; nothing where no area reaches."""
        if rows.bags is None:
            return np.empty((0, 0))
        row, area, weight = self._entries(rows, rows.bags)
        if not len(row):
            return np.empty((0, 0))
        own, number = np.unique(area, return_inverse=True)
        sums = model.area_sums(rows.bags, row, number, weight, self.areas.exposure[own])
        return AreaSums.packed(sums, own)

    def _entries(self, rows: PieceRows, bags: Bags) -> tuple[Integers, Integers, Floats]:
        """Rows of the bags, the areas they belong to, and their weights there."""
        if self.labels is None:
            return np.arange(bags.n_individuals), rows.pixels["area"].to_numpy()[bags.rows], bags.weight
        own = rows.pixels[rows.inside].iloc[bags.rows]
        cells, place = np.unique(own["cell"].to_numpy(), return_inverse=True)
        at, (_, area, weight, covered) = self.areas.pairs.at(cells)
        pair, row = joined(at, place)
        polygon = pd.Index(self.labels).get_indexer(list(bags.labels))[bags.bag[row]]
        areas = area[pair].astype(np.intp)
        meets = self.areas.meetings.meet(areas, polygon)
        pair, row = pair[meets], row[meets]
        share = own["weight" if self.areas.is_spread else "coverage"].to_numpy()[row] / covered[pair]
        return row, areas[meets], weight[pair] * share


@dataclass(frozen=True, eq=False)
class Outside:
    """Cells of areas outside of the fitted polygons, those of an area together, in pieces of a bag for each area.

    An area with more of them than a piece may have is cut: between its parts, as between bags, covariance comes from
    the landmarks alone.
    """

    prepared: Prepared
    entries: Path
    all: tuple[Piece, ...]
    digests: tuple[str, ...]

    @classmethod
    def of(cls, prepared: Prepared, pairs: Sorted) -> Outside:
        """Collect them from all bands."""
        found = [columns[:3, columns[3] == 0] for columns in map(pairs.columns, range(len(pairs.paths)))]
        every = np.concatenate([np.empty((3, 0)), *found], axis=1)
        every = every[:, np.argsort(every[1], kind="stable")]
        path = pairs.paths[0].with_name("outside.npy") if pairs.paths else Path("outside.npy")
        edges = np.append(np.flatnonzero(np.diff(every[1])) + 1, every.shape[1])
        ends = sorted({*edges.tolist(), *range(PIECE_ROWS, every.shape[1], PIECE_ROWS)}) if every.size else []
        pieces = tuple(Piece(number, span.start, span.stop) for number, span in enumerate(whole_runs(ends, PIECE_ROWS)))
        if every.size:
            np.save(path, every)
        with prepared.stack.path.open("rb") as layers:  # what cells hold
            held = hashlib.file_digest(layers, "sha256").digest()
        digests = tuple(hashlib.sha256(held + every[:, p.start : p.stop].tobytes()).hexdigest() for p in pieces)
        return cls(replace(prepared), path, pieces, digests)

    def rows(self, piece: Piece) -> PieceRows:
        """Read what the grid has in the cells of a piece."""
        cell, area, weight = np.load(self.entries, mmap_mode="r")[:, piece.start : piece.stop]
        features, _ = cell_features(self.prepared, cell.astype(np.int64))
        # names that no fitted polygon has
        names = np.array([f"outside of the fitted polygons, part {int(number)}" for number in area], dtype=object)
        pixels = pd.DataFrame({"area": area.astype(np.intp), "weight": weight})
        return PieceRows(pixels, np.ones(len(cell), bool), Bags(features, names, np.array(weight)), features)


def joined(left: NDArray[Any], right: NDArray[Any]) -> tuple[Integers, Integers]:
    """Positions of all pairs of equal numbers, those of `left` in order."""
    order = np.argsort(right, kind="stable")
    first, last = (np.searchsorted(right[order], left, side) for side in ("left", "right"))
    at, place = laid_out(first, last)
    return at, order[place]
