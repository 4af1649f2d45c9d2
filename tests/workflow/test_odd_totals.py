"""What is said of totals that stand out, and of fitted totals beside official ones."""

import numpy as np
import pandas as pd
import pytest

from vbagg.workflow.odd_totals import MOST_ROWS, OddTotals, percentage

COLUMNS = (
    "name",
    "observed",
    "fitted",
    "from_others",
    "from_others_lower",
    "from_others_upper",
    "chance",
    "stands_out",
)
ROWS = [
    ("Ada", 500.0, 470.0, 100.0, 60.0, 170.0, 2e-6, True),
    ("Bor", 3.0, 5.5, 40.0, 18.0, 85.0, 0.0031, True),
    ("Cid", 80.0, 81.0, 70.0, 40.0, 120.0, 0.6, False),
    ("Dun", 12.0, 12.2, 9.6, 3.0, 21.0, 0.4, False),
    ("Eld", np.nan, 30.0, 30.0, 11.0, 64.0, np.nan, False),
]


def told(rows=ROWS, **changes):
    table = pd.DataFrame(rows, columns=COLUMNS).assign(observed_lower=1.0, observed_upper=4.0)
    return OddTotals(table.assign(**changes), "name", "cases", 0.9)


def test_the_sentence_names_those_that_stand_out():
    assert told().sentence() == "cases: 2 of 4 totals stand out: 'Ada', 'Bor'"
    assert told(ROWS[:1]).sentence() == "cases: 1 of 1 total stands out: 'Ada'"
    none = "cases: none of 4 totals stands out from what the other polygons say"
    assert told(stands_out=False).sentence() == none
    assert told(chance=np.nan).sentence() == "cases: nothing is said of odd totals"


def test_the_oddest_come_first():
    table = told(ROWS[::-1]).shown()
    assert [row[0] for row in table.rows] == ["Ada", "Bor"]
    assert table.rows[0] == ["Ada", "500", "100 (60 to 170)", "5", "under 0.01%"]
    assert table.rows[1] == ["Bor", "3", "40 (18 to 85)", "0.075", "0.31%"]
    assert "90% interval" in table.caption


def test_bounds_are_told_as_they_are():
    rows = [("Ada", np.nan, 3.0, 100.0, 60.0, 170.0, 1e-5, True)]
    assert told(rows).shown().rows == [["Ada", "1 to 4", "100 (60 to 170)", None, "under 0.01%"]]
    assert told(rows, observed_upper=np.inf).shown().rows[0][1] == "1 or more"


def test_where_none_stands_out_the_furthest_are_shown():
    none = told(stands_out=False)
    assert [row[0] for row in none.shown().rows] == ["Ada", "Bor", "Dun", "Cid"]
    assert none.explained().startswith("None of 4 totals stands out.")
    assert "by chance alone" not in none.explained()
    assert "by chance alone" in told().explained()


def test_many_are_cut():
    table = told([ROWS[0]] * (MOST_ROWS + 3)).shown()
    assert len(table.rows) == MOST_ROWS
    assert table.caption.endswith(f"The first {MOST_ROWS} of {MOST_ROWS + 3}.")


def test_fitted_totals_stand_beside_official_ones():
    text = told().fitted_beside_official(may_match=True, matched=False)
    assert text.startswith("Official totals add up to 595, fitted ones to 569 (4.4% less). A fitted total is what is")
    assert "2 fitted totals of 4 are more than 5% off, the furthest Bor (official 3, fitted 5.5)." in text
    assert text.endswith("For a map of counts that add up to the official totals, add --match-totals to the command.")
    matched = told().fitted_beside_official(may_match=True, matched=True)
    assert matched.endswith("Cells of the map of matched counts add up to the official totals.")
    assert "match" not in told().fitted_beside_official(may_match=False, matched=False)


def test_where_reports_are_incomplete_their_part_of_fitted_totals_is_compared():
    text = told(fitted_reported=[250.0, 3.0, 79.0, 12.1, 9.0]).fitted_beside_official(may_match=True, matched=True)
    assert text.startswith("Official totals add up to 595, fitted ones of what is reported to 344 (42% less).")
    assert "1 fitted total of 4 is more than 5% off, the furthest Ada (official 500, fitted 250)." in text
    assert text.endswith("matched counts add up to the official totals over the share that is reported.")


def test_matching_is_not_offered_where_totals_agree():
    text = told(ROWS[2:4]).fitted_beside_official(may_match=True, matched=False)
    assert text.endswith("Here all of them are within 5% of the official ones.")
    assert "--match-totals" not in text
    same = told(ROWS[2:3], fitted=80.0).fitted_beside_official(may_match=True, matched=False)
    assert "add up to 80, fitted ones to 80 (the same)" in same


def test_a_model_that_says_nothing_of_others_has_fitted_totals_alone():
    (text,) = told(chance=np.nan).blocks(may_match=False, matched=False)
    assert text.startswith("Official totals add up to")
    assert list(told(ROWS[4:]).blocks(may_match=False, matched=False)) == []


@pytest.mark.parametrize(
    ("chance", "text"), [(0.0, "under 0.01%"), (3.4e-4, "0.034%"), (0.0551, "5.5%"), (0.554, "55%"), (1.0, "100%")]
)
def test_small_chances_are_told(chance, text):
    assert percentage(chance) == text
