"""Polygons laid over the target grid, and what all rasters hold in the cells under them. Nothing is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from vbagg.doctor.findings import OF_BAD_INPUT, Gathered
from vbagg.doctor.reading import Inputs
from vbagg.doctor.words import plain_labels
from vbagg.geo.align import Alignment, align_population
from vbagg.geo.covariates import align, masked_near
from vbagg.geo.gaps import Cells
from vbagg.geo.grid import Floats, Grid
from vbagg.geo.overlay import overlay
from vbagg.geo.polygons import Polygons
from vbagg.geo.population import Reading, read_population_as
from vbagg.geo.rasters import Layer
from vbagg.geo.target import target_grid

if TYPE_CHECKING:
    from vbagg.workflow.settings import Data


@dataclass(frozen=True)
class Raster:
    """A layer in the cells under polygons.

    Attributes
    ----------
    alignment
        How it comes to the grid.
    is_category
        Whether its columns are shares of categories.
    values
        (cells, columns), NaN where there is no value.
    """

    alignment: Alignment
    is_category: bool
    values: NDArray[np.float32]

    @property
    def layer(self) -> Layer:
        """The layer."""
        return self.alignment.layer

    @cached_property
    def gaps(self) -> NDArray[np.bool_]:
        """Cells without a value."""
        return np.isnan(self.values[:, 0])


@dataclass(frozen=True)
class Overlaid:
    """Polygons, cells, and what they hold.

    Attributes
    ----------
    polygons
        In the grid's CRS.
    responses
        Columns of the polygons with totals.
    grid, base
        The target grid, and the raster it was taken from.
    pairs
        Polygon (position), cell (number) and coverage.
    cells, place
        Numbers of the cells under polygons, each once; and the position among them of each pair's cell.
    kind
        What exposure is: `"population"` or `"area"`.
    people, reading
        The population and how it was read; None without one.
    exposure
        People or square kilometres in each cell, NaN where unknown; None if the population could not be read.
    rasters
        Covariates.
    """

    polygons: Polygons
    responses: tuple[str, ...]
    grid: Grid
    base: Layer | None
    pairs: pd.DataFrame
    cells: Cells
    place: NDArray[np.intp]
    kind: str
    people: Raster | None
    reading: Reading | None
    exposure: Floats | None
    rasters: tuple[Raster, ...]

    @cached_property
    def labels(self) -> NDArray[np.object_]:
        """Ids of the polygons."""
        return plain_labels(self.polygons)

    @cached_property
    def weight(self) -> Floats:
        """Exposure of each pair: 0 where it is unknown or negative."""
        exposure = np.ones(self.cells.size) if self.exposure is None else np.nan_to_num(np.maximum(self.exposure, 0))
        return self.pairs["coverage"].to_numpy() * exposure[self.place]

    @property
    def weighed_by(self) -> str:
        """What `weight` is: the area stands in for a population that could not be read."""
        return "area" if self.people is None else "population"

    def by_polygon(self, weights: Floats) -> Floats:
        """Sums over the pairs of each polygon."""
        return np.bincount(self.pairs["polygon"], weights, len(self.polygons)).astype(np.float64)

    @cached_property
    def inhabited(self) -> NDArray[np.bool_]:
        """Cells with any weight."""
        return np.bincount(self.place, self.weight, self.cells.size) > 0

    @cached_property
    def totals(self) -> Floats:
        """Exposure of each polygon."""
        return self.by_polygon(self.weight)


def lay_out(inputs: Inputs, polygons: Polygons, data: Data, found: Gathered) -> Overlaid | None:
    """Lay the polygons over the target grid and read all rasters there; None where that cannot be."""
    people, covariates = inputs.people, list(inputs.covariates)
    bases = [*([people] if people else []), *(covariate.layer for covariate in covariates)]
    grid, base = _target(polygons, bases, data, found)
    if grid is None:
        return None
    people = None if base is not people else people
    placed = found.attempt("crs", polygons.file, lambda: polygons.to(grid.crs))
    if placed is None:
        return None
    pairs = overlay(placed, grid)
    if pairs.empty:
        text = f"{polygons.path}: at least one polygon must lie on the target grid; none does. Check the CRS."
        found.add("error", "outside", text, polygons.file)
        return None
    cells, place = np.unique(pairs["cell"].to_numpy(), return_inverse=True)
    rasters = []
    for covariate in covariates:
        aligned = found.attempt("covariate-file", covariate.layer.file, partial(align, covariate, grid))
        raster = _read(aligned, covariate.is_category, cells, "covariate-file", found)
        rasters += [raster] if raster else []
    population, reading = (None, None) if people is None else _population(people, grid, cells, inputs, data, found)
    exposure: Floats | None
    if data.population is None:
        exposure = _picked(lambda rows: grid.areas(rows)[None], grid, cells)[:, 0].astype(np.float64)
    else:
        exposure = None if population is None else population.values[:, 0].astype(np.float64)
    return Overlaid(
        polygons=placed,
        responses=inputs.responses,
        grid=grid,
        base=base,
        pairs=pairs,
        cells=cells,
        place=place,
        kind="area" if data.population is None else "population",
        people=population,
        reading=reading,
        exposure=exposure,
        rasters=tuple(rasters),
    )


def _target(
    polygons: Polygons, bases: Sequence[Layer], data: Data, found: Gathered
) -> tuple[Grid | None, Layer | None]:
    """The grid of a run, or else the first that can be made of the other rasters, to go on with."""
    candidates: list[Layer | None] = [*bases] or [None]
    for base in candidates:
        try:
            return target_grid(polygons, base, data.resolution), base
        except OF_BAD_INPUT as error:
            if base is candidates[0]:
                found.add("error", "grid", str(error), "settings" if base is None else base.file)
    return None, None


def _population(
    people: Layer, grid: Grid, cells: Cells, inputs: Inputs, data: Data, found: Gathered
) -> tuple[Raster | None, Reading | None]:
    def read() -> tuple[Alignment, Reading]:
        frame = inputs.polygons.frame if inputs.polygons else {}
        layer = masked_near(people, grid)
        totals = [float(frame[name].sum()) for name in inputs.responses]
        reading = read_population_as(layer, grid, data.population_is, totals)
        return align_population(layer, grid, reading.density), reading

    aligned, reading = found.attempt("population-file", people.file, read) or (None, None)
    return _read(aligned, False, cells, "population-file", found), reading


def _read(aligned: Alignment | None, is_category: bool, cells: Cells, code: str, found: Gathered) -> Raster | None:
    if aligned is None:
        return None
    values = found.attempt(code, aligned.layer.file, lambda: _picked(aligned.read, aligned.grid, cells))
    return None if values is None else Raster(aligned, is_category, values)


def _picked(rows_of: Callable[[slice], NDArray[np.floating]], grid: Grid, cells: Cells) -> NDArray[np.float32]:
    """Values (cells, columns) of some cells, in order, from planes (columns, rows, width) of rows."""
    parts = []
    for rows in grid.bands():
        first, last = rows.start * grid.width, rows.stop * grid.width
        here = cells[slice(*np.searchsorted(cells, [first, last]))]
        if here.size:
            planes = rows_of(rows)
            parts.append(planes.reshape(len(planes), -1)[:, here - first].T.astype(np.float32))
    return np.concatenate(parts)
