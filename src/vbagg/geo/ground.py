"""New ground for a fitted model: another year, scenario or country, as polygons and layers on a grid.

Covariates are those of the model, each replaced by a new raster or taken from the run. Places are on the map of the
run, so that what the model says of a place is said of the same place.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import geopandas as gpd
import numpy as np
import shapely

from vbagg.errors import DataWarning, did_you_mean
from vbagg.geo.align import bounds_in
from vbagg.geo.bands import kept_open
from vbagg.geo.covariates import Covariate, File, masked_near, open_one, values_near
from vbagg.geo.exposure import Exposure
from vbagg.geo.files import output_folder, some
from vbagg.geo.grid import Bounds, Grid
from vbagg.geo.layout import lay_out
from vbagg.geo.overlay import Overlay
from vbagg.geo.polygons import Polygons, read_polygons
from vbagg.geo.population import READINGS
from vbagg.geo.prepare import from_layout, moved_to
from vbagg.geo.prepared import Prepared
from vbagg.geo.rasters import Layer, open_layers
from vbagg.geo.target import MOST_CELLS, target_grid
from vbagg.geo.workers import places_of
from vbagg.numerals import coordinate

TILE = 256
"""Cells along a side of the blocks that stand for polygons where all of a grid is mapped."""
EVERY_CELL = "every cell"
"""What messages call these blocks."""
SAME_GROUND = 0.5
"""Least part of a run's grid that a new raster must cover to be taken for another state of the same ground."""


def prepare_ground(
    run: Prepared,
    covariates: Mapping[str, File] | None = None,
    *,
    population: File | None = None,
    population_is: str = "guess",
    grid: File | None = None,
    polygons: Any = None,
    layer: str | None = None,
    id: str | None = None,
    missing: str = "nearest",
    folder: File,
    progress: Callable[[str], None] | None = None,
    client: Any = None,
) -> Prepared:
    """Bring new rasters to a grid, and list the pixels of polygons on it, as `prepare` does.

    Parameters
    ----------
    run
        What the model was fitted to.
    covariates
        New rasters by the names of the model's covariates; the others are taken from the run, within its grid. Of
        classes, the name is that before the `=`. Classes that the run has not are missing.
    population, population_is
        A new raster of people, and how it is read; the run's people otherwise.
    grid
        Raster whose cells are mapped. Default: those of the run if the polygons lie within its grid, or without
        polygons if each new raster covers at least half of it; else those of the new population, or of the first new
        covariate.
    polygons, layer, id
        File (or GeoDataFrame) with the areas that are mapped. Default: on the grid of the run its own polygons, on
        another grid every cell that has all covariates.
    missing
        `"nearest"` or `"drop"`: what becomes of missing covariates under polygons, see `plan_filling`. Where every cell
        is mapped, or some have classes that the run has not, those without a covariate are left out.
    folder
        Where the aligned layers and the table of pixels are written.
    progress, client
        As for `prepare`.
    """
    tell = progress or (lambda text: None)
    if population_is not in READINGS:
        raise ValueError(f"`population_is` must be one of {', '.join(map(repr, READINGS))}; got {population_is!r}.")
    given = _Given.opened(run, dict(covariates or {}), population)
    if not given.rasters and grid is None and polygons is None:
        raise ValueError(
            "Nothing is new: name a raster for a covariate by `--covariate NAME=FILE`, or `--population`, "
            "`--polygons` or `--grid`."
        )
    with output_folder(folder) as out, TemporaryDirectory(prefix=".layout-", dir=out) as scratch, kept_open():
        tell("reading polygons")
        shapes = None if polygons is None else read_polygons(polygons, id, layer)
        if shapes is not None and shapes.id.lower() == run.exposure:
            raise ValueError(f"{shapes.path}: an id must not be called {shapes.id!r}. Rename the column.")
        tell("reading rasters")
        target = _target(run, shapes, given.rasters, grid)
        is_tiled = shapes is None and target != run.stack.grid
        if shapes is None:
            shapes = _tiles(target) if is_tiled else run.polygons
        inputs = given.all_covariates(target, shapes, is_tiled)
        strange = [text for covariate in inputs if (text := strange_classes(covariate, target))]
        for text in strange:
            warnings.warn(text, DataWarning, stacklevel=2)
        tell("overlaying polygons")
        shapes = _plain(shapes, run)
        overlay = Overlay(shapes.to(target.crs), target).require_pairs()
        people, reading = given.people(population_is)
        layout = lay_out(
            shapes, (), overlay, None, people, inputs, exposure=Exposure(run.exposure), population_is=reading,
            folder=Path(scratch), tell=tell, places=places_of(client),
        )  # fmt: skip
        if given.population is None:  # which was read when the run was prepared
            layout = replace(layout, reading=None)
        made = moved_to(out, from_layout(layout, "drop" if is_tiled or strange else missing, Path(scratch), tell))
    own = shapes.file if is_tiled or polygons is None else ""
    notes = tuple(note for note in made.notes if not own or not note.startswith(f"{own}: "))
    return replace(made, notes=(*strange, *notes))


@dataclass(frozen=True)
class _Given:
    """What was given, opened, beside what the run has."""

    run: Prepared
    new: dict[str, Layer]
    population: Layer | None

    @classmethod
    def opened(cls, run: Prepared, covariates: dict[str, File], population: File | None) -> _Given:
        """Refuse names that the model does not know."""
        groups = groups_of(run.covariates)
        for name in covariates:
            if name not in groups:
                raise ValueError(f"The model has no covariate {name!r}{did_you_mean(name, groups)}")
            if groups[name].indicator in run.covariates:
                raise ValueError(
                    f"{name!r} cannot be replaced: where the run lacked it, it got one value for all and the column "
                    f"{groups[name].indicator!r}. Do the run with `--missing nearest` or `drop`."
                )
        if population is not None and run.exposure != "population":
            known = "expected counts" if run.exposure == "expected" else "square kilometres"
            raise ValueError(f"`--population` says nothing here: the rates of this run are per {known}. Leave it out.")
        layers = {name: replace(open_one(file), name=name) for name, file in covariates.items()}
        return cls(run, layers, None if population is None else open_one(population))

    @property
    def rasters(self) -> list[Layer]:
        """All that is new, the population first."""
        return [layer for layer in (self.population, *self.new.values()) if layer is not None]

    def all_covariates(self, grid: Grid, shapes: Polygons, is_tiled: bool) -> list[Covariate]:
        """New and old covariates in the order of the model."""
        groups, held = groups_of(self.run.covariates), self._held
        old = [name for name in groups if name not in self.new]
        old += ["population"] if self.run.exposure != "area" and self.population is None else []
        if old:
            self._require_within(grid, shapes, is_tiled, old)
        found = []
        for name, group in groups.items():
            if name in self.new:
                found.append(Covariate(self.new[name], group.classes is not None, group.classes))
            else:
                found += [Covariate(held[column], False) for column in group.columns]
        return found

    def people(self, population_is: str) -> tuple[Layer | None, str]:
        """The raster of people, or of what else rates are relative to, and how it is read."""
        if self.run.exposure == "area":
            return None, population_is
        if self.population is not None:
            return self.population, population_is
        return self._held[self.run.exposure], "counts"

    @property
    def _held(self) -> dict[str, Layer]:
        """Layers of the run by name."""
        stack = self.run.stack
        layers = open_layers(stack.path)
        return {name: replace(layer, name=name) for name, layer in zip(stack.names, layers, strict=True)}

    def _require_within(self, grid: Grid, shapes: Polygons, is_tiled: bool, old: list[str]) -> None:
        """Raise unless the run's own layers can serve where the new ground is."""
        own = self.run.stack.grid
        if grid == own:
            return
        wanted = bounds_in(grid, own.crs) if is_tiled else shapes.to(own.crs).bounds
        part = _part_within(wanted, own.bounds)
        if part < 1 and not (is_tiled and part > 0):
            options = [f"`--covariate {name}=FILE`" if name != "population" else "`--population`" for name in old]
            check = f" Check the CRS of {self.rasters[0].file}, if they should be the same." if self.rasters else ""
            raise ValueError(
                f"The new ground must lie within that of the run for what is taken from there; it covers "
                f"{_extent(wanted)}, and the run {_extent(own.bounds)}. Give {some(options, quote=False)}"
                f"{' too' if self.rasters else ''}.{check}"
            )


@dataclass(frozen=True)
class CovariateGroup:
    """Columns of the model that come from one raster.

    Attributes
    ----------
    name
        That of the raster.
    columns
        One, or one for each class.
    classes
        The classes; None if it is none of these.
    """

    name: str
    columns: tuple[str, ...]
    classes: tuple[float, ...] | None

    @property
    def indicator(self) -> str:
        """The column that says where values were missing, if the model has one."""
        return f"{self.name}_missing" if self.classes is None else f"{self.name}=missing"


def groups_of(covariates: tuple[str, ...]) -> dict[str, CovariateGroup]:
    """Columns of a model by the names of their rasters, in order."""
    found: dict[str, CovariateGroup] = {}
    for column in covariates:
        name, mark, value = column.rpartition("=")
        if not mark or not _is_number(value):
            found[column] = CovariateGroup(column, (column,), None)
            continue
        before = found.get(name, CovariateGroup(name, (), ()))
        found[name] = CovariateGroup(name, (*before.columns, column), (*(before.classes or ()), float(value)))
    return found


def strange_classes(covariate: Covariate, grid: Grid) -> str | None:
    """Which classes near a grid the run has not, in a sentence."""
    if covariate.classes is None:
        return None
    layer = masked_near(covariate.layer, grid)
    found = {value for values in values_near(layer, grid) for value in values.tolist()} - set(covariate.classes)
    if not found:
        return None
    names = some(sorted(f"{value:.10g}" for value in found), quote=False)
    return (
        f"{layer.file}: the run has no class {names} of {layer.name!r}; cells with no other class are left out, as "
        "nothing is known of them."
    )


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _extent(bounds: Bounds) -> str:
    left, bottom, right, top = map(coordinate, bounds)
    return f"x {left} to {right} and y {bottom} to {top}"


def _target(run: Prepared, shapes: Polygons | None, rasters: list[Layer], grid: File | None) -> Grid:
    """The grid that is mapped, which all new rasters reach, with places on the map of the run."""
    own, chosen = run.stack.grid, _chosen(run, shapes, rasters, grid)
    for layer in rasters:
        if _part_within(bounds_in(chosen, layer.grid.crs), layer.grid.bounds) == 0:
            raise ValueError(
                f"{layer.path} must overlap the new ground, {_extent(chosen.bounds)}; it does not. Check its extent "
                "and CRS."
            )
    same = chosen.offset_in(own) == (0, 0) and chosen.shape == own.shape
    return own if same else replace(chosen, centre=own.middle)


def _chosen(run: Prepared, shapes: Polygons | None, rasters: list[Layer], grid: File | None) -> Grid:
    """The cells that were asked for, or those of the run, or of the first new raster."""
    own = run.stack.grid
    if grid is not None:
        return _whole(open_layers(grid)[0]) if shapes is None else target_grid(shapes, grid=grid)
    if shapes is not None:
        if _part_within(shapes.to(own.crs).bounds, own.bounds) == 1:
            return own
        if not rasters:
            raise ValueError(
                f"{shapes.path}: polygons must lie on the grid of the run where no raster is new; some do not. Give "
                "rasters of the covariates there by `--covariate NAME=FILE`."
            )
        return target_grid(shapes, rasters[0])
    covered = [_part_within(own.bounds, bounds_in(layer.grid, own.crs)) for layer in rasters]
    for layer, part in zip(rasters, covered, strict=True):
        if 0 < part < SAME_GROUND:
            raise ValueError(
                f"{layer.path} covers {part:.0%} of the grid of the run, so that it is not clear which ground is "
                "meant. Name the raster whose cells are to be mapped by `--grid`, or areas by `--polygons`."
            )
    return own if any(covered) else _whole(rasters[0])


def _whole(layer: Layer) -> Grid:
    """All cells of a raster."""
    grid = layer.grid
    if not grid.is_upright:
        raise ValueError(f"{layer.path} must be north up and not rotated. Straighten it, for example with `gdalwarp`.")
    if grid.n_cells > MOST_CELLS:
        raise ValueError(
            f"{layer.path} must have at most {MOST_CELLS:,} cells to be mapped; it has {grid.n_cells:,}. Name areas by "
            "`--polygons`, or a coarser raster by `--grid`."
        )
    return grid


def _part_within(bounds: Bounds, other: Bounds) -> float:
    """Part of a rectangle that lies within another, to rounding."""
    sides = [(max(bounds[i], other[i]), min(bounds[i + 2], other[i + 2]), bounds[i + 2] - bounds[i]) for i in (0, 1)]
    part = math.prod(max(0.0, high - low) / whole if whole > 0 else 0.0 for low, high, whole in sides)
    return 1.0 if part > 1 - 1e-9 else part


def _tiles(grid: Grid) -> Polygons:
    """Blocks of cells in the place of polygons."""
    starts = [(row, column) for row in range(0, grid.height, TILE) for column in range(0, grid.width, TILE)]
    blocks = [grid.sub(slice(row, row + TILE), slice(column, column + TILE)).bounds for row, column in starts]
    frame = gpd.GeoDataFrame({"block": np.arange(1, len(blocks) + 1)}, geometry=[shapely.box(*b) for b in blocks])
    return Polygons(frame.set_crs(grid.crs), "block", EVERY_CELL)


def _plain(shapes: Polygons, run: Prepared) -> Polygons:
    """Polygons of which nothing is known: without totals, and without people that will be others."""
    frame = shapes.frame
    if shapes is run.polygons:
        frame = frame.drop(columns=run.exposure)
    return replace(shapes, frame=frame, uppers={}, tables={})
