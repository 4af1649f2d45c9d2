"""From bags inside unions to cells inside bags: what was seen at several scales, carried on with its uncertainty.

At each scale three things are seen: how much of the differences that a model tells comes true (the slope of what was
observed on what was told), by which factor differences are larger or smaller than it claims, and by which factor its
intervals are wider than they need be. Each follows a line in the logarithm of the number of parts of an area whose
output is known: two, four or eight bags of a union, and the cells of a bag. Cells are where this line leads, as far as
a prior allows that says how well claims hold for most models.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from vbagg.validate.bag_scores import LEVELS
from vbagg.validate.sums import Sums

if TYPE_CHECKING:
    import pandas as pd

    from vbagg.validate.recovered import Recovery

Floats = NDArray[np.float64]
RESAMPLED, DRAWS = 400, 2000
ENDS = (0.05, 0.95)
LEAST, MOST = 1e-3, 1 - 1e-3


@dataclass(frozen=True)
class Line:
    """Prior of a line: its value and standard deviation at the cells, and that of scales about it, beyond chance.

    Seen in simulated countries of all kinds (`benchmarks/carried.py`).
    """

    mean: float
    sd: float
    scale_sd: float
    slope_sd: float = 0.05

    def at(self, parts: float, seen: Sequence[tuple[float, float, float]]) -> tuple[float, float]:
        """Mean and standard deviation at cells, so many `parts` of an area in logarithms, given what was seen."""
        place, values, variance = (np.array(column) for column in zip(*seen, strict=True))
        design = np.stack([np.ones_like(place), place - parts], axis=1)
        noise = np.diag(variance + self.scale_sd**2)
        prior = np.diag([self.sd**2, self.slope_sd**2])
        gain = prior @ design.T @ np.linalg.inv(design @ prior @ design.T + noise)
        left = prior - gain @ design @ prior
        return float(self.mean + gain[0] @ (values - self.mean)), float(np.sqrt(left[0, 0]))


COMES_TRUE = Line(1.0, 0.3, 0.5)
SHARE = Line(0.0, 0.6, 0.5)
WIDTH = Line(0.0, 0.2, 0.5)


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


def carry(scales: Mapping[str, Sums], cells: pd.DataFrame, recovery: Recovery | None = None) -> Carried:
    """Carry what was seen at scales on to `cells`, of which a model claims its errors (`inside.claims_of_cells`).

    Along lines, MATH (33), of what MATH (32) says of each scale, to MATH (34).

    If the model is right, intervals of cells hold what `recovery` says, or else their levels.
    """
    weight, told = cells["exposure"].to_numpy(), cells["estimate"].to_numpy() ** 2
    claimed = float(weight @ told / max(weight @ (told + cells["own_error"].to_numpy()), 1e-300))
    parts = np.log(max(2.0, float(cells["parts"].median())))

    def normal(line: Line, what: Callable[[Sums], Floats]) -> tuple[float, float]:
        return line.at(parts, [_seen(one, what) for one in scales.values()])

    slope, share = normal(COMES_TRUE, _slope), normal(SHARE, _log_share)
    skill = _skill(*slope, *share, claimed)
    coverage = {}
    for level in LEVELS:
        line = WIDTH
        if recovery is not None and recovery.has_results:
            line = replace(WIDTH, mean=float(_wider(recovery.coverage(level), level)))
        coverage[level] = _covered(*normal(line, partial(_log_width, level=level)), level)
    return Carried(skill, claimed, coverage)


def _skill(slope: float, slope_sd: float, share: float, share_sd: float, claimed: float) -> Estimate:
    """`s (2 b - 1)`: told differences are the share `s` of all, and come true with the slope `b`."""
    z = np.random.default_rng(0).standard_normal((2, DRAWS))

    def at(b: Any, log_share: Any) -> Any:
        return np.minimum(claimed * np.exp(log_share), 1.0) * (2 * b - 1)

    low, high = np.quantile(at(slope + slope_sd * z[0], share + share_sd * z[1]), ENDS)
    return Estimate(float(at(slope, share)), float(low), float(min(high, 1.0)))


def _covered(wider: float, sd: float, level: float) -> Estimate:
    wanted, z = ndtri((1 + level) / 2), ndtri(ENDS)
    value, low, high = (float(2 * ndtr(wanted * np.exp(wider + sd * at)) - 1) for at in (0.0, *z))
    return Estimate(value, low, high)


def _seen(sums: Sums, what: Any) -> tuple[float, float, float]:
    """Logarithm of the number of parts, of a factor, and the latter's variance by chance."""
    total = sums.total()
    drawn = what(sums.resampled(RESAMPLED))
    return float(np.log(total.bags[0] / len(sums.own))), float(what(total)[0]), float(np.var(drawn))


def _told(sums: Sums) -> Floats:
    """Squared differences that were told."""
    return np.maximum(sums.own_spread - sums.own_error, 1e-300)


def _slope(sums: Sums) -> Floats:
    """Of what was observed on what was told."""
    return np.clip(0.5 * (sums.one + _told(sums) - sums.own) / _told(sums), -3.0, 3.0)


def _log_share(sums: Sums) -> Floats:
    """Logarithm of the share of what was told in what was observed, over that which is claimed."""
    real = np.maximum(sums.one - sums.noise, 0.05 * sums.one)
    return np.log(sums.own_spread / np.maximum(real, 1e-300))


def _log_width(sums: Sums, level: float) -> Floats:
    """Logarithm of the width of intervals over the width that coverage asks for."""
    return _wider((sums.coverage(level) * sums.bags + level) / (sums.bags + 1), level)


def _wider(covered: Any, level: float) -> Any:
    """By which factor, as a logarithm, intervals are wider than those of the level that they cover."""
    return np.log(ndtri((1 + np.clip(covered, LEAST, MOST)) / 2) / ndtri((1 + level) / 2))
