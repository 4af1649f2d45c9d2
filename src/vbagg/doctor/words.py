"""Wording that findings share."""

from __future__ import annotations

from collections.abc import Sequence, Sized
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vbagg import numerals
from vbagg.geo.bounds import Interval
from vbagg.geo.files import percent, some
from vbagg.geo.polygons import Polygons

THREE = 3


def number(things: Sized | int, one: str, several: str) -> str:
    """A number with its noun, and verb."""
    n = things if isinstance(things, int) else len(things)
    return f"{numerals.count(n)} {one if n == 1 else several}"


def most(labels: NDArray[Any], shares: NDArray[np.float64], among: NDArray[np.intp]) -> str:
    """The few of these polygons with the largest shares."""
    order = among[np.argsort(-shares[among], kind="stable")][:THREE]
    return some([f"{labels[i]!r} ({percent(shares[i], 1.0)})" for i in order], quote=False)


def plain_labels(polygons: Polygons) -> NDArray[np.object_]:
    """Ids as Python's own numbers and text."""
    return np.array([*polygons.labels.tolist(), None], dtype=object)[:-1]


def between(bounds: Interval, write: numerals.Write = numerals.rate) -> str:
    """A number, or the numbers between which it is."""
    return numerals.between(*bounds, write)


def held(polygons: Polygons, responses: Sequence[str], which: NDArray[Any]) -> str:
    """What these polygons hold of each response."""
    sums = [f"{between(polygons.totals(name).sum(which))} {name}" for name in responses]
    return some(sums, quote=False) or "their totals"


def duration(seconds: float) -> str:
    """A time in the largest unit that leaves a number of 2 or more."""
    for size, name in ((3600.0, "h"), (60.0, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {name}"
    return f"{seconds:.0f} s"
