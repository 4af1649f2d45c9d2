"""Joint draws of rates and of the outputs that come of them, by `vbagg.models.vbagg.VBAgg.simulate`."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import vbagg
from vbagg.bags import Bags

DRAWS = 3000


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(1)
    label = rng.permutation(np.repeat([f"b{k}" for k in range(20)], rng.integers(2, 9, 20)))
    X = pd.DataFrame({"wet": rng.normal(2.0, 1.5, len(label)), "height": rng.normal(-30.0, 8.0, len(label))})
    bags = Bags(X, label, rng.gamma(2.0, 8.0, len(label)))
    return bags, 0.4 * (bags.X[:, 0] - 2), rng


def totals_of(bags, rates):
    return np.stack([bags.sum_by_bag(bags.weight * row) for row in rates])


@pytest.fixture(scope="module")
def counts(data):
    bags, f, rng = data
    y = rng.poisson(bags.sum_by_bag(bags.weight * np.exp(f)) * rng.gamma(5, 0.2, 20)).astype(float)
    y[7] = np.nan
    return vbagg.VBAgg("negative_binomial", landmarks=8, hyper="point").fit(bags, y)


def test_rates_are_those_of_the_posterior(data, counts):
    bags, _, _ = data
    drawn = counts.simulate(bags, n=DRAWS, seed=2)
    assert drawn.rates.shape == (DRAWS, bags.n_individuals)
    assert drawn.outputs.shape == (DRAWS, len(bags))
    np.testing.assert_array_equal(drawn.rates, counts.posterior(bags).sample(DRAWS, seed=2))


@pytest.mark.parametrize("told", [{}, {"completeness": 0.6}, {"completeness": 0.6, "weight_sd": 0.2}])
def test_outputs_vary_about_their_totals_as_poisson_counts(data, counts, told):
    """The effect of an observed bag is in its rates; that of a bag without an output comes to its new one."""
    bags, _, _ = data
    drawn = counts.simulate(bags, n=DRAWS, seed=4, **told)
    T = told.get("completeness", 1.0) * totals_of(bags, drawn.rates)
    errors = (told.get("weight_sd", 0.0) * T) ** 2
    phi = counts.likelihood_parameters_["dispersion"]
    assert phi > 0.05
    own = (np.arange(20) == 7) * phi * T**2 * (1 + told.get("weight_sd", 0.0) ** 2)
    score = (drawn.outputs - T) / np.sqrt(T + errors + own)
    assert np.abs(score.mean(axis=0)).max() < 4.5 / np.sqrt(DRAWS)
    assert np.abs(score.var(axis=0) - 1).max() < 0.15
    np.testing.assert_array_equal(drawn.outputs, np.round(drawn.outputs))


@pytest.mark.slow
def test_binomial_outputs_are_among_the_trials(data):
    bags, f, rng = data
    trials = rng.integers(5, 60, 20)
    y = rng.binomial(trials, bags.sum_by_bag(bags.weight / (1 + np.exp(-f))) / bags.totals())
    model = vbagg.VBAgg("binomial", landmarks=8, hyper="point").fit(bags, y, trials)
    drawn = model.simulate(bags, trials, n=DRAWS, seed=3)
    p = totals_of(bags, drawn.rates) / bags.totals()
    level = stats.binom.cdf(drawn.outputs - 1, trials, p) + 0.5 * stats.binom.pmf(drawn.outputs, trials, p)
    assert np.abs(level.mean(axis=0) - 0.5).max() < 4.5 * 0.3 / np.sqrt(DRAWS)
    assert (drawn.outputs <= trials).all()


def test_bags_of_the_fit_are_known(data, counts):
    bags, _, _ = data
    np.testing.assert_array_equal(counts.knows(bags), np.arange(20) != 7)
    np.testing.assert_array_equal(counts.knows(bags[[7, 3]]), [False, True])


def test_a_number_of_draws_is_needed(data, counts):
    with pytest.raises(ValueError, match="`n` must be at least 1; got 0"):
        counts.simulate(data[0], n=0)
