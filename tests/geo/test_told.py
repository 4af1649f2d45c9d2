"""Completeness of reports and errors of people: columns, rasters, and what becomes of them."""

import warnings

import geopandas as gpd
import numpy as np
import pandas as pd
import pytest
from affine import Affine
from geofiles import write_raster
from tiny_country import TRANSFORM, frame, rasters, write_files

import vbagg
from vbagg import geo
from vbagg.geo.exposure import exposure_of
from vbagg.geo.overlay import overlay
from vbagg.geo.people_errors import population_sd_of
from vbagg.geo.polygon_rows import Origin
from vbagg.geo.prepared import Prepared
from vbagg.geo.told import Told, read_told

SHARES = np.array([0.5, 0.9, 0.35, 0.75, 1.0, 0.6, 0.8, 0.45, 0.95, 0.7, 0.85, 0.55])
OFF = np.linspace(0.05, 0.4, 12)
SD_TRANSFORM = Affine(0.05, 0, 30.2, 0, -0.05, -1.3)  # cells half as wide as those of people


def finer_sd():
    """Standard deviations in cells half as wide as those of people, one unknown."""
    noise = np.random.default_rng(9)
    sd = np.repeat(rasters()["population"], 2, axis=1) / 2 * noise.uniform(0.1, 0.6, (12, 18))
    sd[4, 7] = np.nan
    return sd


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    paths = write_files(folder)
    told = frame().assign(share=SHARES, off=OFF)
    told.to_file(folder / "told.gpkg")
    write_raster(folder / "sd.tif", finer_sd().astype(np.float32), SD_TRANSFORM)
    return {**paths, "told": folder / "told.gpkg", "sd": folder / "sd.tif"}


def words(files, **more):
    known = {
        "polygons": files["told"],
        "id": "name",
        "response": "cases",
        "population": files["population"],
        "population_is": "counts",
    }
    return known | more


def prepare(files, folder, **more):
    own = words(files, **more)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", vbagg.errors.DataWarning)
        return geo.prepare(own.pop("polygons"), covariates=[files["height"]], folder=folder / "prepared", **own)


def by_loops(files, errors):
    """Relative sd of each polygon, and its people, cell by cell."""
    grid = Prepared.load(files["prepared"]).stack.grid
    pairs = overlay(geo.read_polygons(files["told"], "name"), grid)
    people, fine = rasters()["population"], finer_sd()
    total, sums = np.zeros(12), np.zeros(12)
    for polygon, cell, coverage in zip(pairs["polygon"], pairs["cell"], pairs["coverage"], strict=True):
        x, y = (float(side) for side in grid.centres(cell))
        row, column = int((-1.3 - y) / 0.05), int((x - 30.2) / 0.1)
        halves = [fine[row, 2 * column + side] for side in (0, 1)]
        known = [value for value in halves if np.isfinite(value)]
        total[polygon] += coverage * people[row, column]
        if errors == "shared":
            sums[polygon] += coverage * sum(known)
        else:
            sums[polygon] += coverage**2 * sum(value**2 for value in known)
    return (sums if errors == "shared" else np.sqrt(sums)) / total, total


@pytest.mark.parametrize("errors", ["shared", "independent"])
def test_errors_of_a_raster_add_up_within_polygons(files, tmp_path, errors):
    prepared = prepare(files, tmp_path, population_sd=files["sd"], population_errors=errors)
    prepared.save(tmp_path / "prepared")
    expected, people = by_loops({**files, "prepared": tmp_path / "prepared"}, errors)
    np.testing.assert_allclose(prepared.weight_sd().to_numpy(), expected, rtol=2e-5)
    np.testing.assert_allclose(prepared.bags().totals(), people, rtol=1e-5)
    how = "with independent errors of cells." if errors == "independent" else "all cells of a polygon alike;"
    assert any(
        "sd.tif: the people of a polygon are taken to be off by" in note and how in note for note in prepared.notes
    )


def test_shared_errors_do_not_depend_on_the_grid(files, tmp_path):
    """A relative error that is the same everywhere is that of every polygon, whatever the cells."""
    write_raster(tmp_path / "sd.tif", (0.23 * rasters()["population"]).astype(np.float32), TRANSFORM)
    for number, resolution in enumerate((None, 0.037)):
        (tmp_path / str(number)).mkdir()
        found = prepare(files, tmp_path / str(number), population_sd=tmp_path / "sd.tif", resolution=resolution)
        np.testing.assert_allclose(found.weight_sd(), 0.23, rtol=1e-5)
    as_number = prepare(files, tmp_path, population_sd=0.23)
    np.testing.assert_array_equal(as_number.weight_sd(), 0.23)
    assert any("off by 23% (a standard deviation)" in note for note in as_number.notes)


def test_densities_are_taken_as_those_of_people(files, tmp_path):
    with np.errstate(invalid="ignore"):
        area = 0.1 * 0.05 * 111.3**2
    density = {name: tmp_path / f"{name}_density.tif" for name in ("people", "sd")}
    people = rasters()["population"] / area
    write_raster(density["people"], people.astype(np.float32), TRANSFORM)
    write_raster(density["sd"], (people * 0.31).astype(np.float32), TRANSFORM)
    more = {"population": density["people"], "population_is": "density", "population_sd": density["sd"]}
    np.testing.assert_allclose(prepare(files, tmp_path, **more).weight_sd(), 0.31, rtol=1e-5)


def test_prepared_data_say_what_was_told_and_keep_it(files, tmp_path):
    prepared = prepare(files, tmp_path, completeness_column="share", population_sd_column="off")
    assert prepared.told == Told("share", "off")
    np.testing.assert_array_equal(prepared.completeness(), SHARES)
    assert prepared.completeness().index.tolist() == list(prepared.bags().labels)
    prepared.save(tmp_path / "prepared")
    again = Prepared.load(tmp_path / "prepared")
    for one, other in zip(again.reporting().values(), prepared.reporting().values(), strict=True):
        pd.testing.assert_series_equal(one, other)
    assert again.notes == prepared.notes
    silent = prepare(files, tmp_path / "other")
    assert silent.reporting() == {}
    assert (silent.completeness(), silent.weight_sd()) == (None, None)


def test_tables_of_polygons_tell_reports_from_what_occurred(files, tmp_path):
    prepared = prepare(files, tmp_path, completeness_column="share", population_sd=0.3)
    bags, y = prepared.bags(), prepared.y()
    kernel = vbagg.kernels.RBF(("height",)) + vbagg.kernels.White()
    model = vbagg.VBAgg("poisson", kernel=kernel, landmarks=4, hyper="point").fit(bags, y, **prepared.reporting())
    table = geo.polygon_table(model, prepared, "cases", per=100.0)
    np.testing.assert_array_equal(table["completeness"], SHARES)
    np.testing.assert_allclose(table["population_relative_sd"], 0.3)
    people = table["population"].to_numpy()
    np.testing.assert_allclose(table["observed_rate"], 100 * y.to_numpy() / (SHARES * people))
    np.testing.assert_allclose(table["fitted"], model.posterior_bags(bags).mean)
    np.testing.assert_allclose(table["fitted_reported"], SHARES * table["fitted"])
    low, high = model.predictive_bags(bags, completeness=SHARES, weight_sd=0.3).interval(0.95)
    np.testing.assert_array_equal(table["predicted_lower"], low)
    np.testing.assert_array_equal(table["predicted_upper"], high)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", vbagg.errors.DataWarning)
        maps = geo.write_maps(model, prepared, tmp_path / "maps", response="cases", match_totals=True)
    counts = geo_sums(maps["expected_count_matched"], prepared)
    np.testing.assert_allclose(counts, y.to_numpy() / SHARES, rtol=1e-4)


def geo_sums(path, prepared):
    """Sums of a map over polygons."""
    import rasterio

    with rasterio.open(path) as file:
        cells = np.nan_to_num(file.read(1).astype(np.float64)).ravel()
    pixels = prepared.pixels
    share = pixels["coverage"] * cells[pixels["cell"].to_numpy()]
    return share.groupby(pixels["polygon"], sort=False).sum().to_numpy()


@pytest.mark.parametrize(
    ("values", "what", "message"),
    [
        ([0.5, 85.0, 2.0], "completeness", r"got 85\.0 for 'b' \(row 2\), the first of 2 such values\. Divide perce"),
        (["0.5", "85%", "1"], "completeness", r"got '85%' for 'b' \(row 2\)\. Divide percentages by 100\."),
        (["0.5", "much", "1"], "completeness", r"got 'much' for 'b' .* Write it as a number, such as 0\.85\."),
        ([0.5, 0.0, 0.2], "completeness", r"above 0 and at most 1.*got 0\.0 for 'b' .* empty the total\."),
        ([0.5, None, 0.2], "completeness", r"got no value for 'b' \(row 2\)\. Write 1 where all is reported, or empty"),
        ([0.1, -0.2, 0.2], "population sd", r"from 0 to 1, as 0\.1 for 10%.*got -0\.2 .* has no sign\."),
        ([0.1, None, 0.2], "population sd", r"Write 0 where people are known, or empty the total\."),
    ],
)
def test_columns_that_cannot_be_are_refused(values, what, message):
    seen = np.array([True, True, False])
    with pytest.raises(ValueError, match=message):
        read_told(pd.Series(values, name="share"), Origin("d.gpkg"), ["a", "b", "c"], seen, what)


def test_text_says_numbers_and_gaps_may_be_where_there_is_no_total():
    seen = np.array([True, True, False])
    found = read_told(pd.Series(["0.5", " 1 ", "NA"], name="share"), Origin("d"), list("abc"), seen, "completeness")
    np.testing.assert_array_equal(found, [0.5, 1.0, np.nan])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((0.1, "off", "shared", "p.tif", "population"), "Only one thing can say how far off .* Leave out one"),
        ((30, None, "shared", "p.tif", "population"), r"such as 0\.1 for 10%.*got 30\. Divide percentages by 100"),
        ((0, None, "shared", "p.tif", "population"), "got 0. Leave it out where people are exact"),
        ((0.1, None, "shared", None, None), "none were named, and areas are known"),
        (("sd.tif", None, "shared", None, "column"), "goes with a raster of people, whose units it has"),
        ((0.1, None, "independent", "p.tif", "population"), "independent is of the cells of a raster"),
    ],
)
def test_words_that_do_not_go_together_are_refused(given, message):
    *told, population, kind = given
    exposure = exposure_of(population, "people" if kind == "column" else None, None, None)
    with pytest.raises(ValueError, match=message):
        population_sd_of(*told, population, exposure)


def test_standard_deviations_of_elsewhere_are_refused(files, tmp_path):
    elsewhere = TRANSFORM @ Affine.translation(500, 40)
    write_raster(tmp_path / "far.tif", (0.2 * rasters()["population"]).astype(np.float32), elsewhere)
    message = "far.tif must hold standard deviations where people live in polygons; it has no value there. Check its"
    assert message in check(files, population_sd=tmp_path / "far.tif")["population-sd-file"].text
    with pytest.raises(ValueError, match=message):
        prepare(files, tmp_path, population_sd=tmp_path / "far.tif")


def check(files, **more):
    return {
        finding.code: finding for finding in geo.check(**words(files, covariate=[files["height"]], folds=2, **more)).all
    }


def test_the_check_finds_what_is_wrong(files, tmp_path):
    people = rasters()["population"]
    for name, values in {"big": 2 * people, "negative": -0.2 * people, "relative": 0 * people + 0.3}.items():
        write_raster(tmp_path / f"{name}.tif", values.astype(np.float32), TRANSFORM)
    found = check(files, population_sd=tmp_path / "big.tif")["population-sd-file"]
    assert found.level == "error"
    assert "must not exceed the people of a polygon" in found.text
    assert "not as a percentage, nor as a variance." in found.text
    assert len(found.polygons) == 12
    found = check(files, population_sd=tmp_path / "negative.tif")["population-sd-file"]
    assert (found.level, "must not be negative" in found.text) == ("error", True)
    found = check(files, population_sd=tmp_path / "relative.tif")
    assert "not relative to these" in found["small-population-sd"].text
    assert "error" not in {finding.level for finding in found.values()}
    found = check(files, population_sd=tmp_path / "nothing.tif")["population-sd-file"]
    assert "there is no" in found.text
    assert check(files, completeness_column="shar")["completeness"].text.endswith("did you mean `share`?")
    for word in ({"completeness_column": "share"}, {"population_sd": 0.1}):
        of_trials = {"likelihood": "binomial", "link": "logistic", "trials": "tested"}
        found = check(files, **word, **of_trials)
        assert any("does not go with the likelihood 'binomial'" in finding.text for finding in found.values())
    with pytest.raises(ValueError, match="must not exceed the people of a polygon"):
        prepare(files, tmp_path, population_sd=tmp_path / "big.tif")


def test_the_check_compares_rates_of_all_that_occurs(files, tmp_path):
    """A district that reports a twentieth of its cases has no low rate."""
    told = gpd.read_file(files["told"])
    people = check_facts(files)["exposure"]["total"]
    told["share"], told["cases"] = 1.0, 400.0
    told.loc[3, ["share", "cases"]] = 0.05, 20
    told.to_file(tmp_path / "few.gpkg")
    own = {**files, "told": tmp_path / "few.gpkg"}
    assert "outlier" in check(own)
    found = check(own, completeness_column="share")
    assert "outlier" not in found
    assert found["little-reported"].polygons == ("D03",)
    facts = check_facts(own, completeness_column="share")
    assert facts["responses"]["cases"]["per_1000"] > 1.05 * 1000 * 4420 / people


def check_facts(files, **more):
    return geo.check(**words(files, covariate=[files["height"]], **more)).facts


def test_objects_and_numbers_are_taken_alike(files, tmp_path):
    xarray = pytest.importorskip("xarray")
    from vbagg.workflow.given import Given
    from vbagg.workflow.settings import from_words, read_settings, settings_text

    array = xarray.DataArray(np.ones((3, 4)), dims=("y", "x"), name="sd")
    given = Given.of({"population_sd": array}, tmp_path)
    assert given.words["population_sd"] == tmp_path / "sd.nc"
    assert Given.of({"population_sd": 0.2}, tmp_path).words["population_sd"] == 0.2
    for value, kept in (("0.2", 0.2), (1, 1.0), ("sd.tif", tmp_path / "sd.tif")):
        settings = from_words({"population_sd": value if value != "sd.tif" else tmp_path / "sd.tif"})
        (tmp_path / "settings.toml").write_text(settings_text(settings, tmp_path / "settings.toml"))
        assert read_settings(tmp_path / "settings.toml").data.population_sd == kept
    with pytest.raises(ValueError, match="`population` must be the name of a file, or"):
        Given.of({"population": 0.2}, tmp_path)
