"""Numbers as people write them."""

from __future__ import annotations

import math
from collections.abc import Callable

Write = Callable[[float], str]


def count(value: float) -> str:
    """People and cases: whole, unless it is small and between whole numbers."""
    return f"{value:,.0f}" if abs(value) >= 10 or value == round(value) else significant(value, 2)


def rate(value: float) -> str:
    """A rate: three digits, and whole where it is large."""
    return significant(value, 3)


def ratio(value: float) -> str:
    """How many times as large."""
    return significant(value, 2)


def share(value: float) -> str:
    """A part of 1 in percent."""
    return f"{significant(100 * value, 2)}%"


def significant(value: float, digits: int) -> str:
    """So many digits, and all those before the decimal mark."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else "\u2013"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def given(value: float) -> str:
    """A number that somebody chose."""
    return f"{value:.10g}" if abs(value) < 10_000 else f"{value:,.10g}"
