"""Rows of a table of any length in a scratch file, which are written and read at any place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

AT_ONCE = 1 << 20  # rows in memory at once


@dataclass(frozen=True)
class Records:
    """The file, which appears with the first rows, and the type of a row."""

    path: Path
    dtype: np.dtype[Any]

    def write(self, rows: NDArray[Any], places: ArrayLike, sizes: ArrayLike) -> None:
        """Write rows in runs of these sizes, each from a place in the file on."""
        ends = np.cumsum(sizes)
        with self.path.open("r+b" if self.path.exists() else "w+b") as file:
            for place, start, end in zip(
                np.asarray(places).tolist(), (ends - sizes).tolist(), ends.tolist(), strict=True
            ):
                file.seek(place * self.dtype.itemsize)
                file.write(np.ascontiguousarray(rows[start:end]).data)

    def read(self, start: int, count: int) -> NDArray[Any]:
        """So many rows from a place on."""
        if count == 0:
            return np.empty(0, dtype=self.dtype)
        return np.fromfile(self.path, dtype=self.dtype, count=count, offset=start * self.dtype.itemsize)

    def chunks(self, count: int) -> Iterator[NDArray[Any]]:
        """The first so many rows, some at a time."""
        for start in range(0, count, AT_ONCE):
            yield self.read(start, min(AT_ONCE, count - start))
