"""Deterministic inference without knobs: BFGS over the parameters, `q` solved anew at each of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any

import numpy as np

from vbagg.elbo import Parameters
from vbagg.errors import unknown_name
from vbagg.inference.base import PRECISIONS, Inference, Task, Traits
from vbagg.inference.mode import linearised
from vbagg.inference.problem import Problem, StagedProblem
from vbagg.inference.profile import Point, Profile, solve_in_full
from vbagg.inference.result import Fit, FlatParameters, Status, choose, require_counts
from vbagg.inference.search import SearchResult, maximise, maximise_along
from vbagg.inference.weights import promised_gain
from vbagg.progress import Report
from vbagg.representatives import TOLERABLE, total_error

SAME_OPTIMUM = 2.0, 0.7
"""A later start that comes this near to an earlier optimum, in nats and log-parameters, is in its basin and stops."""
LADDER = 3
"""Starts that differ in their length-scales alone come first."""
HOPE = 3.0
"""Times what a step promises, and a nat more, that a later search may gain."""
LATER_STEPS = 12
"""Of the solve of `q` in later searches. Where it takes more, the posterior of the weights is far from a Gaussian, the
ELBO is no measure of the parameters, and the search is given up."""
SCAN_PRECISION, ROUGH_PRECISION = 2.0, 0.1
"""Nats to which `q` is solved to compare starts, and far from the optimum of the parameters."""
TOGETHER_TOLERANCE = 1.0
"""Gain in nats at which parameters of one kind stop moving together, and each begins to move on its own."""
FINAL_PRECISION = 3e-4, 0.3
"""Nats for each bag, and at most in all, to which the final `q` is solved."""
ADVICE = (
    "Try more iterations (`inference=Newton(max_iterations=...)`), fewer covariates, or stronger priors;"
    " predictions from this fit may be off."
)


@dataclass(frozen=True)
class Newton(Inference):
    """Natural-gradient solve of `q` inside BFGS over kernel and likelihood parameters.

    Parameters
    ----------
    max_iterations
        Of BFGS, from each start, and again after each step to more representatives.
    starts
        Starts, at most 4: three starting length-scales, of which those are searched from whose objective beats their
        neighbours' (with larger variances if `f` has the units of outputs and these raise it), and one with little
        noise where noise is learnt. A later search ends where it comes to a known optimum, can no longer reach the
        best one, or finds no Gaussian `q`; the best result wins and disagreement is reported.
    tolerance
        Gain of the objective, in nats, below which the search stops.
    representatives
        Weighted individuals that stand for each larger bag while parameters are searched for: a number, `"auto"` for
        as many as the variation within the bag needs, or None for all. The posterior is then solved with all
        individuals. `"auto"` takes more where the log density of a bag turns out to differ, and the search goes on.
        With `residual="diagonal"` always all.
    rough
        Whether the posterior, too, is solved with representatives alone: for many quick fits.
    precision
        Of the features of individuals: `"double"`, `"single"` (faster, with a jitter of 1e-5 or more), or `"auto"`:
        single where a fit would take longer than a minute or so.
    """

    max_iterations: int = 100
    starts: int = 4
    tolerance: float = 5e-3
    representatives: int | str | None = "auto"
    precision: str = "auto"
    rough: bool = False

    def __post_init__(self) -> None:
        require_counts(self, "max_iterations", "starts")
        if self.representatives not in ("auto", None):
            require_counts(self, "representatives", otherwise='"auto", or None for all individuals')
        if not (isinstance(self.tolerance, Real) and 0 < self.tolerance < np.inf):
            raise ValueError(f"`tolerance` of Newton must be a positive number of nats; got {self.tolerance!r}.")
        if self.precision not in PRECISIONS:
            raise unknown_name("precision", self.precision, PRECISIONS)

    @property
    def traits(self) -> Traits:
        """As its options say."""
        return Traits(
            representatives=self.representatives, rough=self.rough, precision=self.precision, several_kinds=True
        )

    def run(self, task: Task) -> Fit:
        """Fit from each promising start and keep the best."""
        problem, log_prior, starts = task.problem, task.log_prior, task.starts
        flat = FlatParameters(starts[0], task.trainable)
        searches: list[_Search] = []
        ladder, others = starts[: min(self.starts, LADDER)], starts[LADDER : self.starts]
        profile = Profile(problem.rough or problem, flat, log_prior)
        points = [_louder(profile, point, flat.ravel(task.louder)) for point in self._promising(profile, ladder)]
        points += [profile(flat.ravel(start), SCAN_PRECISION, slope=False) for start in others]
        for point in points:
            if not np.isfinite(point.value):
                continue
            profile = Profile(problem.rough or problem, flat, log_prior, point)
            if searches:
                profile.max_steps = LATER_STEPS
            search = _Search(problem, profile, task.report, len(searches))
            search.run(point.x, searches, self, None if task.known is None else task.known.curvature)
            searches.append(search)
        return choose([search.fit for search in searches], problem, task.validator)

    def _promising(self, profile: Profile, starts: list[Parameters]) -> list[Point]:
        """Peaks of the objective along starting length-scales, the best first."""
        points: list[Point] = []
        for start in [*starts[2::2], starts[0], *starts[1::2]]:
            x = profile.flat.ravel(start)
            if not points or not np.array_equal(x, points[-1].x):
                points.append(profile(x, SCAN_PRECISION, slope=False))
        padded = np.pad([point.value for point in points], 1, constant_values=-np.inf)
        beside = zip(points, padded, padded[2:], strict=False)
        peaks = [p for p, *others in beside if np.isfinite(p.value) and p.value >= max(others)]
        if not peaks:
            raise FloatingPointError(
                f"The objective is not finite at the starting parameters {starts[0].kernel}. Rescale the data."
            )
        return sorted(peaks, key=lambda point: -point.value)


def _louder(profile: Profile, point: Point, step: np.ndarray) -> Point:
    """The start from which no further step raises the objective.

    Totals do not show how much individuals vary around the mean of their bag. A start with much less than that can
    lead where all is noise, or nothing is.
    """
    while step.any():
        further = profile(point.x + step, SCAN_PRECISION, slope=False)
        if not further.value > point.value:
            break
        point = further
    return point


@dataclass
class _Search:
    """One start: evaluations become history, `q` at the best of them is solved with all individuals."""

    problem: Problem
    profile: Profile
    report: Report
    number: int
    history: list[dict[str, Any]] = field(default_factory=list)
    scaled: bool = False
    """Whether representatives have been given the residual variance of all individuals."""
    last_error: float = np.inf
    """Sum of the errors of all bags where representatives were last found to be too few."""
    together: float = -np.inf
    """The objective reached with numbers of one kind moving together."""
    fit: Fit = field(init=False)

    def run(
        self, start: np.ndarray, earlier: list[_Search], options: Newton, curvature: np.ndarray | None = None
    ) -> None:
        """Search from a start, unless it leads where `earlier` searches have been, or cannot be better than these.

        Where the `curvature` is known, the start is near the optimum, and each number moves on its own from there.
        """
        fits = [search.fit for search in earlier]
        best = max((fit.objective - fit.status.representation_gap for fit in fits), default=-np.inf)

        def hopeless(value: float, promise: float, best: float) -> bool:
            return bool(fits) and (value + HOPE * (1.0 + promise) < best or not self._best.solution.converged)

        def known(x: np.ndarray, value: float) -> Fit | None:
            """The earlier fit in whose basin a point lies."""
            nats, distance = SAME_OPTIMUM
            for fit in fits:
                at, best = self.profile.flat.ravel(fit.parameters), fit.objective - fit.status.representation_gap
                if 0 < best - value < nats and np.abs(x - at).max() < distance:
                    return fit
            return None

        def climb(x: np.ndarray, tolerance: float, curvature: np.ndarray | None = None) -> SearchResult:
            return maximise(
                self.objective,
                x,
                tolerance=tolerance,
                noise=self._noise,
                max_iterations=options.max_iterations,
                stop=lambda x, value, promise: hopeless(value, promise, best) or known(x, value) is not None,
                curvature=curvature,
            )

        rivals = max((search.together for search in earlier), default=-np.inf)
        result = None
        if curvature is None:
            result = self._together(start, options, lambda x, value, promise: hopeless(value, promise, rivals))
        if result is None:
            result = climb(start, options.tolerance, curvature)
        elif not result.stopped:
            self.together = result.value
            alone = climb(result.x, options.tolerance, result.curvature)
            result = replace(alone, iterations=result.iterations + alone.iterations)
        if result.stopped:
            same = known(result.x, result.value) or max(fits, key=lambda fit: fit.objective)
            status = replace(same.status, iterations=result.iterations, repeated=True)
            self.fit = replace(same, status=status, history=self.history)
            return
        while (staged := self._with_all_individuals()) is None:
            worthwhile = max(options.tolerance, 0.1 * TOLERABLE * self.problem.n_bags)
            more = climb(self._best.x, worthwhile, result.curvature)
            result = replace(more, iterations=result.iterations + more.iterations)
        self.fit = self._finish(result, staged)

    def _together(
        self, start: np.ndarray, options: Newton, stop: Callable[[np.ndarray, float, float], bool]
    ) -> SearchResult | None:
        """Search with length-scales of a kernel, and other numbers of one kind, moving together; None if all are alone.

        A search for a length-scale of each column that begins far from the right variance and noise can end where
        totals are explained by a function that varies quickly in the wrong columns.
        """
        axes = self.profile.flat.together()
        if axes.shape[1] == len(start):
            return None
        return maximise_along(
            self.objective,
            start,
            axes,
            stop,
            tolerance=TOGETHER_TOLERANCE,
            noise=self._noise,
            max_iterations=options.max_iterations,
        )

    @property
    def _noise(self) -> float:
        """Of the objective, in nats."""
        return max(1e-3, 10 * self.profile.problem.noise)

    @property
    def _best(self) -> Point:
        assert self.profile.best is not None
        return self.profile.best

    def _with_all_individuals(self) -> StagedProblem | None:
        """The problem at the best parameters; None if the search should go on, with more representatives."""
        found = self._best.solution
        staged = self.problem.at(self._best.parameters)
        if self.problem.rough is not None:
            with np.errstate(invalid="ignore"):
                error = staged.evaluate(found.q).terms - found.terms
                gap = error.sum() + promised_gain(staged, found.q)
            if not self.scaled and abs(gap) > TOLERABLE * self.problem.n_bags:
                self.scaled = True
                self.problem.scale_residuals(staged, found.q)
                return None
            if self.problem.refine(error, gap, self.last_error):
                self.problem.scale_residuals(staged, found.q)
                self.last_error = total_error(error)
                self.profile.problem = self.problem.rough
                return None
        return staged

    def objective(self, x: np.ndarray, needed: float, stake: float) -> tuple[float, np.ndarray]:
        """Value and gradient; where much is at stake a rough solve of `q` will do."""
        point = self.profile(x, float(np.clip(1e-3 * stake, 1e-5, ROUGH_PRECISION)), needed=needed)
        self.history.append(
            {
                "start": self.number,
                "evaluation": len(self.history),
                "objective": point.value,
                "elbo": point.solution.elbo,
                "gradient": None if point.slope is None else float(np.abs(point.slope).max(initial=0.0)),
                "weight_steps": point.solution.steps,
            }
        )
        self.report(self.history[-1])
        return point.value, np.full_like(x, np.nan) if point.slope is None else point.slope

    def _finish(self, result: SearchResult, staged: StagedProblem) -> Fit:
        best = self._best
        per_bag, most = FINAL_PRECISION
        solution, objective = solve_in_full(staged, best, min(per_bag * self.problem.n_bags, most))
        converged, reason = result.converged, result.reason
        if not solution.converged:
            converged, reason = False, "the posterior of the weights did not settle"
        message = "Converged." if converged else f"Not converged: {reason}. {ADVICE}"
        gap = solution.elbo - best.solution.elbo if self.problem.rough is not None else 0.0
        if abs(gap) > TOLERABLE * self.problem.n_bags:
            message += (
                f" Parameters were learnt with representative individuals, which change the ELBO by {-gap:+.1f} nats;"
                " `inference=Newton(representatives=...)` takes more of them."
            )
        status = Status(
            converged,
            message,
            result.iterations,
            self.problem.evaluations,
            representation_gap=gap,
            repeated=result.stopped,
        )
        posterior = linearised(staged, solution.q)
        return Fit(
            parameters=best.parameters,
            q=solution.q,
            posterior=posterior,
            elbo=solution.elbo,
            objective=objective,
            jitter=staged.jitter,
            status=status,
            history=self.history,
            curvature=result.curvature,
            spreads=staged.spreads(posterior),
        )
