"""Inference: how the posterior of the weights and the parameters are found."""

from __future__ import annotations

from typing import Any

from vbagg.errors import unknown_name
from vbagg.inference.adam import Adam
from vbagg.inference.averaging import average, average_alike
from vbagg.inference.base import Inference, Known, Task, Traits
from vbagg.inference.descent import Descent, Run
from vbagg.inference.gaussian import Gaussian
from vbagg.inference.newton import Newton
from vbagg.inference.problem import Problem
from vbagg.inference.result import Fit, Status, Validator

INFERENCES: dict[str, type[Inference]] = {"newton": Newton, "adam": Adam}

__all__ = [
    "INFERENCES",
    "Adam",
    "Descent",
    "Fit",
    "Gaussian",
    "Inference",
    "Known",
    "Newton",
    "Problem",
    "Run",
    "Status",
    "Task",
    "Traits",
    "Validator",
    "average",
    "average_alike",
    "get_inference",
]


def get_inference(inference: Any) -> Inference:
    """Return an inference from its name, or pass an instance through."""
    if isinstance(inference, Inference):
        return inference
    if not isinstance(inference, str) or inference not in INFERENCES:
        raise unknown_name("inference", inference, INFERENCES)
    return INFERENCES[inference]()
