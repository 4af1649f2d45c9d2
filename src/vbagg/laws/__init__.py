"""Vectorised probability laws of posteriors and predictives (MATH section 6).

A law holds one distribution per row and answers for all rows at once: ``mean``, ``std``, ``cdf``,
``quantile``, ``interval``, ``exceedance``, ``log_prob`` and ``sample``.

- an individual's rate: `Normal`, `LogNormal`, `SquaredNormal`, `LogitNormal`, one for each link
- a bag's total, from its mean and variance: ``from_moments`` of `Gamma`, `LogNormal`, `Normal`, `Beta`
- a bag's new output: `NegativeBinomial`, `PoissonLogNormal`, `BetaBinomial`, `ExponentialLogNormal`
- averages over hyper-parameters: `Mixture`
"""

from .base import Law
from .counts import BetaBinomial, NegativeBinomial
from .gaussian import LogitNormal, LogNormal, Normal
from .lognormal_mixtures import ExponentialLogNormal, PoissonLogNormal
from .mixture import Mixture
from .squared import SquaredNormal
from .totals import Beta, Gamma

__all__ = [
    "Beta",
    "BetaBinomial",
    "ExponentialLogNormal",
    "Gamma",
    "Law",
    "LogNormal",
    "LogitNormal",
    "Mixture",
    "NegativeBinomial",
    "Normal",
    "PoissonLogNormal",
    "SquaredNormal",
]
