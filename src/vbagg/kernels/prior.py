"""Priors of kernel parameters."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Prior:
    """Log-normal prior of a positive parameter."""

    median: float
    log_sd: float

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not 0 < value < math.inf:
                raise ValueError(f"`{name}` of a Prior must be positive and finite; got {value}.")

    def log_density(self, log_value: Any) -> Any:
        """Log density of the logarithm, with respect to d log(value)."""
        z = (log_value - math.log(self.median)) / self.log_sd
        return -0.5 * z**2 - math.log(self.log_sd * math.sqrt(2.0 * math.pi))


PRIOR_NAMES = ("variance", "linear", "white", "lengthscale", "period")
"""Parameters that can have a prior; ``linear`` is each variance of a `Linear`, ``white`` that of a `White`.

The medians of ``lengthscale`` and ``period`` are multiples of typical values: sqrt(2 d) for d standardised columns, ARD
or not (`Periodic`: sqrt(d)), and the user's starting period (none: sqrt(2 d)).
"""
