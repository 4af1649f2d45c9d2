"""Maximum likelihood of a generalised linear model with a slight ridge: Fisher scoring, in turn with the noise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from vbagg.compiling import jit
from vbagg.likelihoods.base import Facts, Learnt, Likelihood
from vbagg.likelihoods.estimate import estimate_noise
from vbagg.links import Link
from vbagg.stepping import backtrack

Scored = tuple[float, np.ndarray, np.ndarray]
"""Penalised log density, its slope and information."""
MOST_STEPS = 100
LEAST_NOISE = 1e-6
"""Least standard deviation of the Normal, in units of the spread of rates: what remains of a perfect fit."""


class Design(NamedTuple):
    """What the regression sees: one row per bag, all in the user's output units."""

    Z: np.ndarray
    """Ones and the standardised bag means (b, p)."""
    known: np.ndarray
    weight: np.ndarray
    y: np.ndarray
    facts: Facts


def estimate(
    likelihood: Likelihood, link: Link, design: Design, ridge: float, least_tau: float
) -> tuple[np.ndarray, np.ndarray, dict[str, float], str]:
    """Coefficients, their precision and the noise, each given the other until both stay; what is wrong, if anything."""
    beta = np.zeros(design.Z.shape[1])

    def noise_at(beta: np.ndarray, spent: float) -> Learnt:
        found = estimate_noise(likelihood, design.y, _totals(link, design, beta), design.facts, spent)
        return {name: max(value, least_tau) if name == "tau" else value for name, value in found.items()}

    noise = noise_at(beta, 1.0)
    for _ in range(MOST_STEPS):
        beta, precision, wrong = _scoring(likelihood, link, design, beta, noise, ridge)
        if not noise:
            return beta, precision, noise, wrong
        before = noise
        noise = noise_at(beta, len(beta) - ridge * float(np.trace(np.linalg.inv(precision))))
        if all(abs(np.log(noise[name] / before[name])) < 1e-7 for name in noise):
            return beta, precision, noise, wrong
    return beta, precision, noise, "The noise of the GLM has not converged; drop covariates."


def _scoring(
    likelihood: Likelihood, link: Link, design: Design, beta: np.ndarray, noise: dict[str, float], ridge: float
) -> tuple[np.ndarray, np.ndarray, str]:
    """Coefficients and their precision for known noise, by Fisher scoring, and what is wrong, if anything."""
    logs = {name: np.log(value) for name, value in noise.items()}

    def at(beta: np.ndarray) -> Scored:
        with jax.enable_x64(True):
            eta = design.known + design.Z @ beta
            terms = _terms(likelihood, link, eta, *design[2:], logs)
            value, score, fisher = (np.asarray(term, float) for term in terms)
        information = (design.Z.T * fisher) @ design.Z
        # what rounding needs beside a large information does not matter beside it
        least = max(ridge, 1e-10 * float(np.diag(information).max(initial=0.0)))
        penalised = float(value) - ridge / 2 * float(beta @ beta)
        return penalised, design.Z.T @ score - ridge * beta, information + least * np.eye(len(beta))

    value, gradient, precision = at(beta)
    for _ in range(MOST_STEPS):
        step = np.linalg.solve(precision, gradient)
        if float(step @ gradient) < 1e-12 * max(1.0, abs(value)):
            return beta, precision, ""
        found = backtrack(_attempt(at, beta, value, step), float(step @ gradient), least=0.0, tries=60)
        if found is None:
            return beta, precision, ""  # no progress beyond rounding
        beta, (value, gradient, precision) = beta + found[0] * step, found[1]
    return beta, precision, "The GLM has not converged; drop covariates."


def _attempt(
    at: Callable[[np.ndarray], Scored], beta: np.ndarray, value: float, step: np.ndarray
) -> Callable[[float], tuple[float, Scored]]:
    def attempt(length: float) -> tuple[float, Scored]:
        tried = at(beta + length * step)
        return tried[0] - value if all(np.isfinite(part).all() for part in tried) else -np.inf, tried

    return attempt


@jit(static_argnames=("likelihood", "link"))
def _terms(
    likelihood: Likelihood, link: Link, eta: Any, weight: Any, y: Any, facts: Any, noise: Any
) -> tuple[Any, ...]:
    """Log density of all bags, its derivatives by each linear predictor, and their Fisher information."""

    def log_density(eta: jax.Array) -> jax.Array:
        return jnp.sum(likelihood.log_prob(y, weight * link.value(eta), facts, noise))

    value, score = jax.value_and_grad(log_density)(eta)
    rate, slope = jax.jvp(link.value, (eta,), (jnp.ones_like(eta),))
    return value, score, likelihood.fisher(weight * rate, facts, noise) * (weight * slope) ** 2


def _totals(link: Link, design: Design, beta: np.ndarray) -> np.ndarray:
    with jax.enable_x64(True):
        return design.weight * np.asarray(link.value(jnp.asarray(design.known + design.Z @ beta)), float)
