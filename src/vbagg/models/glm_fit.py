"""Maximum likelihood of a generalised linear model with a slight ridge: Fisher scoring, in turn with the noise."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from vbagg.errors import ConvergenceWarning
from vbagg.likelihoods import Likelihood
from vbagg.links import Link

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
    aux: np.ndarray


def estimate(
    likelihood: Likelihood, link: Link, design: Design, ridge: float, least_tau: float
) -> tuple[np.ndarray, np.ndarray, dict[str, float]]:
    """Coefficients, their precision and the noise, each given the other until both stay."""
    beta = np.zeros(design.Z.shape[1])
    noise = likelihood.start()
    if "tau" in noise:
        noise = {"tau": max(_residual_variance(link, design, beta, 1.0), least_tau)}
    for _ in range(MOST_STEPS):
        beta, precision = _scoring(likelihood, link, design, beta, noise, ridge)
        if not noise:
            return beta, precision, noise
        before = noise
        if "tau" in noise:
            free = len(beta) - ridge * float(np.trace(np.linalg.inv(precision)))
            noise = {"tau": max(_residual_variance(link, design, beta, free), least_tau)}
        else:
            noise = _likeliest(likelihood, link, design, beta, noise)
        if all(abs(np.log(noise[name] / before[name])) < 1e-7 for name in noise):
            return beta, precision, noise
    warnings.warn("The noise of the GLM has not converged; drop covariates.", ConvergenceWarning, stacklevel=3)
    return beta, precision, noise


def _likeliest(
    likelihood: Likelihood, link: Link, design: Design, beta: np.ndarray, noise: dict[str, float]
) -> dict[str, float]:
    """The single noise parameter that makes the outputs most likely, for known coefficients."""
    from scipy.optimize import minimize_scalar

    (name,) = noise
    eta = design.known + design.Z @ beta
    with jax.enable_x64(True):
        found = minimize_scalar(
            lambda log_value: -float(_terms(likelihood, link, eta, *design[2:], {name: np.float64(log_value)})[0]),
            bounds=(-15.0, 15.0),
            method="bounded",
            options={"xatol": 1e-8},
        )
    return {name: float(np.exp(found.x))}


def _residual_variance(link: Link, design: Design, beta: np.ndarray, n_coefficients: float) -> float:
    """The Normal's `tau`: residual sum of squares over the residual degrees of freedom."""
    squares = (design.y - _totals(link, design, beta)) ** 2 / design.aux
    return float(squares.sum() / max(len(squares) - n_coefficients, 1.0))


def _scoring(
    likelihood: Likelihood, link: Link, design: Design, beta: np.ndarray, noise: dict[str, float], ridge: float
) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients and their precision for known noise, by Fisher scoring with step halving."""
    logs = {name: np.log(value) for name, value in noise.items()}

    def at(beta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
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
            return beta, precision
        for _ in range(60):
            tried = at(beta + step)
            if all(np.isfinite(part).all() for part in tried) and tried[0] > value:
                break
            step = step / 2
        else:
            return beta, precision  # no progress beyond rounding
        beta, (value, gradient, precision) = beta + step, tried
    warnings.warn("The GLM has not converged; drop covariates.", ConvergenceWarning, stacklevel=4)
    return beta, precision


@partial(jax.jit, static_argnames=("likelihood", "link"))
def _terms(likelihood: Likelihood, link: Link, eta: Any, weight: Any, y: Any, aux: Any, noise: Any) -> tuple:
    """Log density of all bags, its derivatives by each linear predictor, and their Fisher information."""

    def log_density(eta: jax.Array) -> jax.Array:
        return jnp.sum(likelihood.log_prob(y, weight * link.value(eta), aux, noise))

    value, score = jax.value_and_grad(log_density)(eta)
    rate, slope = jax.jvp(link.value, (eta,), (jnp.ones_like(eta),))
    return value, score, likelihood.fisher(weight * rate, aux, noise) * (weight * slope) ** 2


def _totals(link: Link, design: Design, beta: np.ndarray) -> np.ndarray:
    with jax.enable_x64(True):
        return design.weight * np.asarray(link.value(jnp.asarray(design.known + design.Z @ beta)), float)
