import numpy as np
import pytest

from vbagg.geo.bounds import are_possible, bounds_of, in_words, marks_of


@pytest.mark.parametrize(
    ("text", "bounds"),
    [
        ("<5", (0, 4)),
        (" < 5 ", (0, 4)),
        ("<1,000", (0, 999)),
        ("<1", (0, 0)),
        ("<=10", (0, 10)),
        ("=<10", (0, 10)),
        ("≤ 10", (0, 10)),
        (">=100", (100, np.inf)),
        ("≥100", (100, np.inf)),
        (">100", (101, np.inf)),
        ("100+", (100, np.inf)),
        ("1 200 +", (1200, np.inf)),
        ("1-4", (1, 4)),
        ("1 - 4", (1, 4)),
        ("1 to 4", (1, 4)),
        ("1TO4", (1, 4)),
        *((f"3{dash}17", (3, 17)) for dash in "\u2010\u2011\u2012\u2013\u2014\u2212"),
        ("1,000\u20132,499", (1000, 2499)),
        ("1 000 to 2\u202f499", (1000, 2499)),
        ("7-7", (7, 7)),
    ],
)
def test_every_way_to_write_bounds(text, bounds):
    assert bounds_of(text) == bounds
    assert are_possible(bounds)


@pytest.mark.parametrize(
    "text", ["5", "", "*", "few", "-5", "1-", "to", "<", "< few", "2026-01-04", "1-4-9", "1,5-2,5"]
)
def test_other_text_says_no_bounds(text):
    assert bounds_of(text) is None


@pytest.mark.parametrize("text", ["5-1", "<0", "<5.5", "0.5-3", "1-3.5", ">=0.2"])
def test_bounds_that_no_count_can_have(text):
    assert not are_possible(bounds_of(text))


def test_bounds_in_words():
    assert [in_words((1, 4)), in_words((100, np.inf))] == ["1 to 4", "100 or more"]


@pytest.mark.parametrize(
    ("given", "marks"),
    [
        ((), {}),
        (["1-4"], {"*": (1, 4)}),
        ("<=10", {"*": (0, 10)}),
        (["c=<10", "-=1-4", "x y = 5 to 9"], {"c": (0, 9), "-": (1, 4), "x y": (5, 9)}),
        (["1-4", "*=1-4"], {"*": (1, 4)}),
    ],
)
def test_marks(given, marks):
    assert marks_of(given) == marks


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["5"], "must say bounds of whole numbers, the lower first, .*; got '5'"),
        (["c=few"], "got 'c=few'"),
        (["c="], "got 'c='"),
        (["5-1"], "got '5-1'"),
        (["c=1-3.5"], "got 'c=1-3.5'"),
        (["NA=1-4"], "no other value; 'NA' is a missing total"),
        (["=1-4"], "'' is a missing total"),
        (["99=1-4"], "'99' is a number, or bounds"),
        (["1-4", "*=1-9"], r"once what '\*' stands for"),
    ],
)
def test_marks_that_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        marks_of(given)
