"""Numbers as people write them: 235,000 and not 2.35e+05, in the language that is written at the moment.

There is one function for each kind of number, and all of them write digits by `_plain`; marks between thousands and
before decimals are those of the language.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import cache

from vbagg.language import ENGLISH, chosen, marks, written_in
from vbagg.texts import texts_in

NOTHING, MINUS = "\u2013", "\u2212"
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
LEAST_PLAIN, LEAST_POWER = 1e-4, 1e15
"""Numbers below the first, or from the second on, are written with a power of ten."""
SMALL = 10
"""Counts from here on have no decimals."""
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
        return f"{_plain(100 * value, 0)}{marks().percent}"
    if value < 1e-4:
        return texts_in()("numbers.under", share=level(1e-4))
    if value >= 0.9995:
        return texts_in()("numbers.over", share=level(0.999))
    return f"{significant(100 * value, 2 if value < 0.995 else 3)}{marks().percent}"


def percent(value: float, decimals: int = 0) -> str:
    """Hundredths of any size and sign, with so many decimals."""
    return f"{_plain(100 * value, decimals)}{marks().percent}"


def level(value: float) -> str:
    """Level of an interval in percent: 95%, 99.9%."""
    return f"{given(100 * value)}{marks().percent}"


def probability(value: float) -> str:
    """A p-value, with its sign: "= 0.03"."""
    least = 0.001
    return f"< {given(least)}" if value < least else f"= {significant(value, 2)}"


def given(value: float) -> str:
    """A number that somebody chose or measured, with all its digits."""
    text = _stripped(_rounded(value, 10))
    return text.replace(marks().thousands, "") if abs(value) < marks().given_from else text


def coordinate(value: float) -> str:
    """A number of a pair, where a mark between thousands would be read as one between the two; it can be copied."""
    with written_in(ENGLISH):
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
    return _written(chosen()).fullmatch(text) is not None


@cache
def _written(language: str) -> re.Pattern[str]:
    """What numbers of a language look like."""
    say = texts_in(language)
    words = "|".join(re.escape(say(f"numbers.{name}", share="")) for name in ("under", "over"))
    return re.compile(rf"({words}|[-+<>~\u2264\u2265{MINUS}]\s*)?\d[\d,.\s]*(\u00d7 10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)?\s*%?")


def significant(value: float, digits: int) -> str:
    """At least so many digits where they say something, and all those before the decimal mark."""
    return _stripped(_rounded(value, digits))


def padded(value: float, digits: int) -> str:
    """At least so many digits, with zeros at the end: numbers that stand beside each other are alike."""
    return _rounded(value, digits)


def span(low: float, high: float, write: Write) -> str:
    """An interval: "10 to 12", or "10 or more"."""
    say = texts_in()
    if high == math.inf:
        return say("numbers.or_more", low=write(low))
    return say("numbers.range", low=write(low), high=write(high))


def with_span(value: float, low: float, high: float, write: Write) -> str:
    """A number and its interval: "11 (10 to 12)"."""
    return f"{write(value)} ({span(low, high, write)})"


def between(low: float, high: float, write: Write = rate) -> str:
    """A number, or the numbers between which it is."""
    say = texts_in()
    if high == math.inf:
        return say("numbers.at_least", low=write(low))
    if write(low) == write(high):
        return write(low)
    return say("numbers.between", low=write(low), high=write(high))


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
    mark = marks().decimal
    return text.rstrip("0").rstrip(mark) if mark in text and "\u00d7" not in text else text


def _plain(value: float, decimals: int) -> str:
    """All digits up to so many decimals."""
    if not math.isfinite(value):
        return NOTHING if math.isnan(value) else f"{MINUS if value < 0 else ''}\u221e"
    text = marks().digits(value, decimals)
    return f"{MINUS}{text}" if value < 0 and re.search("[1-9]", text) else text
