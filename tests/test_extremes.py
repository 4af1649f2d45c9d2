"""Unusual but legitimate data: the fit ends, and what it says is finite and sensible."""

from __future__ import annotations

import numpy as np
import pytest

import vbagg
from vbagg import kernels

N_BAGS, SIZE = 12, 5
LABELS = np.repeat(np.arange(N_BAGS), SIZE)


def toy():
    """Twelve bags of five rows; the first covariate moves the rate."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(N_BAGS * SIZE, 2)) + 1.5 * rng.normal(size=(N_BAGS, 2))[LABELS]
    weight = rng.uniform(0.5, 2.0, len(X))
    rate = 4.0 * np.exp(0.6 * X[:, 0])
    return X, weight, rate


def totals(values, labels=LABELS):
    return np.bincount(labels, values)


def outputs(weight, rate, labels=LABELS):
    return np.random.default_rng(8).poisson(totals(weight * rate, labels)).astype(float)


def fit(bags, y, link="square", **options):
    options = {"kernel": kernels.RBF(), "landmarks": 6, "inference": vbagg.Newton(starts=1), "hyper": "point"} | options
    return vbagg.VBAgg("poisson", link, **options).fit(bags, y)


def assert_sensible(model, bags, y, relative_error=0.35):
    """Finite posteriors, ordered quantiles, and totals near the outputs in the middle of the bags."""
    assert model.status_.converged
    assert np.isfinite(model.elbo_)
    for law in (model.posterior(bags.X), model.posterior_bags(bags), model.predictive_bags(bags)):
        assert np.all(np.isfinite(law.mean))
        assert np.all(law.mean >= 0)
        assert np.all(np.isfinite(law.std) & (law.std > 0))
        lower, upper = law.interval(0.9)
        assert np.all(np.isfinite(lower) & np.isfinite(upper) & (lower >= 0) & (lower <= upper))
    assert np.isfinite(model.score(bags, y))
    error = np.abs(model.predict(bags) - y) / (y + np.sqrt(y + 1))
    assert np.median(error) < relative_error
    assert np.sum(model.predict(bags)) == pytest.approx(y.sum(), rel=0.2)


def correlation(model, X, rate):
    return np.corrcoef(np.log(model.posterior(X).mean), np.log(rate))[0, 1]


@pytest.mark.parametrize("link", ["square", "exp"])
def test_ordinary_data_for_comparison(link):
    X, weight, rate = toy()
    bags, y = vbagg.Bags(X, LABELS, weight), outputs(weight, rate)
    model = fit(bags, y, link)
    assert_sensible(model, bags, y)
    assert correlation(model, X, rate) > 0.7
    assert np.all(np.isfinite(model.posterior_bags(bags).sample(16)))


def test_one_feature():
    X, weight, rate = toy()
    bags, y = vbagg.Bags(X[:, 0], LABELS, weight), outputs(weight, rate)
    model = fit(bags, y, "exp")
    assert_sensible(model, bags, y)
    assert correlation(model, X[:, 0], rate) > 0.9


def test_one_individual_per_bag():
    X, weight, rate = toy()
    X, weight, rate, labels = X[::SIZE], weight[::SIZE], rate[::SIZE], np.arange(N_BAGS)
    bags, y = vbagg.Bags(X, labels, weight), outputs(weight, rate, labels)
    assert_sensible(fit(bags, y, "exp"), bags, y)


@pytest.mark.parametrize("link", ["square", "exp"])
def test_weights_over_twelve_orders_of_magnitude(link):
    X, _, rate = toy()
    weight = 10.0 ** np.random.default_rng(3).uniform(-6, 6, len(X))
    weight[[0, 1]] = 1e-6, 1e6
    rate = 1e-3 * rate
    bags, y = vbagg.Bags(X, LABELS, weight), outputs(weight, rate)
    model = fit(bags, y, link)
    assert_sensible(model, bags, y)
    heavy = weight > 1e5
    ratio = model.posterior(X[heavy]).mean / rate[heavy]
    assert np.exp(np.mean(np.log(ratio))) == pytest.approx(1.0, rel=0.5)


@pytest.mark.parametrize(
    ("most", "link"),
    [(1e4, "exp"), (1e7, "square"), (1e7, "exp")],
)
def test_many_cases(most, link):
    X, weight, rate = toy()
    rate = rate * most / totals(weight * rate).max()
    bags, y = vbagg.Bags(X, LABELS, weight), outputs(weight, rate)
    assert y.max() > 0.9 * most
    model = fit(bags, y, link)
    assert_sensible(model, bags, y, relative_error=0.2)
    relative = model.posterior_bags(bags).std / model.predict(bags)
    assert np.all(relative > 0.1 / np.sqrt(y))
    assert np.all(relative < 0.05)


def test_huge_covariates_are_standardised():
    X, weight, rate = toy()
    y = outputs(weight, rate)
    plain = vbagg.Bags(X, LABELS, weight)
    moved = vbagg.Bags(X * 1e6 + 1e6, LABELS, weight)
    one, other = fit(plain, y), fit(moved, y)
    assert_sensible(other, moved, y)
    np.testing.assert_allclose(other.predict(moved), one.predict(plain), rtol=1e-3)
    np.testing.assert_allclose(other.posterior(moved.X).std, one.posterior(plain.X).std, rtol=1e-2)


def test_small_spread_far_from_zero():
    """Calendar years, projected coordinates: the spread is a millionth of the values."""
    X, weight, rate = toy()
    y = outputs(weight, rate)
    plain = vbagg.Bags(X, LABELS, weight)
    far = vbagg.Bags(X + 1e6, LABELS, weight)
    one, other = fit(plain, y), fit(far, y)
    np.testing.assert_allclose(other.predict(far), one.predict(plain), rtol=1e-3)


@pytest.mark.parametrize("link", ["square", "exp"])
def test_no_cases_at_all(link):
    X, weight, _ = toy()
    bags = vbagg.Bags(X, LABELS, weight)
    model = fit(bags, np.zeros(N_BAGS), link)
    assert model.status_.converged
    post, new = model.posterior(X), model.predictive_bags(bags)
    assert np.all(np.isfinite(post.mean) & np.isfinite(post.std) & (post.mean >= 0))
    upper = post.interval(0.9)[1]
    # three cases among all would have been a surprise
    assert np.all(upper * weight.sum() < 30)
    assert np.all(new.mean < 1)
    assert np.all(np.exp(new.log_prob(np.zeros(N_BAGS))) > 0.5)


def test_a_bag_of_thousands_beside_single_individuals():
    rng = np.random.default_rng(4)
    labels = np.concatenate([np.zeros(2000, int), np.arange(1, N_BAGS)])
    X = rng.normal(size=(len(labels), 2))
    weight = rng.uniform(0.5, 2.0, len(labels))
    rate = 4.0 * np.exp(0.6 * X[:, 0])
    bags, y = vbagg.Bags(X, labels, weight), outputs(weight, rate, labels)
    model = fit(bags, y, "exp")
    assert_sensible(model, bags, y, relative_error=0.6)
    assert model.predict(bags)[0] == pytest.approx(y[0], rel=0.1)


def test_one_individual_in_several_bags():
    """Catchments that overlap: each bag also holds the rows of the next one, at a third of their weight."""
    X, weight, rate = toy()
    rows = np.tile(np.arange(len(X)), 2)
    labels = np.concatenate([LABELS, (LABELS - 1) % N_BAGS])
    share = np.repeat([2 / 3, 1 / 3], len(X)) * weight[rows]
    bags, y = vbagg.Bags(X[rows], labels, share), outputs(share, rate[rows], labels)
    model = fit(bags, y, "exp")
    assert_sensible(model, bags, y)
    assert correlation(model, X, rate) > 0.6


def test_duplicate_rows_are_heavier_rows():
    X, weight, rate = toy()
    y = outputs(weight, rate)
    twice = vbagg.Bags(np.repeat(X, 2, axis=0), np.repeat(LABELS, 2), np.repeat(weight / 2, 2))
    once = vbagg.Bags(X, LABELS, weight)
    one, other = fit(once, y, "exp"), fit(twice, y, "exp")
    assert_sensible(other, twice, y)
    assert other.elbo_ == pytest.approx(one.elbo_, abs=0.02)
    np.testing.assert_allclose(other.posterior(X).mean, one.posterior(X).mean, rtol=0.02)
    np.testing.assert_allclose(other.posterior(X).std, one.posterior(X).std, rtol=0.02)
