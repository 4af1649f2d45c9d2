"""Averaging over kernel and likelihood parameters: a few weighted fits around the optimum."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from vbagg.elbo import Parameters
from vbagg.inference.problem import Problem
from vbagg.inference.profile import Profile, solve_in_full
from vbagg.inference.result import Fit, FlatParameters
from vbagg.priors import LogPrior
from vbagg.progress import Report

DIFFERENCE = 0.2
"""Step of the finite differences of the gradient, in log-parameters."""
LARGEST_SD = 1.5
"""Posterior sd of a log-parameter is taken to be at most this: about the prior's."""
LARGEST_SURPLUS = 2.0
"""The log weight of a point exceeds the Gaussian's by at most this."""


def average(
    problem: Problem, fit: Fit, trainable: Parameters, log_prior: LogPrior, report: Report
) -> list[tuple[float, Fit]]:
    """Weighted fits that stand for the posterior of the log-parameters.

    The posterior is taken as Gaussian with the curvature of the objective at its optimum (finite differences of the
    gradient), represented by symmetric sigma points that match its mean and covariance; the weight of each point is
    corrected by its own objective, and `q` is solved there with all individuals.
    """
    flat = FlatParameters(fit.parameters, trainable)
    centre = flat.ravel(fit.parameters)
    k = len(centre)
    if k == 0:
        return [(1.0, fit)]
    profile = Profile(problem.rough or problem, flat, log_prior)
    origin = profile(centre, 1e-5)
    assert origin.slope is not None
    values, axes = np.linalg.eigh(_curvature(lambda x: profile(x, 1e-5).slope, centre, origin.slope))
    sd = 1 / np.sqrt(np.maximum(values, 1 / LARGEST_SD**2))
    radius = np.sqrt(max(k, 3.0))
    members, log_weights = [fit], [np.log(max(1 - k / radius**2, 1e-3))]
    for direction in np.concatenate([axes.T * sd[:, None], -axes.T * sd[:, None]]):
        point = profile(centre + radius * direction, 1e-5, slope=False)
        report({"averaging": len(members), "of": 2 * k + 1, "objective": point.value})
        if not (np.isfinite(point.value) and point.solution.converged):
            continue
        surplus = point.value - origin.value + radius**2 / 2
        log_weights.append(-np.log(2 * radius**2) + min(surplus, LARGEST_SURPLUS))
        solution, objective, jitter = point.solution, point.value, point.jitter
        if problem.rough is not None:
            staged = problem.at(point.parameters)
            solution, objective = solve_in_full(staged, point, 1e-4)
            jitter = staged.jitter
        members.append(
            replace(
                fit,
                parameters=point.parameters,
                q=solution.q,
                elbo=solution.elbo,
                objective=objective,
                jitter=jitter,
            )
        )
    weights = np.exp(np.array(log_weights) - max(log_weights))
    return list(zip(weights / weights.sum(), members, strict=True))


def _curvature(
    slope_at: Callable[[np.ndarray], np.ndarray | None], centre: np.ndarray, origin: np.ndarray
) -> np.ndarray:
    """Minus the Hessian by differences of slopes on the side where there are any; the prior's where there are none."""
    rows = []
    for e in np.eye(len(centre)):
        row = e / LARGEST_SD**2
        for step in (DIFFERENCE, -DIFFERENCE):
            slope = slope_at(centre + step * e)
            if slope is not None:
                row = (origin - slope) / step
                break
        rows.append(row)
    return (np.array(rows) + np.array(rows).T) / 2
