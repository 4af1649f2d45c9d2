"""Columns of totals: numbers, or text that says numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from vbagg.geo.polygon_rows import Origin
from vbagg.geo.sentinels import codes_among

THOUSANDS = ",", " ", "'", "\u2019", "\u00a0", "\u2009", "\u202f"
NONE = {"response": "nothing occurred", "population": "nobody lives", "exposure": "nothing is expected"}
"""What 0 means, by what a column holds."""
PLAIN = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)
GROUPED = [re.compile(rf"[+-]?[1-9]\d{{0,2}}({mark}\d{{3}})+(\.\d+)?") for mark in THOUSANDS]


def read_totals(
    values: pd.Series, origin: Origin, labels: Sequence[Any], what: str = "response", negative: bool = False
) -> tuple[NDArray[np.float64], str | None]:
    """Totals of all polygons, and a sentence on how they were read if they are text.

    Parameters
    ----------
    values
        The column.
    origin, labels
        Where the column comes from, and the id of each polygon, for messages.
    what
        What the column holds, for messages.
    negative
        Whether they may be negative.
    """
    number = "number" if negative else "non-negative number"
    where = f"{origin.path}: the {what} {values.name!r} must be a {number} for every polygon"

    def refuse(bad: NDArray[np.bool_], remedy: str) -> None:
        if bad.any():
            first = int(np.flatnonzero(bad)[0])
            more = f", the first of {bad.sum():,} such values" if bad.sum() > 1 else ""
            got = values.iloc[first]
            shown = "no value" if missing[first] else repr(got.item() if isinstance(got, np.generic) else got)
            place = f"row {first + 1}" if origin.places is None else origin.places[first]
            raise ValueError(f"{where}; got {shown} for {labels[first]!r} ({place}){more}. {remedy}")

    missing, note = values.isna().to_numpy(), None
    if pd.api.types.is_bool_dtype(values):
        refuse(~missing, "Convert the column to numbers.")
    if pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_complex_dtype(values):
        numbers = values.to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        missing = missing | np.array([isinstance(value, str) and not value.strip() for value in values])
        numbers = np.array([number_of(value) for value in values])
        is_text = any(isinstance(value, str) for value in values)
        remedy = "Write it as a number, such as 1234.5, or leave out the polygon."
        refuse(np.isnan(numbers) & ~missing, remedy if is_text else "Convert the column to numbers.")
        note = f"the {what} {_how_read(values, numbers)}"
    article = "an" if what == "exposure" else "a"
    refuse(missing, f"Leave out polygons without {article} {what}, or write 0 where {NONE[what]}.")
    empty = ", or empty it" if what == "response" else ""
    remedy = f"Correct it{empty}: codes for missing values are not numbers of cases or people."
    if what == "response" and not negative:
        remedy += " If totals may be negative, as differences are, add `--negative`."
    refuse(~np.isfinite(numbers) | ((numbers < 0) & (not negative)), remedy)
    codes = list(codes_among([numbers])) if negative else []
    refuse(np.isin(numbers, codes), "Empty it if it is a code for a missing value: it lies far from all others.")
    return numbers, note


def number_of(value: Any) -> float:
    """The number that a value is or says, NaN if none."""
    if isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool):
        return float(value)
    text = value.strip() if isinstance(value, str) else ""
    if PLAIN.fullmatch(text):
        return float(text)
    for mark, grouped in zip(THOUSANDS, GROUPED, strict=True):
        if grouped.fullmatch(text):
            return float(text.replace(mark, ""))
    return np.nan


def _how_read(values: pd.Series, numbers: NDArray[np.float64]) -> str:
    """With the longest text as the example: it has a separator if any has."""
    longest = int(np.argmax([len(str(value)) for value in values]))
    example = f"{values.iloc[longest]!r} as {numbers[longest]:.10g}"
    return f"{values.name!r} is text, which was read as numbers, for example {example}."
