"""Rates of a model of trials are relative to trials, wherever they are written."""

import json

import geopandas as gpd
import numpy as np
import pyogrio
import pytest
import rasterio
from tiny_country import CHEAP, frame, write_files

from vbagg import geo
from vbagg.geo.units import Units

TRIALS = "cases per 100 trials"


@pytest.mark.parametrize(
    ("likelihood", "exposure", "rate", "has_counts"),
    [
        ("binomial", "area", TRIALS, False),
        ("beta_binomial", "population", TRIALS, False),
        ("negative_binomial", "area", "cases per 100 km²", True),
        ("normal", "population", "cases per 100 people", True),
    ],
)
def test_words(likelihood, exposure, rate, has_counts):
    units = Units("cases", 100.0, exposure, likelihood)
    assert (units.rate, units.has_counts) == (rate, has_counts)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A model of trials without a population, which weighs cells by their area."""
    folder = tmp_path_factory.mktemp("trials")
    files = write_files(folder)
    frame().iloc[:5].to_file(folder / "others.gpkg")
    return geo.run(
        folder / "out",
        polygons=files["districts"],
        id="name",
        response="cases",
        covariate=files["height"],
        likelihood="binomial",
        link="logistic",
        trials="tested",
        per=100.0,
        threshold=9.0,
        to=folder / "others.gpkg",
        progress=False,
        **CHEAP,
    )


pytestmark = pytest.mark.filterwarnings("ignore:districts.gpkg. there are only 12 polygons", "ignore:binomial, fold")


@pytest.mark.slow
def test_maps(finished):
    names = sorted(path.stem for path in finished.maps().glob("*.tif"))
    assert not [name for name in names if "count" in name]
    for name in names:
        with rasterio.open(finished.maps() / f"{name}.tif") as map_:
            tags = map_.tags()
        assert tags["rate_units"] == TRIALS
        assert tags["units"] == {"exceedance": "probability", "area": "km² per cell"}.get(name, TRIALS)
        assert "100 km²" not in " ".join(tags.values())
        assert name == "area" or "area" not in tags["title"]


@pytest.mark.slow
def test_tables(finished):
    tested, cases = frame()["tested"], frame()["cases"]
    own = gpd.read_file(finished.maps() / "polygons.gpkg")
    np.testing.assert_allclose(own["observed_rate"], 100 * cases / tested)
    np.testing.assert_allclose(own["rate"], 100 * own["fitted"] / tested)
    others = gpd.read_file(finished.maps() / "others.gpkg")
    assert "rate" in others
    assert not [name for name in others if name.startswith("total")]
    for name in ("polygons", "others"):
        about = pyogrio.read_info(finished.maps() / f"{name}.gpkg")["layer_metadata"]
        assert about["units"] == TRIALS
    rates = finished.validation().rates()
    np.testing.assert_allclose(sorted(rates["y"].unique()), sorted((100 * cases / tested).unique()))


@pytest.mark.slow
def test_words_of_the_check_the_verdict_and_the_report(finished):
    overall = 100 * frame()["cases"].sum() / frame()["tested"].sum()
    found = json.loads((finished.folder["check"] / "findings.json").read_text())["facts"]["responses"]["cases"]
    assert found["per_1000"] == pytest.approx(10 * overall)
    assert "per 1000 trials, from" in (finished.folder["check"] / "findings.txt").read_text()
    assert TRIALS in (finished.folder["validation"] / "cases" / "verdict.txt").read_text()
    page = finished.pages()[0].read_text()
    assert f"<dt>Rate per 100 trials</dt><dd>{overall:.3g}</dd>" in page
    assert "its total over its trials" in page
    for wrong in ("100 km²", "1000 km²", "over its population", "expected_count"):
        assert wrong not in page
