"""From values to colours: the same limits, logarithms and marks for pictures and for the viewer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vbagg.numerals import tick

if TYPE_CHECKING:
    from matplotlib.colors import Normalize
    from numpy.typing import NDArray

Limits = tuple[float, float]
TAILS = (0.5, 99.5)
"""Percentiles at the ends of the colours, so that a few extreme cells do not hide the rest."""
POLYGON_TAILS = (2.0, 98.0)
"""Those of polygons, which are few."""
LOG_SPREAD = 20.0
MOST_TICKS = 5


@dataclass(frozen=True)
class Tick:
    """A mark of a legend: the value, where it is from 0 to 1, and what it says."""

    value: float
    place: float
    text: str


@dataclass(frozen=True)
class ColourScale:
    """How values become colours.

    Attributes
    ----------
    low, high
        Values of the first and the last colour.
    log
        Whether colours follow the logarithm.
    colours
        One of cmcrameri's maps.
    """

    low: float
    high: float
    log: bool
    colours: str

    @property
    def limits(self) -> Limits:
        """Both."""
        return self.low, self.high

    @property
    def ticks(self) -> tuple[Tick, ...]:
        """About five round numbers within the limits."""
        return ticks(self.low, self.high, self.log)

    @property
    def style(self) -> dict[str, Any]:
        """Colour map and norm, as matplotlib takes them."""
        import cmcrameri.cm

        return {"cmap": getattr(cmcrameri.cm, self.colours), "norm": self._norm}

    @property
    def _norm(self) -> Normalize:
        from matplotlib.colors import LogNorm, Normalize

        return (LogNorm if self.log else Normalize)(self.low, self.high)


def colour_scale(
    values: NDArray[Any], colours: str = "batlow", log: bool | None = None, limits: Limits | None = None
) -> ColourScale:
    """The scale for some values, NaN being none.

    Parameters
    ----------
    values
        A few extreme ones lie beyond the limits.
    colours
        One of cmcrameri's maps.
    log
        Whether colours follow the logarithm; None leaves it to `wants_log`. Without a positive value they do not.
    limits
        Values of the first and the last colour, if they are given.
    """
    values = values[np.isfinite(values)]
    log = (wants_log(values) if log is None else log) and bool(np.any(values > 0))
    low, high = _limits([(values, TAILS)], log) if limits is None else limits
    return ColourScale(float(low), float(high), log, colours)


def rate_scale(cells: NDArray[Any], polygons: NDArray[Any]) -> ColourScale:
    """One scale for predicted rates of cells and observed ones of polygons."""
    kinds = [(values[np.isfinite(values)], tails) for values, tails in ((cells, TAILS), (polygons, POLYGON_TAILS))]
    is_negative = any((values < 0).any() for values, _ in kinds)
    log = not is_negative and any(wants_log(values) for values, _ in kinds)
    return ColourScale(*_limits(kinds, log), log, "batlow")


def wants_log(values: NDArray[Any]) -> bool:
    """Whether positive values, extreme ones apart, spread so far that colours should follow their logarithm.

    Where some are negative they have none.
    """
    positive = values[values > 0]
    if positive.size < 2 or (values < 0).any():
        return False
    low, high = np.percentile(positive, POLYGON_TAILS)
    return bool(high > LOG_SPREAD * low)


def beyond(scale: ColourScale, values: NDArray[Any]) -> tuple[bool, bool]:
    """Whether any values lie below the scale, and above it."""
    values = values[np.isfinite(values)]
    return bool((values < scale.low).any()), bool((values > scale.high).any())


def colour_table(name: str) -> str:
    """256 colours of one of cmcrameri's maps as hexadecimal digits, six each."""
    from cmcrameri import cm

    table = cm.cmaps[name](np.linspace(0, 1, 256), bytes=True)[:, :3]
    return table.tobytes().hex()


def ticks(low: float, high: float, log: bool) -> tuple[Tick, ...]:
    """About five round numbers within the limits."""
    if log:
        values = _log_ticks(low, high)
        places = [math.log(value / low) / math.log(high / low) for value in values]
    else:
        values = _linear_ticks(low, high)
        places = [(value - low) / (high - low) for value in values]
    return tuple(Tick(value, round(place, 5), tick(value)) for place, value in zip(places, values, strict=True))


def _limits(kinds: Sequence[tuple[NDArray[Any], Limits]], log: bool) -> Limits:
    """Least and largest of the percentiles of several kinds of values."""
    known = [(values[values > 0] if log else values, tails) for values, tails in kinds]
    ends = np.array([np.percentile(values, tails) for values, tails in known if values.size] or [(0.0, 1.0)])
    low, high = float(ends[:, 0].min()), float(ends[:, 1].max())
    if high - low > 1e-6 * max(abs(low), abs(high)):
        return low, high
    # One value only: it gets the middle colour.
    return (low / 2, high * 2) if log else (low - (abs(low) or 1) / 2, high + (abs(high) or 1) / 2)


def _linear_ticks(low: float, high: float) -> list[float]:
    rough = (high - low) / MOST_TICKS
    unit = 10.0 ** math.floor(math.log10(rough))
    steps = (unit * factor for factor in (1, 2, 2.5, 5, 10, 20))
    step = next(step for step in steps if _count(low, high, step) <= MOST_TICKS)
    first = math.ceil(low / step - 1e-9)
    return [(first + i) * step for i in range(_count(low, high, step))]


def _count(low: float, high: float, step: float) -> int:
    return math.floor(high / step + 1e-9) - math.ceil(low / step - 1e-9) + 1


def _log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten, finer where these are few, or round numbers of a linear scale within less than a decade."""
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    found: list[float] = []
    for factors in ((1, 2, 5), (1, 3), (1,)):
        candidates = (factor * 10.0**exponent for exponent in exponents for factor in factors)
        found = [value for value in candidates if low * (1 - 1e-9) <= value <= high * (1 + 1e-9)]
        if len(found) <= MOST_TICKS:
            break
    if len(found) > MOST_TICKS:
        return found[:: math.ceil(len(found) / MOST_TICKS)]
    return found if len(found) >= 3 else _linear_ticks(low, high)
