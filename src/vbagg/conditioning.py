"""Individuals of bags whose outputs were observed: their residuals given the bag's own output, MATH (14).

Given the weights `v`, a bag's total is `Psi(h)`, `h` Gaussian with mean `eta(v)` and variance `tau`: the residuals of
its individuals and, where it is part of the risk, the bag's own effect. Its output says more about `h`: mean `h^` and
variance `tau^`, by quadrature. The latent value of an individual follows by regression on `h`, with the covariance
`c_i` of its residual with `h`; the weights themselves move `eta`, and `h^` with it by `tau^ / tau`.

A bag's effect, where it is part of the risk, is not the same everywhere in the bag. Unexplained variation of an area
falls about with the square root of its size (H. Fairfield Smith, 1938, of yields of plots; so do burglaries and
deaths): an effect of variance `phi` in a bag of `n` individuals varies by `phi (sqrt(n) - 1)` inside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vbagg.apart import variances_apart
from vbagg.chunks import Chunk, Tiles, gather, gather_draws, gather_rows
from vbagg.compiling import jit
from vbagg.elbo import Parameters, Spec
from vbagg.features import Basis
from vbagg.likelihoods.base import Likelihood
from vbagg.likelihoods.numerical import log_density
from vbagg.moments import (
    FAST,
    bag_directions,
    marginals,
    pixel_moments,
    residual_with_total,
    sum_tiles,
)
from vbagg.staging import stage_for_prediction
from vbagg.threads import in_threads

Array = Any
DEPTH = 45.0
"""Log density below its peak that no longer counts."""
NODES, ZOOMS = 129, 30
LARGEST_SIZE = 16.0
"""Individuals up to which the effect of a bag varies more the more there are. Over larger ratios of sizes the law is
not taken for granted: cells vary about their bag's effect by three times its variance at most."""


@dataclass(frozen=True)
class Moments:
    """Of the totals of bags (b) and of the latent values of their individuals (n), outputs not taken into account."""

    M: np.ndarray
    V_q: np.ndarray
    """Variance of the total under the weights alone."""
    s: np.ndarray
    """The residual's."""
    directions: np.ndarray
    """(b, m) change of the total with the weights."""
    rows: dict[str, np.ndarray]
    """Of individuals, if asked for: `mean` and `variance` of `f`, its `residual` variance, `influence` on `h`, `shape`
    of the bag's effect (of `f` per unit of `h`), covariances `with_residual` and `with_weights` with `h`; and the
    variances of `Apart`."""
    moved: np.ndarray | None = None
    """(s, n) how far steps of the weights, if some are given, move `f` of individuals; in single precision."""


@jit(static_argnames=("spec", "individuals"))
def _moments(
    spec: Spec, basis: Basis, mu: Array, factor: Array, chunk: Chunk, individuals: bool, steps: Array | None
) -> tuple[tuple[Array, ...], dict[str, Array]]:
    link = spec.link
    staged, with_drawn = stage_for_prediction(spec.feature_map, basis, chunk, mu, factor, cross=individuals)
    of_bags = *pixel_moments(link, staged, mu, factor), bag_directions(link, staged, mu, factor)
    if not individuals:
        return of_bags, {}
    mean, variance, _ = marginals(staged, mu, factor)
    owner, slope_of_bag = Tiles.of(staged).owner, link.coordinate_slope(of_bags[0])[:, None]
    influence = staged.weight * link.slope(mean, variance) * slope_of_bag[owner].astype(FAST)
    shape = link.effect_shape(mean)
    normal = sum_tiles(staged.tiles, jnp.sum(influence * shape, axis=-1))
    direction = (slope_of_bag * of_bags[-1]) @ factor @ factor.T
    apart = variances_apart(staged, with_drawn)
    moved = {} if steps is None else {"moved": jnp.einsum("tnm,ms->stn", staged.A.astype(FAST), steps.astype(FAST))}
    return of_bags, moved | {
        "mean": mean,
        "variance": variance,
        "residual": staged.residual_diagonal,
        "influence": influence,
        "shape": shape / normal[owner, None],
        "with_residual": residual_with_total(staged, influence, with_drawn),
        "with_weights": jnp.einsum("tnm,tm->tn", staged.A, direction[owner]),
        "apart_prior": apart.prior,
        "apart_weights": apart.weights,
        "apart_residual": apart.residual,
    }


def moments(
    spec: Spec,
    basis: Basis,
    mu: np.ndarray,
    factor: np.ndarray,
    chunks: list[Chunk],
    individuals: bool = True,
    steps: np.ndarray | None = None,
) -> Moments:
    """One pass over all individuals of chunks, each by one compiled function; `steps` (m, s) of the weights."""

    def part(chunk: Chunk) -> tuple[tuple[np.ndarray, ...], dict[str, np.ndarray]]:
        # as NumPy: waits, so that each thread holds the features of one chunk at a time
        return jax.tree.map(np.asarray, _moments(spec, basis, mu, factor, chunk, individuals, steps))

    parts = list(in_threads(part, chunks, kind=lambda chunk: (*chunk.shape, chunk.residual)))
    M, V_q, s, directions = (gather([bags[k] for bags, _ in parts], chunks) for k in range(4))
    moved = None if steps is None else gather_draws([rows.pop("moved") for _, rows in parts], chunks)
    rows = {name: gather_rows([of_rows[name] for _, of_rows in parts], chunks) for name in parts[0][1]}
    return Moments(M, V_q, s, directions, rows, moved)


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


def observe(
    spec: Spec,
    found: Moments,
    y: np.ndarray,
    facts: dict[str, np.ndarray],
    parameters: Parameters,
    risk: bool,
    unseen_risk: bool = False,
) -> BagState:
    """States of bags with the outputs `y`, those of which the output is NaN as they are without it.

    With `risk` the bag's own effect is part of its total; that of bags without an output with `unseen_risk` alone.
    """
    likelihood, learnt = spec.likelihood, {name: float(np.exp(value)) for name, value in parameters.likelihood.items()}
    seen = np.isfinite(y)
    spread = likelihood.effect_spread(learnt) if risk else 0.0
    effect = np.where(seen | unseen_risk, spread * likelihood.unit_variance(found.M), 0.0)
    if risk:
        likelihood = likelihood.without_effect(learnt)
    whole = found.V_q + found.s + effect
    eta, variance = spec.link.coordinate_moments(found.M, whole)
    kappa, own, by_effect = (variance * part / whole for part in (found.V_q, found.s, effect))
    tau = own + by_effect
    mean, after = eta.copy(), tau.copy()
    asked = seen & (tau > 1e-12 * np.maximum(kappa, 1e-300))
    if asked.any():
        inside = {name: values[asked] for name, values in facts.items()}
        mean[asked], after[asked] = _posterior(
            likelihood, spec.link, y[asked], eta[asked], tau[asked], inside, parameters.likelihood
        )
    effect_mean = spec.link.effect_mean(by_effect, eta)
    return BagState(eta, kappa, tau, by_effect, effect_mean, mean, after)


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
        density = log_density(likelihood, y[:, None], link.rate_and_slope(h)[0], many, p)
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


@dataclass(frozen=True)
class Within:
    """What a bag's effect does to the latent values of single individuals (n): they vary about it."""

    mean: np.ndarray
    sd: np.ndarray


def more_variation(smaller: np.ndarray) -> np.ndarray:
    """Times its variance that the effect of a bag varies in parts that are so many times smaller."""
    return np.sqrt(np.clip(smaller, 1.0, LARGEST_SIZE)) - 1


def within_bags(spec: Spec, found: Moments, state: BagState, bag: np.ndarray, effective: np.ndarray) -> Within:
    """Variation of the effect inside bags of these `effective` numbers of individuals (b); `bag` of each row."""
    variance = state.effect * more_variation(effective)
    shape = found.rows["shape"]
    return Within(shape * spec.link.effect_mean(variance, state.eta)[bag], np.abs(shape) * np.sqrt(variance)[bag])


def condition(
    found: Moments, state: BagState, bag: np.ndarray, white: float = 0.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean and variance of the latent value of all individuals (n) given their bags' outputs; `bag` of each.

    The third are the slopes of their regressions on `h`. An individual effect of the variance `white` is left out.
    """
    rows = found.rows
    tau, lost, effect = state.tau[bag], (1 - state.kept)[bag], rows["shape"] ** 2 * state.effect[bag]
    c = rows["with_residual"] - rows["influence"] * white + rows["shape"] * state.effect[bag]
    gain = c / np.where(tau > 0, tau, 1.0)
    prior = rows["residual"] - white + effect
    # the regression cannot explain more than there is
    residual = prior - np.minimum(gain**2 * tau, prior) * lost
    by_weights = rows["variance"] - rows["residual"] - 2 * gain * lost * rows["with_weights"]
    by_weights = np.maximum(by_weights + (gain * lost) ** 2 * state.kappa[bag], 0.0)
    shift = gain * (state.mean - state.eta)[bag] + rows["shape"] * state.effect_mean[bag]
    return rows["mean"] + shift, by_weights + residual, gain
