"""Fit the candidates of a method and choose among them, as the paper does: by bags alone."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

from vbagg.errors import unknown_name
from vbagg.experiments.base import Scores
from vbagg.experiments.lighter import lighter
from vbagg.experiments.scores import plug_in_nll
from vbagg.experiments.splits import Split


@dataclass(frozen=True)
class Grid(Mapping[str, Any]):
    """Models of all combinations of values of several settings, searched one setting after another.

    Each setting in turn takes the value that is best beside those chosen for the settings before it and the first
    values of those after it: as many fits as there are values, where all combinations would be their product. Where
    bags are large they are fits to fewer individuals (`lighter`), and the best is then fitted to all of them.

    Attributes
    ----------
    axes
        The values of each setting, in the order in which settings are chosen.
    make
        Makes the model of one combination, given by name.
    """

    axes: Mapping[str, Sequence[Any]]
    make: Callable[..., Any]

    def __getitem__(self, name: str) -> Any:
        return self.make(**self._combinations()[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._combinations())

    def __len__(self) -> int:
        return math.prod(map(len, self.axes.values()))

    def search(self, rank: Callable[[str], float]) -> None:
        """Ask for the rank of one combination after another, by name; lower is better."""
        chosen = {axis: values[0] for axis, values in self.axes.items()}
        for axis, values in self.axes.items():
            ranks = [rank(_name(chosen | {axis: value})) for value in values]
            chosen[axis] = values[int(np.argmin(ranks))]

    def _combinations(self) -> dict[str, dict[str, Any]]:
        settings = (dict(zip(self.axes, values, strict=True)) for values in product(*self.axes.values()))
        return {_name(own): own for own in settings}


def _name(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{axis} {value:g}" for axis, value in settings.items())


@dataclass(frozen=True)
class Method:
    """Candidates and how to choose among them.

    Attributes
    ----------
    candidates
        Function that makes the models by what tells them apart, given the quick flag; a `Grid` is searched.
    select
        "validation": the lowest plug-in NLL of the validation bags; "objective": the highest ELBO.
    early_stop
        Whether training stops by the early-stop bags.
    """

    candidates: Callable[[bool], Mapping[str, Any]]
    select: str = "validation"
    early_stop: bool = False

    def __post_init__(self) -> None:
        if self.select not in ("validation", "objective"):
            raise unknown_name("select", self.select, ("validation", "objective"))

    def rank(self, trial: Trial) -> float:
        """How a fit compares with others; lower is better."""
        by_objective = self.select == "objective" and math.isfinite(trial.validation_nll)
        return -trial.model.elbo_ if by_objective else trial.validation_nll


@dataclass(frozen=True)
class Tuned:
    """The chosen model, how many were compared, and the CPU seconds of all their fits."""

    model: Any
    chosen: str
    candidates: int
    validation_nll: float
    fit_cpu_seconds: float = 0.0

    @property
    def selection(self) -> Scores:
        """How it was chosen, for the row of a repetition."""
        return {
            "validation_nll": self.validation_nll,
            "candidates": self.candidates,
            "chosen": self.chosen,
            "fit_cpu_seconds": self.fit_cpu_seconds,
        }


@dataclass(frozen=True)
class Trial:
    """A candidate after its fit; the loss of one that diverged is infinite."""

    model: Any
    validation_nll: float
    cpu_seconds: float


@dataclass
class Trials:
    """Fits to one split, by what tells models apart."""

    split: Split
    early_stop: bool
    done: dict[str, Trial] = field(default_factory=dict)

    def of(self, model: Any) -> Trial:
        """The trial of a model like this one, which is fitted if none was."""
        key = f"{type(model).__name__}({model.get_params()})"
        if key not in self.done:
            self.done[key] = self._fit(model)
        return self.done[key]

    def only(self, trials: Collection[Trial]) -> Trials:
        """These trials alone, so that models of others can go."""
        kept = {key: trial for key, trial in self.done.items() if any(trial is own for own in trials)}
        return Trials(self.split, self.early_stop, kept)

    def _fit(self, model: Any) -> Trial:
        began = time.process_time()
        held_out: dict[str, Any] = {"early_stop": self.split.early_stop.pair} if self.early_stop else {}
        try:
            model.fit(self.split.train.bags, self.split.train.y, progress=False, **held_out)
            finite = np.isfinite(model.predict(self.split.validation.bags)).all()
        except FloatingPointError:
            finite = False
        loss = plug_in_nll(model, self.split.validation) if finite else math.inf
        return Trial(model, loss, time.process_time() - began)


_last: Trials | None = None
"""Fits of the method before: one that chooses otherwise among the same models on the same data need not repeat them."""


def tune(method: Method, split: Split, quick: bool = False) -> Tuned:
    """Fit all candidates to the training bags and keep the best; one that diverges is out of the running."""
    global _last
    candidates = method.candidates(quick)
    earlier = _last.done if _last and _last.split is split and _last.early_stop == method.early_stop else {}
    trials = Trials(split, method.early_stop, dict(earlier))
    light = lighter(split) if isinstance(candidates, Grid) and len(candidates) > 1 else None
    searched = trials if light is None else Trials(light, method.early_stop)
    own = _tried(candidates, method, searched)
    cpu = sum(trial.cpu_seconds for trial in own.values())
    best = min(own, key=lambda name: method.rank(own[name]))
    chosen = own[best]
    if light is not None:
        for best in sorted(own, key=lambda name: method.rank(own[name])):
            chosen = trials.of(candidates[best])
            cpu += chosen.cpu_seconds
            if math.isfinite(chosen.validation_nll):
                break
    _last = trials.only([*own.values(), chosen])
    if math.isinf(chosen.validation_nll):
        raise FloatingPointError(f"None of {len(own)} candidates stayed finite.")
    return Tuned(chosen.model, best, len(own), chosen.validation_nll, cpu)


def _tried(candidates: Mapping[str, Any], method: Method, trials: Trials) -> dict[str, Trial]:
    """Fits by name: all candidates, or those that the search of a grid asks for."""
    tried: dict[str, Trial] = {}

    def rank_of(name: str) -> float:
        tried[name] = trials.of(candidates[name])
        return method.rank(tried[name])

    if isinstance(candidates, Grid):
        candidates.search(rank_of)
    else:
        for name in candidates:
            rank_of(name)
    return tried
