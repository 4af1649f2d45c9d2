"""Quantiles and tails of mixtures of Gaussians against SciPy's root finder, by NumPy and compiled."""

import jax
import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from vbagg.laws import LogitNormal, LogNormal, Mixture, Normal, SquaredNormal
from vbagg.laws.arrays import COMPILED, HOST
from vbagg.laws.gaussian import sigmoid_moments
from vbagg.laws.latent_mixtures import mixed_quantile, mixed_tail

LEVELS = (0.001, 0.025, 0.3, 0.5, 0.64, 0.975, 0.999)
K, N = 5, 12


def components(kind, rng):
    """Locations, spreads (k, n) and weights (k)."""
    location, spread, weight = rng.normal(0.7, 1.0, (K, N)), rng.gamma(5, 0.1, (K, N)), rng.dirichlet(np.ones(K))
    if kind == "alike":
        location = rng.normal(-2.0, 0.5, N) + rng.normal(0.0, 0.1, (K, N))
    elif kind == "far apart":
        location *= 30
    elif kind == "narrow":
        spread[:] = 1e-7
    elif kind == "unequal":
        spread = 10 ** rng.uniform(-6, 2, (K, N))
    elif kind == "one dominates":
        location, weight = location * 10, np.array([1 - 4e-4, *[1e-4] * (K - 1)])
    return location, spread, weight


KINDS = ("alike", "far apart", "narrow", "unequal", "one dominates")


def tail(location, spread, weight, x, upper, folded):
    """Of one row: P(f > x) or P(f <= x), of |f| if folded."""
    above, below = norm.sf(x, location, spread), norm.cdf(x, location, spread)
    if folded:
        other = norm.cdf(-x, location, spread)
        above, below = above + other, below - other
    return weight @ (above if upper else below)


def root(location, spread, weight, level, folded):
    """By SciPy, of the smaller tail, between all quantiles of components."""
    upper = level > 0.5
    reach = np.abs(location).max() + 8 * spread.max()
    sign, aim = (-1, 1 - level) if upper else (1, level)

    def miss(x):
        return sign * (tail(location, spread, weight, x, upper, folded) - aim)

    return brentq(miss, 0.0 if folded else -reach, reach, xtol=1e-14, rtol=1e-14, maxiter=500)


@pytest.mark.parametrize("folded", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_quantiles_are_roots(rng, x64, kind, folded):
    parts = components(kind, rng)
    location, spread, weight = parts
    compiled = jax.jit(lambda level: mixed_quantile(COMPILED, *parts, level, folded))
    for level in LEVELS:
        expected = [root(location[:, i], spread[:, i], weight, level, folded) for i in range(N)]
        here = mixed_quantile(HOST, *parts, level, folded)
        np.testing.assert_allclose(here, expected, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(compiled(level), here, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("folded", [False, True])
def test_tails(rng, x64, folded):
    location, spread, weight = components("far apart", rng)
    location = np.abs(location) if folded else location
    x = np.abs(rng.normal(0.0, 20.0, N)) if folded else rng.normal(0.0, 20.0, N)
    for upper in (False, True):
        expected = [tail(location[:, i], spread[:, i], weight, x[i], upper, folded) for i in range(N)]
        for arrays in (HOST, COMPILED):
            found = mixed_tail(arrays, location, spread, weight, x, upper, folded)
            np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-300)


def test_a_level_of_one_in_a_billion(rng, x64):
    location, spread, weight = components("alike", rng)
    for level in (1e-9, 1 - 1e-9):
        for folded in (False, True):
            x = mixed_quantile(HOST, location, spread, weight, level, folded)
            upper = level > 0.5
            found = mixed_tail(HOST, np.abs(location) if folded else location, spread, weight, x, upper, folded)
            np.testing.assert_allclose(found, 1 - level if upper else level, rtol=1e-7)


def test_point_masses_among_components(x64):
    location, weight = np.array([[1.0, -2.0], [3.0, 5.0], [4.0, 7.0]]), np.array([0.3, 0.3, 0.4])
    for arrays in (HOST, COMPILED):
        for level, expected in ((0.1, [1.0, -2.0]), (0.45, [3.0, 5.0]), (0.9, [4.0, 7.0])):
            found = mixed_quantile(arrays, location, np.zeros((3, 2)), weight, level, False)
            np.testing.assert_allclose(found, expected, rtol=1e-12)
        above = mixed_tail(arrays, location, np.zeros((3, 2)), weight, np.array([3.0, 5.0]), True, False)
        np.testing.assert_allclose(above, 0.4, rtol=1e-12)


@pytest.mark.parametrize("law", [Normal, LogNormal, LogitNormal, SquaredNormal])
def test_laws_of_a_mixture_share_the_scale_of_the_gaussian(rng, law, monkeypatch):
    location, spread, weight = components("far apart", rng)
    location /= 10
    mixture = Mixture([law(m, s, scale=3.0) for m, s in zip(location, spread, strict=True)], weight)
    together = mixture.quantile(LEVELS)
    monkeypatch.setattr("vbagg.laws.mixture._of_one_function", lambda laws: [])
    np.testing.assert_allclose(together, mixture.quantile(LEVELS), rtol=1e-9)


def test_laws_with_scales_of_their_own_do_not():
    mixture = Mixture([LogitNormal([0.2, 0.3], 0.5, scale=2.0), LogitNormal([0.1, -1.0], 0.5, scale=3.0)], [0.4, 0.6])
    np.testing.assert_allclose(mixture.cdf(mixture.quantile(0.7)), 0.7, rtol=1e-9)


def test_moments_of_a_sigmoid_are_those_of_its_law(x64):
    location = np.array([-4.0, 0.5, 3.0, 0.0, 1.0, -30.0])
    spread = np.array([0.3, 1.0, 2.0, 1.5, 1e-9, 20.0])
    mean, std = sigmoid_moments(COMPILED, location, spread)
    law = LogitNormal(location, spread)
    np.testing.assert_allclose(mean, law.mean, rtol=1e-12)
    np.testing.assert_allclose(std, law.std, rtol=1e-9)
