"""Round numbers that thresholds are chosen among."""

import numpy as np
import pytest

from vbagg.geo.round_grid import round_grid, rounded, roundest


def digits(value):
    return len(f"{abs(value):.10e}".split("e")[0].replace(".", "").rstrip("0"))


@pytest.mark.parametrize(
    ("low", "high", "told"),
    [
        (17.3, 18.2, 18),
        (94, 101, 100),
        (0.0131, 0.0149, 0.014),
        (183, 188, 185),
        (183, 184.9, 184),
        (-3, 2, 0),
        (-18.2, -17.3, -18),
        (0, 7, 5),
        (20, 30, 30),
        (19.99, 20, 20),
    ],
)
def test_the_roundest_number_of_an_interval(low, high, told):
    assert roundest(low, high) == told


@pytest.mark.parametrize(
    ("value", "told"),
    [(29.8, 30), (14.1, 14 + 1), (11.9, 10), (0.0034, 0.003), (96.0, 100), (0.0, 0.0), (-243.0, -200.0), (1.76, 2)],
)
def test_numbers_that_are_easy_to_say(value, told):
    assert rounded(value) == pytest.approx(told, rel=1e-12)


def test_ratios_have_steps_that_grow():
    grid = round_grid(2.0, 150.0, 0.3, 900.0, 200, 15, ratios=True)
    assert (np.diff(grid) > 0).all()
    assert grid.min() >= 0.3
    assert grid.max() <= 900
    inner = grid[(grid >= 2) & (grid <= 150)]
    assert 195 <= len(inner) <= 202
    # two windows at most
    assert np.diff(np.log(inner)).max() < 2 * np.log(75) / 200
    assert set(range(10, 40)) <= set(inner)
    assert {1, 2, 5, 10, 20, 50, 100, 200, 500} <= set(grid)
    assert max(map(digits, grid)) <= 3


def test_differences_go_through_nothing():
    grid = round_grid(-4.0, 9.0, -30.0, 41.0, 130, 10, ratios=False)
    assert {0.0, -3.0, 5.0, 40.0} <= set(grid)
    assert len(grid[(grid > -4) & (grid <= 9)]) == 130
    assert np.diff(grid[(grid > -4) & (grid < 9)]).max() < 0.2


def test_a_narrow_range_is_divided_too():
    """Relative risks that hardly differ."""
    grid = round_grid(0.97, 1.04, 0.3, 3.2, 140, 20, ratios=True)
    inner = grid[(grid >= 0.97) & (grid <= 1.04)]
    assert len(inner) >= 139
    assert {0.98, 1.0, 1.03} <= set(inner)
