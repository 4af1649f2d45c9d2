"""Landmark features: `f(x) = base + A(x) v + r(x)`, `v ~ N(0, I)`, `r` the Gaussian residual (MATH (2), (11)).

The columns of `A` are a constant (the unknown mean), then one group per additive component of the kernel: exact
feature columns for a linear component, none for a local one, `K_xZ L^-T` with its own landmarks for any other. Behind
them are zeros for the means of further observations (`view.py`).
Residuals of the components add; a local component is residual alone (MATH (15)).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg

from vbagg.chunks import Groups
from vbagg.compiling import jit
from vbagg.kernels import Kernel, Linear
from vbagg.triangular import compiled_times_lower

Array = Any  # NumPy before a compiled function, JAX inside
JITTER = 1e-8
SINGLE_JITTER = 1e-5
"""Least relative jitter of features in float32, where `L^-1` magnifies the rounding of the kernel."""
MAX_JITTER = 1e-3


@dataclass(frozen=True)
class FeatureMap:
    """Structure of the latent function: additive components and the prior sd of the constant mean."""

    components: tuple[Kernel, ...]
    mean_sd: float
    own_means: int = 0
    """Weights, after all others, that are means of their own of further observations; the function has none of them."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Basis:
    """Numbers of the latent function: kernel log-parameters, landmarks and inverse factors per component."""

    kernel: tuple[Any, ...]
    landmarks: tuple[Any, ...]
    inverse_factor: tuple[Any, ...]


def make_basis(
    feature_map: FeatureMap, kernel_params: tuple[Any, ...], landmarks: tuple[Any, ...], jitter: tuple[Any, ...]
) -> Basis:
    """Factorise each component's `K_ZZ + jitter * scale * I = L L^T` and invert `L`, in float64."""
    inverses: list[Array | None] = []
    for component, params, Z, relative in zip(feature_map.components, kernel_params, landmarks, jitter, strict=True):
        if not component.needs_landmarks:
            inverses.append(None)
            continue
        K = component.matrix(params, Z, Z)
        eye = jnp.eye(len(Z), dtype=K.dtype)
        L = jnp.linalg.cholesky(K + relative * jnp.mean(jnp.diagonal(K)) * eye)
        inverses.append(jax.scipy.linalg.solve_triangular(L, eye, lower=True))
    return Basis(kernel_params, landmarks, tuple(inverses))


@jit(static_argnums=0)
def compiled_basis(
    feature_map: FeatureMap, kernel_params: tuple[Any, ...], landmarks: tuple[Any, ...], jitter: tuple[Any, ...]
) -> Basis:
    """`make_basis`, compiled."""
    return make_basis(feature_map, kernel_params, landmarks, jitter)


def needed_jitter(
    feature_map: FeatureMap, kernel_params: tuple[Any, ...], landmarks: tuple[Any, ...], least: float = JITTER
) -> tuple[float, ...]:
    """Smallest relative jitter (powers of ten from `least`) with which each component factorises."""
    chosen = []
    for component, params, Z in zip(feature_map.components, kernel_params, landmarks, strict=True):
        relative = least
        if component.needs_landmarks:
            K = np.asarray(_kernel_matrix(component, params, Z))
            while relative < MAX_JITTER and not _factorises(K + relative * np.mean(np.diag(K)) * np.eye(len(K))):
                relative *= 10
        chosen.append(relative)
    return tuple(chosen)


@jit(static_argnums=0)
def _kernel_matrix(component: Kernel, params: tuple[Any, ...], Z: Array) -> Array:
    return component.matrix(params, Z, Z)


def _factorises(K: np.ndarray) -> bool:
    try:
        return bool(np.all(np.isfinite(np.linalg.cholesky(K))))
    except np.linalg.LinAlgError:
        return False


def features(
    feature_map: FeatureMap, basis: Basis, X: Array, times: Callable[[Array, Array], Array] = jnp.matmul
) -> Array:
    """Feature columns `A` (n, m) of the rows of X, in their precision; `times` multiplies by upper triangles."""
    columns = [
        part if inverse is None else times(part, inverse.T.astype(X.dtype))
        for part, inverse in zip(feature_parts(feature_map, basis, X), part_inverses(feature_map, basis), strict=True)
    ]
    return jnp.concatenate(columns, axis=-1)


def known_features(feature_map: FeatureMap, basis: Basis, X: Array, A: Array) -> Array:
    """Features whose values `A` are known, for the sake of their slopes in the basis."""
    columns, at = [], 0
    for part, inverse in zip(feature_parts(feature_map, basis, X), part_inverses(feature_map, basis), strict=True):
        own = A[..., at : at + part.shape[-1]]
        columns.append(part.astype(A.dtype) if inverse is None else _known_product(part, inverse, own))
        at += part.shape[-1]
    return jnp.concatenate(columns, axis=-1)


@jax.custom_vjp
def _known_product(part: Array, inverse: Array, value: Array) -> Array:
    """The value of `part inverse^T`, whose precision may be lower than theirs."""
    return value


def _known_product_forward(part: Array, inverse: Array, value: Array) -> tuple[Array, tuple[Array, ...]]:
    return value, (inverse.astype(part.dtype), inverse, value)


def _known_product_backward(known: tuple[Array, ...], slope: Array) -> tuple[Array, Array, None]:
    """Slopes in the factors; that in the inverse is `(slope^T value) L^T`.

    The product with values is well scaled, so that its precision may be theirs. That with `inverse` has large terms
    that cancel.
    """
    rounded, inverse, value = known
    of_rows = compiled_times_lower(slope.astype(rounded.dtype), rounded)
    product = (slope.T @ value).astype(inverse.dtype)
    return of_rows, jax.scipy.linalg.solve_triangular(inverse, product.T, lower=True).T, None


_known_product.defvjp(_known_product_forward, _known_product_backward)


def feature_parts(feature_map: FeatureMap, basis: Basis, X: Array) -> list[Array]:
    """Blocks of columns of `A` before those of landmarks are multiplied by the transposes of `part_inverses`."""
    parts = [jnp.full((*X.shape[:-1], 1), feature_map.mean_sd, dtype=X.dtype)]
    for component, params, Z in zip(feature_map.components, basis.kernel, basis.landmarks, strict=True):
        if isinstance(component, Linear):
            parts.append(component.features(params, X))
        elif component.needs_landmarks:
            parts.append(component.matrix(params, X, Z.astype(X.dtype)))
    if feature_map.own_means:
        parts.append(jnp.zeros((*X.shape[:-1], feature_map.own_means), X.dtype))
    return parts


def part_inverses(feature_map: FeatureMap, basis: Basis) -> list[Array | None]:
    """Inverse factor of each of the `feature_parts`; None where its columns are those of `A`."""
    pairs = zip(feature_map.components, basis.inverse_factor, strict=True)
    own = [inverse for component, inverse in pairs if component.exact_features or component.needs_landmarks]
    return [None, *own, None] if feature_map.own_means else [None, *own]


def combine_features(feature_map: FeatureMap, basis: Basis, X: Array, v: Array) -> Array:
    """`A v` (n) in the precision of X and without `A`: the weights are brought to the landmarks first."""
    total = feature_map.mean_sd * v[0]
    at = 1
    for component, params, Z, inverse in zip(
        feature_map.components, basis.kernel, basis.landmarks, basis.inverse_factor, strict=True
    ):
        if isinstance(component, Linear):
            own = component.features(params, X)
            total = total + own @ v[at : at + own.shape[-1]].astype(X.dtype)
            at += own.shape[-1]
        elif component.needs_landmarks:
            at_landmarks = inverse.T @ v[at : at + len(Z)]
            total = total + component.matrix(params, X, Z.astype(X.dtype)) @ at_landmarks.astype(X.dtype)
            at += len(Z)
    return total


def carry_weights(feature_map: FeatureMap, old: Basis, new: Basis, v: np.ndarray) -> np.ndarray:
    """Weights that give `f` the same values at the landmarks (and the same slopes) with other kernel parameters."""
    carried = [v[:1]]
    at = 1
    for i, component in enumerate(feature_map.components):
        width = _width(component, new.landmarks[i])
        if component.exact_features:
            scale = np.exp(0.5 * (np.asarray(old.kernel[i]["variance"]) - np.asarray(new.kernel[i]["variance"])))
            carried.append(scale * v[at : at + width])
        elif component.needs_landmarks:
            values = scipy.linalg.solve_triangular(np.asarray(old.inverse_factor[i]), v[at : at + width], lower=True)
            carried.append(np.asarray(new.inverse_factor[i]) @ values)
        at += width
    return np.concatenate([*carried, v[at:]])


def residual_diagonal(feature_map: FeatureMap, basis: Basis, X: Array, A: Array) -> Array:
    """`R_ii` of MATH (2), clamped at zero; the constant and exact features leave no residual."""
    total = jnp.zeros(X.shape[:-1], X.dtype)
    for component, params, own in _with_residual(feature_map, basis, A):
        total += jnp.maximum(component.diag(params, X) - jnp.sum(own**2, axis=-1), 0.0)
    return total


def parts_of(feature_map: FeatureMap, basis: Basis, X: Array, A: Array) -> Iterator[tuple[slice, Array, Array]]:
    """Of each additive component its columns of `A`, its prior variance (n) at rows of X, and its residual there."""
    at = 1
    for component, params, Z in zip(feature_map.components, basis.kernel, basis.landmarks, strict=True):
        columns = slice(at, at + _width(component, Z))
        at = columns.stop
        variance = component.diag(params, X)
        left = jnp.maximum(variance - jnp.sum(A[..., columns] ** 2, axis=-1), 0.0)
        yield columns, variance, jnp.zeros_like(left) if component.exact_features else left


def own_residual(feature_map: FeatureMap, basis: Basis, X: Array, A: Array, groups: Groups) -> Array:
    """`R_ij` averaged over the pairs of individuals that each row stands for, clamped at zero.

    The residual at the row itself, times the mean correlation of the kernel between members of its group.
    """
    total = jnp.zeros(X.shape[:-1], X.dtype)
    for component, params, own in _with_residual(feature_map, basis, A):
        variance = component.diag(params, X)
        # two members of a group are sqrt(2) deviations apart
        apart = component.between(params, X, X + math.sqrt(2.0) * groups.deviation) / variance
        correlation = groups.share + (1 - groups.share) * apart
        total += correlation * jnp.maximum(variance - jnp.sum(own**2, axis=-1), 0.0)
    return total


def residual_block(feature_map: FeatureMap, basis: Basis, X: Array, A: Array) -> Array:
    """`R_ij` of MATH (2) among the rows of one bag, its diagonal clamped at zero."""
    R = jnp.zeros((len(X), len(X)), X.dtype)
    for component, params, own in _with_residual(feature_map, basis, A):
        R += component.within(params, X) - own @ own.T
    diagonal = jnp.diagonal(R)
    return R + jnp.diag(jnp.maximum(diagonal, 0.0) - diagonal)


def residual_kernel(feature_map: FeatureMap, basis: Basis, X: Array, X2: Array) -> Array:
    """Covariances of rows of `X` and other individuals `X2` by components that leave a residual.

    Leading axes are batches. `R_ij` is what the product of the columns of `leave_residual` leaves of them.
    """
    parts = [component.matrix(params, X, X2) for component, params, _ in _with_residual(feature_map, basis, X)]
    return sum(parts, start=jnp.zeros((*X.shape[:-1], X2.shape[-2]), X.dtype))


def leave_residual(feature_map: FeatureMap, basis: Basis) -> np.ndarray:
    """Columns (m) of `A` that belong to components that leave a residual."""
    pairs = zip(feature_map.components, basis.landmarks, strict=True)
    own = [np.full(_width(component, Z), not component.exact_features) for component, Z in pairs]
    return np.concatenate([[False], *own, np.zeros(feature_map.own_means, bool)])


def _with_residual(feature_map: FeatureMap, basis: Basis, A: Array) -> Iterator[tuple[Kernel, Any, Array]]:
    """Components that leave a residual, with their parameters and columns of `A`; local ones have no columns."""
    at = 1
    for component, params, Z in zip(feature_map.components, basis.kernel, basis.landmarks, strict=True):
        width = _width(component, Z)
        if not component.exact_features:
            yield component, params, A[..., at : at + width]
        at += width


def _width(component: Kernel, landmarks: Any) -> int:
    """Number of columns of `A` that a component has."""
    if component.exact_features:
        return len(component.columns_used)
    return len(landmarks) if component.needs_landmarks else 0


def feature_count(landmarks: tuple[Any, ...], feature_map: FeatureMap) -> int:
    """Number of columns of `A`."""
    of_components = sum(_width(c, Z) for c, Z in zip(feature_map.components, landmarks, strict=True))
    return 1 + of_components + feature_map.own_means
