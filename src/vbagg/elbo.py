"""The objective: `ELBO = sum_a E_q log p(y_a | v) - KL(q || prior)`, MATH (13).

The residual, which landmarks do not explain, is integrated inside the likelihood: a total given the weights `v` has a
mean and a variance of its own, and `p(y_a | v)` is the density of the output with that extra variance. The paper's
approximations `taylor` and `bound` keep the paper's objective, MATH (5), in which the residual stays at its prior.

`Spec` fixes what is computed (it is a static argument of every compiled function), `Parameters` what is learnt
besides `q`. The data term is a sum over chunks of bags; the rest of a fit sees only `m`-sized arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from vbagg.chunks import Chunk
from vbagg.draws import draw_means
from vbagg.features import Basis, FeatureMap
from vbagg.likelihoods.base import Lemma1, Likelihood
from vbagg.links import Link
from vbagg.moments import (
    Collapsed,
    Pixels,
    collapsed_moments,
    logsumexp_bags,
    marginals,
    pixel_moments,
    stage_collapsed,
    stage_pixels,
    sum_tiles,
)
from vbagg.view import PLAIN, View

Array = jax.Array
APPROXIMATIONS = ("matched", "taylor", "bound", "montecarlo")
PAPERS = ("taylor", "bound")
"""Approximations of the paper, whose objective keeps the residual at its prior."""


@dataclass(frozen=True)
class Spec:
    """What is computed: latent structure, likelihood, link and approximation of `E log p(y | T)`."""

    feature_map: FeatureMap
    likelihood: Likelihood
    link: Link
    approximation: str
    inside: float = 1.0
    """Share of the residual's variance that is integrated inside the likelihood; the rest stays in the bound."""
    n_draws: int = 64
    view: View = PLAIN
    """How the outputs see the latent function."""

    def own(self, p: dict[str, Any]) -> dict[str, Any]:
        """Parameters of its likelihood, by their names there, among those of all kinds of outputs."""
        return {name: p[self.view.prefix + name] for name in self.likelihood.priors()}


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Parameters:
    """What the outer search learns, on the log scale: kernel and likelihood parameters, perhaps landmarks."""

    kernel: tuple[Any, ...]
    likelihood: dict[str, Any]
    landmarks: tuple[Any, ...]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Staged:
    """A chunk prepared for many evaluations with the same kernel parameters."""

    moments: Any
    """`Pixels` or `Collapsed`."""
    y: Array
    facts: dict[str, Array]
    valid: Array
    residual_scale: Array


def kl_divergence(mu: Array, factor: Array) -> Array:
    """`KL(N(mu, C C^T) || N(0, I))`, MATH (4)."""
    log_det = 2 * jnp.sum(jnp.log(jnp.abs(jnp.diagonal(factor))))
    return 0.5 * (jnp.sum(factor**2) + mu @ mu - len(mu) - log_det)


def stage(
    spec: Spec,
    basis: Basis,
    chunk: Chunk,
    collapse: bool,
    known: Array | None = None,
    p: dict[str, Array] | None = None,
) -> Staged:
    """Features of a chunk for given kernel parameters, collapsed to bag sums on demand.

    Those that are `known` already are taken over, for the sake of their slopes. A learnt slope of the view is in `p`.
    """
    moments: Pixels | Collapsed
    if collapse:
        moments = stage_collapsed(spec.feature_map, basis, chunk, quadratic=spec.link.bag_sums == "quadratic")
    else:
        moments = stage_pixels(spec.feature_map, basis, chunk, spec.approximation != "bound", known)
        moments = spec.view.seen(moments, p or {}, spec.feature_map.own_means)
    return Staged(moments, chunk.y, chunk.facts, chunk.valid, chunk.residual_scale)


def total_moments(link: Link, staged: Staged, mu: Array, factor: Array) -> tuple[Array, Array, Array]:
    """Mean of the totals of a staged chunk, their variance under the weights alone, and the residual's."""
    if isinstance(staged.moments, Collapsed):
        M, V, s = collapsed_moments(staged.moments, mu, factor)
    else:
        M, V, s = pixel_moments(link, staged.moments, mu, factor)
    return M, V, staged.residual_scale * s


def expected_log_prob(spec: Spec, p: dict[str, Array], staged: Staged, mu: Array, factor: Array) -> Array:
    """`E_q log p(y_a | v)` of each bag by the approximation of `spec`; `Sigma = factor factor^T`."""
    y, facts, likelihood = staged.y, staged.facts, spec.likelihood
    if spec.approximation == "bound":
        M, lower = lemma1(spec, staged.moments, mu, factor)
        return likelihood.bound(y, M, lower, facts, p)
    M, V, s = total_moments(spec.link, staged, mu, factor)
    if spec.approximation == "taylor":
        log_prob = lambda T: likelihood.log_prob(y, T, facts, p)  # noqa: E731
        slope = jax.grad(lambda T: jnp.sum(log_prob(T)))
        curvature = jax.jvp(slope, (M,), (jnp.ones_like(M),))[1]
        return log_prob(M) + 0.5 * (V + s) * curvature
    spread = spec.inside * s / likelihood.unit_variance(M, V)
    if spec.approximation == "montecarlo":
        totals = draw_means(spec.link, staged.moments, mu, factor, 0, spec.n_draws)
        return _with_control_variate(lambda T: likelihood.log_prob(y, T, facts, p, spread), M, totals)
    V = V + (1 - spec.inside) * s
    return likelihood.matched(y, M, V, spec.link.matched, facts, p, spread)


def data_term(spec: Spec, p: dict[str, Array], staged: Staged, mu: Array, factor: Array) -> Array:
    """Sum over the bags of a chunk."""
    return jnp.sum(staged.valid * expected_log_prob(spec, p, staged, mu, factor))


def lemma1(spec: Spec, staged: Pixels, mu: Array, factor: Array) -> tuple[Array, Lemma1]:
    """Bag means and the single-individual expectations that the likelihood's bound asks for."""
    mean, variance, _ = marginals(staged, mu, factor)
    mean, variance, weight = (a.astype(jnp.float64) for a in (mean, variance, staged.weight))
    tiles = staged.tiles
    M = sum_tiles(tiles, jnp.sum(weight * spec.link.mean(mean, variance), axis=-1))
    found = {}
    if "reciprocal" in spec.likelihood.bounds:
        # xi = E exp(-f)
        found["reciprocal"] = 1 / sum_tiles(tiles, jnp.sum(weight * jnp.exp(mean - variance / 2), axis=-1))
    if "log_total" in spec.likelihood.bounds:
        found["log_total"] = logsumexp_bags(tiles, spec.link.expected_log(mean, variance), weight)
    if "log_rest" in spec.likelihood.bounds:
        found["log_rest"] = logsumexp_bags(tiles, spec.link.expected_log(-mean, variance), weight)
    return M, Lemma1(**found)


def _with_control_variate(log_prob: Callable[[Array], Array], M: Array, totals: Array) -> Array:
    """`E l(T)` from draws, the linear part of `l` around `M` taken exactly."""
    value, slope = jax.jvp(log_prob, (M,), (jnp.ones_like(M),))
    return value + jnp.mean(jax.vmap(log_prob)(totals) - value - slope * (totals - M), axis=0)
