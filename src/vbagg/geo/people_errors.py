"""How far off numbers of people may be: by a number, a column of the polygons, or a raster of standard deviations.

Errors of a raster's cells go together within a polygon, so that standard deviations add up, or are independent, so that
variances do: MATH (20). Maps of people that a model made of few counts err together where the model does; independent
errors of thousands of cells would leave a polygon's people all but exact. Errors of different polygons are independent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vbagg.geo.align import Alignment
from vbagg.geo.exposure import Exposure
from vbagg.geo.grid import Floats, Grid
from vbagg.numerals import rate

PLANE = "population_sd"
"""Name of the layer with standard deviations, or variances where errors are independent."""
TOGETHER, INDEPENDENT = "shared", "independent"
ERRORS = (TOGETHER, INDEPENDENT)
OPTION = "`--population-sd`"


@dataclass(frozen=True)
class PopulationSd:
    """What was asked for, of which at most one is there.

    Attributes
    ----------
    relative
        One number for all polygons, relative to their people.
    file
        Raster with that of the people in each cell.
    errors
        `"shared"` or `"independent"`: how errors of its cells go together within a polygon.
    """

    relative: float | None = None
    file: Any = None
    errors: str = TOGETHER


EXACT = PopulationSd()


def population_sd_of(sd: Any, column: str | None, errors: str, population: Any, exposure: Exposure) -> PopulationSd:
    """What was asked for; what does not go together is refused."""
    if errors == INDEPENDENT and (sd is None or isinstance(sd, Real)):
        raise ValueError(
            f"`--population-errors` independent is of the cells of a raster; {OPTION} names none. Name one, or leave "
            "it out: errors of a polygon as a whole are shared by its cells."
        )
    if sd is None and column is None:
        return EXACT
    if sd is not None and column is not None:
        raise ValueError(
            f"Only one thing can say how far off people may be; got {OPTION} and `--population-sd-column`. Leave "
            "out one."
        )
    if exposure.kind == "area":
        word = OPTION if column is None else "`--population-sd-column`"
        raise ValueError(
            f"{word} says how far off people may be; none were named, and areas are known. Name a raster of them by "
            "`--population`, or leave it out."
        )
    if column is not None:
        return EXACT
    if isinstance(sd, Real):
        if not 0 < float(sd) <= 1:
            remedy = "Divide percentages by 100." if float(sd) > 1 else "Leave it out where people are exact."
            raise ValueError(
                f"{OPTION} must be relative to the people of a polygon, above 0 and at most 1, such as 0.1 for 10%, or"
                f" a raster; got {sd:g}. {remedy}"
            )
        return PopulationSd(relative=float(sd))
    if population is None:
        raise ValueError(
            f"A raster of {OPTION} goes with a raster of people, whose units it has; people are a column. Give a "
            "number, such as 0.1, or `--population-sd-column`."
        )
    return PopulationSd(file=sd, errors=errors)


@dataclass(frozen=True, eq=False)
class PeopleErrors:
    """What a raster of standard deviations says of polygons.

    Attributes
    ----------
    alignment, errors
        How it comes to the grid, and how errors of cells go together.
    sd, people
        Standard deviation of the people of each polygon, and their number.
    unknown
        People in cells without a standard deviation, which counted as exact.
    n_negative, lowest
        Number of cells under polygons where it is negative, and the least value there.
    """

    alignment: Alignment
    errors: str
    sd: Floats
    people: Floats
    unknown: Floats
    n_negative: int
    lowest: float

    @property
    def relative(self) -> Floats:
        """Standard deviations relative to the people, 0 where nobody lives."""
        return np.divide(self.sd, self.people, out=np.zeros_like(self.sd), where=self.people > 0)


@dataclass
class ErrorSums:
    """The same, summed up band by band."""

    alignment: Alignment
    errors: str
    n: int
    total: Floats = field(init=False)
    people: Floats = field(init=False)
    unknown: Floats = field(init=False)
    n_negative: int = 0
    lowest: float = 0.0

    def __post_init__(self) -> None:
        self.total, self.people, self.unknown = (np.zeros(self.n) for _ in range(3))

    def add(self, pairs: NDArray[Any], rows: slice, grid: Grid, sd: NDArray[Any], people: NDArray[Any]) -> None:
        """Count the pairs of a band, on whose rows the two layers are these."""
        cell = pairs["cell"] - rows.start * grid.width
        values, inside = (plane.ravel()[cell].astype(np.float64) for plane in (sd, people))
        inside = pairs["coverage"] * np.nan_to_num(np.maximum(inside, 0))
        below = values < 0
        if below.any():
            self.n_negative += int(np.unique(cell[below]).size)
            self.lowest = min(self.lowest, float(values[below].min()))
        share = pairs["coverage"] ** (2 if self.errors == INDEPENDENT else 1)

        def by_polygon(numbers: Floats) -> Floats:
            return np.bincount(pairs["polygon"], numbers, self.n).astype(np.float64)

        self.total += by_polygon(share * np.nan_to_num(np.maximum(values, 0)))
        self.people += by_polygon(inside)
        self.unknown += by_polygon(inside * np.isnan(values))

    def found(self) -> PeopleErrors:
        """After the last band."""
        sd = np.sqrt(self.total) if self.errors == INDEPENDENT else self.total
        return PeopleErrors(self.alignment, self.errors, sd, self.people, self.unknown, self.n_negative, self.lowest)


def require_sound(errors: PeopleErrors, labels: NDArray[Any]) -> None:
    """Refuse standard deviations that are negative, or larger than the people of a polygon."""
    flaw = flaw_of(errors, labels)
    if flaw is not None:
        raise ValueError(flaw[0])


def flaw_of(errors: PeopleErrors, labels: NDArray[Any]) -> tuple[str, list[Any]] | None:
    """What is wrong with a raster of standard deviations, and with which polygons; None if nothing."""
    path = errors.alignment.layer.path
    if errors.n_negative:
        text = (
            f"{path} must not be negative, since it holds standard deviations; it is in {errors.n_negative:,} cells "
            f"under polygons, down to {errors.lowest:g}. Declare its value for missing cells, or correct it."
        )
        return text, []
    if errors.people.any() and not (errors.unknown < errors.people).any():
        text = f"{path} must hold standard deviations where people live in polygons; it has no value there. Check its"
        return f"{text} extent and CRS.", []
    above = np.flatnonzero(errors.sd > errors.people * (1 + 1e-6))
    if above.size:
        at = int(above[np.argmax(errors.relative[above])])
        more = f", one of {above.size:,} such polygons" if above.size > 1 else ""
        text = (
            f"{path} must not exceed the people of a polygon; its standard deviation is {rate(errors.sd[at])} for "
            f"{rate(errors.people[at])} people in {labels[at]!r}{more}. Give it in the units of the population raster: "
            "not as a percentage, nor as a variance."
        )
        return text, labels[above].tolist()
    return None
