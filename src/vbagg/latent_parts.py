"""How well parts of the latent function are known at rows: what covariates say, and what the place says.

The latent function is a sum, `f = base + g + s + ...`: `g` is the constant with all components that see covariates, `s`
those that see the place alone. Both have a variance under the posterior of the weights, to which the residual of their
components adds (MATH (2)). Effects of individuals belong to neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vbagg.compiling import jit
from vbagg.elbo import Spec
from vbagg.features import FeatureMap, features, parts_of
from vbagg.row_rates import Members, by_blocks
from vbagg.triangular import compiled_times_upper

Array = Any


@dataclass(frozen=True)
class LatentParts:
    """What is known of parts of the latent function at some rows.

    Attributes
    ----------
    covariates_sd
        Posterior standard deviation (n) of what covariates say, the constant included; None without covariates.
    place_share
        Share (n) of the prior variance of what the place says that data have left; None if it says nothing.
    """

    covariates_sd: np.ndarray | None
    place_share: np.ndarray | None


@dataclass(frozen=True)
class Groups:
    """Numbers of the components that see covariates, and of those that see the place alone."""

    covariates: tuple[int, ...]
    place: tuple[int, ...]

    @classmethod
    def of(cls, feature_map: FeatureMap, place: Sequence[int]) -> Groups:
        """Sort the components; local ones have nothing to learn about other rows, and are in neither."""
        seen = [set(c.columns_used) if not c.local else set() for c in feature_map.components]
        only_place = tuple(i for i, own in enumerate(seen) if own and own <= set(place))
        return cls(tuple(i for i, own in enumerate(seen) if own - set(place)), only_place)


def variances(spec: Spec, groups: Groups, single: bool, members: Members, X: Array) -> tuple[Array, ...]:
    """By each member (k, n): mean and variance of what covariates say; prior and posterior variance of the place."""

    def by_one(member: Members) -> tuple[Array, ...]:
        rows = X.astype(jnp.float32) if single else X
        A = features(spec.feature_map, member.basis, rows, compiled_times_upper)
        parts = list(parts_of(spec.feature_map, member.basis, rows, A))
        # V = A S A^T + R of the columns and residuals of a group
        found = []
        for own, constant in ((groups.covariates, [0]), (groups.place, [])):
            columns = np.array([*constant, *(at for i in own for at in _numbers(parts[i][0]))], dtype=int)
            left = sum((parts[i][2] for i in own), jnp.zeros(len(rows), A.dtype))
            chosen = A[:, columns]
            variance = jnp.sum((chosen @ member.factor[columns].astype(A.dtype)) ** 2, axis=-1) + left
            found.append((chosen @ member.mu[columns].astype(A.dtype), variance))
        prior = sum((parts[i][1] for i in groups.place), jnp.zeros(len(rows), A.dtype))
        (mean, variance), (_, of_place) = found
        return tuple(part.astype(X.dtype) for part in (mean, variance, prior, of_place))

    return jax.lax.map(by_one, members)


def _numbers(columns: slice) -> range:
    return range(columns.start, columns.stop)


_variances = jit(static_argnums=(0, 1, 2))(variances)


def latent_parts(
    spec: Spec, members: Members, weight: np.ndarray, X: np.ndarray, place: Sequence[int], single: bool = False
) -> LatentParts:
    """Of an average over members with these weights (k), at rows in standard units.

    Parameters
    ----------
    spec, members, weight
        The posterior.
    X
        Features (n, d).
    place
        Columns with coordinates.
    single
        Whether features are in single precision, as they were in the fit.
    """
    groups = Groups.of(spec.feature_map, place)
    found = by_blocks(lambda block: _variances(spec, groups, single, members, block), X)
    mean, variance, prior, of_place = found
    w = (weight / weight.sum())[:, None]
    # the variance of an average: that within members, and that of their means
    between = np.sum(w * (mean - np.sum(w * mean, axis=0)) ** 2, axis=0)
    sd = np.sqrt(np.sum(w * variance, axis=0) + between)
    share = np.sum(w * of_place, axis=0) / np.maximum(np.sum(w * prior, axis=0), np.finfo(float).tiny)
    return LatentParts(sd if groups.covariates else None, share if groups.place else None)
