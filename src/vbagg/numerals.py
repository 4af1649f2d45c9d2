"""Numbers as people write them: 235,000 and not 2.35e+05.

There is one function for each kind of number, and all of them write digits by `_plain`, which alone knows the marks
between thousands and before decimals.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable

NOTHING, MINUS = "\u2013", "\u2212"
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
LEAST_PLAIN, LEAST_POWER = 1e-4, 1e15
"""Numbers below the first, or from the second on, are written with a power of ten."""
SMALL = 10
"""Counts from here on have no decimals."""
LONG = 10_000
"""Given numbers below stand without a mark, as in "per 1000 people"."""

WRITTEN = re.compile(rf"(under |over |[-+<>~\u2264\u2265{MINUS}]\s*)?\d[\d,.\s]*(\u00d7 10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)?\s*%?")

Write = Callable[[float], str]


def count(value: float) -> str:
    """People, cases, cells: whole, unless it is small and between whole numbers."""
    is_whole = not math.isfinite(value) or abs(value) >= SMALL or value == round(value)
    return _plain(value, 0) if is_whole else significant(value, 2)


def rate(value: float) -> str:
    """A rate, a score, or an amount with units: three digits, and whole where it is large."""
    return significant(value, 3)


def ratio(value: float) -> str:
    """How many times as large."""
    return significant(value, 2)


def share(value: float) -> str:
    """A part of 1 in percent; neither nothing nor all where it is not quite."""
    if math.isnan(value):
        return NOTHING
    if not 0 < value < 1:
        return f"{_plain(100 * value, 0)}%"
    if value < 1e-4:
        return "under 0.01%"
    if value >= 0.9995:
        return "over 99.9%"
    return f"{significant(100 * value, 2 if value < 0.995 else 3)}%"


def level(value: float) -> str:
    """Level of an interval in percent: 95%, 99.9%."""
    return f"{given(100 * value)}%"


def probability(value: float) -> str:
    """A p-value, with its sign: "= 0.03"."""
    return "< 0.001" if value < 0.001 else f"= {significant(value, 2)}"


def given(value: float) -> str:
    """A number that somebody chose or measured, with all its digits."""
    text = _stripped(_rounded(value, 10))
    return text.replace(",", "") if abs(value) < LONG else text


def coordinate(value: float) -> str:
    """A number of a pair, where a mark between thousands would be read as one between the two; it can be copied."""
    return _stripped(_rounded(value, 6)).replace(",", "").replace(MINUS, "-")


def side(value: float) -> str:
    """How long cells are: often a fraction of a degree."""
    return significant(value, 4)


def tick(value: float) -> str:
    """A round number on an axis or a scale of colours."""
    return significant(value, 6)


def correlation(value: float) -> str:
    """A number from -1 to 1."""
    return _plain(value, 2)


def is_one(text: str) -> bool:
    """Whether a text is a number, as it is written here or nearly so, and nothing else."""
    return WRITTEN.fullmatch(text) is not None


def significant(value: float, digits: int) -> str:
    """At least so many digits where they say something, and all those before the decimal mark."""
    return _stripped(_rounded(value, digits))


def padded(value: float, digits: int) -> str:
    """At least so many digits, with zeros at the end: numbers that stand beside each other are alike."""
    return _rounded(value, digits)


def span(low: float, high: float, write: Write) -> str:
    """An interval: "10 to 12", or "10 or more"."""
    return f"{write(low)} or more" if high == math.inf else f"{write(low)} to {write(high)}"


def with_span(value: float, low: float, high: float, write: Write) -> str:
    """A number and its interval: "11 (10 to 12)"."""
    return f"{write(value)} ({span(low, high, write)})"


def between(low: float, high: float, write: Write = rate) -> str:
    """A number, or the numbers between which it is."""
    if high == math.inf:
        return f"at least {write(low)}"
    return write(low) if write(low) == write(high) else f"between {write(low)} and {write(high)}"


def _rounded(value: float, digits: int) -> str:
    """With so many digits, as a power of ten where zeros would hide them."""
    if value == 0 or not math.isfinite(value):
        return _plain(value, 0)
    text = f"{abs(value):.{digits - 1}e}"
    mantissa, exponent = text.split("e")
    if LEAST_PLAIN <= float(text) < LEAST_POWER:
        return _plain(value, max(0, digits - 1 - int(exponent)))
    power = f"10{str(int(exponent)).translate(RAISED)}"
    mantissa = _stripped(_plain(float(mantissa), digits - 1))
    return (MINUS if value < 0 else "") + (power if mantissa == "1" else f"{mantissa} \u00d7 {power}")


def _stripped(text: str) -> str:
    """Without zeros at the end of decimals."""
    return text.rstrip("0").rstrip(".") if "." in text and "\u00d7" not in text else text


def _plain(value: float, decimals: int) -> str:
    """All digits up to so many decimals."""
    if not math.isfinite(value):
        return NOTHING if math.isnan(value) else f"{MINUS if value < 0 else ''}\u221e"
    text = f"{abs(value):,.{decimals}f}"
    return f"{MINUS}{text}" if value < 0 and text.strip("0.,") else text
