"""How many people live above a threshold that the reader chooses: the numbers, and what a page shows of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from vbagg import numerals
from vbagg.report.scripts import DataBlock, script_json
from vbagg.report.texts import Texts

Floats = NDArray[np.float64]
Counted = Literal["population", "area", "expected"]
ANCHOR, DATA = "above", "vbagg-above-data"
WIDTH, HEIGHT = 1000, 240
"""Of the drawing, which is stretched to its place."""
DIGITS = 3
"""Of large numbers."""
MILLION = 1e6
MOST_TICKS, NEAR = 6, 0.3


@dataclass(frozen=True, eq=False)
class AboveCurve:
    """How many people live where the rate is above each of many thresholds.

    Parameters
    ----------
    thresholds : sequence of float
        In ascending order; at least two.
    above, lower, upper : sequence of float
        People above each, and the ends of the interval.
    everybody : float
        All people.
    start : float
        The threshold at the start, one of these.
    counted : str
        One of `Counted`.
    units : str
        Of thresholds, such as "cases per 1000 people".
    response : str
        What rates are of.
    notes : sequence of str
        What to know of these numbers.
    """

    thresholds: Sequence[float]
    above: Sequence[float]
    lower: Sequence[float]
    upper: Sequence[float]
    everybody: float
    start: float
    counted: Counted = "population"
    units: str = ""
    response: str = ""
    notes: Sequence[str] = ()

    def __post_init__(self) -> None:
        columns = [np.asarray(column, dtype=np.float64) for column in self._columns]
        if len({column.shape for column in columns}) > 1 or columns[0].ndim != 1 or len(columns[0]) < 2:
            shapes = [column.shape for column in columns]
            raise ValueError(f"`thresholds`, `above`, `lower` and `upper` must be lists of one length; got {shapes}.")
        if not all(np.isfinite(column).all() for column in columns) or (np.diff(columns[0]) <= 0).any():
            raise ValueError("`thresholds` must ascend, and all numbers be finite. Leave out the others.")
        if not self.everybody > 0:
            raise ValueError(f"`everybody` must be positive; got {self.everybody!r}. Leave the curve out.")
        if self.start not in columns[0]:
            raise ValueError(f"`start` must be one of the thresholds; got {self.start!r}.")

    @property
    def _columns(self) -> tuple[Sequence[float], ...]:
        return self.thresholds, self.above, self.lower, self.upper

    @property
    def at_start(self) -> int:
        """Position of the threshold at the start."""
        return int(np.flatnonzero(np.asarray(self.thresholds) == self.start)[0])


@dataclass(frozen=True)
class ShownAbove:
    """The same as the template shows it: texts, and shapes in the units of the drawing."""

    curve: AboveCurve
    title: str
    sentence: str
    band: str
    line: str
    place: float
    """Of the start, in percent from the left."""
    ticks: list[tuple[float, str]]
    marks: list[tuple[float, str]]
    """Heights in percent from the top, and their labels."""
    width: int = WIDTH
    height: int = HEIGHT


def shown_above(curve: AboveCurve, say: Texts) -> ShownAbove:
    """Texts and shapes of a curve."""
    n = len(curve.thresholds)
    return ShownAbove(
        curve,
        title=say(f"above.title_{curve.counted}"),
        sentence=sentence(curve, say, curve.at_start),
        band=_path(curve, np.r_[0:n, n - 1 : -1 : -1], np.r_[np.asarray(curve.upper), np.asarray(curve.lower)[::-1]]),
        line=_path(curve, np.arange(n), np.asarray(curve.above)),
        place=100 * curve.at_start / (n - 1),
        ticks=[(100 * at / (n - 1), numerals.given(curve.thresholds[at])) for at in _ticks(curve.thresholds)],
        marks=[(100 * (1 - part), amount(say, part * curve.everybody)) for part in (1.0, 0.5)],
    )


def sentence(curve: AboveCurve, say: Texts, at: int) -> str:
    """What is known of one of the thresholds."""
    return say(
        f"above.sentence_{curve.counted}",
        above=amount(say, curve.above[at]),
        all=amount(say, curve.everybody),
        range=amounts(say, curve.lower[at], curve.upper[at]),
        threshold=numerals.given(curve.thresholds[at]),
        units=curve.units,
        response=curve.response,
    )


def amount(say: Texts, value: float) -> str:
    """A number of people with few digits; `amount` of scripts."""
    near = _near(value)
    return _millions(say, near, _of_million(near)) if near >= MILLION else numerals.count(near)


def amounts(say: Texts, low: float, high: float) -> str:
    """From one number to another."""
    near = _near(low), _near(high)
    if min(near) < MILLION:
        return say("above.range", low=amount(say, low), high=amount(say, high))
    low_text, high_text = map(_of_million, near)
    return _millions(say, near[1], say("above.range", low=low_text, high=high_text))


def above_block(curve: AboveCurve) -> DataBlock:
    """All numbers, for scripts."""
    names = ("thresholds", "above", "lower", "upper")
    numbers: dict[str, Any] = {name: [float(value) for value in getattr(curve, name)] for name in names}
    facts = {"all": curve.everybody, "counted": curve.counted, "units": curve.units, "response": curve.response}
    return DataBlock(DATA, script_json(numbers | facts), "application/json")


def _near(value: float) -> float:
    return float(f"{value:.{DIGITS - 1}e}") if abs(value) >= 10**DIGITS else float(value)


def _millions(say: Texts, value: float, number: str) -> str:
    return say("above.million", n=value / MILLION, number=number)


def _of_million(value: float) -> str:
    return numerals.padded(value / MILLION, DIGITS)


def _path(curve: AboveCurve, steps: NDArray[Any], values: Floats) -> str:
    """Points from left to right by the order of thresholds, which is the scale of the slider."""
    x = steps * (WIDTH / (len(curve.thresholds) - 1))
    y = HEIGHT * (1 - np.clip(values / curve.everybody, 0.0, 1.0))
    return "M" + "L".join(f"{across:.4g} {down:.4g}" for across, down in zip(x, y, strict=True))


def _ticks(thresholds: Sequence[float]) -> list[int]:
    """Positions of thresholds that are written below the curve: round ones, about as far from each other."""
    last = len(thresholds) - 1
    count = min(MOST_TICKS, last + 1)
    apart = last / (count - 1)

    def chosen(place: float) -> int:
        near = range(max(0, round(place - NEAR * apart)), min(last, round(place + NEAR * apart)) + 1)
        return min(near, key=lambda at: (_digits(thresholds[at]), abs(at - place)))

    return sorted({chosen(number * apart) for number in range(count)})


def _digits(value: float) -> int:
    """How many of them a number has without zeros at its ends."""
    return len(f"{abs(value):.10e}".split("e")[0].replace(".", "").rstrip("0"))
