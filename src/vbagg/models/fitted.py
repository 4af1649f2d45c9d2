"""A fitted latent function: everything that predictions need, and of the training data only outputs by bag."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vbagg.bags import Bags
from vbagg.chunks import Chunk, make_chunks
from vbagg.conditioning import BagState, condition, observe
from vbagg.elbo import Parameters, Spec
from vbagg.errors import unknown_name
from vbagg.features import Basis, compiled_basis
from vbagg.inference import Gaussian
from vbagg.kernels import White
from vbagg.laws import Law, Mixture
from vbagg.likelihoods.base import Likelihood
from vbagg.links import Link
from vbagg.models import setup
from vbagg.models.frame import Frame, drop_inert
from vbagg.observed import Observed
from vbagg.posterior import BagPosterior, Posterior, bag_moments, draw_rows, row_marginals

BAG_EFFECTS = ("risk", "reporting")
MOST_STEPS, CLOSE = 8, 1e-9
"""Newton steps that give a draw its total, and the relative distance that is none."""


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


@dataclass(frozen=True)
class Fitted:
    """Units, the members of the posterior, and the outputs that it was fitted to."""

    members: tuple[Member, ...]
    """What predictions average over."""
    optimum: Member
    """The best parameters alone."""
    frame: Frame
    residual: str
    random_state: int
    observed: Observed

    @property
    def spec(self) -> Spec:
        """What was computed."""
        return self.optimum.spec

    @property
    def likelihood(self) -> Likelihood:
        """Density of a bag's output."""
        return self.spec.likelihood

    @property
    def rate_scale(self) -> float:
        """Overall rate, by which rates are scaled."""
        return self.frame.rate_scale

    def learnt(self) -> dict[str, float]:
        """Likelihood parameters at the optimum in the user's units."""
        return self.optimum.learnt(self.rate_scale)

    def posterior(self, X: Any, offset: Any, smooth: bool = False, bag_effect: str = "risk") -> Posterior:
        """Posterior of the rate of individuals; those of training bags are conditioned on their bag's output."""
        if bag_effect not in BAG_EFFECTS:
            raise unknown_name("bag_effect", bag_effect, BAG_EFFECTS)
        if isinstance(X, Bags):
            return self._individuals_of_bags(X, offset, smooth, bag_effect == "risk")
        rows = self.frame.rows(X)
        known = self.frame.known_of_rows(offset, len(rows))

        def law(member: Member) -> Law:
            white = member.white if smooth else 0.0
            mean, variance = row_marginals(*member.state, rows, known, member.single)
            return self._rates(member, mean, variance - white, white)

        def draw(member: Member, n: int, seed: int) -> np.ndarray:
            white = member.white if smooth else 0.0
            return self.rate_scale * draw_rows(*member.state, rows, known, n, seed, white)

        return Posterior(self._mixed(law), self._mixed_draws(draw))

    def _individuals_of_bags(self, bags: Bags, offset: Any, smooth: bool, risk: bool) -> Posterior:
        plan = self._plan(bags, offset, all_rows=True)
        states: dict[int, tuple[BagState, np.ndarray]] = {}

        def law(member: Member) -> Law:
            white = member.white if smooth else 0.0
            state = observe(*member.state, plan.chunks(member), member.parameters, risk)
            mean, variance, gain = condition(*member.state, plan.chunks(member), state, white)
            states[id(member)] = state, gain
            return self._rates(member, mean, variance, white)

        mixed = self._mixed(law)

        def draw(member: Member, n: int, seed: int) -> np.ndarray:
            white = member.white if smooth else 0.0
            state, gain = states[id(member)]
            ready, known = plan.ready, plan.known
            scores = _Scores(member, bag_moments(*member.state, plan.chunks(member))[3], state, n, seed)

            def adjust(bag: int, f: np.ndarray, v: np.ndarray) -> np.ndarray:
                if not plan.seen[bag]:
                    return f
                rows = slice(ready.starts[bag], ready.starts[bag + 1])
                return _with_total(member.spec.link, f, gain[rows], ready.weight[rows], scores.of(bag, v))

            rates = draw_rows(*member.state, ready.X, known, n, seed, white, ready.starts, adjust)
            return self.rate_scale * rates

        return Posterior(mixed, self._mixed_draws(draw))

    def posterior_bags(self, bags: Bags, offset: Any) -> BagPosterior:
        """Posterior of the totals of bags; those of training bags are conditioned on their output."""
        plan = self._plan(bags, offset)
        link = self.spec.link
        found: dict[int, _Totals] = {}

        def law(member: Member) -> Law:
            found[id(member)] = own = _Totals(member, plan)
            return own.law

        mixed = self._mixed(law)

        def draw(member: Member, n: int, seed: int) -> np.ndarray:
            return found[id(member)].draw(n, seed)

        def covariance() -> np.ndarray:
            total = np.zeros((len(mixed), len(mixed)))
            for member in self.members:
                own = found[id(member)]
                M = own.law.mean
                with jax.enable_x64(True):
                    mean, first_order = jnp.asarray(M), jnp.asarray(own.first_order)
                    within = np.array(link.total_covariance(mean[:, None], mean[None, :], first_order))
                within[np.diag_indices_from(within)] = own.law.std**2
                total += member.weight * (within + np.outer(M - mixed.mean, M - mixed.mean))
            return total

        return BagPosterior(mixed, self._mixed_draws(draw), covariance)

    def predictive_bags(self, bags: Bags, trials: Any, offset: Any) -> Posterior:
        """Distribution of a new output of each bag, taken as a new bag."""
        likelihood = self.likelihood
        self.frame.check_bags(bags)
        facts = setup.predictive_facts(bags, likelihood, trials)
        plan = self._plan(bags, offset, recognise=False)
        found: dict[int, _Totals] = {}

        def law(member: Member) -> Law:
            found[id(member)] = own = _Totals(member, plan)
            return likelihood.predictive(own.law, facts, member.learnt(self.rate_scale))

        mixed = self._mixed(law)

        def draw(member: Member, n: int, seed: int) -> np.ndarray:
            totals, rng = found[id(member)].draw(n, seed), np.random.default_rng([seed, 1])
            return likelihood.simulate(totals, facts, member.learnt(self.rate_scale), rng)

        return Posterior(mixed, self._mixed_draws(draw))

    def _rates(self, member: Member, mean: np.ndarray, variance: np.ndarray, white: float) -> Law:
        sd = np.sqrt(np.maximum(variance, 0.0))
        return member.spec.link.rate_law(member.smoothed(mean, white), sd, scale=self.rate_scale)

    def _plan(self, bags: Bags, offset: Any, all_rows: bool = False, recognise: bool = True) -> _Plan:
        """Bags in the units of training, with the outputs of those that are recognised."""
        self.frame.check_bags(bags)
        used, rows_offset = drop_inert(bags, offset)
        at = self.observed.recognise(used, rows_offset) if recognise else np.full(len(bags), -1)
        seen, place = at >= 0, np.maximum(at, 0)
        y = np.where(seen, self.observed.y[place], np.nan)
        facts = {name: np.where(seen, values[place], 1.0) for name, values in self.observed.facts.items()}
        if all_rows and used is not bags:
            used, rows_offset = bags, _row_offset(bags, offset)
        ready, known = self.frame.standardised(used, rows_offset)
        n_columns = max(len(member.q.mu) for member in self.members)
        options = {"residual": self.residual, "random_state": self.random_state, "n_columns": n_columns}
        return _Plan(ready, known, y, facts, options)

    def _mixed(self, law: Callable[[Member], Law]) -> Law:
        with jax.enable_x64(True):
            laws = [law(member) for member in self.members]
        return laws[0] if len(laws) == 1 else Mixture(laws, [member.weight for member in self.members])

    def _mixed_draws(self, draw: Callable[[Member, int, int], np.ndarray]) -> Callable[[int, int], np.ndarray]:
        """Joint draws: each picks one member."""

        def mixed(n: int, seed: int) -> np.ndarray:
            weights = [member.weight for member in self.members]
            counts = np.random.default_rng([seed, 2]).multinomial(n, weights)
            with jax.enable_x64(True):
                parts = [
                    draw(member, int(count), seed) for member, count in zip(self.members, counts, strict=True) if count
                ]
            return np.random.default_rng([seed, 3]).permutation(np.concatenate(parts)) if len(parts) > 1 else parts[0]

        return mixed


def _row_offset(bags: Bags, offset: Any) -> np.ndarray:
    return np.zeros(bags.n_individuals) if offset is None else bags.align_rows(offset, "offset")


class _Plan:
    """Bags that are predicted: rows in standard units, outputs where known (else NaN), and their chunks."""

    def __init__(self, ready: Bags, known: np.ndarray, y: np.ndarray, facts: Any, options: dict[str, Any]) -> None:
        self.ready, self.known, self.y, self.facts, self.options = ready, known, y, facts, options
        self._chunks: dict[bool, list[Chunk]] = {}

    @property
    def seen(self) -> np.ndarray:
        """(b) whether the output is known."""
        return np.isfinite(self.y)

    def chunks(self, member: Member) -> list[Chunk]:
        """Padded arrays in the precision of a member's features."""
        if member.single not in self._chunks:
            precision = np.float32 if member.single else np.float64
            self._chunks[member.single] = make_chunks(
                self.ready, self.y, self.facts, self.known, precision=precision, **self.options
            )
        return self._chunks[member.single]


class _Totals:
    """Distribution of the totals of bags by one member: a law, joint draws, first-order covariances."""

    def __init__(self, member: Member, plan: _Plan) -> None:
        link, chunks = member.spec.link, plan.chunks(member)
        self.member, self.state = member, None
        M, V_q, s, directions = bag_moments(*member.state, chunks)
        self.directions = directions @ member.q.factor
        if plan.seen.any():
            self.state = observe(*member.state, chunks, member.parameters, risk=True)
            self.law = link.rate_law(self.state.mean, np.sqrt(self.state.total_variance))
            kept = self.state.kept
        else:
            self.law = link.total_law.from_moments(M, V_q + s)
            kept = np.ones(len(M))
        # change of the total per standard normal of the weights
        slope = np.asarray(link.coordinate_slope(jnp.asarray(M)) / link.coordinate_slope(jnp.asarray(self.law.mean)))
        self._roots = (kept * slope)[:, None] * self.directions
        self._explained = np.sqrt(V_q / (V_q + s))

    @property
    def first_order(self) -> np.ndarray:
        """Covariance (b, b) of totals through the weights, to first order."""
        return self._roots @ self._roots.T

    def draw(self, n: int, seed: int) -> np.ndarray:
        """Joint draws (n, b): the marginal distributions are those of the law, the weights make them go together."""
        rng = np.random.default_rng(seed)
        length = np.linalg.norm(self.directions, axis=1)
        unit = self.directions / np.where(length > 0, length, 1.0)[:, None]
        common = rng.standard_normal((n, unit.shape[1])) @ unit.T
        own = np.random.default_rng([seed, 4]).standard_normal(common.shape)
        share = self._explained if self.state is None else self.state.share_of_weights
        return self.law.at_scores(share * common + np.sqrt(1 - share**2) * own)


class _Scores:
    """Draws of `h` of each bag that go with draws of the weights."""

    def __init__(self, member: Member, directions: np.ndarray, state: BagState, n: int, seed: int) -> None:
        self.member, self.state = member, state
        root = directions @ member.q.factor
        length = np.linalg.norm(root, axis=1)
        self.directions = directions / np.where(length > 0, length, 1.0)[:, None]
        self.own = np.random.default_rng([seed, 4]).standard_normal((len(directions), n))

    def of(self, bag: int, v: np.ndarray) -> np.ndarray:
        """`h` (n) of a bag for weights (m, n)."""
        state = self.state
        common = self.directions[bag] @ (v - self.member.q.mu[:, None])
        by_weights = state.kept[bag] * np.sqrt(state.kappa[bag]) * common
        return state.mean[bag] + by_weights + np.sqrt(state.variance[bag]) * self.own[bag]


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
