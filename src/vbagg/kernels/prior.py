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


def default_priors() -> dict[str, Prior]:
    """Return weak priors for standardised columns, as median and sd of the logarithm.

    - ``variance``: 1 and 1.5
    - ``linear``, each variance of a `Linear`: 0.1 and 1.5
    - ``lengthscale``: 1 and 1, in multiples of sqrt(2 d) for d columns, ARD or not (`Periodic`: of sqrt(d))
    - ``period``: 1 and 0.5, in multiples of the user's starting period (none: of sqrt(2 d))
    """
    return {
        "variance": Prior(1.0, 1.5),
        "linear": Prior(0.1, 1.5),
        "lengthscale": Prior(1.0, 1.0),
        "period": Prior(1.0, 0.5),
    }
