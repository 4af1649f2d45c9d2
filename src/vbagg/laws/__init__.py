"""Vectorised probability laws of posteriors and predictives (MATH section 9).

A law holds one distribution per row and answers for all rows at once: ``mean``, ``std``, ``cdf``,
``quantile``, ``interval``, ``exceedance``, ``log_prob`` and ``sample``.

- an individual's rate: `Normal`, `LogNormal`, `SquaredNormal`, `LogitNormal`, one for each link
- a bag's total, from its mean and variance: ``from_moments`` of `Gamma`, `LogNormal`, `Normal`, `Beta`
- a bag's new output, mixed over its total: `NegativeBinomial`, `NegativeBinomialMixture`, `PoissonLogNormal`,
  `BetaBinomial`, `ExponentialLogNormal`, and `NumericalLaw` with `total_nodes` for any log density
- averages over hyper-parameters: `Mixture`
"""

from .base import Law, Summary, probabilities
from .compound import NegativeBinomialMixture
from .counts import BetaBinomial, NegativeBinomial
from .gaussian import LogitNormal, LogNormal, Normal
from .lognormal_mixtures import ExponentialLogNormal, PoissonLogNormal
from .mixing import total_nodes
from .mixture import Mixture
from .numerical import NumericalLaw
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
    "NegativeBinomialMixture",
    "Normal",
    "NumericalLaw",
    "PoissonLogNormal",
    "SquaredNormal",
    "Summary",
    "probabilities",
    "total_nodes",
]
