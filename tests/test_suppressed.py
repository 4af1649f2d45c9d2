"""Suppressed counts: fits to outputs that are known within bounds, and what follows for cells."""

import re
from copy import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import vbagg
from vbagg import kernels, laws
from vbagg.inference import Gaussian
from vbagg.likelihoods import NegativeBinomial

KERNEL = kernels.RBF() + kernels.White()
RNG = np.random.default_rng(8)
HIDDEN_BELOW = 9.0


def country(sizes=(3, 6, 1, 4, 2, 5, 6, 3, 2, 4, 5, 3, 4, 2, 6, 3)):
    """Uneven bags with counts, many of them small."""
    rng = np.random.default_rng(6)
    n = sum(sizes)
    X = pd.DataFrame({"rain": rng.normal(1.0, 2.0, n), "height": rng.gamma(2.0, 300.0, n)})
    bags = vbagg.Bags(X, np.repeat([f"D{a:02d}" for a in range(len(sizes))], sizes), rng.exponential(2.0, n) + 0.1)
    rate = 1.2 * np.exp(0.5 * np.tanh(bags.X[:, 0] - 1.0))
    y = rng.poisson(bags.sum_by_bag(bags.weight * rate)).astype(float)
    return bags, y


def suppressed(y):
    small = y < HIDDEN_BELOW
    return np.where(small, 0.0, y), np.where(small, HIDDEN_BELOW - 1, np.nan)


def model(likelihood="negative_binomial", **options):
    known = {"kernel": KERNEL, "landmarks": 6, "inference": vbagg.Newton(starts=1), "hyper": "point"}
    return vbagg.VBAgg(likelihood, **(known | options))


@pytest.fixture(scope="module")
def fitted():
    bags, y = country()
    lower, upper = suppressed(y)
    return bags, y, model().fit(bags, lower, upper=upper)


def test_bounds_that_are_outputs_change_nothing():
    bags, y = country()
    exact, given = model().fit(bags, y), model().fit(bags, y, upper=y)
    assert given.elbo_ == exact.elbo_
    np.testing.assert_array_equal(given.posterior(bags).mean, exact.posterior(bags).mean)
    assert given.likelihood_parameters_ == exact.likelihood_parameters_


def test_exact_bags_beside_a_hidden_one_have_the_terms_that_they_have_alone(fitted):
    bags, y, hidden = fitted
    best = hidden._training.fit
    terms = {}
    for name, upper in (("hidden", suppressed(y)[1]), ("exact", None)):
        # the number that a hidden count starts from, so that units are the same
        lower = suppressed(y)[0] if upper is not None else np.where(y < HIDDEN_BELOW, (HIDDEN_BELOW - 1) / 2, y)
        other = model(inference=Stay(best)).fit(bags, lower, upper=upper)
        terms[name] = other.status_.starts
    small = y < HIDDEN_BELOW
    difference = np.array(terms["hidden"]) - np.array(terms["exact"])
    np.testing.assert_allclose(difference[~small], 0.0, atol=1e-9)
    assert (difference[small] > 0.3).all()


class Stay(vbagg.Newton):
    """An inference that stays at the parameters of another fit and tells the terms of bags."""

    def __init__(self, fit):
        super().__init__()
        object.__setattr__(self, "fit", fit)

    def run(self, task):
        found = task.problem.at(self.fit.parameters, self.fit.jitter).evaluate(self.fit.q)
        return replace(self.fit, status=replace(self.fit.status, starts=tuple(found.terms)), spreads=None)


def test_fits_say_which_bags_are_hidden(fitted):
    _, y, hidden = fitted
    number = int(np.sum(y < HIDDEN_BELOW))
    (note,) = [text for text in hidden.status_.notes if "bounds" in text]
    assert note.startswith(f"Of {number} of 16 bags only bounds are known (bags 'D0")
    assert 3 <= number <= 12


def test_bounds_that_say_nothing_are_gaps():
    bags, y = country()
    lower, upper = suppressed(y)
    silent = np.arange(16) % 5 == 1
    lower[silent], upper[silent] = 0.0, np.inf
    ours = model().fit(bags, lower, upper=upper)
    theirs = model().fit(bags, np.where(silent, np.nan, lower), upper=np.where(silent, np.nan, upper))
    assert ours.elbo_ == theirs.elbo_
    np.testing.assert_array_equal(ours.posterior(bags).mean, theirs.posterior(bags).mean)
    assert any("3 of 16 bags have no output" in note for note in ours.status_.notes)


def test_bounds_that_say_next_to_nothing_say_as_much_as_a_gap():
    """At the same parameters and landmarks."""
    bags, y = country()
    wide = np.arange(16) % 5 == 1
    nearly = model().fit(bags, np.where(wide, 0.0, y), upper=np.where(wide, 400.0, np.nan))
    best = nearly._training.fit
    terms = np.array(
        model(inference=Stay(best)).fit(bags, np.where(wide, 0.0, y), upper=np.where(wide, 400.0, y)).status_.starts
    )
    np.testing.assert_allclose(terms[wide], 0.0, atol=1e-4)
    new = nearly.posterior(bags.X)
    inside = wide[bags.bag]
    # the effect of a bag belongs to the cells of observed bags alone
    of_bags = nearly.posterior(bags, bag_effect="reporting")
    np.testing.assert_allclose(of_bags.mean[inside], new.mean[inside], rtol=2e-3)
    np.testing.assert_allclose(of_bags.std[inside], new.std[inside], rtol=5e-3)


def test_totals_of_hidden_bags_lie_within_their_bounds(fitted):
    bags, y, hidden = fitted
    small = y < HIDDEN_BELOW
    totals, new = hidden.posterior_bags(bags), hidden.predictive_bags(bags)
    assert (totals.mean[small] < HIDDEN_BELOW + 3).all()
    np.testing.assert_allclose(totals.mean[~small], y[~small], rtol=0.5)
    lower, upper = suppressed(y)
    inside = np.log(new.cdf(HIDDEN_BELOW - 1))
    np.testing.assert_allclose(new.log_prob(lower, upper)[small], inside[small], rtol=1e-9)
    np.testing.assert_array_equal(new.log_prob(lower, upper)[~small], new.log_prob(y)[~small])
    assert hidden.score(bags, lower, upper=upper) == pytest.approx(np.mean(new.log_prob(lower, upper)), rel=1e-12)


def with_known_weights(model):
    """The same model, its weights known next to exactly: all that is left to learn is of single bags."""
    member = model._fitted.optimum
    member = replace(member, q=Gaussian(member.q.mu, 1e-4 * member.q.factor))
    known = copy(model)
    known._fitted = replace(model._fitted, members=(member,), optimum=member)
    return known


def test_cells_given_bounds_against_simulated_totals_that_are_rejected(fitted):
    """Residuals and the bag's effect from their priors, and counts: draws whose count lies in the bounds are kept."""
    bags, y, hidden = fitted
    model, rng = with_known_weights(hidden), np.random.default_rng(4)
    phi = model.likelihood_parameters_["dispersion"]
    totals, cells = model.posterior_bags(bags), model.posterior(bags)
    moved = []
    for bag in np.flatnonzero(y < HIDDEN_BELOW):
        rows = slice(bags.starts[bag], bags.starts[bag + 1])
        drawn = model.posterior(bags.X[rows]).sample(100_000, seed=int(bag))
        # log-normal, as rates of a bag take it
        drawn = drawn * np.exp(rng.normal(-np.log1p(phi) / 2, np.sqrt(np.log1p(phi)), (len(drawn), 1)))
        total = drawn @ bags.weight[rows]
        kept = rng.poisson(total) < HIDDEN_BELOW
        assert totals.mean[bag] == pytest.approx(total[kept].mean(), rel=0.01)
        assert totals.std[bag] == pytest.approx(total[kept].std(), rel=0.06)
        np.testing.assert_allclose(cells.mean[rows], drawn[kept].mean(axis=0), rtol=0.01)
        moved.append(total[kept].mean() / total.mean())
    assert min(moved) < 0.8
    assert max(moved) > 0.95


def test_the_effect_of_a_bag_given_bounds_by_quadrature():
    """One individual of known weight and no residual: its total is log-normal, its effect a log-normal one too."""
    from vbagg.conditioning import _posterior
    from vbagg.likelihoods.censored import censored
    from vbagg.links import get_link

    lower, upper = np.array([0.0, 3.0, 6.0]), np.array([4.0, 3.0, np.inf])
    made, facts = censored(NegativeBinomial(0.3), lower, upper, np.arange(3), {})
    eta, tau = np.array([1.5, 0.4, 0.9]), np.array([0.5, 0.3, 1.2])
    mean, variance = _posterior(made, get_link("exp"), np.array([2.0, 3.0, 9.0]), eta, tau, facts, {})
    h = np.linspace(-9, 9, 40_001)
    for a in range(3):
        T = np.exp(h)
        law = stats.nbinom(1 / 0.3, 1 / (1 + 0.3 * T))
        likely = law.sf(lower[a] - 1) - (law.sf(upper[a]) if np.isfinite(upper[a]) else 0.0)
        weight = likely * stats.norm.pdf(h, eta[a], np.sqrt(tau[a]))
        weight /= weight.sum()
        assert mean[a] == pytest.approx(weight @ h, abs=1e-4)
        assert variance[a] == pytest.approx(weight @ h**2 - (weight @ h) ** 2, rel=1e-3)


@pytest.mark.parametrize("likelihood", ["normal", "poisson"])
def test_bags_of_one_individual_against_a_dense_grid(likelihood):
    """Two individuals with a known kernel: the posterior of both latent values on a grid."""
    X, y, upper = np.array([[0.0], [0.9]]), np.array([1.0, 3.0]), np.array([np.nan, 7.0])
    kernel = kernels.RBF(variance=0.5, lengthscale=1.0, fixed=("variance", "lengthscale"))
    exact = vbagg.likelihoods.Normal(0.3) if likelihood == "normal" else likelihood
    bags = vbagg.Bags(X, ["a", "b"], [1.0, 1.0])
    fit = model(exact, kernel=kernel, landmarks=X).fit(bags, y, upper=upper)
    spec, frame = fit._fitted.spec, fit._fitted.frame
    scale, sd = frame.rate_scale, spec.feature_map.mean_sd
    distance = (X - X.T) / frame.scaler.scale[0]
    K = 0.5 * np.exp(-(distance**2) / 2) + sd**2
    inverse = np.linalg.inv(K + 1e-9 * np.eye(2))
    reach = 9 if likelihood == "normal" else 4
    grid = np.linspace(-reach, reach, 1601)
    f = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1)
    log_prior = -0.5 * np.einsum("abi,ij,abj->ab", f, inverse, f)
    if likelihood == "normal":
        T = scale * (frame.base + f)
        log_likelihood = stats.norm.logpdf(1.0, T[..., 0], np.sqrt(0.3))
        log_likelihood += np.log(
            stats.norm.cdf(7.0, T[..., 1], np.sqrt(0.3)) - stats.norm.cdf(3.0, T[..., 1], np.sqrt(0.3)) + 1e-300
        )
    else:
        T = scale * np.exp(f)
        log_likelihood = stats.poisson.logpmf(1, T[..., 0])
        log_likelihood += np.log(stats.poisson.cdf(7, T[..., 1]) - stats.poisson.cdf(2, T[..., 1]) + 1e-300)
    weight = np.exp(log_prior + log_likelihood)
    evidence = np.log(weight.sum() * (grid[1] - grid[0]) ** 2) + np.linalg.slogdet(inverse)[1] / 2 - np.log(2 * np.pi)
    weight /= weight.sum()
    mean = np.array([np.sum(weight * f[..., k]) for k in range(2)])
    variance = np.array([np.sum(weight * (f[..., k] - mean[k]) ** 2) for k in range(2)])
    q, used = fit._training.fit.q, fit._training.fit.posterior
    A = np.column_stack([np.full(2, sd), np.linalg.cholesky(K - sd**2 + 1e-12 * np.eye(2))])
    np.testing.assert_allclose(A @ q.mu, mean, atol=0.05)
    # the best Gaussian is narrower than the posterior, and its objective less than the evidence
    of_q, of_used = (np.sum((A @ one.factor) ** 2, axis=1) / variance for one in (q, used))
    assert ((of_q > 0.8) & (of_q < 1.02)).all()
    assert ((of_used > 0.8) & (of_used < 1.25)).all()
    assert evidence - 0.1 < fit.elbo_ < evidence


@pytest.mark.parametrize(("upper", "n"), [pytest.param(4.0, 25, marks=pytest.mark.slow), (30.0, 9)])
def test_counts_that_are_all_below_a_bound_against_a_dense_grid(upper, n):
    """One latent value for all: nothing is told about small rates, and those that would show are ruled out."""
    kernel = kernels.RBF(variance=1e-6, lengthscale=1.0, fixed=("variance", "lengthscale"))
    bags = vbagg.Bags(np.linspace(0.0, 1.0, n)[:, None], np.arange(n), np.full(n, 1.0))
    fit = model("poisson", kernel=kernel, landmarks=1).fit(bags, np.zeros(n), upper=np.full(n, upper))
    frame, sd = fit._fitted.frame, fit._fitted.spec.feature_map.mean_sd
    f = np.linspace(-9 * sd, 4 * sd, 40001)
    T = frame.rate_scale * np.exp(frame.base + f)
    weight = np.exp(stats.norm.logpdf(f, 0, sd) + n * stats.poisson.logcdf(upper, T))
    weight /= weight.sum()
    below = np.cumsum(weight)
    totals = fit.posterior_bags(bags)
    assert totals.quantile(0.95)[0] == pytest.approx(T[np.searchsorted(below, 0.95)], rel=0.6)
    assert stats.poisson.cdf(upper, totals.quantile(0.999)[0]) > 1e-3
    assert totals.mean[0] < upper
    q, used = (np.sum((one.factor) ** 2) for one in (fit._training.fit.q, fit._training.fit.posterior))
    assert used == pytest.approx(q, rel=0.05)


@pytest.mark.parametrize("approximation", ["matched", "montecarlo"])
def test_approximations_agree(approximation, fitted):
    bags, y, hidden = fitted
    lower, upper = suppressed(y)
    other = model(approximation=approximation, inference=Stay(hidden._training.fit)).fit(bags, lower, upper=upper)
    ours = model(inference=Stay(hidden._training.fit)).fit(bags, lower, upper=upper)
    np.testing.assert_allclose(other.status_.starts, ours.status_.starts, atol=0.1)
    assert hidden.elbo_mc_ == pytest.approx(hidden.elbo_, abs=0.5)


@pytest.mark.parametrize("approximation", ["taylor", "bound"])
def test_the_papers_approximations_are_refused(approximation):
    bags, y = country()
    lower, upper = suppressed(y)
    with pytest.raises(
        ValueError, match=rf"`approximation`='{approximation}' does not go with `upper`: .*'montecarlo'"
    ):
        model("poisson", approximation=approximation).fit(bags, lower, upper=upper)


def test_a_saved_model_predicts_the_same(fitted, tmp_path):
    bags, y, hidden = fitted
    hidden.save(tmp_path / "model")
    again = vbagg.load(tmp_path / "model")
    np.testing.assert_array_equal(
        again.posterior(bags).quantile([0.1, 0.9]), hidden.posterior(bags).quantile([0.1, 0.9])
    )
    lower, upper = suppressed(y)
    assert again.score(bags, lower, upper=upper) == hidden.score(bags, lower, upper=upper)
    assert again._fitted.likelihood == hidden._fitted.likelihood


BAD = {
    "upper below y": (lambda y, u: (y, np.where(np.arange(16) == 3, y - 1, u)), r"`upper` must not be less than `y`"),
    "upper alone": (
        lambda y, u: (np.where(np.arange(16) == 3, np.nan, y), np.where(np.arange(16) == 3, 4.0, u)),
        r"`y` must hold the lower bound where `upper` is given; got nan for bag 'D03'\. Give the least",
    ),
    "broken": (
        lambda y, u: (y, np.where(np.arange(16) == 3, y + 2.5, u)),
        r"whole numbers; got .* for bag 'D03'.*Round",
    ),
    "negative": (
        lambda y, u: (np.where(np.arange(16) == 3, -2.0, y), u),
        r"must not be negative; got -2 for bag 'D03'",
    ),
    "minus infinity": (
        lambda y, u: (y, np.where(np.arange(16) == 3, -np.inf, u)),
        r"`upper` must be finite or missing",
    ),
    "length": (lambda y, u: (y, u[:-1]), r"`upper` must hold one number per bag, 16 in all; got 15"),
}


@pytest.mark.parametrize("name", BAD)
def test_bounds_that_cannot_be_are_refused(name):
    bags, y = country()
    change, message = BAD[name]
    lower, upper = change(*suppressed(y))
    with pytest.raises(ValueError, match=message):
        model().fit(bags, lower, upper=upper)


def test_bounds_by_label():
    bags, y = country()
    lower, upper = suppressed(y)
    series = (pd.Series(values, index=bags.labels.tolist()).sample(frac=1, random_state=1) for values in (lower, upper))
    ours = vbagg.BagGLM().fit(bags, *(one for one in [next(series)]), upper=next(series))
    theirs = vbagg.BagGLM().fit(bags, lower, upper=upper)
    np.testing.assert_array_equal(ours.coefficients_, theirs.coefficients_)


def test_baselines_use_the_bounds():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(400, 1))
    bags = vbagg.Bags(X, np.arange(400), rng.uniform(0.5, 2.0, 400))
    y = rng.poisson(4.0 * bags.weight * np.exp(0.4 * bags.X[:, 0])).astype(float)
    lower, upper = np.where(y < 5, 0.0, y), np.where(y < 5, 4.0, np.nan)
    middle = np.where(y < 5, 2.0, y)
    for make in (lambda: vbagg.BagGLM("poisson"), lambda: vbagg.Constant("negative_binomial")):
        full, hidden, filled = make().fit(bags, y), make().fit(bags, lower, upper=upper), make().fit(bags, middle)
        error, error_filled = (np.abs(one.predict(bags) - full.predict(bags)).mean() for one in (hidden, filled))
        assert error < 0.35
        assert error < error_filled
    rates = hidden.bag_rates_ * bags.weight
    assert (rates[y < 5] <= 4.0 + 1e-9).all()
    np.testing.assert_allclose(rates[y >= 5], y[y >= 5])


def test_point_models_use_the_bounds():
    bags, y = country()
    lower, upper = suppressed(y)
    net = vbagg.Nystrom(landmarks=5, inference=vbagg.Adam(epochs=60, learning_rates=(0.03,)))
    totals = {
        "hidden": net.fit(bags, lower, upper=upper).predict(bags),
        "full": net.fit(bags, y).predict(bags),
        "lower": net.fit(bags, lower).predict(bags),
    }
    small = y < HIDDEN_BELOW
    off = {name: np.abs(found - totals["full"])[small].mean() for name, found in totals.items()}
    assert off["hidden"] < off["lower"]


def test_the_page_works_from_beginning_to_end(capsys):
    page = (Path(__file__).parents[1] / "docs" / "gaps-and-suppressed-counts.md").read_text()
    names: dict = {}
    for text in re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        exec(text, names)
    assert "2 of 40 bags have no output" in capsys.readouterr().out
    data, hidden = names["data"], names["hidden"]
    assert len(names["cells"]) == data.bags.n_individuals
    assert hidden.any()
    assert any(f"Of {hidden.sum()} of 40 bags only bounds are known" in note for note in names["model"].status_.notes)


def test_log_probabilities_of_laws_within_bounds():
    law = laws.NegativeBinomial([2.0, 2.0, 2.0, 2.0], [3.0, 3.0, 3.0, 3.0])
    size, mean = 0.0, 0.0
    mean, size = law.mean, law.mean**2 / (law.std**2 - law.mean)
    reference = stats.nbinom(size, size / (size + mean))
    lower, upper = np.array([0.0, 2.0, 60.0, 5.0]), np.array([4.0, np.nan, np.inf, 90.0])
    expected = [reference.cdf(4)[0], reference.pmf(2)[1], reference.sf(59)[2], (reference.sf(4) - reference.sf(90))[3]]
    np.testing.assert_allclose(law.log_prob_within(lower, upper), np.log(expected), rtol=1e-9)
    normal = laws.Normal(np.zeros(3), np.ones(3))
    found = normal.log_prob_within([-9.0, 8.0, 1.0], [-8.0, 9.0, np.inf])
    tail = stats.norm.sf(8.0) - stats.norm.sf(9.0)
    np.testing.assert_allclose(found, np.log([tail, tail, stats.norm.sf(1.0)]), rtol=1e-9)
