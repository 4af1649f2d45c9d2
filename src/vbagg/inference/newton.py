"""Deterministic inference without knobs: L-BFGS over the parameters, `q` solved anew at each of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from vbagg.elbo import Parameters
from vbagg.inference.problem import Problem
from vbagg.inference.result import Fit, FlatParameters, Report, Status, Validator, choose
from vbagg.inference.search import maximise
from vbagg.inference.weights import Solution, solve_weights
from vbagg.priors import LogPrior

SAME_OPTIMUM = 0.1
"""A later start that comes this near to an earlier optimum, in log-parameters and nats, has found the same one."""


@dataclass(frozen=True)
class Newton:
    """Natural-gradient solve of `q` inside L-BFGS over kernel and likelihood parameters.

    Parameters
    ----------
    max_iterations
        Of L-BFGS, from each start.
    starts
        Number of starting length-scales; the best objective wins and disagreement is reported.
    tolerance
        Gain of the objective, in nats, below which the search stops.
    """

    max_iterations: int = 100
    starts: int = 2
    tolerance: float = 5e-3

    def run(
        self,
        problem: Problem,
        starts: list[Parameters],
        trainable: Parameters,
        log_prior: LogPrior,
        report: Report,
        validator: Validator | None = None,
    ) -> Fit:
        """Fit from each start and keep the best."""
        fits: list[Fit] = []
        for number, start in enumerate(starts[: self.starts]):
            flat = FlatParameters(start, trainable)
            found = [(flat.ravel(fit.parameters), fit.objective) for fit in fits]

            def known(x: np.ndarray, value: float, found: list = found) -> bool:
                return any(
                    np.abs(x - optimum).max() < SAME_OPTIMUM and abs(value - best) < SAME_OPTIMUM
                    for optimum, best in found
                )

            search = _Search(problem, flat, log_prior, self.tolerance, report, number, known)
            fits.append(search.run(start, self.max_iterations))
        return choose(fits, problem, validator)


@dataclass
class _Search:
    problem: Problem
    flat: FlatParameters
    log_prior: LogPrior
    tolerance: float
    report: Report
    number: int
    stop: Callable[[np.ndarray, float], bool]
    warm: Solution | None = None
    best: tuple[np.ndarray, Solution] = field(init=False)
    best_value: float = -np.inf
    jitter: tuple[float, ...] = ()
    history: list[dict] = field(default_factory=list)

    def run(self, start: Parameters, max_iterations: int) -> Fit:
        x0 = self.flat.ravel(start)
        result = maximise(
            self.objective, x0, tolerance=self.tolerance, max_iterations=max_iterations, stop=self.stop
        )
        x, solution = self.best
        converged, reason = result.converged, result.reason
        if not solution.converged:
            converged, reason = False, "the posterior of the weights did not settle"
        message = "Converged." if converged else f"Not converged: {reason}. {_ADVICE}"
        status = Status(converged, message, result.iterations, self.problem.evaluations)
        return Fit(
            self.flat.unravel(x),
            solution.q,
            solution.elbo,
            self.best_value,
            self.jitter,
            status,
            self.history,
        )

    def objective(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        """ELBO maximised over `q` plus the log prior, and its gradient."""
        parameters = self.flat.unravel(x)
        staged = self.problem.at(parameters)
        solution = solve_weights(staged, self.warm)
        prior, prior_slopes = self.log_prior(parameters)
        value = solution.elbo + prior
        if not np.isfinite(value):
            return -np.inf, np.zeros_like(x)
        slopes = self.flat.ravel(staged.parameter_slopes(solution.q)) + self.flat.ravel(prior_slopes)
        if value > self.best_value:
            self.best_value, self.best, self.jitter = value, (np.array(x), solution), staged.jitter
            self.warm = solution
        entry = {
            "start": self.number,
            "evaluation": len(self.history),
            "objective": value,
            "elbo": solution.elbo,
            "gradient": float(np.abs(slopes).max(initial=0.0)),
            "weight_steps": solution.steps,
        }
        self.history.append(entry)
        self.report(entry)
        return value, slopes


_ADVICE = (
    "Try more iterations (`inference=Newton(max_iterations=...)`), fewer covariates, or stronger priors;"
    " predictions from this fit may be off."
)
