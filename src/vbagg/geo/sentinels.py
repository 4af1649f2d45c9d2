"""Undeclared codes for "no value", told from data by where they lie.

A number with 30 digits is never data. A familiar code such as -9999 counts as missing only if it is the smallest (or
largest) number of the layer and lies far from the others: a depth of -9999 m among other depths stays what it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

ABSURD = 1e30
LOW_CODES = (-999.0, -9999.0, -32767.0, -32768.0, -99999.0, -999999.0, -2147483648.0)
HIGH_CODES = (255.0, 9999.0, 32767.0, 65535.0, 99999.0, 999999.0, 2147483647.0, 4294967295.0, 1e20)
FAR = 100.0  # codes nearer than this to the data are taken for data


def absent(values: NDArray[Any], nodata: Iterable[float]) -> NDArray[np.bool_]:
    """Where stored numbers are no values: declared so, not finite, or absurdly large."""
    if values.dtype.kind == "f":
        missing = ~(np.abs(values) < ABSURD)
    else:
        missing = np.zeros(values.shape, dtype=bool)
    for code in nodata:
        if np.isfinite(code):
            missing |= values == _as_stored(code, values)
    return missing


def codes_among(chunks: Iterable[NDArray[Any]]) -> dict[float, int]:
    """Undeclared codes among the valid numbers of a layer, which come in chunks, and how often each occurs."""
    low, high = np.inf, -np.inf
    found: dict[float, int] = {}
    for values in chunks:
        known = LOW_CODES + (HIGH_CODES if values.dtype == np.uint8 else HIGH_CODES[1:])
        while values.size:
            ends = float(values.min()), float(values.max())
            extremes = [code for code in known if _as_stored(code, values) in ends]
            if not extremes:
                low, high = min(low, ends[0]), max(high, ends[1])
                break
            for code in extremes:
                others = values[values != _as_stored(code, values)]
                found[code] = found.get(code, 0) + values.size - others.size
                values = others
    return {code: found[code] for code in _far_codes(found, low, high)}


def _as_stored(code: float, values: NDArray[Any]) -> float:
    """A code as the values' type of floating-point number holds it."""
    return float(values.dtype.type(code)) if values.dtype.kind == "f" else float(code)


def _far_codes(found: Iterable[float], low: float, high: float) -> list[float]:
    """Those codes that lie clearly apart from data between `low` and `high`."""
    codes = []
    for code in sorted(found, key=abs):
        if high < low:
            apart = code < 0
        elif code < 0:
            apart = low - code >= FAR and (low >= 0 or low - code >= (high - low) / 2)
        else:
            apart = code - high >= max(FAR, high - low)
        if apart:
            codes.append(code)
        else:
            low, high = min(low, code), max(high, code)
    return codes
