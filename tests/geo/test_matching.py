import numpy as np
import pytest
from scipy.optimize import minimize

from vbagg.geo.matching import TotalMatching
from vbagg.geo.observed_totals import Totals


def matched(cover, expected, observed, split=None, most=None):
    cover, expected = np.array(cover, dtype=float), np.array(expected, dtype=float)
    observed = np.array(observed, dtype=float)
    matching = TotalMatching(Totals(observed, observed if most is None else np.array(most, dtype=float)))
    for part in np.array_split(np.arange(len(expected)), split or 1):
        polygon, cell = np.nonzero(cover[:, part])
        matching.add(polygon, cell, cover[:, part][polygon, cell], expected[part])
    factor, miss = matching.solve()
    polygon, cell = np.nonzero(cover)
    counts = expected * matching.of_cells(factor, polygon, cell, cover[polygon, cell], len(expected))
    np.testing.assert_allclose(miss, cover @ counts - matching.totals.exact, atol=1e-9)
    return counts, miss


def test_separate_polygons_are_rescaled():
    counts, miss = matched([[1, 0.5, 0], [0, 0, 0.2]], [2, 4, 10], [8, 1])
    np.testing.assert_allclose(counts, [4, 8, 5], rtol=1e-5)
    np.testing.assert_allclose(miss, 0, atol=1e-4)


def test_no_other_counts_with_these_totals_are_nearer():
    cover = np.array([[1, 0.6, 0, 0.1, 1], [0, 0.4, 1, 0.7, 0], [0.5, 0.5, 0, 0, 1]])
    expected, observed = np.array([3.0, 2, 5, 1, 4]), np.array([14.0, 4, 8])
    counts, _ = matched(cover, expected, observed, split=2)
    np.testing.assert_allclose(cover @ counts, observed, rtol=1e-5)
    whole = cover.sum(axis=0)

    def divergence(logs):
        other = np.exp(logs)
        return whole @ (other * np.log(other / expected) - other + expected)

    best = minimize(
        divergence,
        np.log(expected),
        constraints={"type": "eq", "fun": lambda logs: cover @ np.exp(logs) - observed},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert best.success
    np.testing.assert_allclose(counts, np.exp(best.x), rtol=1e-3)
    assert divergence(np.log(counts)) < divergence(best.x) + 1e-5


def test_a_polygon_that_shares_all_its_cells_is_matched():
    counts, miss = matched([[0.1, 0, 0], [0.9, 1, 1]], [10, 10, 10], [0.05, 40])
    np.testing.assert_allclose(miss, 0, atol=1e-3)
    assert counts[0] == pytest.approx(0.5, rel=1e-3)


def test_nested_polygons_that_agree():
    _, miss = matched([[1, 1, 0], [0, 0, 1], [1, 1, 1]], [1, 3, 5], [8, 2, 10])
    np.testing.assert_allclose(miss, 0, atol=1e-4)


def test_nested_polygons_that_contradict_each_other_meet_between():
    counts, miss = matched([[1, 1], [1, 1]], [30, 10], [100, 120])
    # at the harmonic mean
    np.testing.assert_allclose(counts, 2 / (1 / 100 + 1 / 120) * np.array([0.75, 0.25]), rtol=1e-4)
    assert miss[0] > 0 > miss[1]


def test_a_total_of_zero_empties_all_its_cells():
    counts, miss = matched([[1, 0.5, 0], [0, 0.5, 1]], [2, 4, 6], [0, 9])
    np.testing.assert_allclose(counts, [0, 0, 9], rtol=1e-5)
    np.testing.assert_allclose(miss, 0, atol=1e-4)


def test_cells_of_unknown_totals_stay_as_expected():
    """Those that they share with others are rescaled with these, by half."""
    counts, miss = matched([[1, 0.5, 0], [0, 0.5, 1]], [2, 4, 6], [12, np.nan])
    factor = counts[0] / 2
    assert factor > 1
    np.testing.assert_allclose(counts, [2 * factor, 4 * np.sqrt(factor), 6], rtol=1e-5)
    np.testing.assert_allclose(miss, [0, np.nan], atol=1e-4)


def test_totals_without_people_are_missed():
    counts, miss = matched([[1, 0], [0, 1]], [0, 4], [3, 8])
    np.testing.assert_allclose(counts, [0, 8], rtol=1e-5)
    np.testing.assert_allclose(miss, [-3, 0], atol=1e-4)


def test_totals_within_bounds_are_free_as_long_as_they_lie_there():
    """The nearest of all counts that keep to totals and bounds, by another solver."""
    cover = np.array([[1, 0.7, 0, 0, 0.2], [0, 0.3, 1, 0, 0], [0, 0, 0, 1, 0.3], [0, 0, 0, 0, 0.5]])
    expected = np.array([3.0, 2.0, 5.0, 9.0, 4.0])
    least, most = np.array([9.0, 1.0, 20.0, 0.0]), np.array([9.0, 4.0, np.inf, 3.0])
    counts, _ = matched(cover, expected, least, most=most)
    sums = cover @ counts
    np.testing.assert_allclose(sums[:3], [9, 4, 20], rtol=1e-4)
    assert 0 < sums[3] < 3
    whole = cover.sum(axis=0)

    def divergence(logs):
        other = np.exp(logs)
        return whole @ (other * np.log(other / expected) - other + expected)

    inside = [
        {"type": "eq", "fun": lambda logs: cover[0] @ np.exp(logs) - 9},
        {"type": "ineq", "fun": lambda logs: cover[1:] @ np.exp(logs) - least[1:]},
        {"type": "ineq", "fun": lambda logs: np.array([4.0, 1e3, 3.0]) - cover[1:] @ np.exp(logs)},
    ]
    best = minimize(divergence, np.log(expected), constraints=inside, method="SLSQP", options={"ftol": 1e-11})
    assert best.success
    np.testing.assert_allclose(counts, np.exp(best.x), rtol=1e-3)


def test_a_bound_that_is_missed_at_first_may_hold_back_nothing_at_the_end():
    """The first is above its bound until what it shares with the second is emptied to the bound of that one."""
    counts, _ = matched([[1, 1, 0], [0, 1, 1]], [2.5, 9, 9], [0, 0], most=[6, 4])
    np.testing.assert_allclose(counts, [2.5, 3, 1], rtol=1e-4)  # 9 s + 9 s^2 = 4 for s = 1 / 3
