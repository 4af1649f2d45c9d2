"""Scores against formulas written out, with uneven weights, with and without uncertainty and known rates."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from known_model import KnownModel
from scipy import stats

import vbagg
from vbagg.bags import Bags
from vbagg.experiments.scores import bag_scores, individual_scores, plug_in_nll, training_rates
from vbagg.experiments.splits import Observed, Truth

LEVELS = (0.70, 0.75, 0.80, 0.85, 0.90, 0.95)


@pytest.fixture
def uneven(rng):
    """Bags of different sizes with different weights, their rows in no order, and named columns with coordinates."""
    table = pd.DataFrame(rng.normal(size=(60, 3)), columns=["risk", "x", "y"])
    bag = np.r_[np.arange(11), rng.integers(0, 11, 49)]
    return Bags(table, [f"B{number}" for number in rng.permutation(bag)], rng.uniform(0.5, 8.0, 60))


def totals(model: KnownModel, bags: Bags) -> np.ndarray:
    result = np.zeros(len(bags))
    for row in range(bags.n_individuals):
        result[bags.bag[row]] += bags.weight[row] * model.level * np.exp(bags.X[row, 0] / 4)
    return result


def squares(bags: Bags) -> np.ndarray:
    return np.array([sum(w**2 for w, at in zip(bags.weight, bags.bag, strict=True) if at == a) for a in range(11)])


def test_plug_in_nll_of_each_likelihood(uneven, rng):
    counts = Observed(uneven, rng.poisson(12.0, 11).astype(float))
    model = KnownModel(0.6)
    expected = totals(model, uneven)
    assert plug_in_nll(model, counts) == pytest.approx(-stats.poisson.logpmf(counts.y, expected).mean(), rel=1e-12)

    model.likelihood_parameters_ = {"tau": 0.7}
    reference = -stats.norm.logpdf(counts.y, expected, np.sqrt(0.7 * squares(uneven))).mean()
    assert plug_in_nll(model, counts) == pytest.approx(reference, rel=1e-12)

    model.likelihood_parameters_ = {"dispersion": 0.4}
    reference = -stats.nbinom.logpmf(counts.y, 1 / 0.4, 1 / (1 + 0.4 * expected)).mean()
    assert plug_in_nll(model, counts) == pytest.approx(reference, rel=1e-12)


def test_bag_scores_of_counts_leave_zeros_out_of_the_logarithms(uneven, rng):
    y = rng.poisson(9.0, 11).astype(float)
    y[[2, 7]] = 0.0
    model = KnownModel(0.6, spread=0.5)
    expected = totals(model, uneven)
    scores = bag_scores(model, Observed(uneven, y))
    assert set(scores) == {"bag_nll", "bag_mse", "bag_log_density", "bag_log_mse"}
    assert scores["bag_nll"] == pytest.approx(-stats.poisson.logpmf(y, expected).mean(), rel=1e-12)
    assert scores["bag_mse"] == pytest.approx(np.mean([(a - b) ** 2 for a, b in zip(y, expected, strict=True)]))
    assert scores["bag_log_density"] == model.score(uneven, y)
    logs = [(np.log(a) - np.log(b)) ** 2 for a, b in zip(y, expected, strict=True) if a > 0]
    assert len(logs) == 9
    assert scores["bag_log_mse"] == pytest.approx(np.mean(logs))


def test_bag_scores_of_negative_outputs_have_no_logarithm(uneven, rng):
    model = KnownModel(0.6, tau=0.7)
    y = rng.normal(size=11)
    scores = bag_scores(model, Observed(uneven, y))
    assert set(scores) == {"bag_nll", "bag_mse", "bag_log_density"}
    deviation = np.sqrt(0.7 * squares(uneven))
    assert scores["bag_nll"] == pytest.approx(-stats.norm.logpdf(y, totals(model, uneven), deviation).mean())


def outputs(model: KnownModel, bags: Bags, rng) -> tuple[np.ndarray, np.ndarray]:
    """Rates as the model expects them to scatter, and outputs of individuals around them."""
    mean, spread = model.rates(bags.X), model.spread or 0.3
    rate = rng.gamma(spread**-2, mean * spread**2)
    if "tau" in model.likelihood_parameters_:
        return rate, rng.normal(bags.weight * rate, bags.weight * np.sqrt(model.likelihood_parameters_["tau"]))
    return rate, rng.poisson(bags.weight * rate).astype(float)


def interval_of(model: KnownModel, bags: Bags, known: bool, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Central interval of the rate, or of the output, of each individual."""
    mean, weight = model.rates(bags.X), bags.weight
    variance, ends = (model.spread * mean) ** 2, np.array([[(1 - level) / 2], [(1 + level) / 2]])
    if "tau" in model.likelihood_parameters_:
        tau = model.likelihood_parameters_["tau"]
        law = (
            stats.norm(mean, np.sqrt(variance))
            if known
            else stats.norm(weight * mean, weight * (variance + tau) ** 0.5)
        )
    else:
        shape = mean**2 / variance
        law = stats.gamma(shape, scale=mean / shape) if known else stats.nbinom(shape, shape / (shape + weight * mean))
    lower, upper = law.ppf(ends)
    return lower, upper


@pytest.mark.parametrize("noise", [{}, {"tau": 0.7}], ids=["poisson", "normal"])
@pytest.mark.parametrize("known", [True, False], ids=["rates known", "outputs alone"])
def test_individual_scores_of_uncertain_models(uneven, rng, noise, known):
    model = KnownModel(2.0, spread=0.4, **noise)
    rate, y = outputs(model, uneven, rng)
    scores = individual_scores(model, Observed(uneven, np.ones(11)), Truth(rate if known else None, y))

    mean, weight = model.rates(uneven.X), uneven.weight
    logs = stats.norm.logpdf(y, weight * mean, weight * 0.7**0.5) if noise else stats.poisson.logpmf(y, weight * mean)
    target, expected = (rate, mean) if known else (y, weight * mean)
    reference = {"individual_nll": -logs.mean(), "individual_mse": np.mean((target - expected) ** 2)}
    for level in LEVELS:
        lower, upper = interval_of(model, uneven, known, level)
        inside = [a <= t <= b for a, t, b in zip(lower, target, upper, strict=True)]
        reference[f"coverage_{100 * level:.0f}"] = np.mean(inside)
    shares = [reference[f"coverage_{100 * level:.0f}"] for level in LEVELS]
    assert 0.4 < shares[0] < shares[-1] <= 1
    reference["coverage_error"] = np.mean([abs(share - level) for share, level in zip(shares, LEVELS, strict=True)])
    lower, upper = interval_of(model, uneven, known, 0.9)
    missed = np.maximum(lower - target, 0) + np.maximum(target - upper, 0)
    reference["interval_score_90"] = np.mean(upper - lower + 20 * missed)
    assert scores == pytest.approx(reference, rel=1e-7)
    assert all(type(value) is float for value in scores.values())


def test_coverage_of_outputs_asks_for_each_individual_as_a_bag(uneven, rng):
    model = KnownModel(2.0, spread=0.4, tau=0.7)
    individual_scores(model, Observed(uneven, np.ones(11)), Truth(None, outputs(model, uneven, rng)[1]))
    [asked] = model.asked
    assert asked.sizes.tolist() == [1] * 60
    np.testing.assert_array_equal(asked.X, uneven.X)
    np.testing.assert_array_equal(asked.weight, uneven.weight)
    assert (asked.feature_names, asked.coordinates) == (("risk", "x", "y"), (1, 2))


@pytest.mark.parametrize("noise", [{}, {"tau": 0.7}], ids=["poisson", "normal"])
@pytest.mark.parametrize("known", [True, False], ids=["rates known", "outputs alone"])
def test_models_without_uncertainty_have_no_coverage(uneven, rng, noise, known):
    model = KnownModel(2.0, **noise)
    rate, y = outputs(model, uneven, rng)
    scores = individual_scores(model, Observed(uneven, np.ones(11)), Truth(rate if known else None, y))
    target, expected = (rate, model.rates(uneven.X)) if known else (y, uneven.weight * model.rates(uneven.X))
    assert set(scores) == {"individual_nll", "individual_mse"}
    assert scores["individual_mse"] == pytest.approx(np.mean((target - expected) ** 2))
    assert not model.asked


def test_without_outputs_of_individuals_there_is_no_nll(uneven):
    model = KnownModel(2.0, spread=0.4)
    scores = individual_scores(model, Observed(uneven, np.ones(11)), Truth(1.1 * model.rates(uneven.X), None))
    assert "individual_nll" not in scores
    assert scores["individual_mse"] == pytest.approx(np.mean((0.1 * model.rates(uneven.X)) ** 2))
    assert scores["coverage_90"] == 1.0


def test_the_constant_model_gives_individuals_the_rates_of_their_bags(uneven, rng):
    y = rng.poisson(np.linspace(5, 90, 11)).astype(float)
    rate, model = rng.gamma(2.0, 1.0, 60), vbagg.Constant("poisson").fit(uneven, y)
    scores = individual_scores(model, Observed(uneven, y), Truth(rate, rng.poisson(4.0, 60).astype(float)))
    weight_of_bag = np.zeros(11)
    for at, weight in zip(uneven.bag, uneven.weight, strict=True):
        weight_of_bag[at] += weight
    own = (y / weight_of_bag)[uneven.bag]
    np.testing.assert_allclose(training_rates(model, uneven).mean, own)
    assert scores["individual_mse"] == pytest.approx(np.mean((rate - own) ** 2))
    assert set(scores) == {"individual_nll", "individual_mse"}
    unseen = bag_scores(model, Observed(uneven, y))
    assert unseen["bag_mse"] == pytest.approx(np.mean((y - y.sum() / weight_of_bag.sum() * weight_of_bag) ** 2))
