"""Averaging over kernel and likelihood parameters: a few weighted fits around the optimum."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from vbagg.elbo import Parameters
from vbagg.features import carry_weights
from vbagg.inference.base import Known, Task
from vbagg.inference.gaussian import Gaussian
from vbagg.inference.mode import linearised
from vbagg.inference.problem import Problem
from vbagg.inference.profile import Point, Profile
from vbagg.inference.result import Fit, FlatParameters
from vbagg.priors import LogPrior
from vbagg.progress import Report
from vbagg.row_rates import Members, row_marginals

FIRST_SD = 0.5
"""Sd of log-parameters of which no search has learnt the curvature."""
LARGEST_SD = 1.5
"""Posterior sd of a log-parameter is taken to be at most this: about the prior's."""
LARGEST_GROWTH = 3.0
"""Slopes one sd off tell of sds up to so many times as large."""
LEAST_SURPLUS, LARGEST_SURPLUS = -2.0, 2.0
"""The log weight of a point exceeds the Gaussian's by at most the second. Where it is below the first, the Gaussian
reaches too far, and the point comes nearer to the centre."""
SHARES = (1.0, 0.5, 0.25)
"""Of the way from the centre at which a point is tried."""
LEAST_EFFECTIVE = 0.9
"""Share of the points that weights are spread over at least: their logarithms are shrunk until they are. A few points
stand for a distribution by their places; weights that leave few of them are an error of the Gaussian there."""
LEAST_WEIGHT = 0.02
"""Members of less weight than this share of an even one are left out of predictions."""
MEMBERS, MORE_MEMBERS = 8, 12
"""Points that predictions average over, at most: as many times a prediction costs that of a single one. More of them
where that is little; with few bags all of up to eleven parameters are uncertain."""
LITTLE = 2e8
"""Products of a feature with a weight in a pass over all individuals that are little work."""
SAMPLE = 1000
"""Individuals at which the effect of parameters is looked at."""
PRECISION = 0.1
"""Nats to which `q` is solved at each point, where it starts displaced from the mode as it is at the optimum."""
NOWHERE = "the posterior of the weights was found at none of the other values"
ORDERS = (4, 8, 12, 20, 24, 32, 44, 48, 60)
"""Orders of Hadamard matrices by Paley's construction: one more than a prime that leaves 3 when divided by 4."""


@dataclass(frozen=True)
class Average:
    """Weighted fits that stand for the posterior of the log-parameters."""

    members: list[tuple[float, Fit]]
    effective: float
    """Effective number of the points: their own if the posterior is Gaussian, less where weights are uneven, before
    these are spread out."""
    points: int
    note: str = ""
    """Why there is no average, where there is none."""


def average(problem: Problem, fit: Fit, trainable: Parameters, log_prior: LogPrior, report: Report) -> Average:
    """Points that match mean and covariance of a Gaussian posterior, weighted by their own objective.

    Points are one sd off in several directions, by the signs of a row of a Hadamard matrix: typical of a Gaussian
    in many dimensions, where points along the axes would be extremes. A first set of them, around the optimum with the
    curvature that the search has learnt, asks for slopes: their mean and their covariance with the signs are the centre
    and curvature of the Gaussian at the scale of the posterior. The second set stands for it, in the few directions
    that change `f` most.
    """
    flat = FlatParameters(fit.parameters, trainable)
    centre = flat.ravel(fit.parameters)
    k = len(centre)
    if k == 0:
        return Average([(1.0, fit)], 1.0, 1)
    if k >= ORDERS[-1]:
        return Average([(1.0, fit)], 1.0, 1, f"there are {k}, and an average takes {ORDERS[-1] - 1} at most")
    profile = Profile(problem.rough or problem, flat, log_prior)
    origin = profile(centre, PRECISION, slope=False)
    design = signs(k)
    most = MORE_MEMBERS if problem.products < LITTLE else MEMBERS
    few = signs(min(k, most - 1))

    def told(number: int, point: Point) -> Point:
        report({"averaging": number + 1, "of": len(design) + len(few), "objective": point.value})
        return point

    spread = _root(np.linalg.inv(fit.curvature) if len(fit.curvature) == k else np.eye(k) / FIRST_SD**2)
    tried = [told(s, profile(centre + spread @ row, PRECISION)) for s, row in enumerate(design)]
    effect = _effects(profile.problem, spread, design, tried)
    centre, spread = _gaussian(centre, spread, design, tried)
    spread = _by_effect(spread, effect)[:, : few.shape[1]]
    members, log_weights = [], []
    for number, row in enumerate(-few):
        for share in SHARES:
            offset = share * (spread @ row)
            point = told(len(design) + number, profile(centre + offset, PRECISION, slope=False))
            surplus = point.value - origin.value + share**2 * few.shape[1] / 2
            if point.solution.converged and surplus > LEAST_SURPLUS:
                log_weights.append(min(surplus, LARGEST_SURPLUS))
                members.append(_member(profile.problem, fit, origin, point))
                break
        else:
            if number == 0 and profile(centre, PRECISION, slope=False).value < origin.value + LEAST_SURPLUS:
                break  # no point around such a centre comes near
    if not members:
        return Average([(1.0, fit)], 1.0, 1, NOWHERE)
    raw = _weights(np.array(log_weights))
    weights = _spread_out(np.array(log_weights), LEAST_EFFECTIVE * len(members))
    kept = weights > LEAST_WEIGHT / len(weights)
    chosen = [(w / weights[kept].sum(), m) for w, m, keep in zip(weights, members, kept, strict=True) if keep]
    return Average(chosen, _effective(raw), len(few))


def average_alike(task: Task, known: Known, fit: Fit) -> Average:
    """Points that differ from the optimum as those of a fit to like data do from its own, and with their weights."""
    flat = FlatParameters(fit.parameters, task.trainable)
    centre, before = flat.ravel(fit.parameters), flat.ravel(known.optimum)
    profile = Profile(task.problem.rough or task.problem, flat, task.log_prior)
    origin = profile(centre, PRECISION, slope=False)
    members = []
    for number, (weight, parameters) in enumerate(known.members):
        point = profile(centre + flat.ravel(parameters) - before, PRECISION, slope=False)
        task.report({"averaging": number + 1, "of": len(known.members), "objective": point.value})
        if point.solution.converged:
            members.append((weight, _member(profile.problem, fit, origin, point)))
    if not members:
        return Average([(1.0, fit)], 1.0, 1, NOWHERE)
    weights = np.array([weight for weight, _ in members])
    weights /= weights.sum()
    chosen = [(w, member) for w, (_, member) in zip(weights.tolist(), members, strict=True)]
    return Average(chosen, _effective(weights), len(known.members))


def _weights(logs: np.ndarray) -> np.ndarray:
    weights = np.exp(logs - logs.max())
    return weights / weights.sum()


def _effective(weights: np.ndarray) -> float:
    """Number of even weights that would be as precise."""
    return 1 / float(weights @ weights)


def _spread_out(logs: np.ndarray, least: float) -> np.ndarray:
    """Weights from their logarithms, these shrunk by the largest factor that leaves `least` effective points."""
    low, high = 0.0, 1.0
    if _effective(_weights(logs)) >= least:
        low = 1.0
    while high - low > 1e-3:
        middle = (low + high) / 2
        low, high = (middle, high) if _effective(_weights(middle * logs)) >= least else (low, middle)
    return _weights(low * logs)


def _effects(problem: Problem, spread: np.ndarray, design: np.ndarray, tried: list[Point]) -> np.ndarray:
    """Slopes (k, 2 n) in the parameters of the posterior mean and sd of `f` at some individuals, from a design.

    The squared length of a change of both is that of the distribution by Wasserstein's distance.
    """
    rows = problem.some_rows(SAMPLE)

    members = Members.of([(point.basis, point.solution.q.mu, point.solution.q.factor) for point in tried])
    mean, variance = row_marginals(problem.spec, members, rows, np.zeros(len(rows)))
    return np.linalg.solve(spread.T, design.T @ np.hstack([mean, np.sqrt(variance)]) / len(design))


def _by_effect(spread: np.ndarray, effect: np.ndarray) -> np.ndarray:
    """Another root of the same covariance, whose columns are sorted by how much they change `f`.

    Their signs, on which the points depend, are those of their largest entries.
    """
    axes, _, _ = np.linalg.svd(spread.T @ effect, full_matrices=False)
    turned = spread @ axes
    largest = turned[np.argmax(np.abs(turned), axis=0), np.arange(turned.shape[1])]
    return turned * np.where(largest < 0, -1.0, 1.0)


def _gaussian(
    centre: np.ndarray, spread: np.ndarray, design: np.ndarray, tried: list[Point]
) -> tuple[np.ndarray, np.ndarray]:
    """Centre and root of the covariance of the Gaussian whose slopes at the points are nearest to those found."""
    known = [(row, spread.T @ point.slope) for row, point in zip(design, tried, strict=True) if point.slope is not None]
    if len(known) < len(design):
        return centre, spread
    rows, slopes = map(np.array, zip(*known, strict=True))
    curvature = -(rows.T @ slopes) / len(rows)
    values, axes = np.linalg.eigh((curvature + curvature.T) / 2)
    curvature = (axes * np.maximum(values, 1 / LARGEST_GROWTH**2)) @ axes.T
    inverse = np.linalg.inv(spread)
    root = _root(inverse.T @ curvature @ inverse)
    shift = root @ np.clip(root.T @ inverse.T @ slopes.mean(axis=0), -1.0, 1.0)
    return centre + shift, root


def _root(curvature: np.ndarray) -> np.ndarray:
    """Symmetrical square root of the inverse of a curvature, no sd larger than a prior's."""
    values, axes = np.linalg.eigh((curvature + curvature.T) / 2)
    return (axes / np.sqrt(np.maximum(values, 1 / LARGEST_SD**2))) @ axes.T


def _member(problem: Problem, fit: Fit, origin: Point, point: Point) -> Fit:
    """The fit at a point: `q` as representatives have it, moved by what all individuals changed at the optimum."""
    staged = problem.at(point.parameters, point.jitter)
    change = fit.q.mu - origin.solution.q.mu
    moved = carry_weights(problem.spec.feature_map, origin.basis, point.basis, change)
    q = Gaussian(point.solution.q.mu + moved, point.solution.q.factor)
    return replace(
        fit,
        parameters=point.parameters,
        q=q,
        posterior=linearised(staged, q),
        elbo=point.solution.elbo,
        objective=point.value,
        jitter=point.jitter,
    )


def signs(k: int) -> np.ndarray:
    """Rows of `k` signs whose columns are orthogonal and add up to zero, as few as a Paley matrix offers."""
    order = next((n for n in ORDERS if n > k), None)
    if order is None:
        raise ValueError(f"parameters can be averaged up to {ORDERS[-1] - 1} of them; got {k}. Use hyper='point'.")
    q = order - 1
    residues = {(i * i) % q for i in range(1, q)}
    chi = np.array([0] + [1 if i in residues else -1 for i in range(1, q)])
    jacobsthal = chi[(np.arange(q)[:, None] - np.arange(q)) % q]
    matrix = np.ones((order, order))
    matrix[1:, 1:] = jacobsthal + np.eye(q)
    matrix[1:, 0] = -1
    # make the first column one, so that the others are orthogonal to it
    matrix *= np.where(matrix[:, :1] < 0, -1.0, 1.0)
    return matrix[:, 1 : k + 1]
