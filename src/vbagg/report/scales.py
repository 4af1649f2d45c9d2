"""From values to colours: limits, ticks of the legend, colour tables."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from vbagg.numerals import tick
from vbagg.report.content import MapLayer

TAILS = (0.5, 99.5)
"""Percentiles at the ends of the colours, so that a few extreme pixels do not hide the rest."""
MOST_TICKS = 5


@dataclass(frozen=True)
class Tick:
    """A mark of the legend: where, from 0 to 1, and what it says."""

    place: float
    text: str


@dataclass(frozen=True)
class Scale:
    """How a layer's values become colours; ``below`` and ``above`` say whether values lie outside the limits."""

    low: float
    high: float
    log: bool
    colours: str
    ticks: tuple[Tick, ...]
    below: bool
    above: bool


def scale_of(layer: MapLayer, layers: Mapping[str, MapLayer]) -> Scale | None:
    """Scale of a layer, or that of the layer it refers to; None where there is no value at all."""
    values = layer.values[~np.isnan(layer.values)]
    source = layer
    while source.same_scale_as is not None:
        source = layers[source.same_scale_as]
    reference = source.values[~np.isnan(source.values)]
    if values.size == 0 or reference.size == 0:
        return None
    log = source.log and bool(np.any(reference > 0))
    low, high = _limits(reference, source.limits, log)
    return Scale(
        low=low,
        high=high,
        log=log,
        colours=source.colours,
        ticks=ticks(low, high, log),
        below=bool(np.min(values) < low),
        above=bool(np.max(values) > high),
    )


def ticks(low: float, high: float, log: bool) -> tuple[Tick, ...]:
    """About five round numbers within the limits."""
    if log:
        values = _log_ticks(low, high)
        places = [math.log(value / low) / math.log(high / low) for value in values]
    else:
        values = _linear_ticks(low, high)
        places = [(value - low) / (high - low) for value in values]
    return tuple(Tick(round(place, 5), tick(value)) for place, value in zip(places, values, strict=True))


def colour_table(name: str) -> str:
    """256 colours of one of cmcrameri's maps as hexadecimal digits, six each."""
    from cmcrameri import cm

    table = cm.cmaps[name](np.linspace(0, 1, 256), bytes=True)[:, :3]
    return table.tobytes().hex()


def _limits(values: np.ndarray, given: tuple[float, float] | None, log: bool) -> tuple[float, float]:
    if given is not None:
        return float(given[0]), float(given[1])
    low, high = map(float, np.percentile(values[values > 0] if log else values, TAILS))
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
