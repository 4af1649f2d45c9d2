"""Latent values worked out beforehand, and slopes through them, against compiled functions that do all of it."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_moments import FEATURE_MAP, JITTER, make_example

from vbagg.elbo import Spec
from vbagg.inference import Gaussian, Problem
from vbagg.inference.sums import Sums
from vbagg.latent import slope_in_factor, slopes_through_latent, with_latent
from vbagg.likelihoods import get_likelihood
from vbagg.links import get_link
from vbagg.moments import marginals


@pytest.fixture
def staged(x64, monkeypatch):
    monkeypatch.setattr("vbagg.chunks.TILE", 2)
    example = make_example()
    (chunk,) = (part for part in example.chunks("subset") if part.tiles is not None)
    return example, example.staged(chunk)


def test_latent_values_are_those_of_one_function(staged):
    example, pixels = staged
    known, F = with_latent(pixels, example.mu, example.factor)
    for found, expected in zip(
        marginals(known, 0.0, 0.0)[:2], marginals(pixels, example.mu, example.factor), strict=False
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(F, marginals(pixels, example.mu, example.factor)[2].reshape(F.shape), atol=1e-6)


def test_slopes_through_latent_values_are_those_of_one_function(staged, rng):
    example, pixels = staged
    by_mean, by_variance = rng.normal(size=(2, *pixels.weight.shape))

    def value(mu, factor):
        mean, variance, _ = marginals(pixels, mu, factor)
        return jnp.sum(by_mean * mean + by_variance * variance)

    d_mu, d_factor = jax.grad(value, argnums=(0, 1))(example.mu, example.factor)
    known, F = with_latent(pixels, example.mu, example.factor)
    slopes = type(known.latent)(by_mean.astype(np.float32), by_variance.astype(np.float32))
    found, product = slopes_through_latent(known, F, slopes)
    np.testing.assert_allclose(found, d_mu, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(slope_in_factor(example.factor, product), np.tril(d_factor), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("link", "approximation", "residual"),
    [("exp", "matched", "subset"), ("exp", "bound", "diagonal"), ("square", "taylor", "subset")],
)
def test_a_problem_is_the_same_inside_and_outside_of_compiled_functions(
    x64, monkeypatch, link, approximation, residual
):
    monkeypatch.setattr("vbagg.chunks.TILE", 2)
    example = make_example()
    example.max_elements = 400.0
    spec = Spec(FEATURE_MAP, get_likelihood("poisson"), get_link(link), approximation)
    chunks = example.chunks(residual)
    assert sum(chunk.tiles is not None for chunk in chunks) > 1
    problem = Problem.here(spec, chunks, example.landmarks, memory=1e9)
    q = Gaussian(example.mu, example.factor)
    at = partial(problem.at, example.parameters, (JITTER,) * 3)
    outside = at()
    found = outside.evaluate(q), outside.spreads(q), outside.elbo(q)
    assert any(map(problem.sums.objects[0]._outside, range(len(chunks))))
    monkeypatch.setattr(Sums, "_outside", lambda self, index: False)
    inside = at()
    expected = inside.evaluate(q), inside.spreads(q), inside.elbo(q)
    for ours, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4 * np.abs(theirs).max())
