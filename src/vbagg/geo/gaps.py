"""Cells under polygons that lack a covariate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vbagg.errors import unknown_name
from vbagg.geo.files import percent
from vbagg.geo.grid import Floats
from vbagg.geo.stack import Stack

POLICIES = ("nearest", "drop", "median")

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


@dataclass(frozen=True)
class Filled:
    """Covariates of some cells after gaps were dealt with.

    Attributes
    ----------
    names
        Columns of `values`; new ones say where values were missing.
    values
        (cells, names), with NaN in cells that are to be left out.
    changed
        Whether each cell's values differ from those in the stack.
    indicators
        New columns that say where values were missing, each with the layer whose values they speak of.
    notes
        What was done, in sentences.
    """

    names: tuple[str, ...]
    values: NDArray[np.float32]
    changed: NDArray[np.bool_]
    indicators: dict[str, str]
    notes: tuple[str, ...]


def fill(stack: Stack, groups: Sequence[Group], cells: Cells, people: Floats, policy: str, exposure: str) -> Filled:
    """Deal with missing covariates under polygons.

    Parameters
    ----------
    stack
        All covariates on the whole grid.
    groups
        The covariates, by file.
    cells
        Numbers of the cells under any polygon, each once.
    people
        Exposure of each of these cells within the polygons.
    policy
        `"nearest"`: the value of the nearest cell that has one. `"drop"`: the cell is left out. `"median"`: the
        weighted median, with one more column that says where; missing categories are a category of their own.
    exposure
        What `people` is, for messages: `"population"` or `"area"`.
    """
    if policy not in POLICIES:
        raise unknown_name("missing", policy, POLICIES)
    columns: dict[str, NDArray[np.float32]] = {}
    changed = np.zeros(cells.size, dtype=bool)
    indicators: dict[str, str] = {}
    notes = []
    for group in groups:
        values = stack.at(cells, group.columns)
        gaps = np.isnan(values[:, 0])
        if gaps.all():
            raise ValueError(
                f"{group.file} must have values under the polygons; the covariate {group.name!r} has none there. "
                "Check its extent, CRS and missing values, or leave it out."
            )
        if gaps.any():
            changed |= gaps if policy != "drop" else False
            note = _share(group, gaps, people, exposure)
            if policy == "nearest":
                values[gaps], km = _nearest(stack, group, cells[gaps])
                note += f" Each took the value of the nearest cell that has one, at most {km:.3g} km away."
            elif policy == "median":
                values[gaps] = 0 if group.categories else _weighted_median(values[~gaps, 0], people[~gaps])
                column = group.indicator
                note += f" They got the {'category' if group.categories else 'median, and the column'} {column!r}."
            else:
                note += " They were left out."
            notes.append(note)
        columns |= dict(zip(group.columns, values.T, strict=True))
        if gaps.any() and policy == "median":
            columns[group.indicator] = gaps.astype(np.float32)
            indicators[group.indicator] = group.columns[0]
    table = np.column_stack([*columns.values()]) if columns else np.empty((cells.size, 0), dtype=np.float32)
    return Filled(tuple(columns), table, changed, indicators, tuple(notes))


def _share(group: Group, gaps: NDArray[np.bool_], people: Floats, exposure: str) -> str:
    """How much is missing, in a sentence."""
    part = f"{percent(people[gaps].sum(), people.sum())} of the {exposure}"
    return f"{group.file}: {group.name} is missing in {gaps.sum():,} of {gaps.size:,} cells under polygons ({part})."


def _nearest(stack: Stack, group: Group, cells: Cells) -> tuple[NDArray[np.float32], float]:
    """Values (n, k) of the nearest cells that have one, and the largest distance in kilometres."""
    from scipy.spatial import KDTree

    edge = _edge(stack, group.columns[0])
    distance, found = KDTree(stack.grid.kilometres(edge)).query(stack.grid.kilometres(cells))
    return stack.at(edge[found], group.columns), float(np.max(distance))


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


def _weighted_median(values: NDArray[np.float32], weights: Floats) -> np.float32:
    """The smallest value up to which at least half of the weight lies."""
    if weights.sum() <= 0:
        weights = np.ones_like(weights)
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    return values[order[np.searchsorted(reached, reached[-1] / 2)]]
