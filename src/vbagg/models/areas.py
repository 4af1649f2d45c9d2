"""Totals of areas that are made of parts of bags, those of observed bags given the bag's output.

A piece is what an area has of one bag. Given the weights, pieces of different bags are independent, and a piece follows
its bag's coordinate `h` by regression, as an individual does (`conditioning.py`), here to first order in the link's
coordinate of its total.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from vbagg.conditioning import moments, more_variation
from vbagg.laws import Law
from vbagg.links import Link
from vbagg.models.predicted import Conditioned, Member, Plan


@dataclass(frozen=True)
class Areas:
    """Areas in pieces: rows (k) of bags, sorted by piece, with the weight that they have in the area."""

    row: np.ndarray
    weight: np.ndarray
    """In user's units; where totals are averages, weights of an area sum to one."""
    piece: np.ndarray
    """(k) piece of each row."""
    area: np.ndarray
    """(p) area of each piece."""
    bag: np.ndarray
    """(p) its bag."""
    smaller: np.ndarray
    """(p) how many times fewer individuals it has than its bag, in effect."""
    n: int
    """Number of areas."""

    def sum_pieces(self, values: np.ndarray) -> np.ndarray:
        """Sums (p) of numbers of rows (k)."""
        return np.bincount(self.piece, values, len(self.area))

    def sum_areas(self, values: np.ndarray) -> np.ndarray:
        """Sums (n) of numbers of pieces (p), or of their rows (p, m)."""
        out = np.zeros((self.n, *values.shape[1:]))
        np.add.at(out, self.area, values)
        return out


@dataclass(frozen=True)
class AreaSums:
    """Sums over the pieces of areas (n), by one member of a posterior; those of different bags can be added."""

    mean: np.ndarray
    own: np.ndarray
    """Variance that pieces do not share."""
    roots: np.ndarray
    """(n, m) change of the total per standard normal of the weights."""

    def law(self, link: Link) -> Law:
        """Distribution of each area's total."""
        return link.total_law.from_moments(self.mean, np.sum(self.roots**2, axis=1) + self.own)

    @staticmethod
    def packed(sums: Sequence[AreaSums], area: np.ndarray) -> np.ndarray:
        """Sums of all members, for the areas of these numbers, as columns of one array."""
        most = max(one.roots.shape[1] for one in sums)
        columns = [
            np.vstack([np.full(len(area), number), area, one.mean, one.own, _widened(one.roots, most).T])
            for number, one in enumerate(sums)
        ]
        return np.concatenate(columns, axis=1)

    @classmethod
    def added(cls, parts: Iterable[np.ndarray], place: np.ndarray) -> list[AreaSums]:
        """Sums of all members over parts that were packed; `place` of areas in the result, -1 for none."""
        total: dict[int, np.ndarray] = {}
        for part in parts:
            for number in np.unique(part[0]).astype(int).tolist() if part.size else ():
                own = np.asarray(part[:, part[0] == number])
                out = total.setdefault(number, np.zeros((place.max() + 1, len(part) - 2)))
                np.add.at(out, place[own[1].astype(np.intp)], own[2:].T)
        return [cls(out[:, 0], out[:, 1], out[:, 2:]) for _, out in sorted(total.items())]


def _widened(roots: np.ndarray, most: int) -> np.ndarray:
    return np.pad(roots, ((0, 0), (0, most - roots.shape[1])))


def area_sums(member: Member, own: Conditioned, areas: Areas, pieces: Plan, rate: np.ndarray) -> AreaSums:
    """Sums over pieces; `pieces` are bags with the weights of areas, `rate` the mean rate of rows."""
    link, state, bag = member.spec.link, own.state, areas.bag
    found = moments(*member.state, pieces.chunks(member), False)
    of_bags, rows = own.found, own.found.rows
    slope, slope_of_bag = (_slope(link, totals) for totals in (found.M, of_bags.M))
    # how much the coordinate of a piece changes with `f` of each of its rows
    weight = own.plan.ready.weight[areas.row]
    ratio = pieces.ready.weight / np.where(weight > 0, weight, 1.0)
    influence = (slope / slope_of_bag[bag])[areas.piece] * ratio * rows["influence"][areas.row]
    loading = areas.sum_pieces(influence * rows["shape"][areas.row])
    # variances of the coordinate from those of totals, as `observe` takes them for whole bags
    part = state.effect / (state.kappa + state.tau)
    effect = (of_bags.V_q + of_bags.s) * part / (1 - part)
    effect = (loading * slope_of_bag[bag] / slope) ** 2 * effect[bag]
    whole = found.V_q + found.s + effect
    _, variance = link.coordinate_moments(found.M, whole)
    by_weights, by_residual, effect = (variance * part / whole for part in (found.V_q, found.s, effect))
    varied = effect * more_variation(areas.smaller)
    # the residual's covariance with `h`, such that a whole bag has the variance of its own
    first_order = own.plan.ready.sum_by_bag(rows["influence"] * rows["with_residual"])
    scale = (state.tau - state.effect) / np.maximum(first_order, 1e-300)
    with_h = areas.sum_pieces(influence * rows["with_residual"][areas.row]) * scale[bag] + loading * state.effect[bag]
    tau, lost = np.where(state.tau > 0, state.tau, 1.0)[bag], (1 - state.kept)[bag]
    prior = by_residual + effect
    residual = prior - np.minimum(with_h**2 / tau, prior) * lost + varied
    # what the weights do to a piece, less what its bag's output takes back
    roots = _scaled(found.directions @ member.q.factor, by_weights)
    roots_of_bags = _scaled(of_bags.directions @ member.q.factor, state.kappa)
    roots = roots - (with_h / tau * lost)[:, None] * roots_of_bags[bag]
    mean = areas.sum_pieces(areas.weight * rate[areas.row])
    law = link.rate_law(link.inverse(mean), np.sqrt(np.sum(roots**2, axis=1) + residual))
    roots = roots / _slope(link, mean)[:, None]
    own_part = (law.std * mean / law.mean) ** 2 - np.sum(roots**2, axis=1)
    return AreaSums(areas.sum_areas(mean), areas.sum_areas(np.maximum(own_part, 0.0)), areas.sum_areas(roots))


def _slope(link: Link, totals: np.ndarray) -> np.ndarray:
    return np.asarray(link.coordinate_slope(jnp.asarray(totals)))


def _scaled(rows: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """Rows with these squared lengths."""
    length = np.linalg.norm(rows, axis=1)
    return rows * (np.sqrt(variance) / np.where(length > 0, length, 1.0))[:, None]
