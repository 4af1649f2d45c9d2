"""What the objective must equal, or must not depend on."""

from dataclasses import replace
from itertools import pairwise

import jax
import numpy as np
import pytest
from scipy import integrate, stats
from scipy.linalg import block_diag
from test_moments import FEATURE_MAP, Example, make_example

import vbagg
from vbagg.bags import Bags
from vbagg.elbo import Spec
from vbagg.features import features, residual_block
from vbagg.inference import Gaussian, Problem
from vbagg.likelihoods import Exponential, NegativeBinomial, Normal, Poisson
from vbagg.links import get_link

SQUARE = (Poisson(), "square", "matched")
COMBINATIONS = {
    "poisson-square-matched": SQUARE,
    "poisson-exp-matched": (Poisson(), "exp", "matched"),
    "negative_binomial-square-bound": (NegativeBinomial(0.4), "square", "bound"),
    "poisson-square-matched-diagonal": (*SQUARE, "diagonal"),
    "poisson-square-matched-subset": (*SQUARE, "subset"),
}
each_combination = pytest.mark.parametrize("choice", COMBINATIONS.values(), ids=COMBINATIONS)


def elbo(example, likelihood, link, approximation, residual="exact", n_draws=64, inside=1.0, facts=None):
    """The objective of an example at its own `q`, bag sums not collapsed."""
    spec = Spec(FEATURE_MAP, likelihood, get_link(link), approximation, inside, n_draws)
    problem = Problem.here(spec, example.chunks(residual, facts=facts), example.landmarks, memory=0.0)
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
    problem = Problem.here(spec, example.chunks("exact"), example.landmarks, memory=1e9)
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
        """Mean of `f` at every row, its variance by the inducing values, and the rest of it."""
        X, example = self.example.bags.X, self.example
        cross = [np.full((len(X), 1), FEATURE_MAP.mean_sd**2), X[:, [1]] * np.exp(example.kernel[0]["variance"])]
        cross += [example.own_kernel(1, X[:, :2], example.landmarks[1])]
        cross += [example.own_kernel(2, X[:, 2:], example.landmarks[2])]
        B = np.linalg.solve(self.prior, np.hstack(cross).T).T
        own = FEATURE_MAP.mean_sd**2 + (X[:, 1] ** 2) * np.exp(example.kernel[0]["variance"])
        own = own + np.exp(example.kernel[1]["variance"]) + np.exp(example.kernel[2]["variance"])
        residual = own - np.sum((B @ self.prior) * B, axis=1)
        return self.example.known + B @ self.mean, np.sum((B @ self.covariance) * B, axis=1), residual

    def kl(self):
        solved = np.linalg.solve(self.prior, self.covariance)
        quadratic = self.mean @ np.linalg.solve(self.prior, self.mean)
        return 0.5 * (np.trace(solved) + quadratic - len(self.mean) - np.linalg.slogdet(solved)[1])

    def objective(self, log_density):
        """`sum E log p(y_i | w_i Psi(f_i)) - KL`, MATH (5); `log_density` of the output, its weight and `f`."""
        total = 0.0
        for y, w, m, a, r in zip(self.example.y, self.example.bags.weight, *self.marginals(), strict=True):
            total += gaussian_mean(lambda f, y=y, w=w: log_density(y, w, f), m, a + r)
        return total - self.kl()

    def objective_inside(self, log_density):
        """`sum E_u log p(y_i | u) - KL`, MATH (13).

        `log_density` is of the output, its weight, `E f` given the inducing values u, `R`, and the variance by u.
        """
        total = 0.0
        for y, w, m, a, r in zip(self.example.y, self.example.bags.weight, *self.marginals(), strict=True):
            total += gaussian_mean(lambda f, y=y, w=w, r=r, a=a: log_density(y, w, f, r, a), m, a)
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
    """With the residual outside, as the paper has it."""
    likelihood, link = name.split("-")
    value = elbo(singletons, LIKELIHOODS[likelihood], link, approximation, inside=0.0)
    assert value == pytest.approx(ordinary[name], rel=1e-5)


def test_singleton_bags_with_the_residual_inside_are_fitc(x64, singletons):
    """Exactly so for the Normal: `y_i | u ~ N(w_i E[f_i | u], noise + w_i^2 R_ii)`."""
    noise = np.array([0.5, 2.0, 1.0, 0.7, 3.0, 0.2, 1.4, 0.9])
    gp = OrdinarySparseGP(singletons)
    position = {w: a for a, w in enumerate(singletons.bags.weight)}

    def log_density(y, w, f, r, a):
        return stats.norm.logpdf(y, w * f, np.sqrt(noise[position[w]] + w**2 * r))

    choice = Normal(tau=1.0), "identity", "matched"
    value = elbo(singletons, *choice, facts={"noise": noise})
    assert value == pytest.approx(gp.objective_inside(log_density), rel=1e-6)
    # Titsias' bound is the same with the residual outside, and lower
    outside = elbo(singletons, *choice, inside=0.0, facts={"noise": noise})
    expected = gp.objective(lambda y, w, f: stats.norm.logpdf(y, w * f, np.sqrt(noise[position[w]])))
    assert outside == pytest.approx(expected, rel=1e-6)
    assert outside < value - 0.1


def mixed_density(name):
    """`p(y | u)` of the exp link by MATH (12); the relative variance of a total does not depend on `u`."""

    def log_density(y, w, f, r, a):
        mean, dispersion = w * np.exp(f + r / 2), np.expm1(r)
        if name == "exponential":
            return stats.lomax.logpdf(y, 2 + 1 / dispersion, scale=(1 + 1 / dispersion) * mean)
        if name == "negative_binomial":
            dispersion = dispersion + 0.4 + 0.4 * dispersion
        return stats.nbinom.logpmf(y, 1 / dispersion, 1 / (1 + dispersion * mean))

    return log_density


@pytest.mark.parametrize("name", ["poisson", "negative_binomial", "exponential"])
def test_singleton_bags_with_the_residual_inside_mix_over_it(x64, singletons, name):
    expected = OrdinarySparseGP(singletons).objective_inside(mixed_density(name))
    assert elbo(singletons, LIKELIHOODS[name], "exp", "matched") == pytest.approx(expected, rel=1e-5)
    drawn = elbo(singletons, LIKELIHOODS[name], "exp", "montecarlo", n_draws=16384)
    assert drawn == pytest.approx(expected, abs=0.15)


def exact_features(example):
    """The example with landmarks at all of its rows, so that nothing is left to the residual."""
    X, rng = example.bags.X, np.random.default_rng(5)
    m = 2 + 2 * len(X)
    factor = np.tril(rng.normal(0.0, 0.05, size=(m, m)), -1) + np.diag(rng.uniform(0.2, 0.6, m))
    landmarks = (None, X[:, :2], X[:, 2:])
    return replace(example, landmarks=landmarks, mu=rng.normal(0.1, 0.3, m), factor=factor)


@pytest.mark.parametrize("choice", [SQUARE, (Poisson(), "exp", "matched"), (NegativeBinomial(0.4), "exp", "matched")])
def test_landmarks_at_the_data_leave_nothing_to_the_residual(x64, example, choice):
    whole = exact_features(example)
    assert elbo(whole, *choice) == pytest.approx(elbo(whole, *choice, inside=0.0), abs=1e-4)
    assert abs(elbo(example, *choice) - elbo(example, *choice, inside=0.0)) > 0.1


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
        return get_link("identity").mean_sd ** 2 + 1.4 * np.exp(-r2 / (2 * 0.9**2))

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


def pitc_evidence(model, bags, y, tau):
    """Log density of the outputs when residuals are independent between bags, in NumPy: (13) at its best `q`."""
    member, frame = model._fitted.members[0], model._fitted.frame
    feature_map = member.spec.feature_map
    with jax.enable_x64(True):
        X = frame.scaler.forward(bags.X)
        A = np.asarray(features(feature_map, member.basis, X))
        R = [
            np.asarray(residual_block(feature_map, member.basis, X[begin:end], A[begin:end]))
            for begin, end in pairwise(bags.starts)
        ]
    W = frame.rate_scale * (np.arange(len(bags))[:, None] == bags.bag) * bags.weight
    covariance = W @ (A @ A.T + block_diag(*R)) @ W.T + np.diag(tau * bags.weight_squares())
    return stats.multivariate_normal(frame.base * W.sum(axis=1), covariance).logpdf(y)


@pytest.mark.parametrize("every", [4, 9])
def test_normal_with_few_landmarks_is_the_evidence_with_residuals_independent_between_bags(normal_data, every):
    bags, y = normal_data
    likelihood = vbagg.likelihoods.Normal(tau=2.6)
    few = vbagg.VBAgg(likelihood, "identity", kernel=KERNEL, landmarks=bags.X[::every], residual="exact").fit(bags, y)
    assert few.elbo_ == pytest.approx(pitc_evidence(few, bags, y, 2.6), abs=1e-4)
    exact = ExactAggregateGP(few, bags, y, tau=2.6).log_evidence()
    assert abs(few.elbo_ - exact) > 1e-3


@pytest.mark.parametrize("white", [0.2, 1.5])
def test_normal_with_an_effect_of_each_individual_is_that_evidence_too(normal_data, white):
    """MATH (15): its variance adds `white * sum w^2` to each total and nothing between them."""
    bags, y = normal_data
    kernel = KERNEL + vbagg.kernels.White(variance=white, fixed="variance")
    likelihood = vbagg.likelihoods.Normal(tau=2.6)
    model = vbagg.VBAgg(likelihood, "identity", kernel=kernel, landmarks=bags.X, residual="exact").fit(bags, y)
    scale = model._fitted.frame.rate_scale
    exact = ExactAggregateGP(model, bags, y, tau=2.6 + white * scale**2)
    assert model.elbo_ == pytest.approx(exact.log_evidence(), abs=1e-4)
