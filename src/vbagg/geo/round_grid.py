"""Round numbers, near to each other where they matter: the thresholds that a reader can choose among."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
DIGITS = 12
SLACK = 1e-9


def round_grid(low: float, high: float, least: float, most: float, fine: int, coarse: int, ratios: bool) -> Floats:
    """The roundest number of each of many intervals, in ascending order.

    Parameters
    ----------
    low, high
        Where intervals are narrow.
    least, most
        Where they end.
    fine, coarse
        How many intervals there are between `low` and `high`, and on each side of these.
    ratios
        Whether intervals are equal as ratios; all numbers are positive then.
    """
    parts = [(least, low, coarse), (low, high, fine), (high, most, coarse)]
    spaced = np.geomspace if ratios else np.linspace
    ends = np.unique(np.concatenate([spaced(start, end, n + 1) for start, end, n in parts]))
    return np.unique([roundest(start, end) for start, end in itertools.pairwise(ends.tolist())])


def roundest(low: float, high: float) -> float:
    """Of the numbers above `low` and up to `high`, the one that is a multiple of the largest power of ten, or half."""
    step = 10.0 ** np.ceil(np.log10(max(abs(low), abs(high))))
    while True:
        for part in (1.0, 0.5, 0.2):
            found = np.floor(high / (part * step) + SLACK) * part * step
            if found > low * (1 + SLACK * np.sign(low)):
                return float(f"{found:.{DIGITS}g}")
        step /= 10


def rounded(value: float) -> float:
    """A number near this one that is easy to say: 1, 1.5, 2, 3, ... times a power of ten."""
    if value == 0 or not np.isfinite(value):
        return value
    power = 10.0 ** np.floor(np.log10(abs(value)) + SLACK)
    mantissa = abs(value) / power
    near = round(2 * mantissa) / 2 if mantissa < 2 else round(mantissa)
    return float(np.sign(value) * float(f"{near * power:.{DIGITS}g}"))
