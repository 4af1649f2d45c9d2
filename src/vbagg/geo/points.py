"""Surveys at points, each in a cell of the grid, as a model learns from them and as they are stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from vbagg.bags import Bags
from vbagg.geo.grid import Grid, is_geographic, transformer
from vbagg.geo.longitudes import near
from vbagg.geo.places import DEGREES

TRIALS, PEOPLE = "trials", "people"
"""What the size of a survey can be: how many were examined, or among how many cases were counted."""
COLUMNS = ("point", "longitude", "latitude", "cell", "found", "size")
NUMBERS = ("longitude", "latitude", "found", "size")
SPARE = 0.01
"""Part of a cell by which rounding may move a point out of its cell."""


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
