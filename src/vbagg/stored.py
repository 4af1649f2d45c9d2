"""Bags in Parquet files that need not fit into memory: read in portions, where they are needed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from vbagg.inputs import object_array, some_bags

SUFFIX = ".parquet"


class Run(NamedTuple):
    """Rows of one bag, which follow each other in one file."""

    label: Any
    path: Path
    start: int
    stop: int
    counted: int
    """Rows of positive weight."""


@dataclass(frozen=True)
class StoredRows:
    """Rows of files, from one to before another, of some columns."""

    pieces: tuple[tuple[Path, int, int], ...]
    features: tuple[str, ...]
    bag: str
    weight: str | None
    coordinates: tuple[str, ...] | None

    def read(self) -> dict[str, Any]:
        """Arguments of `Bags`."""
        import pyarrow as pa

        frame = pa.concat_tables([read_rows(piece, self._columns) for piece in self.pieces]).to_pandas()
        return {
            "X": frame[list(self.features)],
            "bag": frame[self.bag].to_numpy(),
            "weight": None if self.weight is None else frame[self.weight].to_numpy(),
            "coordinates": self.coordinates,
        }

    @property
    def _columns(self) -> list[str]:
        return [*self.features, self.bag, *([] if self.weight is None else [self.weight])]


class StoredBags:
    """Bags in a Parquet file, or in the files of a folder, whose rows lie bag by bag.

    Made by `Bags.from_parquet`. `labels` and `sizes` are of the bags that have any weight.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        features: Sequence[str] | None = None,
        bag: str = "bag",
        weight: str | None = "weight",
        coordinates: Sequence[str] | None = None,
    ) -> None:
        self.paths = _files(Path(path))
        names = _names(self.paths)
        for name in (bag, *([] if weight is None else [weight]), *(features or ()), *(coordinates or ())):
            if name not in names:
                raise ValueError(f"{self.paths[0]} has no column {name!r}; it has {', '.join(names)}.")
        self.bag, self.weight = bag, weight
        self.features = tuple(features or (name for name in names if name not in (bag, weight)))
        self.coordinates = None if coordinates is None else tuple(coordinates)

    @cached_property
    def _runs(self) -> list[Run]:
        found = [run for path in self.paths for run in runs_of(path, self.bag, self.weight)]
        labels = [run.label for run in found]
        if len(set(labels)) < len(labels):
            seen: set[Any] = set()
            again = [label for label in labels if label in seen or seen.add(label)]  # type: ignore[func-returns-value]
            raise ValueError(
                f"Rows of a bag must follow each other in one file; {some_bags(again)} are in several places."
                f" Sort the rows by {self.bag!r}."
            )
        return [run for run in found if run.counted]

    @property
    def labels(self) -> np.ndarray:
        """Label of each bag (b,), in the order of the files."""
        return object_array([run.label for run in self._runs])

    @property
    def sizes(self) -> np.ndarray:
        """Number of rows of positive weight of each bag (b,)."""
        return np.array([run.counted for run in self._runs], dtype=np.intp)

    def __len__(self) -> int:
        return len(self._runs)

    def rows(self, first: int = 0, last: int | None = None) -> StoredRows:
        """Bags from one position to before another."""
        pieces: list[tuple[Path, int, int]] = []
        for run in self._runs[first:last]:
            if pieces and pieces[-1][0] == run.path and pieces[-1][2] == run.start:
                pieces[-1] = (run.path, pieces[-1][1], run.stop)
            else:
                pieces.append((run.path, run.start, run.stop))
        return StoredRows(tuple(pieces), self.features, self.bag, self.weight, self.coordinates)

    def __repr__(self) -> str:
        return f"<StoredBags: {self.paths[0]}{' and others' if len(self.paths) > 1 else ''}>"


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    found = sorted(path.glob(f"*{SUFFIX}"))
    if not found:
        raise ValueError(f"{path} must be a Parquet file, or a folder with files called *{SUFFIX}.")
    return found


def _names(paths: list[Path]) -> list[str]:
    from pyarrow.parquet import read_schema

    first, *others = [list(read_schema(path).names) for path in paths]
    for path, names in zip(paths[1:], others, strict=True):
        if names != first:
            raise ValueError(f"Files must have the same columns; {path} has {names}, {paths[0]} has {first}.")
    return first


def runs_of(path: Path, bag: str, weight: str | None) -> Iterator[Run]:
    """Runs of equal labels in one file, of which a little is read at a time."""
    from pyarrow.parquet import ParquetFile

    open_: Run | None = None
    with ParquetFile(path) as file:
        begin = 0
        for number in range(file.num_row_groups):
            table = file.read_row_group(number, columns=[bag, *([] if weight is None else [weight])])
            labels = table[bag].to_pandas().to_numpy()
            counts = np.ones(len(labels), bool) if weight is None else table[weight].to_numpy() > 0
            edges = [*([0] if len(labels) else []), *(np.flatnonzero(labels[1:] != labels[:-1]) + 1), len(labels)]
            for start, stop in pairwise(map(int, edges)):
                own = Run(labels[start], path, begin + start, begin + stop, int(counts[start:stop].sum()))
                if open_ is not None and open_.label == own.label:
                    open_ = open_._replace(stop=own.stop, counted=open_.counted + own.counted)
                    continue
                if open_ is not None:
                    yield open_
                open_ = own
            begin += len(labels)
    if open_ is not None:
        yield open_


def read_rows(piece: tuple[Path, int, int], columns: list[str]) -> Any:
    """Rows of a file, from one to before another, as a table of Arrow, from the groups that hold them."""
    from pyarrow.parquet import ParquetFile

    path, start, stop = piece
    with ParquetFile(path) as file:
        ends = np.cumsum([file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)])
        first, last = (int(np.searchsorted(ends, at, side="right")) for at in (start, stop - 1))
        before = int(ends[first - 1]) if first else 0
        return file.read_row_groups(list(range(first, last + 1)), columns=columns).slice(start - before, stop - start)
