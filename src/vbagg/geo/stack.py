"""Aligned layers in one tiled, compressed float32 GeoTIFF, written and read by rows."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vbagg.errors import did_you_mean
from vbagg.geo.bands import opened
from vbagg.geo.files import appearing
from vbagg.geo.grid import TILE_ROWS, Grid

Planes = NDArray[np.float32]

CENTRE = "CENTRE"  # tag with the centre of the grid's map, where it is not the grid's middle
BAND_NUMBERS = 8_000_000  # numbers in memory at once, over all layers
PACKED = {"compress": "deflate", "predictor": 3, "zlevel": 1}


@dataclass(frozen=True)
class Stack:
    """Layers on one grid in a file; NaN means no value.

    Attributes
    ----------
    path
        The file.
    grid
        Where the cells are.
    names
        Names of the layers, in the order of the file's bands.
    """

    path: Path
    grid: Grid
    names: tuple[str, ...]

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Stack:
        """Describe a stack that was written before."""
        with opened(os.fspath(path)) as dataset:
            if dataset.crs is None or set(dataset.dtypes) != {"float32"}:
                kinds = ", ".join(sorted(set(dataset.dtypes)))
                raise ValueError(f"{path} must hold float32 layers in a CRS; it holds {kinds} in {dataset.crs}.")
            centre = _centre_told(dataset.tags())
            return cls(Path(path), replace(Grid.of(dataset), centre=centre), tuple(map(str, dataset.descriptions)))

    @classmethod
    def write(
        cls,
        path: str | os.PathLike[str],
        grid: Grid,
        names: Sequence[str],
        rows_of: Callable[[slice], Planes],
        packed: bool = True,
        bands: Sequence[slice] | None = None,
    ) -> Stack:
        """Write the planes (k, rows, width) that `rows_of` gives for slices of rows, one slice at a time.

        By default these are as many rows as fit into memory.
        """
        target = Path(path)
        bands = bands or tuple(grid.bands(max(BAND_NUMBERS // max(1, len(names)), TILE_ROWS * grid.width)))
        with appearing(target) as part, _created(part, grid, names, packed) as dataset:
            for rows in bands:
                dataset.write(rows_of(rows), window=_window(rows, grid))
        return cls(target, grid, tuple(names))

    def read(self, rows: slice = slice(None), names: Sequence[str] | None = None) -> Planes:
        """Planes (k, rows, width) of some rows."""
        start, stop, _ = rows.indices(self.grid.height)
        with opened(os.fspath(self.path)) as dataset:
            return dataset.read(self._bands(names), window=_window(slice(start, stop), self.grid))

    def at(self, cells: ArrayLike, names: Sequence[str] | None = None) -> Planes:
        """Values (n, k) in cells given by number, in any order."""
        cells = np.asarray(cells, dtype=np.int64)
        bands = self._bands(names)
        values = np.empty((cells.size, len(bands)), dtype=np.float32)
        if not cells.size or not bands:
            return values
        order = np.argsort(cells, kind="stable")
        row, column = np.divmod(cells[order], self.grid.width)
        with opened(os.fspath(self.path)) as dataset:
            for rows in self.grid.bands(max(BAND_NUMBERS // len(bands), TILE_ROWS * self.grid.width)):
                here = slice(*np.searchsorted(row, [rows.start, rows.stop]))
                if here.start < here.stop:
                    first, last = row[here.start], row[here.stop - 1]
                    planes = dataset.read(bands, window=_window(slice(first, last + 1), self.grid))
                    values[order[here]] = planes[:, row[here] - first, column[here]].T
        return values

    def _bands(self, names: Sequence[str] | None) -> list[int]:
        known = {name: band for band, name in enumerate(self.names, start=1)}
        for name in names or ():
            if name not in known:
                raise ValueError(f"{self.path} has no layer {name!r}{did_you_mean(name, known)}")
        return [known[name] for name in (self.names if names is None else names)]


def _window(rows: slice, grid: Grid) -> Any:
    from rasterio.windows import Window

    return Window(0, int(rows.start), grid.width, int(rows.stop - rows.start))


def _created(path: Path, grid: Grid, names: Sequence[str], packed: bool) -> Any:
    """Open a new file for writing."""
    import rasterio
    from affine import Affine

    dataset = rasterio.open(
        path,
        "w",
        driver="GTiff",
        dtype="float32",
        nodata=np.nan,
        count=len(names),
        height=grid.height,
        width=grid.width,
        crs=grid.crs,
        transform=Affine(*grid.transform),
        tiled=True,
        blockxsize=256,
        blockysize=TILE_ROWS,
        interleave="band",
        bigtiff="IF_SAFER",
        **(PACKED if packed else {}),
    )
    dataset.descriptions = tuple(names)
    if grid.centre is not None:
        dataset.update_tags(**{CENTRE: " ".join(map(repr, grid.centre))})
    return dataset


def _centre_told(tags: Mapping[str, str]) -> tuple[float, float] | None:
    """What the tags of a file say of the centre of its grid's map."""
    if CENTRE not in tags:
        return None
    longitude, latitude = map(float, tags[CENTRE].split())
    return longitude, latitude
