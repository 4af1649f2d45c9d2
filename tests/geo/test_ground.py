"""New rasters and polygons on a grid, beside what a run has."""

from pathlib import Path

import geopandas as gpd
import numpy as np
import pytest
import tiny_country as tiny
from affine import Affine
from geofiles import write_raster
from shapely import box

from vbagg.errors import DataWarning
from vbagg.geo import Prepared, prepare, read_polygons
from vbagg.geo.ground import EVERY_CELL, groups_of, prepare_ground

FAR = tiny.TRANSFORM @ Affine.translation(400, 90)
"""The country's cells, 40 degrees to the east and 4.5 to the south."""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return tiny.prepared_country(tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def classed(tmp_path_factory):
    """A run with classes of land."""
    folder = tmp_path_factory.mktemp("classed")
    land = np.tile([1, 2, 5], 36).reshape(tiny.HEIGHT, tiny.WIDTH).astype(np.uint8)
    own = write_raster(folder / "land.tif", land, tiny.TRANSFORM)
    height = write_raster(folder / "height.tif", tiny.rasters()["height"].astype(np.float32), tiny.TRANSFORM)
    return prepare(tiny.frame(), "name", "cases", None, [height], categories=[own], folder=folder / "prepared")


def raster(folder, name, change=lambda values: values, transform=tiny.TRANSFORM):
    return write_raster(folder / f"new_{name}.tif", change(tiny.rasters()[name]).astype(np.float32), transform)


def far_rasters(folder):
    return {name: raster(folder, name, transform=FAR) for name in tiny.rasters()}


def test_a_replaced_covariate_changes_itself_alone(run, tmp_path):
    higher = raster(tmp_path, "height", lambda values: values + 300)
    ground = prepare_ground(run, {"height": higher}, missing="drop", folder=tmp_path / "ground")
    assert ground.stack.grid == run.stack.grid
    before, after = run.pixels, ground.pixels
    np.testing.assert_allclose(after.pop("height"), before["height"] + 300, rtol=1e-6)
    assert after.equals(before.drop(columns="height"))
    assert ground.polygons.labels.tolist() == run.polygons.labels.tolist()
    assert ground.responses == ()


def test_new_people_change_weights_alone(run, tmp_path):
    more = raster(tmp_path, "population", lambda values: 3 * values)
    ground = prepare_ground(run, population=more, population_is="counts", missing="drop", folder=tmp_path / "ground")
    np.testing.assert_allclose(ground.pixels["weight"], 3 * run.pixels["weight"], rtol=1e-6)
    names = ["cell", "x", "y", "height", "wetness"]
    assert ground.pixels[names].equals(run.pixels[names])


def test_the_order_of_options_does_not_matter(run, tmp_path):
    new = {name: raster(tmp_path, name, lambda values: values + 0.5) for name in ("wetness", "height")}
    ground = prepare_ground(run, new, missing="drop", folder=tmp_path / "ground")
    assert ground.covariates == run.covariates == ("height", "wetness")
    np.testing.assert_allclose(ground.pixels["wetness"], run.pixels["wetness"] + 0.5, atol=1e-5)


def test_elsewhere_every_cell_is_mapped_and_places_are_on_the_map_of_the_run(run, tmp_path):
    files = far_rasters(tmp_path)
    people = files.pop("population")
    made = prepare_ground(run, files, population=people, folder=tmp_path / "ground")
    made.save(tmp_path / "ground")
    ground = Prepared.load(tmp_path / "ground")
    grid = ground.stack.grid
    assert grid.shape == (tiny.HEIGHT, tiny.WIDTH)
    assert grid.bounds[0] == pytest.approx(70.2)
    assert ground.polygons.path == EVERY_CELL
    # all but the gap
    assert len(ground.pixels) == tiny.HEIGHT * tiny.WIDTH - 1
    places = run.stack.grid.middle
    from pyproj import Transformer

    text = f"+proj=laea +lon_0={places[0]} +lat_0={places[1]} +datum=WGS84 +units=km"
    east, north = Transformer.from_crs(4326, text, always_xy=True).transform(*grid.centres(ground.pixels["cell"]))
    np.testing.assert_allclose(ground.pixels[["x", "y"]], np.column_stack([east, north]), rtol=0, atol=1e-6)
    assert ground.pixels["x"].min() > 4000


def test_a_grid_of_another_raster_has_the_layers_of_the_run_within_it(run, tmp_path):
    """Half cells in the middle of the country; what is not new comes from the run."""
    inner = tiny.TRANSFORM @ Affine.translation(3, 4) @ Affine.scale(0.5)
    finer = write_raster(tmp_path / "finer.tif", np.arange(24, dtype=np.float32).reshape(6, 4), inner)
    ground = prepare_ground(run, {"height": finer}, grid=finer, folder=tmp_path / "ground")
    assert ground.stack.grid.shape == (6, 4)
    np.testing.assert_array_equal(ground.stack.read(names=["height"])[0].ravel(), np.arange(24))
    people = ground.stack.read(names=["population"])[0].reshape(3, 2, 2, 2).sum(axis=(1, 3))
    np.testing.assert_allclose(people, tiny.rasters()["population"][4:7, 3:5], rtol=1e-6)
    # the same places have the same kilometres
    centre = run.stack.grid.kilometres([5 * tiny.WIDTH + 4])
    corners = ground.stack.grid.kilometres([2 * 4 + 2, 2 * 4 + 3, 3 * 4 + 2, 3 * 4 + 3]).mean(axis=0)
    np.testing.assert_allclose(corners, centre[0], atol=0.01)


def test_polygons_on_the_grid_of_the_run_keep_it(run, tmp_path):
    areas = gpd.GeoDataFrame(
        {"zone": ["west", "east"]}, geometry=[box(30.4, -1.7, 30.62, -1.4), box(30.62, -1.7, 30.8, -1.4)]
    )
    higher = raster(tmp_path, "height", lambda values: values + 1)
    ground = prepare_ground(
        run, {"height": higher}, polygons=areas.set_crs(4326), id="zone", folder=tmp_path / "ground"
    )
    assert ground.stack.grid == run.stack.grid
    assert ground.polygons.labels.tolist() == ["west", "east"]
    assert set(ground.pixels["polygon"]) == {"west", "east"}


def test_classes_are_those_of_the_run(classed, tmp_path):
    """Cells of a class that the run has not are left out, and a class that is not there has no share."""
    assert classed.covariates == ("height", "land=1", "land=2", "land=5")
    land = np.tile([1, 2, 7], 36).reshape(tiny.HEIGHT, tiny.WIDTH).astype(np.uint8)
    new = write_raster(tmp_path / "land_2050.tif", land, tiny.TRANSFORM)
    with pytest.warns(DataWarning, match="no class 7"):
        ground = prepare_ground(classed, {"land": new}, folder=tmp_path / "ground")
    assert ground.covariates == classed.covariates
    column = ground.pixels["cell"].to_numpy() % tiny.WIDTH
    assert set(column % 3) == {0, 1}
    np.testing.assert_array_equal(ground.pixels["land=2"], column % 3 == 1)
    assert not ground.pixels["land=5"].any()
    assert "the run has no class 7 of 'land'" in ground.notes[0]


def test_known_classes_need_no_word(classed, tmp_path):
    land = np.tile([2, 2, 5], 36).reshape(tiny.HEIGHT, tiny.WIDTH).astype(np.uint8)
    new = write_raster(tmp_path / "land.tif", land, tiny.TRANSFORM)
    ground = prepare_ground(classed, {"land": new}, folder=tmp_path / "ground")
    assert not any("class" in note for note in ground.notes)
    assert len(ground.pixels) == len(classed.pixels)
    assert not ground.pixels["land=1"].any()


def test_columns_are_grouped_by_raster():
    groups = groups_of(("height", "land=1", "land=2.5", "odd=name", "wet_missing"))
    assert list(groups) == ["height", "land", "odd=name", "wet_missing"]
    assert groups["land"].classes == (1.0, 2.5)
    assert groups["height"].classes is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "Nothing is new"),
        ({"covariates": {"hieght": "x.tif"}}, "no covariate 'hieght'; did you mean `height`?"),
        ({"covariates": {"height": "nowhere.tif"}}, "there is no nowhere.tif"),
        ({"population": "x.tif", "population_is": "people"}, "`population_is` must be one of"),
        ({"covariates": {"height": "far"}}, "`--population` too. Check the CRS of far.tif"),
        ({"covariates": {"height": "far"}}, "-1.9 to -1.3. Give"),
        ({"covariates": {"height": "far"}, "polygons": "own"}, "far.tif must overlap the new ground"),
        ({"covariates": {"height": "some"}}, "covers 37% of the grid of the run"),
        ({"polygons": "far"}, "polygons must lie on the grid of the run where no raster is new"),
        ({"covariates": {"height": "empty"}}, "must have values under the polygons"),
    ],
)
def test_wrong_input_is_told_in_a_sentence(run, tmp_path, options, message, monkeypatch):
    monkeypatch.chdir(tmp_path)
    values = tiny.rasters()["height"].astype(np.float32)
    _left, _bottom, _right, _top = run.stack.grid.bounds
    files = {
        "far": write_raster(tmp_path / "far.tif", values, FAR),
        "some": write_raster(tmp_path / "some.tif", values, tiny.TRANSFORM @ Affine.translation(4, 4)),
        "empty": write_raster(tmp_path / "empty.tif", np.full_like(values, np.nan), tiny.TRANSFORM),
    }
    shapes = {"far": tiny.frame().translate(40, 4), "own": tiny.frame().geometry}
    options = dict(options)
    if "covariates" in options:
        options["covariates"] = {name: files.get(file, file) for name, file in options["covariates"].items()}
    if "polygons" in options:
        options["polygons"] = gpd.GeoDataFrame({"zone": range(12)}, geometry=shapes[options["polygons"]], crs=4326)
    with pytest.raises(ValueError, match=r"^[^\n]+$") as caught:
        prepare_ground(run, **options, folder=tmp_path / "ground")
    assert message in str(caught.value)
    assert not Path("ground").exists()


def test_rates_per_area_have_no_people(tmp_path):
    by_area = tiny.prepared_country(tmp_path, population=False)
    with pytest.raises(ValueError, match=r"rates of this run are per square kilometres. Leave it out"):
        prepare_ground(by_area, population=raster(tmp_path, "population"), folder=tmp_path / "ground")
    higher = raster(tmp_path, "height", lambda values: values + 1)
    ground = prepare_ground(by_area, {"height": higher}, missing="drop", folder=tmp_path / "ground")
    np.testing.assert_allclose(ground.pixels["weight"], by_area.pixels["weight"])


def test_gaps_of_the_run_that_got_one_value_cannot_be_replaced(tmp_path):
    median = tiny.prepared_country(tmp_path, missing="median")
    assert "wetness_missing" in median.covariates
    with pytest.raises(ValueError, match="'wetness' cannot be replaced"):
        prepare_ground(median, {"wetness": raster(tmp_path, "wetness")}, folder=tmp_path / "ground")


def test_shapes_of_another_crs_find_their_ground(run, tmp_path):
    files = far_rasters(tmp_path)
    people = files.pop("population")
    areas = tiny.frame()[["name", "geometry"]].set_geometry(tiny.frame().translate(40, -4.5)).to_crs(32642)
    areas.to_file(tmp_path / "areas.gpkg")
    ground = prepare_ground(
        run, files, population=people, polygons=tmp_path / "areas.gpkg", id="name", folder=tmp_path / "ground"
    )
    assert read_polygons(tmp_path / "areas.gpkg").crs == "EPSG:32642"
    assert ground.stack.grid.bounds[0] > 70
    assert ground.stack.grid.centre == run.stack.grid.middle
    assert set(ground.pixels["polygon"]) == set(tiny.frame()["name"])
