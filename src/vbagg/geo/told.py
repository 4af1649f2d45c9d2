"""Columns of polygons that say how totals came about: how complete reports are, and how far off people may be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from vbagg.geo.grid import Floats
from vbagg.geo.polygon_rows import Origin
from vbagg.geo.responses import number_of
from vbagg.geo.table_lines import is_missing

COMPLETENESS, RELATIVE_SD = "completeness", "population_relative_sd"
"""Columns of a table of polygons with what was told."""
REPORTED = "fitted_reported"
"""Column with the part of fitted totals that would be reported, where completeness was told."""


@dataclass(frozen=True)
class Told:
    """Columns with the share of cases that is reported, and with standard deviations of people, relative to them."""

    completeness: str | None = None
    sd: str | None = None

    @property
    def words(self) -> dict[str, str]:
        """What each column holds, in words."""
        words = {self.completeness: "completeness", self.sd: "population sd"}
        return {name: word for name, word in words.items() if name is not None}

    def without(self, columns: set[str]) -> Told:
        """The same without some of the columns."""
        return Told(*(None if name in columns else name for name in (self.completeness, self.sd)))


NOTHING = Told()


def columns_told(told: Told) -> list[str]:
    """Columns that a table of polygons has with it."""
    return [name for name, of in ((COMPLETENESS, told.completeness), (RELATIVE_SD, told.sd)) if of is not None]


def read_told(values: pd.Series, origin: Origin, labels: Sequence[Any], seen: NDArray[np.bool_], what: str) -> Floats:
    """Shares of all polygons, NaN where there are none, which is allowed where no total is `seen`.

    Parameters
    ----------
    values
        The column: numbers, or text that says numbers.
    origin, labels
        Where it comes from, and the id of each polygon, for messages.
    what
        `"completeness"`, above 0 and at most 1; or `"population sd"`, at least 0.
    """
    is_share = what == "completeness"
    cells = values.tolist()
    missing = values.isna().to_numpy() | np.array([is_missing(cell) for cell in cells], dtype=bool)
    numbers = np.where(missing, np.nan, [number_of(cell) for cell in cells])
    rule = "above 0 and at most 1" if is_share else "from 0 to 1, as 0.1 for 10%"

    def refuse(bad: NDArray[np.bool_], remedy: str) -> None:
        if bad.any():
            first = int(np.flatnonzero(bad)[0])
            more = f", the first of {bad.sum():,} such values" if bad.sum() > 1 else ""
            cell = cells[first]
            shown = "no value" if missing[first] else repr(cell.item() if isinstance(cell, np.generic) else cell)
            place = f"row {first + 1}" if origin.places is None else origin.places[first]
            raise ValueError(
                f"{origin.path}: the {what} {values.name!r} must be a number {rule}, for every polygon with a total; "
                f"got {shown} for {labels[first]!r} ({place}){more}. {remedy}"
            )

    percents = np.array([isinstance(cell, str) and cell.strip().endswith("%") for cell in cells], dtype=bool)
    refuse(percents | (numbers > 1), "Divide percentages by 100.")
    refuse(np.isnan(numbers) & ~missing, "Write it as a number, such as 0.85.")
    zero = "Where nothing was reported, empty the total." if is_share else "A standard deviation has no sign."
    refuse((numbers <= 0) if is_share else (numbers < 0), zero)
    nothing = "Write 1 where all is reported" if is_share else "Write 0 where people are known"
    refuse(missing & seen, f"{nothing}, or empty the total.")
    return numbers
