"""Whole runs with people, or expected counts, as a column."""

import json

import geopandas as gpd
import numpy as np
import pandas as pd
import pytest
import rasterio
from tiny_country import CHEAP, frame, write_files

from vbagg import geo
from vbagg.workflow.stages import STAGES

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*there are only 12 polygons"),
    pytest.mark.filterwarnings("ignore::vbagg.errors.ConvergenceWarning"),
]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    paths = write_files(folder)
    frame().drop(columns="cases").to_file(paths["districts"])
    table = frame()[["name", "cases"]].assign(people=400 + 60 * frame()["cases"] + 37 * np.arange(12.0))
    table["expected"] = table["people"] * table["cases"].sum() / table["people"].sum()
    table["own_expected"] = 1.25 * table["expected"]
    table.sample(frac=1, random_state=2).to_csv(folder / "counts.csv", sep=";", index=False)
    return paths | {"counts": folder / "counts.csv"}


def words(files, **more):
    return {
        "polygons": files["districts"],
        "totals": files["counts"],
        "on": "name",
        "response": "cases",
        "covariate": [files["height"]],
        "spread_by": files["population"],
        "likelihood": "poisson",
        **CHEAP,
        **more,
    }


def table_of(files):
    return pd.read_csv(files["counts"], sep=";").set_index("name").loc[frame()["name"]]


def test_the_check_knows_them(files):
    options = {name: value for name, value in words(files).items() if name not in ("likelihood", *CHEAP)}
    findings = geo.check(**options, population_column="people")
    assert findings.errors == ()
    assert findings.facts["exposure"] == {"kind": "population", "total": pytest.approx(22122), "column": "people"}
    assert "with counts.csv, named by 'name'" in str(findings)
    assert "22,122 people in the polygons (column people)" in str(findings)
    relative = geo.check(**options, exposure_column="own_expected")
    assert relative.facts["responses"]["cases"]["relative_risk"] == pytest.approx(0.8)
    assert "0.8 times what was expected, from" in str(relative)
    trials = geo.check(
        **options, exposure_column="own_expected", likelihood="binomial", link="logistic", trials="people"
    )
    assert "`exposure_column` goes with counts that are not of trials" in trials.errors[0].text
    nobody = {**options, "totals": pd.read_csv(files["counts"], sep=";").assign(people=0)}
    (error,) = geo.check(**nobody, population_column="people").errors
    assert error.text.endswith(
        "totals.parquet: the column 'people' must hold people; it is 0 everywhere. Name another."
    )
    twice = geo.check(**options, exposure_column="expected", population_column="people")
    assert "Only one thing can say what rates are relative to" in twice.errors[0].text


def test_the_check_warns_of_polygons_without_people_and_of_dark_ones(files, tmp_path):
    counts = pd.read_csv(files["counts"], sep=";")
    counts.loc[counts["name"] == "D05", "people"] = 0
    with rasterio.open(files["population"]) as source:
        values, profile = source.read(1), source.profile
    values[:, :3] = 0
    with rasterio.open(tmp_path / "lights.tif", "w", **profile) as target:
        target.write(values, 1)
    options = {name: value for name, value in words(files).items() if name not in ("likelihood", *CHEAP)}
    options |= {"totals": counts, "spread_by": tmp_path / "lights.tif", "population_column": "people"}
    found = {finding.code: finding for finding in geo.check(**options).warnings}
    assert found["empty"].polygons == ("D05",)
    assert "1 polygon has no people ('D05') and will be left out, with 12 cases" in found["empty"].text
    assert found["spread-by-area"].polygons == ("D00", "D04", "D08")


@pytest.mark.slow
def test_people_of_a_column(files, tmp_path):
    run = geo.run(tmp_path / "out", progress=False, **words(files, population_column="people", to=files["districts"]))
    table, own = table_of(files), run.to_geopandas()
    np.testing.assert_allclose(own["population"], table["people"], rtol=1e-12)
    np.testing.assert_allclose(own["observed_rate"], 1000 * table["cases"] / table["people"])
    other = run.to_geopandas(name="districts")
    np.testing.assert_allclose(other["population"], table["people"], rtol=1e-12)
    # sums over parts take another path than totals of polygons, and differ by as much with a raster of people
    np.testing.assert_allclose(other["total"], own["fitted"], rtol=0.015)
    assert run.to_xarray()["rate_mean"].attrs["units"] == "cases per 1000 people"
    read = json.loads((tmp_path / "out" / "prepared" / "stage.json").read_text())["settings"]
    assert {"data.totals", "data.on", "data.population_column", "data.spread_by"} <= set(read)


@pytest.mark.slow
def test_expected_counts_give_relative_risks(files, tmp_path):
    run = geo.run(tmp_path / "out", progress=False, **words(files, exposure_column="own_expected", threshold=1.1))
    table, own, maps = table_of(files), run.to_geopandas(), run.to_xarray()
    np.testing.assert_allclose(own["expected"], table["own_expected"], rtol=1e-12)
    np.testing.assert_allclose(own["observed_rate"], table["cases"] / table["own_expected"], rtol=1e-9)
    assert maps["rate_mean"].attrs["units"] == "relative risk of cases"
    assert maps["expected"].attrs == maps["expected"].attrs | {"units": "cases per cell"}
    assert 0.2 < float(maps["rate_mean"].mean()) < 4
    assert 0.05 < float(maps["exceedance"].mean()) < 0.95
    page = run.pages()[0].read_text(encoding="utf-8")
    assert "relative risk of cases" in page
    assert "per 1000" not in page
    verdict = (tmp_path / "out" / "validation" / "cases" / "verdict.txt").read_text()
    assert "relative risk of cases" in verdict
    assert list(STAGES) == [name for name in STAGES if (tmp_path / "out" / name).is_dir()]
    assert isinstance(own, gpd.GeoDataFrame)
