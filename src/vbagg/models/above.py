"""Joint draws of how much weight, such as how many people, lies where the rate is above a threshold.

Draws of `posterior(bags).sample` take features of all individuals once more, and the residuals of neighbours jointly.
Here many draws of many individuals cost little beside the pass that finds their moments: that pass multiplies the
features by the steps of all weights that are drawn. The rest follows by regression on the coordinate `h` of each bag's
total (`conditioning.py`), by which an individual has the mean and the variance of its law:

    f_i = m_i + A_i (v - mu) + g_i (h - E h) - g_i (eta(v) - E eta) + e_i + effect inside the bag

What is left, `e_i`, is drawn for each individual alone. Weights, and the members of the average, are the same in all
draws of one seed, whatever the bags: those of some bags can be added to those of others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from vbagg.chunks import round_up
from vbagg.links import Link
from vbagg.models.inside import VariedInside
from vbagg.models.predicted import Conditioned, Member, Outputs, Plan, unit_rows

FAST = np.float32
MOST_BINS = 1 << 16
WIDTH_BITS = 1
"""Numbers of draws of a member are rounded up to so many bits more, so that few shapes are compiled."""


@dataclass(frozen=True)
class Draws:
    """Which draws: how many, of which seed, and of which part of the bags that they are joint over."""

    n: int
    seed: int
    part: int

    def counts(self, members: Sequence[Member]) -> list[int]:
        """Draws of each member: in proportion to its weight, up to rounding."""
        weight = np.cumsum([member.weight for member in members])
        return np.diff(np.floor(self.n * weight / weight[-1] + 0.5), prepend=0.0).astype(int).tolist()

    def steps(self, number: int, member: Member, n: int, width: int) -> np.ndarray:
        """Steps (m, width) of the weights from their mean, zero beyond the draws: the same for all parts."""
        normal = np.random.default_rng([self.seed, 1, number]).standard_normal((len(member.q.mu), n))
        return np.pad(member.q.factor @ normal, ((0, 0), (0, width - n)))

    def own(self, number: int) -> np.random.Generator:
        """Random numbers of a part."""
        return np.random.default_rng([self.seed, 2, number, self.part])


def weight_above(
    members: Sequence[Member], plan: Plan, outputs: Outputs, weight: np.ndarray, edges: np.ndarray, draws: Draws
) -> np.ndarray:
    """Draws (n, k) of the sum of the weight of rows whose latent value is above edges (k), in ascending order."""
    counts = draws.counts(members)
    width = round_up(max(counts), WIDTH_BITS)
    inside, bins = VariedInside(plan), Bins(edges)
    found = []
    for number, (member, n) in enumerate(zip(members, counts, strict=True)):
        if n:
            steps = draws.steps(number, member, n, width)
            moved = plan.moved(member, steps)
            own = Conditioned(member, plan, outputs, risk=True, smooth=False)
            latent = _latent(own, moved, steps[:, :n], inside, draws.own(number))
            found += [bins.weight_above(_folded(member.spec.link, f), weight) for f in latent]
    return np.stack(found)


def edges_of(link: Link, rates: np.ndarray) -> np.ndarray:
    """Latent values above which rates (k) are exceeded; infinite where all rates are above, or none."""
    with np.errstate(invalid="ignore", divide="ignore"):
        edges = np.where(rates < link.least_rate, -np.inf, link.inverse(rates))
    return np.where(np.isnan(edges), np.inf, edges)


def _folded(link: Link, f: np.ndarray) -> np.ndarray:
    """Latent values that grow with the rate."""
    return np.abs(f) if link.least_coordinate == 0 else f


def _latent(
    own: Conditioned, moved: np.ndarray, steps: np.ndarray, inside: VariedInside, rng: np.random.Generator
) -> Iterator[np.ndarray]:
    """Draws of `f` (rows), one after the other."""
    state, bag, rows = own.state, own.plan.ready.bag, own.found.rows
    directions = unit_rows(own.found.directions @ own.member.q.factor)[1]
    common = (own.found.directions / directions[:, None]) @ steps
    by_weights = (state.kept - 1)[:, None] * np.sqrt(state.kappa)[:, None] * common
    by_output = np.sqrt(state.variance)[:, None] * rng.standard_normal(common.shape)
    prior = rows["residual"] - own.white + rows["shape"] ** 2 * state.effect[bag]
    tau = np.where(state.tau > 0, state.tau, 1.0)[bag]
    # the regression cannot explain more than there is, as in `condition`
    explained = np.minimum(own.gain**2 * tau, prior)
    gain = own.gain.astype(FAST)
    gain_by_output = (np.sign(own.gain) * np.sqrt(explained / tau)).astype(FAST)
    mean, sd = own.mean.astype(FAST), np.sqrt(np.maximum(prior - explained, 0.0)).astype(FAST)
    sd_inside, n = own.within.sd.astype(FAST), steps.shape[1]
    varied = inside.draws(n, rng) if sd_inside.any() else None
    along = [(gain, by_weights), (gain_by_output, by_output)]
    if np.allclose(gain, gain_by_output, rtol=1e-6):
        along = [(gain, by_weights + by_output)]
    for draw in range(n):
        f = mean + moved[draw]
        for slope, by in along:
            f += slope * by[:, draw].astype(FAST)[bag]
        f += sd * rng.standard_normal(len(f), dtype=FAST)
        if varied is not None:
            f += sd_inside * next(varied)
        yield f


class Bins:
    """Finds between which edges numbers lie, by a table of narrow steps of equal width, no two edges in one of them."""

    def __init__(self, edges: np.ndarray) -> None:
        self._below = int(np.sum(edges == -np.inf))
        self._n = len(edges)
        self._edges = edges[np.isfinite(edges)].astype(FAST)
        self._table: tuple[np.ndarray, np.ndarray] | None = None
        gaps = np.diff(self._edges.astype(np.float64))
        if len(gaps) and gaps.min() > 0:
            self._step = 0.99 * gaps.min()
            count = int((self._edges[-1] - self._edges[0]) / self._step) + 2
            if count <= MOST_BINS:
                ends = self._edges[0] + self._step * np.arange(1, count + 1)
                before = np.searchsorted(self._edges, ends - self._step)
                following = np.append(self._edges, np.inf)[before].astype(FAST)
                self._table = before, following

    def number_below(self, values: np.ndarray) -> np.ndarray:
        """How many finite edges are below each number."""
        if self._table is None:
            return np.searchsorted(self._edges, values)
        before, following = self._table
        place = (values - self._edges[0]) * FAST(1 / self._step)
        at = np.clip(place, 0, len(before) - 1).astype(np.int32)
        return before[at] + (values > following[at])

    def weight_above(self, values: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Sum of the weight of numbers above each edge (k)."""
        below = np.bincount(self.number_below(values), weight, len(self._edges) + 1)
        above = np.cumsum(below[::-1])[::-1]
        out = np.zeros(self._n)
        out[: self._below] = above[0]
        out[self._below : self._below + len(self._edges)] = above[1:]
        return out
