"""Individuals of bags whose outputs were observed: their residuals given the bag's own output, MATH (14).

Given the weights `v`, a bag's total is `Psi(h)`, `h` Gaussian with mean `eta(v)` and variance `tau`: the residuals of
its individuals and, where it is part of the risk, the bag's own effect. Its output says more about `h`: mean `h^` and
variance `tau^`, by quadrature. The latent value of an individual follows by regression on `h`, with the covariance
`c_i` of its residual with `h`; the weights themselves move `eta`, and `h^` with it by `tau^ / tau`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from vbagg.chunks import Chunk, gather, gather_rows
from vbagg.compiling import lightly
from vbagg.elbo import Parameters, Spec
from vbagg.features import Basis
from vbagg.likelihoods.base import Likelihood
from vbagg.moments import (
    FAST,
    Pixels,
    bag_mean,
    marginals,
    pixel_moments,
    residual_with_total,
    stage_pixels,
    sum_tiles,
)

Array = Any
DEPTH = 45.0
"""Log density below its peak that no longer counts."""
NODES, ZOOMS = 129, 30


@dataclass(frozen=True)
class BagState:
    """What a bag's output says of its total `Psi(h)`; arrays (b)."""

    eta: np.ndarray
    """Mean of `h` before the output is taken into account a second time, for the residual."""
    kappa: np.ndarray
    """Variance of `eta` under the weights."""
    tau: np.ndarray
    """Variance of `h` given the weights."""
    effect: np.ndarray
    """The part of it that the bag's own effect makes."""
    effect_mean: np.ndarray
    """Mean of that effect on `h`."""
    mean: np.ndarray
    """`h^`."""
    variance: np.ndarray
    """`tau^`."""
    M: np.ndarray
    V_q: np.ndarray
    """Mean of the total and its variance under the weights alone, before any of this."""

    @property
    def kept(self) -> np.ndarray:
        """Share of a change of `eta` that is left after the output: `tau^ / tau`."""
        return np.where(self.tau > 0, self.variance / np.where(self.tau > 0, self.tau, 1.0), 1.0)

    @property
    def total_variance(self) -> np.ndarray:
        """Variance of `h` given all outputs."""
        return self.variance + self.kept**2 * self.kappa

    @property
    def share_of_weights(self) -> np.ndarray:
        """Correlation of `h` with what the weights make of it."""
        return np.sqrt(self.kept**2 * self.kappa / self.total_variance)


@lightly(static_argnames="spec")
def _moments(spec: Spec, basis: Basis, mu: Array, factor: Array, chunk: Chunk) -> tuple[Array, Array, Array]:
    return pixel_moments(spec.link, stage_pixels(spec.feature_map, basis, chunk), mu, factor)


def observe(
    spec: Spec,
    basis: Basis,
    mu: np.ndarray,
    factor: np.ndarray,
    chunks: list[Chunk],
    parameters: Parameters,
    risk: bool,
) -> BagState:
    """States of the bags of chunks, those of which the output is NaN as they are without it.

    With `risk` the bag's own effect is part of its total.
    """
    parts = [_moments(spec, basis, mu, factor, chunk) for chunk in chunks]
    M, V_q, s = (gather([np.asarray(part[k]) for part in parts], chunks) for k in range(3))
    y = gather([chunk.y for chunk in chunks], chunks)
    facts = {name: gather([chunk.facts[name] for chunk in chunks], chunks) for name in chunks[0].facts}
    likelihood, learnt = spec.likelihood, {name: float(np.exp(value)) for name, value in parameters.likelihood.items()}
    seen = np.isfinite(y)
    spread = likelihood.effect_spread(learnt) if risk else 0.0
    effect = np.where(seen, spread * likelihood.unit_variance(M), 0.0)
    if risk:
        likelihood = likelihood.without_effect(learnt)
    whole = V_q + s + effect
    eta, variance = spec.link.coordinate_moments(M, whole)
    kappa, own, by_effect = (variance * part / whole for part in (V_q, s, effect))
    tau = own + by_effect
    mean, after = eta.copy(), tau.copy()
    asked = seen & (tau > 1e-12 * np.maximum(kappa, 1e-300))
    if asked.any():
        inside = {name: values[asked] for name, values in facts.items()}
        mean[asked], after[asked] = _posterior(
            likelihood, spec.link, y[asked], eta[asked], tau[asked], inside, parameters.likelihood
        )
    effect_mean = spec.link.effect_mean(by_effect, eta)
    return BagState(eta, kappa, tau, by_effect, effect_mean, mean, after, M, V_q)


def _posterior(
    likelihood: Likelihood, link: Any, y: np.ndarray, eta: np.ndarray, tau: np.ndarray, facts: Any, p: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of `h ~ N(eta, tau)` given the output, on a grid that moves to where it is likely."""
    sd, least = np.sqrt(tau), link.least_coordinate
    low, high = np.maximum(eta - 10 * sd, least), eta + 10 * sd
    many = {name: values[:, None] for name, values in facts.items()}
    unit, row = np.linspace(0.0, 1.0, NODES), np.arange(len(y))
    for _ in range(ZOOMS):
        h = low[:, None] + (high - low)[:, None] * unit
        density = np.asarray(_log_density(likelihood, link, y[:, None], h, many, p))
        density = density - 0.5 * ((h - eta[:, None]) / sd[:, None]) ** 2
        density -= density.max(axis=1, keepdims=True)
        likely = density > -DEPTH
        first = np.maximum(np.argmax(likely, axis=1) - 1, 0)
        last = np.minimum(NODES - np.argmax(likely[:, ::-1], axis=1), NODES - 1)
        below, above = likely[:, 0] & (low > least), likely[:, -1]
        if np.all((first == 0) & (last == NODES - 1) & ~below & ~above):
            break
        # an output may be further off than any residual would be: first wider, then narrower
        width, beyond = high - low, below | above
        low, high = (
            np.maximum(np.where(beyond, low - below * width, h[row, first]), least),
            np.where(beyond, high + above * width, h[row, last]),
        )
    weight = np.exp(density)
    weight[:, [0, -1]] /= 2
    weight /= weight.sum(axis=1, keepdims=True)
    mean = np.sum(weight * h, axis=1)
    return mean, np.sum(weight * (h - mean[:, None]) ** 2, axis=1)


@lightly(static_argnames=("likelihood", "link"))
def _log_density(likelihood: Likelihood, link: Any, y: Array, h: Array, facts: Any, p: Any) -> Array:
    return likelihood.log_prob(y, link.value(h), facts, p)


@lightly(static_argnames="spec")
def _latent(
    spec: Spec, basis: Basis, mu: Array, factor: Array, chunk: Chunk, state: Any, white: Array
) -> tuple[Array, Array, Array]:
    """Mean and variance of the latent value of each individual (t, n), and its regression on `h`."""
    staged = stage_pixels(spec.feature_map, basis, chunk)
    mean, variance, F = marginals(staged, mu, factor)
    influence, shape, owner = _influence(spec, chunk, staged, mean, variance)
    tau, safe = state["tau"], jnp.where(state["tau"] > 0, state["tau"], 1.0)
    c = residual_with_total(spec.feature_map, basis, chunk, staged, influence) - influence * white
    c = c + shape * state["effect"][owner, None]
    gain = c / safe[owner, None]
    direction = sum_tiles(chunk.tiles, jnp.einsum("tn,tnm->tm", influence, F))
    with_eta = jnp.einsum("tnm,tm->tn", F, direction[owner])
    lost = (1 - state["kept"])[owner, None]
    prior = staged.residual_diagonal - white + shape**2 * state["effect"][owner, None]
    # the regression cannot explain more than there is
    explained = jnp.minimum(gain**2 * tau[owner, None], prior)
    residual = prior - explained * (1 - state["kept"])[owner, None]
    by_weights = variance - staged.residual_diagonal - 2 * gain * lost * with_eta
    by_weights = jnp.maximum(by_weights + (gain * lost) ** 2 * state["kappa"][owner, None], 0.0)
    shift = gain * (state["mean"] - state["eta"])[owner, None] + shape * state["effect_mean"][owner, None]
    return mean + shift, by_weights + residual, gain


def _influence(spec: Spec, chunk: Chunk, staged: Pixels, mean: Array, variance: Array) -> tuple[Array, Array, Array]:
    """`dh/df_i`, the bag's effect on `f_i` per unit of `h`, and the bag of each tile."""
    owner = jnp.arange(len(chunk.X)) if chunk.tiles is None else chunk.tiles.owner
    M = bag_mean(spec.link, staged, mean, variance)
    slope = spec.link.coordinate_slope(M)[owner, None].astype(FAST)
    influence = staged.weight * spec.link.slope(mean, variance) * slope
    shape = spec.link.effect_shape(mean)
    normal = sum_tiles(chunk.tiles, jnp.sum(influence * shape, axis=-1))
    return influence, shape / normal[owner, None], owner


def condition(
    spec: Spec,
    basis: Basis,
    mu: np.ndarray,
    factor: np.ndarray,
    chunks: list[Chunk],
    state: BagState,
    white: float = 0.0,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean and variance of the latent value of all individuals (n) given their bags' outputs.

    The third are the slopes of their regressions on `h`. An individual effect of the variance `white` is left out.
    """
    parts = [_latent(spec, basis, mu, factor, chunk, _padded(chunk, state), white) for chunk in chunks]
    mean, variance, gain = (gather_rows([np.asarray(part[k], float) for part in parts], chunks) for k in range(3))
    return mean, variance, gain


def _padded(chunk: Chunk, state: BagState) -> dict[str, np.ndarray]:
    """Numbers of the bags of a chunk, zero for padding."""
    at, inside = np.maximum(chunk.position, 0), chunk.position >= 0
    fields = ("eta", "kappa", "tau", "effect", "mean", "kept", "effect_mean")
    return {name: np.where(inside, getattr(state, name)[at], 0.0) for name in fields}
