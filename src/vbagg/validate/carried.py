"""From bags inside unions to cells inside bags: what was seen at several scales, carried on with its uncertainty.

At each scale three things are seen, each beside what the model claims: how well the differences that it tells go
together with those observed, how large they are, and how wide its intervals are. Each follows a line in the logarithm
of the number of parts of an area whose output is known: two, four or eight bags of a union, and the cells of a bag.
Cells are where this line leads, as far as a prior allows that says how well claims hold for most models. What a model
claims of cells is better known from refits to simulated outputs than from its posterior, if there are any.
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
LEAST_REAL = 0.05
"""Share of differences that chance must leave, to say how well they are told."""
HIGHEST = 0.98
"""Correlation that is taken for one."""


@dataclass(frozen=True)
class Line:
    """Prior of a line: its value and standard deviation at the cells, and that of scales about it, beyond chance.

    Models of few unions claim too little: `above` is how much higher scales are on average than cells. Cells deviate by
    `own_sd` in ways of which scales say nothing. Seen in simulated countries of all kinds (`benchmarks/carried.py`).
    """

    mean: float
    sd: float
    scale_sd: float
    above: float
    own_sd: float = 0.0
    slope_sd: float = 0.05

    def at(self, parts: float, seen: Sequence[tuple[float, float, float]]) -> tuple[float, float]:
        """Mean and standard deviation at cells, so many `parts` of an area in logarithms, given what was seen."""
        if not seen:
            return self.mean, float(np.hypot(self.sd, self.own_sd))
        place, values, variance = (np.array(column) for column in zip(*seen, strict=True))
        design = np.stack([np.ones_like(place), place - parts], axis=1)
        noise = np.diag(variance + self.scale_sd**2)
        prior = np.diag([self.sd**2, self.slope_sd**2])
        gain = prior @ design.T @ np.linalg.inv(design @ prior @ design.T + noise)
        left = prior - gain @ design @ prior
        sd = np.sqrt(left[0, 0] + self.own_sd**2)
        return float(self.mean + gain[0] @ (values - self.mean - self.above)), float(sd)


AGREEMENT = Line(0.0, 0.2, 0.4, 0.25, 0.2)
"""Of correlations as Fisher's z."""
TOLD = Line(0.0, 0.4, 0.6, 0.5, 0.3)
"""Of logarithms of how much of the differences is told."""
WIDTH = Line(0.0, 0.2, 0.5, 0.1)
"""Of logarithms of widths."""


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


def parts_of(cells: pd.DataFrame) -> float:
    """How many cells a bag has in effect, of a usual one."""
    return max(2.0, float(cells["parts"].median()))


def carry(scales: Mapping[str, Sums], cells: pd.DataFrame, recovery: Recovery | None = None) -> Carried:
    """Carry what was seen at scales on to `cells`, of which a model claims its errors (`inside.claims_of_cells`).

    If the model is right, it explains of cells, and their intervals hold, what `recovery` says, or else what it claims
    and their levels.
    """
    weight, told = cells["exposure"].to_numpy(), cells["estimate"].to_numpy() ** 2
    claimed = float(weight @ told / max(weight @ (told + cells["own_error"].to_numpy()), 1e-300))
    parts = np.log(parts_of(cells))
    right = recovery if recovery is not None and recovery.has_results else None

    def normal(line: Line, what: Callable[[Sums], Floats]) -> tuple[float, float]:
        seen = [_seen(one, what) for one in scales.values()]
        return line.at(parts, [one for one in seen if np.isfinite(one).all()])

    if_right = claimed if right is None or np.isnan(right.skill) else right.skill
    skill = _skill(normal(AGREEMENT, _agreement), normal(TOLD, _log_told), if_right)
    coverage = {}
    for level in LEVELS:
        line = WIDTH if right is None else replace(WIDTH, mean=float(_wider(right.coverage(level), level)))
        coverage[level] = _covered(*normal(line, partial(_log_width, level=level)), level)
    return Carried(skill, claimed, coverage)


def _skill(agreement: tuple[float, float], told: tuple[float, float], if_right: float) -> Estimate:
    """Given the means and standard deviations of what is carried, MATH (34)."""
    z, own = np.random.default_rng(0).standard_normal((2, DRAWS)), np.clip(if_right, 0.0, MOST)

    def at(fisher: Any, log_told: Any) -> Any:
        correlation, share = np.tanh(_fisher(np.sqrt(own)) + fisher), own * np.exp(log_told)
        return 2 * correlation * np.sqrt(share) - share

    low, high = np.quantile(at(agreement[0] + agreement[1] * z[0], told[0] + told[1] * z[1]), ENDS)
    return Estimate(float(at(agreement[0], told[0])), float(low), float(high))


def _covered(wider: float, sd: float, level: float) -> Estimate:
    wanted, z = ndtri((1 + level) / 2), ndtri(ENDS)
    value, low, high = (float(2 * ndtr(wanted * np.exp(wider + sd * at)) - 1) for at in (0.0, *z))
    return Estimate(value, low, high)


def _seen(sums: Sums, what: Any) -> tuple[float, float, float]:
    """Logarithm of the number of parts, of a factor, and the latter's variance by chance."""
    total = sums.total()
    drawn = what(sums.resampled(RESAMPLED))
    known = drawn[np.isfinite(drawn)]
    variance = float(np.var(known)) * len(drawn) / len(known) if len(known) else np.nan
    return float(np.log(total.bags[0] / len(sums.own))), float(what(total)[0]), variance


def _agreement(sums: Sums) -> Floats:
    """Fisher's z of the correlation of differences told and observed, less that which is claimed, MATH (32)."""
    together = 0.5 * (sums.one + sums.told - sums.own)
    return _fisher(together / np.sqrt(sums.told * _real(sums))) - _fisher(np.sqrt(sums.claimed))


def _log_told(sums: Sums) -> Floats:
    """Logarithm of how much of the differences observed is told, over the share that is claimed, MATH (32)."""
    return np.log(sums.told / (_real(sums) * np.maximum(sums.claimed, 1e-300)))


def _real(sums: Sums) -> Floats:
    """Squared differences observed, without chance; NaN where that explains nearly all of them."""
    real = sums.one - sums.noise
    return np.where(real > LEAST_REAL * sums.one, real, np.nan)


def _fisher(correlation: Any) -> Any:
    return np.arctanh(np.clip(correlation, -HIGHEST, HIGHEST))


def _log_width(sums: Sums, level: float) -> Floats:
    """Logarithm of the width of intervals over the width that coverage asks for."""
    return _wider((sums.coverage(level) * sums.bags + level) / (sums.bags + 1), level)


def _wider(covered: Any, level: float) -> Any:
    """By which factor, as a logarithm, intervals are wider than those of the level that they cover."""
    return np.log(ndtri((1 + np.clip(covered, LEAST, MOST)) / 2) / ndtri((1 + level) / 2))
