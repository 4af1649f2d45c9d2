from types import SimpleNamespace

import pandas as pd
import pytest

from vbagg.geo.told import NOTHING, Told
from vbagg.workflow.folder import RunFolder
from vbagg.workflow.report_page.facts import facts_of, facts_of_effect
from vbagg.workflow.report_page.key_figures import Sums, key_figures
from vbagg.workflow.report_page.subject import Subject
from vbagg.workflow.run import Run
from vbagg.workflow.settings import from_words

POLYGONS = pd.DataFrame({"observed": [30.0, 50.0, 12.0], "population": [1000.0, 3000.0, 0.0]}, index=["a", "b", "off"])
TESTED = pd.Series({"a": 100.0, "b": 400.0})


def figures_of(subject, table):
    return dict(key_figures(subject, Sums(subject, table)))


def test_totals_that_are_not_known_are_told(tmp_path):
    """Rates are of polygons of whose totals anything is known: 30 and 50 to 60 cases of 4,000 people."""
    gaps = POLYGONS.assign(
        observed=[30.0, float("nan"), float("nan")],
        observation=["observed", "suppressed", "missing"],
        observed_lower=[30.0, 50.0, float("nan")],
        observed_upper=[30.0, 60.0, float("nan")],
        population=[1000.0, 3000.0, 500.0],
    )
    run = Run(from_words({"response": "cases"}), RunFolder(tmp_path))
    prepared = SimpleNamespace(is_shared=False, exposure="population", told=NOTHING)
    found = figures_of(Subject(run, prepared, "cases", tmp_path), gaps)
    assert found == {
        "Cases": "between 80 and 90",
        "Districts whose total is missing": "1",
        "Districts whose total is suppressed": "1",
        "People": "4,500",
        "Rate per 1000 people": "between 20 and 22.5",
    }


@pytest.mark.parametrize(
    ("known", "told"),
    [
        ({"observed": 30.0, "observed_rate": 30.0}, {"Official cases": "30", "Official cases per 1000 people": "30"}),
        ({"observation": "missing"}, {"Official cases": "missing"}),
        (
            {"observation": "suppressed", "observed_lower": 1.0, "observed_upper": 4.0},
            {"Official cases": "suppressed: 1 to 4"},
        ),
    ],
)
def test_what_is_said_of_a_polygon(tmp_path, known, told):
    run = Run(from_words({"response": "cases"}), RunFolder(tmp_path))
    prepared = SimpleNamespace(
        is_shared=False, exposure="population", told=NOTHING, polygons=SimpleNamespace(id="name")
    )
    nothing = dict.fromkeys(["observed", "observed_rate", "effect"], float("nan"))
    row = {"name": "a", "population": 1000.0, "fitted": 28.0, "fitted_lower": 20.0, "fitted_upper": 41.0}
    facts = facts_of(Subject(run, prepared, "cases", tmp_path), "Ambato", pd.Series(row | nothing | known))
    always = {"District": "Ambato", "Id": "a", "People": "1,000", "Fitted total": "28 (20 to 41)"}
    assert facts == always | told
    assert list(facts)[:2] == ["District", "Id"]


@pytest.mark.parametrize(
    ("odd", "model", "told"),
    [
        (True, {}, {"Times what is expected": "2.31 (1.1 to 4.2)", "Stands out": "chance 0.12%"}),
        (False, {"likelihood": "normal", "link": "identity"}, {"Above what is expected": "2.31 (1.1 to 4.2)"}),
    ],
)
def test_what_is_said_of_the_effect_of_a_polygon(tmp_path, odd, model, told):
    row = {"effect": 2.31, "effect_lower": 1.1, "effect_upper": 4.2, "chance": 0.0012, "stands_out": odd}
    row |= {"from_others": 1200.0, "from_others_lower": 310.4, "from_others_upper": 3500.0}
    run = Run(from_words({"response": "cases", **model}), RunFolder(tmp_path))
    others = {"Expected from the others": "1,200 (310 to 3,500)"}
    subject = Subject(run, SimpleNamespace(is_shared=False), "cases", tmp_path)
    assert facts_of_effect(subject, pd.Series(row)) == told | others


@pytest.mark.parametrize(
    ("words", "rate"),
    [
        ({}, ("Rate per 1000 people", "20")),
        (
            {"likelihood": "binomial", "link": "logistic", "trials": "tested"},
            ("Rate per 1000 trials", "160"),
        ),
    ],
)
def test_totals_and_rates_of_the_summary_are_of_the_same_polygons(tmp_path, words, rate):
    """Those that lie off the grid are in neither."""
    columns = {"cases": POLYGONS["observed"][:2], "tested": TESTED}
    prepared = SimpleNamespace(is_shared=False, exposure="population", told=NOTHING, y=lambda name: columns[name])
    run = Run(from_words({"response": "cases", **words}), RunFolder(tmp_path))
    found = figures_of(Subject(run, prepared, "cases", tmp_path), POLYGONS)
    assert found["Cases"] == "80"
    assert found["People"] == "4,000"
    assert rate in found.items()


def test_what_was_told_of_reports_and_people_is_shown(tmp_path):
    prepared = SimpleNamespace(
        is_shared=False, exposure="population", told=Told("share", "off"), polygons=SimpleNamespace(id="name")
    )
    subject = Subject(Run(from_words({"response": "cases"}), RunFolder(tmp_path)), prepared, "cases", tmp_path)
    known = POLYGONS.assign(completeness=[0.5, 0.8, float("nan")], population_relative_sd=[0.1, 0.25, 0.1])
    found = figures_of(subject, known)
    assert found["Of all that occurred, reported"] == "50% to 80%"
    assert found["Rate per 1000 people"] == f"{1000 * 80 / (0.5 * 1000 + 0.8 * 3000):.3g}"
    fitted = {"observed_rate": 20.8, "fitted": 62.0, "fitted_lower": 50.0, "fitted_upper": 70.0}
    rows = known.assign(name=known.index, effect=float("nan"), **fitted)
    facts = facts_of(subject, "Ambato", rows.loc["b"])
    assert (facts["Reported"], facts["People"]) == ("80%", "3,000 (off by 25%)")
    assert "Reported" not in facts_of(subject, "Ambato", rows.loc["off"])
    prepared.told = Told(None, None)
    assert "Reported" not in facts_of(subject, "Ambato", rows.loc["b"])
    assert facts_of(subject, "Ambato", rows.loc["b"])["People"] == "3,000"
