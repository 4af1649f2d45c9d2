"""Compiled passes over one chunk of bags: what sums over chunks are made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from vbagg.chunks import Chunk
from vbagg.compiling import jit
from vbagg.elbo import PAPERS, Spec, Staged, data_term, expected_log_prob, stage, total_moments
from vbagg.features import Basis, FeatureMap, feature_count, make_basis
from vbagg.moments import Collapsed, Latent, jacobian, moments_given_weights

Array = jax.Array

LITTLE_ROOM = 1.5e5
"""Features of individuals in a piece of a chunk that is worked on at a time. Slopes take some 15 arrays of them: few
enough to stay near the processor, and for the C library to keep their memory for the next call. Beyond 32 MB it asks
the system anew each time, which zeroes every page."""


def _pieces(bags: Any, n_features: int) -> int:
    """Into how many runs of as many bags a chunk, staged or not, is cut to be worked on one after the other."""
    n_bags, wanted = len(bags.weight), bags.weight.size * n_features / LITTLE_ROOM
    if bags.tiles is not None or wanted <= 1:
        return 1
    return next(number for number in range(1, n_bags + 1) if n_bags % number == 0 and number >= min(wanted, n_bags))


def _summed(function: Callable[[Any], tuple[Any, Any]], bags: Any, pieces: int) -> tuple[Any, Any]:
    """Sum of what a function gives first of each piece of arrays whose first axis is bags, and all that it gives then.

    The latter are arrays whose first axis is bags, too.
    """
    if pieces == 1:
        return function(bags)
    cut = jax.tree.map(lambda values: values.reshape(pieces, -1, *values.shape[1:]), bags)

    def add(total: Any, piece: Any) -> tuple[Any, Any]:
        own, of_bags = function(piece)
        return jax.tree.map(jnp.add, total, own), of_bags

    shapes, _ = jax.eval_shape(function, jax.tree.map(lambda values: values[0], cut))
    total, of_bags = jax.lax.scan(add, jax.tree.map(lambda of: jnp.zeros(of.shape, of.dtype), shapes), cut)
    return total, jax.tree.map(lambda values: values.reshape(-1, *values.shape[2:]), of_bags)


@jit(static_argnames=("spec", "collapse"))
def compiled_stage(spec: Spec, basis: Basis, chunk: Chunk, collapse: bool, p: dict[str, Any] | None = None) -> Staged:
    """`stage`, compiled."""
    pieces = _pieces(chunk, feature_count(basis.landmarks, spec.feature_map))
    return _summed(lambda piece: (None, stage(spec, basis, piece, collapse, p=p)), chunk, pieces)[1]


@jit(static_argnames="spec")
def terms_and_slopes(
    spec: Spec, p: dict[str, Any], staged: Staged, mu: Array, factor: Array
) -> tuple[tuple[Any, ...], Array]:
    """Slopes of the data term in mean, factor and latent values where these are known, and the term of each bag."""

    def value(mu: Array, factor: Array, latent: Latent | None, staged: Staged) -> tuple[Array, Array]:
        within = staged if latent is None else replace(staged, moments=replace(staged.moments, latent=latent))
        terms = staged.valid * expected_log_prob(spec, spec.own(p), within, mu, factor)
        return jnp.sum(terms), terms

    def slopes(staged: Staged) -> tuple[tuple[Any, ...], Array]:
        latent = getattr(staged.moments, "latent", None)
        return jax.grad(value, argnums=(0, 1, 2), has_aux=True)(mu, factor, latent, staged)

    pieces = 1 if isinstance(staged.moments, Collapsed) else _pieces(staged.moments, len(mu))
    return _summed(slopes, staged, pieces)


@jit(static_argnames="spec")
def spreads(spec: Spec, p: dict[str, Any], staged: Staged, mu: Array, factor: Array) -> Array:
    """Sd of each total's residual and of its output's noise (b, 2), relative to the total."""
    p = spec.own(p)
    M, _, s = total_moments(spec.link, staged, mu, factor)
    scale = spec.likelihood.mean(M, staged.facts, p)
    slope = scale / M
    noise = spec.likelihood.variance(M, staged.facts, p)
    return jnp.stack([slope * jnp.sqrt(s), jnp.sqrt(noise)], axis=-1) / jnp.abs(scale)[:, None]


@jit(static_argnames="spec")
def value(spec: Spec, p: dict[str, Any], staged: Staged, mu: Array, factor: Array) -> Array:
    """The data term."""
    return data_term(spec, spec.own(p), staged, mu, factor)


@jit(static_argnames="spec")
def gauss_newton(spec: Spec, p: dict[str, Any], staged: Staged, mu: Array) -> tuple[Array, Array, Array]:
    """Log density of the outputs given the weights, its slope, and the Fisher information."""
    p = spec.own(p)

    def log_prob(v: Array) -> tuple[Array, tuple[Array, Array]]:
        T, spread = _given_weights(spec, staged, v)
        return jnp.sum(staged.valid * spec.likelihood.log_prob(staged.y, T, staged.facts, p, spread)), (T, spread)

    (value, found), slope = jax.value_and_grad(log_prob, has_aux=True)(mu)
    return value, slope, _fisher_information(spec, p, staged, mu, *found)


@jit(static_argnames="spec")
def information(spec: Spec, p: dict[str, Any], staged: Staged, mu: Array) -> Array:
    """The Fisher information alone."""
    return _fisher_information(spec, spec.own(p), staged, mu, *_given_weights(spec, staged, mu))


@jit(static_argnames="spec")
def information_under(spec: Spec, p: dict[str, Any], staged: Staged, mu: Array, factor: Array) -> Array:
    """What outputs tell a posterior of the weights: the Fisher information at its mean, or on average over it."""
    p, (T, spread) = spec.own(p), _given_weights(spec, staged, mu)
    M, V, s = total_moments(spec.link, staged, mu, factor)
    V = V + (1 - spec.inside) * s
    found = spec.likelihood.information(T, M, V, spec.link, staged.facts, p, spread)
    return _by_weights(spec, staged, mu, found)


def _given_weights(spec: Spec, staged: Staged, v: Array) -> tuple[Array, Array]:
    """Totals and their relative residual variance given the weights."""
    T, s = moments_given_weights(spec.link, staged.moments, v)
    inside = 0.0 if spec.approximation in PAPERS else spec.inside
    return T, inside * staged.residual_scale * s / spec.likelihood.unit_variance(T)


def _fisher_information(spec: Spec, p: dict[str, Any], staged: Staged, mu: Array, T: Array, spread: Array) -> Array:
    return _by_weights(spec, staged, mu, spec.likelihood.fisher(T, staged.facts, p, spread))


def _by_weights(spec: Spec, staged: Staged, mu: Array, of_totals: Array) -> Array:
    """Information about the weights from that about the total of each bag."""
    J = jacobian(spec.link, staged.moments, mu)
    return (J.T * (staged.valid * of_totals)) @ J


@jit(static_argnames="spec")
def basis_slopes(
    spec: Spec, basis: Basis, p: dict[str, Any], chunk: Chunk, mu: Array, factor: Array, known: Array | None = None
) -> tuple[Basis, dict[str, Array]]:
    """Slopes of the data term in the basis and in the likelihood's parameters, perhaps with `known` features."""

    # one pass: summing over individuals directly is cheaper than differentiating bag sums
    def slopes(piece: tuple[Chunk, Array | None]) -> tuple[Basis, dict[str, Array]]:
        def value(basis: Basis, p: dict[str, Any]) -> Array:
            return data_term(spec, spec.own(p), stage(spec, basis, piece[0], False, piece[1], p), mu, factor)

        return jax.grad(value, argnums=(0, 1))(basis, p)

    return _summed(lambda piece: (slopes(piece), None), (chunk, known), _pieces(chunk, len(mu)))[0]


@jit(static_argnums=0)
def through_basis(
    feature_map: FeatureMap, kernel: tuple[Any, ...], landmarks: tuple[Any, ...], jitter: tuple[Any, ...], slopes: Basis
) -> tuple[Any, ...]:
    """Slopes in kernel parameters and landmarks from those in the basis that they make."""

    def basis(kernel: tuple[Any, ...], landmarks: tuple[Any, ...]) -> Basis:
        return make_basis(feature_map, kernel, landmarks, jitter)

    return jax.vjp(basis, kernel, landmarks)[1](slopes)
