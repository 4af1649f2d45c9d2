"""Raster files as layers: one clean float32 plane each, north up, with NaN where there is no value."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from vbagg.errors import did_you_mean
from vbagg.geo.bands import bands_of
from vbagg.geo.earth import require_degrees, require_earth
from vbagg.geo.files import plural, some
from vbagg.geo.grid import Grid, is_geographic
from vbagg.geo.longitudes import full_turn
from vbagg.geo.sentinels import absent, codes_among
from vbagg.geo.variables import is_labelled, variables_of

ALL = slice(None)
NAME_MARK = "::"  # climate.nc::rain means the layer `rain` of climate.nc
NAMELESS = ("Band1", "band_data", "data", "variable", "__xarray_dataarray_variable__")


class Source(Protocol):
    """A band or a variable as its file stores it."""

    @property
    def path(self) -> str: ...  # noqa: D102
    @property
    def band(self) -> int | str: ...  # noqa: D102
    @property
    def label(self) -> str: ...  # noqa: D102
    @property
    def grid(self) -> Grid: ...  # noqa: D102
    @property
    def dtype(self) -> str: ...  # noqa: D102
    @property
    def units(self) -> str: ...  # noqa: D102
    @property
    def title(self) -> str: ...  # noqa: D102
    @property
    def nodata(self) -> tuple[float, ...]: ...  # noqa: D102
    @property
    def scale(self) -> float: ...  # noqa: D102
    @property
    def offset(self) -> float: ...  # noqa: D102
    @property
    def notes(self) -> tuple[str, ...]: ...  # noqa: D102

    def read(self, rows: slice, columns: slice) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        """Stored numbers, and where a mask of the file hides them."""


@dataclass(frozen=True)
class Layer:
    """One band or variable of a raster file, seen north up and with longitudes from -180 to 180 unless asked otherwise.

    Attributes
    ----------
    name
        Name of the layer: the file's name without its ending, with the band's name where there are several.
    source
        What the file stores.
    grid
        Where the cells are.
    nodata
        Stored numbers that mean "no value": those that the file declares, and those found by `masked`.
    notes
        What was assumed about the file, in sentences.
    """

    name: str
    source: Source
    grid: Grid
    nodata: tuple[float, ...]
    flipped: bool = False
    rolled: int = 0
    notes: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        """The file."""
        return self.source.path

    @property
    def file(self) -> str:
        """The file's name without its folder, for messages, with the layer's name where that says more."""
        file = Path(self.path).name
        return file if self.name == Path(self.path).stem else f"{file} ({self.name})"

    @property
    def band(self) -> int | str:
        """Number of the band, or name of the variable."""
        return self.source.band

    @property
    def units(self) -> str:
        """Units that the file names, or nothing."""
        return self.source.units

    @property
    def title(self) -> str:
        """What the file calls the layer in words, or nothing."""
        return self.source.title

    @property
    def dtype(self) -> str:
        """Type of the stored numbers."""
        return self.source.dtype

    @property
    def scale(self) -> float:
        """Factor from stored numbers to values."""
        return self.source.scale

    @property
    def offset(self) -> float:
        """Added to the scaled numbers."""
        return self.source.offset

    def read(self, rows: slice = ALL, columns: slice = ALL) -> NDArray[np.float32]:
        """Values of a window, scaled and offset, with NaN where there is none."""
        stored, missing = self._stored(rows, columns)
        if (self.scale, self.offset) == (1.0, 0.0):
            values = stored.astype(np.float32)
        else:
            values = (stored * np.float64(self.scale) + self.offset).astype(np.float32)
        values[missing] = np.nan
        return values

    def masked(self, rows: slice = ALL, columns: slice = ALL) -> Layer:
        """The same layer, with undeclared codes for "no value" that occur in a window taken as missing, and noted."""
        codes = codes_among(self._valid(rows, columns))
        found = (f"the value {code:g} in {plural(count, 'cell')}" for code, count in codes.items())
        notes = tuple(f"{self.file}: {what} was taken as missing, though the file does not say so." for what in found)
        return replace(self, nodata=(*self.nodata, *codes), notes=(*self.notes, *notes)) if codes else self

    def facing(self, longitudes: tuple[float, float]) -> Layer:
        """The same layer in the range of longitudes, if it has any, in which it covers most between two of them."""
        grid = self.grid
        if not (grid.is_upright and is_geographic(grid.crs)):
            return self
        turn, (left, _, right, _) = full_turn(grid.crs), grid.bounds
        (west, east), (a, b, c, d, e, f) = longitudes, grid.transform
        if _goes_around(grid):
            if left - a < west and east < right + a:
                return self
            start = (west + east - turn) / 2
            columns = int(np.floor((start - left) % turn / a - 0.5 + 1e-6) + 1) % grid.width
            moved = columns * a - turn * np.round((left + columns * a - start) / turn)
            rolled = (self.rolled + columns) % grid.width
            return replace(self, grid=replace(grid, transform=(a, b, c + moved, d, e, f)), rolled=rolled)
        shift = max((0.0, -turn, turn), key=lambda by: min(right + by, east) - max(left + by, west))
        return replace(self, grid=replace(grid, transform=(a, b, c + shift, d, e, f))) if shift else self

    def chunks(self, rows: slice = ALL, columns: slice = ALL) -> Iterator[tuple[slice, slice]]:
        """Windows of a bounded number of cells that make up a window."""
        (top, bottom, _), (left, right, _) = rows.indices(self.grid.height), columns.indices(self.grid.width)
        if top < bottom and left < right:
            for band in self.grid.sub(slice(top, bottom), slice(left, right)).bands(4_000_000):
                yield slice(top + band.start, top + band.stop), slice(left, right)

    def _valid(self, rows: slice, columns: slice) -> Iterator[NDArray[Any]]:
        for window in self.chunks(rows, columns):
            stored, missing = self._stored(*window)
            yield stored[~missing]

    def _stored(self, rows: slice, columns: slice) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Stored numbers and where they are no values, as this layer's rows and columns."""
        (top, bottom, _), (left, right, _) = rows.indices(self.grid.height), columns.indices(self.grid.width)
        inside = slice(top, bottom)
        if self.flipped:
            inside = slice(self.grid.height - bottom, self.grid.height - top)
        left, right, width = left + self.rolled, right + self.rolled, self.grid.width
        runs = [(left, min(right, width)), (max(left, width) - width, right - width)]
        parts = [self.source.read(inside, slice(*run)) for run in runs if run[0] < run[1]]
        values = np.concatenate([part for part, _ in parts], axis=1)
        missing = absent(values, self.nodata)
        if any(mask is not None for _, mask in parts):
            missing |= np.concatenate([mask for _, mask in parts if mask is not None], axis=1)
        return (values[::-1], missing[::-1]) if self.flipped else (values, missing)


def open_layers(path: str | os.PathLike[str], names: Sequence[str] | None = None) -> list[Layer]:
    """Layers of a raster file: one for each band (GeoTIFF and what else GDAL reads) or variable (NetCDF, Zarr).

    Parameters
    ----------
    path
        The file. `file::name` means the layer of that name alone.
    names
        Names of the layers to take, in this order. Default: all of them, in the file's order.

    Notes
    -----
    Nothing but the description of the file is read here.
    """
    path, _, chosen = os.fspath(path).partition(NAME_MARK)
    wanted = tuple(names) if names is not None else tuple(chosen.split(",")) if chosen else None
    sources: Sequence[Source] = variables_of(path, wanted) if is_labelled(path) else bands_of(path)
    layers = {layer.name: layer for layer in map(_upright, sources, _names(path, sources))}
    if len(layers) < len(sources):
        raise ValueError(f"{path} must have distinct names of bands; got {some([s.label for s in sources])}.")
    for name in wanted or ():
        if name not in layers:
            raise ValueError(f"{path} has no layer {name!r}{did_you_mean(name, layers)}")
    return [layers[name] for name in wanted or layers]


def _names(path: str, sources: Sequence[Source]) -> list[str]:
    stem = re.sub(r"\.(tar|ome|zarr)$", "", Path(path).stem)
    if all(isinstance(source.band, str) for source in sources):
        return [stem if len(sources) == 1 and s.label in NAMELESS else s.label for s in sources]
    if len(sources) == 1:
        return [stem]
    labels = [re.sub(r"\W+", "_", s.label).strip("_") or str(s.band) for s in sources]
    distinct = [
        f"{label}_{s.band}" if labels.count(label) > 1 else label for label, s in zip(labels, sources, strict=True)
    ]
    return [f"{stem}_{label}" for label in distinct]


def _upright(source: Source, name: str) -> Layer:
    """Layer whose grid is north up where the file's is north down, and in the usual range of longitudes."""
    grid = source.grid
    a, b, _, d, e, _ = grid.transform
    flipped = b == 0 and d == 0 and e > 0
    if flipped:
        bottom = grid.coordinates(0, grid.height)
        grid = replace(grid, transform=(a, b, float(bottom[0]), d, -e, float(bottom[1])))
    layer = Layer(name, source, grid, source.nodata, flipped, 0, source.notes)
    require_earth(grid.crs, source.path)
    require_degrees(grid.bounds, grid.crs, source.path, max(grid.resolution))
    left = grid.bounds[0]
    if not is_geographic(grid.crs):
        return layer
    half = full_turn(grid.crs) / 2
    return layer.facing((-half, half)) if left >= half or _goes_around(grid) else layer


def _goes_around(grid: Grid) -> bool:
    """Whether a geographic grid covers all longitudes."""
    left, _, right, _ = grid.bounds
    return right - left > full_turn(grid.crs) - grid.resolution[0]
