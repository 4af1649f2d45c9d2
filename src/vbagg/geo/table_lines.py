"""Rows of a table as they stand in its file, whatever its kind."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pandas as pd

HEADER_WITHIN = 50
"""Rows among which the names of columns are looked for."""
MISSING = {"", "na", "n/a", "#n/a", "nan", "null", "none"}
"""Text that stands for no value in a column of numbers."""


class Line(NamedTuple):
    """Cells of one row, and its number in the file."""

    number: int
    cells: list[Any]


@dataclass(frozen=True, eq=False)
class Lines:
    """What a file holds, row by row from the top.

    Attributes
    ----------
    all
        Rows, the first with the names of columns.
    called
        What a row is called: "line" or "row".
    merged
        Cells that are merged with others, such as `"A1:C1"`, with the first and last of their rows.
    notes
        What was found out about the file, in sentences.
    decimal_comma
        Whether the file may have been written where numbers have a comma before their decimals.
    """

    all: list[Line]
    called: str = "row"
    merged: dict[str, tuple[int, int]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    decimal_comma: bool = False


def is_empty(cell: Any) -> bool:
    """Whether a cell holds nothing."""
    if cell is None or cell is pd.NA or cell is pd.NaT:
        return True
    return not cell.strip() if isinstance(cell, str) else isinstance(cell, float) and cell != cell


def is_missing(cell: Any) -> bool:
    """Whether a cell of a column of numbers holds no number because there is none."""
    return is_empty(cell) or (isinstance(cell, str) and cell.strip().lower() in MISSING)
