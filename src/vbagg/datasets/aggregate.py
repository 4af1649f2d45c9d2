"""Bags with their totals and what is known of the individuals, and the sizes of the paper's bags."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from vbagg.bags import Bags

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

PARTS = ("train", "early_stop", "validation", "test")


@dataclass(frozen=True, eq=False)
class AggregateData:
    """Bags with their totals, and the truth about individuals that a model must not see.

    Attributes
    ----------
    bags
        Individuals in bags, all weights one.
    y
        Observed total of each bag.
    rate
        True mean of each individual, in the order of ``bags.X``; None where the data are real and nobody knows
        it, so that predictions can be compared with ``individual_y`` only.
    individual_y
        Output of each individual, whose sums are ``y``.
    """

    bags: Bags
    y: Floats
    rate: Floats | None
    individual_y: Floats


@dataclass(frozen=True, eq=False)
class SimulatedData(AggregateData):
    """Aggregate data whose ``rate`` is known, because they were drawn from it."""

    rate: Floats


def require_size_law(mean_size: float, std_size: float) -> None:
    """Raise unless one plus a negative binomial can have this mean and standard deviation."""
    if not 1 < mean_size < 1 + std_size**2:
        raise ValueError(
            f"Bag sizes need 1 < mean_size < 1 + std_size^2; got mean_size={mean_size}, "
            f"std_size={std_size}. Raise `std_size`."
        )


def draw_sizes(
    random: np.random.RandomState | np.random.Generator, n_bags: int, mean_size: float, std_size: float
) -> Integers:
    """Draw 1 + negative binomial; its mean is r p / (1 - p), its variance r p / (1 - p)^2."""
    from scipy.stats import nbinom

    p = 1 - (mean_size - 1) / std_size**2
    r = (mean_size - 1) * (1 - p) / p
    return 1 + nbinom.rvs(r, 1 - p, size=n_bags, random_state=random)  # scipy's p is 1 - p
