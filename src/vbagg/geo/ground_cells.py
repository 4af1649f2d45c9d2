"""Maps of new ground: rates of cells as of new individuals, and how far each cell lies beyond the training data.

`extrapolation` is the standard deviation of what covariates say of the latent rate, over that which 95% of the training
data do not exceed (every polygon counted once, its people by weight): above 1 a cell is an extrapolation. It grows with
the distance from the data in the length-scales of the kernel, without bound along linear terms, and does not ask for
covariates that the model found to be irrelevant. `extrapolation_place` is the share of the prior variance of the
spatial effect that data have left: 0 where it is known, 1 far away from all training data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from vbagg.bags import Bags
from vbagg.geo.cell_index import best_of_cells, by_cell
from vbagg.geo.cell_rates import CellRates
from vbagg.geo.contents import Contents
from vbagg.geo.pieces import Piece, PieceRows, Pieces
from vbagg.geo.totals import summary

Floats = NDArray[np.float64]
BEYOND, PLACE = "extrapolation", "extrapolation_place"
PLACES = ("x", "y")


@dataclass(frozen=True)
class GroundContents(Contents):
    """The maps of one model on new ground.

    Parameters
    ----------
    edge
        Standard deviation of what covariates say that 95% of the training data do not exceed; None without covariates.
    has_place
        Whether the model has a spatial effect.
    """

    edge: float | None = None
    has_place: bool = False

    @classmethod
    def of(cls, contents: Contents, model: Any, edge: float | None, sample: pd.DataFrame) -> GroundContents:
        """The usual maps of rates and those of extrapolation that the model can give; nothing was observed here."""
        parts = model.latent_parts(sample.iloc[:1], PLACES)
        plain = vars(contents) | {"has_information": False}
        return cls(**plain, edge=edge, has_place=parts.place_share is not None)

    @property
    def measures(self) -> list[str]:
        """Names of the maps of extrapolation."""
        return [name for name, there in ((BEYOND, self.edge is not None), (PLACE, self.has_place)) if there]

    @property
    def rate_names(self) -> list[str]:
        """Names of all maps that a model gives, in order."""
        return [*super().rate_names, *self.measures]

    def measured(self, model: Any, features: pd.DataFrame) -> Floats:
        """Numbers (k, n) of the maps of extrapolation."""
        parts = model.latent_parts(features, PLACES)
        found = [] if self.edge is None else [parts.covariates_sd / self.edge]
        return np.stack([*found, *([parts.place_share] if self.has_place else [])])


@dataclass(frozen=True)
class GroundCells(CellRates):
    """Asks for rates of cells and for the extrapolation in them, sorted by cell."""

    contents: GroundContents
    name: str = "ground"

    def told(self) -> str:
        """Units, levels and the edge."""
        return repr((super().told(), self.contents.edge, self.contents.has_place))

    def answer(self, model: Any, rows: PieceRows) -> Floats:
        """Numbers of `contents.rate_names` (k, n)."""
        rates = super().answer(model, rows)
        cell, coverage = (rows.pixels[name].to_numpy() for name in ("cell", "coverage"))
        best = best_of_cells(cell, coverage, rows.inside)
        measured = np.full((len(self.contents.measures), len(cell)), np.nan)
        if len(measured):
            measured[:, best] = self.contents.measured(model, rows.features.iloc[best])
        return np.concatenate([rates, measured[:, by_cell(cell)]])


@dataclass(frozen=True, eq=False)
class NewPieces:
    """Pieces of a table of pixels in whose polygons nothing was observed, whatever they are called."""

    pieces: Pieces

    @property
    def all(self) -> tuple[Piece, ...]:
        """The pieces."""
        return self.pieces.all

    @property
    def digests(self) -> tuple[str, ...]:
        """Tell the content of each from any other."""
        return self.pieces.digests

    def rows(self, piece: Piece) -> PieceRows:
        """Pixels of a piece, of no known bags."""
        return replace(self.pieces.rows(piece), bags=None)


@dataclass(frozen=True, eq=False)
class NewTotals:
    """Asks for the totals of polygons of new ground: expected ones, and those of a new count.

    Attributes
    ----------
    labels
        All polygons.
    level, per
        Level of intervals, and units of rates.
    has_counts
        Whether there are counts, or rates alone.
    """

    labels: NDArray[np.object_]
    level: float
    per: float
    has_counts: bool
    name: str = "new-totals"

    def told(self) -> str:
        """Units, and the polygons."""
        return repr((self.level, self.per, self.has_counts, self.labels.tolist()))

    def answer(self, model: Any, rows: PieceRows) -> Floats:
        """Columns of `NAMES` (k, polygons)."""
        if not rows.inside.any():
            return np.empty((len(NAMES), 0))
        pixels = rows.pixels[rows.inside]
        position = pd.Index(self.labels).get_indexer(pixels["polygon"])
        # names that no polygon of the fit has
        names = np.array([f"polygon {at} of new ground" for at in position.tolist()], dtype=object)
        bags = Bags(rows.features[rows.inside], names, pixels["weight"].to_numpy())
        at = np.array([int(str(label).split()[1]) for label in bags.labels])
        exposure, cells = bags.totals(), np.bincount(position, pixels["coverage"])[at]
        new = np.full((2, len(at)), np.nan)
        try:
            found = summary(model, model.posterior_bags(bags), exposure, self.level, self.per)
            if self.has_counts:
                new = np.stack(model.predictive_bags(bags).interval(self.level))
        except ValueError as error:  # laws refuse moments that are not finite
            reason = str(error).partition(";")[0]
            raise ValueError(
                f"Totals on the new ground must be finite; the model gives none ({reason}). Its covariates lie too far "
                "beyond the training data: are they in the same units?"
            ) from error
        return np.stack([at, exposure, cells, *(found[name] for name in SUMMED), *new])

    def columns(self, answers: Any, n: int) -> dict[str, Floats]:
        """Answers about all pieces by name, as columns of `n` polygons."""
        found = dict(zip(NAMES, np.concatenate(list(answers), axis=1), strict=True))
        at, columns = found.pop("position").astype(np.intp), {}
        for name, values in found.items():
            columns[name] = np.full(n, 0.0 if name in ("exposure", "cells") else np.nan)
            columns[name][at] = values
        return {name: v for name, v in columns.items() if self.has_counts or not name.startswith(COUNTED)}


PARTS = ("", "_sd", "_lower", "_upper")
SUMMED: Sequence[str] = (*(f"total{part}" for part in PARTS), *(f"rate{part}" for part in PARTS))
COUNTED = ("total", "predicted")
NAMES = ("position", "exposure", "cells", *SUMMED, "predicted_lower", "predicted_upper")
"""Of the columns of an answer about polygons of new ground."""
