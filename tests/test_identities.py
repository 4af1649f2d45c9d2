"""What the objective must equal, or must not depend on."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.linalg import block_diag
from test_moments import FEATURE_MAP, Example, make_example

import vbagg
from vbagg.bags import Bags
from vbagg.elbo import Spec
from vbagg.inference import Gaussian, Problem
from vbagg.likelihoods import Exponential, NegativeBinomial, Poisson
from vbagg.links import get_link
from vbagg.models.setup import MEAN_SD

SQUARE = (Poisson(), "square", "matched")
COMBINATIONS = {
    "poisson-square-matched": SQUARE,
    "poisson-exp-matched": (Poisson(), "exp", "matched"),
    "negative_binomial-square-bound": (NegativeBinomial(0.4), "square", "bound"),
    "poisson-square-matched-diagonal": (*SQUARE, "diagonal"),
    "poisson-square-matched-subset": (*SQUARE, "subset"),
}
each_combination = pytest.mark.parametrize("choice", COMBINATIONS.values(), ids=COMBINATIONS)


def elbo(example, likelihood, link, approximation, residual="exact", n_draws=64):
    """The objective of an example at its own `q`, bag sums not collapsed."""
    spec = Spec(FEATURE_MAP, likelihood, get_link(link), approximation, n_draws)
    problem = Problem(spec, example.chunks(residual), example.landmarks, memory=0.0)
    return problem.at(example.parameters).elbo(Gaussian(example.mu, example.factor))


def rearranged(example, rows=slice(None), bags=None, weight=None):
    """The same example with other rows: `rows` of the stored ones, then their new weights, then bags by position."""
    old = example.bags
    changed = Bags(old.X[rows], old.bag[rows], old.weight[rows] if weight is None else weight)
    y, known = example.y[list(changed.labels)], example.known[rows][changed.rows]
    if bags is not None:
        order = np.concatenate([np.arange(changed.starts[a], changed.starts[a + 1]) for a in bags])
        changed, y, known = changed[bags], y[bags], known[order]
    return replace(example, bags=changed, y=y, known=known)


@pytest.fixture(scope="module")
def example():
    return make_example()


@each_combination
def test_order_of_bags_and_of_rows_is_inert(x64, example, choice):
    value = elbo(example, *choice)
    shuffled = np.random.default_rng(1).permutation(example.bags.n_individuals)
    assert elbo(rearranged(example, bags=[3, 0, 4, 2, 1]), *choice) == pytest.approx(value, rel=1e-6)
    assert elbo(rearranged(example, rows=shuffled), *choice) == pytest.approx(value, rel=1e-6)


@each_combination
def test_rows_of_zero_weight_are_inert(x64, example, choice):
    kept = np.flatnonzero(example.bags.weight > 0)
    assert len(kept) < example.bags.n_individuals
    assert elbo(rearranged(example, rows=kept), *choice) == pytest.approx(elbo(example, *choice), rel=1e-6)


@each_combination
def test_padding_is_inert(x64, example, choice):
    split = replace(example, max_elements=14)
    assert len(split.chunks()) > len(example.chunks())
    assert elbo(split, *choice) == pytest.approx(elbo(example, *choice), rel=1e-6)


def double_and_duplicate(example, row):
    """The example with the weight of one row doubled, and with that row given twice."""
    weight = example.bags.weight.copy()
    weight[row] *= 2
    rows = np.sort(np.append(np.arange(len(weight)), row))
    return rearranged(example, weight=weight), rearranged(example, rows=rows)


@pytest.mark.parametrize("link", ["square", "exp"])
def test_a_duplicate_row_is_a_double_weight(x64, example, link):
    choice = Poisson(), link, "matched"
    double, duplicate = (elbo(changed, *choice) for changed in double_and_duplicate(example, row=10))
    assert duplicate == pytest.approx(double, rel=1e-6)
    assert abs(double - elbo(example, *choice)) > 0.01


def test_a_duplicate_row_is_not_a_double_weight_for_a_diagonal_residual(x64, example):
    """The residual of an individual is one number; given twice it counts as two independent ones."""
    double, duplicate = (elbo(changed, *SQUARE, "diagonal") for changed in double_and_duplicate(example, row=10))
    assert abs(duplicate - double) > 1e-3


def test_collapsed_sums_give_the_same_objective(x64, example):
    spec = Spec(FEATURE_MAP, Poisson(), get_link("square"), "matched")
    problem = Problem(spec, example.chunks("exact"), example.landmarks, memory=1e9)
    problem.collapse = [True]
    value = problem.at(example.parameters).elbo(Gaussian(example.mu, example.factor))
    assert value == pytest.approx(elbo(example, *SQUARE, "exact"), rel=1e-6)


class OrdinarySparseGP:
    """The variational objective of an ordinary sparse Gaussian process, in terms of the inducing values.

    Inducing variables are the constant mean, the slope of the linear term, and both functions at their landmarks;
    `q` is transformed from the whitened weights once, the rest is textbook algebra with dense solves.
    """

    def __init__(self, example: Example) -> None:
        self.example = example
        covariances = [np.array([[FEATURE_MAP.mean_sd**2]]), np.exp(example.kernel[0]["variance"])[:, None]]
        for component in (1, 2):
            K = example.own_kernel(component, example.landmarks[component], example.landmarks[component])
            covariances.append(K + 1e-8 * np.diag(K).mean() * np.eye(len(K)))
        self.prior = block_diag(*covariances)
        L = block_diag(*map(np.linalg.cholesky, covariances))
        self.mean, self.covariance = L @ example.mu, L @ example.factor @ example.factor.T @ L.T

    def marginals(self):
        """Mean and variance of `f` at every row."""
        X, example = self.example.bags.X, self.example
        cross = [np.full((len(X), 1), FEATURE_MAP.mean_sd**2), X[:, [1]] * np.exp(example.kernel[0]["variance"])]
        cross += [example.own_kernel(1, X[:, :2], example.landmarks[1])]
        cross += [example.own_kernel(2, X[:, 2:], example.landmarks[2])]
        B = np.linalg.solve(self.prior, np.hstack(cross).T).T
        own = FEATURE_MAP.mean_sd**2 + (X[:, 1] ** 2) * np.exp(example.kernel[0]["variance"])
        own = own + np.exp(example.kernel[1]["variance"]) + np.exp(example.kernel[2]["variance"])
        variance = own - np.sum((B @ self.prior) * B, axis=1) + np.sum((B @ self.covariance) * B, axis=1)
        return self.example.known + B @ self.mean, variance

    def kl(self):
        solved = np.linalg.solve(self.prior, self.covariance)
        quadratic = self.mean @ np.linalg.solve(self.prior, self.mean)
        return 0.5 * (np.trace(solved) + quadratic - len(self.mean) - np.linalg.slogdet(solved)[1])

    def objective(self, log_density):
        """`sum E log p(y_i | w_i Psi(f_i)) - KL`; `log_density` of the output, its weight and `f`."""
        total = 0.0
        for y, w, m, s in zip(self.example.y, self.example.bags.weight, *self.marginals(), strict=True):
            total += gaussian_mean(lambda f, y=y, w=w: log_density(y, w, f), m, s)
        return total - self.kl()


def gaussian_mean(function, m, s):
    """Adaptive quadrature, split where `log f^2` is singular."""
    sd = np.sqrt(s)
    edges = sorted({m - 10 * sd, m + 10 * sd, *([0.0] if abs(m) < 10 * sd else [])})
    return sum(
        integrate.quad(lambda f: function(f) * stats.norm.pdf(f, m, sd), a, b, limit=200)[0] for a, b in pairwise(edges)
    )


@pytest.fixture(scope="module")
def singletons():
    """One individual per bag, each with a positive weight."""
    example = make_example()
    n = 8
    weight = np.random.default_rng(2).uniform(0.5, 3.0, n)
    bags = Bags(example.bags.X[:n], np.arange(n), weight)
    return replace(example, bags=bags, known=example.known[:n], y=np.array([0.0, 3, 1, 6, 2, 2, 0, 9]))


DENSITIES = {
    "poisson-exp": lambda y, w, f: y * (np.log(w) + f) - w * np.exp(f) - np.log(float(np.prod(np.arange(1, y + 1)))),
    "poisson-square": lambda y, w, f: stats.poisson.logpmf(y, w * f**2),
    "negative_binomial-exp": lambda y, w, f: stats.nbinom.logpmf(y, 2.5, 2.5 / (2.5 + w * np.exp(f))),
    "exponential-exp": lambda y, w, f: -y / (w * np.exp(f)) - np.log(w) - f,
}
LIKELIHOODS = {"poisson": Poisson(), "negative_binomial": NegativeBinomial(0.4), "exponential": Exponential()}


@pytest.fixture(scope="module")
def ordinary(singletons):
    """Objective of the ordinary sparse GP for each density."""
    gp = OrdinarySparseGP(singletons)
    return {name: gp.objective(density) for name, density in DENSITIES.items()}


@pytest.mark.parametrize(
    ("name", "approximation"),
    [
        ("poisson-exp", "matched"),
        ("poisson-exp", "bound"),
        ("poisson-square", "bound"),
        ("negative_binomial-exp", "matched"),
        ("exponential-exp", "matched"),
    ],
)
def test_singleton_bags_are_an_ordinary_sparse_gp(x64, singletons, ordinary, name, approximation):
    likelihood, link = name.split("-")
    value = elbo(singletons, LIKELIHOODS[likelihood], link, approximation)
    assert value == pytest.approx(ordinary[name], rel=1e-5)


@pytest.mark.parametrize("name", ["poisson-square", "negative_binomial-exp"])
def test_monte_carlo_of_singleton_bags_is_an_ordinary_sparse_gp(x64, singletons, ordinary, name):
    likelihood, link = name.split("-")
    value = elbo(singletons, LIKELIHOODS[likelihood], link, "montecarlo", n_draws=16384)
    assert value == pytest.approx(ordinary[name], abs=0.15)


class ExactAggregateGP:
    """The Normal model solved in closed form, in the units of a fitted model."""

    def __init__(self, model, bags, y, tau):
        fitted = model._fitted.frame
        self.scale, self.base, self.scaler = fitted.rate_scale, fitted.base, fitted.scaler
        self.X = self.scaler.forward(bags.X)
        self.W = self.scale * (np.arange(len(bags))[:, None] == bags.bag) * bags.weight
        noise = tau * np.array([np.sum(bags.weight[bags.bag == a] ** 2) for a in range(len(bags))])
        self.covariance = self.W @ self.kernel(self.X, self.X) @ self.W.T + np.diag(noise)
        self.mean = self.base * self.W.sum(axis=1)
        self.y = y

    def kernel(self, X1, X2):
        r2 = ((X1[:, None] - X2[None]) ** 2).sum(axis=-1)
        return MEAN_SD["identity"] ** 2 + 1.4 * np.exp(-r2 / (2 * 0.9**2))

    def log_evidence(self):
        return stats.multivariate_normal(self.mean, self.covariance).logpdf(self.y)

    def predict(self, X_new):
        X_new = self.scaler.forward(X_new)
        cross = self.kernel(X_new, self.X) @ self.W.T
        mean = self.base + cross @ np.linalg.solve(self.covariance, self.y - self.mean)
        variance = np.diag(self.kernel(X_new, X_new) - cross @ np.linalg.solve(self.covariance, cross.T))
        return self.scale * mean, self.scale * np.sqrt(variance)


@pytest.fixture(scope="module")
def normal_data():
    rng = np.random.default_rng(11)
    sizes = (3, 5, 1, 4, 2, 6)
    X = rng.normal([3.0, -50.0], [2.0, 15.0], size=(sum(sizes), 2))
    weight = rng.exponential(2.0, size=len(X))
    bags = Bags(X, np.repeat(list("fadceb"), sizes), weight)
    return bags, 3.0 * bags.totals() + rng.normal(0.0, 6.0, len(bags))


KERNEL = vbagg.kernels.RBF(variance=1.4, lengthscale=0.9, fixed=("variance", "lengthscale"))


@pytest.fixture(scope="module")
def normal_model(normal_data):
    bags, y = normal_data
    likelihood = vbagg.likelihoods.Normal(tau=2.6)
    return vbagg.VBAgg(likelihood, "identity", kernel=KERNEL, landmarks=bags.X, residual="exact").fit(bags, y)


def test_normal_with_landmarks_at_the_data_is_the_exact_aggregate_gp(normal_data, normal_model):
    exact = ExactAggregateGP(normal_model, *normal_data, tau=2.6)
    X_new = np.random.default_rng(3).normal([3.0, -50.0], [3.0, 20.0], size=(7, 2))
    mean, std = exact.predict(X_new)
    posterior = normal_model.posterior(X_new)
    np.testing.assert_allclose(posterior.mean, mean, rtol=1e-5, atol=1e-5 * mean.std())
    np.testing.assert_allclose(posterior.std, std, rtol=1e-5)
    assert normal_model.elbo_ == pytest.approx(exact.log_evidence(), abs=1e-4)


def test_normal_bag_totals_are_those_of_the_exact_aggregate_gp(normal_data, normal_model):
    bags, y = normal_data
    exact = ExactAggregateGP(normal_model, bags, y, tau=2.6)
    prior = exact.W @ exact.kernel(exact.X, exact.X) @ exact.W.T
    gain = np.linalg.solve(exact.covariance, prior).T
    posterior = normal_model.posterior_bags(bags)
    np.testing.assert_allclose(posterior.mean, exact.mean + gain @ (y - exact.mean), rtol=1e-4)
    np.testing.assert_allclose(posterior.std**2, np.diag(prior - gain @ prior), rtol=1e-3)
    noise = 2.6 * bags.weight_squares()
    np.testing.assert_allclose(normal_model.predictive_bags(bags).std ** 2, posterior.std**2 + noise, rtol=1e-6)


def test_fewer_landmarks_give_less_evidence(normal_data, normal_model):
    bags, y = normal_data
    likelihood = vbagg.likelihoods.Normal(tau=2.6)
    few = vbagg.VBAgg(likelihood, "identity", kernel=KERNEL, landmarks=bags.X[::4], residual="exact").fit(bags, y)
    assert few.elbo_ < normal_model.elbo_ - 0.01
