"""Polygons and rasters on the target grid: made once, in bands of rows, kept on disk, and read by all who need it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vbagg.geo.align import Alignment, align_population, squared
from vbagg.geo.covariates import Covariate, masked_near
from vbagg.geo.exposure import SPREAD, Exposure, Shares, ShareSums
from vbagg.geo.gaps import Cells
from vbagg.geo.grid import TILE_ROWS, Floats, Grid
from vbagg.geo.overlay import Overlay, cells_covered
from vbagg.geo.people_errors import INDEPENDENT, PLANE, TOGETHER, ErrorSums, PeopleErrors
from vbagg.geo.polygons import Polygons
from vbagg.geo.population import Reading
from vbagg.geo.rasters import Layer
from vbagg.geo.records import Records
from vbagg.geo.stack import BAND_NUMBERS, Planes, Stack
from vbagg.geo.survey import PAIR, Attempt, Found, LaidRaster, Reader, Survey, open_all, plainly, result_of
from vbagg.held import Held, Here

BAND_CELLS = 2_000_000  # cells whose pairs with polygons are in memory at once
NUMBER = 4  # bytes
PAIRS, RAW = "pairs.bin", "unfilled.tif"
SD_FILE = "population-sd-file"

Tell = Callable[[str], None]
HERE: Held[Any] = Here(())
"""This process."""


@dataclass(frozen=True, eq=False)
class Band:
    """Some rows of the grid: the polygons that cover their cells, and what these hold.

    Attributes
    ----------
    rows
        Which rows.
    polygon, cell, coverage
        Each polygon (position) and cell (number) that meet, and the part of the cell in the polygon; sorted by both.
    stack, exposed_as
        All layers, and which of them is the exposure, if any is.
    shares
        How a column of the polygons is spread over cells, if that is the exposure.
    """

    rows: slice
    polygon: NDArray[np.intp]
    cell: Cells
    coverage: Floats
    stack: Stack
    exposed_as: str | None
    shares: Shares | None = None

    @cached_property
    def _distinct(self) -> tuple[Cells, NDArray[np.intp]]:
        return np.unique(self.cell, return_inverse=True)

    @property
    def cells(self) -> Cells:
        """Numbers of the cells under polygons, each once and in order."""
        return self._distinct[0]

    @property
    def place(self) -> NDArray[np.intp]:
        """Position among `cells` of each pair's cell."""
        return self._distinct[1]

    @cached_property
    def planes(self) -> Planes:
        """All layers on these rows: (k, rows, width)."""
        return self.stack.read(self.rows)

    def values(self, names: Sequence[str]) -> Planes:
        """Layers in the cells under polygons (cells, names), NaN where there is no value."""
        here = self.cells - self.rows.start * self.stack.grid.width
        flat = self.planes.reshape(len(self.planes), -1)
        columns = [flat[self.stack.names.index(name)][here] for name in names]
        return np.column_stack(columns) if columns else np.empty((here.size, 0), dtype=np.float32)

    @cached_property
    def exposure(self) -> Floats | None:
        """People or square kilometres in the cells under polygons, NaN where unknown; None if that of all is.

        A column of the polygons says what the covered part of a cell has: the whole is as dense.
        """
        if self.shares is not None:
            return np.bincount(self.place, self.weight, self.cells.size) / self.covered
        return None if self.exposed_as is None else self.values([self.exposed_as])[:, 0].astype(np.float64)

    @cached_property
    def weight(self) -> Floats:
        """Exposure of each pair, 0 where it is unknown."""
        if self.shares is None:
            whole = np.zeros(self.cells.size) if self.exposure is None else np.nan_to_num(self.exposure)
            return self.coverage * whole[self.place]
        names = [name for name in (SPREAD,) if name in self.stack.names]
        area, *raster = self.values(["area", *names]).T.astype(np.float64)
        spread_by = raster[0][self.place] if raster else None
        return self.shares.weights(self.polygon, self.coverage, area[self.place], spread_by)

    @cached_property
    def exposed(self) -> Floats:
        """Exposure of each cell within the polygons: 0 where it is unknown."""
        whole = np.zeros(self.cells.size) if self.exposure is None else np.nan_to_num(self.exposure)
        return self.covered * whole

    @cached_property
    def covered(self) -> Floats:
        """Part of each cell that polygons cover: more than 1 where they overlap."""
        return np.bincount(self.place, self.coverage, self.cells.size).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Layout:
    """Polygons over the grid, and all rasters brought to it, with their gaps.

    Attributes
    ----------
    polygons, placed
        As they were read, and in the grid's CRS.
    responses
        Columns of the polygons with totals.
    grid, base
        The target grid, and the raster it was taken from.
    kind
        What exposure is: `"population"`, `"area"` or `"expected"`.
    covariates
        Those that could be read.
    people, reading
        The population and how it was read; None without one.
    shares, spread_by
        How a column of the polygons is spread over cells, if that is the exposure, and by which raster, if any.
    stack
        Layers of the covariates, and the exposure as the last; where a column is spread, what it is spread by.
    bands, ends
        Rows that are in memory at once, and the number of pairs of a polygon and a cell up to the end of each.
    pixels, covered
        Number of cells that each polygon reaches, and the same with parts of cells counted as such.
    n_cells
        Number of cells under any polygon.
    errors
        How far off people may be by a raster; None without one.
    """

    polygons: Polygons
    placed: Polygons
    responses: tuple[str, ...]
    grid: Grid
    base: Layer | None
    kind: str
    covariates: tuple[LaidRaster, ...]
    people: Alignment | None
    reading: Reading | None
    shares: Shares | None
    spread_by: Alignment | None
    stack: Stack
    bands: tuple[slice, ...]
    ends: tuple[int, ...]
    pixels: NDArray[np.int64]
    covered: Floats
    n_cells: int
    errors: PeopleErrors | None = None

    @property
    def exposed_as(self) -> str | None:
        """Name of the layer with the exposure; None if it could not be read."""
        known = self.kind == "area" or self.people is not None or self.shares is not None
        return self.kind if known else None

    def band(self, rows: slice) -> Band:
        """One of the bands."""
        at = self.bands.index(rows)
        start = self.ends[at - 1] if at else 0
        pairs = Records(self.stack.path.with_name(PAIRS), PAIR).read(start, self.ends[at] - start)
        polygon = pairs["polygon"].astype(np.intp)
        return Band(rows, polygon, pairs["cell"], pairs["coverage"], self.stack, self.exposed_as, self.shares)

    def read(self) -> Iterator[Band]:
        """All bands with cells under polygons."""
        for rows in self.bands:
            band = self.band(rows)
            if band.cell.size:
                yield band


def lay_out(
    polygons: Polygons,
    responses: Sequence[str],
    overlay: Overlay,
    base: Layer | None,
    people: Layer | None,
    covariates: Sequence[Covariate],
    *,
    exposure: Exposure,
    spread_by: Layer | None = None,
    population_is: str,
    sd: Layer | None = None,
    sd_errors: str = TOGETHER,
    folder: Path,
    attempt: Attempt[Any] = plainly,
    tell: Tell = lambda text: None,
    places: Held[Any] = HERE,
) -> Layout:
    """Write which polygon covers which cell, and all rasters on the grid, into a folder.

    Parameters
    ----------
    polygons, responses
        Polygons as they were read, and their columns with totals.
    overlay, base
        Polygons on the target grid, and the raster that this was taken from.
    people, covariates
        Rasters.
    exposure, spread_by
        What cells are weighted by; and the raster that a column of the polygons is spread by, if not by area alone.
    population_is
        See `read_population_as`.
    sd, sd_errors
        Raster of standard deviations of the people, in their units, and how errors of its cells go together.
    folder
        Where to write; must exist.
    attempt
        Reads a raster: one for which it gives None is left out.
    tell
        Called with a few words before each step.
    places
        Where bands are found: in this process, or on workers that have the same files.
    """
    placed, grid = overlay.polygons, overlay.grid
    tell("reading rasters")
    totals = [float(polygons.frame[name].sum()) for name in responses]
    rasters, population = open_all(covariates, people, grid, population_is, totals, attempt, places)
    readers = [Reader("covariate-file", raster.alignment, attempt) for raster in rasters]
    lit = None if spread_by is None else _open_spread(spread_by, grid, attempt, places)
    if lit is not None:
        readers.append(Reader("spread-by-file", lit, attempt))
    doubts = None
    if population is not None:
        density = population[1].density
        doubts = None if sd is None else attempt(SD_FILE, sd.file, partial(_open_sd, sd, grid, density, sd_errors))
        if doubts is not None:
            readers.append(Reader(SD_FILE, doubts, attempt))
        population = replace(population[0], names=(exposure.kind,)), population[1]
        readers.append(Reader("population-file", population[0], attempt))
    errors = None if doubts is None else ErrorSums(doubts, sd_errors, len(placed))
    names = [name for reader in readers for name in reader.alignment.names]
    with_area = exposure.kind == "area" or exposure.column is not None or not names
    sums = None
    if exposure.column is not None:
        sums = ShareSums(polygons.frame[exposure.column].to_numpy(np.float64), spread_by)
    counts = _Counts(Records(folder / PAIRS, PAIR), len(placed))
    names += ["area"] if with_area else []
    _require_space(folder, NUMBER * len(names) * grid.n_cells)
    bands = tuple(grid.bands(_band_cells(grid, len(names))))
    survey = Survey.of(overlay, [reader.alignment for reader in readers], with_area)
    found = survey.in_order(bands, places)

    def rows_of(rows: slice) -> Planes:
        tell(f"aligning rasters: row {rows.stop:,} of {grid.height:,}")
        band = next(found)
        counts.add(band)
        planes = [reader.take(one, rows) for reader, one in zip(readers, band.planes, strict=False)]
        laid = np.concatenate([*planes, *map(result_of, band.planes[len(readers) :])])
        if errors is not None:
            sd_plane, people_plane = (laid[names.index(name)] for name in (PLANE, "population"))
            errors.add(band.pairs, rows, grid, sd_plane, people_plane)
        if sums is not None:
            sums.add(band.pairs, rows, grid, laid[-1], None if lit is None else laid[names.index(SPREAD)])
        return laid

    stack = Stack.write(folder / RAW, grid, names, rows_of, packed=False, bands=bands)
    unread = [reader.alignment for reader in readers if reader.failed]
    people_aligned, reading = (None, None) if population is None or population[0] in unread else population
    return Layout(
        polygons=polygons,
        placed=placed,
        responses=tuple(responses),
        grid=grid,
        base=base,
        kind=exposure.kind,
        covariates=tuple(raster for raster in rasters if raster.alignment not in unread),
        people=people_aligned,
        reading=reading,
        shares=None if sums is None else sums.shares(),
        spread_by=None if lit in unread else lit,
        stack=stack,
        bands=bands,
        ends=tuple(counts.ends),
        pixels=counts.pixels,
        covered=counts.covered,
        n_cells=counts.n_cells,
        errors=None if errors is None or doubts in unread else errors.found(),
    )


def _open_spread(layer: Layer, grid: Grid, attempt: Attempt[Any], places: Held[Any]) -> Alignment | None:
    """How the raster that a column is spread by comes to the grid: as a mean, like a covariate."""
    found, _ = open_all([Covariate(layer, False)], None, grid, "guess", (), attempt, places, "spread-by-file")
    return replace(found[0].alignment, names=(SPREAD,)) if found else None


def _open_sd(layer: Layer, grid: Grid, density: float | None, errors: str) -> Alignment:
    """How standard deviations come to the grid: as people do, or where errors are independent as their squares."""
    aligned = align_population(masked_near(layer, grid), grid, density)
    return replace(squared(aligned) if errors == INDEPENDENT else aligned, names=(PLANE,))


class _Counts:
    """Pairs of polygons and cells as they are found, which go to a file, and their numbers."""

    def __init__(self, records: Records, n_polygons: int) -> None:
        self.records = records
        self.ends: list[int] = []
        self.pixels, self.covered = np.zeros(n_polygons, np.int64), np.zeros(n_polygons)
        self.n_cells = 0

    def add(self, band: Found) -> None:
        pairs, start = band.pairs, self.ends[-1] if self.ends else 0
        self.records.write(pairs, [start], [len(pairs)])
        self.ends.append(start + len(pairs))
        self.pixels += np.bincount(pairs["polygon"], minlength=self.pixels.size)
        self.covered += cells_covered(pairs, self.covered.size)
        self.n_cells += band.n_cells


def _require_space(folder: Path, needed: float) -> None:
    """Refuse to begin what the disk cannot hold."""
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise ValueError(
            f"{folder.parent} must have {needed / 1e9:.1f} GB to spare for rasters on the target grid; it has "
            f"{free / 1e9:.1f} GB. Make room, or use a larger `--resolution`; for `vbagg check`, the variable TMPDIR "
            "names another folder."
        )


def _band_cells(grid: Grid, n_layers: int) -> int:
    """Cells of a band, in whole tiles of the stack."""
    return max(min(BAND_NUMBERS // n_layers, BAND_CELLS), TILE_ROWS * grid.width)
