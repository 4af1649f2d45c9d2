"""How many people live above thresholds, against loops over cells and draws."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from tiny_country import fitted_model, prepared_country

import vbagg
from vbagg.errors import NoUncertaintyError
from vbagg.geo import Prepared, people_above, pieces, polygon_table
from vbagg.geo.above import COLUMNS, DRAWS, PeopleAbove, _evenly_by_people, _where_people_are
from vbagg.geo.units import Units

PER = 500.0


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    return prepared_country(tmp_path_factory.mktemp("country"))


@pytest.fixture(scope="module")
def table(prepared):
    return people_above(fitted_model(), prepared, "cases", level=0.8, per=PER, threshold=13.37)


def cut(prepared, monkeypatch, rows):
    """The same data, read in pieces."""
    monkeypatch.setattr(pieces, "PIECE_ROWS", rows)
    if not (prepared.table.parent / "prepared.json").exists():
        prepared.save(prepared.table.parent)
    return Prepared.load(prepared.table.parent)


def test_the_table_explains_itself(prepared, table):
    assert tuple(table) == COLUMNS
    assert set(table["threshold_units"]) == {"cases per 500 people"}
    assert set(table["all_units"]) == {"people"}
    assert set(table["level"]) == {0.8}
    np.testing.assert_allclose(table["all"], prepared.polygons.frame["population"].sum())
    assert 100 < len(table) < 400
    assert 13.37 in set(table["threshold"])
    assert (np.diff(table["threshold"]) > 0).all()
    for name in ("above", "above_lower", "above_upper"):
        assert (np.diff(table[name]) <= 0).all()
    assert (table["above_lower"] <= table["above_upper"]).all()


def test_thresholds_reach_from_all_people_to_nobody(table):
    everybody = table["all"].iloc[0]
    assert table["above"].iloc[0] > 0.98 * everybody
    assert table["above"].iloc[-1] < 0.02 * everybody
    # where most people are, the next threshold is near
    assert -np.diff(table["above"]).min() < 0.03 * everybody


def test_people_are_those_of_cells_times_the_probability(prepared, table):
    bags, model = prepared.bags(), fitted_model()
    posterior = model.posterior(bags)
    for _, row in table.iloc[::40].iterrows():
        chance = posterior.exceedance(row["threshold"] / PER)
        expected = sum(w * p for w, p in zip(bags.weight, chance, strict=True))
        sd = (row["above_upper"] - row["above_lower"]) / 2.56
        assert row["above"] == pytest.approx(expected, abs=4.5 * sd / np.sqrt(DRAWS) + 3e-3 * row["all"])


def test_numbers_are_those_of_a_loop_over_pieces_and_draws(prepared, monkeypatch):
    own, model, thresholds = cut(prepared, monkeypatch, 25), fitted_model(), [30.0, 8.0, 15.5]
    assert len(own.pieces.all) > 3
    found = people_above(model, own, "cases", level=0.8, per=PER, thresholds=thresholds)
    labels = own.polygons.labels.tolist()
    drawn = np.zeros((DRAWS, 3))
    for piece in own.pieces.all:
        bags = own.pieces.rows(piece).bags
        part = labels.index(bags.labels[0])
        drawn += model.weight_above(bags, np.array([8.0, 15.5, 30.0]) / PER, DRAWS, 0, part)
    assert found["threshold"].tolist() == [8.0, 15.5, 30.0]
    np.testing.assert_allclose(found["above"], [sum(column) / DRAWS for column in drawn.T])
    np.testing.assert_allclose(found["above_lower"], np.quantile(drawn, 0.1, axis=0))
    np.testing.assert_allclose(found["above_upper"], np.quantile(drawn, 0.9, axis=0))


def test_pieces_say_what_one_piece_says(prepared, table, monkeypatch):
    """Up to other random numbers: means, and widths, which shared weights make."""
    own = cut(prepared, monkeypatch, 25)
    question = PeopleAbove.of(fitted_model(), own, "cases", PER, thresholds=table["threshold"].tolist())
    found = question.table(fitted_model(), own, 0.8)
    everybody = table["all"].iloc[0]
    np.testing.assert_allclose(found["above"], table["above"], atol=0.02 * everybody)
    widths = [one["above_upper"] - one["above_lower"] for one in (found, table)]
    middle = (table["above"] > 0.2 * everybody) & (table["above"] < 0.8 * everybody)
    assert widths[0][middle].mean() == pytest.approx(widths[1][middle].mean(), rel=0.15)


def test_polygons_have_people_above_the_threshold_of_a_run(prepared):
    found = polygon_table(fitted_model(), prepared, "cases", 0.8, PER, threshold=13.37).set_index("name")
    bags = prepared.bags()
    chance = fitted_model().posterior(bags).exceedance(13.37 / PER)
    for at, label in enumerate(bags.labels):
        rows = bags.bag == at
        expected = sum(w * p for w, p in zip(bags.weight[rows], chance[rows], strict=True))
        assert found["population_above"][label] == pytest.approx(expected, rel=1e-6)
    assert found["population_above"].nunique() > 10
    assert "population_above" not in polygon_table(fitted_model(), prepared, "cases", 0.8, PER)


def test_thresholds_do_not_depend_on_pieces(prepared, monkeypatch):
    whole = PeopleAbove.of(fitted_model(), prepared, "cases", PER)
    parts = PeopleAbove.of(fitted_model(), cut(prepared, monkeypatch, 25), "cases", PER)
    np.testing.assert_array_equal(whole.thresholds, parts.thresholds)


def test_cells_of_the_pilot_are_where_people_are(prepared, monkeypatch):
    pixels = prepared.pixels
    place = [pixels["x"], pixels["y"]]
    expected = (pixels["weight"] / pixels["weight"].sum() * 400).groupby(place).sum()
    for own in (prepared, cut(prepared, monkeypatch, 25)):
        rows = _evenly_by_people(own, 400)
        assert len(rows) == pytest.approx(400, abs=2)
        found = rows.groupby(["x", "y"]).size().reindex(expected.index, fill_value=0)
        assert np.abs(found - expected).max() < 3


def test_answers_depend_on_what_is_asked():
    labels, units = np.array(["a", "b"], dtype=object), Units("cases", 1000.0, "population")
    first = PeopleAbove(labels, units, np.array([1.0, 2.0]))
    others = [
        PeopleAbove(labels, units, np.array([1.0, 2.5])),
        PeopleAbove(labels, Units("cases", 100.0, "population"), np.array([1.0, 2.0])),
        PeopleAbove(labels, units, np.array([1.0, 2.0]), draws=100),
        PeopleAbove(labels, units, np.array([1.0, 2.0]), seed=1),
        PeopleAbove(labels[::-1], units, np.array([1.0, 2.0])),
    ]
    assert first.told() not in {other.told() for other in others}


def test_a_piece_without_people_adds_nothing():
    question = PeopleAbove(np.array(["a"], dtype=object), Units("cases", 1.0, "population"), np.array([1.0, 2.0]))
    answer = question.answer(None, SimpleNamespace(bags=None))
    np.testing.assert_array_equal(answer, np.zeros((3, DRAWS)))


def test_ends_where_nothing_changes_are_left_out():
    above = [9.0, 9.0, 9.0, 8.5, 4.0, 0.5, 0.0, 0.0, 0.0]
    table = pd.DataFrame(
        {
            "threshold": np.arange(9.0),
            "above": above,
            "above_lower": [9.0, 9.0, 9.0, 8.0, 3.0, 0.0, 0.0, 0.0, 0.0],
            "above_upper": above,
            "all": 9.0,
        }
    )
    assert _where_people_are(table, ())["threshold"].tolist() == [2, 3, 4, 5, 6]
    assert _where_people_are(table, (8.0,))["threshold"].tolist() == [2, 3, 4, 5, 6, 8]


def test_a_model_without_draws_is_refused(prepared):
    model = vbagg.Constant().fit(prepared.bags(), prepared.y("cases"))
    with pytest.raises(NoUncertaintyError, match=r"takes joint draws .* which Constant does not have"):
        people_above(model, prepared, "cases")


def test_square_kilometres_are_counted_where_there_are_no_people(tmp_path):
    own = prepared_country(tmp_path, population=False)
    search = vbagg.Newton(max_iterations=1, starts=1)
    model = vbagg.VBAgg("normal", "identity", landmarks=4, hyper="point", inference=search)
    with pytest.warns(vbagg.errors.ConvergenceWarning):
        model.fit(own.bags(), own.y("cases") - 15)
    found = people_above(model, own, "cases", per=1.0)
    assert set(found["all_units"]) == {"km²"}
    # rates below nothing have thresholds too
    assert found["threshold"].iloc[0] < 0 < found["threshold"].iloc[-1]
