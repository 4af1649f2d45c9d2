"""Sums by union of what was scored inside unions: all that skill and coverage need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vbagg.validate.bag_scores import LEVELS, percent

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Sums:
    """Sums over the bags of each union (u), weighted by exposure, of what `scores_inside` tells of them."""

    own: Floats
    """Squared errors of the model."""
    one: Floats
    """Squared errors of one rate for the union."""
    noise: Floats
    own_error: Floats
    """Squared errors that the model expects of itself, and of one rate."""
    own_spread: Floats
    agreement: Floats
    """How far differences that the model tells and those observed go together: `g_u` of MATH (31)."""
    bags: Floats
    inside: dict[float, Floats]
    """Bags inside their intervals, by level."""

    @classmethod
    def of(cls, table: pd.DataFrame) -> Sums:
        """Of the table of a scale."""
        _, union = np.unique(table["union"], return_inverse=True)
        value, weight = table["value"].to_numpy(), table["exposure"].to_numpy()
        told = table["estimate"].to_numpy()
        spread = table["own_error"] + told**2

        def summed(values: Any) -> Floats:
            return np.bincount(union, np.asarray(values, dtype=float)).astype(float)

        return cls(
            own=summed(weight * (value - told) ** 2),
            one=summed(weight * value**2),
            noise=summed(weight * table["noise"]),
            own_error=summed(weight * table["own_error"]),
            own_spread=summed(weight * spread),
            agreement=summed(told * value / (spread + table["noise"])),
            bags=summed(np.ones(len(table))),
            inside={level: summed(table[f"inside_{percent(level)}"]) for level in LEVELS},
        )

    def resampled(self, n: int) -> Sums:
        """Sums (n) over all unions, these drawn with replacement: the same draws on every call."""
        u = len(self.own)
        times = np.random.default_rng(0).multinomial(u, np.full(u, 1 / u), n).astype(float)
        return self._each(lambda values: times @ values)

    def total(self) -> Sums:
        """Sums over all unions."""
        return self._each(lambda values: values.sum(keepdims=True))

    def _each(self, change: Callable[[Floats], Floats]) -> Sums:
        plain = {name: change(values) for name, values in vars(self).items() if name != "inside"}
        return Sums(**plain, inside={level: change(values) for level, values in self.inside.items()})

    @property
    def skill(self) -> Floats:
        """Share of the differences inside unions that the model explains, without chance in both, MATH (30)."""
        real = self.one - self.noise
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(real > 0.02 * self.one, 1 - (self.own - self.noise) / real, np.nan)

    @property
    def told(self) -> Floats:
        """Squared differences that the model tells."""
        return np.maximum(self.own_spread - self.own_error, 1e-300)

    @property
    def claimed(self) -> Floats:
        """The same as the model expects it to be, MATH (30)."""
        return 1 - self.own_error / np.maximum(self.own_spread, 1e-300)

    def coverage(self, level: float) -> Floats:
        """Share of bags inside their intervals."""
        return self.inside[level] / self.bags
