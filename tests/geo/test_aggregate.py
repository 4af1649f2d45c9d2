import sys
import warnings

import geopandas as gpd
import numpy as np
import pandas as pd
import pyogrio
import pytest
from shapely import box, unary_union
from tiny_country import EAST, NORTH, SOUTH, WEST, fitted_model, frame, prepared_country

import vbagg
from vbagg.errors import DataWarning
from vbagg.geo import read_polygons, totals
from vbagg.geo.aggregate import aggregate, polygon_table, write_polygons
from vbagg.geo.overlay import overlay
from vbagg.geo.pieces import whole_runs

pytestmark = pytest.mark.filterwarnings("ignore:.*have the label of a training bag")

MIDDLE = 30.61  # a line through cells and districts


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    return prepared_country(tmp_path_factory.mktemp("country"), missing="nearest")


@pytest.fixture(scope="module")
def table(prepared):
    return polygon_table(fitted_model(), prepared, "cases", level=0.8, per=100.0)


@pytest.fixture(scope="module")
def constant(prepared):
    return vbagg.Constant().fit(prepared.bags(), prepared.y("cases"))


def halves(*more):
    shapes = [box(WEST, SOUTH, MIDDLE, NORTH), box(MIDDLE, SOUTH, EAST, NORTH), *more]
    return read_polygons(gpd.GeoDataFrame({"area_id": range(1, len(shapes) + 1)}, geometry=shapes, crs=4326), "area_id")


def test_totals_and_rates_of_districts(prepared, table):
    bags = prepared.bags()
    fitted, new = fitted_model().posterior_bags(bags), fitted_model().predictive_bags(bags)
    y, people = prepared.y("cases").to_numpy(), bags.totals()
    (lower, upper), (new_lower, new_upper) = fitted.interval(0.8), new.interval(0.8)
    expected = {
        "observed": y,
        "population": people,
        "observed_rate": 100 * y / people,
        "fitted": fitted.mean,
        "fitted_lower": lower,
        "fitted_upper": upper,
        "predicted_lower": new_lower,
        "predicted_upper": new_upper,
        "rate": 100 * fitted.mean / people,
        "rate_lower": 100 * lower / people,
        "rate_upper": 100 * upper / people,
        "pit": new.cdf(y) - 0.5 * np.exp(new.log_prob(y)),
        "residual": (y - new.mean) / new.std,
        "information": fitted_model().information(bags).bags,
    }
    effects = fitted_model().bag_effects(bags)
    expected |= effects.columns(0.8) | {"stands_out": effects.stands_out()}
    assert list(table.columns) == ["name", "cases", "tested", "region", *expected, "geometry"]
    assert table["name"].tolist() == frame()["name"].tolist()
    for name, values in expected.items():
        np.testing.assert_allclose(table[name], values, rtol=1e-6, err_msg=name)
    # noise widens the interval
    assert (table["predicted_upper"] - table["predicted_lower"] > table["fitted_upper"] - table["fitted_lower"]).all()


def test_a_district_without_people_has_no_estimate(tmp_path):
    polygons = frame()
    nowhere = gpd.GeoDataFrame(
        {"name": ["sea"], "cases": [2.0], "tested": [9.0]}, geometry=[box(9, 9, 10, 10)], crs=4326
    )
    prepared = prepared_country(tmp_path, polygons=pd.concat([nowhere, polygons], ignore_index=True))
    table = polygon_table(fitted_model(), prepared, "cases").set_index("name")
    assert table.loc["sea", "observed"] == 2
    assert table.loc["sea", "population"] == 0
    assert table.loc["sea", ["observed_rate", "fitted", "rate", "pit"]].isna().all()
    assert table.loc["sea", ["effect", "from_others", "chance"]].isna().all()
    assert not table.loc["sea", "stands_out"]
    assert table.loc["D03", "observed"] == 61
    assert table.drop("sea")[["fitted", "effect", "chance"]].notna().all(axis=None)


def test_without_uncertainty_there_is_no_interval_of_the_total(prepared, constant):
    table = polygon_table(constant, prepared, "cases")
    assert table[["fitted_lower", "rate_upper", "effect", "from_others", "chance"]].isna().all(axis=None)
    assert not table["stands_out"].any()
    assert table[["fitted", "rate", "predicted_lower", "pit"]].notna().all(axis=None)


def test_binomial_rates_are_relative_to_the_people_examined(prepared):
    trials = prepared.y("tested").to_numpy()
    model = vbagg.Constant("binomial").fit(prepared.bags(), prepared.y("cases"), trials=trials)
    share = prepared.y("cases").sum() / trials.sum()
    table = polygon_table(model, prepared, "cases", per=100.0, trials="tested")
    np.testing.assert_allclose(table["rate"], 100 * share)
    np.testing.assert_allclose(table["fitted"], share * trials)
    np.testing.assert_allclose(table["observed_rate"], 100 * table["observed"] / trials)
    other = aggregate(model, prepared, halves(), per=100.0)
    np.testing.assert_allclose(other["rate"], 100 * share)
    assert not [name for name in other if name.startswith("total")]


@pytest.fixture(scope="module")
def other(prepared):
    """Results of both halves, of all districts together, of a place off the grid and of one at its edge; warnings."""
    everything = unary_union(frame().geometry)
    polygons = halves(everything, box(31.2, -1.6, 31.4, -1.5), box(30.15, -1.5, 30.25, -1.4))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        table = aggregate(fitted_model(), prepared, polygons, level=0.9, per=100.0)
    return polygons, table, [str(warning.message) for warning in caught if warning.category is DataWarning]


def test_other_polygons_add_up_cells_given_the_totals_of_districts(prepared, other):
    polygons, table, _ = other
    pairs, bags = overlay(polygons, prepared.stack.grid), prepared.bags()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        posterior = fitted_model().posterior(bags)
    draws = posterior.sample(8000, seed=5)
    pixels = prepared.pixels.iloc[bags.rows].reset_index(drop=True)
    population = prepared.stack.at(pixels["cell"].to_numpy(), ["population"])[:, 0]
    covered = pixels.groupby("cell")["coverage"].transform("sum").to_numpy()
    for at in range(3):
        own = pairs[pairs["polygon"] == at].set_index("cell")["coverage"]
        part = pixels["cell"].map(own).fillna(0.0).to_numpy()
        weight = part * population * pixels["coverage"].to_numpy() / covered
        sums = draws @ weight
        assert table["population"][at] == pytest.approx(weight.sum(), rel=1e-6)
        assert table["total"][at] == pytest.approx(posterior.mean @ weight, rel=0.01)
        assert table["total_sd"][at] == pytest.approx(sums.std(), rel=0.1)
        ends = table.loc[at, ["total_lower", "total_upper"]].astype(float)
        np.testing.assert_allclose(ends, np.quantile(sums, [0.05, 0.95]), rtol=0.04)
    np.testing.assert_allclose(table["rate_sd"], 100 * table["total_sd"] / table["population"])
    np.testing.assert_allclose(table["rate_lower"], 100 * table["total_lower"] / table["population"])


def test_the_fitted_polygons_have_the_same_totals_as_other_polygons(prepared, table):
    """Also where cells are shared: a neighbour that only touches has no part of them.

    The rate of a shared cell is that in the polygon that has most of it, so that totals of its neighbours differ by 1%.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        again = aggregate(fitted_model(), prepared, prepared.polygons, level=0.8, per=100.0)
    np.testing.assert_allclose(again["total"], table["fitted"], rtol=0.015)
    np.testing.assert_allclose(again["total_lower"], table["fitted_lower"], rtol=0.02)
    np.testing.assert_allclose(again["total_upper"], table["fitted_upper"], rtol=0.02)
    apart = fitted_model().posterior_bags(prepared.bags().with_arrays(weight=2 * prepared.bags().weight))
    # without the observed totals they are others
    assert np.abs(2 * again["total"] / apart.mean - 1).max() > 0.03


def test_parts_add_up_to_the_whole(other):
    _, table, _ = other
    assert table["total"][2] == pytest.approx(table["total"][:2].sum(), rel=1e-3)
    assert table["population"][2] == pytest.approx(table["population"][:2].sum(), rel=1e-6)
    assert table["total_sd"][2] <= 1.01 * table["total_sd"][:2].sum()


def test_what_is_not_covered_is_reported(other):
    _, table, texts = other
    texts = [text for text in texts if text.startswith("polygons")]
    assert any("1 of 5 polygons lie where the grid has no covariates and have no result: 4." in text for text in texts)
    assert any("1 of 5 polygons are covered by less than 95%" in text and text.endswith(": 5.") for text in texts)
    assert len(texts) == 2
    assert table["total"].isna().tolist() == [False, False, False, True, False]
    np.testing.assert_allclose(table["covered"], [1, 1, 1, 0, 0.5], atol=1e-6)


def test_large_polygons_are_cut_into_pieces(prepared, monkeypatch):
    bags = prepared.bags()
    country = vbagg.Bags(
        pd.DataFrame(bags.X, columns=list(bags.feature_names)), (bags.bag < 5).astype(int), bags.weight
    )
    whole = totals.posterior_totals(fitted_model(), country)
    monkeypatch.setattr(totals, "PIECE", 20)
    cut = totals.posterior_totals(fitted_model(), country)
    assert len(cut) == len(whole) == 2
    np.testing.assert_allclose(cut.mean, whole.mean, rtol=1e-4)
    # between pieces, what few landmarks do not explain is left out
    np.testing.assert_allclose(cut.std, whole.std, rtol=0.1)
    np.testing.assert_allclose(cut.interval(0.9), whole.interval(0.9), rtol=0.05)


def test_large_polygons_of_a_regression_are_cut_into_pieces(prepared, monkeypatch):
    """A regression on bag means has no link among its parameters."""
    bags = prepared.bags()
    model = vbagg.BagGLM("poisson").fit(bags, prepared.y("cases"))
    monkeypatch.setattr(totals, "PIECE", 5)
    assert bags.sizes.max() > 5
    np.testing.assert_allclose(totals.posterior_totals(model, bags).mean, model.posterior_bags(bags).mean, rtol=0.1)


def test_polygons_are_taken_a_few_at_a_time(prepared, constant, monkeypatch):
    polygons = read_polygons(frame(), "name")
    once = aggregate(constant, prepared, polygons)
    module = sys.modules["vbagg.geo.aggregate"]
    monkeypatch.setattr(module, "PIXELS_AT_ONCE", 45)
    sizes = np.bincount(overlay(polygons, prepared.stack.grid)["polygon"])
    groups = [part.stop - part.start for part in whole_runs(np.cumsum(sizes), 45)]
    assert max(groups) <= 45 < sizes.sum()
    assert sum(groups) == sizes.sum()
    again = aggregate(constant, prepared, polygons)
    for name in ("total", "rate", "population", "covered"):
        np.testing.assert_allclose(again[name], once[name], err_msg=name)
    assert np.ptp(once["total"]) > 0


def test_polygons_elsewhere_are_refused(prepared):
    elsewhere = read_polygons(gpd.GeoDataFrame({"id": ["p"]}, geometry=[box(0, 0, 1, 1)], crs=4326), "id")
    with pytest.raises(ValueError, match="polygons must lie where the grid of the model has covariates"):
        aggregate(fitted_model(), prepared, elsewhere)


def test_polygons_in_another_crs_give_the_same(prepared, constant):
    here = aggregate(constant, prepared, halves())
    moved = read_polygons(halves().frame.to_crs("EPSG:32736"), "area_id")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        there = aggregate(constant, prepared, moved)
    np.testing.assert_allclose(there["total"], here["total"], rtol=1e-4)
    assert there.crs.to_epsg() == 32736


def test_columns_of_the_same_name_are_replaced(prepared, constant):
    polygons = halves()
    polygons.frame["Rate"] = "theirs"
    table = aggregate(constant, prepared, polygons)
    assert "Rate" not in table
    assert table["rate"].dtype == float


def test_tables_are_written_with_their_metadata(table, tmp_path):
    paths = write_polygons(table, tmp_path / "out", "districts")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["districts.csv", "districts.gpkg"]
    back = gpd.read_file(paths["gpkg"])
    assert back.crs == table.crs
    pd.testing.assert_frame_equal(pd.DataFrame(back), pd.DataFrame(table), check_dtype=False, check_like=False)
    plain = pd.read_csv(paths["csv"])
    assert "geometry" not in plain
    np.testing.assert_allclose(plain["rate_upper"], table["rate_upper"])
    metadata = pyogrio.read_info(paths["gpkg"])["layer_metadata"]
    assert metadata.items() >= {"units": "cases per 100 people", "level": "0.8", "model": "VBAgg"}.items()
