"""Which keys are the same, and which are nearly so."""

import datetime

import numpy as np
import pandas as pd
import pytest

from vbagg.geo.keys import Candidates, is_date, key_of, oddity


@pytest.mark.parametrize(
    "value", [101, 101.0, np.int32(101), np.float32(101), "101", " 101\u00a0", "101.0", "\ufeff101"]
)
def test_numbers_and_text(value):
    assert key_of(value) == "101"


@pytest.mark.parametrize(
    ("value", "key"),
    [
        ("0101", "0101"),
        ("0101.0", "0101"),
        ("101.5", "101.5"),
        (101.5, "101.5"),
        ("1.0.0", "1.0.0"),
        ("Bobo \t Dioulasso ", "Bobo Dioulasso"),
        ("E\u0301vry", "Évry"),
        ("evry", "evry"),
        (2.0**60, str(2**60)),
        ("NA", "NA"),
        *((nothing, "") for nothing in ("", "  ", None, np.nan, pd.NA, pd.NaT)),
    ],
)
def test_keys(value, key):
    assert key_of(value) == key


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("7", "'007' but for leading zeros"),
        ("évry", "'Évry' but for capitals"),
        ("EVRY", "'Évry' but for capitals and accents"),
        ("Saint Denis", "'Saint-Denis' but for spaces and marks"),
        ("Saint-Dennis", "'Saint-Denis'?"),
        ("Ã‰vry", "'Évry' in another encoding"),
        ("NuÃ±oa", "'Nuñoa' in another encoding"),
        ("008", None),
        ("1071", None),
        ("Paris", None),
    ],
)
def test_near_misses(key, told):
    assert Candidates(["007", "107", "Évry", "Saint-Denis", "Nuñoa"]).like(key) == told


@pytest.mark.parametrize(
    ("key", "told"),
    [
        *((key, "totals") for key in ("Total", "TOTAL GENERAL", "Sub-total", "Grand total", "Summe", "合计")),
        *((key, "shortened") for key in ("1.01E+07", "1,01e7")),
        *((key, "date") for key in ("01-Mar", "Mar-19", "2019-03-01", "3/1/2019", "1-2")),
        *((key, None) for key in ("Totalville", "D01", "10101918", "Sept-Îles", "Marsabit", "")),
    ],
)
def test_oddities(key, told):
    found = oddity(key)
    assert found is None if told is None else told in found


def test_dates():
    assert is_date(datetime.date(2026, 1, 2))
    assert is_date(pd.Timestamp("2026-01-02"))
    assert not is_date("2026-01-02")
