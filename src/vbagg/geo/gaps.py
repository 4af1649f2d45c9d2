"""Cells under polygons that lack a covariate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from vbagg.errors import unknown_name
from vbagg.geo.files import percent
from vbagg.geo.grid import Floats
from vbagg.geo.stack import Stack
from vbagg.numerals import rate

POLICIES = ("nearest", "drop", "median")
AT_ONCE = 1_000_000  # cells whose nearest neighbour is sought at once

Cells = NDArray[np.int64]


@dataclass(frozen=True)
class Group:
    """Layers that come from one file and are missing in the same cells.

    Attributes
    ----------
    file, name
        The file and the layer, for messages.
    columns
        Names of the layers: one, or one for each category.
    categories
        Whether the layers are shares of categories.
    """

    file: str
    name: str
    columns: tuple[str, ...]
    categories: bool = False

    @property
    def indicator(self) -> str:
        """Name of the column that says where values were missing."""
        return f"{self.name}=missing" if self.categories else f"{self.name}_missing"


class CellBand(Protocol):
    """Some of the cells under polygons, each once and in order."""

    @property
    def cells(self) -> Cells: ...  # noqa: D102
    @property
    def exposed(self) -> Floats:
        """Exposure of each cell within the polygons, 0 where it is unknown."""

    def values(self, names: Sequence[str]) -> NDArray[np.float32]:
        """Layers in these cells (cells, names), NaN where there is no value."""


@dataclass(frozen=True)
class Filling:
    """What takes the place of missing covariates under polygons.

    Attributes
    ----------
    groups
        The covariates, by file.
    patches
        Cells that lack the layers of a group, in order, and the values they get; by the group's name.
    constants
        The value that all cells get that lack a group's layers, by the group's name; a new column says which.
    notes
        What was done, in sentences.
    """

    groups: tuple[Group, ...]
    patches: dict[str, tuple[Cells, NDArray[np.float32]]]
    constants: dict[str, np.float32]
    notes: tuple[str, ...]

    @property
    def layers(self) -> tuple[str, ...]:
        """Covariates as they are in the stack."""
        return tuple(name for group in self.groups for name in group.columns)

    @property
    def names(self) -> tuple[str, ...]:
        """Covariates once gaps are filled; new ones say where values were missing."""
        with_new = ((*g.columns, g.indicator) if g.name in self.constants else g.columns for g in self.groups)
        return tuple(name for names in with_new for name in names)

    @property
    def indicators(self) -> dict[str, str]:
        """New columns that say where values were missing, each with the layer whose values they speak of."""
        return {group.indicator: group.columns[0] for group in self.groups if group.name in self.constants}

    def filled(self, band: CellBand) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Covariates of some cells (cells, names), with NaN in those that are to be left out; and which changed."""
        columns, changed = [], np.zeros(band.cells.size, dtype=bool)
        for group in self.groups:
            values = band.values(group.columns)
            gaps = np.isnan(values[:, 0])
            if group.name in self.constants:
                values[gaps] = self.constants[group.name]
                values = np.column_stack([values, gaps.astype(np.float32)])
                changed |= gaps
            elif group.name in self.patches:
                cells, patch = self.patches[group.name]
                values[gaps] = patch[np.searchsorted(cells, band.cells[gaps])]
                changed |= gaps
            columns.append(values)
        return np.concatenate([*columns, np.empty((changed.size, 0), np.float32)], axis=1), changed


def plan_filling(
    stack: Stack, groups: Sequence[Group], bands: Callable[[], Iterable[CellBand]], policy: str, exposure: str
) -> Filling:
    """Decide what becomes of missing covariates under polygons.

    Parameters
    ----------
    stack
        All covariates on the whole grid.
    groups
        The covariates, by file.
    bands
        Walks over the cells under polygons.
    policy
        `"nearest"`: the value of the nearest cell that has one. `"drop"`: the cell is left out. `"median"`: the
        weighted median, with one more column that says where; missing categories are a category of their own.
    exposure
        What cells are weighted by, for messages: `"population"` or `"area"`.
    """
    if policy not in POLICIES:
        raise unknown_name("missing", policy, POLICIES)
    gaps = _find_gaps(groups, bands, keep=policy == "nearest")
    patches: dict[str, tuple[Cells, NDArray[np.float32]]] = {}
    constants: dict[str, np.float32] = {}
    notes = []
    for group, missing in zip(groups, gaps, strict=True):
        if missing.cells == missing.of_cells:
            raise ValueError(
                f"{group.file} must have values under the polygons; the covariate {group.name!r} has none there. "
                "Check its extent, CRS and missing values, or leave it out."
            )
        if not missing.cells:
            continue
        note = missing.share(group, exposure)
        if policy == "nearest":
            where = np.concatenate(missing.where)
            values, km = _nearest(stack, group, where)
            patches[group.name] = where, values
            note += f" Each took the value of the nearest cell that has one, at most {rate(km)} km away."
        elif policy == "median":
            constants[group.name] = np.float32(0) if group.categories else _weighted_median(bands, group.columns[0])
            column = group.indicator
            note += f" They got the {'category' if group.categories else 'median, and the column'} {column!r}."
        else:
            note += " They were left out."
        notes.append(note)
    return Filling(tuple(groups), patches, constants, tuple(notes))


@dataclass
class _Gaps:
    """How many cells under polygons lack a group's layers, with how much exposure, and which they are if asked for."""

    cells: int = 0
    of_cells: int = 0
    people: float = 0.0
    of_people: float = 0.0
    where: list[Cells] = field(default_factory=list)

    def share(self, group: Group, exposure: str) -> str:
        """How much is missing, in a sentence."""
        cells = f"{self.cells:,} of {self.of_cells:,} cells under polygons"
        part = f"{percent(self.people, self.of_people)} of the {exposure}"
        return f"{group.file}: {group.name} is missing in {cells} ({part})."


def _find_gaps(groups: Sequence[Group], bands: Callable[[], Iterable[CellBand]], keep: bool) -> list[_Gaps]:
    found = [_Gaps() for _ in groups]
    for band in bands() if groups else ():
        people = band.exposed
        for group, gaps in zip(groups, found, strict=True):
            missing = np.isnan(band.values(group.columns[:1])[:, 0])
            gaps.cells += int(np.count_nonzero(missing))
            gaps.of_cells += missing.size
            gaps.people += float(people[missing].sum())
            gaps.of_people += float(people.sum())
            if keep:
                gaps.where.append(band.cells[missing])
    return found


def _nearest(stack: Stack, group: Group, cells: Cells) -> tuple[NDArray[np.float32], float]:
    """Values (n, k) of the nearest cells that have one, and the largest distance in kilometres."""
    from scipy.spatial import KDTree

    edge = _edge(stack, group.columns[0])
    tree = KDTree(stack.grid.kilometres(edge))
    values, farthest = np.empty((cells.size, len(group.columns)), dtype=np.float32), 0.0
    for start in range(0, cells.size, AT_ONCE):
        some = slice(start, start + AT_ONCE)
        distance, found = tree.query(stack.grid.kilometres(cells[some]))
        values[some] = stack.at(edge[found], group.columns)
        farthest = max(farthest, float(np.max(distance)))
    return values, farthest


def _edge(stack: Stack, name: str) -> Cells:
    """Cells with a value beside a cell without: the nearest cell with a value is always one of them."""
    height, width = stack.grid.shape
    found = []
    for rows in stack.grid.bands():
        start, stop = max(0, rows.start - 1), min(height, rows.stop + 1)
        valid = ~np.isnan(stack.read(slice(start, stop), [name])[0])
        padded = np.pad(valid, 1, constant_values=True)
        beside = np.ones_like(valid)
        for down in range(3):
            for right in range(3):
                beside &= padded[down : down + len(valid), right : right + width]
        row, column = np.nonzero(valid & ~beside)
        row += start
        own = (row >= rows.start) & (row < rows.stop)
        found.append(row[own] * width + column[own])
    return np.concatenate(found)


def _weighted_median(bands: Callable[[], Iterable[CellBand]], name: str) -> np.float32:
    """The smallest value of a layer up to which at least half of the exposure lies; half of the cells if there is none.

    Found in two walks over the cells: by the upper half of the numbers' bits, then by the lower half.
    """
    weights, counts = _histogram(bands, name)
    weighed = weights.sum() > 0
    reached = np.cumsum(weights if weighed else counts)
    half = reached[-1] / 2
    upper = int(np.searchsorted(reached, half))
    weights, counts = _histogram(bands, name, upper)
    within = np.cumsum(weights if weighed else counts) + (reached[upper - 1] if upper else 0.0)
    lower = min(int(np.searchsorted(within, half)), int(np.flatnonzero(counts)[-1]))
    return _from_sortable(np.array([upper << 16 | lower], dtype=np.uint32))[0]


def _histogram(
    bands: Callable[[], Iterable[CellBand]], name: str, upper: int | None = None
) -> tuple[Floats, NDArray[np.int64]]:
    """Exposure and number of cells by the upper 16 bits of a layer; or by the lower ones where the upper are given."""
    weights, counts = np.zeros(1 << 16), np.zeros(1 << 16, dtype=np.int64)
    for band in bands():
        values = band.values([name])[:, 0]
        known = ~np.isnan(values)
        keys, people = _sortable(values[known]), band.exposed[known]
        bins = keys >> 16
        if upper is not None:
            inside = bins == upper
            bins, people = keys[inside] & 0xFFFF, people[inside]
        weights += np.bincount(bins, people, 1 << 16)
        counts += np.bincount(bins, minlength=1 << 16)
    return weights, counts


def _sortable(values: NDArray[np.float32]) -> NDArray[np.uint32]:
    """Whole numbers in the same order."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    return np.where(bits >> 31 == 1, ~bits, bits | np.uint32(1 << 31))


def _from_sortable(keys: NDArray[np.uint32]) -> NDArray[np.float32]:
    return np.where(keys >> 31 == 1, keys & np.uint32((1 << 31) - 1), ~keys).view(np.float32)
