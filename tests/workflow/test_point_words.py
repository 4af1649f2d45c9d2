"""Words of the polygons that stand for points where only these can be meant."""

import pytest
from small_surveys import surveys

from vbagg.workflow.point_words import with_words_of_points
from vbagg.workflow.settings import from_words


@pytest.fixture
def table(tmp_path):
    surveys(cases=range(7)).to_csv(tmp_path / "surveys.csv", index=False)
    return tmp_path / "surveys.csv"


def words(points, **given):
    settings = with_words_of_points(from_words({"points": points, **given}))
    return (
        settings.data.response,
        settings.data.point_response,
        settings.data.point_trials,
        settings.model.trials,
    )


def test_the_response_that_only_points_have_is_theirs(table):
    assert words(table, response=["deaths", "positive"], trials="tested") == (("deaths",), "positive", "tested", None)


def test_a_single_response_is_that_of_both_if_both_have_it(table):
    assert words(table, response="cases") == (("cases",), "cases", None, None)
    assert words(table, response="deaths") == (("deaths",), None, None, None)


def test_trials_are_the_polygons_where_these_need_them(table):
    given = {"response": "cases", "likelihood": "binomial", "link": "logistic"}
    assert words(table, **given, trials="tested") == (("cases",), "cases", "tested", "tested")
    assert words(table, **given, trials="examined") == (("cases",), "cases", None, "examined")


def test_words_of_their_own_come_first(table):
    own = {"point_response": "site", "point_trials": "cases"}
    assert words(table, response="cases", trials="tested", **own) == (("cases",), "site", "cases", "tested")
    assert words(table, response="cases", trials="tested", point_people="cases")[2:] == (None, "tested")


def test_without_points_nothing_changes():
    assert words(None, response=["a", "b"], trials="c") == (("a", "b"), None, None, "c")


def test_what_could_mean_either_is_refused(table):
    with pytest.raises(ValueError, match=r"has columns for several of the responses .'cases', 'positive'."):
        words(table, response=["cases", "positive"])
    with pytest.raises(ValueError, match="Points go with one response of the polygons; got 'deaths', 'births'"):
        words(table, response=["deaths", "births"], point_response="positive")
    with pytest.raises(ValueError, match=r"there is no .*gone.csv"):
        words(table.with_name("gone.csv"), response=["deaths", "positive"])
    with pytest.raises(ValueError, match="not with `negative`"):
        words(table, response="cases", negative=True)
    assert words(table.with_name("gone.csv"), response="deaths") == (("deaths",), None, None, None)


@pytest.mark.parametrize("given", ["lon,lat", ["lon", "lat"], ("lon", "lat")])
def test_two_names_are_as_good_as_one_text(table, given):
    assert from_words({"points": table, "at": given}).data.at == "lon,lat"


@pytest.mark.parametrize(("given", "kept"), [(1, "1"), (0.5, "0.5"), ("0.5", "0.5"), ("learnt", "learnt")])
def test_slopes_are_numbers_or_learnt(given, kept):
    assert from_words({"point_slope": given}).model.point_slope == kept


@pytest.mark.parametrize("given", [0, -1, "x", True, None, "inf"])
def test_other_slopes_are_refused(given):
    with pytest.raises(ValueError, match="a slope must be a positive number, or learnt"):
        from_words({"point_slope": given})
