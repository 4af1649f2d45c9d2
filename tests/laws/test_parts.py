"""Outputs that are parts of known sums, beside draws and closed forms."""

import numpy as np
import pytest
from scipy import stats

from vbagg.laws.parts import PartOf

NODES = np.array([[2.0, 40.0, 310.0], [3.5, 55.0, 420.0], [7.0, 90.0, 380.0]])
WHOLE = np.array([9.0, 140.0, 1000.0])


def counts():
    mean = NODES.mean(axis=0)
    return PartOf(NODES, mean * (1 - mean / WHOLE), WHOLE)


def test_small_counts_are_mixtures_of_binomials():
    law, k = counts(), np.arange(-1, 11)
    expected = np.mean([stats.binom.cdf(k, 9, t / 9) for t in NODES[:, 0]], axis=0)
    assert law.cdf(k[:, None] * np.ones(3))[:, 0] == pytest.approx(expected, abs=1e-12)
    assert law.exceedance(3.0)[0] == pytest.approx(1 - expected[4], abs=1e-12)


def test_large_counts_are_nearly_mixtures_of_binomials():
    law = counts()
    for row in (1, 2):
        k = np.arange(WHOLE[row] + 1)
        expected = np.mean([stats.binom.cdf(k, int(WHOLE[row]), t / WHOLE[row]) for t in NODES[:, row]], axis=0)
        assert np.abs(law.cdf(k[:, None] * np.ones(3))[:, row] - expected).max() < 0.01


def test_quantiles_and_moments_are_those_of_draws():
    law = counts()
    draws = law.sample(200_000, 3)
    assert law.mean == pytest.approx(draws.mean(axis=0), rel=3e-3)
    assert law.std == pytest.approx(draws.std(axis=0), rel=1e-2)
    for q in (0.05, 0.5, 0.9):
        reached = law.quantile(q)
        assert (law.cdf(reached) >= q - 1e-9).all()
        assert (law.cdf(reached - 1) < q).all()
        assert reached == pytest.approx(np.quantile(draws, q, axis=0), abs=6)


def test_values_are_mixtures_of_normals():
    noise = np.array([4.0, 25.0, 900.0])
    law, x = PartOf(NODES, noise), np.array([[1.0, 60.0, 350.0], [6.5, 20.0, 500.0]])
    expected = np.mean([stats.norm.cdf(x, t, np.sqrt(noise)) for t in NODES], axis=0)
    density = np.mean([stats.norm.pdf(x, t, np.sqrt(noise)) for t in NODES], axis=0)
    assert law.cdf(x) == pytest.approx(expected, abs=1e-12)
    assert law.log_prob(x) == pytest.approx(np.log(density), abs=1e-9)
    assert law.cdf(law.quantile(0.3)) == pytest.approx(np.full(3, 0.3), abs=1e-9)
