"""Numbers that text says."""

import numpy as np
import pytest

from vbagg.geo.responses import number_of


@pytest.mark.parametrize(
    ("said", "number"),
    [("1,234", 1234.0), ("12 345 678", 12345678.0), ("-1'500.5", -1500.5), (" 0.145 ", 0.145), (".5", 0.5)],
)
def test_separators_of_thousands_are_left_out(said, number):
    assert number_of(said) == number


@pytest.mark.parametrize("said", ["0,145", "00,145", "1,23", "1,2345", "1,234 567", "one", ""])
def test_other_separators_say_no_number(said):
    assert np.isnan(number_of(said))
