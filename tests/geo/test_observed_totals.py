import numpy as np
import pandas as pd
import pytest

from vbagg.geo.observed_totals import STATE, Totals, read_observed, states_in
from vbagg.geo.polygon_rows import Origin

PLACES = Origin("counts.csv", [f"line {number}" for number in range(2, 9)])
LABELS = list("abcdefg")
INF, NAN = np.inf, np.nan


def read(cells, marks=None, dtype=None):
    return read_observed(pd.Series(cells, name="cases", dtype=dtype), PLACES, LABELS, marks)


def test_numbers_bounds_marks_and_gaps_in_one_column():
    totals, notes = read(["<5", "12", None, " NA ", "*", "1,234", "≥ 100"], {"*": (1, 4)})
    np.testing.assert_array_equal(totals.least, [0, 12, NAN, NAN, 1, 1234, 100])
    np.testing.assert_array_equal(totals.most, [4, 12, NAN, NAN, 4, 1234, INF])
    np.testing.assert_array_equal(totals.exact, [NAN, 12, NAN, NAN, NAN, 1234, NAN])
    np.testing.assert_array_equal(totals.upper, [4, NAN, NAN, NAN, 4, NAN, INF])
    assert totals.states.tolist() == [
        *("suppressed", "observed", "missing", "missing", "suppressed", "observed", "suppressed")
    ]
    assert totals.gap_sizes == {"missing": 2, "suppressed": 3}
    assert totals.sum() == (1347, INF)
    assert totals.sum([0, 1, 2, 4]) == (13, 20)
    assert notes == (
        "the response 'cases' is text, which was read as numbers, for example '1,234' as 1234.",
        "the response 'cases': 3 totals were read as bounds, for example '<5' as 0 to 4, '*' as 1 to 4, '≥ 100' as "
        "100 or more.",
    )


def test_numbers_beside_bounds_need_no_words():
    """As Excel holds them, and as CSV does."""
    for cells in ([7, "<5", 0.0, NAN, 3], ["7", "<5", "0", "", "3"]):
        totals, notes = read(cells)
        np.testing.assert_array_equal(totals.least, [7, 0, 0, NAN, 3])
        assert notes == ("the response 'cases': 1 total was read as bounds, for example '<5' as 0 to 4.",)


def test_columns_of_numbers_are_as_they_were():
    totals, notes = read([3, 0, 8])
    assert totals.least.tolist() == totals.most.tolist() == [3, 0, 8]
    assert (notes, totals.gap_sizes, totals.gaps("cases", "counts.csv", LABELS)) == ((), {}, [])
    np.testing.assert_array_equal(read([3, None, 8], dtype="Int64")[0].least, [3, NAN, 8])


def test_bounds_of_one_number_are_the_number_and_all_numbers_are_a_gap():
    totals, _ = read(["<1", "4-4", ">=0", "2"])
    assert totals.states.tolist() == ["observed", "observed", "missing", "observed"]
    assert totals.exact[:2].tolist() == [0, 4]


def test_missing_wins_over_marks():
    totals, _ = read(["3", "null", "8"], {"null": (1, 4)})
    assert totals.states.tolist() == ["observed", "missing", "observed"]


def test_gaps_are_told():
    totals = Totals(np.array([NAN, 0, 3, NAN, 8]), np.array([NAN, 4, 3, NAN, 8]))
    missing, hidden = totals.gaps("cases", "counts.csv", LABELS)
    assert missing.text.startswith(
        "counts.csv: 2 of 5 polygons (40%) have no total of 'cases' ('a', 'd'): they are left"
    )
    assert missing.which.tolist() == [0, 3]
    assert hidden.text.startswith("counts.csv: in 1 of 5 polygons (20%) only bounds of 'cases' are known ('b')")
    assert (missing.kind, hidden.kind) == ("missing", "suppressed")


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (["3", "few", "2", "*"], r"counts.csv: the response 'cases' must .* got 'few' for 'b' \(line 3\), the first"),
        (["3", "*", "2"], r"got '\*' for 'b' \(line 3\).*as in `--suppressed 1-4`"),
        (["3", "c", "2"], "as in `--suppressed c=1-4`"),
        (["3", "..", "2"], "as in `--suppressed ..=1-4`"),
        (["3", "2026-01-04 00:00:00", "2"], "Spreadsheets make dates of text such as 1-4"),
        (["3", "#REF!", "2"], "Correct the formula"),
        (["3", "41%", "2"], r"got '41%' for 'b' .*\. Totals are needed: multiply a percentage by what it is of\.$"),
        (["3", "5-1", "<5"], r"bounds .* must be whole numbers, the lower first; got '5-1' for 'b' \(line 3\)"),
        (["3", "<0", "<5.5"], "got '<0' for 'b' .line 3., the first of 2 such"),
        ([3, NAN, -9999.0], r"got -9999.0 for 'c' \(line 4\). Correct it, or empty it: codes"),
        (["3", "<5", "-9"], r"got '-9' for 'c' \(line 4\)"),
        ([3, 1, INF], "got inf for 'c'"),
        ([NAN, NAN, NAN], "known in at least 2 polygons; it is in none of 3"),
        ([NAN, 4.0, NAN], "known in at least 2 polygons; it is in 1 of 3, the others are empty"),
        (["", "NA", None], "it is in none of 3"),
    ],
)  # fmt: skip
def test_what_is_refused(cells, message):
    with pytest.raises(ValueError, match=message):
        read(cells)


def test_two_suppressed_totals_are_enough():
    assert read(["<5", None, "1-4"])[0].gap_sizes == {"missing": 1, "suppressed": 2}


def test_columns_of_the_same_name_say_nothing_of_totals():
    table = pd.DataFrame({"observed": [3.0, 4.0], STATE: ["missing", "by plane"]})
    assert states_in(table).tolist() == ["observed", "observed"]
    table.loc[0, "observed"] = np.nan
    assert states_in(table).tolist() == ["missing", "observed"]
