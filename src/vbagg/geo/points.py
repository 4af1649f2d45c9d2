"""Surveys at points, each in a cell of the grid, as a model learns from them and as they are stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from vbagg.bags import Bags
from vbagg.geo.grid import Grid, is_geographic, transformer
from vbagg.geo.longitudes import near
from vbagg.geo.places import DEGREES
from vbagg.likelihoods import get_likelihood

SAME, LEARNT = "same", "learnt"
"""Words for the polygons' likelihood, and for a slope that is learnt."""
TRIALS, PEOPLE = "trials", "people"
"""What the size of a survey can be: how many were examined, or among how many cases were counted."""
COLUMNS = ("point", "longitude", "latitude", "cell", "found", "size")
NUMBERS = ("longitude", "latitude", "found", "size")
SPARE = 0.01
"""Part of a cell by which rounding may move a point out of its cell."""


class ObservedAs(NamedTuple):
    """How a model sees points: by a likelihood of their own, None for that of the polygons, and the slope."""

    likelihood: str | None
    slope: float | str


def observed_as(
    sized_by: str | None, model_likelihood: str, likelihood: str | None, slope: float | str, exposure: str
) -> ObservedAs:
    """How points are seen: as asked for, or else by what their size is; ValueError for what does not go together.

    Parameters
    ----------
    sized_by
        `"trials"`, `"people"` or None; see `Points`.
    model_likelihood, exposure
        Of the polygons: the name of the likelihood, and what weights are.
    likelihood, slope
        As asked for: `"same"`, a name, or None; and a number, such as `"1"`, or `"learnt"`.
    """
    if likelihood is None and sized_by is None:
        raise ValueError(
            "Points need the number examined or their people: name the column by `--point-trials` or `--point-people`; "
            "or name a likelihood that needs neither by `--point-likelihood`."
        )
    own = likelihood or ("binomial" if sized_by == TRIALS else SAME)
    needs_trials = get_likelihood(model_likelihood if own == SAME else own).needs_trials
    if needs_trials != (sized_by == TRIALS):
        which = f"that of the polygons, {model_likelihood!r}," if own == SAME else repr(own)
        remedy = "Name the column by `--point-trials`" if needs_trials else "Leave out `--point-trials`"
        raise ValueError(
            f"The likelihood of points, {which} {'needs' if needs_trials else 'knows no'} numbers examined. {remedy}, "
            "or choose another by `--point-likelihood`."
        )
    number = slope if slope == LEARNT else float(slope)
    if own != SAME:
        return ObservedAs(own, number)
    if number != 1:
        raise ValueError(
            "`point_slope` goes with a likelihood of the points' own: rates of points with the polygons' likelihood "
            "are the polygons' rates. Leave it out, or name a likelihood by `--point-likelihood`."
        )
    if not needs_trials and (sized_by is None or exposure == "area"):
        why = "polygons without people have rates per square kilometre" if sized_by else "rates are relative to people"
        remedy = "Name another by `--point-likelihood`" if sized_by else "Name their column by `--point-people`"
        raise ValueError(f"Points cannot share the likelihood of polygons: {why}. {remedy}.")
    return ObservedAs(None, 1.0)


class AboutPoints(BaseModel):
    """What the document of prepared data says of its points."""

    model_config = ConfigDict(strict=True, frozen=True)

    path: str
    response: str
    size: str | None
    sized_by: Literal["trials", "people"] | None
    number: int
    notes: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Points:
    """Surveys in cells of the grid, fit for a model.

    Attributes
    ----------
    table
        One row for each: `point` (where it is in its file), `longitude`, `latitude`, `cell`, `found`, and `size` (1
        where there is none).
    path
        The file, for messages.
    response, size, sized_by
        Names of the columns of the file; what the second holds is `"trials"`, `"people"` or nothing (None).
    notes
        What was left out, in sentences.
    """

    table: pd.DataFrame
    path: str
    response: str
    size: str | None
    sized_by: str | None
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.table)

    @property
    def file(self) -> str:
        """The file's name without its folder."""
        return Path(self.path).name

    def bags(self, features: pd.DataFrame) -> Bags:
        """A bag of one cell for each point, from the features of their cells."""
        weight = self.table["size"].to_numpy() if self.sized_by == PEOPLE else None
        return Bags(features, self.table["point"].to_numpy(dtype=object), weight)

    @property
    def y(self) -> pd.Series:
        """What was found, by point."""
        return pd.Series(self.table["found"].to_numpy(), index=self.table["point"].tolist(), name=self.response)

    @property
    def trials(self) -> pd.Series | None:
        """How many were examined, by point; None if that is not known."""
        if self.sized_by != TRIALS:
            return None
        return pd.Series(self.table["size"].to_numpy(), index=self.table["point"].tolist(), name=self.size)

    def document(self) -> dict[str, Any]:
        """All but the table, fit for JSON."""
        own = {"path": self.path, "response": self.response, "size": self.size, "sized_by": self.sized_by}
        return {**own, "number": len(self), "notes": self.notes}


def points_from(
    path: Path, about: AboutPoints, grid: Grid, features_of: Callable[[NDArray[np.int64]], pd.DataFrame]
) -> Points:
    """The points that a folder of prepared data holds, as its document tells; ValueError if they cannot be these."""
    table = pd.read_parquet(path)
    if tuple(table.columns) != COLUMNS or len(table) != about.number or table.empty:
        raise ValueError(f"{path.name} must have {about.number} rows with the columns {list(COLUMNS)}")
    if table["cell"].dtype != np.int64 or any(table[name].dtype != np.float64 for name in NUMBERS):
        raise ValueError(f"{path.name} must have columns of the right types")
    if not table["point"].map(lambda label: isinstance(label, str)).all() or table["point"].duplicated().any():
        raise ValueError(f"{path.name} must name each point by a text of its own")
    cell, found, size = (table[name].to_numpy() for name in ("cell", "found", "size"))
    rules = [
        ((cell >= 0) & (cell < grid.n_cells), "lie in a cell of the grid"),
        (np.isfinite(table[list(NUMBERS)].to_numpy()).all(axis=1), "have finite numbers"),
        ((found >= 0) & (size > 0), "have a positive size, and find nothing negative"),
        ((found <= size) | (about.sized_by != TRIALS), "find no more than were examined"),
        ((size == 1) | (about.sized_by is not None), "have no size"),
    ]
    _require_all(rules, path)
    x, y = transformer(DEGREES, grid.crs).transform(table["longitude"].to_numpy(), table["latitude"].to_numpy())
    if is_geographic(grid.crs):
        left, _, right, _ = grid.bounds
        x = near(x, (left + right) / 2, grid.crs)
    column, row = grid.positions(x, y)
    off = np.maximum(np.abs(column - cell % grid.width - 0.5), np.abs(row - cell // grid.width - 0.5))
    covered = np.isfinite(features_of(cell).to_numpy()).all(axis=1)
    _require_all([(off <= 0.5 + SPARE, "lie where its cell is"), (covered, "have all covariates in its cell")], path)
    return Points(table, about.path, about.response, about.size, about.sized_by, about.notes)


def _require_all(rules: Sequence[tuple[Any, str]], path: Path) -> None:
    for is_right, rule in rules:
        if not np.all(is_right):
            raise ValueError(f"each point of {path.name} must {rule}; row {int(np.flatnonzero(~is_right)[0])} does not")
