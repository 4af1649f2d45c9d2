"""Surveys at points as their file tells of them: what was found where, and which of it can be used on a grid."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from vbagg.geo.files import plural, some
from vbagg.geo.grid import Floats, Grid
from vbagg.geo.places import OFF, Places, read_places
from vbagg.geo.points import PEOPLE, TRIALS, Points
from vbagg.geo.responses import number_of
from vbagg.geo.table_lines import is_missing
from vbagg.numerals import given

MOST_LEFT_OUT = 0.5
"""Part of the points that may lie off the grid, or have no covariates, before all are refused."""


@dataclass(frozen=True, eq=False)
class SurveyedBy:
    """Points, and which of their columns hold what.

    Attributes
    ----------
    source
        File or data frame.
    response
        Column with what was found.
    size, sized_by
        Column with how many were examined, or people, if there is one, and which of these it holds.
    at, crs, sheet
        See `read_places`.
    """

    source: str | pd.DataFrame
    response: str
    size: str | None
    sized_by: str | None
    at: str | None = None
    crs: str | None = None
    sheet: str | None = None

    @property
    def file(self) -> str:
        """The file's name without its folder."""
        return Path(self.source).name if isinstance(self.source, str) else "points"

    def read(self) -> Surveys:
        """Read the points and check what they hold."""
        places = read_places(self.source, self.at, crs=self.crs, sheet=self.sheet)
        found = _numbers(places, self.response, "for what was found", "--point-response")
        size = np.ones(len(places))
        if self.size is not None:
            use = "for numbers examined" if self.sized_by == TRIALS else "for people"
            size = _numbers(places, self.size, use, f"--point-{self.sized_by}")
        surveys = Surveys(self, places, found, size)
        surveys.require_possible()
        return surveys


def surveyed_by(
    points: Any,
    at: str | None = None,
    response: str | None = None,
    trials: str | None = None,
    people: str | None = None,
    crs: str | None = None,
    sheet: str | None = None,
) -> SurveyedBy | None:
    """Points as the options name them, None without any.

    Parameters
    ----------
    points
        A table or file of points; see `read_places`.
    at, crs, sheet
        Where it holds coordinates: columns `"LON,LAT"`, their coordinate reference system, and the sheet of a workbook.
    response
        Column with what was found: positives, or cases.
    trials, people
        Column with the number that was examined, or with the people among whom cases were counted.
    """
    words = {
        "point_response": response,
        "point_trials": trials,
        "point_people": people,
        "point_crs": crs,
        "point_sheet": sheet,
    }
    if points is None:
        for word, value in words.items():
            if value is not None:
                raise ValueError(f"`{word}` goes with points; none were named. Name their file by `--points`.")
        return None
    source = points if isinstance(points, pd.DataFrame) else os.fspath(points)
    named = "points" if isinstance(source, pd.DataFrame) else Path(source).name
    if response is None:
        raise ValueError(f"{named}: the column with what was found is missing. Name it by `--point-response`.")
    if trials is not None and people is not None:
        raise ValueError(
            "`point_trials` (numbers examined) and `point_people` (people among whom cases were counted) do not go "
            "together. Leave out one of them."
        )
    sized_by = TRIALS if trials is not None else PEOPLE if people is not None else None
    return SurveyedBy(source, response, trials or people, sized_by, at, crs, sheet)


@dataclass(frozen=True, eq=False)
class Surveys:
    """What was found, row by row of the file; NaN where nothing is said.

    Attributes
    ----------
    by
        The columns.
    places
        Where.
    found, size
        Positives or cases, and numbers examined or people (1 without a column of them).
    """

    by: SurveyedBy
    places: Places
    found: Floats
    size: Floats

    @property
    def gaps(self) -> dict[str, NDArray[np.bool_]]:
        """Which rows say nothing, by the reason; each row has one."""
        reasons = {
            "no coordinates": ~self.places.has_place,
            f"no {self.by.response}": np.isnan(self.found),
            f"no {self.by.size}": np.isnan(self.size),
            f"{self.by.size} of 0": self.size == 0,
        }
        taken, found = np.zeros(len(self.places), dtype=bool), {}
        for reason, which in reasons.items():
            if (which & ~taken).any():
                found[reason] = which & ~taken
            taken = taken | which
        return found

    @property
    def usable(self) -> NDArray[np.bool_]:
        """Which rows have coordinates, and say what was found."""
        return self.places.has_place & np.isfinite(self.found) & (self.size > 0)

    def require_possible(self) -> None:
        """Raise for more positives than were examined, and if no row can be used."""
        path, where = self.places.path, self.places.where
        examined = self.by.sized_by == TRIALS
        above = np.flatnonzero((self.found > self.size) & examined)
        if above.size:
            first, more = above[0], f", the first of {len(above):,} such rows" if len(above) > 1 else ""
            looks_exchanged = self.size.any() and not (self.size > self.found).any()
            remedy = (
                "Were the columns exchanged?" if looks_exchanged else "Correct it, or empty it to leave the row out."
            )
            raise ValueError(
                f"{path}: {self.by.response!r} must not exceed {self.by.size!r}; got {given(self.found[first])} of "
                f"{given(self.size[first])} ({where[first]}){more}. {remedy}"
            )
        broken = np.flatnonzero((self.size % 1 > 0) & examined)
        if broken.size:
            raise ValueError(
                f"{path}: {self.by.size!r} must hold whole numbers; got {given(self.size[broken[0]])} "
                f"({where[broken[0]]}). Round it, or name people by `--point-people`."
            )
        if not self.usable.any():
            why = some([f"{int(which.sum()):,} have {reason}" for reason, which in self.gaps.items()], quote=False)
            raise ValueError(f"{path} must hold points that say what was found, and where; of its rows {why}.")

    def cells(self, grid: Grid) -> NDArray[np.int64]:
        """The cell of each row, `OFF` where there is none; most of those that can be used must lie on the grid."""
        cell, usable = self.places.on(grid), self.usable
        off = usable & (cell == OFF)
        if off.sum() > MOST_LEFT_OUT * usable.sum():
            turned = int((usable & (self.places.on(grid, exchanged=True) != OFF)).sum())
            advice = "Check its coordinates and their reference system."
            if turned > usable.sum() - off.sum() and self.places.at:
                x, y = self.places.at
                advice = f"{turned:,} would if coordinates were exchanged: `--at {y},{x}`."
            elif turned > usable.sum() - off.sum():
                advice = f"{turned:,} would if coordinates were exchanged: exchange them."
            which = some([self.places.where[at] for at in np.flatnonzero(off).tolist()], quote=False)
            raise ValueError(
                f"{self.places.path} must hold points on the target grid; {int(off.sum()):,} of "
                f"{plural(int(usable.sum()), 'point')} lie elsewhere ({which}). {advice}"
            )
        return cell

    def placed(self, grid: Grid, features_of: Callable[[NDArray[np.int64]], pd.DataFrame]) -> Points:
        """Points that a model can learn from, in cells that have all covariates, and notes on all others."""
        cell, left = self.cells(grid), dict(self.gaps)
        usable = self.usable
        off = usable & (cell == OFF)
        here = np.flatnonzero(usable & ~off)
        complete = np.isfinite(features_of(cell[here]).to_numpy()).all(axis=1)
        bare = np.zeros(len(cell), dtype=bool)
        bare[here[~complete]] = True
        if (off | bare).sum() > MOST_LEFT_OUT * usable.sum():
            named = some([self.places.where[at] for at in np.flatnonzero(bare).tolist()], quote=False)
            raise ValueError(
                f"{self.places.path} must hold points where all covariates are known; {int(bare.sum()):,} of "
                f"{plural(int(usable.sum()), 'point')} lie in cells without ({named}), and {int(off.sum()):,} off the "
                "grid. Check their coordinates, or `--missing`."
            )
        for reason, which in (("a place off the grid", off), ("missing covariates in their cell", bare)):
            if which.any():
                left[reason] = which
        kept = here[complete]
        longitude, latitude = self.places.degrees()
        table = pd.DataFrame(
            {
                "point": np.array(self.places.where, dtype=object)[kept],
                "longitude": longitude[kept],
                "latitude": latitude[kept],
                "cell": cell[kept],
                "found": self.found[kept],
                "size": self.size[kept],
            }
        )
        by = self.by
        return Points(table, self.places.path, by.response, by.size, by.sized_by, self._notes(left))

    def _notes(self, left: dict[str, NDArray[np.bool_]]) -> tuple[str, ...]:
        file, where = self.places.file, self.places.where
        told = [
            f"{file}: left out because of {reason}: {plural(int(which.sum()), 'point')} "
            f"({some([where[at] for at in np.flatnonzero(which).tolist()], quote=False)})."
            for reason, which in left.items()
        ]
        return (*(f"{file}: {note}" for note in self.places.table.of.notes), *told)


def _numbers(places: Places, name: str, use: str, word: str) -> Floats:
    """A column of numbers that are not negative, NaN where it is empty."""
    found = np.full(len(places), np.nan)
    for at, cell in enumerate(places.cells(name, f"{use}, as `{word}` says")):
        if is_missing(cell):
            continue
        value = number_of(cell) if not isinstance(cell, bool) else np.nan
        if not np.isfinite(value) or value < 0:
            shown = repr(cell) if isinstance(cell, str | int | float) else repr(str(cell))
            raise ValueError(
                f"{places.path}: {name!r} must be a number that is not negative; got {shown} ({places.where[at]}). "
                "Correct it, or empty it to leave the row out."
            )
        found[at] = value
    return found
