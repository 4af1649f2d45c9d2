"""Individuals of training bags given their bag's own output, MATH (14).

For the Normal all of it is exact: the Gaussian process whose residuals are independent between bags (PITC), here in
dense NumPy. Counts are compared with importance sampling over the residuals and the bag's effect, the weights known.
"""

import gc
import pickle
import warnings
from dataclasses import replace
from itertools import pairwise

import jax
import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.linalg import block_diag
from test_moments import FEATURE_MAP, JITTER, make_example

import vbagg
from vbagg.bags import Bags
from vbagg.chunks import EXACT_LIMIT
from vbagg.conditioning import _posterior, condition, moments, observe, within_bags
from vbagg.elbo import Parameters, Spec
from vbagg.errors import DataWarning
from vbagg.features import features, make_basis, residual_block
from vbagg.likelihoods import BetaBinomial, Binomial, Exponential, NegativeBinomial, Poisson
from vbagg.likelihoods.reported import reported
from vbagg.links import get_link

SIZES = (3, 6, 2, 5, 4, 1, 6, 2, 3, 5, 4, 6)


@pytest.fixture(scope="module")
def data():
    """Bags with rows in mixed order, one of zero weight, and a smooth function of two columns."""
    rng = np.random.default_rng(0)
    label = rng.permutation(np.repeat(list("kbdaicgfhejl"), SIZES))
    X = rng.normal([2.0, -30.0], [1.5, 8.0], (len(label), 2))
    weight = rng.gamma(2.0, 0.5, len(label))
    weight[np.flatnonzero(label == "b")[1]] = 0.0
    bags = Bags(X, label, weight)
    f = np.sin(1.3 * bags.X[:, 0]) + (bags.X[:, 1] + 30) / 8
    return bags, f, rng


@pytest.fixture(scope="module")
def normal(data):
    bags, f, _ = data
    y = bags.sum_by_bag(bags.weight * (2 + f)) + np.random.default_rng(1).normal(0, 0.3, len(bags))
    kernel = vbagg.kernels.RBF() + vbagg.kernels.White()
    return vbagg.VBAgg("normal", "identity", kernel=kernel, landmarks=5, hyper="point").fit(bags, y), y


@pytest.fixture(scope="module")
def counts(data):
    """Poisson counts with much left to the residual, and the negative binomial's with an effect of each bag."""
    bags, f, _ = data
    rng = np.random.default_rng(2)
    T = bags.sum_by_bag(bags.weight * 6 * np.exp(0.7 * f))
    kernel = vbagg.kernels.RBF(lengthscale=0.5, fixed="lengthscale") + vbagg.kernels.White()
    options = {"link": "exp", "kernel": kernel, "landmarks": 4, "hyper": "point"}
    y = rng.poisson(T * rng.gamma(1 / 0.3, 0.3, len(T)))
    known = NegativeBinomial(0.3)
    return {
        "poisson": vbagg.VBAgg("poisson", **options).fit(bags, rng.poisson(T)),
        "negative_binomial": vbagg.VBAgg(known, **options).fit(bags, y),
    }


class Pitc:
    """Posterior of a fitted Normal model with dense matrices, in the units of the user."""

    def __init__(self, model, bags, y):
        member, frame = model._fitted.members[0], model._fitted.frame
        n, scale = bags.n_individuals, frame.rate_scale
        with jax.enable_x64(True):
            X = frame.scaler.forward(bags.X)
            A = np.asarray(features(member.spec.feature_map, member.basis, X))
            R = [
                np.asarray(residual_block(member.spec.feature_map, member.basis, X[a:b], A[a:b]))
                for a, b in pairwise(bags.starts)
            ]
        self.W = (np.arange(len(bags))[:, None] == bags.bag) * bags.weight
        noise = model.likelihood_parameters_["tau"] * bags.weight_squares()
        self.K = scale**2 * (A @ A.T + block_diag(*R))
        self.white = scale**2 * member.white
        self.base = scale * frame.base
        S = self.W @ self.K @ self.W.T + np.diag(noise)
        self.solved = np.linalg.solve(S, y - self.W @ np.full(n, self.base))
        self.S = S

    def posterior(self, white=0.0):
        """Mean and covariance of all individuals, `white` of the variance of each left out."""
        K = self.K - white * np.eye(len(self.K))
        cross = K @ self.W.T
        return self.base + cross @ self.solved, K - cross @ np.linalg.solve(self.S, cross.T)


def test_individuals_of_normal_bags_have_the_exact_posterior(data, normal):
    bags, _, _ = data
    model, y = normal
    mean, covariance = Pitc(model, bags, y).posterior()
    found = model.posterior(bags)
    assert (bags.weight == 0).sum() == 1
    np.testing.assert_allclose(found.mean, mean, atol=1e-4 * mean.std())
    np.testing.assert_allclose(found.std, np.sqrt(np.diag(covariance)), rtol=1e-4)
    # without the bag's own output they are less certain
    certainty = model.posterior(bags.X).std / found.std
    assert certainty.min() > 0.9
    assert np.median(certainty) > 1.01


def test_totals_of_normal_bags_have_the_exact_posterior(data, normal):
    bags, _, _ = data
    model, y = normal
    exact = Pitc(model, bags, y)
    mean, covariance = exact.posterior()
    expected = exact.W @ covariance @ exact.W.T
    found = model.posterior_bags(bags)
    np.testing.assert_allclose(found.mean, exact.W @ mean, rtol=1e-4)
    np.testing.assert_allclose(found.std, np.sqrt(np.diag(expected)), rtol=1e-3)
    np.testing.assert_allclose(found.covariance(), expected, atol=1e-3 * expected.max())
    np.testing.assert_allclose(found.mean, bags.sum_by_bag(bags.weight * model.posterior(bags).mean), rtol=1e-4)


def test_draws_of_normal_individuals_have_the_exact_covariance(data, normal):
    bags, _, _ = data
    model, y = normal
    mean, covariance = Pitc(model, bags, y).posterior()
    n = 20_000
    draws = model.posterior(bags).sample(n, seed=4)
    assert (np.abs(draws.mean(axis=0) - mean) < 5 * np.sqrt(np.diag(covariance) / n)).all()
    sd = np.sqrt(np.diag(covariance))
    error = np.cov(draws.T) / np.outer(sd, sd) - covariance / np.outer(sd, sd)
    assert np.abs(error).max() < 5 * np.sqrt(2 / n)
    off_diagonal = covariance / np.outer(sd, sd) - np.eye(len(sd))
    assert np.abs(off_diagonal).max() > 0.3


def test_smooth_leaves_the_individual_effect_out(data, normal):
    """Its posterior is that of the rest, and the total still says something of it."""
    bags, _, _ = data
    model, y = normal
    exact = Pitc(model, bags, y)
    assert exact.white > 0
    mean, covariance = exact.posterior(exact.white)
    found = model.posterior(bags, smooth=True)
    np.testing.assert_allclose(found.mean, mean, atol=1e-4 * mean.std())
    np.testing.assert_allclose(found.std, np.sqrt(np.diag(covariance)), rtol=1e-3)
    assert np.median(found.std / model.posterior(bags).std) < 1
    # rows outside of all bags
    apart, smooth = model.posterior(bags.X), model.posterior(bags.X, smooth=True)
    np.testing.assert_allclose(apart.std**2 - smooth.std**2, exact.white, rtol=1e-3)


def test_draws_of_cells_add_up_to_the_posterior_of_totals(data, normal, counts):
    """In distribution: every marginal, and correlations between bags."""
    bags, _, _ = data
    for model in (normal[0], counts["poisson"], counts["negative_binomial"]):
        totals = model.posterior_bags(bags)
        draws = model.posterior(bags).sample(4000, seed=2)
        added = np.stack([bags.sum_by_bag(bags.weight * row) for row in draws])
        for a in range(len(bags)):
            levels = totals.cdf(np.repeat(added[:, [a]], len(bags), axis=1))[:, a]
            assert stats.kstest(levels, "uniform").pvalue > 1e-5
        between = np.corrcoef(added.T) - np.corrcoef(totals.sample(4000, seed=9).T)
        assert np.abs(between).max() < 0.12


# counts, the weights known: importance sampling


LIKELIHOODS = {
    "poisson": (Poisson(), {}),
    "negative_binomial": (NegativeBinomial(), {"dispersion": np.log(0.2)}),
}


def tight_state(example, likelihood, link, p, y, risk, residual="exact", white=0.0, facts=None):
    """Mean and variance of the latent values given the outputs, weights all but known, and the state of the bags."""
    spec = Spec(FEATURE_MAP, likelihood, get_link(link), "matched")
    basis = make_basis(FEATURE_MAP, example.kernel, example.landmarks, (JITTER,) * 3)
    chunks = replace(example, y=y).chunks(residual, facts=facts)
    parameters = Parameters(example.kernel, p, example.landmarks)
    found = moments(spec, basis, example.mu, 1e-4 * np.eye(len(example.mu)), chunks)
    state = observe(spec, found, y, facts or {}, parameters, risk)
    bag = np.repeat(np.arange(len(y)), [len(w) for w, *_ in example.latent])
    return *condition(found, state, bag, white)[:2], state


def importance_sampled(example, link, y, log_density, effect=None, n=400_000):
    """Posterior mean and sd of each row's `f` (with the bag's effect) and of each bag's total."""
    rng, rows, totals = np.random.default_rng(6), [], []
    rate = {"exp": np.exp, "square": np.square, "logistic": lambda f: 1 / (1 + np.exp(-f))}[link]
    for a, (w, m, S, low, _) in enumerate(example.latent):
        values, vectors = np.linalg.eigh(S - low)
        f = m + rng.standard_normal((n, len(m))) @ (vectors * np.sqrt(np.maximum(values, 0.0))).T
        if effect is not None:
            f = effect(f, rng)
        T = rate(f) @ w
        log_weight = log_density(y[a], T)
        weight = np.exp(log_weight - log_weight.max())
        weight /= weight.sum()
        assert 1 / np.sum(weight**2) > 1000
        mean = weight @ f
        rows.append(np.stack([mean, np.sqrt(weight @ (f - mean) ** 2)]))
        total = weight @ T
        totals.append((total, np.sqrt(weight @ (T - total) ** 2)))
    return np.concatenate(rows, axis=1), np.array(totals).T


@pytest.fixture(scope="module")
def example():
    """Latent sd of the residual about one half, totals of about ten."""
    made = make_example(sizes=(3, 6, 2, 4, 5), seed=11)
    kernel = tuple({**part, "variance": part["variance"] + np.log(0.35)} for part in made.kernel)
    return replace(made, kernel=kernel, known=made.known + 1.0)


def outputs(example, link):
    """Counts on both sides of what the weights expect."""
    rate = {"exp": np.exp, "square": np.square}[link]
    T = np.array([w @ rate(m) for w, m, *_ in example.latent])
    return np.round(T * np.array([1.5, 0.7, 1.0, 1.4, 0.7]))


@pytest.mark.parametrize("link", ["exp", "square"])
def test_poisson_individuals_match_importance_sampling(x64, example, link):
    y = outputs(example, link)
    tight = replace(example, factor=1e-4 * np.eye(len(example.mu)))
    mean, variance, state = tight_state(tight, Poisson(), link, {}, y, risk=True)
    rows, totals = importance_sampled(tight, link, y, lambda y, T: stats.poisson.logpmf(y, T))
    prior = np.sqrt(np.concatenate([np.diag(S) for _, _, S, _, _ in tight.latent]))
    unmoved = np.concatenate([m for _, m, *_ in tight.latent])
    # in units of the prior's sd, where outputs move individuals by up to one of them
    assert np.abs((rows[0] - unmoved) / prior).max() > 0.5
    assert np.abs((mean - rows[0]) / prior).max() < 0.1
    np.testing.assert_allclose(np.sqrt(variance), rows[1], rtol=0.12)
    law = get_link(link).rate_law(state.mean, np.sqrt(state.total_variance))
    np.testing.assert_allclose(law.mean, totals[0], rtol=0.04)
    np.testing.assert_allclose(law.std, totals[1], rtol=0.1)


def test_negative_binomial_effect_is_part_of_the_risk_or_not(x64, example):
    """`risk`: a gamma factor of all rates of the bag; `reporting`: noise of the output."""
    tight, phi = replace(example, factor=1e-4 * np.eye(len(example.mu))), 0.2
    likelihood, p = LIKELIHOODS["negative_binomial"]
    y = outputs(tight, "exp")
    prior = np.sqrt(np.concatenate([np.diag(S) for _, _, S, _, _ in tight.latent]))

    def with_effect(f, rng):
        return f + np.log(rng.gamma(1 / phi, phi, (len(f), 1)))

    found = {}
    for risk, effect, density in (
        (True, with_effect, lambda y, T: stats.poisson.logpmf(y, T)),
        (False, None, lambda y, T: stats.nbinom.logpmf(y, 1 / phi, 1 / (1 + phi * T))),
    ):
        mean, variance, _ = tight_state(tight, likelihood, "exp", p, y, risk)
        rows, _ = importance_sampled(tight, "exp", y, density, effect)
        # a gamma effect taken as log-normal
        assert np.abs((mean - rows[0]) / prior).max() < 0.12
        np.testing.assert_allclose(np.sqrt(variance), rows[1], rtol=0.15)
        found[risk] = mean
    assert np.abs((found[True] - found[False]) / prior).max() > 0.3


@pytest.mark.parametrize("error", ["gamma", "log-normal"])
def test_individuals_among_uncertain_people_match_importance_sampling(x64, example, error):
    """An error of the people is drawn with each total, and is not part of it."""
    tight = replace(example, factor=1e-4 * np.eye(len(example.mu)))
    prior = np.sqrt(np.concatenate([np.diag(S) for _, _, S, _, _ in tight.latent]))
    share, rho = np.array([0.5, 0.9, 0.6, 1.0, 0.75]), np.array([0.16, 0.01, 0.25, 0.09, 0.04])
    y = np.round(outputs(tight, "exp") * share)
    rng, order = np.random.default_rng(9), iter(zip(share, rho, strict=True))

    def density(y, T):
        c, r = next(order)
        sd = np.sqrt(np.log1p(r))
        drawn = rng.gamma(1 / r, r, len(T)) if error == "gamma" else rng.lognormal(-(sd**2) / 2, sd, len(T))
        return stats.poisson.logpmf(y, c * T * drawn)

    rows, totals = importance_sampled(tight, "exp", y, density)
    told = {"completeness": share, "exposure_spread": rho}
    mean, variance, state = tight_state(tight, reported(Poisson(), told), "exp", {}, y, True, facts=told)
    assert np.abs((mean - rows[0]) / prior).max() < 0.1
    np.testing.assert_allclose(np.sqrt(variance), rows[1], rtol=0.12)
    law = get_link("exp").rate_law(state.mean, np.sqrt(state.total_variance))
    np.testing.assert_allclose(law.mean, totals[0], rtol=0.04)
    np.testing.assert_allclose(law.std, totals[1], rtol=0.1)
    certain = tight_state(
        tight, reported(Poisson(), {"completeness": share}), "exp", {}, y, True, facts={"completeness": share}
    )
    assert (variance > certain[1]).all()
    assert (state.variance > 1.05 * certain[2].variance)[rho > 0.05].all()


def test_exponential_and_binomial_individuals_match_importance_sampling(x64, example):
    tight = replace(example, factor=1e-4 * np.eye(len(example.mu)))
    prior = np.sqrt(np.concatenate([np.diag(S) for _, _, S, _, _ in tight.latent]))
    y = outputs(tight, "exp") + 0.5
    mean, variance, _ = tight_state(tight, Exponential(), "exp", {}, y, risk=True)
    rows, _ = importance_sampled(tight, "exp", y, lambda y, T: stats.expon.logpdf(y, scale=T))
    assert np.abs((mean - rows[0]) / prior).max() < 0.1
    np.testing.assert_allclose(np.sqrt(variance), rows[1], rtol=0.1)
    # probabilities: weights of a bag add up to one
    shares = tight.bags.weight / tight.bags.totals()[tight.bags.bag]
    tight = replace(tight, bags=Bags(tight.bags.X, tight.bags.bag, shares), known=tight.known - 2.0)
    trials, y = np.array([20.0, 35.0, 12.0, 50.0, 28.0]), np.array([9.0, 3.0, 5.0, 30.0, 2.0])
    density = {n: (lambda y, T, n=n: stats.binom.logpmf(y, int(n), T)) for n in trials}
    order = iter(trials)
    rows, totals = importance_sampled(tight, "logistic", y, lambda y, T: density[next(order)](y, T))
    mean, variance, state = tight_state(tight, Binomial(), "logistic", {}, y, True, facts={"trials": trials})
    assert np.abs((mean - rows[0]) / prior).max() < 0.12
    np.testing.assert_allclose(np.sqrt(variance), rows[1], rtol=0.12)
    law = get_link("logistic").rate_law(state.mean, np.sqrt(state.total_variance))
    np.testing.assert_allclose(law.mean, totals[0], rtol=0.05)


def test_certain_positives_are_no_trouble(x64, example):
    """All of the trials positive and a latent sd of four: the grid reaches where probabilities round to one."""
    kernel = tuple({**part, "variance": part["variance"] + np.log(40)} for part in example.kernel)
    shares = example.bags.weight / example.bags.totals()[example.bags.bag]
    wide = replace(example, kernel=kernel, bags=Bags(example.bags.X, example.bags.bag, shares))
    trials = np.array([20.0, 35.0, 12.0, 50.0, 28.0])
    for likelihood, p in ((Binomial(), {}), (BetaBinomial(), {"correlation_odds": np.log(0.1)})):
        for y in (trials, 0 * trials):
            mean, variance, _ = tight_state(wide, likelihood, "logistic", p, y, True, facts={"trials": trials})
            assert np.isfinite(mean).all()
            assert (variance >= 0).all()


@pytest.mark.parametrize(
    ("likelihood", "link", "y", "log_density"),
    [
        (Poisson(), "exp", 1000.0, lambda h: stats.poisson.logpmf(1000, np.exp(h))),
        (Poisson(), "exp", 0.0, lambda h: -np.exp(h)),
        (Poisson(), "square", 4e6, lambda h: stats.poisson.logpmf(4e6, h**2)),
        (Exponential(), "exp", 0.003, lambda h: -0.003 * np.exp(-h) - h),
        (Binomial(), "logistic", 30.0, lambda h: stats.binom.logpmf(30, 30, 1 / (1 + np.exp(-h)))),
        (Binomial(), "logistic", 2.0, lambda h: stats.binom.logpmf(2, 30, 1 / (1 + np.exp(-h)))),
    ],
)
@pytest.mark.parametrize("sd", [1e-3, 0.02, 0.5, 4.0])
def test_totals_given_their_output_match_quadrature(x64, likelihood, link, y, log_density, sd):
    """Also where the output is hundreds of sd from what the weights expect, or says far more than they do."""
    eta = 1.3
    mean, variance = _posterior(
        likelihood, get_link(link), np.array([y]), np.array([eta]), np.array([sd**2]), {"trials": np.array([30.0])}, {}
    )

    def log_posterior(h):
        return log_density(h) - 0.5 * ((h - eta) / sd) ** 2

    reach = 2200 if link == "square" else 12
    coarse = eta + np.concatenate([np.linspace(-12, 12, 4001) * sd, np.linspace(-12, reach, 400_001)])
    if link == "square":
        coarse = coarse[coarse > 0]
    peak = coarse[np.argmax(log_posterior(coarse))]
    step = 1e-4 * max(abs(peak), 1.0)
    for _ in range(60):  # Newton's steps to the mode, whose curvature gives the width
        slope = (log_posterior(peak + step) - log_posterior(peak - step)) / (2 * step)
        curvature = -(log_posterior(peak + step) - 2 * log_posterior(peak) + log_posterior(peak - step)) / step**2
        peak += np.clip(slope / curvature, -1.0, 1.0)
        step = min(step, 0.1 / np.sqrt(curvature))
    h = peak + np.linspace(-14, 14, 20_001) / np.sqrt(curvature)
    weight = np.exp(log_posterior(h) - log_posterior(peak))
    expected = weight @ h / weight.sum()
    assert mean[0] == pytest.approx(expected, abs=1e-6 * abs(expected) + 1e-4 / np.sqrt(curvature))
    assert variance[0] == pytest.approx(weight @ (h - expected) ** 2 / weight.sum(), rel=1e-3)


def test_totals_of_the_square_link_stay_on_their_side_of_zero(x64):
    """The grid sees both roots of a count; the wrong one must not draw it away from the right one."""
    y = 526765.0
    for eta, sd in ((564.4, 165.4), (60.0, 300.0)):
        mean, variance = _posterior(
            Poisson(), get_link("square"), np.array([y]), np.array([eta]), np.array([sd**2]), {}, {}
        )
        # a Poisson's root has the variance 1/4
        assert mean[0] == pytest.approx(np.sqrt(y), abs=0.01)
        assert variance[0] == pytest.approx(0.25, rel=1e-3)
    # none counted: exp(-h^2) of a half normal, h^2 a gamma of shape 1/2
    mean, variance = _posterior(
        Poisson(), get_link("square"), np.array([0.0]), np.array([0.0]), np.array([2.0]), {}, {}
    )
    precision = 1 / 2.0 + 2
    assert mean[0] == pytest.approx(np.sqrt(2 / np.pi / precision), rel=1e-3)
    assert mean[0] ** 2 + variance[0] == pytest.approx(1 / precision, rel=1e-3)


def test_bags_without_an_output_are_as_they_are(x64, example):
    y = outputs(example, "exp")
    y[[1, 3]] = np.nan
    mean, variance, state = tight_state(example, Poisson(), "exp", {}, y, risk=True)
    tight = replace(example, factor=1e-4 * np.eye(len(example.mu)))
    for a, (w, m, S, _, _) in enumerate(tight.latent):
        rows = slice(example.bags.starts[a], example.bags.starts[a + 1])
        same = np.allclose(mean[rows], m, atol=1e-4)
        assert same == np.isnan(y[a])
        if np.isnan(y[a]):
            np.testing.assert_allclose(variance[rows], np.diag(S), rtol=1e-4)
            assert state.kept[a] == 1
        else:
            assert (variance[rows][w > 0] < np.diag(S)[w > 0]).all()


def test_a_subset_of_a_large_bag_stands_for_all_of_it(x64):
    """Covariances with the total are estimated from 128 individuals."""
    large = make_example(sizes=(300, 200, 3), seed=4)
    assert max(large.bags.sizes) > EXACT_LIMIT
    kernel = tuple({**part, "variance": part["variance"] + np.log(0.3)} for part in large.kernel)
    large = replace(large, kernel=kernel)
    y = outputs_of(large)
    exact, subset, diagonal = (
        tight_state(large, Poisson(), "exp", {}, y, True, residual) for residual in ("exact", "subset", "diagonal")
    )
    before = np.concatenate([m for _, m, *_ in replace(large, factor=1e-4 * np.eye(7)).latent])
    moved, estimated = exact[0] - before, subset[0] - before
    assert np.abs(moved).max() > 0.1
    np.testing.assert_allclose(estimated, moved, atol=0.25 * np.abs(moved).max())
    assert np.corrcoef(estimated, moved)[0, 1] > 0.95
    np.testing.assert_allclose(np.sqrt(subset[1]), np.sqrt(exact[1]), rtol=0.12)
    assert np.abs(diagonal[0] - exact[0]).max() > 2 * np.abs(subset[0] - exact[0]).max()


def outputs_of(example):
    T = np.array([w @ np.exp(m) for w, m, *_ in example.latent])
    return np.round(T * np.array([1.4, 0.7, 1.2])[: len(T)])


# which bags are recognised


def by_row(bags, values, other):
    """Values of the rows of `bags` in the order of the same rows of `other`."""
    key = {(*x, w): value for x, w, value in zip(bags.X, bags.weight, values, strict=True)}
    return np.array([key[(*x, w)] for x, w in zip(other.X, other.weight, strict=True)])


@pytest.mark.parametrize("name", ["poisson", "negative_binomial"])
def test_shuffled_rows_and_some_of_the_bags_are_recognised(data, counts, name, rng):
    bags, _, _ = data
    model = counts[name]
    found = model.posterior(bags)
    shuffled = rng.permutation(bags.n_individuals)
    other = Bags(bags.X[shuffled], bags.labels[bags.bag][shuffled], bags.weight[shuffled])
    np.testing.assert_allclose(model.posterior(other).mean, by_row(bags, found.mean, other), rtol=1e-5)
    some = bags[[7, 2, 9]]
    np.testing.assert_allclose(model.posterior(some).mean, by_row(bags, found.mean, some), rtol=1e-5)
    totals = model.posterior_bags(bags)
    np.testing.assert_allclose(model.posterior_bags(some).mean, totals.mean[[7, 2, 9]], rtol=1e-5)
    assert (np.abs(found.mean / model.posterior(bags.X).mean - 1) > 0.01).mean() > 0.7


def test_other_individuals_under_a_known_label_are_predicted_as_new_with_a_warning(data, counts):
    bags, _, _ = data
    model = counts["poisson"]
    weight = bags.weight.copy()
    first = slice(bags.starts[3], bags.starts[4])
    weight[first] *= 1.5
    changed = Bags(bags.X, bags.labels[bags.bag], weight)
    label = bags.labels[3]
    message = rf"1 bags have the label of a training bag but other individuals, weights or offsets \(bag '{label}'\)"
    with pytest.warns(DataWarning, match=message):
        found = model.posterior(changed)
    before, apart = model.posterior(bags).mean, model.posterior(bags.X).mean
    np.testing.assert_allclose(found.mean[first], apart[first], rtol=1e-5)
    rest = np.arange(len(before)) >= first.stop
    np.testing.assert_allclose(found.mean[rest], before[rest], rtol=1e-6)
    with pytest.warns(DataWarning, match="12 bags have the label"):
        model.posterior(bags, offset=np.full(bags.n_individuals, 0.1))
    with pytest.warns(DataWarning, match="1 bags have the label"):
        model.posterior_bags(changed)


def test_new_labels_are_new_bags_without_a_word(data, counts):
    bags, _, _ = data
    model = counts["poisson"]
    new = Bags(bags.X, [f"new {label}" for label in bags.labels[bags.bag]], bags.weight)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found, totals = model.posterior(new), model.posterior_bags(new)
    expected = by_row(bags, model.posterior(bags.X).mean, new)
    np.testing.assert_allclose(found.mean, expected, rtol=1e-5)
    assert (np.abs(totals.mean - model.posterior_bags(bags).mean) > 0.01).any()


def test_rows_of_zero_weight_change_nothing_and_are_answered(data, counts):
    bags, _, _ = data
    model = counts["negative_binomial"]
    extra = np.array([[2.0, -28.0], [1.0, -40.0]])
    more = Bags(
        np.concatenate([bags.X, extra]),
        np.concatenate([bags.labels[bags.bag], ["a", "l"]]),
        np.concatenate([bags.weight, [0.0, 0.0]]),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = model.posterior(more)
    assert len(found) == bags.n_individuals + 2
    key = {tuple(x): value for x, value in zip(more.X, found.mean, strict=True)}
    expected = model.posterior(bags).mean
    np.testing.assert_allclose([key[tuple(x)] for x in bags.X], expected, rtol=1e-5)
    assert np.isfinite([key[tuple(x)] for x in extra]).all()


def test_predictions_of_new_outputs_do_not_use_the_old_ones(data, counts):
    """`predictive_bags` is of a new bag, so that scores of training bags stay comparable."""
    bags, _, _ = data
    model = counts["poisson"]
    new = Bags(bags.X, [f"new {label}" for label in bags.labels[bags.bag]], bags.weight)
    np.testing.assert_allclose(model.predictive_bags(bags).mean, model.predictive_bags(new).mean, rtol=1e-6)
    np.testing.assert_allclose(model.predictive_bags(bags).mean, model.posterior_bags(new).mean, rtol=1e-6)


def test_bag_effect_belongs_to_the_cells_unless_it_is_reporting(data, counts):
    bags, _, _ = data
    model = counts["negative_binomial"]
    risk, reporting = (model.posterior(bags, bag_effect=name).mean for name in ("risk", "reporting"))
    y, T = model._fitted.observed.y, bags.sum_by_bag(bags.weight * model.posterior(bags.X).mean)
    by_risk, by_reporting = (bags.sum_by_bag(bags.weight * rates) for rates in (risk, reporting))
    clear = np.abs(np.log((y + 1) / (T + 1))) > 0.1
    assert clear.sum() >= 3
    assert np.abs(risk / reporting - 1).max() > 0.02
    # both move totals towards the outputs, the effect moves them further
    assert (np.abs(by_risk - y) < np.abs(by_reporting - y))[clear].all()
    with pytest.raises(ValueError, match=r"`bag_effect` must be one of 'risk', 'reporting'; got 'both'"):
        model.posterior(bags, bag_effect="both")


@pytest.mark.parametrize("kind", ["array", "series"])
def test_known_noise_of_training_bags_serves_some_of_them_and_others(data, normal, kind):
    """A `tau` for each training bag need not cover the bags of a prediction of rates."""
    pd = pytest.importorskip("pandas")
    bags, _, _ = data
    tau = np.linspace(0.05, 0.4, len(bags))
    likelihood = vbagg.likelihoods.Normal(tau=tau if kind == "array" else pd.Series(tau, bags.labels))
    model = vbagg.VBAgg(likelihood, "identity", kernel=vbagg.kernels.RBF(), landmarks=4, hyper="point").fit(
        bags, normal[1]
    )
    whole, some = model.posterior(bags), bags[[2, 8]]
    np.testing.assert_allclose(model.posterior(some).mean, by_row(bags, whole.mean, some), rtol=1e-5)
    renamed = np.where(bags.bag == 0, "zz", bags.labels[bags.bag])
    mixed = Bags(bags.X, renamed, bags.weight)
    found = model.posterior(mixed)
    known = mixed.labels[mixed.bag] != "zz"
    np.testing.assert_allclose(found.mean[known], by_row(bags, whole.mean, mixed)[known], rtol=1e-5)


# the bag's effect inside the bag


@pytest.mark.parametrize(("effective", "times"), [(1.0, 0.0), (4.0, 1.0), (9.0, 2.0), (1e4, 3.0)])
def test_an_effect_varies_inside_a_bag_by_the_square_root_of_its_size(x64, example, effective, times):
    likelihood, p = LIKELIHOODS["negative_binomial"]
    y = outputs(example, "exp")
    spec = Spec(FEATURE_MAP, likelihood, get_link("exp"), "matched")
    basis = make_basis(FEATURE_MAP, example.kernel, example.landmarks, (JITTER,) * 3)
    found = moments(spec, basis, example.mu, 1e-4 * np.eye(len(example.mu)), example.chunks("exact"))
    bag = np.repeat(np.arange(len(y)), [len(w) for w, *_ in example.latent])
    parameters = Parameters(example.kernel, p, example.landmarks)
    for risk, size in ((True, times), (False, 0.0)):
        state = observe(spec, found, y, {}, parameters, risk)
        within = within_bags(spec, found, state, bag, np.full(len(y), effective))
        # shares of the total's log variance, of which the effect has log(1.2) alone
        np.testing.assert_allclose(within.sd**2, size * state.effect[bag], rtol=1e-6, atol=1e-12)
        np.testing.assert_allclose(within.mean, -(within.sd**2) / 2, rtol=1e-6, atol=1e-12)
    assert (observe(spec, found, y, {}, parameters, True).effect > 0.05).all()


@pytest.fixture(scope="module")
def squares():
    """Twelve squares of 8 x 8 cells with strong effects of their own, on a map and without coordinates."""
    rng = np.random.default_rng(5)
    place = np.stack(np.meshgrid(np.arange(32), np.arange(24)), axis=-1).reshape(-1, 2).astype(float)
    square = place[:, 0] // 8 + 4 * (place[:, 1] // 8)
    X = np.column_stack([rng.normal(size=len(place)), place])
    weight = rng.gamma(4.0, 0.25, len(place))
    effect = rng.gamma(1 / 0.4, 0.4, 12)
    y = rng.poisson(np.bincount(square.astype(int), weight * 30 * np.exp(0.4 * X[:, 0])) * effect)
    names = ["height", "x", "y"]
    fitted = {}
    for where in ("map", "list"):
        frame = pd.DataFrame(X, columns=names) if where == "map" else pd.DataFrame(X[:, :1], columns=names[:1])
        bags = Bags(frame, square, weight)
        kernel = vbagg.kernels.Linear("height")
        fitted[where] = vbagg.VBAgg(NegativeBinomial(0.4), kernel=kernel, hyper="point").fit(bags, y), bags
    return fitted


@pytest.mark.parametrize("where", ["map", "list"])
def test_cells_vary_about_their_bags_effect(squares, where):
    model, bags = squares[where]
    own, smooth = model.posterior(bags), model.posterior(bags, smooth=True)
    draws = np.log(own.sample(3000, seed=1))
    # the law and the draws are one distribution
    lower, middle, upper = (np.log(own.quantile(q)) for q in (0.1, 0.5, 0.9))
    np.testing.assert_allclose(np.quantile(draws, [0.1, 0.9], axis=0).T, np.column_stack([lower, upper]), atol=0.25)
    np.testing.assert_allclose(np.median(draws, axis=0), middle, atol=0.2)
    variance = 3 * np.log1p(0.4)
    np.testing.assert_allclose(draws.var(axis=0).mean(), variance, rtol=0.25)
    assert np.median((np.log(smooth.quantile(0.9)) - np.log(smooth.quantile(0.1))) / (upper - lower)) < 0.3
    # a quarter of a square, about the effect of the square: as squares vary, where cells have places
    quarter = np.isin(np.arange(64), [row * 8 + column for row in range(4) for column in range(4)])
    part = draws[:, :64] - draws[:, :64].mean(axis=1, keepdims=True)
    between = part[:, quarter].mean(axis=1).var()
    expected = 0.98 * np.log1p(0.4) if where == "map" else variance * (1 / 16 - 1 / 64)
    np.testing.assert_allclose(between, expected, rtol=0.4)


def test_reporting_is_no_risk_of_cells(squares):
    model, bags = squares["map"]
    risk, reporting = (model.posterior(bags, bag_effect=effect) for effect in ("risk", "reporting"))
    assert np.median(risk.std / risk.mean) > 2 * np.median(reporting.std / reporting.mean)


# one pass


def test_predictions_of_the_same_bags_share_a_pass(data, counts, monkeypatch):
    bags, _, _ = data
    model, passes = counts["poisson"], []

    def counted(*arguments):
        passes.append(arguments)
        return moments(*arguments)

    monkeypatch.setattr("vbagg.models.predicted.moments", counted)
    same = bags.with_arrays()
    first = model.posterior(same).mean
    number = len(passes)
    model.posterior(same, bag_effect="reporting"), model.posterior(same, smooth=True)
    assert number == len(passes) == 1
    totals = model.posterior_bags(same).mean
    model.predictive_bags(same)
    assert len(passes) == 1
    np.testing.assert_array_equal(model.posterior(bags).mean, first)
    # where totals come first, rows of zero weight are left out of the pass
    again = bags.with_arrays()
    np.testing.assert_allclose(model.posterior_bags(again).mean, totals, rtol=1e-6)
    assert len(passes) == 3
    assert len(model._fitted._plans) == 2
    del again
    del same
    gc.collect()
    assert len(model._fitted._plans) <= 1


def test_offsets_are_never_taken_from_an_earlier_plan(data, counts):
    bags, _, _ = data
    model, offset = counts["poisson"], np.zeros(bags.n_individuals)
    before = model.posterior_bags(bags).mean
    model.posterior_bags(bags, offset=offset)
    offset += 1.0
    with pytest.warns(DataWarning, match="offsets"):
        assert (model.posterior_bags(bags, offset=offset).mean > 1.5 * before).all()
    np.testing.assert_array_equal(model.posterior_bags(bags).mean, before)


def test_a_pickled_model_predicts_the_same(data, counts):
    bags, _, _ = data
    model = counts["negative_binomial"]
    expected = model.posterior(bags)
    again = pickle.loads(pickle.dumps(model)).posterior(bags)
    np.testing.assert_array_equal(again.std, expected.std)
    np.testing.assert_array_equal(again.sample(5), expected.sample(5))
