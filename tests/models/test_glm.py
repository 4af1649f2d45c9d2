"""The bag-level GLM: fits against likelihoods written as loops, its laws by quadrature, and what it refuses."""

from __future__ import annotations

from math import exp, lgamma, log, log1p

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.stats import binom, nbinom, norm, poisson
from sklearn.base import clone
from sklearn.model_selection import KFold, cross_val_score

import vbagg
from vbagg import likelihoods, metrics
from vbagg.errors import DataWarning, NotFittedError
from vbagg.models.glm import BagGLM

TRUTH = np.array([-1.2, 0.8, -0.004])


def country(n_bags=40, seed=3, constant_within=False):
    """Bags of 1 to 6 individuals with unequal weights; rain varies within bags, height has another unit."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 7, n_bags)
    bag = np.repeat([f"D{a:02d}" for a in range(n_bags)], sizes)
    centres = rng.normal([2.0, 300.0], [0.7, 120.0], (n_bags, 2))
    spread = 0.0 if constant_within else 1.0
    X = np.repeat(centres, sizes, axis=0) + spread * rng.normal(0, [0.4, 50.0], (len(bag), 2))
    bags = vbagg.Bags(pd.DataFrame(X, columns=["rain", "height"]), bag, rng.uniform(5, 60, len(bag)))
    return bags, rng


def means_by_loop(bags):
    means, totals = [], []
    for a in range(len(bags)):
        rows = range(bags.starts[a], bags.starts[a + 1])
        total = sum(bags.weight[i] for i in rows)
        totals.append(total)
        means.append([1.0, *(sum(bags.weight[i] * bags.X[i, j] for i in rows) / total for j in range(2))])
    return np.array(means), np.array(totals)


def negative_binomials(bags, rng, dispersion=0.3):
    Z, w = means_by_loop(bags)
    return rng.poisson(w * np.exp(Z @ TRUTH) * rng.gamma(1 / dispersion, dispersion, len(w))).astype(float)


def best(loss, start, scale):
    """Minimiser in scaled parameters, polished by a second run."""
    found = minimize(lambda u: loss(start + scale * u), np.zeros(len(start)), method="BFGS", options={"gtol": 1e-7})
    found = minimize(lambda u: loss(start + scale * u), found.x, method="Nelder-Mead", options={"fatol": 1e-12})
    return start + scale * found.x


# Fits


def test_negative_binomial_is_the_maximum_of_a_likelihood_written_as_a_loop():
    bags, rng = country()
    y = negative_binomials(bags, rng)
    Z, w = means_by_loop(bags)

    def loss(theta):
        phi, total = exp(theta[3]), 0.0
        for a in range(len(y)):
            mu = w[a] * exp(float(Z[a] @ theta[:3]))
            total -= lgamma(y[a] + 1 / phi) - lgamma(1 / phi) - lgamma(y[a] + 1)
            total -= y[a] * log(phi * mu) - (y[a] + 1 / phi) * log1p(phi * mu)
        return total

    model = BagGLM("negative_binomial").fit(bags, y)
    table = model.coefficients_
    assert table.index.tolist() == ["intercept", "rain", "height"]
    expected = best(loss, np.array([-1.0, 0.5, -0.003, -1.0]), np.array([1.0, 0.5, 0.003, 0.5]))
    assert np.all(np.abs(table["estimate"] - expected[:3]) < 0.01 * table["std_error"])
    phi = model.likelihood_parameters_["dispersion"]
    assert phi == pytest.approx(exp(expected[3]), rel=1e-3)
    information = np.zeros((3, 3))
    for a in range(len(y)):
        mu = w[a] * exp(float(Z[a] @ expected[:3]))
        information += mu / (1 + phi * mu) * np.outer(Z[a], Z[a])
    np.testing.assert_allclose(table["std_error"], np.sqrt(np.diag(np.linalg.inv(information))), rtol=2e-3)
    assert np.all(np.abs(table["estimate"] - TRUTH) < 3 * table["std_error"])


def test_poisson_and_binomial_satisfy_their_score_equations():
    """With canonical links `sum (y - E y) x = 0` at the maximum, ridge aside."""
    bags, rng = country()
    Z, w = means_by_loop(bags)
    eta = Z @ TRUTH
    trials = rng.integers(5, 90, len(w)).astype(float)
    cases = {
        "poisson": (rng.poisson(w * np.exp(eta)).astype(float), None),
        "binomial": (rng.binomial(trials.astype(int), 1 / (1 + np.exp(-eta))).astype(float), trials),
    }
    for name, (y, n) in cases.items():
        model = BagGLM(name).fit(bags, y, trials=n)
        table = model.coefficients_
        rate = np.exp(Z @ table["estimate"])
        fitted = w * rate if n is None else n * rate / (1 + rate)
        weight = fitted if n is None else fitted * (1 - fitted / n)
        information = (Z.T * weight) @ Z
        newton_step = np.linalg.solve(information, Z.T @ (y - fitted))
        assert np.all(np.abs(newton_step) < 0.005 * table["std_error"]), name
        np.testing.assert_allclose(table["std_error"], np.sqrt(np.diag(np.linalg.inv(information))), rtol=1e-3)
        np.testing.assert_allclose(model.predict(bags, trials=n), fitted, rtol=0.05)
        assert np.all(np.abs(table["estimate"] - TRUTH) < 3.5 * table["std_error"]), name


def test_normal_is_weighted_least_squares():
    bags, rng = country()
    Z, w = means_by_loop(bags)
    squares = bags.sum_by_bag(bags.weight**2)
    y = w * (Z @ [4.0, -0.8, 0.01]) + rng.normal(0, np.sqrt(0.6 * squares))
    A = w[:, None] * Z / np.sqrt(squares)[:, None]
    b = y / np.sqrt(squares)
    beta, rss, *_ = np.linalg.lstsq(A, b)
    tau = rss[0] / (len(y) - 3)
    covariance = tau * np.linalg.inv(A.T @ A)
    model = BagGLM("normal").fit(bags, y)
    table = model.coefficients_
    np.testing.assert_allclose(table["estimate"], beta, rtol=2e-3)
    np.testing.assert_allclose(table["std_error"], np.sqrt(np.diag(covariance)), rtol=2e-3)
    assert model.likelihood_parameters_["tau"] == pytest.approx(tau, rel=1e-3)
    law = model.predictive_bags(bags)
    spread = np.sqrt(w**2 * np.einsum("ai,ij,aj->a", Z, covariance, Z) + tau * squares)
    np.testing.assert_allclose(law.std, spread, rtol=2e-3)
    np.testing.assert_allclose(law.cdf(y), norm.cdf(y, w * (Z @ beta), spread), atol=2e-3)


def test_known_noise_is_not_learnt():
    bags, rng = country()
    y = negative_binomials(bags, rng)
    assert BagGLM(likelihoods.NegativeBinomial(dispersion=0.5)).fit(bags, y).likelihood_parameters_ == {}
    known = BagGLM(likelihoods.Normal(tau=pd.Series(np.linspace(1.0, 3.0, 40), index=bags.labels[::-1])))
    known.fit(bags, y)
    assert known.likelihood_parameters_ == {}
    squares = bags.weight_squares() * np.linspace(3.0, 1.0, 40)
    noise = known.predictive_bags(bags).std ** 2 - known.posterior_bags(bags).std ** 2
    np.testing.assert_allclose(noise, squares, rtol=1e-9)


def test_exponential_outputs():
    bags, rng = country(200)
    Z, w = means_by_loop(bags)
    y = rng.exponential(w * np.exp(Z @ TRUTH))
    model = BagGLM("exponential").fit(bags, y)
    ratio = y / model.predict(bags)
    table = model.coefficients_
    np.testing.assert_allclose(Z.T @ (y / (w * np.exp(Z @ table["estimate"])) - 1) / Z.sum(axis=0), 0, atol=1e-4)
    assert 0.9 < ratio.mean() < 1.02
    np.testing.assert_allclose(table["std_error"], np.sqrt(np.diag(np.linalg.inv(Z.T @ Z))), rtol=1e-3)


def test_dispersion_vanishes_for_counts_without_it():
    bags, _ = country()
    Z, w = means_by_loop(bags)
    y = np.round(w * np.exp(Z @ TRUTH))
    model = BagGLM("negative_binomial").fit(bags, y)
    assert model.likelihood_parameters_["dispersion"] < 1e-4
    plain = BagGLM("poisson").fit(bags, y)
    np.testing.assert_allclose(model.predict(bags), plain.predict(bags), rtol=1e-4)


# Laws


def test_predictive_law_averages_over_the_coefficients():
    bags, rng = country(12)
    Z, w = means_by_loop(bags)
    y = rng.poisson(0.05 * w * np.exp(Z @ TRUTH)).astype(float)
    model = BagGLM("poisson").fit(bags, y)
    fitted = model._fitted
    centre, scale = Z[:, 1:].mean(axis=0), Z[:, 1:].std(axis=0)
    S = np.column_stack([np.ones(12), (Z[:, 1:] - centre) / scale])
    eta = np.log(w) + S @ fitted.coefficients + np.log(y.sum() / w.sum())
    sd = np.sqrt(np.diag(S @ fitted.covariance @ S.T))
    np.testing.assert_allclose(model.posterior_bags(bags).mean, np.exp(eta + sd**2 / 2), rtol=1e-9)
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = weights / weights.sum()
    law = model.predictive_bags(bags)
    for a in range(12):
        rates = np.exp(eta[a] + sd[a] * nodes)
        assert law.log_prob(y)[a] == pytest.approx(log(weights @ poisson.pmf(y[a], rates)), rel=1e-6)
        assert law.cdf(y)[a] == pytest.approx(weights @ poisson.cdf(y[a], rates), rel=1e-6)
    assert np.all(law.std > 1.02 * np.sqrt(law.mean))


def test_draws_agree_with_the_laws_and_their_covariance():
    bags, rng = country(25)
    y = negative_binomials(bags, rng)
    bags = bags.with_arrays(bags.X + bags.X[:, :1] * [0.0, 400.0])  # correlated columns, correlated coefficients
    model = BagGLM("negative_binomial").fit(bags, y)
    totals, outputs = model.posterior_bags(bags), model.predictive_bags(bags)
    draws = totals.sample(20000, seed=1)
    np.testing.assert_allclose(draws.mean(axis=0), totals.mean, rtol=0.02)
    expected = totals.covariance()
    np.testing.assert_allclose(np.diag(expected), totals.std**2, rtol=1e-12)
    unit = np.outer(totals.std, totals.std)
    np.testing.assert_allclose(np.cov(draws.T) / unit, expected / unit, atol=0.06)
    assert np.abs(expected / unit - np.eye(25)).max() > 0.5
    np.testing.assert_allclose(outputs.sample(20000, seed=2).std(axis=0), outputs.std, rtol=0.06)
    rates = model.posterior(pd.DataFrame({"rain": [1.0, 2.5], "height": [100.0, 400.0]}))
    np.testing.assert_allclose(rates.sample(20000, seed=3).std(axis=0), rates.std, rtol=0.05)


def test_new_bags_fall_into_intervals_as_often_as_stated():
    bags, rng = country(400, seed=8)
    y = negative_binomials(bags, rng)
    train, test = np.arange(30), np.arange(30, 400)
    model = BagGLM("negative_binomial").fit(bags[train], y[train])
    law, truth = model.predictive_bags(bags[test]), y[test]
    assert metrics.coverage(truth, *law.interval(0.9)) == pytest.approx(0.9, abs=0.06)
    constant = vbagg.Constant("negative_binomial").fit(bags[train], y[train])
    assert model.score(bags[test], truth) > constant.score(bags[test], truth) + 0.1


def test_individuals_follow_the_linear_predictor_and_need_not_add_up():
    bags, rng = country()
    y = negative_binomials(bags, rng)
    model = BagGLM("negative_binomial").fit(bags, y)
    intercept, rain, height = model.coefficients_["estimate"]
    rates = model.posterior(bags.X)
    np.testing.assert_allclose(rates.quantile(0.5), np.exp(intercept + bags.X @ [rain, height]), rtol=1e-9)
    assert np.all(rates.mean > rates.quantile(0.5))
    sums, totals = bags.sum_by_bag(bags.weight * rates.quantile(0.5)), model.posterior_bags(bags).quantile(0.5)
    several = bags.sizes > 1
    np.testing.assert_allclose(sums[~several], totals[~several], rtol=1e-9)
    assert np.all(sums[several] > totals[several])  # a mean of exponentials exceeds the exponential of the mean
    even, _ = country(constant_within=True)
    flat = BagGLM("negative_binomial").fit(even, y)
    sums = even.sum_by_bag(even.weight * flat.posterior(even.X).quantile(0.5))
    np.testing.assert_allclose(sums, flat.posterior_bags(even).quantile(0.5), rtol=1e-9)


# Invariances


def test_order_zero_weights_and_units_change_nothing():
    bags, rng = country()
    y = pd.Series(negative_binomials(bags, rng), index=bags.labels)
    reference = BagGLM("negative_binomial").fit(bags, y).predictive_bags(bags)
    rows = np.random.default_rng(0).permutation(bags.n_individuals)
    X = np.vstack([bags.X[rows], [[99.0, 1e6]] * 3]) * [1000.0, 0.1] + [5.0, -7.0]
    label = np.append(bags.labels[bags.bag[rows]], ["D01", "D07", "D30"])
    other = vbagg.Bags(pd.DataFrame(X, columns=["rain", "height"]), label, np.append(bags.weight[rows], [0, 0, 0]))
    law = BagGLM("negative_binomial").fit(other, y).predictive_bags(other)
    position = [other.labels.tolist().index(label) for label in bags.labels]
    np.testing.assert_allclose(law.mean[position], reference.mean, rtol=1e-6)
    np.testing.assert_allclose(law.std[position], reference.std, rtol=1e-6)
    assert position != sorted(position)


def test_an_offset_multiplies_the_weights_of_the_log_link():
    bags, rng = country(constant_within=True)
    y = negative_binomials(bags, rng)
    offset = rng.normal(0.3, 0.8, bags.n_individuals)
    with_offset = BagGLM("poisson").fit(bags, y, offset=offset)
    weighted = bags.with_arrays(weight=bags.weight * np.exp(offset))
    expected = BagGLM("poisson").fit(weighted, y)
    np.testing.assert_allclose(with_offset.predict(bags, offset=offset), expected.predict(weighted), rtol=1e-5)
    assert np.ptp(with_offset.predict(bags, offset=offset) / with_offset.predict(bags)) > 0.5


def test_an_offset_shifts_the_mean_of_the_identity_link():
    bags, rng = country()
    y = negative_binomials(bags, rng)
    offset = rng.normal(2.0, 1.0, bags.n_individuals)
    shifted = y + bags.sum_by_bag(bags.weight * offset)
    model = BagGLM("normal", ridge=1e-9).fit(bags, shifted, offset=offset)
    plain = BagGLM("normal", ridge=1e-9).fit(bags, y)
    np.testing.assert_allclose(
        model.predict(bags, offset=offset) - plain.predict(bags), shifted - y, rtol=1e-6, atol=1e-5
    )


# Coordinates


def placed(n_bags=30):
    bags, rng = country(n_bags)
    X = pd.DataFrame(bags.X, columns=["rain", "height"]).assign(x=rng.normal(size=bags.n_individuals))
    X["y"] = rng.normal(size=bags.n_individuals)
    return vbagg.Bags(X, bags.labels[bags.bag], bags.weight), negative_binomials(bags, rng)


@pytest.mark.parametrize(
    ("coordinates", "terms"),
    [(None, ["rain", "height"]), (False, ["rain", "height"]), (True, ["rain", "height", "x", "y"])],
)
def test_coordinates_enter_on_demand(coordinates, terms):
    bags, y = placed()
    model = BagGLM("negative_binomial", coordinates=coordinates).fit(bags, y)
    assert model.coefficients_.index.tolist() == ["intercept", *terms]
    moved = pd.DataFrame(bags.X, columns=list(bags.feature_names)).assign(x=5.0)
    changes = np.abs(model.posterior(moved).mean / model.posterior(moved.assign(x=0.0)).mean - 1)
    assert (changes.max() > 1e-3) == (coordinates is True)


def test_coordinates_alone_make_a_trend():
    bags, y = placed()
    alone = vbagg.Bags(pd.DataFrame(bags.X[:, 2:], columns=["x", "y"]), bags.labels[bags.bag], bags.weight)
    assert BagGLM().fit(alone, y).coefficients_.index.tolist() == ["intercept", "x", "y"]
    assert BagGLM(coordinates=False).fit(alone, y).coefficients_.index.tolist() == ["intercept"]


# Hard data


def test_collinear_columns_predict_as_one():
    bags, rng = country()
    y = negative_binomials(bags, rng)
    X = np.column_stack([bags.X, bags.X @ [2.0, 0.01]])
    tripled = vbagg.Bags(X, bags.labels[bags.bag], bags.weight)
    for likelihood in ("negative_binomial", "poisson", "normal"):
        plain, model = BagGLM(likelihood).fit(bags, y), BagGLM(likelihood).fit(tripled, y)
        np.testing.assert_allclose(model.predict(tripled), plain.predict(bags), rtol=0.01)
        errors = model.coefficients_["per_sd_std_error"]
        assert np.all(np.isfinite(errors))
        assert errors.iloc[1] > 5 * plain.coefficients_["per_sd_std_error"].iloc[1]


def test_separated_outputs_stay_finite():
    bags, _ = country(20, constant_within=True)
    wet = means_by_loop(bags)[0][:, 1] > 2.0
    trials = np.full(20, 9.0)
    model = BagGLM("binomial").fit(bags, np.where(wet, 9.0, 0.0), trials=trials)
    share = model.predict(bags, trials=trials) / 9
    assert np.all(np.isfinite(model.coefficients_.to_numpy()))
    assert share[wet].min() > 0.8 > 0.2 > share[~wet].max()
    zeros = BagGLM("poisson").fit(bags, np.zeros(20))
    assert np.all(zeros.predictive_bags(bags).quantile(0.5) == 0)
    assert np.all(np.isfinite(zeros.predict(bags)))


def test_a_perfect_fit_keeps_a_little_noise():
    bags, _ = country(constant_within=True)
    Z, w = means_by_loop(bags)
    for beta in ([4.0, -0.8, 0.01], [4.0, 0.0, 0.0]):
        y = w * (Z @ beta)
        model = BagGLM("normal").fit(bags, y)
        np.testing.assert_allclose(model.predict(bags), y, rtol=1e-4)
        assert np.all(model.predictive_bags(bags).std > 0)


def test_large_counts():
    bags, rng = country()
    Z, w = means_by_loop(bags)
    y = rng.poisson(1e6 * w * np.exp(Z @ TRUTH)).astype(float)
    table = BagGLM("poisson").fit(bags, y).coefficients_
    assert np.all(np.abs(table["estimate"] - TRUTH - [log(1e6), 0, 0]) < 4 * table["std_error"])
    assert np.all(table["std_error"] < [1e-3, 1e-3, 1e-5])


# Refusals


def test_what_it_refuses():
    bags, rng = country()
    y = negative_binomials(bags, rng)
    with pytest.raises(ValueError, match=r"`ridge` must be positive; got 0\."):
        BagGLM(ridge=0).fit(bags, y)
    with pytest.raises(ValueError, match=r"more bags than coefficients; got 3 bags for an intercept and 2 columns"):
        BagGLM().fit(bags[:3], y[:3])
    with pytest.raises(ValueError, match=r"`likelihood` must be one of .*; got 'gamma'"):
        BagGLM("gamma").fit(bags, y)
    with pytest.raises(ValueError, match="needs `trials`"):
        BagGLM("binomial").fit(bags, y)
    with pytest.raises(ValueError, match="must not be negative"):
        BagGLM().fit(bags, -y)
    centred = bags.with_arrays(bags.X - (means_by_loop(bags)[0][:, 1:] * [0, 1])[bags.bag])
    with pytest.raises(ValueError, match=r"column 'height' has the same mean in all of them \(1 such columns\)"):
        BagGLM().fit(centred, y)
    with pytest.raises(NotFittedError, match="This BagGLM is not fitted yet"):
        BagGLM().predict(bags)
    model = BagGLM().fit(bags, y)
    with pytest.raises(ValueError, match="fitted with 2 columns"):
        model.posterior(bags.X[:, :1])
    far = bags.with_arrays(np.where(bags.bag[:, None] == 0, 1e9, bags.X))
    with pytest.raises(ValueError, match=r"cannot predict bag 'D00' \(1 such bags\): its covariates lie too far"):
        model.predictive_bags(far)


def test_fractional_counts_warn_once():
    bags, rng = country()
    with pytest.warns(DataWarning, match="not whole numbers") as caught:
        BagGLM().fit(bags, negative_binomials(bags, rng) + 0.5)
    assert len(caught) == 1


# The contract of estimators


def test_it_is_an_estimator_over_bags():
    bags, rng = country()
    y = negative_binomials(bags, rng)
    model = BagGLM("exponential", ridge=0.02)
    assert list(model.get_params()) == ["likelihood", "coordinates", "ridge"]
    assert (model.link, BagGLM("normal").link, BagGLM("binomial").link) == ("exp", "identity", "logistic")
    assert repr(clone(model)) == "BagGLM(likelihood='exponential', ridge=0.02)"
    folds = KFold(3)
    expected = [clone(model).fit(bags[a], y[a]).score(bags[b], y[b]) for a, b in folds.split(y)]
    np.testing.assert_array_equal(cross_val_score(model, bags, y, cv=folds), expected)
    assert len(set(expected)) == 3


def test_saved_and_read_again(tmp_path, monkeypatch):
    bags, rng = country()
    model = BagGLM("negative_binomial").fit(bags, negative_binomials(bags, rng))
    model.save(tmp_path / "glm.vbagg")
    again = vbagg.load(tmp_path / "glm.vbagg")
    np.testing.assert_array_equal(again.predictive_bags(bags).mean, model.predictive_bags(bags).mean)
    pd.testing.assert_frame_equal(again.coefficients_, model.coefficients_)


def test_binomial_law_of_many_trials():
    bags, rng = country(60)
    Z, _ = means_by_loop(bags)
    trials = rng.integers(20, 200, 60).astype(float)
    y = rng.binomial(trials.astype(int), 1 / (1 + np.exp(-(Z @ TRUTH)))).astype(float)
    model = BagGLM("binomial").fit(bags, y, trials=trials)
    law = model.predictive_bags(bags, trials=trials)
    p = model.posterior_bags(bags).mean
    assert np.all(law.std > binom.std(trials, p))
    np.testing.assert_allclose(law.mean, trials * p, rtol=1e-9)
    assert model.score(bags, y, trials=trials) > np.mean(binom.logpmf(y, trials, y.sum() / trials.sum()))


def test_negative_binomial_law_has_the_moments_of_both_uncertainties():
    bags, rng = country(15)
    model = BagGLM("negative_binomial").fit(bags, negative_binomials(bags, rng))
    phi, totals = model.likelihood_parameters_["dispersion"], model.posterior_bags(bags)
    law = model.predictive_bags(bags)
    noise = nbinom.var(1 / phi, 1 / (1 + phi * totals.mean))
    np.testing.assert_allclose(law.std**2, noise + (1 + phi) * totals.std**2, rtol=1e-9)
