import math
from functools import cache
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
from scipy import integrate

from vbagg import special

pytestmark = pytest.mark.usefixtures("x64")

MEANS = np.array([-14.0, -4.3, -1.1, -0.2, 0.0, 0.6, 2.7, 8.5])
STANDARD_DEVIATIONS = np.array([1e-3, 0.2, 0.9, 2.2, 4.0, 12.0])
LOGISTIC_FAMILY = [
    (special.expected_log_sigmoid, scipy.special.log_expit),
    (special.expected_sigmoid, scipy.special.expit),
    (special.expected_sigmoid_slope, lambda f: scipy.special.expit(f) * scipy.special.expit(-f)),
]
PAIR_FUNCTIONS = [function for function, _ in LOGISTIC_FAMILY] + [special.expected_log_square]


def gaussian_mean(function, mean, sd):
    """Adaptive quadrature of E function(f), split where a logistic bends."""
    edges = np.unique(np.clip(np.array([-38.0, 38.0, 0.0, *((np.array([-8, 0, 8]) - mean) / sd)]), -38, 38))
    density = lambda z: np.exp(-z * z / 2) / np.sqrt(2 * np.pi)  # noqa: E731
    pieces = [
        integrate.quad(lambda z: function(mean + sd * z) * density(z), a, b, epsabs=1e-13, limit=200)[0]
        for a, b in pairwise(edges)
    ]
    return sum(pieces)


def gamma_mean_log1p(mean, shape, c):
    """Adaptive quadrature of E log(1 + c T) in u = log(T / mean)."""
    if shape < 100:
        log_constant = shape * np.log(shape) - shape - scipy.special.gammaln(shape)
    else:
        log_constant = 0.5 * np.log(shape / (2 * np.pi)) - 1 / (12 * shape) + 1 / (360 * shape**3)

    def integrand(u):
        # u - expm1(u), by its series near zero
        gap = u - np.expm1(u) if abs(u) > 0.02 else -(u**2) * (1 / 2 + u / 6 + u**2 / 24 + u**3 / 120 + u**4 / 720)
        return np.log1p(c * mean * np.exp(u)) * np.exp(log_constant + shape * gap)

    left = -40 / (1 + shape) - 12 / np.sqrt(1 + shape) - max(np.log(c * mean), 0) / (1 + shape)
    right = np.log1p(12 / np.sqrt(shape) + 60 / shape)
    edges = np.linspace(left, right, 9)
    return sum(integrate.quad(integrand, a, b, epsabs=0, epsrel=1e-11, limit=200)[0] for a, b in pairwise(edges))


@cache
def gradients(function):
    """Compiled elementwise derivatives in both arguments."""
    return jax.jit(jax.vmap(jax.grad(function, (0, 1))))


def central_difference(function, x, step):
    """Fourth-order central difference."""
    return (8 * (function(x + step) - function(x - step)) - function(x + 2 * step) + function(x - 2 * step)) / (
        12 * step
    )


def test_dawson_matches_scipy_from_tiny_to_huge():
    x = np.concatenate([np.linspace(-50, 50, 20_011), np.logspace(-300, 300, 997), [0.0]])
    np.testing.assert_allclose(special.dawson(x), scipy.special.dawsn(x), rtol=1e-12)


def test_dawson_solves_its_differential_equation():
    x = np.linspace(-9, 11, 301)
    slope = jax.jit(jax.vmap(jax.grad(special.dawson)))(x)
    np.testing.assert_allclose(slope, 1 - 2 * x * scipy.special.dawsn(x), atol=1e-12)
    curvature = jax.jit(jax.vmap(jax.grad(jax.grad(special.dawson))))(x)
    np.testing.assert_allclose(curvature, -2 * scipy.special.dawsn(x) - 2 * x * slope, atol=1e-11)


def test_dawson_slope_keeps_relative_accuracy_at_large_arguments():
    for dtype, tolerance in [(np.float64, 1e-8), (np.float32, 1e-5)]:
        x = np.array([300.0, 5000.0], dtype)
        slope = jax.jit(jax.vmap(jax.grad(special.dawson)))(x)
        np.testing.assert_allclose(slope, -(1 + 1.5 / x**2) / (2 * x**2), rtol=tolerance)


@pytest.mark.parametrize("ratio", [0.0, 1e-4, 0.3, 1.0, 4.7, 9.0, 31.0, 120.0])
def test_expected_log_square_matches_mixture_of_digammas(ratio):
    # xi = log(2 S) + sum_j Pois(j; m^2/2S) digamma(j + 1/2), MATH section 4
    variance = 0.37
    mean = -np.sqrt(2 * variance * ratio)
    j = np.arange(600)
    log_weight = scipy.special.xlogy(j, ratio) - ratio - scipy.special.gammaln(j + 1)
    expected = np.log(2 * variance) + np.sum(np.exp(log_weight) * scipy.special.digamma(j + 0.5))
    assert special.expected_log_square(mean, variance) == pytest.approx(expected, abs=1e-10)


def test_expected_log_square_matches_quadrature():
    mean, sd = 0.8, 1.3
    density = lambda f: np.exp(-0.5 * ((f - mean) / sd) ** 2) / (sd * np.sqrt(2 * np.pi))  # noqa: E731
    # f = +-exp(u) takes the singularity at zero to minus infinity
    integrand = lambda u: 2 * u * np.exp(u) * (density(np.exp(u)) + density(-np.exp(u)))  # noqa: E731
    expected = integrate.quad(integrand, -45, 3, limit=400, epsabs=1e-12)[0]
    assert special.expected_log_square(mean, sd**2) == pytest.approx(expected, abs=1e-10)


def test_expected_log_square_for_small_and_zero_variance():
    mean = -1.7
    ratio = np.array([0.0, 1e-12, 1e-6, 1e-3])
    expected = np.log(mean**2) - ratio - 1.5 * ratio**2 - 5 * ratio**3
    np.testing.assert_allclose(special.expected_log_square(mean, ratio * mean**2), expected, atol=1e-10)
    by_mean, by_variance = jax.grad(special.expected_log_square, (0, 1))(mean, 0.0)
    assert by_mean == pytest.approx(2 / mean)
    assert by_variance == pytest.approx(-1 / mean**2)
    assert special.expected_log_square(0.0, 0.0) == -np.inf


def test_expected_log_square_derivatives():
    mean, variance = np.array([-3.1, 0.0, 0.4, 6.0]), np.array([0.83, 0.2, 1.9, 4.4])
    value = special.expected_log_square
    gradient = jax.jit(lambda m, v: jnp.stack(jax.vmap(jax.grad(value, (0, 1)))(m, v)))
    by_mean, by_variance = gradient(mean, variance)
    dawson = scipy.special.dawsn(mean / np.sqrt(2 * variance))
    np.testing.assert_allclose(by_mean, 2 * np.sqrt(2 / variance) * dawson, atol=1e-12)
    np.testing.assert_allclose(by_mean, central_difference(lambda m: value(m, variance), mean, 1e-3), atol=1e-8)
    np.testing.assert_allclose(by_variance, central_difference(lambda v: value(mean, v), variance, 1e-3), atol=1e-8)

    ones = np.ones_like(mean)
    hessian_by_mean = jax.jvp(lambda m: gradient(m, variance), (mean,), (ones,))[1]
    hessian_by_variance = jax.jvp(lambda v: gradient(mean, v), (variance,), (ones,))[1]
    expected = central_difference(lambda m: gradient(m, variance), mean, 1e-3)
    np.testing.assert_allclose(hessian_by_mean, expected, atol=1e-7)
    expected = central_difference(lambda v: gradient(mean, v), variance, 1e-3)
    np.testing.assert_allclose(hessian_by_variance, expected, atol=1e-7)
    np.testing.assert_allclose(hessian_by_mean[0], 2 * by_variance, atol=1e-10)


@pytest.mark.parametrize(("function", "reference"), LOGISTIC_FAMILY)
def test_logistic_means_match_quadrature(function, reference):
    grid = np.meshgrid(MEANS, STANDARD_DEVIATIONS)
    expected = np.vectorize(lambda m, sd: gaussian_mean(reference, m, sd))(*grid)
    np.testing.assert_allclose(function(grid[0], grid[1] ** 2), expected, rtol=1e-11, atol=2e-9)


@pytest.mark.parametrize(("function", "reference"), LOGISTIC_FAMILY)
def test_logistic_means_at_zero_variance_are_pointwise(function, reference):
    mean, zero = np.array([-14.0, 0.2, 3.7]), np.zeros(3)
    np.testing.assert_allclose(function(mean, zero), reference(mean), rtol=1e-12)
    assert np.all(np.isfinite(gradients(function)(mean, zero)))


def test_rare_events_keep_relative_accuracy():
    # far in the tail sigma(f) = exp(f), a log-normal mean
    mean, variance = np.array([-19.0, -27.0]), np.array([2.0, 0.5])
    expected = np.exp(mean + variance / 2)
    for dtype, tolerance in [(np.float64, 1e-6), (np.float32, 2e-4)]:
        arguments = mean.astype(dtype), variance.astype(dtype)
        np.testing.assert_allclose(special.expected_sigmoid(*arguments), expected, rtol=tolerance)
        np.testing.assert_allclose(special.expected_sigmoid_slope(*arguments), expected, rtol=tolerance)


@pytest.mark.parametrize("function", [function for function, _ in LOGISTIC_FAMILY])
def test_logistic_means_match_finite_differences(function):
    mean, variance = np.array([-3.0, 0.3, 1.9]), np.array([0.4, 5.0, 14.0])
    by_mean, by_variance = gradients(function)(mean, variance)
    np.testing.assert_allclose(by_mean, central_difference(lambda m: function(m, variance), mean, 1e-3), atol=1e-8)
    np.testing.assert_allclose(by_variance, central_difference(lambda v: function(mean, v), variance, 1e-3), atol=1e-8)


def test_logistic_means_are_each_others_derivatives():
    mean, variance = np.array([-2.0, 0.3, 4.0]), np.array([0.5, 3.0, 9.0])
    slope = special.expected_sigmoid_slope(mean, variance)
    np.testing.assert_allclose(gradients(special.expected_sigmoid)(mean, variance)[0], slope, rtol=1e-12)
    by_mean, by_variance = gradients(special.expected_log_sigmoid)(mean, variance)
    np.testing.assert_allclose(by_mean, 1 - special.expected_sigmoid(mean, variance), atol=1e-9)
    np.testing.assert_allclose(by_variance, -slope / 2, rtol=1e-12)


def test_logistic_means_never_hold_a_nodes_by_rows_array():
    n = 5003
    gradient = jax.grad(lambda m, v: special.expected_sigmoid(m, v).sum(), (0, 1))
    text = str(jax.make_jaxpr(gradient)(jnp.zeros(n), jnp.ones(n)))
    assert f"f64[{n}]" in text
    assert f",{n}]" not in text
    assert f"[{n}," not in text


@pytest.mark.parametrize("shape", [1e-3, 0.05, 0.8, 1.0, 3.0, 40.0, 1e3, 1e6, 1e8])
def test_gamma_expectation_log1p_matches_quadrature(shape):
    mean = 3.7
    c = np.array([1e-8, 1e-3, 0.4, 1.0, 25.0, 1e4, 1e8]) / mean
    expected = [gamma_mean_log1p(mean, shape, value) for value in c]
    np.testing.assert_allclose(special.gamma_expectation_log1p(mean, shape, c), expected, rtol=2e-9)
    single = special.gamma_expectation_log1p(np.float32(mean), np.float32(shape), c.astype(np.float32))
    np.testing.assert_allclose(single, expected, rtol=2e-5)


def test_gamma_expectation_log1p_with_exponential_law():
    # shape 1: E log(1 + c T) = exp(1/a) E1(1/a), a = c mean
    a = np.array([0.05, 0.9, 6.0, 800.0])
    expected = np.exp(1 / a) * scipy.special.exp1(1 / a)
    np.testing.assert_allclose(special.gamma_expectation_log1p(a / 0.3, 1.0, 0.3), expected, rtol=1e-10)


@pytest.mark.parametrize("argument", [0, 1, 2])
def test_gamma_expectation_log1p_derivatives(argument):
    mean, shape = (grid.ravel() for grid in np.meshgrid([2e-4, 1.3, 6e4], [2e-3, 0.6, 7.0, 900.0, 1e5]))
    arguments = [mean, shape, np.full_like(mean, 0.7)]
    function = jax.jit(special.gamma_expectation_log1p)

    def scaled(log_factor):
        return function(*(x * np.exp(log_factor) if i == argument else x for i, x in enumerate(arguments)))

    gradient = jax.jit(jax.vmap(jax.grad(special.gamma_expectation_log1p, argument)))(*arguments)
    error = arguments[argument] * gradient - central_difference(scaled, 0.0, 3e-3)
    np.testing.assert_array_less(np.abs(error) / scaled(0.0), 1e-8)


def test_gamma_expectation_log1p_large_shape_slope_in_single_precision():
    # E log(1 + c T) ~ log(1 + a) - (a/(1 + a))^2 / (2 k)
    mean, shape, c = np.float32(2.5), np.float32(3e5), np.float32(0.8)
    a = 2.0
    slope = jax.grad(special.gamma_expectation_log1p, 1)(mean, shape, c)
    np.testing.assert_allclose(slope, (a / (1 + a)) ** 2 / (2 * 3e5**2), rtol=1e-4)


def test_gamma_expectation_log1p_without_dispersion_is_zero():
    value, slope = jax.value_and_grad(special.gamma_expectation_log1p, 2)(4.2, 0.7, 0.0)
    assert value == 0
    assert slope == pytest.approx(4.2)


def test_digamma_minus_log():
    k = np.logspace(-6, 1.8, 400)
    np.testing.assert_allclose(special.digamma_minus_log(k), scipy.special.digamma(k) - np.log(k), rtol=1e-12)
    single = special.digamma_minus_log(k.astype(np.float32))
    np.testing.assert_allclose(single, scipy.special.digamma(k) - np.log(k), rtol=1e-5)
    large = np.array([3e4, 1e7, 1e14])
    np.testing.assert_allclose(special.digamma_minus_log(large), -1 / (2 * large) - 1 / (12 * large**2), rtol=1e-14)


def test_digamma_minus_log_derivatives():
    k = np.concatenate([np.logspace(-3, 2, 100), [7.999999, 8.0, 8.000001]])
    slope = jax.jit(jax.vmap(jax.grad(special.digamma_minus_log)))(k)
    np.testing.assert_allclose(slope, scipy.special.polygamma(1, k) - 1 / k, rtol=1e-11)
    curvature = jax.jit(jax.vmap(jax.grad(jax.grad(special.digamma_minus_log))))(k)
    np.testing.assert_allclose(curvature, scipy.special.polygamma(2, k) + 1 / k**2, rtol=1e-9)


@pytest.mark.parametrize("k", [1e-9, 0.03, 1.7, 99.9, 100.1, 3e4, 1e8, 1e12])
def test_log_rising_is_a_sum_of_logarithms_for_whole_numbers(k):
    """`k (k + 1) ... (k + y - 1) / k^y`, summed without rounding."""
    y = np.array([0.0, 1.0, 2.0, 5.0, 60.0, 4000.0])
    exact = [math.fsum(math.log1p(j / k) for j in range(int(count))) for count in y]
    np.testing.assert_allclose(special.log_rising(y, k), exact, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("y", [0.3, 2.5, 71.25])
def test_log_rising_of_broken_numbers_follows_its_recurrence(y):
    """One more factor: `f(y + 1) = f(y) + log(1 + y/k)`; and where nothing cancels it is scipy's."""
    k = np.array([1e-3, 0.7, 40.0, 99.99, 100.01, 5e5])
    found = np.asarray(special.log_rising(y + 1, k) - special.log_rising(y, k))
    np.testing.assert_allclose(found, np.log1p(y / k), rtol=1e-9, atol=1e-12)
    direct = scipy.special.gammaln(k + y) - scipy.special.gammaln(k) - y * np.log(k)
    np.testing.assert_allclose(special.log_rising(y, k), direct, rtol=1e-9, atol=1e-8)


def test_log_rising_derivatives():
    """Digammas, on both sides of the change to Stirling's series."""
    y, k = np.array([3.0, 40.0, 7.0, 900.0]), np.array([0.4, 99.0, 101.0, 5000.0])
    by_y, by_k = jax.grad(lambda y, k: special.log_rising(y, k).sum(), argnums=(0, 1))(y, k)
    psi = scipy.special.digamma
    np.testing.assert_allclose(by_y, psi(k + y) - np.log(k), rtol=1e-9)
    np.testing.assert_allclose(by_k, psi(k + y) - psi(k) - y / k, rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("function", PAIR_FUNCTIONS)
def test_pairs_broadcast_and_keep_dtype(function):
    mean, variance = np.array([[-1.2], [0.4]]), np.array([0.3, 1.5, 8.0])
    double = function(mean, variance)
    assert double.shape == (2, 3)
    assert double.dtype == np.float64
    single = jax.jit(jax.vmap(function, (0, None)))(mean[:, 0].astype(np.float32), variance.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, double, rtol=5e-6, atol=1e-6)


@pytest.mark.parametrize("function", [special.dawson, special.digamma_minus_log])
def test_single_argument_functions_keep_dtype(function):
    x = np.array([[0.02, 0.7, 3.0], [11.0, 200.0, 5e4]])
    double = function(x)
    assert double.dtype == np.float64
    single = jax.jit(jax.vmap(function))(x.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, double, rtol=5e-6)
