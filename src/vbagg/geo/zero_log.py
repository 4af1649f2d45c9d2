"""A logarithmic axis on which zero has a place of its own, apart from all other numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from vbagg.colours import ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]
REACH = 100.0
"""How many times as large or small as the outermost point an end of an interval may be to be on the axis."""
APART, MARGIN = 0.14, 0.04
"""Distance of zero from the least number, and of the frame from both, as parts of the axis."""
LEAST_FACTOR = 4.0


@dataclass(frozen=True)
class ZeroLog:
    """From `low` to `high`, and zero if there is any.

    Attributes
    ----------
    low, high
        Least and largest number on the axis.
    has_zero
        Whether there is a place for zero.
    """

    low: float
    high: float
    has_zero: bool

    @classmethod
    def of(cls, points: Floats, ends: Floats | None = None) -> ZeroLog:
        """An axis for all points, and for ends of intervals as far as they are not much farther out."""
        ends = points if ends is None else ends
        inside = points[points > 0] if (points > 0).any() else np.ones(1)
        reached = np.clip(ends[ends > 0], inside.min() / REACH, inside.max() * REACH)
        every = np.concatenate([inside, reached])
        low, high = float(every.min()), float(every.max())
        widened = max(1.0, np.sqrt(LEAST_FACTOR * low / high))
        return cls(low / widened, high * widened, bool((points <= 0).any() or (ends <= 0).any()))

    @property
    def zero(self) -> float:
        """Where zero is drawn."""
        return self.low * (self.low / self.high) ** APART

    def place(self, values: Floats) -> Floats:
        """Where values are drawn: those beyond the axis at its ends."""
        return np.where(values > 0, np.clip(values, self.low, self.high), self.zero)

    def beyond(self, values: Floats) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which values lie below the axis, and above it."""
        return (values > 0) & (values < self.low), values > self.high

    def dress(self, axes: Axes, side: Literal["x", "y"]) -> None:
        """Scale, limits and marks, zero behind a break."""
        marks = [(mark.value, mark.text) for mark in ticks(self.low, self.high, True)]
        if self.has_zero:
            marks.insert(0, (self.zero, "0"))
        places, texts = zip(*marks, strict=True)
        limits = self._first, self.high * self._margin
        if side == "x":
            axes.set(xscale="log", xlim=limits)
        else:
            axes.set(yscale="log", ylim=limits)
        axis = axes.xaxis if side == "x" else axes.yaxis
        axis.set_ticks(places, texts)
        axis.set_ticks([], minor=True)
        if self.has_zero:
            self._break(axes, side)

    @property
    def _margin(self) -> float:
        return float((self.high / self.low) ** MARGIN)

    @property
    def _first(self) -> float:
        """Where the frame begins."""
        return (self.zero if self.has_zero else self.low) / self._margin

    def _break(self, axes: Axes, side: Literal["x", "y"]) -> None:
        """A band behind zero, and two strokes across the axis."""
        end = float(np.sqrt(self.zero * self.low))
        style: dict[str, Any] = {"markersize": 9, "color": "black", "linewidth": 0, "clip_on": False}
        for place in (end * self._margin**0.2, end / self._margin**0.2):
            if side == "x":
                axes.plot(place, 0.0, marker=[(-1, -2), (1, 2)], transform=axes.get_xaxis_transform(), **style)
            else:
                axes.plot(0.0, place, marker=[(-2, -1), (2, 1)], transform=axes.get_yaxis_transform(), **style)
        span = axes.axvspan if side == "x" else axes.axhspan
        span(self._first, end, color="0.94", linewidth=0, zorder=0)
