"""Totals that are not whole numbers, such as averages over imputations: what chance allows is not that of counts."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import vbagg
from vbagg.validate import FoldResult, Validation, cross_validate
from vbagg.validate.bag_scores import bag_scores, pit_ends

REPEATS = 12


class PoissonLaw:
    discrete = True

    def __init__(self, mean):
        self.mean = mean

    def cdf(self, x):
        return stats.poisson.cdf(x, self.mean)

    def quantile(self, levels):
        return np.stack([stats.poisson.ppf(q, self.mean) for q in levels])

    def log_prob(self, y):
        return stats.poisson.logpmf(np.floor(y), self.mean)


def validation(y, law, whole=None):
    table = pd.DataFrame({"model": "m", "fold": 0, "bag": np.arange(len(y)), "y": y, "exposure": 1.0})
    scored = table.assign(**bag_scores(law, y, whole))
    return Validation((FoldResult(0, ("m",), "poisson", len(y), scored),), 1.0)


def shifts(rng, n):
    """Up to one above or below: what an average over a few imputations differs by."""
    return {"down": -rng.uniform(0, 0.9, n), "up": rng.uniform(0, 0.9, n), "half": 0.5 * rng.integers(-1, 2, n)}


@pytest.mark.parametrize("how", ["down", "up", "half"])
def test_right_laws_of_broken_counts_are_not_called_wrong(rng, how):
    """Small counts, most of which lie at the ends of their intervals."""
    judged = []
    for _ in range(REPEATS):
        mean = rng.uniform(0.7, 8, 150)
        y = np.maximum(rng.poisson(mean) + shifts(rng, 150)[how], 0)
        judged += validation(y, PoissonLaw(mean)).coverage()["judgement"].tolist()
    assert np.mean(np.array(judged) == "as expected") > 0.93


def test_wrong_laws_of_broken_counts_are_still_found(rng):
    mean = rng.uniform(60, 300, 150)
    y = np.maximum(rng.poisson(mean * rng.lognormal(0, 0.3, 150)) + 0.4, 0)
    table = validation(y, PoissonLaw(mean)).coverage().set_index("level")
    assert table.loc[0.95, "judgement"] == "too narrow"
    assert table.loc[0.95, "high"] - table.loc[0.95, "low"] < 0.12


def test_whole_counts_have_the_band_they_had(rng):
    mean = rng.uniform(0.7, 8, 90)
    y = rng.poisson(mean).astype(float)
    table = validation(y, PoissonLaw(mean)).table
    for level in (50, 95):
        np.testing.assert_array_equal(table[f"least_mass_{level}"], table[f"mass_{level}"])
    broken = bag_scores(PoissonLaw(mean), y, whole=False)
    assert (broken["least_mass_50"] < broken["mass_50"]).all()


def test_whole_folds_of_broken_counts_have_the_wider_band(rng):
    """Whether counts are whole is a matter of all data: a fold of them alone tells nothing of the others."""
    bags = vbagg.Bags(rng.normal(size=(24, 1)), np.arange(24), rng.uniform(4, 9, 24))
    y = rng.poisson(bags.totals()).astype(float)
    y[:2] += 0.5
    found = cross_validate(vbagg.Constant("poisson"), bags, y, np.repeat([0, 1, 2, 3], 6), baselines=None).table
    assert (found["least_mass_50"] < found["mass_50"]).all()


def test_the_transform_of_a_broken_count_lies_between_those_of_whole_ones():
    law, y = PoissonLaw(np.full(3, 4.3)), np.array([6.0, 6.25, 7.0])
    low, high = pit_ends(law, y)
    np.testing.assert_allclose(low[[0, 2]], stats.poisson.cdf([5, 6], 4.3))
    np.testing.assert_allclose(high[[0, 2]], stats.poisson.cdf([6, 7], 4.3))
    assert low[1] == pytest.approx(0.75 * low[0] + 0.25 * low[2])
    assert high[1] == pytest.approx(0.75 * high[0] + 0.25 * high[2])


def test_transforms_of_broken_counts_are_uniform(rng):
    mean = rng.uniform(0.7, 8, 4000)
    y = np.maximum(rng.poisson(mean) + rng.uniform(-0.5, 0.5, 4000), 0)
    shares = validation(y, PoissonLaw(mean)).pit_histogram(bins=5)["share"]
    np.testing.assert_allclose(shares, 0.2, atol=0.03)
