"""Whole runs with survey points: fitted with and without, validated in the same folds, and reported side by side."""

import json

import geopandas as gpd
import numpy as np
import pytest
import rasterio
from page_text import without_tags
from small_surveys import LAT, LON, surveys
from tiny_country import CHEAP, write_files

import vbagg
from vbagg import geo
from vbagg.geo.cell_features import point_bags
from vbagg.workflow.results import CHANGE
from vbagg.workflow.run import WITHOUT_POINTS

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*there are only 12 polygons"),
    pytest.mark.filterwarnings("ignore::vbagg.errors.ConvergenceWarning"),
]


def words(files, **more):
    return {
        "polygons": files["districts"],
        "id": "name",
        "response": "cases",
        "population": files["population"],
        "population_is": "counts",
        "covariate": [files["height"]],
        "likelihood": "poisson",
        **CHEAP,
        "recovery": 1,
        **more,
    }


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run by the words of the command line, with points as an object."""
    folder = tmp_path_factory.mktemp("run")
    files = write_files(folder)
    points = {"points": surveys(), "at": "lon,lat", "response": ["cases", "positive"], "trials": "tested"}
    return geo.run(folder / "out", progress=False, **words(files, **points)), files, folder


@pytest.mark.slow
def test_both_models_are_those_of_fits_by_hand(finished):
    run, *_ = finished
    prepared = run.prepared()
    bags, points = prepared.bags(), prepared.points
    also = vbagg.Observations(point_bags(prepared), points.y, "binomial", trials=points.trials)
    for model, own in ((run.model(), also), (run.model_without_points(), None)):
        again = vbagg.VBAgg("poisson", "exp", landmarks=4, hyper="point").fit(bags, prepared.y(), also=own)
        np.testing.assert_allclose(model.posterior(bags).mean, again.posterior(bags).mean, rtol=1e-9)
    (learnt,) = run.model().observations_
    assert (learnt.n_bags, learnt.likelihood, learnt.slope) == (7, "binomial", 1)
    assert run.model_without_points().observations_ == ()


@pytest.mark.slow
def test_settings_have_the_words_of_points(finished):
    run, _, folder = finished
    text = (folder / "out" / "settings.toml").read_text()
    assert 'response = ["cases"]' in text
    assert 'point_response = "positive"' in text
    assert 'point_trials = "tested"' in text
    assert "# trials =" in text
    assert run.settings.data.response == ("cases",)


@pytest.mark.slow
def test_maps_say_what_points_change(finished):
    run, *_ = finished
    maps = run.maps()

    def read(folder, name):
        with rasterio.open(folder / f"{name}.tif") as source:
            return source.read(1).astype(float)

    with_points, without = (read(folder, "rate_mean") for folder in (maps, maps / WITHOUT_POINTS))
    known = np.isfinite(with_points)
    np.testing.assert_allclose(read(maps, "rate_ratio")[known], (with_points / without)[known], rtol=1e-6)
    assert np.abs(np.log(with_points / without))[known].max() > 0.01
    people = read(maps, "population")
    weight = np.where(known, people, 0) / people[known].sum()
    told = json.loads((maps / CHANGE).read_text())
    widths = [read(folder, "rate_interval_width") for folder in (maps, maps / WITHOUT_POINTS)]
    assert told["width"] == pytest.approx(np.nansum(weight * widths[0]), rel=1e-6)
    assert told["other_width"] == pytest.approx(np.nansum(weight * widths[1]), rel=1e-6)
    assert told["other_rate"] == pytest.approx(np.nansum(weight * without), rel=1e-6)
    distance = np.nansum(weight * np.abs(np.log(with_points / without)))
    assert told["factor"] == pytest.approx(np.exp(distance), rel=1e-6)
    assert "rate_ratio" in run.to_xarray()


@pytest.mark.slow
def test_both_are_validated_in_the_same_folds_and_reported(finished):
    run, *_ = finished
    validation = run.validation()
    assert validation.models[:2] == ("vbagg", "without points")
    table = validation.table
    own, other = (table[table["model"] == name].set_index("bag") for name in validation.models[:2])
    assert own["fold"].equals(other["fold"])
    assert (own["crps"] != other["crps"]).any()
    page = run.pages()[0].read_text(encoding="utf-8")
    for text in ("Survey points", "7 points of points.parquet, in 7 cells", "48 positive of 176 tested (27%)"):
        assert text in page
    assert "without points" in run.folder["validation"].joinpath("cases", "verdict.txt").read_text()


@pytest.mark.slow
def test_other_points_make_the_stages_again(finished, capsys):
    run, files, folder = finished
    given = {"at": "lon,lat", "point_response": "positive", "point_trials": "tested"}
    same = geo.run(folder / "out", progress=False, **words(files, points=surveys(), **given))
    assert (folder / "out" / "run.log").read_text().count("models: begins") == 1
    assert same.settings == run.settings
    (folder / "out" / "prepared" / "points.parquet").write_bytes(b"PAR1")
    geo.run(folder / "out", progress=False, **words(files, points=surveys(), **given))
    assert "prepared: begins, since points.parquet has" in (folder / "out" / "run.log").read_text()


@pytest.mark.slow
def test_points_with_the_likelihood_of_polygons(tmp_path):
    files = write_files(tmp_path)
    table = surveys(people=[400, 700, 300, 900, 650, 500, 800]).drop(columns=["lon", "lat"])
    points = gpd.GeoDataFrame(table, geometry=gpd.points_from_xy(LON, LAT), crs=4326)
    options = {"points": points, "point_response": "positive", "point_people": "people", "skip_validation": True}
    run = geo.run(tmp_path / "out", progress=False, **words(files, **options))
    (learnt,) = run.model().observations_
    assert (learnt.likelihood, learnt.intercept) == ("poisson", None)
    assert point_bags(run.prepared()).weight.tolist() == table["people"].tolist()
    page = without_tags(run.pages()[0].read_text(encoding="utf-8"))
    assert "They have the likelihood of the polygons" in page
    plain = geo.run(tmp_path / "plain", progress=False, **words(files, skip_validation=True))
    with pytest.raises(ValueError, match="is not there, since the run has no points"):
        plain.model_without_points()


def test_objects_that_are_no_points_are_refused(tmp_path):
    files = write_files(tmp_path)
    with pytest.raises(ValueError, match=r"`points` must be the name of a file, or a pandas\.DataFrame or a GeoData"):
        geo.check(**words(files, points=1, point_response="positive"))
