"""What the outputs of all other bags say of a bag's total: its own is taken out of the posterior, MATH (22) and (23).

At its optimum the posterior of the weights is the prior times one Gaussian factor for each output. That of a bag sees
the weights through the mean `eta` of the bag's coordinate `h` alone, so that dividing by it is a matter of one
dimension, and nothing is fitted again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vbagg.compiling import jit
from vbagg.conditioning import Moments
from vbagg.elbo import PAPERS, Parameters, Spec
from vbagg.laws import Law

Array = Any
FEWEST = 64
"""Bags that functions are compiled for, at least."""
MOST_OF_IT = 1 - 1e-9
"""Share of what is known of a coordinate that its own output may tell."""


@dataclass(frozen=True)
class LeftOut:
    """Coordinates `h` of totals (b) by what all other outputs say."""

    eta: np.ndarray
    """Mean of `h` given the weights, averaged over these."""
    kappa: np.ndarray
    """Variance of that mean under the weights."""
    own: np.ndarray
    """Variance of `h` given the weights: the residual's."""

    def total_law(self, link: Any) -> Law:
        """Distribution of the totals, in the family of those of new bags."""
        M, V = link.total_moments(jnp.asarray(self.eta), jnp.asarray(self.kappa + self.own))
        return link.total_law.from_moments(np.asarray(M), np.asarray(V))


def leave_out(
    spec: Spec, found: Moments, factor: np.ndarray, y: np.ndarray, facts: dict[str, np.ndarray], parameters: Parameters
) -> LeftOut:
    """Each bag by the outputs of the others; those whose own `y` is NaN by all.

    Parameters
    ----------
    found
        Totals of the bags by the posterior of the weights, whose covariance is `factor factor^T`.
    facts
        What the likelihood knows of each bag, in units of training.
    """
    link, seen = spec.link, np.isfinite(y)
    whole = found.V_q + found.s
    eta, variance = link.coordinate_moments(found.M, whole)
    kappa, own = variance * found.V_q / whole, variance * found.s / whole
    direction = np.asarray(link.coordinate_slope(jnp.asarray(found.M)))[:, None] * found.directions
    by_prior, by_weights = np.sum(direction**2, axis=1), np.sum((direction @ factor) ** 2, axis=1)
    slope, information = (np.where(seen, value, 0.0) for value in _site(spec, parameters, y, facts, eta, kappa, own))
    told = np.clip(information * by_weights, 0.0, MOST_OF_IT)
    # no more uncertain than without any output
    wider = np.minimum(1 / (1 - told), np.maximum(by_prior / np.maximum(by_weights, 1e-300), 1.0))
    return LeftOut(eta - wider * kappa * slope, wider * kappa, own)


def _site(
    spec: Spec,
    parameters: Parameters,
    y: np.ndarray,
    facts: dict[str, np.ndarray],
    eta: np.ndarray,
    kappa: np.ndarray,
    own: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Slope in `eta` of what each output adds to the objective, and its Fisher information about `eta`.

    Compiled for few numbers of bags.
    """
    n = len(y)
    short = max(FEWEST, 1 << (n - 1).bit_length()) - n

    def padded(values: np.ndarray) -> np.ndarray:
        return np.pad(np.asarray(values, float), (0, short), mode="edge")

    with jax.enable_x64(True):
        of_bags = (padded(values) for values in (np.where(np.isfinite(y), y, 1.0), eta, kappa, own))
        found = _compiled_site(spec, parameters.likelihood, {k: padded(v) for k, v in facts.items()}, *of_bags)
        return np.asarray(found[0])[:n], np.asarray(found[1])[:n]


@jit(static_argnames="spec")
def _compiled_site(
    spec: Spec, p: dict[str, Any], facts: dict[str, Any], y: Array, eta: Array, kappa: Array, own: Array
) -> tuple[Array, Array]:
    link, likelihood, inside = spec.link, spec.likelihood, 0.0 if spec.approximation in PAPERS else spec.inside
    share = kappa / (kappa + own)

    def term(eta: Array) -> Array:
        M, V = link.total_moments(eta, kappa + own)
        by_weights, residual = share * V, (1 - share) * V
        spread = inside * residual / likelihood.unit_variance(M, by_weights)
        V = by_weights + (1 - inside) * residual
        return jnp.sum(likelihood.matched(y, M, V, link.matched, facts, p, spread))

    # the precision of the posterior is that of totals linear in the weights, around their mean
    def total(eta: Array) -> Array:
        return link.total_moments(eta, own)[0]

    T, change = jax.jvp(total, (eta,), (jnp.ones_like(eta),))
    spread = inside * link.total_moments(eta, own)[1] / likelihood.unit_variance(T)
    M, V = link.total_moments(eta, kappa + own)
    V = V * (share + (1 - inside) * (1 - share))
    return jax.grad(term)(eta), change**2 * likelihood.information(T, M, V, link, facts, p, spread)
