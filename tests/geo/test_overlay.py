import geopandas as gpd
import numpy as np
import pandas as pd
import pytest
import shapely
from shapely import MultiPolygon, Point, Polygon, box

from vbagg.geo.grid import Grid
from vbagg.geo.overlay import Overlay, cells_covered, overlay, shares_inside
from vbagg.geo.polygons import read_polygons

GRID = Grid("EPSG:32738", (2, 0, 100, 0, -1, 50), 3, 4)  # x 100..108, y 47..50


def polygons_of(*shapes, crs="EPSG:32738"):
    return read_polygons(gpd.GeoDataFrame({"id": range(len(shapes))}, geometry=list(shapes), crs=crs), "id")


def as_grid(pairs, polygon=0, grid=GRID):
    covered = np.zeros(grid.n_cells)
    own = pairs[pairs["polygon"] == polygon]
    covered[own["cell"]] = own["coverage"]
    return covered.reshape(grid.shape)


def test_hand_solved_coverage():
    # From the middle of the second column to a quarter of the third; the lower half of the first row, all the second.
    pairs = overlay(polygons_of(box(103, 48, 104.5, 49.5)), GRID)
    assert pairs.dtypes.astype(str).to_dict() == {"polygon": "int64", "cell": "int64", "coverage": "float64"}
    np.testing.assert_allclose(as_grid(pairs), [[0, 0.25, 0.125, 0], [0, 0.5, 0.25, 0], [0, 0, 0, 0]], atol=1e-7)
    assert pairs["cell"].tolist() == [1, 2, 5, 6]


@pytest.mark.parametrize(
    "shape",
    [
        Polygon(box(100.3, 47.2, 107.1, 49.9).exterior.coords, [box(101.1, 48.2, 104.6, 49.3).exterior.coords]),
        Point(104.2, 48.6).buffer(1.3),
        MultiPolygon([box(100.1, 47.1, 100.2, 47.2), box(105, 48.5, 107, 49)]),
        box(99, 46, 103.3, 48.2),
        Polygon([(100, 47), (108, 50), (100.5, 50)]),
    ],
    ids=["hole", "disc", "parts", "beyond", "triangle"],
)
def test_coverage_against_shapely(shape):
    pairs = overlay(polygons_of(box(106, 47, 107, 48), shape), GRID)
    cells = [box(100 + 2 * j, 49 - i, 102 + 2 * j, 50 - i) for i in range(3) for j in range(4)]
    expected = np.array([cell.intersection(shape).area / cell.area for cell in cells]).reshape(3, 4)
    np.testing.assert_allclose(as_grid(pairs, 1), expected, atol=1e-6)
    assert pairs["coverage"].between(0, 1, inclusive="right").all()
    inside = shares_inside(polygons_of(box(106, 47, 107, 48), shape), GRID, cells_covered(pairs, 2))
    np.testing.assert_allclose(inside, [1, shape.intersection(box(100, 47, 108, 50)).area / shape.area], atol=1e-6)


def test_overlapping_polygons_each_get_their_cells():
    pairs = overlay(polygons_of(box(100, 47, 104, 50), box(102, 47, 106, 50)), GRID)
    for polygon, columns in ((0, [0, 1]), (1, [1, 2])):
        expected = np.zeros((3, 4))
        expected[:, columns] = 1
        np.testing.assert_allclose(as_grid(pairs, polygon), expected, atol=1e-7)


def test_polygons_without_cells_have_no_rows():
    pairs = overlay(polygons_of(box(0, 0, 1, 1), box(101, 48, 102, 49), box(108, 47, 109, 48)), GRID)
    assert pairs["polygon"].unique().tolist() == [1]


def test_a_speck_within_a_cell_counts():
    pairs = overlay(polygons_of(box(100.5, 49.5, 100.52, 49.51)), GRID)
    assert pairs["cell"].tolist() == [0]
    assert pairs["coverage"][0] == pytest.approx(0.0002 / 2, rel=1e-4)


def test_polygons_in_another_reference_system():
    grid = Grid("EPSG:4326", (0.1, 0, 46, 0, -0.08, -18), 7, 9)
    shape = box(46.13, -18.43, 46.71, -18.11)
    geographic, projected = polygons_of(shape, crs="EPSG:4326"), polygons_of(shape, crs="EPSG:4326").to("EPSG:32738")
    expected, result = (as_grid(overlay(polygons, grid), grid=grid) for polygons in (geographic, projected))
    np.testing.assert_allclose(result, expected, atol=2e-5)


def test_grids_of_any_size_need_no_memory():
    huge = Grid("EPSG:32738", (1e-4, 0, 100, 0, -1e-4, 50), 3_000_000, 4_000_000)
    pairs = overlay(polygons_of(box(103, 48, 103.001, 48.001), box(107.9999, 47, 108, 47.0001)), huge)
    assert pairs["polygon"].value_counts().tolist() == [100, 1]
    assert pairs["cell"].iloc[-1] == 29_999 * 4_000_000 + 79_999
    assert shapely.area(polygons_of(box(103, 48, 103.001, 48.001)).geometry).sum() == pytest.approx(
        pairs["coverage"][:100].sum() * 1e-8, rel=1e-3
    )


def test_turned_grids_are_refused():
    with pytest.raises(ValueError, match="must be north up and not rotated"):
        overlay(polygons_of(box(0, 0, 1, 1)), Grid("EPSG:32738", (1, 0.5, 0, 0, -1, 0), 3, 3))


def test_polygons_traced_from_cells_cover_them_exactly():
    """Edges along the lines of a grid whose cells are no round number of degrees."""
    side = 0.08983152841195216
    grid = Grid("EPSG:4326", (side, 0, -40.40 + side / 3, 0, -side, 13.1), 60, 45)
    owner = np.random.default_rng(2).integers(0, 4, grid.n_cells)
    across, _, west, _, down, north = grid.transform
    row, column = np.divmod(np.arange(grid.n_cells), grid.width)
    cells = shapely.box(
        west + column * across, north + (row + 1) * down, west + (column + 1) * across, north + row * down
    )
    pairs = overlay(polygons_of(*(shapely.union_all(cells[owner == k]) for k in range(4)), crs="EPSG:4326"), grid)
    assert pairs["cell"].is_unique
    np.testing.assert_array_equal(pairs.sort_values("cell")["polygon"], owner)
    np.testing.assert_array_equal(pairs["coverage"], 1.0)


def test_rows_at_a_time_give_the_same_as_all(rng):
    grid = Grid("EPSG:4326", (0.07, 0, 30.01, 0, -0.05, 10), 41, 33)
    shapes = [shapely.Point(x, y).buffer(r) for x, y, r in rng.uniform([30, 8, 0.1], [32.5, 10, 0.9], (12, 3))]
    polygons = polygons_of(*shapes, crs="EPSG:4326")
    parts = [Overlay(polygons, grid).pairs(slice(first, min(first + 6, 41))) for first in range(0, 41, 6)]
    found = pd.concat(parts).sort_values(["polygon", "cell"], ignore_index=True)
    pd.testing.assert_frame_equal(found, overlay(polygons, grid), check_exact=True)
