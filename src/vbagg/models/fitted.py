"""A fitted latent function: everything that predictions need, and of the training data only outputs by bag."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vbagg.bags import Bags
from vbagg.effects import BagEffects
from vbagg.elbo import Spec
from vbagg.errors import unknown_name
from vbagg.information import Information
from vbagg.latent_parts import LatentParts, latent_parts
from vbagg.laws import Law, Mixture, Summary
from vbagg.likelihoods.base import Likelihood
from vbagg.likelihoods.reported import COMPLETENESS, EXPOSURE_SPREAD
from vbagg.models import setup
from vbagg.models.above import Draws, edges_of, weight_above
from vbagg.models.areas import Areas, AreaSums, area_sums
from vbagg.models.bag_effects import bag_effects
from vbagg.models.bag_information import bag_information
from vbagg.models.frame import Frame, bag_weights, drop_inert
from vbagg.models.predicted import Conditioned, Member, Outputs, Plan, Totals
from vbagg.observed import Observed
from vbagg.posterior import BagPosterior, Posterior, RowPosterior, Simulated, draw_rows
from vbagg.row_rates import Members, Mixing, compiled_as_a_whole, row_marginals, row_summary
from vbagg.threads import one_blas_thread

BAG_EFFECTS = ("risk", "reporting")


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

        white = {id(member): member.white if smooth else 0.0 for member in self.members}
        single = self.optimum.single

        def law() -> Law:
            with jax.enable_x64(True):
                moments = row_marginals(self.spec, self._stacked, rows, known, single)
            own = {id(member): pair for member, *pair in zip(self.members, *moments, strict=True)}

            def of_member(member: Member) -> Law:
                mean, variance = own[id(member)]
                return self._rates(member, mean, variance - white[id(member)], white[id(member)])

            return self._mixed(of_member)

        def draw(member: Member, n: int, seed: int, joint: int) -> np.ndarray:
            return self.rate_scale * draw_rows(*member.state, rows, known, n, seed, white[id(member)], joint=joint)

        def summary(levels: np.ndarray, thresholds: np.ndarray) -> Summary:
            with jax.enable_x64(True):
                weight = np.array([member.weight for member in self.members])
                effects = np.array(list(white.values()))
                mixing = Mixing(weight / weight.sum(), effects, np.float64(self.rate_scale))
                return row_summary(self.spec, self._stacked, mixing, rows, known, levels, thresholds, single)

        return RowPosterior(law, self._mixed_draws(draw), summary if compiled_as_a_whole(len(rows)) else None)

    def latent_parts(self, X: Any, place: Sequence[str]) -> LatentParts:
        """How well what covariates say, and what the place says, is known of individuals."""
        rows, names = self.frame.rows(X), self.frame.feature_names
        columns = [names.index(name) for name in place if name in names]
        weight = np.array([member.weight for member in self.members])
        with jax.enable_x64(True):
            return latent_parts(self.spec, self._stacked, weight, rows, columns, self.optimum.single)

    def _individuals_of_bags(self, bags: Bags, offset: Any, smooth: bool, risk: bool) -> Posterior:
        plan, outputs = self._plan(bags, offset, all_rows=True), self._outputs(bags, offset)
        known: dict[int, Conditioned] = {}

        def law(member: Member) -> Law:
            known[id(member)] = own = Conditioned(member, plan, outputs, risk, smooth)
            return self._rates(member, own.mean, own.variance, own.white)

        mixed = self._mixed(law)

        def draw(member: Member, n: int, seed: int) -> np.ndarray:
            return self.rate_scale * known[id(member)].draw(n, seed)

        return Posterior(mixed, self._mixed_draws(draw))

    def posterior_bags(self, bags: Bags, offset: Any) -> BagPosterior:
        """Posterior of the totals of bags; those of training bags are conditioned on their output."""
        plan, outputs = self._plan(bags, offset), self._outputs(bags, offset)
        link = self.spec.link
        found: dict[int, Totals] = {}

        def law(member: Member) -> Law:
            found[id(member)] = own = Totals(member, plan, outputs)
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

    def posterior_areas(self, bags: Bags, row: np.ndarray, area: np.ndarray, weight: np.ndarray) -> Posterior:
        """Posterior of the totals of areas made of rows of bags, each with a weight of its own."""
        areas, sums = self._sums_of_areas(bags, row, area, weight, None)
        known: dict[int, Conditioned] = {}

        def law(member: Member) -> Law:
            known[id(member)], own = sums(member)
            return own.law(self.spec.link)

        mixed = self._mixed(law)

        def draw(member: Member, n: int, seed: int) -> np.ndarray:
            rates = self.rate_scale * known[id(member)].draw(n, seed)[:, areas.row] * areas.weight
            of_row = areas.area[areas.piece]
            return np.stack([np.bincount(of_row, drawn, areas.n) for drawn in rates])

        return Posterior(mixed, self._mixed_draws(draw))

    def area_sums(
        self, bags: Bags, row: np.ndarray, area: np.ndarray, weight: np.ndarray, whole: np.ndarray
    ) -> list[AreaSums]:
        """What these bags add to the totals of areas whose weights, here and elsewhere, sum to `whole`, by member."""
        _, sums = self._sums_of_areas(bags, row, area, weight, whole)
        with jax.enable_x64(True), one_blas_thread():
            return [sums(member)[1] for member in self.members]

    def area_law(self, sums: list[AreaSums]) -> Law:
        """Distribution of the totals of areas, from the sums over all of their bags."""
        of_member = dict(zip(map(id, self.members), sums, strict=True))
        return self._mixed(lambda member: of_member[id(member)].law(self.spec.link))

    def _sums_of_areas(
        self, bags: Bags, row: np.ndarray, area: np.ndarray, weight: np.ndarray, whole: np.ndarray | None
    ) -> tuple[Areas, Callable[[Member], tuple[Conditioned, AreaSums]]]:
        plan, outputs = self._plan(bags, None, all_rows=True), self._outputs(bags, None)
        areas, pieces = self._pieces(bags, row, area, weight, whole)

        def sums(member: Member) -> tuple[Conditioned, AreaSums]:
            own = Conditioned(member, plan, outputs, risk=True, smooth=False)
            rate = self._rates(member, own.mean, own.variance, own.white).mean
            return own, area_sums(member, own, areas, pieces, rate)

        return areas, sums

    def _pieces(
        self, bags: Bags, row: np.ndarray, area: np.ndarray, weight: np.ndarray, whole: np.ndarray | None
    ) -> tuple[Areas, Plan]:
        """Areas in pieces that each lie in one bag, and the pieces as bags."""
        n = int(area.max()) + 1
        used = weight > 0
        row, area, weight = row[used], area[used], weight[used]
        key = area * len(bags) + bags.bag[row]
        order = np.argsort(key, kind="stable")
        row, weight, key = row[order], weight[order], key[order]
        piece = np.cumsum(np.diff(key, prepend=-1) > 0) - 1
        own, bag = np.divmod(np.unique(key), len(bags))
        effective = np.bincount(piece, weight) ** 2 / np.bincount(piece, weight**2)
        smaller = bags.effective_sizes()[bag] / effective
        if self.spec.link.averages:
            whole = np.bincount(own[piece], weight, n) if whole is None else whole
            weight = weight / whole[own[piece]]
        parts = Bags(bags.X[row], piece, weight, coordinates=())
        scaled = parts.with_arrays(self.frame.scaler.forward(parts.X), weight * self.rate_scale)
        known = self.frame.known(np.zeros(len(row)))
        return Areas(row, weight, piece, own, bag, smaller, n), Plan(scaled, known, self._options)

    @property
    def _options(self) -> dict[str, Any]:
        """How bags are laid out for a pass."""
        n_columns = max(len(member.q.mu) for member in self.members)
        return {"residual": self.residual, "random_state": self.random_state, "n_columns": n_columns}

    def predictive_bags(
        self, bags: Bags, trials: Any, offset: Any, completeness: Any = None, weight_sd: Any = None
    ) -> Posterior:
        """Distribution of a new output of each bag, taken as a new bag."""
        self.frame.check_bags(bags)
        likelihood, facts = setup.to_predict(bags, self.likelihood, trials, completeness, weight_sd)
        plan = self._plan(bags, offset)
        found: dict[int, Totals] = {}

        def law(member: Member) -> Law:
            found[id(member)] = own = Totals(member, plan, None)
            return likelihood.predictive(own.law, facts, member.learnt(self.rate_scale))

        mixed = self._mixed(law)

        def draw(member: Member, n: int, seed: int) -> np.ndarray:
            totals, rng = found[id(member)].draw(n, seed), np.random.default_rng([seed, 1])
            return likelihood.simulate(totals, facts, member.learnt(self.rate_scale), rng)

        return Posterior(mixed, self._mixed_draws(draw))

    def simulated(
        self, bags: Bags, trials: Any, offset: Any, completeness: Any, weight_sd: Any, n: int, seed: int
    ) -> Simulated:
        """Joint draws of the rates of individuals, given all outputs, and new outputs that would come of them."""
        plan, outputs = self._plan(bags, offset, all_rows=True), self._outputs(bags, offset)
        likelihood, facts = setup.to_predict(bags, self.likelihood, trials, completeness, weight_sd)
        weighted = bag_weights(bags, self.spec.link)

        def draw(member: Member, n: int, seed: int) -> np.ndarray:
            rates = self.rate_scale * Conditioned(member, plan, outputs, risk=True, smooth=False).draw(n, seed)
            totals = np.stack([weighted.sum_by_bag(weighted.weight * row) for row in rates])
            learnt, rng = member.learnt(self.rate_scale), np.random.default_rng([seed, 6])
            # the effect of a bag whose output is known is part of the rates that were drawn
            given = likelihood.without_effect(learnt).simulate(totals, facts, learnt, rng)
            others = likelihood.simulate(totals, facts, learnt, rng)
            return np.hstack([rates, np.where(outputs.seen, given, others)])

        drawn = self._mixed_draws(draw)(n, seed)
        return Simulated(drawn[:, : bags.n_individuals], drawn[:, bags.n_individuals :])

    def weight_above(
        self, bags: Bags, thresholds: np.ndarray, offset: Any, weight: np.ndarray, draws: Draws
    ) -> np.ndarray:
        """Joint draws (n, k) of the weight of individuals whose rate is above thresholds, which are in order."""
        plan, outputs = self._plan(bags, offset, all_rows=True), self._outputs(bags, offset)
        edges = edges_of(self.spec.link, thresholds / self.rate_scale)
        with jax.enable_x64(True), one_blas_thread():
            return weight_above(self.members, plan, outputs, weight, edges, draws)

    def knows(self, bags: Bags, offset: Any) -> np.ndarray:
        """(b) whether each bag is one that the model was fitted to."""
        return self._outputs(bags, offset).seen

    def bag_effects(self, bags: Bags, trials: Any, offset: Any) -> BagEffects:
        """How far the outputs of training bags are above what is expected, and what the others say of them."""
        self.frame.check_bags(bags)
        plan, outputs = self._plan(bags, offset), self._outputs(bags, offset)
        spread = outputs.facts.get(EXPOSURE_SPREAD)
        weight_sd = None if spread is None else np.where(outputs.seen, np.sqrt(spread), 0.0)
        ways = setup.to_predict(bags, self.likelihood, trials, outputs.facts.get(COMPLETENESS), weight_sd)
        with jax.enable_x64(True), one_blas_thread():
            return bag_effects(self.members, plan, outputs, bags.labels, *ways, self.rate_scale)

    def information(self, bags: Bags, offset: Any) -> Information:
        """How much of what may vary inside bags the outputs have settled."""
        plan, outputs = self._plan(bags, offset, all_rows=True), self._outputs(bags, offset)
        with jax.enable_x64(True), one_blas_thread():
            return bag_information(self.members, plan, outputs, bags)

    def _rates(self, member: Member, mean: np.ndarray, variance: np.ndarray, white: float) -> Law:
        sd = np.sqrt(np.maximum(variance, 0.0))
        return member.spec.link.rate_law(member.smoothed(mean, white), sd, scale=self.rate_scale)

    def _outputs(self, bags: Bags, offset: Any) -> Outputs:
        """Outputs of those bags that the model was fitted to."""
        used, rows_offset = drop_inert(bags, offset)
        at = self.observed.recognise(used, rows_offset)
        seen, place = at >= 0, np.maximum(at, 0)
        facts = {name: np.where(seen, values[place], 1.0) for name, values in self.observed.facts.items()}
        return Outputs(np.where(seen, self.observed.y[place], np.nan), facts)

    def _plan(self, bags: Bags, offset: Any, all_rows: bool = False) -> Plan:
        """Bags in the units of training, without rows of zero weight unless all are asked for, or known already."""
        self.frame.check_bags(bags)
        key = all_rows and not (bags.weight > 0).all()
        for known, (seen, plan) in self._plans.items() if offset is None else ():
            if seen() is bags and (known == key or (known and plan.serves_totals)):
                return plan
        if key:
            used, rows_offset = bags, _row_offset(bags, offset)
        else:
            used, rows_offset = drop_inert(bags, offset)
        plan = Plan(*self.frame.standardised(used, rows_offset), self._options)
        if offset is None:
            self._plans[key] = weakref.ref(bags, lambda _: self._plans.pop(key, None)), plan
        return plan

    @cached_property
    def _plans(self) -> dict[bool, tuple[weakref.ref[Bags], Plan]]:
        """The bags that were predicted last: several predictions of the same ones need one pass over them."""
        return {}

    @cached_property
    def _stacked(self) -> Members:
        """The members as arrays of a compiled function."""
        return Members.of([member.state[1:] for member in self.members])

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def _mixed(self, law: Callable[[Member], Law]) -> Law:
        with jax.enable_x64(True), one_blas_thread():
            laws = [law(member) for member in self.members]
        return laws[0] if len(laws) == 1 else Mixture(laws, [member.weight for member in self.members])

    def _mixed_draws(self, draw: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
        """Joint draws: each picks one member."""

        def mixed(n: int, seed: int, *how: int) -> np.ndarray:
            weights = [member.weight for member in self.members]
            counts = np.random.default_rng([seed, 2]).multinomial(n, weights)
            with jax.enable_x64(True), one_blas_thread():
                parts = [
                    draw(member, int(count), seed, *how)
                    for member, count in zip(self.members, counts, strict=True)
                    if count
                ]
            return np.random.default_rng([seed, 3]).permutation(np.concatenate(parts)) if len(parts) > 1 else parts[0]

        return mixed


def _row_offset(bags: Bags, offset: Any) -> np.ndarray:
    return np.zeros(bags.n_individuals) if offset is None else bags.align_rows(offset, "offset")
