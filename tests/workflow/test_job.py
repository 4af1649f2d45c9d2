"""The whole job from Python: the words of the command line, several responses, classes, and their results."""

import json
import os

import geopandas as gpd
import numpy as np
import pytest
import rasterio

from vbagg import geo
from vbagg.geo.country_files import write_country
from vbagg.workflow.settings import WORDS, Settings, from_words


@pytest.fixture(scope="module")
def country(tmp_path_factory):
    """A small country whose districts also have deaths, and a raster of classes."""
    folder = tmp_path_factory.mktemp("country")
    files = write_country(folder, scale=0.002, n_districts=24, n_health_areas=5)
    districts = gpd.read_file(files.districts)
    districts["deaths/2019"] = np.random.default_rng(4).binomial(districts["cases"].astype(int), 0.1)
    districts.to_file(files.districts)
    with rasterio.open(files.covariates["elevation"]) as source:
        height, profile = source.read(1, masked=True), source.profile
    profile.update(dtype="uint8", nodata=0)
    with rasterio.open(folder / "cover.tif", "w", **profile) as target:
        target.write(np.where(height.mask, 0, 1 + (height > np.ma.median(height))).astype(np.uint8), 1)
    return files


@pytest.fixture(scope="module")
def finished(country, tmp_path_factory):
    return geo.run(
        tmp_path_factory.mktemp("run") / "out",
        polygons=country.districts,
        id="id",
        response=["cases", "deaths/2019"],
        population=country.population,
        covariate=country.covariates["rainfall"],
        category=country.folder / "cover.tif",
        landmarks=8,
        folds=2,
        nested="none",
        recovery=1,
        quantile=0.1,
        progress=False,
    )


def test_each_response_has_a_model_maps_and_a_page(finished):
    assert [page.name for page in finished.pages()] == ["report_cases.html", "report_deaths_2019.html"]
    for response in ("cases", "deaths/2019"):
        table = gpd.read_file(finished.maps(response) / "polygons.gpkg")
        own = gpd.read_file(finished.settings.data.polygons)
        assert table["observed"].tolist() == own[response].tolist()
        assert table["fitted"].sum() == pytest.approx(own[response].sum(), rel=0.15)
        with rasterio.open(finished.maps(response) / "rate_q0.1.tif") as map_:
            assert f"{response} per 1000 people" in map_.tags().values()
        assert finished.validation(response).scores().loc["vbagg", "bags"] == 24
    assert finished.model("deaths/2019").status_.message != ""


def test_classes_become_columns(finished):
    prepared = finished.prepared()
    assert {"rainfall", "cover=1", "cover=2"} == set(prepared.covariates)
    shares = prepared.pixels[["cover=1", "cover=2"]].sum(axis=1)
    np.testing.assert_allclose(shares, 1, atol=1e-6)


def test_the_page_tells_what_the_check_found(finished):
    findings = finished.findings()
    assert findings.errors == ()
    page = finished.pages()[0].read_text()
    assert "The check before modelling" in page
    held = json.loads((finished.folder["check"] / "findings.json").read_text())
    assert held["facts"]["polygons"]["number"] == 24


def test_the_first_response_is_the_default(finished):
    assert finished.maps() == finished.maps("cases")
    with pytest.raises(ValueError, match=r"no response 'death/2019'; did you mean `deaths/2019`"):
        finished.maps("death/2019")


def test_a_second_run_does_nothing_again(finished, country):
    before = os.stat(finished.folder["models"] / "stage.json").st_mtime_ns
    settings = finished.folder.path / "settings.toml"
    again = geo.run(finished.folder.path, config=settings, progress=False)
    assert os.stat(again.folder["models"] / "stage.json").st_mtime_ns == before


def test_check_takes_the_same_words(country):
    findings = geo.check(polygons=country.districts, response="dead", population=country.population)
    (error,) = findings.errors
    assert "'dead'" in error.text
    with pytest.raises(ValueError, match=r"no option `covariates`; did you mean `covariate`"):
        geo.check(covariates=["rain.tif"])


def test_errors_come_before_any_work(country, tmp_path):
    with pytest.raises(ValueError, match=r"'dead'.*1 more error"):
        geo.run(tmp_path / "out", polygons=country.districts, response="dead", population="nowhere.tif", progress=False)
    assert not (tmp_path / "out").exists()


def test_every_setting_has_a_word_of_its_own():
    settings = Settings()
    assert len(WORDS) == sum(len(type(getattr(settings, name)).model_fields) for name in type(settings).model_fields)
    assert WORDS["skip_validation"] == ("validation", "skip")


def test_words_stand_before_a_file(tmp_path):
    config = tmp_path / "settings.toml"
    config.write_text('[maps]\nper = 10.0\nlevel = 0.5\n[data]\npolygons = "d.gpkg"\n')
    settings = from_words({"per": 100.0, "quantile": 0.3}, config)
    assert (settings.maps.per, settings.maps.level, settings.maps.quantile) == (100.0, 0.5, (0.3,))
    assert settings.data.polygons == tmp_path / "d.gpkg"
    with pytest.raises(ValueError, match=r"`maps\.per` is wrong"):
        from_words({"per": -1})
