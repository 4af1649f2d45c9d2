import numpy as np
import pytest
import shapely
from affine import Affine
from geofiles import TRANSFORM, VALUES, write_raster

from vbagg.geo import align as align_module
from vbagg.geo import spread as spread_module
from vbagg.geo.align import align_categories, align_covariate, align_population, bounds_in, source_window
from vbagg.geo.grid import Grid, transformer
from vbagg.geo.rasters import open_layers
from vbagg.geo.spread import coarsen, spread

LAEA = "+proj=laea +lat_0=-19 +lon_0=47 +datum=WGS84 +units=m +type=crs"


def layer_of(tmp_path, values=VALUES, transform=TRANSFORM, **more):
    (layer,) = open_layers(write_raster(tmp_path / "layer.tif", values, transform, **more))
    return layer


def whole(alignment):
    return alignment.read(slice(0, alignment.grid.height))


def grid_of(a, c, e, f, height, width, crs="EPSG:4326"):
    return Grid(crs, (a, 0, c, 0, e, f), height, width)


def overlap_loop(source, target):
    """Shared area of each pair of cells, over the area of the source cell: (target cells, source cells)."""

    def boxes(grid):
        a, _, c, _, e, f = grid.transform
        corners = [(c + a * j, f + e * i) for i in range(grid.height) for j in range(grid.width)]
        return [shapely.box(x, y + e, x + a, y) for x, y in corners]

    return np.array([[s.intersection(t).area / s.area for s in boxes(source)] for t in boxes(target)])


def shapes_in(source, target):
    """The same for grids in two CRS: each source cell as a polygon with many corners in the target's CRS."""
    side = np.linspace(0, 1, 20)
    ring_u = np.concatenate([side, np.ones(20), 1 - side, np.zeros(20)])
    ring_v = np.concatenate([np.zeros(20), side, np.ones(20), 1 - side])
    to = transformer(source.crs, target.crs)
    cells = [(i, j) for i in range(source.height) for j in range(source.width)]
    shapes = [
        shapely.Polygon(np.column_stack(to.transform(*source.coordinates(j + ring_u, i + ring_v)))) for i, j in cells
    ]
    a, _, c, _, e, f = target.transform
    boxes = [
        shapely.box(c + a * j, f + e * (i + 1), c + a * (j + 1), f + e * i)
        for i in range(target.height)
        for j in range(target.width)
    ]
    shared = shapely.area(shapely.intersection(np.array(shapes)[None, :], np.array(boxes)[:, None]))
    return shared / shapely.area(shapes)


TARGETS = {
    "coarser, nested": grid_of(1.0, 30, -0.75, 10, 1, 2),
    "finer, nested": grid_of(0.25, 30.5, -0.125, 9.75, 3, 5),
    "shifted": grid_of(0.5, 30.2, -0.25, 9.9, 3, 3),
    "neither": grid_of(0.77, 29.8, -0.31, 10.2, 4, 3),
    "wider": grid_of(3.0, 29, -2.0, 11, 2, 2),
}


def test_hand_solved_sums_and_averages(tmp_path):
    # Two columns and all three rows of 1..12 make one cell: 1 + 2 + 5 + 6 + 9 + 10 = 33.
    layer = layer_of(tmp_path)
    target = TARGETS["coarser, nested"]
    np.testing.assert_array_equal(whole(align_population(layer, target))[0], [[33, 45]])
    np.testing.assert_allclose(whole(align_covariate(layer, target))[0], [[5.5, 7.5]], rtol=1e-7)
    # A quarter of each of four cells, or a quarter of one where the target is finer.
    shifted = grid_of(0.5, 30.25, -0.25, 9.875, 1, 1)
    assert whole(align_population(layer, shifted))[0] == pytest.approx((1 + 2 + 5 + 6) / 4)
    quarter = grid_of(0.25, 30.5, -0.125, 9.75, 1, 1)
    assert whole(align_population(layer, quarter))[0] == pytest.approx(6 / 4)


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_one_reference_system_against_a_loop(tmp_path, target):
    values = VALUES.copy()
    values[1, 2] = np.nan
    layer = layer_of(tmp_path, values)
    shares = overlap_loop(layer.grid, target)
    flat, valid = np.nan_to_num(values.ravel()), ~np.isnan(values.ravel())
    with np.errstate(invalid="ignore", divide="ignore"):
        some = shares @ valid > 1e-6
        sums = np.where(some, shares @ flat, np.nan).reshape(target.shape)
        means = np.where(some, shares @ flat / (shares @ valid), np.nan).reshape(target.shape)
    np.testing.assert_allclose(whole(align_population(layer, target))[0], sums, rtol=1e-6)
    aligned = align_covariate(layer, target)
    if aligned.how == "average":
        np.testing.assert_allclose(whole(aligned)[0], means, rtol=1e-6)


def test_identical_cells_are_copied(tmp_path):
    values = VALUES.copy()
    values[0, 1] = np.nan
    layer = layer_of(tmp_path, values)
    target = grid_of(0.5, 30.5, -0.25, 10.25, 3, 5)  # one row above the layer, one column beyond it
    for aligned in (align_covariate(layer, target), align_population(layer, target)):
        assert aligned.how == "copy"
        assert aligned.note is None
        result = whole(aligned)[0]
        np.testing.assert_array_equal(result[1:, :3], values[:2, 1:])
        assert np.isnan(result[0]).all()
        assert np.isnan(result[:, 3:]).all()
        np.testing.assert_array_equal(aligned.read(slice(2, 3))[0], result[2:3])


def test_density_times_area(tmp_path):
    layer = layer_of(tmp_path)
    areas = layer.grid.areas()
    same = whole(align_population(layer, layer.grid, density=1.0))[0]
    np.testing.assert_allclose(same, VALUES * areas, rtol=1e-6)
    hectares = whole(align_population(layer, TARGETS["coarser, nested"], density=100.0))[0]
    np.testing.assert_allclose(hectares.sum(), 100 * (VALUES * areas).sum(), rtol=1e-6)


@pytest.mark.parametrize(
    ("crs", "side"), [("EPSG:32738", 900), ("EPSG:32738", 20_000), (LAEA, 3000), (LAEA, 70_000), ("EPSG:3857", 5000)]
)
def test_people_are_kept_in_another_reference_system(tmp_path, rng, crs, side):
    people = np.where(rng.random((23, 17)) < 0.3, 0, rng.lognormal(3, 2, (23, 17))).astype(np.float32)
    people[4, 5] = np.nan
    layer = layer_of(tmp_path, people, Affine(0.05, 0, 46, 0, -0.04, -18))
    left, bottom, right, top = bounds_in(layer.grid, crs)
    height, width = int(np.ceil((top - bottom) / side)) + 2, int(np.ceil((right - left) / side)) + 2
    target = grid_of(side, left - side, -side, top + side, height, width, crs)
    result = whole(align_population(layer, target))[0]
    assert np.nansum(result, dtype=float) == pytest.approx(np.nansum(people, dtype=float), rel=1e-6)
    assert np.nanmin(result) >= 0


@pytest.mark.parametrize("side", [2000.0, 9000.0])
def test_two_reference_systems_against_polygons(side):
    source = grid_of(0.05, 49, -0.04, -18, 6, 7)  # well away from the middle of the map, so that cells are turned
    left, bottom, right, top = bounds_in(source, LAEA)
    target = grid_of(
        side, left + side / 3, -side, top - side / 4, int((top - bottom) / side), int((right - left) / side), LAEA
    )
    shares = shapes_in(source, target)
    values = np.arange(1.0, source.n_cells + 1)
    expected = (shares @ values).reshape(target.shape)
    result = spread(values.reshape(1, *source.shape), source, target)[0]
    assert np.abs(result - expected).max() < 0.03 * expected.max()
    assert result.sum() == pytest.approx(expected.sum(), rel=2e-3)
    # A constant density stays one, inside.
    evenness = spread(np.ones((1, *source.shape)), source, target)[0] / (shares.sum(1).reshape(target.shape))
    inner = shares.sum(1).reshape(target.shape) > 0.99 * shares.sum(1).max()
    assert np.abs(evenness[inner] - 1).max() < 0.02


def test_averages_in_another_reference_system(tmp_path, rng):
    fine = rng.random((70, 50)).cumsum(0).cumsum(1).astype(np.float32)
    layer = layer_of(tmp_path, fine, Affine(0.005, 0, 49, 0, -0.004, -18))
    left, _, _, top = bounds_in(layer.grid, LAEA)
    target = grid_of(6000, left + 3000, -6000, top - 4000, 4, 3, LAEA)
    aligned = align_covariate(layer, target)
    assert aligned.how == "average"
    assert aligned._factor > 1
    shares = shapes_in(layer.grid, target)
    expected = ((shares @ fine.ravel()) / shares.sum(1)).reshape(target.shape)
    np.testing.assert_allclose(whole(aligned)[0], expected, rtol=0.01)


def test_nested_cells_leak_nothing(tmp_path):
    """Edges at thirds are never exact, and yet a zero stays a zero."""
    blocks = np.add.outer(np.arange(10), np.arange(8)) % 2 * np.float32(2**40)
    people = blocks.repeat(3, axis=0).repeat(3, axis=1)
    layer = layer_of(tmp_path, people, Affine(1 / 36, 0, 42.1, 0, -1 / 36, -10.3))
    target = grid_of(1 / 12, 42.1 + 1 / 12, -1 / 12, -10.3 - 1 / 12, 9, 7)
    np.testing.assert_array_equal(whole(align_population(layer, target))[0], 9 * blocks[1:, 1:])


def test_bounds_hold_the_edges_that_bend():
    grid = grid_of(1000, -1.02e6, -1000, 5.5e6, 400, 2000, LAEA)
    along = np.linspace(0, 2000, 5001)
    longitude, latitude = transformer(LAEA, "EPSG:4326").transform(*grid.coordinates(along, np.zeros(5001)))
    left, _, right, top = bounds_in(grid, "EPSG:4326")
    assert top >= latitude.max()
    assert left <= longitude.min()
    assert right >= longitude.max()
    assert top - latitude.max() < 0.2


def test_blocks_are_summed_from_the_first_corner():
    grid = grid_of(0.5, 30, -0.25, 10, 3, 4)
    planes, coarse = coarsen(VALUES[None].astype(float), grid, 2)
    np.testing.assert_array_equal(planes[0], [[14, 22], [19, 23]])
    assert coarse == grid_of(1.0, 30, -0.5, 10, 2, 2)


def test_coarse_covariates_are_interpolated(tmp_path):
    layer = layer_of(tmp_path)
    target = grid_of(0.125, 30.25, -0.0625, 9.875, 8, 12)  # between the outermost centres
    aligned = align_covariate(layer, target)
    assert aligned.how == "interpolation"
    x, y = target.centres(np.arange(target.n_cells))
    plane = 1 + (x - 30.25) / 0.5 + 4 * (9.875 - y) / 0.25  # the values are a plane, which interpolation keeps
    np.testing.assert_allclose(whole(aligned)[0].ravel(), plane, rtol=1e-5)
    assert "layer.tif: aligned to the target grid by interpolation (cells of 0.5 x 0.25 to" in aligned.note


def test_interpolation_does_without_missing_cells(tmp_path):
    values = np.full((3, 4), 5, dtype=np.float32)
    values[1, 1] = -9999
    layer = layer_of(tmp_path, values, nodata=-9999)
    result = whole(align_covariate(layer, grid_of(0.1, 30, -0.05, 10, 15, 20)))[0]
    np.testing.assert_allclose(result[~np.isnan(result)], 5, rtol=1e-6)


@pytest.mark.parametrize("kind", ["sum", "average", "interpolation", "shares"])
@pytest.mark.parametrize("crs", ["EPSG:4326", LAEA])
def test_blocks_make_no_difference(tmp_path, rng, monkeypatch, kind, crs):
    layer = layer_of(tmp_path, rng.integers(1, 4, (40, 30)).astype(np.float32), Affine(0.05, 0, 46, 0, -0.04, -18))
    step = {"EPSG:4326": 1.0, LAEA: 110_000.0}[crs] * (0.013 if kind == "interpolation" else 0.11)
    left, _, _, top = bounds_in(layer.grid, crs)
    target = grid_of(step, left - step, -step, top + step, 17, 15, crs)

    def made():
        spread_module._splitter.cache_clear()
        if kind == "sum":
            return align_population(layer, target)
        return align_categories(layer, target, [1, 2, 3]) if kind == "shares" else align_covariate(layer, target)

    once = whole(made())
    monkeypatch.setattr(align_module, "SOURCE_NUMBERS", 300)
    monkeypatch.setattr(align_module, "SPLIT_CELLS", 100)
    monkeypatch.setattr(spread_module, "PIECES", 50)
    aligned = made()
    parts = np.concatenate([aligned.read(rows) for rows in (slice(0, 5), slice(5, 6), slice(6, 17))], axis=1)
    np.testing.assert_allclose(parts, once, rtol=2e-5, atol=1e-6)


def test_categories_are_shares_of_area(tmp_path):
    classes = np.array([[1, 1, 7, 7], [1, 7, 255, 255], [2, 2, 255, 255]], dtype=np.uint8)
    layer = layer_of(tmp_path, classes, nodata=255)
    same = align_categories(layer, layer.grid, [1, 2, 7])
    assert same.names == ("layer=1", "layer=2", "layer=7")
    one_hot = whole(same)
    for plane, code in zip(one_hot, (1, 2, 7), strict=True):
        np.testing.assert_array_equal(plane, np.where(classes == 255, np.nan, classes == code))
    halves = whole(align_categories(layer, grid_of(1.0, 30, -0.75, 10, 1, 2), [1, 2, 7]))
    np.testing.assert_allclose(halves[:, 0], [[3 / 6, 0], [2 / 6, 0], [1 / 6, 1]], rtol=1e-6)
    finer = whole(align_categories(layer, grid_of(0.25, 30, -0.125, 10, 6, 8), [1, 2, 7]))
    np.testing.assert_array_equal(finer, one_hot.repeat(2, axis=1).repeat(2, axis=2))
    assert whole(align_categories(layer, grid_of(0.25, 50, -0.125, 10, 6, 8), [1, 2, 7])).shape == (3, 6, 8)


def test_windows_of_the_source():
    source = grid_of(0.5, 30, -0.25, 10, 40, 40)
    target = grid_of(0.2, 31.1, -0.2, 9.1, 2, 3)
    assert source_window(source, target) == (slice(3, 6), slice(2, 4))
    assert source_window(source, target, margin=2, step=3) == (slice(0, 8), slice(0, 6))
    assert source_window(source, grid_of(1, 100, -1, 60, 2, 2)) == (slice(0, 0), slice(0, 0))


def test_a_layer_elsewhere_gives_nothing(tmp_path):
    layer = layer_of(tmp_path)
    for target in (grid_of(0.3, 100, -0.3, 60, 2, 2), grid_of(1000, 0, -1000, 1e6, 3, 2, "EPSG:3035")):
        assert np.isnan(whole(align_covariate(layer, target))).all()
        assert np.isnan(whole(align_population(layer, target))).all()


def test_turned_rasters(tmp_path, rng):
    turned = Affine(30, 8, 5e5, 9, -40, 8e6)
    people = rng.random((9, 8)).astype(np.float32)
    layer = layer_of(tmp_path, people, turned, crs="EPSG:32738")
    target = grid_of(25, 4.9e5, -25, 8.01e6, 800, 900, "EPSG:32738")
    assert np.nansum(whole(align_population(layer, target)), dtype=float) == pytest.approx(people.sum(), rel=1e-6)
