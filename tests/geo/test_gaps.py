from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest

from vbagg.geo.gaps import Group, _edge, plan_filling
from vbagg.geo.grid import Grid
from vbagg.geo.stack import Stack

GRID = Grid("EPSG:32738", (3000, 0, 4e5, 0, -1000, 8e6), 4, 5)
RAIN = np.arange(20, dtype=np.float32).reshape(4, 5)
NAN = np.nan


@dataclass
class Part:
    """Some cells of a stack, and the people within polygons in each."""

    stack: Stack
    cells: np.ndarray
    exposed: np.ndarray

    def values(self, names):
        return self.stack.at(self.cells, names)


@dataclass
class Filled:
    names: tuple
    values: np.ndarray
    changed: np.ndarray
    indicators: dict
    notes: tuple


def fill(stack, groups, cells, people, policy, exposure):
    """Cells after their gaps were dealt with, in parts of unequal size."""
    cuts = [0, 1, 3, len(cells)]
    parts = [Part(stack, cells[a:b], people[a:b]) for a, b in pairwise(cuts)]
    filling = plan_filling(stack, groups, lambda: iter(parts), policy, exposure)
    values, changed = (np.concatenate(found) for found in zip(*map(filling.filled, parts), strict=True))
    return Filled(filling.names, values, changed, filling.indicators, filling.notes)


def stack_of(tmp_path, planes, names, grid=GRID):
    planes = np.asarray(planes, dtype=np.float32)
    return Stack.write(tmp_path / "raw.tif", grid, names, lambda rows: planes[:, rows])


def test_nearest_in_kilometres(tmp_path):
    rain = RAIN.copy()
    rain[1, 1:4] = NAN
    stack = stack_of(tmp_path, [rain], ["rain"])
    cells = np.array([0, 6, 7, 8])
    filled = fill(
        stack, [Group("rain.tif", "rain", ("rain",))], cells, np.array([5.0, 1, 2, 0]), "nearest", "population"
    )
    # Cells are 3 km wide and 1 km high: the next row is nearer than the next column; up wins over down by order.
    assert filled.values[0, 0] == 0
    for value, column in zip(filled.values[1:, 0], (1, 2, 3), strict=True):
        assert value in (rain[0, column], rain[2, column])
    assert filled.changed.tolist() == [False, True, True, True]
    assert filled.names == ("rain",)
    assert filled.notes == (
        "rain.tif: rain is missing in 3 of 4 cells under polygons (38% of the population). "
        "Each took the value of the nearest cell that has one, at most 1 km away.",
    )


def test_nearest_against_a_loop(tmp_path, rng):
    grid = Grid("EPSG:4326", (0.03, 0, 46, 0, -0.05, -18), 60, 70)
    values = rng.normal(size=grid.shape).astype(np.float32)
    values[rng.random(grid.shape) < 0.5] = NAN
    values[20:40, 10:30] = NAN
    stack = stack_of(tmp_path, [values], ["a"], grid)
    cells = np.flatnonzero(np.isnan(values.ravel()))[::17]
    valid = np.flatnonzero(~np.isnan(values.ravel()))
    filled = fill(
        stack, [Group("a.tif", "a", ("a",))], np.append(cells, valid[0]), np.ones(cells.size + 1), "nearest", "area"
    )
    distances = np.linalg.norm(grid.kilometres(cells)[:, None] - grid.kilometres(valid)[None], axis=2)
    np.testing.assert_array_equal(filled.values[:-1, 0], values.ravel()[valid[distances.argmin(1)]])
    assert f"at most {distances.min(1).max():.3g} km away" in filled.notes[0]


def test_edges_in_bands_are_those_of_the_whole(tmp_path, rng, monkeypatch):
    grid = Grid("EPSG:4326", (0.03, 0, 46, 0, -0.05, -18), 200, 30)
    values = rng.normal(size=grid.shape).astype(np.float32)
    values[rng.random(grid.shape) < 0.1] = NAN
    stack = stack_of(tmp_path, [values], ["a"], grid)
    whole = _edge(stack, "a")
    monkeypatch.setattr(Grid, "bands", lambda self, cells=0: (slice(i, min(i + 7, 200)) for i in range(0, 200, 7)))
    np.testing.assert_array_equal(_edge(stack, "a"), whole)
    gaps = np.argwhere(np.isnan(values))
    beside = [
        row * 30 + column
        for row, column in np.argwhere(np.isfinite(values))
        if (np.abs(gaps - [row, column]).max(1) == 1).any()
    ]
    assert whole.tolist() == beside


def test_drop_leaves_gaps(tmp_path):
    rain = RAIN.copy()
    rain[0, 0] = NAN
    stack = stack_of(tmp_path, [rain, RAIN], ["rain", "temp"])
    groups = [Group("rain.tif", "rain", ("rain",)), Group("temp.tif", "temp", ("temp",))]
    filled = fill(stack, groups, np.array([0, 9]), np.array([1.0, 3.0]), "drop", "area")
    np.testing.assert_array_equal(filled.values, [[NAN, 0], [9, 9]])
    assert not filled.changed.any()
    assert filled.notes == (
        "rain.tif: rain is missing in 1 of 2 cells under polygons (25% of the area). They were left out.",
    )


def test_median_with_an_indicator(tmp_path):
    rain = RAIN.copy()
    rain[0, 0] = NAN
    stack = stack_of(tmp_path, [rain, RAIN], ["rain", "temp"])
    groups = [Group("rain.tif", "rain", ("rain",)), Group("temp.tif", "temp", ("temp",))]
    cells, people = np.array([0, 4, 8, 12]), np.array([100.0, 1, 1, 5])
    filled = fill(stack, groups, cells, people, "median", "population")
    assert filled.names == ("rain", "rain_missing", "temp")
    np.testing.assert_array_equal(filled.values, [[12, 1, 0], [4, 0, 4], [8, 0, 8], [12, 0, 12]])
    assert filled.indicators == {"rain_missing": "rain"}
    even = fill(stack, groups, cells, np.zeros(4), "median", "population")
    assert even.values[0, 0] == 8


def test_missing_categories(tmp_path):
    forest = np.where(RAIN < 10, 1.0, 0.0)
    forest[0, 0] = NAN
    stack = stack_of(tmp_path, [forest, 1 - forest], ["land=1", "land=2"])
    groups = [Group("land.tif", "land", ("land=1", "land=2"), categories=True)]
    cells = np.array([0, 1, 19])
    own = fill(stack, groups, cells, np.ones(3), "median", "population")
    assert own.names == ("land=1", "land=2", "land=missing")
    np.testing.assert_array_equal(own.values, [[0, 0, 1], [1, 0, 0], [0, 1, 0]])
    near = fill(stack, groups, cells, np.ones(3), "nearest", "population")
    np.testing.assert_array_equal(near.values, [[1, 0], [1, 0], [0, 1]])


def test_refusals(tmp_path):
    stack = stack_of(tmp_path, [np.where(RAIN < 15, NAN, RAIN)], ["rain"])
    groups = [Group("rain.tif", "rain", ("rain",))]
    with pytest.raises(
        ValueError, match=r"rain\.tif must have values under the polygons; the covariate 'rain' has none"
    ):
        fill(stack, groups, np.array([0, 1]), np.ones(2), "nearest", "population")
    with pytest.raises(ValueError, match="`missing` must be one of 'nearest', 'drop', 'median'; got 'zero'"):
        fill(stack, groups, np.array([0, 1]), np.ones(2), "zero", "population")


def test_the_median_is_that_of_sorted_values(tmp_path, rng):
    """Of both signs, with ties and equal leading bits, weighted, in parts."""
    grid = Grid("EPSG:4326", (0.03, 0, 46, 0, -0.05, -18), 20, 30)
    groups = [Group("a.tif", "a", ("a",))]
    for shift, scale in ((0.0, 1.0), (-3e5, 0.3), (1.0, 1e-6)):
        values = (shift + scale * np.round(rng.normal(size=grid.shape), 1)).astype(np.float32)
        values[3, 4] = NAN
        people = rng.gamma(0.3, 50, grid.n_cells)
        stack = stack_of(tmp_path, [values], ["a"], grid)
        filled = fill(stack, groups, np.arange(grid.n_cells), people, "median", "population")
        known = np.delete(np.arange(grid.n_cells), 94)
        order = known[np.argsort(values.ravel()[known])]
        below = np.cumsum(people[order]) < people[order].sum() / 2
        assert filled.values[94, 0] == values.ravel()[order[np.count_nonzero(below)]]
