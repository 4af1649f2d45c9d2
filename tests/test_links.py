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


@each_link
@pytest.mark.parametrize("more", [-0.3, 1e-9, 0.4])
def test_added_covariance_is_the_difference_of_two_covariances(name, more):
    link, (d1, d2), s = get_link(name), (1.7, -0.4), 0.6
    expected = link.covariance(d1, d2, s + more) - link.covariance(d1, d2, s)
    found = link.added_covariance(d1, d2, s, more)
    # the difference itself loses digits where little is added
    np.testing.assert_allclose(found, expected, rtol=1e-12 / abs(more), atol=1e-15)


@pytest.mark.parametrize(("name", "slope"), [("exp", np.exp(0.6)), ("square", 4 * 0.6)])
def test_little_added_covariance_keeps_its_digits(name, slope):
    """`d/ds` of the covariance at `s = 0.6`, with slopes of one and of zero for the square's own part."""
    more = 1e-13
    d = 1.0 if name == "exp" else 0.0
    assert float(get_link(name).added_covariance(d, d, 0.6, more)) == pytest.approx(slope * more, rel=1e-11)


@each_link
def test_added_bag_variance_is_a_loop_over_pairs(name, rng):
    link, b, n, m = get_link(name), 2, 4, 3
    weight, slope = rng.exponential(size=(b, n)), rng.normal(size=(b, n))
    F, R = rng.normal(size=(b, n, m)) / 2, rng.normal(size=(b, n, 2)) / 3
    S, more = np.einsum("bim,bjm->bij", F, F), np.einsum("bim,bjm->bij", R, R)
    added = np.zeros(b)
    for a in range(b):
        for i in range(n):
            for j in range(n):
                pair = slope[a, i], slope[a, j]
                whole = link.covariance(*pair, S[a, i, j] + more[a, i, j]) - link.covariance(*pair, S[a, i, j])
                added[a] += weight[a, i] * weight[a, j] * whole
    found = link.added_bag_variance(weight, slope, S, more)
    np.testing.assert_allclose(found, added, rtol=1e-10)
    whole, part = link.bag_variance(weight, slope, S + more), link.bag_variance(weight, slope, S)
    np.testing.assert_allclose(found, whole - part, rtol=1e-10)


@each_link
def test_inverse_gives_the_latent_value_back(name):
    f = np.array([0.02, 0.7, 3.1])
    np.testing.assert_allclose(get_link(name).inverse(FUNCTIONS[name](f)), f, rtol=1e-12)
    np.testing.assert_allclose(get_link(name).value(f), FUNCTIONS[name](f), rtol=1e-12)


TOTALS = {
    "identity": (np.array([-3.0, 0.2, 9.0]), np.array([0.1, 4.0, 30.0])),
    "exp": (np.array([0.05, 3.0, 400.0]), np.array([1e-4, 8.0, 300_000.0])),
    "square": (np.array([0.05, 3.0, 400.0]), np.array([1e-4, 8.0, 300_000.0])),
    "logistic": (np.array([0.04, 0.5, 0.93]), np.array([1e-5, 0.002, 0.0006])),
}


@each_link
def test_a_gaussian_coordinate_has_the_totals_mean_and_variance(name, rng):
    """`E Psi(h) = M`, `Var Psi(h) = V`: by quadrature, and by draws whose error is known."""
    M, V = TOTALS[name]
    mean, variance = get_link(name).coordinate_moments(M, V)
    found_mean = [gaussian_mean(FUNCTIONS[name], m, s) for m, s in zip(mean, variance, strict=True)]
    found_variance = [
        gaussian_mean(lambda f, c=c: (FUNCTIONS[name](f) - c) ** 2, m, s)
        for m, s, c in zip(mean, variance, found_mean, strict=True)
    ]
    # of the logistic to first order, which overstates a wide one
    mean_error, variance_error = (2e-3, 0.06) if name == "logistic" else (1e-9, 1e-8)
    np.testing.assert_allclose(found_mean, M, rtol=mean_error)
    np.testing.assert_allclose(found_variance, V, rtol=variance_error)
    n = 40_000
    drawn = FUNCTIONS[name](mean + np.sqrt(variance) * rng.standard_normal((n, 3)))
    assert (np.abs(drawn.mean(axis=0) - M) < 5 * np.sqrt(V / n) + mean_error * np.abs(M)).all()


def test_a_square_that_varies_more_than_any_has_the_largest_variance():
    """The variance of a squared normal is at most twice its squared mean."""
    mean, variance = get_link("square").coordinate_moments(np.array([3.0]), np.array([40.0]))
    assert mean == 0
    assert np.isfinite(variance).all()
    assert variance > 0


@each_link
def test_coordinate_slope_is_that_of_the_inverse(name):
    link, M = get_link(name), TOTALS[name][0]
    step = 1e-6 * np.abs(M)
    expected = (link.inverse(M + step) - link.inverse(M - step)) / (2 * step)
    np.testing.assert_allclose(link.coordinate_slope(M), expected, rtol=1e-7)


@pytest.mark.parametrize("name", ["exp", "square"])
def test_an_effect_on_the_coordinate_multiplies_rates_by_one_on_average(name):
    """Exact for exp. The square's is, where the effect is small beside the root of the rate."""
    link, h, variance = get_link(name), np.array([1.3, 4.0]), np.array([0.3, 0.2])
    before = FUNCTIONS[name](h)
    centre = h + link.effect_mean(variance, h)
    after = [gaussian_mean(FUNCTIONS[name], m, s) for m, s in zip(centre, variance, strict=True)]
    np.testing.assert_allclose(after, before, rtol=1e-10 if name == "exp" else 0.01)


@pytest.mark.parametrize("name", ["exp", "square"])
def test_an_effect_of_the_bag_multiplies_all_rates_alike(name):
    link, f, step = get_link(name), np.array([-0.6, 0.4, 2.0]), 1e-6
    moved = FUNCTIONS[name](f + step * np.asarray(link.effect_shape(f)))
    factor = moved / FUNCTIONS[name](f)
    np.testing.assert_allclose(factor, factor[0], rtol=1e-10)
    assert abs(factor[0] - 1) > 0.9 * step


def test_units_are_the_overall_rate():
    y, exposure = np.array([3.0, 8.0, 1.0]), np.array([2.0, 5.0, 9.0])
    assert get_link("exp").units(y, exposure) == (0.75, 0.0)
    assert get_link("square").units(y, exposure) == (0.75, 1.0)
    scale, base = get_link("logistic").units(y, exposure)
    assert (scale, base) == (1.0, pytest.approx(np.log(12.5 / (17 - 12.5))))
    scale, base = get_link("identity").units(y, exposure)
    slope = np.linalg.lstsq(exposure[:, None], y, rcond=None)[0][0]
    assert scale == pytest.approx(np.sqrt(np.mean((y / exposure - slope) ** 2)))
    assert base * scale == pytest.approx(slope)
    # no counts at all: half of one
    assert get_link("exp").units(np.zeros(3), exposure)[0] == pytest.approx(0.5 / 16)


@each_link
def test_latent_units_follow_those_of_rates(name):
    """`Psi(f) / scale = Psi((f - shift) / unit)`."""
    link, f, scale = get_link(name), np.array([0.3, 1.9]), 1.0 if name == "logistic" else 7.0
    within = (f - link.latent_shift(scale)) / link.latent_unit(scale)
    np.testing.assert_allclose(FUNCTIONS[name](within), FUNCTIONS[name](f) / scale, rtol=1e-12)


@each_link
def test_laws_of_rates_and_totals_have_the_links_moments(name):
    link = get_link(name)
    law = link.rate_law(MEANS, np.sqrt(VARIANCES), scale=3.0)
    np.testing.assert_allclose(law.mean, 3 * np.asarray(link.mean(MEANS, VARIANCES)), rtol=1e-6)
    M, V = TOTALS[name]
    total = link.total_law.from_moments(M, V)
    np.testing.assert_allclose(total.mean, M, rtol=1e-9)
    np.testing.assert_allclose(total.std**2, V, rtol=1e-6)


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
