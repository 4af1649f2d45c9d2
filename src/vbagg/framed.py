"""Bags in a Dask data frame: partitions stay where they are made, and portions of the data are made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from vbagg.stored import (
    DistantBags,
    Piece,
    Run,
    chosen_columns,
    in_one_place,
    joined,
    joined_pieces,
    runs_of,
)


class FramedBags(DistantBags):
    """Bags in a Dask data frame, whose rows lie bag by bag: see `Bags.from_dask`."""

    def __init__(
        self,
        frame: Any,
        features: Sequence[str] | None = None,
        bag: str = "bag",
        weight: str | None = "weight",
        coordinates: Sequence[str] | None = None,
    ) -> None:
        try:
            import dask.dataframe as dd
        except ImportError:
            raise ImportError("Dask data frames need Dask: `pip install vbagg[cluster]`.") from None
        if not isinstance(frame, dd.DataFrame):
            raise TypeError(f"`frame` must be a Dask data frame; got {type(frame).__name__}.")
        names = list(frame.columns)
        where = "The data frame"
        if bag not in names and frame.index.name == bag:
            raise ValueError(f"{where} must have {bag!r} as a column; it is the index. Use `frame.reset_index()`.")
        self.features = chosen_columns(names, where, features, bag, weight, coordinates or ())
        self.bag, self.weight = bag, weight
        self.coordinates = None if coordinates is None else tuple(coordinates)
        self.frame = frame[self.columns]

    @cached_property
    def _runs(self) -> list[Run]:
        from dask.base import compute
        from dask.delayed import delayed

        columns = [self.bag, *([] if self.weight is None else [self.weight])]
        parts = self.frame[columns].to_delayed()
        found = compute(*[delayed(_runs)(part, n, self.bag, self.weight) for n, part in enumerate(parts)])
        return in_one_place(
            joined(run for own in found for run in own),
            ", within partitions and from one to the next",
            f"Sort the data frame first: `frame.sort_values({self.bag!r})`.",
        )

    @cached_property
    def partitions(self) -> list[Any]:
        """All of them, as Dask's `Delayed`."""
        return list(self.frame.to_delayed())

    def rows(self, first: int = 0, last: int | None = None) -> FramedRows:
        """Bags from one position to before another."""
        runs = self._runs[first:last]
        return FramedRows(self, joined_pieces(runs), [run.label for run in runs], [run.counted for run in runs])

    def __getstate__(self) -> dict[str, Any]:
        """Without the data and what is known of all bags."""
        return {name: value for name, value in vars(self).items() if name not in ("_runs", "frame", "partitions")}

    def __repr__(self) -> str:
        return f"<FramedBags: {self.frame.npartitions} partitions>"


@dataclass(frozen=True)
class FramedRows:
    """Rows of partitions, and labels and sizes of the bags that they must hold."""

    of: FramedBags
    pieces: tuple[Piece, ...]
    labels: list[Any]
    sizes: list[int]

    def delayed(self) -> Any:
        """Arguments of `Bags`, as Dask's `Delayed`."""
        from dask.delayed import delayed

        parts = [self.of.partitions[place] for place, _, _ in self.pieces]
        spans = [(start, stop) for _, start, stop in self.pieces]
        return delayed(_arguments)(parts, spans, _Plain(self.of), self.labels, self.sizes)

    def read(self) -> dict[str, Any]:
        """Arguments of `Bags`."""
        return self.delayed().compute()


class _Plain:
    """Columns of bags, which Dask must not look into."""

    def __init__(self, of: FramedBags) -> None:
        self.of = of


def _runs(part: Any, place: int, bag: str, weight: str | None) -> list[Run]:
    return runs_of(part[bag].to_numpy(), _counts(part, weight), place)


def _counts(part: Any, weight: str | None) -> np.ndarray:
    return np.ones(len(part), bool) if weight is None else part[weight].to_numpy() > 0


def _arguments(
    parts: list[Any], spans: list[tuple[int, int]], plain: _Plain, labels: list[Any], sizes: list[int]
) -> dict[str, Any]:
    """Rows of partitions, which must be as they were when they were counted."""
    import pandas as pd

    frame = pd.concat([part.iloc[start:stop] for part, (start, stop) in zip(parts, spans, strict=True)])
    own = plain.of
    found = [run for run in joined(runs_of(frame[own.bag].to_numpy(), _counts(frame, own.weight), None)) if run.counted]
    if [run.label for run in found] != labels or [run.counted for run in found] != sizes:
        raise ValueError(
            "Partitions of the data frame must be the same each time they are made; some changed. "
            "Keep them on the workers with `frame.persist()`, or write them to Parquet files."
        )
    return own.arguments(frame.reset_index(drop=True))
