"""Totals that are known within bounds, as tables write them: `<5`, `1-4`, `≤10`, `≥100`, or a mark for them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import numpy as np

from vbagg.geo.responses import number_of
from vbagg.geo.table_lines import is_missing
from vbagg.numerals import given, span

Interval = tuple[float, float]
"""The least and the largest that a total can be; infinity stands for no largest."""

MARK = "*"
"""What stands for a suppressed total where no other mark is named."""
DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d"
TO_HYPHEN = str.maketrans(dict.fromkeys(DASHES, "-"))
ONE_SIDED = re.compile(r"(<=|=<|≤|<|>=|=>|≥|>)\s*(\d.*)")
AND_MORE = re.compile(r"(\d.*?)\s*\+")
BETWEEN = re.compile(r"(\d.*?)\s*(?:-|to)\s*(\d.*)", re.IGNORECASE)


def bounds_of(text: str) -> Interval | None:
    """The bounds that a text says, None if it says none; those that no count can have are told by `are_possible`."""
    text = text.translate(TO_HYPHEN).strip()
    if found := ONE_SIDED.fullmatch(text):
        sign, number = found[1], number_of(found[2])
        if sign in ("<", ">"):
            number += 1 if sign == ">" else -1
        bounds = (number, np.inf) if ">" in sign or sign == "≥" else (0.0, number)
    elif found := AND_MORE.fullmatch(text):
        bounds = number_of(found[1]), np.inf
    elif found := BETWEEN.fullmatch(text):
        bounds = number_of(found[1]), number_of(found[2])
    else:
        return None
    return None if np.isnan(bounds).any() else bounds


def are_possible(bounds: Interval) -> bool:
    """Whether they are whole numbers, the lower first."""
    low, high = bounds
    return 0 <= low <= high and low % 1 == 0 and (np.isinf(high) or high % 1 == 0)


def in_words(bounds: Interval) -> str:
    """Such as "0 to 4"."""
    return span(*bounds, given)


def marks_of(suppressed: Iterable[str]) -> Mapping[str, Interval]:
    """Interval by the mark that stands for them.

    Parameters
    ----------
    suppressed
        Interval such as `1-4`, for which `*` stands, or `MARK=1-4`.
    """
    marks: dict[str, Interval] = {}
    for text in (suppressed,) if isinstance(suppressed, str) else suppressed:
        name, _, said = text.partition("=")
        mark, said = (MARK, text) if bounds_of(text) else (name.strip(), said)
        bounds = bounds_of(said)
        if bounds is None or not are_possible(bounds):
            raise ValueError(
                "`suppressed` must say bounds of whole numbers, the lower first, such as 1-4, <5, or MARK=1-4 for "
                f"another mark than {MARK!r}; got {text!r}."
            )
        if is_missing(mark) or not np.isnan(number_of(mark)) or bounds_of(mark):
            what = "a missing total" if is_missing(mark) else "a number, or bounds"
            raise ValueError(f"`suppressed` must name a mark that is no other value; {mark!r} is {what}.")
        if marks.setdefault(mark, bounds) != bounds:
            raise ValueError(f"`suppressed` must say once what {mark!r} stands for; got several bounds for it.")
    return marks
