"""The table of pixels in pieces: runs of whole polygons, few enough to be in memory and to be predicted at once."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from vbagg.bags import Bags
from vbagg.stored import read_rows, runs_in

if TYPE_CHECKING:
    from vbagg.geo.prepared import Prepared

PIECE_ROWS = 1 << 16
"""Rows of a piece, unless a single polygon has more: what is known of them while they are predicted, by every set of
parameters, takes some 100 MB."""


class Piece(NamedTuple):
    """Rows of the table, from one to before another."""

    number: int
    start: int
    stop: int


@dataclass(frozen=True, eq=False)
class PieceRows:
    """Pixels of a piece.

    Attributes
    ----------
    pixels
        Rows of the table.
    inside
        Which of them belong to polygons that have any weight.
    bags
        Those, in the same order; None if there are none.
    features
        What a model sees of all rows.
    """

    pixels: pd.DataFrame
    inside: NDArray[np.bool_]
    bags: Bags | None
    features: pd.DataFrame

    @classmethod
    def of(cls, pixels: pd.DataFrame, features: list[str], bags: Bags | None = None) -> PieceRows:
        """Pixels sorted by polygon, and their bags where these are known."""
        code, _ = pd.factorize(pixels["polygon"])
        inside = (np.bincount(code, pixels["weight"]) > 0)[code]
        if bags is None and inside.any():
            own = pixels if inside.all() else pixels[inside]
            bags = Bags(own[features], own["polygon"].to_numpy(), own["weight"].to_numpy())
        return cls(pixels, inside, bags, pixels[features])


@dataclass(frozen=True, eq=False)
class Pieces:
    """The table, and where it is cut.

    Attributes
    ----------
    table
        The Parquet file.
    features
        Columns that a model sees.
    all
        The pieces.
    digests
        Tell the content of each from any other.
    whole
        Data of one piece, which are in memory as they are.
    """

    table: Path
    features: tuple[str, ...]
    all: tuple[Piece, ...]
    digests: tuple[str, ...]
    whole: Prepared | None = None

    @classmethod
    def of(cls, prepared: Prepared) -> Pieces:
        """Cut the table, every row of which is read and checked."""
        from pyarrow.parquet import read_metadata

        features, n = ("x", "y", *prepared.covariates), read_metadata(prepared.table).num_rows
        if n <= PIECE_ROWS:
            return cls(prepared.table, features, (Piece(0, 0, n),), (_digest(prepared.pixels),), prepared)
        runs = runs_in(prepared.table, "polygon", "weight")
        spans = list(whole_runs([run.pieces[-1][2] for run in runs], PIECE_ROWS))
        pieces = tuple(Piece(number, span.start, span.stop) for number, span in enumerate(spans))
        order = pd.Index(prepared.polygons.labels).get_indexer([run.label for run in runs])
        if not (np.diff(order) > 0).all():
            raise ValueError(f"{prepared.table}: pixels must be sorted by polygon. Prepare the data again.")
        digests = tuple(_digest(prepared.some_pixels(piece.start, piece.stop)) for piece in pieces)
        return cls(prepared.table.resolve(), features, pieces, digests)

    def rows(self, piece: Piece) -> PieceRows:
        """Read a piece."""
        features = list(self.features)
        if self.whole is not None:
            return PieceRows.of(self.whole.pixels, features, self.whole.bags())
        columns = ["polygon", "cell", "coverage", "weight", *features]
        return PieceRows.of(read_rows((self.table, piece.start, piece.stop), columns).to_pandas(), features)


def whole_runs(ends: ArrayLike, most: int) -> Iterator[slice]:
    """Slices of rows that hold whole runs, which end here, and at most so many rows if a single run has no more."""
    edges = np.asarray(ends)
    start = 0
    for at, end in enumerate(edges.tolist()):
        if at + 1 == len(edges) or edges[at + 1] - start > most:
            yield slice(start, end)
            start = end


def _digest(pixels: pd.DataFrame) -> str:
    found = hashlib.sha256()
    for name in pixels:
        values: NDArray[Any] = pixels[name].to_numpy()
        if values.dtype.hasobject:
            values, labels = pd.factorize(values)
            found.update(repr(list(labels)).encode())
        found.update(f"{name} {values.dtype}".encode())
        found.update(np.ascontiguousarray(values).data)
    return found.hexdigest()
