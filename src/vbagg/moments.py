"""From landmark features to the mean and variance of each bag's total under `q(v) = N(mu, Sigma)`.

For fixed kernel parameters a chunk is staged once and then evaluated for many `q`:

- `Pixels` keeps the features of every individual (any link);
- `Collapsed` keeps per-bag sums from which the square and identity links need no individual (MATH (9)).

With `a_ij = A_i Sigma A_j^T`, `S_ij = R_ij + a_ij` and `cov` the link's covariance of two rates,

    V_q = sum_ij w_i w_j d_i d_j a_ij + sum_(i,j) in pairs w_i w_j (cov(a_ij) - d_i d_j a_ij)
    s   = sum_(i,j) in pairs w_i w_j (cov(S_ij) - cov(a_ij))

where `d` are the slopes, so that the first sum needs no pairs: `V_q` is what the uncertain weights make of the variance
`V = V_q + s` of a total, and `s` what the residual makes of it (MATH (12), (13)). The pairs are all of the bag
(`exact`), `i = j` (`diagonal`), or `i = j` and an unbiased estimate of the others from fixed draws with probability
proportional to weight (`subset`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp

from vbagg.chunks import Chunk, Groups, Tiles
from vbagg.features import (
    Basis,
    FeatureMap,
    features,
    known_features,
    own_residual,
    residual_block,
    residual_diagonal,
)
from vbagg.links import Link

Array = jax.Array
FAST = jnp.float32
TINY = 1e-12


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Latent:
    """Latent values (t, n) of individuals: mean, and variance under the weights alone."""

    mean: Array
    explained: Array
    F: Array | None = None
    """(t, n, m) `A chol(Sigma)`, where no slopes are asked for."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class WithDrawn:
    """What residual covariances (t, n, j) of all individuals with the drawn ones of their bag are made of."""

    kernel: Array
    """(t, n, j) before landmarks explain them."""
    drawn: Array
    """(b, j, m) features of the drawn individuals, zero in columns that leave no residual."""
    explained: Array
    """(t, n) what landmarks explain of each individual's own variance."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Pixels:
    """Features and residuals of the individuals of a chunk, tile by tile, in float32."""

    A: Array
    """(t, n, m)"""
    known: Array
    weight: Array
    residual_diagonal: Array
    """(t, n) `R_ii` of a single individual."""
    own_residual: Array
    """The same averaged over the pairs of individuals that a row stands for."""
    block_residual: Any
    """(b, j, j) `R_ij` among all individuals (exact) or among the drawn ones (subset)."""
    block_weight: Any
    """(b, j, j) weights of pairs of drawn individuals."""
    drawn: Array | None
    tiles: Tiles | None
    residual: str = field(metadata={"static": True})
    latent: Latent | None = None
    """Where it was worked out before, by the `mu` and `factor` that moments are asked for."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Collapsed:
    """Bag sums over individuals, the known part of `f` appended to the features: `(A, known) (v, 1)`."""

    g: Array
    """(b, m+1) `A^T P 1`."""
    s: Array
    """(b) sum of `R_ij` over weighted pairs."""
    G: Any = None
    """(b, m+1, m+1) `A^T P A`; this and the following for the square link."""
    H: Any = None
    """(b, m+1, m+1) `A^T P R P A`."""
    r: Any = None
    """(b) `tr(P R)`."""
    t: Any = None
    """(b) `tr((P R)^2)`."""


def sum_tiles(tiles: Tiles | None, values: Array) -> Array:
    """Sums of bags (b, ...) from those of their tiles (t, ...)."""
    if tiles is None:
        return values
    return jax.ops.segment_sum(values, tiles.owner, len(tiles.first), indices_are_sorted=True)


def logsumexp_bags(tiles: Tiles | None, values: Array, weight: Array) -> Array:
    """`log sum_i w_i exp(x_i)` of each bag from values and weights (t, n)."""
    if tiles is None:
        return jax.nn.logsumexp(values, b=weight, axis=-1)
    inside = jnp.where(weight > 0, values, -jnp.inf)
    largest = jax.ops.segment_max(jnp.max(inside, axis=-1), tiles.owner, len(tiles.first), indices_are_sorted=True)
    largest = jax.lax.stop_gradient(largest)
    shifted = jnp.where(weight > 0, values - largest[tiles.owner, None], 0.0)  # inside, so that gradients exist
    return jnp.log(sum_tiles(tiles, jnp.sum(weight * jnp.exp(shifted), axis=-1))) + largest


def pair_weights(chunk: Chunk | Pixels) -> Array:
    """Weights of the pairs: `w_i w_j` among all individuals, or the unbiased weight of distinct drawn ones."""
    if chunk.drawn is None:
        return chunk.weight[:, :, None] * chunk.weight[:, None, :]
    j = chunk.drawn.shape[1]
    distinct = chunk.drawn[:, :, None] != chunk.drawn[:, None, :]
    scale = sum_tiles(chunk.tiles, jnp.sum(chunk.weight, axis=1)) ** 2 / (j * (j - 1))
    return jnp.where(distinct, scale[:, None, None], 0.0)


def take(values: Array, of: Chunk | Pixels) -> Array:
    """Rows (b, j, ...) of the drawn individuals, of all where none are drawn, from those of tiles (t, n, ...)."""
    if of.drawn is None:
        return values
    t, n = values.shape[:2]
    first = Tiles.of(of).first
    return values.reshape(t * n, *values.shape[2:])[first[:, None] * n + of.drawn]


def _bag_features(
    feature_map: FeatureMap, basis: Basis, chunk: Chunk, known: Array | None = None
) -> tuple[Array, Array, Array]:
    """Features, `R_ii` of single individuals, and `R_ij` averaged over those that a row stands for."""
    t, n, d = chunk.X.shape
    X = chunk.X.reshape(t * n, d)
    if known is None:
        A = features(feature_map, basis, X)
    else:
        A = known_features(feature_map, basis, X, known.reshape(t * n, -1)).astype(X.dtype)
    own = diagonal = residual_diagonal(feature_map, basis, X, A)
    if chunk.groups is not None:
        share, deviation = (part.astype(X.dtype) for part in (chunk.groups.share, chunk.groups.deviation))
        flat = Groups(share.reshape(t * n), deviation.reshape(t * n, d))
        own = own_residual(feature_map, basis, X, A, flat)
    return A.reshape(t, n, -1), diagonal.reshape(t, n), own.reshape(t, n)


def _pair_residuals(
    feature_map: FeatureMap, basis: Basis, chunk: Chunk, A: Array, diagonal: Array, own: Array
) -> Array:
    """`R_ij` among the individuals whose pairs are taken; those of groups as weakly correlated as within them."""
    block = jax.vmap(lambda x, a: residual_block(feature_map, basis, x, a))
    # a small difference of large numbers: float64, then rounded
    R = block(take(chunk.X, chunk), take(A, chunk))
    if chunk.groups is not None:
        some = diagonal > TINY  # rounding leaves none at landmarks, where the root has no slope
        shrunk = take(jnp.sqrt(jnp.where(some, own / jnp.where(some, diagonal, 1.0), 1.0)), chunk)
        R = R * shrunk[:, :, None] * shrunk[:, None, :]
    return R.astype(FAST)


def stage_pixels(
    feature_map: FeatureMap, basis: Basis, chunk: Chunk, pairs: bool = True, known: Array | None = None
) -> Pixels:
    """Features and residuals of a chunk; without `pairs` only what single individuals need.

    Where only slopes in the basis are asked for, features (t, n, m) that are `known` are not worked out again.
    """
    A, diagonal, own = _bag_features(feature_map, basis, chunk, known)
    residual = chunk.residual if pairs else "diagonal"
    return Pixels(
        A.astype(FAST),
        chunk.known.astype(FAST),
        chunk.weight.astype(FAST),
        diagonal.astype(FAST),
        own.astype(FAST),
        None if residual == "diagonal" else _pair_residuals(feature_map, basis, chunk, A, diagonal, own),
        pair_weights(chunk).astype(FAST) if residual == "subset" else None,
        chunk.drawn,
        chunk.tiles,
        residual,
    )


def stage_collapsed(feature_map: FeatureMap, basis: Basis, chunk: Chunk, quadratic: bool) -> Collapsed:
    """Bag sums of MATH (9); `quadratic` asks for those of the square link, which are over all pairs."""
    assert chunk.residual == "exact" or not quadratic
    A, diagonal, own = _bag_features(feature_map, basis, chunk)
    A = jnp.concatenate([A, chunk.known[..., None]], axis=-1)
    w = chunk.weight
    g = sum_tiles(chunk.tiles, jnp.einsum("tn,tnm->tm", w, A))
    s = sum_tiles(chunk.tiles, jnp.sum(w**2 * own, axis=-1))
    if chunk.residual == "diagonal":
        return Collapsed(g, s)
    R = _pair_residuals(feature_map, basis, chunk, A[..., :-1], diagonal, own)
    weighted = pair_weights(chunk).astype(FAST) * R
    s = s + jnp.sum(weighted * (1.0 - jnp.eye(R.shape[-1], dtype=FAST)), axis=(-2, -1))
    if not quadratic:
        return Collapsed(g, s)
    return Collapsed(
        g,
        s,
        G=jnp.einsum("bnm,bn,bnl->bml", A, w, A),
        H=jnp.einsum("bim,bil->bml", A, weighted @ A),
        r=jnp.sum(w * diagonal, axis=-1),
        t=jnp.sum(weighted * R, axis=(-2, -1)),
    )


def marginals(staged: Pixels, mu: Array, factor: Array) -> tuple[Array, Array, Any]:
    """`m_i`, `S_ii` of MATH (3) and `F = A chol(Sigma)`; where latent values are known perhaps no `F`."""
    if staged.latent is not None:
        return staged.latent.mean, staged.residual_diagonal + staged.latent.explained, staged.latent.F
    # as one long table: gradients of products of three axes make copies of them
    rows = staged.A.reshape(-1, staged.A.shape[-1])
    F = (rows @ factor.astype(FAST)).reshape(staged.A.shape)
    mean = staged.known + (rows @ mu.astype(FAST)).reshape(staged.weight.shape)
    return mean, staged.residual_diagonal + jnp.sum(F**2, axis=-1), F


def bag_mean(link: Link, staged: Pixels, mean: Array, variance: Array) -> Array:
    """`M = sum_i w_i E Psi(f_i)`, summed in float64."""
    rates = (staged.weight * link.mean(mean, variance)).astype(jnp.float64)
    return sum_tiles(staged.tiles, jnp.sum(rates, axis=-1))


def _direction(staged: Pixels, slope: Array) -> Array:
    """`sum_i w_i slope_i A_i` (b, m)."""
    return sum_tiles(staged.tiles, jnp.einsum("tn,tnm->tm", staged.weight * slope, staged.A))


def _drawn_pairs(staged: Pixels, slope: Array, F: Any, factor: Array) -> tuple[Array, Array, Array]:
    """Slopes of both and the landmarks' covariance (b, j, j) of pairs of drawn individuals."""
    # few of a large bag: multiplying their rows again is cheaper than scattering the gradient of F
    own_F = F is not None and (staged.tiles is None or staged.latent is not None)
    F = take(F, staged) if own_F else take(staged.A, staged) @ factor.astype(FAST)
    own = take(slope, staged)
    return own[:, :, None], own[:, None, :], jnp.einsum("bim,bjm->bij", F, F)


def pixel_moments(link: Link, staged: Pixels, mu: Array, factor: Array) -> tuple[Array, Array, Array]:
    """Mean of each bag's total, its variance under the weights alone, and the residual's; MATH (6), (7), (8), (13)."""
    mean, variance, F = marginals(staged, mu, factor)
    M = bag_mean(link, staged, mean, variance)
    slope = link.slope(mean, variance)
    if staged.residual == "exact":
        a = jnp.einsum("bim,bjm->bij", F, F)
        V_q = link.bag_variance(staged.weight, slope, a)
        s = link.added_bag_variance(staged.weight, slope, a, staged.block_residual)
        return M, _floored(V_q, M), _positive(s)
    a = variance - staged.residual_diagonal
    V_q = jnp.sum((_direction(staged, slope) @ factor.astype(FAST)) ** 2, axis=-1)
    own = staged.weight**2 * (link.covariance(slope, slope, a) - slope**2 * a)
    V_q = V_q + sum_tiles(staged.tiles, jnp.sum(own, axis=-1))
    s = _own_residual_variance(link, staged, slope, a)
    if staged.residual == "subset":
        slope_i, slope_j, a_pairs = _drawn_pairs(staged, slope, F, factor)
        curved = link.covariance(slope_i, slope_j, a_pairs) - slope_i * slope_j * a_pairs
        V_q = V_q + jnp.sum(staged.block_weight * curved, axis=(-2, -1))
        added = link.added_covariance(slope_i, slope_j, a_pairs, staged.block_residual)
        s = s + jnp.sum(staged.block_weight * added, axis=(-2, -1))
    return M, _floored(V_q, M), _positive(s)


def _own_residual_variance(link: Link, staged: Pixels, slope: Array, a: Array) -> Array:
    """Residual's variance of totals over the pairs `i = j`; `a` the variance of `f` under the weights alone."""
    own = staged.weight**2 * link.added_covariance(slope, slope, a, staged.own_residual)
    return sum_tiles(staged.tiles, jnp.sum(own, axis=-1))


def _floored(V: Array, M: Array) -> Array:
    """Keep a variance that rounding or the subset's estimate took to zero or below where densities exist."""
    return jnp.maximum(V.astype(jnp.float64), 1e-10 * M**2)


def _positive(s: Array) -> Array:
    return jnp.maximum(s.astype(jnp.float64), 0.0)


def collapsed_moments(staged: Collapsed, mu: Array, factor: Array) -> tuple[Array, Array, Array]:
    """The same from bag sums: MATH (9) for the square link, MATH (8) for the identity."""
    v = jnp.append(mu, 1.0)
    if staged.G is None:
        return staged.g @ v, jnp.sum((staged.g[:, :-1] @ factor) ** 2, axis=-1), _positive(staged.s)
    Gv = staged.G @ v
    covariance = factor @ factor.T
    G, H = staged.G[:, :-1, :-1], staged.H[:, :-1, :-1]
    # one product of (b m, m) with (m, m), and one more for its gradient
    product = jnp.einsum("bml,lk->bmk", G, covariance)
    squared = jnp.sum(product * jnp.swapaxes(product, -2, -1), axis=(-2, -1))
    M = Gv @ v + jnp.trace(product, axis1=-2, axis2=-1) + staged.r
    linear = jnp.sum((Gv[:, :-1] @ factor) ** 2, axis=-1)
    trace_H = jnp.einsum("bml,ml->b", H, covariance)
    return M, _floored(4 * linear + 2 * squared, M), _positive(_collapsed_residual(staged, v) + 4 * trace_H)


def _collapsed_residual(staged: Collapsed, v: Array) -> Array:
    """Residual's variance of totals at weights `v` (a one appended)."""
    if staged.G is None:
        return staged.s
    return 4 * jnp.einsum("m,bml,l->b", v, staged.H, v) + 2 * staged.t


def moments_given_weights(link: Link, staged: Pixels | Collapsed, v: Array) -> tuple[Array, Array]:
    """Mean and variance of the totals given the weights: `M_a(v)` and `s_a(v)` of MATH (12)."""
    if isinstance(staged, Collapsed):
        v = jnp.append(v, 1.0)
        T = staged.g @ v if staged.G is None else (staged.G @ v) @ v + staged.r
        return T, _positive(_collapsed_residual(staged, v))
    f = staged.known + staged.A @ v.astype(FAST)
    T = bag_mean(link, staged, f, staged.residual_diagonal)
    slope = link.slope(f, staged.residual_diagonal)
    if staged.residual == "exact":
        zero = jnp.zeros_like(staged.block_residual)
        return T, _positive(link.added_bag_variance(staged.weight, slope, zero, staged.block_residual))
    s = _own_residual_variance(link, staged, slope, jnp.zeros_like(slope))
    if staged.residual == "subset":
        own = take(slope, staged)
        pairs = link.covariance(own[:, :, None], own[:, None, :], staged.block_residual)
        s = s + jnp.sum(staged.block_weight * pairs, axis=(-2, -1))
    return T, _positive(s)


def jacobian(link: Link, staged: Pixels | Collapsed, v: Array) -> Array:
    """`dM/dv` (b, m) of the mean totals given the weights."""
    if isinstance(staged, Collapsed):
        return staged.g[:, :-1] if staged.G is None else 2 * (staged.G @ jnp.append(v, 1.0))[:, :-1]
    f = staged.known + staged.A @ v.astype(FAST)
    return _direction(staged, link.slope(f, staged.residual_diagonal)).astype(jnp.float64)


def residual_with_total(staged: Pixels, influence: Array, with_drawn: WithDrawn | None) -> Array:
    """`sum_j u_j R_ij` (t, n): covariance of each individual's residual with a sum over its bag, MATH (14).

    `influence` (t, n) is `u`, zero where the weight is. From a subset the sum over others is estimated without bias, by
    the covariances with the drawn individuals of the bag.
    """
    own = influence * staged.own_residual
    if staged.residual == "diagonal":
        return own
    if staged.residual == "exact":
        return jnp.einsum("bij,bj->bi", staged.block_residual, influence)
    assert staged.drawn is not None
    assert with_drawn is not None
    (t, n), j, tiles = staged.weight.shape, staged.drawn.shape[1], Tiles.of(staged)
    total = sum_tiles(staged.tiles, jnp.sum(staged.weight, axis=1))
    per_weight = influence / jnp.where(staged.weight > 0, staged.weight, 1.0)
    # in the precision of features, since the sum is a small difference of large ones
    scaled = (take(per_weight, staged) * (total / j)[:, None]).astype(jnp.float64)
    itself = jnp.zeros(t * n).at[tiles.first[:, None] * n + staged.drawn].add(scaled).reshape(t, n)
    place = (jnp.arange(t) - tiles.first[tiles.owner])[:, None] * n + jnp.arange(n)
    others = place[:, :, None] != staged.drawn[tiles.owner][:, None, :]
    kernel = jnp.einsum("tnj,tj->tn", jnp.where(others, with_drawn.kernel, 0.0), scaled[tiles.owner])
    summed = jnp.einsum("bj,bjm->bm", scaled, with_drawn.drawn)
    explained = jnp.einsum("tnm,tm->tn", staged.A, summed[tiles.owner]) - itself * with_drawn.explained
    return own + (kernel - explained).astype(FAST)


def bag_directions(link: Link, staged: Pixels, mu: Array, factor: Array) -> Array:
    """`b_a = sum_i w_i E Psi'(f_i) A_i` (b, m): the first-order covariance of two bags is `b_a Sigma b_c^T`."""
    mean, variance, _ = marginals(staged, mu, factor)
    return _direction(staged, link.slope(mean, variance)).astype(jnp.float64)
