"""Distributions that stand for totals: nodes against scipy, gradients against finite differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import betaln, digamma, expit, log_expit, polygamma

from vbagg.matched import Matched, MatchedBeta, MatchedGamma, MatchedLogNormal, MatchedNormal, beta_size

pytestmark = pytest.mark.usefixtures("x64")

MEANS = np.array([0.03, 1.7, 4000.0])
UNIT = (np.arange(2000) + 0.5) / 2000
# levels near both ends count too: the smoothstep of an even grid
LEVELS, LEVEL_WEIGHTS = UNIT**3 * (10 - 15 * UNIT + 6 * UNIT**2), 30 * (UNIT * (1 - UNIT)) ** 2 / 2000
RELATIVE_SD = [1e-4, 0.03, 0.4, 1.0, 1.4, 3.0]


def scipy_law(kind, M, V):
    if kind is MatchedNormal:
        return stats.norm(M, np.sqrt(V))
    if kind is MatchedLogNormal:
        spread = np.log1p(V / M**2)
        return stats.lognorm(np.sqrt(spread), scale=M * np.exp(-spread / 2))
    if kind is MatchedGamma:
        return stats.gamma(M**2 / V, scale=V / M)
    size = M * (1 - M) / V - 1
    return stats.beta(M * size, (1 - M) * size)


def check_moments(kind, M, V, rtol):
    T, weight = kind().nodes(M, V)
    T, weight = np.asarray(T), np.broadcast_to(weight, T.shape)
    np.testing.assert_allclose(weight.sum(axis=-1), 1.0, rtol=1e-13)
    assert (weight >= 0).all()
    mean = np.sum(weight * T, axis=-1)
    np.testing.assert_allclose(mean, M, rtol=rtol)
    np.testing.assert_allclose(np.sum(weight * (T - mean[:, None]) ** 2, axis=-1), V, rtol=100 * rtol)
    return T, weight


@pytest.mark.parametrize("relative_sd", RELATIVE_SD)
@pytest.mark.parametrize("kind", [MatchedNormal, MatchedLogNormal, MatchedGamma])
def test_nodes_have_the_mean_the_variance_and_the_distribution(kind, relative_sd):
    M, V = MEANS, (relative_sd * MEANS) ** 2
    # a gamma of shape 1/9 has half of its mass below 1e-3 of its mean
    T, weight = check_moments(kind, M, V, 1e-7 if relative_sd > 2 else 1e-11)
    for a in range(3):
        law = scipy_law(kind, M[a], V[a])
        smooth = np.cos((T[a] - M[a]) / np.sqrt(V[a])) if kind is MatchedNormal else T[a] / (T[a] + M[a])
        exact = law.ppf(LEVELS)
        value = np.cos((exact - M[a]) / np.sqrt(V[a])) if kind is MatchedNormal else exact / (exact + M[a])
        assert weight[a] @ smooth == pytest.approx(LEVEL_WEIGHTS @ value, abs=1e-6)


BETAS = [(0.4, 0.3), (0.4, 40.0), (0.003, 40.0), (0.03, 1.0), (0.03, 5.0), (0.75, 1.0), (0.75, 1e6), (0.97, 30.0)]


@pytest.mark.parametrize(("mean", "size"), BETAS)
def test_nodes_of_the_beta_have_its_moments_and_logarithms(mean, size):
    """Also where it has a peak at zero, as of rare positives, or at both ends."""
    M = np.array([mean])
    V = M * (1 - M) / (size + 1)
    np.testing.assert_allclose(beta_size(M, V), size, rtol=1e-9)
    T, weight = check_moments(MatchedBeta, M, V, 1e-8)
    first, second = mean * size, (1 - mean) * size
    found = weight[0] @ np.log(T[0])
    assert found == pytest.approx(digamma(first) - digamma(size), rel=1e-8)
    assert found == pytest.approx(float(MatchedBeta().expected_log(M, V)[0]), rel=1e-12)
    if second > 0.8:
        # closer to one than 1e-16 there is no number
        assert weight[0] @ np.log1p(-np.minimum(T[0], 1 - 1e-16)) == pytest.approx(
            digamma(second) - digamma(size), rel=1e-7
        )
    law = stats.beta(first, second)
    expected = integrate.quad(lambda level: np.cos(5 * law.ppf(level)), 0, 1, limit=200)[0]
    assert weight[0] @ np.cos(5 * T[0]) == pytest.approx(expected, abs=1e-6)


def test_variances_beyond_any_beta_are_cut():
    M = np.array([0.2, 0.2])
    np.testing.assert_allclose(beta_size(M, np.array([0.16, 9.0])), 1 / 0.99 - 1)
    T, weight = MatchedBeta().nodes(M, np.array([0.16, 9.0]))
    assert np.isfinite(T).all()
    np.testing.assert_allclose(np.sum(weight * T, axis=-1), M, rtol=1e-6)


@pytest.mark.parametrize("relative_sd", RELATIVE_SD)
@pytest.mark.parametrize("kind", [MatchedLogNormal, MatchedGamma])
def test_expected_logarithms_are_scipys(kind, relative_sd):
    M, V = MEANS, (relative_sd * MEANS) ** 2
    if kind is MatchedGamma:
        k = 1 / relative_sd**2
        # digamma(k) - log k; its series where the difference has no digits left
        exact = digamma(k) - np.log(k) if k < 1e4 else -1 / (2 * k) - 1 / (12 * k**2)
    else:
        exact = -np.log1p(relative_sd**2) / 2
    np.testing.assert_allclose(kind().expected_log(M, V) - np.log(M), exact, rtol=1e-9, atol=1e-14)
    np.testing.assert_allclose(
        Matched.expected_log(kind(), M, V), kind().expected_log(M, V), rtol=1e-6 if relative_sd > 2 else 1e-11
    )


@pytest.mark.parametrize("relative_sd", [0.03, 0.4, 1.0, 1.4, 3.0])
@pytest.mark.parametrize("kind", [MatchedLogNormal, MatchedGamma, MatchedBeta])
def test_expected_log1p_is_quadrature(kind, relative_sd):
    c = np.array([2.5, 0.3, 0.01])
    M = np.array([0.2, 0.6, 0.93]) if kind is MatchedBeta else MEANS
    V = relative_sd**2 * 0.05 * M * (1 - M) if kind is MatchedBeta else (relative_sd * MEANS) ** 2
    expected = []
    u = np.linspace(-600, 600, 200_001)  # log T / M, or log T / (1 - T)
    for a in range(3):
        if kind is MatchedBeta:
            size = M[a] * (1 - M[a]) / V[a] - 1
            first, second = M[a] * size, (1 - M[a]) * size
            density = np.exp(first * log_expit(u) + second * log_expit(-u) - betaln(first, second))
            expected.append(np.trapezoid(np.log1p(c[a] * expit(u)) * density, u))
        else:
            inside = u < 30
            T = M[a] * np.exp(u[inside])
            density = scipy_law(kind, M[a], V[a]).pdf(T) * T
            expected.append(np.trapezoid(np.log1p(c[a] * T) * density, u[inside]))
    np.testing.assert_allclose(kind().expected_log1p(M, V, c), expected, rtol=1e-6)


@pytest.mark.parametrize("relative_sd", [0.01, 0.5, 1.3])
@pytest.mark.parametrize("kind", [MatchedNormal, MatchedLogNormal, MatchedGamma, MatchedBeta])
def test_gradients_of_expectations_match_finite_differences(kind, relative_sd):
    M = np.array([0.2, 0.6, 0.93]) if kind is MatchedBeta else np.array([0.3, 1.7, 9.0])
    V = relative_sd**2 * (0.3 * M * (1 - M) if kind is MatchedBeta else M**2)

    def value(M, V):
        T, weight = kind().nodes(M, V)
        return jnp.sum(weight * (jnp.cos(0.3 * T) if kind is MatchedNormal else T * jnp.log1p(0.7 * T)))

    by_mean, by_variance = (np.asarray(g) for g in jax.grad(value, argnums=(0, 1))(M, V))
    for a in range(3):
        step = 1e-4 * np.eye(3)[a]
        expected = float(value(M + step * M, V) - value(M - step * M, V)) / (2e-4 * M[a])
        assert by_mean[a] == pytest.approx(expected, rel=1e-5, abs=1e-6)
        expected = float(value(M, V + step * V) - value(M, V - step * V)) / (2e-4 * V[a])
        assert by_variance[a] == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_gradients_of_expected_logarithms_are_closed_forms():
    """`d/dM` and `d/dV` of `digamma(k) - log k + log M`, `k = M^2 / V`, and of the log-normal's."""
    M, V = np.array([0.3, 1.7, 9.0]), np.array([0.09, 0.4, 50.0])
    k = M**2 / V
    outer = polygamma(1, k) - 1 / k
    by_mean, by_variance = jax.grad(lambda *a: MatchedGamma().expected_log(*a).sum(), argnums=(0, 1))(M, V)
    np.testing.assert_allclose(by_mean, 1 / M + outer * 2 * M / V, rtol=1e-9)
    np.testing.assert_allclose(by_variance, -outer * k / V, rtol=1e-9)
    by_mean, by_variance = jax.grad(lambda *a: MatchedLogNormal().expected_log(*a).sum(), argnums=(0, 1))(M, V)
    np.testing.assert_allclose(by_mean, 1 / M + V / M**3 / (1 + V / M**2), rtol=1e-12)
    np.testing.assert_allclose(by_variance, -0.5 / (M**2 + V), rtol=1e-12)


def test_gradients_stay_finite_at_extreme_shapes():
    for kind, M, V in (
        (MatchedGamma, [1e-4, 3.0, 1e7], [1e-6, 1e-12, 4e14]),
        (MatchedLogNormal, [1e-4, 3.0, 1e7], [1e-6, 1e-12, 4e14]),
        (MatchedBeta, [1e-5, 0.5, 0.9999], [9e-6, 1e-12, 5e-5]),
    ):
        by_mean, by_variance = jax.grad(lambda M, V, kind=kind: kind().expected_log(M, V).sum(), argnums=(0, 1))(
            np.array(M), np.array(V)
        )
        assert np.isfinite(by_mean).all()
        assert np.isfinite(by_variance).all()


def test_a_family_without_nodes_says_so():
    with pytest.raises(NotImplementedError):
        Matched().expected_log(MEANS, MEANS)
