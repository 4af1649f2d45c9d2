"""Deterministic inference without knobs: BFGS over the parameters, `q` solved anew at each of them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from vbagg.elbo import Parameters
from vbagg.inference.problem import Problem
from vbagg.inference.profile import Point, Profile
from vbagg.inference.result import Fit, FlatParameters, Report, Status, Validator, choose, require_counts
from vbagg.inference.search import SearchResult, maximise
from vbagg.priors import LogPrior

SAME_OPTIMUM = 2.0, 0.7
"""A later start that comes this near to an earlier optimum, in nats and log-parameters, is in its basin and stops."""
FINAL_PRECISION = 1e-6
ADVICE = (
    "Try more iterations (`inference=Newton(max_iterations=...)`), fewer covariates, or stronger priors;"
    " predictions from this fit may be off."
)


@dataclass(frozen=True)
class Newton:
    """Natural-gradient solve of `q` inside BFGS over kernel and likelihood parameters.

    Parameters
    ----------
    max_iterations
        Of BFGS, from each start.
    starts
        Number of starting length-scales, at most 3; the best objective wins and disagreement is reported.
    tolerance
        Gain of the objective, in nats, below which the search stops.
    """

    max_iterations: int = 100
    starts: int = 2
    tolerance: float = 5e-3

    def __post_init__(self) -> None:
        require_counts(self, "max_iterations", "starts")

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
            search = _Search(Profile(problem, FlatParameters(start, trainable), log_prior), report, number)
            fits.append(search.run(start, fits, self))
            if len(search.history) == 1:  # nothing to learn: every start is the same
                break
        return choose(fits, problem, validator)


@dataclass
class _Search:
    """One start: evaluations become history, the last one is polished."""

    profile: Profile
    report: Report
    number: int
    precision: float = 1e-2
    history: list[dict] = field(default_factory=list)

    def run(self, start: Parameters, earlier: list[Fit], options: Newton) -> Fit:
        ravel = self.profile.flat.ravel
        found = [(ravel(fit.parameters), fit.objective) for fit in earlier]

        def known(x: np.ndarray, value: float) -> bool:
            nats, distance = SAME_OPTIMUM
            return any(0 < best - value < nats and np.abs(x - at).max() < distance for at, best in found)

        result = maximise(
            self.objective,
            ravel(start),
            tolerance=options.tolerance,
            max_iterations=options.max_iterations,
            stop=known,
        )
        return self._finish(result, start)

    def objective(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        """Value and gradient; far from the optimum a rough solve of `q` will do."""
        best = self.profile.best
        point = self.profile(x, self.precision)
        gain = np.inf if best is None else abs(point.value - best.value)
        self.precision = float(np.clip(1e-3 * gain, 1e-5, 1e-2))
        self.history.append(
            {
                "start": self.number,
                "evaluation": len(self.history),
                "objective": point.value,
                "elbo": point.solution.elbo,
                "gradient": float(np.abs(point.slope).max(initial=0.0)),
                "weight_steps": point.solution.steps,
            }
        )
        self.report(self.history[-1])
        return point.value, point.slope

    def _finish(self, result: SearchResult, start: Parameters) -> Fit:
        if self.profile.best is None:
            raise FloatingPointError(
                f"The objective is not finite at the starting parameters {start.kernel}. Rescale the data."
            )
        point: Point = self.profile(self.profile.best.x, FINAL_PRECISION, slope=False)
        converged, reason = result.converged, result.reason
        if not point.solution.converged:
            converged, reason = False, "the posterior of the weights did not settle"
        status = Status(
            converged,
            "Converged." if converged else f"Not converged: {reason}. {ADVICE}",
            result.iterations,
            self.profile.problem.evaluations,
            repeated=result.stopped,
        )
        solution = point.solution
        return Fit(point.parameters, solution.q, solution.elbo, point.value, point.jitter, status, self.history)
