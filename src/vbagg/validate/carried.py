"""From bags inside unions to cells inside bags: what was seen at several scales, carried on with its uncertainty.

At each scale two things are seen: by which factor the part of the differences that a model leaves unexplained is larger
than it claims, and by which factor its intervals are wider than they need be. Logarithms of both follow a line in the
logarithm of the number of parts of each area whose output is known: two, four or eight bags of a union, and the cells
of a bag. Cells are where this line leads, as far as a prior allows that says how well claims hold for most models.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from vbagg.validate.bag_scores import LEVELS
from vbagg.validate.sums import Sums

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
RESAMPLED = 400
INTERVAL = 0.9
CELLS_SD = 0.2
"""By how much logarithms of both factors vary among models: seen in simulated countries (`benchmarks/carried.py`)."""
SLOPE_SD = 0.05
"""And their slopes."""
SCALE_SD = 0.5
"""How far a scale may lie off the line, beyond chance."""
LEAST, MOST = 1e-3, 1 - 1e-3


@dataclass(frozen=True)
class Estimate:
    """A number with its 90% interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Carried:
    """What is expected of cells inside bags."""

    skill: Estimate
    """Share of the differences between the cells of a bag that the model explains; below zero, one rate is better."""
    claimed: float
    """What the model claims of it."""
    coverage: dict[float, Estimate]
    """Share of cells inside their intervals, by level."""


def carry(scales: Mapping[str, Sums], cells: pd.DataFrame) -> Carried:
    """Carry what was seen at scales on to `cells`, of which a model claims its errors (`inside.claims_of_cells`)."""
    weight = cells["exposure"].to_numpy()
    error, told = cells["own_error"].to_numpy(), cells["estimate"].to_numpy()
    left = float(weight @ error / max(weight @ (error + told**2), 1e-300))
    parts = np.log(max(2.0, float(cells["parts"].median())))
    more, sd = _carried([_seen(one, _log_unexplained) for one in scales.values()], parts)
    skill = Estimate(*(float(1 - left * np.exp(more + z * sd)) for z in (0.0, *_ends())))
    skill = Estimate(skill.value, min(skill.low, skill.high), max(skill.low, skill.high))
    return Carried(skill, 1 - left, {level: _covered(scales, level, parts) for level in LEVELS})


def _covered(scales: Mapping[str, Sums], level: float, parts: float) -> Estimate:
    wanted = ndtri((1 + level) / 2)
    wider, sd = _carried([_seen(one, lambda sums: _log_width(sums, level)) for one in scales.values()], parts)
    value, low, high = (float(2 * ndtr(wanted * np.exp(wider + z * sd)) - 1) for z in (0.0, *_ends()))
    return Estimate(value, low, high)


def _ends() -> tuple[float, float]:
    z = float(ndtri((1 + INTERVAL) / 2))
    return -z, z


def _seen(sums: Sums, what: Any) -> tuple[float, float, float]:
    """Logarithm of the number of parts, of a factor, and the latter's variance by chance."""
    total = sums.total()
    drawn = what(sums.resampled(RESAMPLED))
    return float(np.log(total.bags[0] / len(sums.own))), float(what(total)[0]), float(np.var(drawn))


def _log_unexplained(sums: Sums) -> Floats:
    """Logarithm of what is left unexplained over what is claimed to be."""
    real = np.maximum(sums.one - sums.noise, 0.05 * sums.one)
    left = np.clip((sums.own - sums.noise) / real, 0.05, 5.0)
    return np.log(left * np.maximum(sums.own_spread, 1e-300) / np.maximum(sums.own_error, 1e-300))


def _log_width(sums: Sums, level: float) -> Floats:
    """Logarithm of the width of intervals over the width that coverage asks for."""
    covered = np.clip((sums.coverage(level) * sums.bags + level) / (sums.bags + 1), LEAST, MOST)
    return np.log(ndtri((1 + covered) / 2) / ndtri((1 + level) / 2))


def _carried(seen: list[tuple[float, float, float]], parts: float) -> tuple[float, float]:
    """Mean and standard deviation at the cells of a line with a prior, through what was seen."""
    at, values, variance = (np.array(column) for column in zip(*seen, strict=True))
    design = np.stack([np.ones_like(at), at - parts], axis=1)
    noise = np.diag(variance + SCALE_SD**2)
    prior = np.diag([CELLS_SD**2, SLOPE_SD**2])
    gain = prior @ design.T @ np.linalg.inv(design @ prior @ design.T + noise)
    mean, covariance = gain @ values, prior - gain @ design @ prior
    return float(mean[0]), float(np.sqrt(covariance[0, 0]))
