"""From a user's choices and data to a fitted model: one flow for every inference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from vbagg.elbo import Parameters, Spec
from vbagg.features import feature_count
from vbagg.held import Here
from vbagg.inference import Fit, Inference, Known, Problem, Task, Validator, average, average_alike
from vbagg.inference.result import FlatParameters
from vbagg.inference.search import curvature_of
from vbagg.kernels import Kernel, Prior
from vbagg.likelihoods.base import Likelihood
from vbagg.links import Link
from vbagg.models import setup
from vbagg.models.fitted import Fitted
from vbagg.models.layout import Layout
from vbagg.models.notes import notes_on_data
from vbagg.models.observations import FittedObservations, Observations, kinds_of, number_of_means
from vbagg.models.predicted import Member
from vbagg.models.setup import TrainingData
from vbagg.priors import make_log_prior
from vbagg.progress import Report
from vbagg.threads import one_blas_thread


@dataclass(frozen=True)
class Choices:
    """What a user chose, checked; the parameters of `VBAgg`."""

    likelihood: Likelihood
    link: Link
    approximation: str
    kernel: Kernel | None
    landmarks: Any
    residual: str
    inference: Inference
    priors: str | Mapping[str, Prior] | None
    average: bool
    memory: float
    random_state: int


@dataclass(frozen=True)
class Learnt:
    """What predictions need, and the fit with the arrays that it was made from."""

    fitted: Fitted
    fit: Fit
    problem: Problem | None
    """None where its arrays are on workers."""
    observations: tuple[FittedObservations, ...] = ()
    """What was learnt of further kinds of outputs."""


class Learning:
    """One fit: the model of these data, its arrays, and where a search may begin."""

    def __init__(
        self, choices: Choices, data: TrainingData, also: Sequence[Observations] = (), start: Fitted | None = None
    ) -> None:
        likelihood, outline = data.likelihood, data.outline
        kernel = choices.kernel or setup.default_kernel(outline, with_individual_effect=likelihood.individual_effect)
        self.components, learn_landmarks = setup.resolve_components(kernel, choices.landmarks, outline)
        if start is None:
            self.components, data = setup.on_surfaces(self.components, data, choices.random_state)
        else:
            self.components = start.spec.feature_map.components
        self.choices, self.data = choices, data
        own_means = number_of_means(also)
        self.spec: Spec = setup.make_spec(self.components, likelihood, choices.link, choices.approximation, own_means)
        self.kinds = kinds_of(also, self.spec, choices.likelihood, data.frame)
        further = {name: prior for kind in self.kinds for name, prior in kind.priors().items()}
        self.log_prior = make_log_prior(self.components, choices.priors, likelihood, choices.link, further)
        seed = choices.random_state
        self.medians = {name: np.log(prior.median) for name, prior in further.items()}
        first: Parameters = (
            setup.start_parameters(self.spec, choices.landmarks, data.portions, data.frame.scaler, seed)
            if start is None
            else start.optimum.parameters
        )
        self.start = self._of_all_kinds(first)
        self.trainable = setup.trainable(self.components, self.start, learn_landmarks)
        self.known = None if start is None else self._known(start)
        self.layout = Layout.of(
            choices.inference.traits,
            self.spec.approximation,
            choices.residual,
            outline.sizes,
            feature_count(self.start.landmarks, self.spec.feature_map),
            choices.memory,
            seed,
        )

    def _of_all_kinds(self, own: Parameters) -> Parameters:
        """Parameters of the model with those of further outputs."""
        return replace(own, likelihood=own.likelihood | self.medians)

    def _known(self, start: Fitted) -> Known:
        """What the members of a fitted model tell of the parameters of one that is much alike."""
        flat = FlatParameters(self.start, self.trainable)
        members = [(member.weight, self._of_all_kinds(member.parameters)) for member in start.members]
        weights, points = zip(*((weight, flat.ravel(parameters)) for weight, parameters in members), strict=True)
        return Known(curvature_of(np.array(points), np.array(weights)), tuple(members), self.start)

    def run(self, report: Report, validation: Any, early_stop: Any) -> Learnt:
        """Learn, average over parameters where that is asked for, and say what a user should know."""
        starts = [self.start]
        if self.known is None:
            starts = setup.starting_points(self.start, self.components, self.spec.likelihood.priors())
        validator, stopper = self._scorer(validation, "validation"), self._scorer(early_stop, "early_stop")
        problem = self.layout.problem([(self.spec, self.data), *((kind.spec, kind.data) for kind in self.kinds)])
        louder = setup.louder(self.start, self.components, self.choices.link, search=self.known is None)
        task = Task(problem, starts, self.trainable, louder, self.log_prior, report, validator, stopper, self.known)
        fit = self.choices.inference.run(task)
        members, fit, note = self._averaged(task, fit)
        residual_sd, noise_sd = fit.spreads or problem.at(fit.parameters, fit.jitter).spreads(fit.posterior)
        learnt = self.spec.likelihood.in_users_units(self.spec.own(fit.parameters.likelihood), 1.0)
        on_data = notes_on_data(self.spec.likelihood, self.components, self.data.outline, self.data.y, learnt)
        observations = tuple(FittedObservations.of(kind, fit) for kind in self.kinds)
        on_kinds = (f"Learnt also from {own.name!r}: {own}." for own in observations)
        of_kinds = (f"Observations {kind.name!r}: {text}" for kind in self.kinds for text in kind.data.notes)
        notes = (*self.data.notes, *on_data, *on_kinds, *of_kinds, *note)
        fit = replace(fit, status=replace(fit.status, notes=notes, residual_sd=residual_sd, noise_sd=noise_sd))
        own = problem.bare() if isinstance(problem.sums, Here) else None
        return Learnt(self._fitted(fit, members), fit, own, observations)

    def _averaged(self, task: Task, fit: Fit) -> tuple[Sequence[tuple[float, Fit]], Fit, tuple[str, ...]]:
        """Members of the average, the fit with what its status says of them, and a note where there are none."""
        if not self.choices.average:
            return (), fit, ()
        members: Sequence[tuple[float, Fit]] = ()
        why_not = "the fit is long" if self.layout.single else ""
        if self.choices.inference.traits.averaged and not self.layout.single:
            if task.known is not None and len(task.known.members) > 1:
                found = average_alike(task, task.known, fit)
            else:
                found = average(task.problem, fit, task.trainable, task.log_prior, task.report)
            members, why_not = found.members, found.note
            fit = replace(fit, status=replace(fit.status, effective=found.effective, points=found.points))
        note = f"Parameters are at their best values, not averaged over: {why_not}."
        return members, fit, (note,) if why_not else ()

    def _fitted(self, fit: Fit, members: Sequence[tuple[float, Fit]] = ()) -> Fitted:
        def member(weight: float, fit: Fit) -> Member:
            parameters = replace(fit.parameters, likelihood=self.spec.own(fit.parameters.likelihood))
            return Member(weight, self.spec, parameters, fit.posterior, fit.jitter, self.layout.single)

        optimum, data, layout = member(1.0, fit), self.data, self.layout
        built = tuple(member(weight, fit) for weight, fit in members) or (optimum,)
        return Fitted(built, optimum, data.frame, layout.residual, layout.random_state, data.observed)

    def _scorer(self, held_out: Any, name: str) -> Validator | None:
        score = setup.held_out_score(self.data.frame, self.spec.likelihood, held_out, name)
        return None if score is None else lambda fit: score(self._fitted(fit))


def learn(
    choices: Choices,
    data: TrainingData,
    report: Report,
    validation: Any = None,
    early_stop: Any = None,
    also: Sequence[Observations] = (),
    start: Fitted | None = None,
) -> Learnt:
    """Fit a model to data, and to what is `also` given; `validation` and `early_stop` are held-out `(bags, y)`.

    With `start` the search begins at its parameters, which are in the units of the data.
    """
    if early_stop is not None and not choices.inference.traits.early_stop:
        raise ValueError("`early_stop` goes with inference 'adam'; 'newton' runs until it converges.")
    if also and not choices.inference.traits.several_kinds:
        raise ValueError("`also` goes with inference 'newton'; this one learns from outputs of one kind.")
    with jax.enable_x64(True), one_blas_thread():
        return Learning(choices, data, also, start).run(report, validation, early_stop)
