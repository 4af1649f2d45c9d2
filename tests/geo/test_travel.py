"""Minutes from facilities over friction."""

import heapq

import numpy as np
import pytest
from affine import Affine
from clinics import CELLS, TRANSFORM, friction
from geofiles import write_raster

from vbagg.geo import target, travel
from vbagg.geo.rasters import open_layers
from vbagg.geo.travel import least_minutes, travel_minutes

ROOT2 = 2**0.5


def by_hand(friction, start):
    """Dijkstra's method with a heap, neighbour by neighbour."""
    best, heap = {start: 0.0}, [(0.0, start)]
    while heap:
        taken, (row, column) = heapq.heappop(heap)
        if taken > best[row, column]:
            continue
        for down in (-1, 0, 1):
            for right in (-1, 0, 1):
                at = row + down, column + right
                inside = 0 <= at[0] < friction.shape[0] and 0 <= at[1] < friction.shape[1]
                if (down, right) == (0, 0) or not inside or np.isnan(friction[at]):
                    continue
                step = np.hypot(down, right) * (float(friction[row, column]) + float(friction[at])) / 2
                if taken + step < best.get(at, np.inf):
                    best[at] = taken + step
                    heapq.heappush(heap, (taken + step, at))
    found = np.full(friction.shape, np.inf)
    for at, taken in best.items():
        found[at] = taken
    return found


def points(cells=CELLS):
    row, column = np.array(cells).T
    return np.column_stack(TRANSFORM @ (column + 0.5, row + 0.5))


def test_nine_cells_are_as_found_by_hand():
    """From the lower left; the middle is slow and one corner is a lake."""
    raster = np.array([[2.0, 4, np.nan], [6, 50, 8], [3, 1, 5]])
    expected = [
        [4.5 + 4, 4.5 + 4 + 3, np.inf],  # up along the side, then east: (3+6)/2, (6+2)/2, (2+4)/2
        [4.5, 2 + 25.5, 2 + ROOT2 * 4.5],  # into the middle from below, which is on the way to its neighbour too
        [0.0, 2.0, 2 + 3],
    ]
    np.testing.assert_allclose(least_minutes(raster, (2, 0)), expected, rtol=1e-12)


@pytest.mark.parametrize("reach", [np.inf, 30.0])
def test_random_rasters_agree_with_a_search_by_neighbours(reach):
    rng = np.random.default_rng(8)
    raster = rng.gamma(2, 5, (13, 9))
    raster[rng.uniform(size=raster.shape) < 0.2] = np.nan
    raster[7, 3] = 6.5
    expected = by_hand(raster, (7, 3))
    expected[expected > reach] = np.inf
    np.testing.assert_allclose(least_minutes(raster, (7, 3), reach), expected, rtol=1e-12)


@pytest.mark.parametrize("first", [1, 2, 32])
def test_windows_grow_until_nothing_within_reach_is_cut_off(tmp_path, monkeypatch, first):
    """With a road that leads far out of the first window and back behind the lake."""
    monkeypatch.setattr(travel, "FIRST", first)
    path = write_raster(tmp_path / "friction.tif", friction(), TRANSFORM)
    found = travel_minutes(path, points(), 75.0)
    for at, start in enumerate(CELLS):
        expected = by_hand(friction(), start)
        mine = found.facility == at
        got = np.full(expected.size, np.inf)
        got[found.cell[mine]] = found.minutes[mine]
        assert (np.diff(found.cell[mine]) > 0).all()
        np.testing.assert_allclose(got, np.where(expected <= 75.0, expected, np.inf).ravel(), rtol=1e-12)


def test_facilities_that_cannot_be_reached_are_named(tmp_path):
    path = write_raster(tmp_path / "friction.tif", friction(), TRANSFORM)
    names = ["Aba", "Bero", "Lake", "Sea"]
    in_lake = points([CELLS[0], CELLS[1], (0, 5), (1, 6)])
    with pytest.raises(ValueError, match=r"it has none at 'Lake', 'Sea', which nobody could reach"):
        travel_minutes(path, in_lake, 60, names)
    outside = in_lake + np.array([[0, 0], [0, 0], [9, 0], [0, 0]])
    with pytest.raises(ValueError, match=r"1 facility lies outside: 'Lake' at \(39.75, -1.325\)"):
        travel_minutes(path, outside, 60, names)
    with pytest.raises(ValueError, match="3 facilities lie outside"):
        travel_minutes(path, in_lake[[0, 2, 2, 2]] + [[0, 0], [9, 0], [0, 9], [-9, 0]], 60, names)


@pytest.mark.parametrize("value", [0.0, -9.0])
def test_friction_must_take_time(tmp_path, value):
    minutes = friction()
    minutes[5, 4] = value
    path = write_raster(tmp_path / "friction.tif", minutes, TRANSFORM)
    with pytest.raises(ValueError, match=rf"above 0; got {value:g} at \(30.65, -1.575\), the first of 1 such cell"):
        travel_minutes(path, points(), 60)


def test_codes_for_missing_cells_are_no_friction(tmp_path):
    minutes = np.where(np.isnan(friction()), -9999.0, friction()).astype(np.float32)
    path = write_raster(tmp_path / "friction.tif", minutes, TRANSFORM)
    found = travel_minutes(path, points(), 75.0)
    assert not np.isin(found.cell, np.flatnonzero(np.isnan(friction()))).any()
    assert "-9999 in 4 cells was taken as missing" in found.notes[0]


def test_too_many_pairs_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(target, "MOST_PIXELS", 100)
    path = write_raster(tmp_path / "friction.tif", friction(), TRANSFORM)
    with pytest.raises(ValueError, match=r"at most 100 pairs .* from the first 2 of 5 facilities. Choose a smaller"):
        travel_minutes(path, points(), 75.0)
    for reach in (0.0, np.inf, np.nan):
        with pytest.raises(ValueError, match="`--reach` must be a number of minutes above 0"):
            travel_minutes(open_layers(path)[0], points(), reach)


def test_rotated_rasters_are_refused(tmp_path):
    path = write_raster(tmp_path / "friction.tif", friction(), TRANSFORM @ Affine.rotation(3))
    with pytest.raises(ValueError, match="must be north up"):
        travel_minutes(path, points(), 60)
