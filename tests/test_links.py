from itertools import pairwise

import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss
from scipy import integrate
from scipy.special import expit, log_expit

from vbagg.links import LINKS, get_link

pytestmark = pytest.mark.usefixtures("x64")

FUNCTIONS = {"identity": lambda f: f, "exp": np.exp, "square": np.square, "logistic": expit}
SLOPES = {
    "identity": np.ones_like,
    "exp": np.exp,
    "square": lambda f: 2 * f,
    "logistic": lambda f: expit(f) * expit(-f),
}
LOGARITHMS = {"exp": lambda f: f, "square": lambda f: np.log(f**2), "logistic": log_expit}
MEANS, VARIANCES = np.array([-1.7, -0.3, 0.4, 2.2]), np.array([0.3, 1.9, 0.05, 0.8])
NODES, NODE_WEIGHTS = hermegauss(80)
NODE_WEIGHTS = NODE_WEIGHTS / NODE_WEIGHTS.sum()

each_link = pytest.mark.parametrize("name", LINKS)


def gaussian_mean(function, m, s):
    return NODE_WEIGHTS @ function(m + np.sqrt(s) * NODES)


def gaussian_covariance(function, m, S):
    """Covariance of function(f_0) and function(f_1) by product quadrature, f ~ N(m, S)."""
    L = np.linalg.cholesky(S)
    first = function(m[0] + L[0, 0] * NODES)[:, None]
    second = function(m[1] + L[1, 0] * NODES[:, None] + L[1, 1] * NODES)
    joint = NODE_WEIGHTS @ (first * second) @ NODE_WEIGHTS
    return joint - gaussian_mean(function, m[0], S[0, 0]) * gaussian_mean(function, m[1], S[1, 1])


@each_link
def test_value_mean_and_slope_match_quadrature(name):
    link = get_link(name)
    np.testing.assert_allclose(link.value(MEANS), FUNCTIONS[name](MEANS), rtol=1e-12)
    pairs = list(zip(MEANS, VARIANCES, strict=True))
    mean = [gaussian_mean(FUNCTIONS[name], m, s) for m, s in pairs]
    slope = [gaussian_mean(SLOPES[name], m, s) for m, s in pairs]
    np.testing.assert_allclose(link.mean(MEANS, VARIANCES), mean, rtol=1e-6)
    np.testing.assert_allclose(link.slope(MEANS, VARIANCES), slope, rtol=1e-6)


@pytest.mark.parametrize("name", LOGARITHMS)
def test_expected_log_matches_adaptive_quadrature(name):
    def reference(m, s):
        def integrand(f):
            return LOGARITHMS[name](f) * np.exp(-((f - m) ** 2) / (2 * s)) / np.sqrt(2 * np.pi * s)

        edges = m - 12 * np.sqrt(s), 0.0, m + 12 * np.sqrt(s)
        return sum(integrate.quad(integrand, a, b, limit=200)[0] for a, b in pairwise(edges))

    values = [reference(m, s) for m, s in zip(MEANS, VARIANCES, strict=True)]
    np.testing.assert_allclose(get_link(name).expected_log(MEANS, VARIANCES), values, rtol=1e-7)


def test_identity_has_no_expected_logarithm():
    with pytest.raises(NotImplementedError, match="may be negative"):
        get_link("identity").expected_log(MEANS, VARIANCES)


@pytest.mark.parametrize("covariance", [-0.4, 0.0, 0.6])
@pytest.mark.parametrize("name", ["identity", "exp", "square"])
def test_covariance_of_two_rates_is_exact(name, covariance):
    link, m = get_link(name), np.array([-0.7, 1.2])
    S = np.array([[0.5, covariance], [covariance, 1.3]])
    slope = np.asarray(link.slope(m, np.diag(S)))
    expected = gaussian_covariance(FUNCTIONS[name], m, S)
    np.testing.assert_allclose(link.covariance(slope[0], slope[1], covariance), expected, rtol=1e-8, atol=1e-12)


def test_logistic_covariance_is_right_to_first_order():
    link, m = get_link("logistic"), np.array([-0.7, 1.2])

    def error(s):
        S = np.array([[0.5, s], [s, 1.3]])
        slope = np.asarray(link.slope(m, np.diag(S)))
        return abs(float(link.covariance(slope[0], slope[1], s)) - gaussian_covariance(expit, m, S))

    assert error(0.4) < 0.05 * gaussian_covariance(expit, m, np.array([[0.5, 0.4], [0.4, 1.3]]))
    # halving s quarters an error of second order
    assert 3.5 < error(0.2) / error(0.1) < 4.5


@each_link
def test_bag_sums_are_loops_over_pairs(name, rng):
    """`bag_variance` visits every ordered pair, the diagonal included."""
    link, b, n, m = get_link(name), 2, 4, 3
    weight, slope = rng.exponential(size=(b, n)), rng.normal(size=(b, n))
    weight[1, 2] = 0.0
    F = rng.normal(size=(b, n, m)) / 2
    S = np.einsum("bim,bjm->bij", F, F)
    variance = np.zeros(b)
    for a in range(b):
        for i in range(n):
            for j in range(n):
                pair = slope[a, i], slope[a, j], S[a, i, j]
                variance[a] += weight[a, i] * weight[a, j] * link.covariance(*pair)
    np.testing.assert_allclose(link.bag_variance(weight, slope, S), variance, rtol=1e-10)


def test_unknown_link_lists_the_known_ones():
    with pytest.raises(ValueError, match=r"`link` must be one of 'identity', 'exp', .*; got 'probit'"):
        get_link("probit")


@pytest.mark.parametrize(("name", "accuracy"), [("identity", 1e-10), ("exp", 1e-10), ("square", 2e-4)])
def test_covariance_of_totals_is_right_for_bags_of_one(name, accuracy):
    link = get_link(name)
    m, S = np.array([1.7, 2.2]), np.array([[0.04, 0.03], [0.03, 0.05]])
    mean, slope = link.mean(m, np.diag(S)), link.slope(m, np.diag(S))
    found = link.total_covariance(mean[0], mean[1], slope[0] * slope[1] * S[0, 1])
    assert found == pytest.approx(gaussian_covariance(FUNCTIONS[name], m, S), rel=accuracy)
