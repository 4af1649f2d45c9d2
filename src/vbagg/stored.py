"""Bags that need not fit into memory, in Parquet files: read in portions, where they are needed."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from vbagg.inputs import object_array, some_bags
from vbagg.labelled import Labelled

SUFFIX = ".parquet"


Piece = tuple[Any, int, int]
"""A place, such as a file, and rows of it from one to before another."""


class Run(NamedTuple):
    """Rows of one bag, which follow each other."""

    label: Any
    pieces: tuple[Piece, ...]
    counted: int
    """Rows of positive weight."""

    def with_next(self, other: Run) -> Run:
        """These and those that follow."""
        return Run(self.label, (*self.pieces, *other.pieces), self.counted + other.counted)


class DistantBags(Labelled, ABC):
    """Bags whose rows are not in this process. `labels` and `sizes` are of those that have any weight."""

    features: tuple[str, ...]
    bag: str
    weight: str | None
    coordinates: tuple[str, ...] | None

    @property
    @abstractmethod
    def _runs(self) -> list[Run]:
        """Rows of each bag that has any weight, in order."""

    def __getitem__(self, key: Any) -> Self:
        """Select bags by position: a slice, integers or a mask."""
        chosen, runs = object.__new__(type(self)), self._runs
        vars(chosen).update(vars(self), _runs=[runs[at] for at in np.atleast_1d(np.arange(len(runs))[key])])
        return chosen

    @abstractmethod
    def rows(self, first: int = 0, last: int | None = None) -> DistantRows:
        """Bags from one position to before another."""

    @property
    def labels(self) -> np.ndarray:
        """Label of each bag (b,), in the order of the data."""
        return object_array([run.label for run in self._runs])

    @property
    def sizes(self) -> np.ndarray:
        """Number of rows of positive weight of each bag (b,)."""
        return np.array([run.counted for run in self._runs], dtype=np.intp)

    @property
    def columns(self) -> list[str]:
        """All columns that are read."""
        return [*self.features, self.bag, *([] if self.weight is None else [self.weight])]

    def arguments(self, frame: Any) -> dict[str, Any]:
        """What `Bags` is made of, from a data frame of some rows."""
        return {
            "X": frame[list(self.features)],
            "bag": frame[self.bag].to_numpy(),
            "weight": None if self.weight is None else frame[self.weight].to_numpy(),
            "coordinates": self.coordinates,
        }


class DistantRows(Protocol):
    """Some rows of distant bags."""

    def read(self) -> dict[str, Any]:
        """Arguments of `Bags`."""
        ...


def chosen_columns(
    names: Sequence[str], where: str, features: Sequence[str] | None, bag: str, weight: str | None, more: Sequence[str]
) -> tuple[str, ...]:
    """The features: those asked for, or all other columns; columns that are not there are refused."""
    for name in (bag, *([] if weight is None else [weight]), *(features or ()), *more):
        if name not in names:
            raise ValueError(f"{where} has no column {name!r}; it has {', '.join(map(str, names))}.")
    return tuple(features or (name for name in names if name not in (bag, weight)))


def runs_of(labels: np.ndarray, counts: np.ndarray, place: Any, begin: int = 0) -> list[Run]:
    """Runs of equal labels, whose rows count or not; the first row has the number `begin` at its place."""
    edges = [*([0] if len(labels) else []), *(np.flatnonzero(labels[1:] != labels[:-1]) + 1), len(labels)]
    return [
        Run(labels[start], ((place, begin + start, begin + stop),), int(counts[start:stop].sum()))
        for start, stop in pairwise(map(int, edges))
    ]


def joined(runs: Iterable[Run]) -> list[Run]:
    """Runs of which those of the same label that follow each other are one."""
    found: list[Run] = []
    for run in runs:
        if found and found[-1].label == run.label:
            found[-1] = found[-1].with_next(run)
        else:
            found.append(run)
    return found


def in_one_place(runs: list[Run], rule: str, remedy: str) -> list[Run]:
    """The runs of bags that have any weight; refuse bags that have several."""
    labels = [run.label for run in runs]
    if len(set(labels)) < len(labels):
        seen: set[Any] = set()
        again = [label for label in labels if label in seen or seen.add(label)]  # type: ignore[func-returns-value]
        raise ValueError(
            f"Rows of a bag must follow each other{rule}; {some_bags(again)} are in several places. {remedy}"
        )
    return [run for run in runs if run.counted]


def joined_pieces(runs: Iterable[Run]) -> tuple[Piece, ...]:
    """Rows of runs, as few pieces."""
    found: list[Piece] = []
    for place, start, stop in (piece for run in runs for piece in run.pieces):
        if found and found[-1][0] == place and found[-1][2] == start:
            found[-1] = place, found[-1][1], stop
        else:
            found.append((place, start, stop))
    return tuple(found)


@dataclass(frozen=True)
class StoredRows:
    """Rows of files, from one to before another, of some columns."""

    pieces: tuple[Piece, ...]
    of: StoredBags

    def read(self) -> dict[str, Any]:
        """Arguments of `Bags`."""
        import pyarrow as pa

        return self.of.arguments(
            pa.concat_tables([read_rows(piece, self.of.columns) for piece in self.pieces]).to_pandas()
        )


class StoredBags(DistantBags):
    """Bags in a Parquet file, or in the files of a folder, whose rows lie bag by bag: see `Bags.from_parquet`."""

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
        self.features = chosen_columns(names, str(self.paths[0]), features, bag, weight, coordinates or ())
        self.bag, self.weight = bag, weight
        self.coordinates = None if coordinates is None else tuple(coordinates)

    @cached_property
    def _runs(self) -> list[Run]:
        found = [run for path in self.paths for run in runs_in(path, self.bag, self.weight)]
        return in_one_place(found, " in one file", f"Sort the rows by {self.bag!r}.")

    def rows(self, first: int = 0, last: int | None = None) -> StoredRows:
        """Bags from one position to before another."""
        return StoredRows(joined_pieces(self._runs[first:last]), self)

    def __getstate__(self) -> dict[str, Any]:
        """Without what is known of all bags: workers need some rows."""
        return {name: value for name, value in vars(self).items() if name != "_runs"}

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


def runs_in(path: Path, bag: str, weight: str | None) -> list[Run]:
    """Runs of equal labels in one file, of which a little is read at a time."""
    return joined(_runs_of_groups(path, bag, weight))


def _runs_of_groups(path: Path, bag: str, weight: str | None) -> Iterator[Run]:
    from pyarrow.parquet import ParquetFile

    with ParquetFile(path) as file:
        begin = 0
        for number in range(file.num_row_groups):
            table = file.read_row_group(number, columns=[bag, *([] if weight is None else [weight])])
            labels = table[bag].to_pandas().to_numpy()
            counts = np.ones(len(labels), bool) if weight is None else table[weight].to_numpy() > 0
            yield from runs_of(labels, counts, path, begin)
            begin += len(labels)


def read_rows(piece: Piece, columns: list[str]) -> Any:
    """Rows of a file, from one to before another, as a table of Arrow, from the groups that hold them."""
    from pyarrow.parquet import ParquetFile

    path, start, stop = piece
    with ParquetFile(path) as file:
        ends = np.cumsum([file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)])
        first, last = (int(np.searchsorted(ends, at, side="right")) for at in (start, stop - 1))
        before = int(ends[first - 1]) if first else 0
        return file.read_row_groups(list(range(first, last + 1)), columns=columns).slice(start - before, stop - start)
