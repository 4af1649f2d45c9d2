"""Layers of any CRS, resolution and extent on one target grid.

Averages, sums and shares all spread the source's cells over the target's, so that nothing is lost or counted twice.
Where the source is coarser than the target, covariates are interpolated instead. Cells that coincide are copied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from vbagg.geo.grid import Bounds, Floats, Grid, is_geographic, same_crs, transformer
from vbagg.geo.longitudes import near
from vbagg.geo.rasters import Layer
from vbagg.geo.spread import coarsen, positions_in, spread
from vbagg.numerals import side

Planes = NDArray[np.float32]

SOURCE_NUMBERS = 8_000_000  # numbers of a source in memory at once
SPLIT_CELLS = 250_000  # cells whose split between two CRS is in memory at once
SLIVER = 1e-6  # part of a source cell that is too little to speak of a value
FINE = 4  # source cells along a target cell that are enough, between two CRS


@dataclass(frozen=True)
class Alignment:
    """One layer on a target grid: one or more planes, for any rows.

    Attributes
    ----------
    layer, grid
        What is aligned to what.
    names
        Names of the planes.
    how
        `"copy"`, `"average"`, `"sum"` or `"interpolation"`.
    source
        Planes of a window of the layer's own rows and columns, with NaN where there is no value. Takes the layer first.
    """

    layer: Layer
    grid: Grid
    names: tuple[str, ...]
    how: str
    source: Callable[[Layer, slice, slice], NDArray[np.floating]]

    @property
    def note(self) -> str | None:
        """What is done, in a sentence, if the layer is not on the grid already."""
        if self.how == "copy":
            return None
        own, target = (" x ".join(side(length) for length in grid.resolution) for grid in (self.layer.grid, self.grid))
        return f"{self.layer.file}: aligned to the target grid by {self.how} (cells of {own} to cells of {target})."

    def read(self, rows: slice) -> Planes:
        """Planes on these rows of the target grid: (k, rows, width), with NaN where there is no value."""
        if self.how == "copy":
            return self._copied(rows)
        return self._block(rows, slice(0, self.grid.width))

    @cached_property
    def _factor(self) -> int:
        """How many source cells along a side are merged before they are spread to another CRS."""
        if self.how == "interpolation" or same_crs(self.layer.grid.crs, self.grid.crs):
            return 1
        return max(1, int(_source_cells(self.layer.grid, self.grid) ** 0.5 / FINE))

    @cached_property
    def _limit(self) -> int:
        """How many cells of the source are read at once."""
        if self.how == "interpolation" or same_crs(self.layer.grid.crs, self.grid.crs):
            return SOURCE_NUMBERS // (len(self.names) + 1)
        return min(SPLIT_CELLS * self._factor**2, SOURCE_NUMBERS // (len(self.names) + 1))

    def _copied(self, rows: slice) -> Planes:
        down, right = self.grid.offset_in(self.layer.grid) or (0, 0)
        planes = self._nothing(rows.stop - rows.start, self.grid.width)
        inside = slice(max(0, down + rows.start), min(self.layer.grid.height, down + rows.stop))
        columns = slice(max(0, right), min(self.layer.grid.width, right + self.grid.width))
        if inside.start < inside.stop and columns.start < columns.stop:
            top, left = inside.start - down - rows.start, columns.start - right
            height, width = inside.stop - inside.start, columns.stop - columns.start
            planes[:, top : top + height, left : left + width] = self.source(self.layer, inside, columns)
        return planes

    def _block(self, rows: slice, columns: slice) -> Planes:
        """A block of the target, halved until its part of the source fits into memory."""
        target = self.grid.sub(rows, columns)
        window = source_window(self.layer.grid, target, 2 * self._factor, self._factor)
        height, width = (part.stop - part.start for part in window)
        if height * width == 0:
            return self._nothing(*target.shape)
        if height * width > self._limit and target.n_cells > 1:
            wide = target.width >= target.height
            whole = columns if wide else rows
            middle = (whole.start + whole.stop) // 2
            halves = slice(whole.start, middle), slice(middle, whole.stop)
            parts = [self._block(rows, half) if wide else self._block(half, columns) for half in halves]
            return np.concatenate(parts, axis=2 if wide else 1)
        planes, source = self.source(self.layer, *window), self.layer.grid.sub(*window)
        if self.how == "interpolation":
            return _interpolated(planes, source, target)
        return self._spread(planes, source, target)

    def _spread(self, planes: NDArray[np.floating], source: Grid, target: Grid) -> Planes:
        missing = np.isnan(planes[:1])
        filled = np.concatenate([np.where(missing, 0.0, planes), ~missing])
        *sums, valid = spread(*coarsen(filled, source, self._factor), target)
        with np.errstate(invalid="ignore", divide="ignore"):
            values = np.stack(sums) / (valid if self.how == "average" else 1.0)
        return np.where(valid > SLIVER, values, np.nan).astype(np.float32)

    def _nothing(self, height: int, width: int) -> Planes:
        return np.full((len(self.names), height, width), np.nan, dtype=np.float32)


def align_covariate(layer: Layer, grid: Grid) -> Alignment:
    """Area average of a finer layer, interpolation of a coarser one."""
    finer = _source_cells(layer.grid, grid) > 0.99
    how = _or_copy(layer, grid, "average" if finer else "interpolation")
    return Alignment(layer, grid, (layer.name,), how, _values)


def align_population(layer: Layer, grid: Grid, density: float | None = None) -> Alignment:
    """Sums of counts, or of a density times the area of each cell; their total is kept whatever the grid.

    Parameters
    ----------
    layer, grid
        What is aligned to what.
    density
        None if the layer holds counts; otherwise people per square kilometre for each unit of the layer.
    """
    return Alignment(layer, grid, (layer.name,), _or_copy(layer, grid, "sum"), partial(_counts, density))


def squared(alignment: Alignment) -> Alignment:
    """The same of the squares of the numbers of its cells, as variances of sums are those of standard deviations."""
    return replace(alignment, source=partial(_squares, alignment.source))


def align_categories(layer: Layer, grid: Grid, categories: Sequence[float], others_missing: bool = False) -> Alignment:
    """Share of each cell's area, as far as it has a value, that falls to each category.

    Other values than these categories have no share, or are missing.
    """
    codes = np.asarray(categories, dtype=np.float32)[:, None, None]
    names = tuple(f"{layer.name}={category:.10g}" for category in categories)
    return Alignment(layer, grid, names, _or_copy(layer, grid, "average"), partial(_indicators, codes, others_missing))


def _values(layer: Layer, rows: slice, columns: slice) -> Planes:
    return layer.read(rows, columns)[None]


def _counts(density: float | None, layer: Layer, rows: slice, columns: slice) -> Floats:
    values = _values(layer, rows, columns).astype(np.float64)
    return values if density is None else values * density * layer.grid.sub(rows, columns).areas()


def _squares(source: Callable[..., NDArray[np.floating]], layer: Layer, rows: slice, columns: slice) -> Floats:
    # the sign stays, for whoever looks for what must not be negative
    values = source(layer, rows, columns).astype(np.float64)
    return values * np.abs(values)


def _indicators(codes: Planes, others_missing: bool, layer: Layer, rows: slice, columns: slice) -> Planes:
    values = _values(layer, rows, columns)
    missing = ~np.isin(values, codes) if others_missing else np.isnan(values)
    return np.where(missing, np.float32(np.nan), values == codes)


def source_window(source: Grid, target: Grid, margin: int = 0, step: int = 1) -> tuple[slice, slice]:
    """Rows and columns of the source that touch the target, with a margin; empty slices if none does.

    They start at a multiple of `step`.
    """
    bounds = bounds_in(target, source.crs)
    rows, columns = source.window(bounds) if np.isfinite(bounds).all() else (slice(0, 0), slice(0, 0))
    if rows.start >= rows.stop or columns.start >= columns.stop:
        return slice(0, 0), slice(0, 0)

    def widened(part: slice, size: int) -> slice:
        start = max(0, part.start - margin)
        return slice(start - start % step, min(size, part.stop + margin))

    return widened(rows, source.height), widened(columns, source.width)


def bounds_in(grid: Grid, crs: str) -> Bounds:
    """Bounds of a grid in another CRS, a little too wide rather than too narrow."""
    if same_crs(grid.crs, crs):
        return grid.bounds
    nodes = np.linspace(0, 1, 33)
    points = grid.coordinates(*np.meshgrid(nodes * grid.width, nodes * grid.height))
    x, y = transformer(grid.crs, crs).transform(*points)
    if is_geographic(crs) and np.isfinite(x[16, 16]):
        x = near(x, x[16, 16], crs)
    placed = np.isfinite(x) & np.isfinite(y)
    if not placed.any():
        return np.inf, np.inf, -np.inf, -np.inf
    x, y = x[placed], y[placed]
    spare_x, spare_y = np.ptp(x) / 500, np.ptp(y) / 500  # edges bend between the nodes
    return x.min() - spare_x, y.min() - spare_y, x.max() + spare_x, y.max() + spare_y


def _or_copy(layer: Layer, grid: Grid, how: str) -> str:
    return how if grid.offset_in(layer.grid) is None else "copy"


def _source_cells(source: Grid, target: Grid) -> float:
    """How many source cells a target cell holds, by area, in the middle of the target."""
    column, row = target.width / 2, target.height / 2
    u, v = positions_in(target, source, column + np.array([0, 0.5, 0]), row + np.array([0, 0, 0.5]))
    area = abs((u[1] - u[0]) * (v[2] - v[0]) - (u[2] - u[0]) * (v[1] - v[0])) * 4
    return float(area) if np.isfinite(area) and area > 0 else 1.0


def _interpolated(planes: NDArray[np.floating], source: Grid, target: Grid) -> Planes:
    """Bilinear interpolation between the centres of cells that have a value."""
    from affine import Affine
    from rasterio.warp import Resampling, reproject

    result = np.full((len(planes), *target.shape), np.nan, dtype=np.float32)
    reproject(
        np.ascontiguousarray(planes, dtype=np.float32),
        result,
        src_transform=Affine(*source.transform),
        src_crs=source.crs,
        src_nodata=np.nan,
        dst_transform=Affine(*target.transform),
        dst_crs=target.crs,
        dst_nodata=np.nan,
        resampling=Resampling.bilinear,
    )
    return result
