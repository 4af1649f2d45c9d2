"""What an inference is given, and what it asks of the data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from vbagg.elbo import Parameters
from vbagg.inference.problem import Problem
from vbagg.inference.result import Fit, Validator
from vbagg.priors import LogPrior
from vbagg.progress import Report

PRECISIONS = ("auto", "double", "single")


@dataclass(frozen=True)
class Known:
    """What is known of the parameters from a fit to data that are much alike: where a search begins, and ends soon."""

    curvature: np.ndarray
    """Inverse Hessian of minus the objective in the trainable parameters, about."""
    members: tuple[tuple[float, Parameters], ...]
    """Weights and parameters that the posterior of that fit averages over."""
    optimum: Parameters
    """The best of them."""


@dataclass(frozen=True)
class Task:
    """What an inference solves."""

    problem: Problem
    starts: list[Parameters]
    """Starting values, the plainest first."""
    trainable: Parameters
    """Flags of the values that may move."""
    louder: Parameters
    """The change of their logarithms by which the function varies more, noise as it is: a step between starts."""
    log_prior: LogPrior
    report: Report
    """Takes one dict per evaluation."""
    validator: Validator | None = None
    """Score of a fit that decides between starts, learning rates and seeds."""
    stopper: Validator | None = None
    """Score of a fit that decides when to stop."""
    known: Known | None = None
    """If there is but one starting value, near the best one."""


@dataclass(frozen=True)
class Traits:
    """What an inference asks of the data and can do."""

    any_batch: bool = False
    """Any bags may share an array: none is cut into tiles, and all have the same residual mode."""
    representatives: int | str | None = None
    """Individuals that stand for a larger bag in `Problem.rough`: a number, "auto", or None for no such problem."""
    rough: bool = False
    """Whether there is no other problem than that."""
    precision: str = "double"
    """Of features: one of `PRECISIONS`."""
    early_stop: bool = False
    """Whether `Task.stopper` is of use."""
    several_kinds: bool = False
    """Whether there may be further kinds of outputs beside those of the model."""
    averaged: bool = True
    """Whether parameters are averaged over around what it finds."""


class Inference(ABC):
    """How the posterior of the weights and the parameters are found. A new one needs `run` alone."""

    @property
    def traits(self) -> Traits:
        """What it asks of the data and can do."""
        return Traits()

    @abstractmethod
    def run(self, task: Task) -> Fit:
        """Learn."""
