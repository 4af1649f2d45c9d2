"""Columns of numbers sorted by cell, in scratch files of which a little is read at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from vbagg.geo.prepared import Prepared
from vbagg.geo.runs import laid_out

Floats = NDArray[np.float64]
Cells = NDArray[np.int64]
Places = NDArray[np.intp]
Pairs = tuple[Places, Places, Floats]


def by_cell(cell: Cells) -> Places:
    """Order of the rows of a piece by cell; those of one cell stay in order."""
    return np.argsort(cell, kind="stable")


def best_of_cells(cell: Cells, coverage: Floats, fitted: NDArray[np.bool_]) -> Places:
    """The row of each cell, in order, whose rate is the cell's: of fitted polygons the one that covers most of it."""
    order = np.lexsort((-np.where(fitted, coverage, -1.0), cell))
    first = np.ones(len(order), dtype=bool)
    first[1:] = cell[order][1:] != cell[order][:-1]
    return order[first]


def means_of_cells(values: Floats, place: Places, coverage: Floats, fitted: NDArray[np.bool_], n: int) -> Floats:
    """Means (k, n) of what the rows of each cell hold (k, rows), weighted by coverage; of fitted polygons if any is."""
    served = np.bincount(place, fitted, n)[place] > 0
    weight = coverage * np.where(served, fitted, True)
    whole = np.bincount(place, weight, n)
    return np.stack([np.bincount(place, weight * row, n) / whole for row in values])


class Part(NamedTuple):
    """Rows of one of the files."""

    file: int
    rows: slice


@dataclass(frozen=True)
class Sorted:
    """Files with columns (k, n), the first of which, in order, is the cell; and the first and last cell of each."""

    paths: tuple[Path, ...]
    ends: Cells

    @classmethod
    def write(cls, folder: Path, name: str, parts: Iterator[Floats]) -> Sorted:
        """Write the parts, none of which is empty, one after the other."""
        folder.mkdir(parents=True, exist_ok=True)
        paths, ends = [], []
        for number, part in enumerate(parts):
            paths.append((folder / f"{name}-{number:06}.npy").resolve())
            np.save(paths[-1], part, allow_pickle=False)
            ends.append((part[0, 0], part[0, -1]))
        return cls(tuple(paths), np.array(ends, dtype=np.int64).reshape(-1, 2))

    def columns(self, file: int) -> Floats:
        """All columns of a file, which stay there until they are used."""
        return np.load(self.paths[file], mmap_mode="r")

    def between(self, first: int, last: int) -> list[Part]:
        """Where rows of cells from one to before another are."""
        near = np.flatnonzero((self.ends[:, 0] < last) & (self.ends[:, 1] >= first))
        found = (Part(file, slice(*np.searchsorted(self.columns(file)[0], [first, last]))) for file in near.tolist())
        return [part for part in found if part.rows.start < part.rows.stop]

    def read(self, parts: list[Part]) -> Floats:
        """Columns (k, n) of some rows, one part after the other."""
        return np.concatenate([self.columns(part.file)[:, part.rows] for part in parts], axis=1)

    def at(self, cells: Cells) -> tuple[Places, Floats]:
        """Rows of these cells, which are in order and each there once: position among the cells, columns (k, n)."""
        places, found = [np.empty(0, np.intp)], []
        for file in np.flatnonzero((self.ends[:, 0] <= cells[-1]) & (self.ends[:, 1] >= cells[0])).tolist():
            begin, end = np.searchsorted(cells, self.ends[file] + [0, 1])
            if begin < end:
                columns, own = self.columns(file), cells[begin:end].astype(np.float64)
                first, last = (np.searchsorted(columns[0], own, side) for side in ("left", "right"))
                at, rows = laid_out(first, last)
                places.append(begin + at)
                found.append(columns[:, rows])
        width = len(self.columns(0)) if self.paths else 1
        return np.concatenate(places), np.concatenate([np.empty((width, 0)), *found], axis=1)


class Band(NamedTuple):
    """Pairs of a polygon and a cell of some rows of the grid.

    Attributes
    ----------
    parts
        Where they are, piece by piece.
    cells
        Numbers of the cells, in order and each once.
    pairs
        Polygon, position among these cells and coverage of each pair.
    weight
        Exposure of each pair.
    best
        The pair of each cell whose rate is the cell's.
    fitted
        Which pairs are of polygons with any weight.
    """

    parts: list[Part]
    cells: Cells
    pairs: Pairs
    weight: Floats
    best: Places
    fitted: NDArray[np.bool_]


@dataclass(frozen=True)
class CellIndex:
    """Which polygon covers which cell, as `prepare` found it: for every piece of the table, sorted by cell."""

    files: Sorted
    width: int

    @classmethod
    def of(cls, prepared: Prepared, folder: Path) -> CellIndex:
        """Sort every piece."""
        pieces, labels = prepared.pieces, pd.Index(prepared.polygons.labels)

        def parts() -> Iterator[Floats]:
            for piece in pieces.all:
                rows = pieces.rows(piece)
                polygon = labels.get_indexer(rows.pixels["polygon"])
                cell, coverage, weight = (rows.pixels[name].to_numpy() for name in ("cell", "coverage", "weight"))
                yield np.stack([cell, polygon, coverage, weight, rows.inside])[:, by_cell(cell)]

        return cls(Sorted.write(folder, "cells", parts()), prepared.stack.grid.width)

    @classmethod
    def empty(cls, prepared: Prepared) -> CellIndex:
        """Of no polygons at all."""
        return cls(Sorted((), np.empty((0, 2), np.int64)), prepared.stack.grid.width)

    @property
    def is_empty(self) -> bool:
        """Whether there are no polygons."""
        return not self.files.paths

    def rows(self, rows: slice) -> Band | None:
        """Pairs of some rows of the grid, None if there are none."""
        parts = self.files.between(rows.start * self.width, rows.stop * self.width)
        if not parts:
            return None
        cell, polygon, coverage, weight, fitted = self.files.read(parts)
        cells, place = np.unique(cell.astype(np.int64), return_inverse=True)
        best = best_of_cells(cell.astype(np.int64), coverage, fitted > 0)
        return Band(parts, cells, (polygon.astype(np.intp), place, coverage), weight, best, fitted > 0)
