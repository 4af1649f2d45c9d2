"""Places near the antimeridian, in every way that files have them."""

import geopandas as gpd
import numpy as np
import pytest
import shapely
from affine import Affine
from geofiles import districts, write_raster
from shapely import MultiPolygon, Polygon, box

from vbagg.geo.covariates import align, open_covariates
from vbagg.geo.grid import Grid, transformer
from vbagg.geo.overlay import overlay
from vbagg.geo.polygons import read_polygons
from vbagg.geo.prepare import prepare
from vbagg.geo.rasters import open_layers

WEST, EAST = box(177, -19, 179.25, -16), box(179.25, -18.5, 181.5, -16.5)
HOLE = [(179.5, -18), (179.75, -18), (179.75, -17.5), (179.5, -17.5)]
RINGED = Polygon(EAST.exterior.coords, [HOLE])


def jumping(shape):
    """The same with longitudes up to 180, in one ring."""
    return shapely.transform(shape, lambda points: np.column_stack([(points[:, 0] + 180) % 360 - 180, points[:, 1]]))


SPLIT = MultiPolygon([box(179.25, -18.5, 180, -16.5), box(-180, -18.5, -178.5, -16.5)])
WAYS = {"beyond 180": EAST, "split": SPLIT, "one ring": jumping(EAST), "hole": jumping(RINGED)}


@pytest.mark.parametrize("east", WAYS.values(), ids=WAYS)
def test_both_sides_of_the_antimeridian_come_together(east):
    polygons = read_polygons(districts([WEST, east]), "name")
    expected = RINGED if east is WAYS["hole"] else EAST
    assert shapely.equals(polygons.geometry[1], expected)
    assert shapely.equals(polygons.geometry[0], WEST)
    assert polygons.bounds == (177, -19, 181.5, -16)
    assert any("from 177 to 181.5" in note for note in polygons.notes) == (east is not EAST)


def test_projected_polygons_come_together():
    fiji = gpd.GeoDataFrame(districts([WEST, EAST])).to_crs("EPSG:3460")
    moved = read_polygons(fiji, "name").to("EPSG:4326")
    np.testing.assert_allclose(moved.bounds, (177, -19, 181.5, -16), atol=0.02)
    np.testing.assert_allclose(shapely.area(moved.geometry), [WEST.area, EAST.area], rtol=0.01)


@pytest.mark.parametrize(
    "shapes",
    [
        [box(30, 1, 31, 2), box(-40, 0, 20, 5)],
        [box(-180, -60, 180, 10), box(-20, 20, 20, 25)],  # around the Earth
        [Polygon([(-180, -90), (-180, -70), (0, -65), (180, -70), (180, -90)]), box(0, 0, 1, 1)],
        [box(-179, 0, -60, 10), box(-50, 2, 40, 8), box(60, 1, 178, 9)],
    ],
)
def test_other_polygons_stay_where_they_are(shapes):
    frame = districts(shapes, "abc"[: len(shapes)], range(1, len(shapes) + 1))
    polygons = read_polygons(frame, "name")
    assert all(shapely.equals_exact(polygons.geometry, np.asarray(frame.geometry)))
    assert polygons.notes == ()


def test_from_0_to_360_becomes_from_minus_180():
    polygons = read_polygons(districts([box(200, 1, 210, 3), box(215, 1, 230, 4)]), "name")
    assert polygons.bounds == (-160, 1, -130, 4)


def test_a_global_raster_is_seen_where_the_polygons_are(tmp_path):
    values = np.arange(1, 721, dtype=np.float32)[None] * np.ones((8, 1), np.float32)
    (layer,) = open_layers(write_raster(tmp_path / "world.tif", values, Affine(0.5, 0, -180, 0, -0.5, -16)))
    turned = layer.facing((177, 181.5))
    left, _, right, _ = turned.grid.bounds
    assert left <= 177
    assert right >= 181.5
    column = int((180 - left) / 0.5)
    assert turned.read()[0, column - 1 : column + 1].tolist() == [720, 1]
    assert layer.facing((10, 20)) is layer
    back = turned.facing((-180, 180))
    np.testing.assert_array_equal(back.read(), layer.read())
    assert back.grid == layer.grid


@pytest.mark.parametrize("left", [-183.5, 176.5])
def test_a_regional_raster_is_seen_where_the_polygons_are(tmp_path, left):
    path = write_raster(tmp_path / "fiji.tif", np.ones((7, 12), np.float32), Affine(0.5, 0, left, 0, -0.5, -15.5))
    (layer,) = open_layers(path)
    assert layer.facing((177, 181.5)).grid.bounds == (176.5, -19, 182.5, -15.5)


@pytest.mark.parametrize("east", WAYS.values(), ids=WAYS)
def test_pixels_on_both_sides_are_near_each_other(tmp_path, east):
    rng = np.random.default_rng(2)
    people = rng.uniform(5, 20, (16, 720)).astype(np.float32)
    path = write_raster(tmp_path / "world.tif", people, Affine(0.5, 0, -180, 0, -0.5, -14))
    frame = districts([WEST, east])
    prepared = prepare(frame, "name", "cases", path, [], population_is="counts", folder=tmp_path / "out")
    assert prepared.stack.grid.width < 20
    assert np.ptp(prepared.pixels["x"]) < 600
    # from 179.25, in the middle of column 718, to 181.5, and four rows from -16.5
    inside = 0.5 * people[5:9, 718].sum() + people[5:9, [719, 0, 1, 2]].sum()
    hole = 0.5 * people[7, 719] if east is WAYS["hole"] else 0.0
    got = prepared.polygons.frame["population"][1]
    assert got == pytest.approx(inside - hole, rel=1e-5)


def test_other_polygons_are_seen_where_the_grid_is():
    grid = Grid("EPSG:4326", (0.5, 0, 176.5, 0, -0.5, -15.5), 7, 12)
    polygons = read_polygons(districts([box(-179.5, -18, -179, -17), box(-179, -18, -178.5, -17.5)]), "name")
    pairs = overlay(polygons, grid)
    assert pairs["polygon"].tolist() == [0, 0, 1]
    assert grid.centres(pairs["cell"])[0].tolist() == [180.75, 180.75, 181.25]


FIJI = {
    "degrees": Grid("EPSG:4326", (0.25, 0, 176.5, 0, -0.25, -16), 12, 24),
    "projected": Grid("EPSG:3460", (25_000, 0, 1_800_000, 0, -25_000, 4_100_000), 12, 20),
}


@pytest.mark.parametrize("crs", ["EPSG:4326", "EPSG:4322"])  # the second moves longitudes by little, and wraps them
@pytest.mark.parametrize("step", [0.1, 1.0])
@pytest.mark.parametrize("grid", FIJI.values(), ids=FIJI)
def test_a_global_raster_has_values_on_both_sides(tmp_path, grid, step, crs):
    longitude = np.arange(-180 + step / 2, 180, step)
    values = np.sin(np.radians(3 * longitude))[None] * np.ones((int(12 / step), 1))
    path = write_raster(
        tmp_path / "world.tif", values.astype(np.float32), Affine(step, 0, -180, 0, -step, -10), crs=crs
    )
    (covariate,) = open_covariates([path], ())
    (plane,) = align(covariate, grid).read(slice(0, grid.height))
    x, _ = transformer(grid.crs, "EPSG:4326").transform(*grid.centres(np.arange(grid.n_cells)))
    np.testing.assert_allclose(plane.ravel(), np.sin(np.radians(3 * x)), atol=0.01)


def test_polygons_across_the_edge_of_a_map_are_refused():
    polygons = read_polygons(districts([WEST, EAST]), "name")
    told = r"must not lie across the edge of a map; 1 polygon would in EPSG:6933 \('b'\). Use rasters in longitudes"
    with pytest.raises(ValueError, match=told):
        polygons.to("EPSG:6933")
    islands = [MultiPolygon([box(-170, 0, -169, 1), box(170, 0, 171, 1)]), box(0, 0, 60, 5)]
    assert len(read_polygons(districts(islands), "name").to("EPSG:6933")) == 2
