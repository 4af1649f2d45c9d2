import numpy as np
import pytest
from pyproj import Geod

from vbagg.geo.grid import Grid, crs_title, same_crs, transformer

GRID = Grid("EPSG:4326", (0.5, 0, 30, 0, -0.25, 10), 3, 4)
ROTATED = Grid("EPSG:32738", (100, 30, 5e5, 40, -120, 8e6), 5, 3)


def test_places_of_cells():
    assert GRID.bounds == (30, 9.25, 32, 10)
    assert GRID.resolution == (0.5, 0.25)
    assert GRID.n_cells == 12
    x, y = GRID.centres([0, 5, 11])
    np.testing.assert_allclose(x, [30.25, 30.75, 31.75])
    np.testing.assert_allclose(y, [9.875, 9.625, 9.375])


@pytest.mark.parametrize("grid", [GRID, ROTATED])
def test_positions_undo_coordinates(grid):
    column, row = np.array([0.0, 1.5, 2.75]), np.array([2.0, 0.25, 1.5])
    back = grid.positions(*grid.coordinates(column, row))
    np.testing.assert_allclose(back, (column, row), atol=1e-9)
    assert GRID.is_upright
    assert not ROTATED.is_upright


@pytest.mark.parametrize(("height", "width", "cells"), [(3, 4, 5), (1000, 7, 900), (1, 5, 2), (200, 10, 10**6)])
def test_bands_cover_every_row_once(height, width, cells):
    grid = Grid("EPSG:4326", (1e-3, 0, 0, 0, -1e-3, 0), height, width)
    rows = [row for band in grid.bands(cells) for row in range(height)[band]]
    assert rows == list(range(height))
    assert max(band.stop - band.start for band in grid.bands(cells)) <= max(1, cells // width)


@pytest.mark.parametrize(
    "grid",
    [
        Grid("EPSG:4326", (0.5, 0, 30, 0, -2.5, 62), 3, 4),
        Grid("EPSG:32738", (1000, 0, 4e5, 0, -1500, 8e6), 6, 9),
        Grid("EPSG:3857", (1000, 0, 2e6, 0, -1500, 9e6), 6, 9),
        ROTATED,
    ],
)
def test_areas_against_geodesics(grid):
    areas = grid.areas(slice(1, 3))
    assert areas.shape == (2, grid.width)
    side = np.linspace(0, 1, 300)
    row, column = 2, grid.width - 1
    u = np.concatenate([column + side, np.full(300, column + 1.0), column + 1 - side, np.full(300, float(column))])
    v = np.concatenate([np.full(300, float(row)), row + side, np.full(300, row + 1.0), row + 1 - side])
    longitude, latitude = transformer(grid.crs, "EPSG:4326").transform(*grid.coordinates(u, v))
    expected = abs(Geod(ellps="WGS84").polygon_area_perimeter(longitude, latitude)[0]) / 1e6
    assert areas[1, -1] == pytest.approx(expected, rel=1e-5)


def test_kilometres_are_distances_from_the_middle():
    cells = np.array([0, 7])
    east, north = GRID.kilometres(cells).T
    _, _, metres = Geod(ellps="WGS84").inv([31, 31], [9.625, 9.625], *GRID.centres(cells))
    np.testing.assert_allclose(np.hypot(east, north), np.array(metres) / 1000, rtol=1e-4)
    assert east[0] < 0 < north[0]
    assert east[1] > 0


def test_parts_of_a_grid():
    part = GRID.sub(slice(1, 3), slice(2, 4))
    assert part == Grid("EPSG:4326", (0.5, 0, 31, 0, -0.25, 9.75), 2, 2)
    assert part.offset_in(GRID) == (1, 2)
    assert GRID.offset_in(part) == (-1, -2)
    assert GRID.window(part.bounds) == (slice(1, 3), slice(2, 4))
    assert GRID.window((30.6, 9.6, 30.7, 9.7), margin=1) == (slice(0, 3), slice(0, 3))
    rows, columns = GRID.window((50, 50, 51, 51))
    assert rows.start >= rows.stop
    assert columns.start >= columns.stop


def test_offsets_need_the_same_cells():
    assert Grid("EPSG:4326", (0.5, 0, 30.2, 0, -0.25, 10), 3, 4).offset_in(GRID) is None
    assert Grid("EPSG:4326", (0.25, 0, 30, 0, -0.25, 10), 3, 4).offset_in(GRID) is None
    assert Grid("EPSG:32738", GRID.transform, 3, 4).offset_in(GRID) is None
    nearly = Grid("EPSG:4326", (0.500000001, 0, 30.5000001, 0, -0.25, 10.25), 3, 4)
    assert nearly.offset_in(GRID) == (-1, 1)


def test_another_resolution_covers_the_same_bounds():
    coarse = GRID.at_resolution(0.7)
    assert coarse.transform == (0.7, 0, 30, 0, -0.7, 10)
    assert coarse.shape == (2, 3)
    assert GRID.at_resolution(0.25).shape == (3, 8)
    for wrong in (0, -1, np.nan):
        with pytest.raises(ValueError, match="`resolution` must be a positive number"):
            GRID.at_resolution(wrong)


def test_reference_systems():
    wkt = transformer("EPSG:4326", "EPSG:32738").target_crs.to_wkt()
    assert Grid(wkt, (1, 0, 0, 0, -1, 0), 1, 1).crs == "EPSG:32738"
    assert same_crs("EPSG:4326", "OGC:CRS84")
    assert crs_title("+proj=laea +lat_0=3 +type=crs") == "'unknown'"
    with pytest.raises(ValueError, match=r"a CRS must be a code such as 'EPSG:4326'.*'mars'"):
        Grid("mars", (1, 0, 0, 0, -1, 0), 1, 1)
    with pytest.raises(ValueError, match="cells of positive size"):
        Grid("EPSG:4326", (1, 0, 0, 0, 0, 0), 1, 1)
