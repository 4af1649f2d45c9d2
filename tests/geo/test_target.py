import geopandas as gpd
import numpy as np
import pytest
from affine import Affine
from geofiles import districts, write_raster
from shapely import box

from vbagg.geo.grid import Grid
from vbagg.geo.polygons import read_polygons
from vbagg.geo.rasters import open_layers
from vbagg.geo.target import target_grid


@pytest.fixture
def base(tmp_path):
    (layer,) = open_layers(write_raster(tmp_path / "pop.tif", np.ones((40, 60), dtype=np.float32)))
    return layer


@pytest.fixture
def polygons():
    return read_polygons(districts([box(31.1, 9.1, 32.4, 9.4), box(33.1, 8.3, 33.4, 8.6)]), "name")


def test_cells_of_the_raster_around_the_polygons(base, polygons):
    grid = target_grid(polygons, base)
    assert grid == Grid("EPSG:4326", (0.5, 0, 30.5, 0, -0.25, 9.75), 7, 7)
    assert grid.offset_in(base.grid) == (1, 1)


def test_another_resolution(base, polygons):
    grid = target_grid(polygons, base, resolution=0.2)
    assert grid == Grid("EPSG:4326", (0.2, 0, 30.5, 0, -0.2, 9.75), 9, 18)
    with pytest.raises(ValueError, match="`resolution` must be a positive number"):
        target_grid(polygons, base, resolution=-1)
    with pytest.raises(ValueError, match=r"at most 2,000,000,000 cells; got .*Choose a larger `resolution`.*EPSG:4326"):
        target_grid(polygons, base, resolution=1e-6)


def test_another_reference_system(base, polygons):
    grid = target_grid(polygons, base, resolution=5000, grid="EPSG:32636")
    left, bottom, right, top = polygons.to("EPSG:32636").bounds
    assert grid.crs == "EPSG:32636"
    assert grid.transform[0] == -grid.transform[4] == 5000
    assert grid.transform[2] % 5000 == grid.transform[5] % 5000 == 0
    for inner, outer in ((left, grid.bounds[0]), (bottom, grid.bounds[1])):
        assert 5000 <= inner - outer < 10_000
    for inner, outer in ((right, grid.bounds[2]), (top, grid.bounds[3])):
        assert 5000 <= outer - inner <= 10_000
    own_size = target_grid(polygons, base, grid="EPSG:32636")
    areas = base.grid.areas(slice(4, 5))
    assert own_size.resolution[0] ** 2 / 1e6 == pytest.approx(areas[0, 0], rel=0.02)


def test_a_grid_or_a_raster(base, polygons, tmp_path):
    grid = Grid("EPSG:32636", (5000, 0, 0, 0, -5000, 1.2e6), 30, 50)
    assert target_grid(polygons, base, grid=grid) is grid
    assert target_grid(polygons, base, 10_000, grid).shape == (15, 25)
    other = write_raster(tmp_path / "o.tif", np.ones((90, 90), np.float32), Affine(0.1, 0, 29.95, 0, -0.1, 12))
    assert target_grid(polygons, base, grid=other).resolution == pytest.approx((0.1, 0.1))
    with pytest.raises(ValueError, match=r"`grid` must be a raster file or a CRS; got 'gone\.tif'"):
        target_grid(polygons, base, grid="gone.tif")


def test_without_a_raster(polygons):
    grid = target_grid(polygons, resolution=0.1)
    assert grid.crs == "EPSG:4326"
    assert grid.resolution == pytest.approx((0.1, 0.1))
    np.testing.assert_allclose(grid.bounds, (31.0, 8.2, 33.6, 9.6), atol=0.11)
    with pytest.raises(ValueError, match="A target grid is needed: name a population or covariate raster"):
        target_grid(polygons)


def test_polygons_in_another_reference_system_set_the_bounds(base, polygons):
    assert target_grid(polygons.to("EPSG:32636"), base) == target_grid(polygons, base)


def test_no_overlap_is_refused(base):
    far = read_polygons(gpd.GeoDataFrame({"id": [1]}, geometry=[box(-60, 40, -59, 41)], crs="EPSG:4326"), "id")
    with pytest.raises(ValueError, match=r"pop\.tif must overlap the polygons.*x 30 to 60.*-60 to -59.*Check the CRS"):
        target_grid(far, base)


def test_turned_rasters_are_refused(polygons, tmp_path):
    turned = Affine(0.5, 0.1, 30, 0.05, -0.25, 10)
    (layer,) = open_layers(write_raster(tmp_path / "t.tif", np.ones((40, 60), dtype=np.float32), turned))
    with pytest.raises(ValueError, match=r"must be north up and not rotated.*`gdalwarp`"):
        target_grid(polygons, layer)
    assert target_grid(polygons, layer, grid="EPSG:4326").is_upright


def test_a_resolution_in_other_units_is_refused(base, polygons):
    with pytest.raises(ValueError, match=r"extent of the polygons, .* in the units of EPSG:4326 \(degrees\); got 1000"):
        target_grid(polygons, base, 1000)
    with pytest.raises(ValueError, match=r"such as 4, which is in the units of EPSG:32636 \(metres\)"):
        target_grid(polygons.to("EPSG:32636"), resolution=0.01)
