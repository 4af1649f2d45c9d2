"""Inference: how the posterior of the weights and the parameters are found."""

from __future__ import annotations

from typing import Any

from vbagg.errors import unknown_name
from vbagg.inference.adam import run_adam
from vbagg.inference.averaging import average
from vbagg.inference.descent import Adam, Descent, Run
from vbagg.inference.newton import Newton
from vbagg.inference.problem import Gaussian, Problem
from vbagg.inference.result import Fit, Status, Validator

INFERENCES: dict[str, type[Newton] | type[Adam]] = {"newton": Newton, "adam": Adam}

__all__ = [
    "INFERENCES",
    "Adam",
    "Descent",
    "Fit",
    "Gaussian",
    "Newton",
    "Problem",
    "Run",
    "Status",
    "Validator",
    "average",
    "get_inference",
    "run_adam",
]


def get_inference(inference: Any) -> Newton | Adam:
    """Return an inference from its name, or pass an instance through."""
    if isinstance(inference, Newton | Adam):
        return inference
    if inference not in INFERENCES:
        raise unknown_name("inference", inference, INFERENCES)
    return INFERENCES[inference]()
