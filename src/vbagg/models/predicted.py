"""Bags that are predicted: their totals and their individuals by one member of a posterior, as laws and as draws."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vbagg.bags import Bags
from vbagg.chunks import ONCE, TRIES, Chunk, make_chunks, residual_modes
from vbagg.conditioning import BagState, Moments, condition, moments, observe, within_bags
from vbagg.elbo import Parameters, Spec
from vbagg.features import Basis, compiled_basis
from vbagg.inference import Gaussian
from vbagg.kernels import White
from vbagg.links import Link
from vbagg.posterior import draw_near_alike, draw_rows

MOST_STEPS, CLOSE = 8, 1e-9
"""Newton steps that give a draw its total, and the relative distance that is none."""
REACH = 1.0
"""Distance over which a bag's effect stays alike, in root mean squared distances of its individuals from its centre.
With it, quarters and ninths of a square vary about its effect by 1.0 and 1.5 times the variance between bags, where
square roots of sizes say 1 and 2."""


@dataclass(frozen=True)
class Member:
    """Learnt parameters and posterior of the weights; several of them make an average."""

    weight: float
    spec: Spec
    parameters: Parameters
    q: Gaussian
    jitter: tuple[float, ...]
    single: bool = False
    """Whether features of individuals are in single precision, as they were in the fit."""

    def __getstate__(self) -> dict[str, Any]:
        # what is computed on demand is computed anew: arrays of JAX come back in another precision
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def basis(self) -> Basis:
        """Factorised kernels."""
        with jax.enable_x64(True):
            parameters = self.parameters
            return compiled_basis(self.spec.feature_map, parameters.kernel, parameters.landmarks, self.jitter)

    @property
    def state(self) -> tuple[Spec, Basis, np.ndarray, np.ndarray]:
        """What a prediction takes."""
        return self.spec, self.basis, self.q.mu, self.q.factor

    @property
    def white(self) -> float:
        """Variance of the individual effect."""
        pairs = zip(self.spec.feature_map.components, self.parameters.kernel, strict=True)
        return float(sum(np.exp(values["variance"]) for component, values in pairs if isinstance(component, White)))

    def learnt(self, rate_scale: float) -> dict[str, float]:
        """Likelihood parameters in the user's units."""
        return self.spec.likelihood.in_users_units(self.parameters.likelihood, rate_scale)

    def smoothed(self, mean: np.ndarray, white: float) -> np.ndarray:
        """Latent value whose rate is the mean over individual effects of the variance `white`."""
        if not white:
            return mean
        link = self.spec.link
        return np.asarray(link.inverse(np.asarray(link.mean(jnp.asarray(mean), jnp.full(mean.shape, white)))))


class Plan:
    """Rows of bags in standard units and their chunks; what a pass over them finds is kept for each member."""

    def __init__(self, ready: Bags, known: np.ndarray, options: dict[str, Any]) -> None:
        self.ready, self.known, self._options = ready, known, options
        self._chunks: dict[bool, list[Chunk]] = {}
        self._moments: dict[int, Moments] = {}

    @property
    def serves_totals(self) -> bool:
        """Whether totals are what they would be without the rows of zero weight."""
        residual, weighty = self._options["residual"], self.ready.sum_by_bag(self.ready.weight > 0)
        modes = (residual_modes(residual, sizes, weighty) for sizes in (self.ready.sizes, weighty))
        return bool(np.equal(*modes).all())

    def chunks(self, member: Member) -> list[Chunk]:
        """Padded arrays in the precision of a member's features."""
        if member.single not in self._chunks:
            precision = np.float32 if member.single else np.float64
            y = np.zeros(len(self.ready))
            size: dict[str, Any] = {"max_elements": ONCE, "tries": TRIES}
            self._chunks[member.single] = make_chunks(
                self.ready, y, {}, self.known, precision=precision, **size, **self._options
            )
        return self._chunks[member.single]

    def moments(self, member: Member, individuals: bool = False) -> Moments:
        """Of the totals, and of the individuals if these are asked for."""
        found = self._moments.get(id(member))
        if found is None or (individuals and not found.rows):
            found = self._moments[id(member)] = moments(*member.state, self.chunks(member), individuals)
        return found

    def moved(self, member: Member, steps: np.ndarray) -> np.ndarray:
        """How far steps (m, s) of the weights move `f` of individuals (s, n), in the pass that finds the moments."""
        found = moments(*member.state, self.chunks(member), True, steps)
        self._moments[id(member)] = replace(found, moved=None)
        assert found.moved is not None
        return found.moved

    @cached_property
    def places(self) -> np.ndarray | None:
        """Coordinates (n, 2) of the rows in units of the size of their bag; None where there are no coordinates."""
        if not self.ready.coordinates:
            return None
        X, bag, share = self.ready.X[:, list(self.ready.coordinates)], self.ready.bag, self.share
        centre = np.stack([self.ready.sum_by_bag(share * x) for x in X.T], axis=1)
        distance = self.ready.sum_by_bag(share * np.sum((X - centre[bag]) ** 2, axis=1))
        return (X - centre[bag]) / np.sqrt(np.maximum(distance, 1e-300))[bag, None]

    @cached_property
    def share(self) -> np.ndarray:
        """Weight of each row in its bag's sum."""
        return self.ready.weight / self.ready.totals()[self.ready.bag]


@dataclass(frozen=True)
class Outputs:
    """What was observed of bags: outputs (b), NaN where there are none, and what the likelihood knows besides."""

    y: np.ndarray
    facts: dict[str, np.ndarray]

    @property
    def seen(self) -> np.ndarray:
        """(b) whether the output is known."""
        return np.isfinite(self.y)


class Totals:
    """Distribution of the totals of bags by one member: a law, joint draws, first-order covariances."""

    def __init__(self, member: Member, plan: Plan, outputs: Outputs | None) -> None:
        link, found = member.spec.link, plan.moments(member)
        self.state = None
        self.directions = found.directions @ member.q.factor
        if outputs is not None and outputs.seen.any():
            self.state = observe(member.spec, found, outputs.y, outputs.facts, member.parameters, risk=True)
            self.law = link.rate_law(self.state.mean, np.sqrt(self.state.total_variance))
            kept = self.state.kept
        else:
            self.law = link.total_law.from_moments(found.M, found.V_q + found.s)
            kept = np.ones(len(found.M))
        # change of the total per standard normal of the weights
        slopes = (np.asarray(link.coordinate_slope(jnp.asarray(total))) for total in (found.M, self.law.mean))
        before, after = slopes
        self._roots = (kept * before / after)[:, None] * self.directions
        self._explained = np.sqrt(found.V_q / (found.V_q + found.s))

    @property
    def first_order(self) -> np.ndarray:
        """Covariance (b, b) of totals through the weights, to first order."""
        return self._roots @ self._roots.T

    def draw(self, n: int, seed: int) -> np.ndarray:
        """Joint draws (n, b): the marginal distributions are those of the law, the weights make them go together."""
        rng = np.random.default_rng(seed)
        common = rng.standard_normal((n, self.directions.shape[1])) @ unit_rows(self.directions)[0].T
        own = np.random.default_rng([seed, 4]).standard_normal(common.shape)
        share = self._explained if self.state is None else self.state.share_of_weights
        return self.law.at_scores(share * common + np.sqrt(1 - share**2) * own)


class Conditioned:
    """Individuals of bags by one member, those of observed bags given their bag's output."""

    def __init__(self, member: Member, plan: Plan, outputs: Outputs, risk: bool, smooth: bool) -> None:
        self.member, self.plan, self.seen = member, plan, outputs.seen
        self.white = member.white if smooth else 0.0
        self.found = plan.moments(member, individuals=True)
        self.state = observe(member.spec, self.found, outputs.y, outputs.facts, member.parameters, risk)
        bag = plan.ready.bag
        self.mean, self.variance, self.gain = condition(self.found, self.state, bag, self.white)
        self.within = within_bags(member.spec, self.found, self.state, bag, plan.ready.effective_sizes())
        if not smooth:
            self.mean, self.variance = self.mean + self.within.mean, self.variance + self.within.sd**2
        self._varied = not smooth and bool(self.within.sd.any())

    def draw(self, n: int, seed: int) -> np.ndarray:
        """Joint draws (n, rows) of `Psi(f)`, whose sums over an observed bag are draws of its total."""
        member, plan, ready = self.member, self.plan, self.plan.ready
        scores = _Scores(member, self.found.directions, self.state, n, seed)
        rng = np.random.default_rng([seed, 5])

        def adjust(bag: int, f: np.ndarray, v: np.ndarray) -> np.ndarray:
            if not self.seen[bag]:
                return f
            rows = slice(ready.starts[bag], ready.starts[bag + 1])
            if self._varied:
                f = f + self.within.mean[rows, None] + self.within.sd[rows, None] * self._variation(rows, n, rng)
            return _with_total(member.spec.link, f, self.gain[rows], ready.weight[rows], scores.of(bag, v))

        return draw_rows(*member.state, ready.X, plan.known, n, seed, self.white, ready.starts, adjust)

    def _variation(self, rows: slice, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draws (rows, n) of variance one about the mean of their bag, alike in places near to each other."""
        share = self.plan.share[rows]
        if self.plan.places is None:
            drawn = rng.standard_normal((len(share), n))
            variance = 1 - 2 * share + np.sum(share**2)
        else:
            drawn, variance = draw_near_alike(self.plan.places[rows] / REACH, share, n, rng)
        drawn = drawn - share @ drawn
        return drawn / np.sqrt(np.maximum(variance, 1e-12))[:, None]


class _Scores:
    """Draws of `h` of each bag that go with draws of the weights."""

    def __init__(self, member: Member, directions: np.ndarray, state: BagState, n: int, seed: int) -> None:
        self.member, self.state = member, state
        _, length = unit_rows(directions @ member.q.factor)
        self.directions = directions / length[:, None]
        self.own = np.random.default_rng([seed, 4]).standard_normal((len(directions), n))

    def of(self, bag: int, v: np.ndarray) -> np.ndarray:
        """`h` (n) of a bag for weights (m, n)."""
        state = self.state
        common = self.directions[bag] @ (v - self.member.q.mu[:, None])
        by_weights = state.kept[bag] * np.sqrt(state.kappa[bag]) * common
        return state.mean[bag] + by_weights + np.sqrt(state.variance[bag]) * self.own[bag]


def unit_rows(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of length one, and by what they were divided."""
    length = np.linalg.norm(rows, axis=1)
    length = np.where(length > 0, length, 1.0)
    return rows / length[:, None], length


def _with_total(link: Link, f: np.ndarray, gain: np.ndarray, weight: np.ndarray, h: np.ndarray) -> np.ndarray:
    """Draws of `f` (rows, n) moved along `gain` until the total of each draw is `Psi(h)`: Matheron's rule."""
    wanted, _ = link.rate_and_slope(h)
    along = gain[:, None] if np.any(gain * weight > 0) else np.ones((len(f), 1))
    for _ in range(MOST_STEPS):
        rates, slopes = link.rate_and_slope(f)
        total = weight @ rates
        if np.all(np.abs(total - wanted) <= CLOSE * np.abs(wanted)):
            break
        with np.errstate(divide="ignore", invalid="ignore"):
            # a Newton step in the coordinate of the total, where it is nearly linear
            reached = link.inverse(total)
            step = (h - reached) * link.rate_and_slope(reached)[1] / (weight @ (along * slopes))
        f = f + along * np.clip(np.nan_to_num(step), -3.0, 3.0)
    return f
