import numpy as np
import pytest
from affine import Affine
from geofiles import TRANSFORM, VALUES, districts, write_polygons, write_raster
from shapely import box

import vbagg
from vbagg import geo
from vbagg.geo.grid import Grid

PEOPLE = VALUES * 10
RAIN = VALUES[::-1].copy()


@pytest.fixture
def files(tmp_path):
    """Two districts, people and rain on the same cells, and classes on cells of half the size."""
    rain = RAIN.copy()
    rain[1, 2] = np.nan
    land = np.where(np.arange(8) < 3, 1, 4) * np.ones((6, 1))
    return {
        "polygons": write_polygons(tmp_path / "districts.gpkg"),
        "population": write_raster(tmp_path / "people.tif", PEOPLE),
        "rain": write_raster(tmp_path / "rain.tif", rain),
        "land": write_raster(tmp_path / "land.tif", land.astype(np.uint8), Affine(0.25, 0, 30, 0, -0.125, 10)),
        "folder": tmp_path / "out",
    }


def run(files, **changes):
    chosen = {
        "id": "name",
        "response": "cases",
        "covariates": [files["rain"]],
        "categories": [files["land"]],
        **changes,
    }
    given = {name: chosen.pop(name, files[name]) for name in ("polygons", "population", "folder")}
    return geo.prepare(given.pop("polygons"), chosen.pop("id"), chosen.pop("response"), **given, **chosen)


def test_hand_solved_pixels(files):
    prepared = run(files)
    # District a: x 30.1..30.9 and y 9.4..9.9, over cells of 0.5 x 0.25 from (30, 10).
    across, down = np.array([0.4, 0.4]) / 0.5, np.array([0.15, 0.25, 0.1]) / 0.25
    own = prepared.pixels[prepared.pixels["polygon"] == "a"]
    np.testing.assert_allclose(own["coverage"], np.outer(down, across).ravel(), rtol=1e-6)
    cells = [0, 1, 4, 5, 8, 9]
    assert own["cell"].tolist() == cells
    np.testing.assert_allclose(own["weight"], own["coverage"] * PEOPLE.ravel()[cells], rtol=1e-6)
    np.testing.assert_array_equal(own["rain"], RAIN.ravel()[cells])
    np.testing.assert_allclose(own["land=1"], np.tile([1, 0.5], 3))
    np.testing.assert_allclose(own["land=4"], np.tile([0, 0.5], 3))
    east, north = prepared.stack.grid.kilometres(cells).T
    np.testing.assert_allclose(own[["x", "y"]], np.column_stack([east, north]))
    assert prepared.covariates == ("rain", "land=1", "land=4")
    assert prepared.exposure == "population"
    assert list(prepared.pixels.columns) == [
        *("polygon", "cell", "coverage", "weight", "x", "y", "rain", "land=1", "land=4")
    ]


def test_bags_and_responses(files):
    files["polygons"] = write_polygons(files["folder"].parent / "d.gpkg", districts(deaths=[1, 2], group=["p", "q"]))
    prepared = run(files, response=["cases", "deaths"])
    bags = prepared.bags()
    assert isinstance(bags, vbagg.Bags)
    assert bags.labels.tolist() == ["a", "b"]
    assert bags.feature_names == ("x", "y", "rain", "land=1", "land=4")
    assert bags.coordinates == (0, 1)
    np.testing.assert_allclose(bags.totals(), prepared.polygons.frame["population"])
    assert prepared.responses == ("cases", "deaths")
    assert bags.align(prepared.y("deaths")).tolist() == [1, 2]
    assert prepared.y().to_dict() == {"a": 3.0, "b": 8.0}
    with pytest.raises(ValueError, match=r"d\.gpkg has no column of numbers called 'group'"):
        prepared.y("group")


def test_gaps_are_filled_under_polygons_and_in_the_stack(files):
    prepared = run(files)
    assert prepared.stack.names == ("rain", "land=1", "land=4", "population")
    rain = prepared.stack.read(names=["rain"])[0]
    assert rain[1, 2] in (RAIN[0, 2], RAIN[2, 2])  # 28 km to the north or the south, 55 km to the side
    rain[1, 2] = np.nan
    np.testing.assert_array_equal(rain, np.where(np.arange(12).reshape(3, 4) == 6, np.nan, RAIN))
    np.testing.assert_array_equal(prepared.stack.read(names=["population"])[0], PEOPLE)
    assert any(note.startswith("rain.tif: rain is missing in 1 of 12 cells under polygons") for note in prepared.notes)
    assert not prepared.pixels.isna().any().any()


def test_a_stack_written_in_bands_is_the_same(files, monkeypatch):
    changes = {"resolution": 0.005, "missing": "median"}
    whole = run(files, **changes).stack.read()
    monkeypatch.setattr("vbagg.geo.stack.BAND_NUMBERS", 1)
    prepared = run(files, **changes)
    assert prepared.stack.grid.height > 128
    np.testing.assert_array_equal(prepared.stack.read(), whole)
    at_pixels = prepared.stack.at(prepared.pixels["cell"], prepared.covariates)
    np.testing.assert_array_equal(at_pixels, prepared.pixels[list(prepared.covariates)])


def test_dropped_pixels(files):
    all_pixels = run(files).pixels
    prepared = run(files, missing="drop")
    assert len(all_pixels) - len(prepared.pixels) == 1
    assert 6 not in prepared.pixels["cell"].tolist()
    assert np.isnan(prepared.stack.at([6], ["rain"])[0, 0])
    assert any(note.startswith("1 of 15 pixels lack a covariate and were left out, with") for note in prepared.notes)


def test_median_and_indicator(files):
    prepared = run(files, missing="median")
    assert prepared.covariates == ("rain", "rain_missing", "land=1", "land=4")
    assert prepared.pixels.loc[prepared.pixels["cell"] == 6, "rain_missing"].tolist() == [1]
    assert prepared.stack.names == (*prepared.covariates, "population")
    indicator = prepared.stack.read(names=["rain_missing"])[0]
    np.testing.assert_array_equal(indicator, np.arange(12).reshape(3, 4) == 6)


def test_values_beyond_polygons_stay_missing(files, tmp_path):
    rain = RAIN.copy()
    rain[0, 0] = rain[0, 3] = np.nan
    files["rain"] = write_raster(tmp_path / "rain.tif", rain)
    files["polygons"] = write_polygons(tmp_path / "one.gpkg", districts([box(30.1, 9.8, 30.7, 9.9)], ["a"], [1]))
    for policy in ("nearest", "median"):
        stack = run(files, missing=policy, grid=Grid("EPSG:4326", tuple(TRANSFORM)[:6], 3, 4)).stack
        assert np.isfinite(stack.at([0])).all()
        assert np.isnan(stack.at([3], stack.names[:1])).all()
        if policy == "median":
            np.testing.assert_array_equal(stack.at([0, 1, 3], ["rain_missing"])[:, 0], [1, 0, np.nan])


def test_missing_people_count_as_none(files, tmp_path):
    people = PEOPLE.copy()
    people[0, 0] = -9999
    files["population"] = write_raster(tmp_path / "people.tif", people)
    prepared = run(files)
    assert prepared.pixels.loc[prepared.pixels["cell"] == 0, "weight"].tolist() == [0]
    assert prepared.stack.at([0], ["population"])[0, 0] == 0
    assert "people.tif: no value in 1 of 12 cells under polygons, which counted as zero people." in prepared.notes
    assert any("people.tif: the value -9999 in 1 cell was taken as missing" in note for note in prepared.notes)


def test_area_without_population(files):
    prepared = run(files, population=None)
    assert prepared.exposure == "area"
    areas = prepared.stack.grid.areas().ravel()
    weight = prepared.pixels["coverage"] * areas[prepared.pixels["cell"]]
    np.testing.assert_allclose(prepared.pixels["weight"], weight, rtol=1e-6)
    assert prepared.polygons.frame["area"].sum() == pytest.approx(weight.sum(), rel=1e-6)
    assert prepared.stack.names[-1] == "area"
    assert run(files, population=None, covariates=(), categories=(), resolution=0.05).stack.names == ("area",)


def test_density_gives_the_same_rates_of_weight(files):
    counts = run(files, population_is="counts")
    density = run(files, population_is="density", folder=files["folder"].with_name("density"))
    ratio = density.pixels["weight"] / counts.pixels["weight"]
    np.testing.assert_allclose(ratio, counts.stack.grid.areas().ravel()[counts.pixels["cell"]], rtol=1e-5)
    assert any("read as people per square kilometre (as asked)" in note for note in density.notes)


def test_polygons_without_people_or_cells_are_left_out_and_noted(files, tmp_path):
    people = PEOPLE.copy()
    people[:, 3] = 0
    files["population"] = write_raster(tmp_path / "people.tif", people)
    shapes = [box(30.1, 9.3, 31.4, 9.9), box(31.6, 9.3, 31.9, 9.9), box(60, 9, 61, 10), box(31, 8, 31.2, 9.9)]
    frame = districts(shapes, ["a", "empty", "far", "half"], [1, 2, 3, 4])
    files["polygons"] = write_polygons(tmp_path / "four.gpkg", frame)
    prepared = run(files)
    assert prepared.bags().labels.tolist() == ["a", "half"]
    assert prepared.y("cases").to_dict() == {"a": 1, "half": 4}
    assert prepared.polygons.frame["population"].tolist()[1:3] == [0, 0]
    assert "four.gpkg: no cell of the target grid is covered by 1 polygon ('far')." in prepared.notes
    assert "four.gpkg: what lies outside the target grid is left out of 1 polygon ('half')." in prepared.notes
    assert "four.gpkg: left out because of no population: 2 polygons ('empty', 'far')." in prepared.notes


def test_reprojection_of_polygons_is_noted(files, tmp_path):
    moved = districts().to_crs("EPSG:32636")
    files["polygons"] = write_polygons(tmp_path / "utm.gpkg", moved)
    notes = run(files).notes
    assert "utm.gpkg: polygons were reprojected from EPSG:32636 to EPSG:4326." in notes


def test_another_grid_keeps_the_people(files):
    plain = run(files)
    inner = box(30.5, 9.5, 31.5, 9.75)  # whole cells, so that nothing depends on where people are within them
    files["polygons"] = write_polygons(files["folder"].parent / "inner.gpkg", districts([inner], ["a"], [1]))
    for changes in ({"resolution": 0.01}, {"resolution": 400, "grid": "EPSG:32636"}):
        prepared = run(files, **changes)
        assert prepared.polygons.frame["population"].iloc[0] == pytest.approx(PEOPLE[1, 1:3].sum(), rel=0.01)
    assert plain.stack.grid.resolution == (0.5, 0.25)


def test_names(files, tmp_path):
    prepared = run(files, covariates={"wet": files["rain"]}, categories=())
    assert prepared.covariates == ("wet",)
    for name in ("x", "Y", "population"):
        bad = write_raster(tmp_path / f"{name}.tif", RAIN)
        with pytest.raises(ValueError, match=rf"must not be called '{name}'.*{name}\.tif. Rename"):
            run(files, covariates=[bad])
    (tmp_path / "sub").mkdir()
    twin = write_raster(tmp_path / "sub" / "rain.tif", RAIN)
    with pytest.raises(ValueError, match=r"distinct names; .*sub/rain\.tif and .*rain\.tif both hold 'rain'. Rename"):
        run(files, covariates=[files["rain"], twin])


def test_a_column_called_population_is_kept_under_another_name(files):
    files["polygons"] = write_polygons(files["folder"].parent / "d.gpkg", districts(Population=[5, 6]))
    prepared = run(files)
    assert prepared.polygons.frame["Population_given"].tolist() == [5, 6]
    assert "d.gpkg: the column 'Population' was renamed 'Population_given'." in prepared.notes
    prepared.save(files["folder"])
    assert "population" in geo.Prepared.load(files["folder"]).polygons.frame


def refusals(tmp_path):
    negative = PEOPLE.copy()
    negative[1, 1] = -5
    many = np.arange(12, dtype=np.float32).reshape(3, 4).repeat(3, axis=0)
    many = many + np.arange(9)[:, None] / 10
    fine = Affine(0.5, 0, 30, 0, -0.25 / 3, 10)
    two = write_raster(tmp_path / "two.tif", np.stack([PEOPLE, PEOPLE]))
    return {
        "negative people": (
            {"population": write_raster(tmp_path / "neg.tif", negative)},
            r"neg\.tif must not be negative; got -5 at \(30.75, 9.625\) in polygon 'a'",
        ),
        "no people": (
            {"population": write_raster(tmp_path / "none.tif", PEOPLE * 0)},
            r"none\.tif must hold people under the polygons; it holds none",
        ),
        "two populations": ({"population": two}, r"two\.tif must hold one layer; it holds 'two_1', 'two_2'.*::two_1"),
        "empty covariate": (
            {"covariates": [write_raster(tmp_path / "nil.tif", RAIN * np.nan)]},
            r"nil\.tif must have values under the polygons; the covariate 'nil' has none",
        ),
        "covariate elsewhere": (
            {"covariates": [write_raster(tmp_path / "far.tif", RAIN, Affine(0.5, 0, -30, 0, -0.25, 10))]},
            r"far\.tif must have values under the polygons",
        ),
        "many categories": (
            {"categories": [write_raster(tmp_path / "many.tif", many.astype(np.float32), fine)]},
            r"many\.tif must hold at most 30 categories.*Merge rare ones",
        ),
        "empty categories": (
            {"categories": [write_raster(tmp_path / "void.tif", RAIN * np.nan)]},
            r"void\.tif must have values near the polygons",
        ),
        "policy": ({"missing": "zero"}, "`missing` must be one of"),
        "reading": ({"population_is": "people"}, "`population_is` must be one of"),
        "name of response": (
            {"polygons": write_polygons(tmp_path / "p.gpkg", districts(Population=[1, 2])), "response": "Population"},
            r"p\.gpkg: an id or a response must not be called 'Population'. Rename",
        ),
        "response": ({"response": "case"}, r"has no column 'case' for the response; did you mean `cases`"),
        "missing raster": ({"covariates": [tmp_path / "gone.tif"]}, r"there is no .*gone\.tif"),
    }


@pytest.mark.parametrize(
    "what",
    [
        *("negative people", "no people", "two populations", "empty covariate", "covariate elsewhere"),
        *("many categories", "empty categories", "policy", "reading", "response", "missing raster", "name of response"),
    ],
)
def test_refusals_leave_nothing_behind(files, tmp_path, what):
    changes, message = refusals(tmp_path)[what]
    with pytest.raises(ValueError, match=message) as error:
        run(files, **changes)
    assert "\n" not in str(error.value)
    assert not files["folder"].exists()


def test_a_folder_that_was_there_is_left_as_it_was(files):
    files["folder"].mkdir()
    (files["folder"] / "mine.txt").write_text("mine")
    with pytest.raises(ValueError, match="must have values"):
        run(files, covariates=[write_raster(files["folder"].parent / "nil.tif", RAIN * np.nan)])
    assert [path.name for path in files["folder"].iterdir()] == ["mine.txt"]


def test_progress_is_told(files):
    told = []
    run(files, progress=told.append)
    assert told[0] == "reading polygons"
    assert "aligning rasters: row 3 of 3" in told


def test_overlapping_polygons_and_holes(files, tmp_path):
    ring = box(30.0, 9.25, 32, 10).difference(box(30.5, 9.5, 31.5, 9.75))
    shapes = [ring, box(30.0, 9.25, 32, 10)]
    files["polygons"] = write_polygons(tmp_path / "ring.gpkg", districts(shapes))
    frame = run(files).polygons.frame
    np.testing.assert_allclose(frame["population"], [PEOPLE.sum() - PEOPLE[1, 1:3].sum(), PEOPLE.sum()], rtol=1e-6)
