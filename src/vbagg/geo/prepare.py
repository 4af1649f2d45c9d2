"""From files of polygons and rasters to a table of pixels and a stack of layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from vbagg.errors import unknown_name
from vbagg.geo.align import Alignment, align_population
from vbagg.geo.covariates import File, Files, align, masked_near, open_covariates, open_one
from vbagg.geo.files import output_folder, plural, some
from vbagg.geo.gaps import POLICIES, Group
from vbagg.geo.grid import Grid
from vbagg.geo.overlay import overlay, shares_inside
from vbagg.geo.pixels import pixel_table, write_filled
from vbagg.geo.polygons import Polygons, read_polygons
from vbagg.geo.population import READINGS, read_population_as
from vbagg.geo.prepared import STACK, Prepared
from vbagg.geo.stack import Planes, Stack
from vbagg.geo.target import target_grid

__all__ = ["Prepared", "prepare"]

INSIDE = 0.999  # part of a polygon within the grid below which it is reported


def prepare(
    polygons: Any,
    id: str | None,
    response: str | Sequence[str],
    population: File | None = None,
    covariates: Files = (),
    *,
    layer: str | None = None,
    categories: Files = (),
    resolution: float | None = None,
    grid: Grid | File | None = None,
    population_is: str = "guess",
    missing: str = "nearest",
    folder: File,
    progress: Callable[[str], None] | None = None,
) -> Prepared:
    """Read polygons and rasters, align them, and list the pixels of each polygon.

    Parameters
    ----------
    polygons, id, layer
        File (or GeoDataFrame) with the polygons, the column that names them (None: row numbers), and the file's layer.
    response
        Column or columns with the totals of the polygons.
    population
        Raster of people. Without it, weights are areas.
    covariates
        Raster files; `file::name` means one layer of a file. A mapping gives them other names.
    categories
        Raster files of classes; each class becomes a column that holds its share of the cell, named `layer=value`.
    resolution, grid
        The target grid: see `target_grid`. Default: the cells of the population raster (or of the first covariate).
    population_is
        `"counts"`, `"density"` or `"guess"`: see `read_population_as`.
    missing
        `"nearest"`, `"drop"` or `"median"`: what becomes of missing covariates, see `fill`.
    folder
        Where the aligned layers are written. `Prepared.save` puts the rest beside them.
    progress
        Called with a few words before each step.
    """
    for name, value, known in (("missing", missing, POLICIES), ("population_is", population_is, READINGS)):
        if value not in known:
            raise unknown_name(name, value, known)
    tell = progress or (lambda text: None)
    responses = (response,) if isinstance(response, str) else tuple(response)
    tell("reading polygons")
    shapes = read_polygons(polygons, id, layer, responses)
    exposure = "area" if population is None else "population"
    for name in (shapes.id, *responses):
        if name.lower() == exposure:
            raise ValueError(f"{shapes.path}: an id or a response must not be called {name!r}. Rename the column.")
    tell("reading rasters")
    people = None if population is None else open_one(population)
    inputs = open_covariates(covariates, categories)
    base = people or next((covariate.layer for covariate in inputs), None)
    target = target_grid(shapes, base, resolution, grid)
    tell("overlaying polygons")
    placed = shapes.to(target.crs)
    pairs = overlay(placed, target)
    notes = [*placed.notes, *_placement(placed, target, pairs)]
    tell("reading rasters")
    aligned = [align(covariate, target) for covariate in inputs]
    if people is not None:
        people = masked_near(people, target)
        reading = read_population_as(people, target, population_is, [shapes.frame[name].sum() for name in responses])
        aligned.append(replace(align_population(people, target, reading.density), names=("population",)))
        notes.append(reading.note)
    notes += [note for one in aligned for note in (*one.layer.notes, one.note) if note]
    groups = [
        Group(one.layer.file, one.layer.name, one.names, covariate.is_category)
        for one, covariate in zip(aligned, inputs, strict=False)
    ]
    with output_folder(folder) as out:
        raw = _write_raw(out / ".unfilled.tif", target, aligned, exposure, tell)
        try:
            tell("filling gaps")
            table = pixel_table(placed, pairs, raw, groups, missing, people)
            shapes, more = _with_totals(shapes, table.frame, exposure)
            tell("writing layers")
            stack = write_filled(out / STACK, raw, table)
        finally:
            raw.path.unlink(missing_ok=True)
    return Prepared(
        polygons=shapes,
        stack=stack,
        pixels=table.frame,
        covariates=table.filled.names,
        responses=responses,
        notes=(*notes, *table.notes, *more),
        exposure=exposure,
    )


def _placement(polygons: Polygons, grid: Grid, pairs: pd.DataFrame) -> list[str]:
    """Notes on polygons that lie outside the grid, in whole or in part."""
    if pairs.empty:
        raise ValueError(
            f"{polygons.path}: at least one polygon must lie on the target grid; none does. Check the CRS."
        )
    inside = shares_inside(polygons, grid, pairs)
    reached = np.isin(np.arange(len(polygons)), pairs["polygon"])
    notes = []
    for which, what in (
        (~reached, "no cell of the target grid is covered by"),
        (reached & (inside < INSIDE), "what lies outside the target grid is left out of"),
    ):
        if which.any():
            count, names = plural(which.sum(), "polygon"), some(polygons.labels[which].tolist())
            notes.append(f"{polygons.file}: {what} {count} ({names}).")
    return notes


def _write_raw(
    path: Path, grid: Grid, aligned: Sequence[Alignment], exposure: str, tell: Callable[[str], None]
) -> Stack:
    """Write all layers on the target grid as they are, with the exposure last."""

    def rows_of(rows: slice) -> Planes:
        tell(f"aligning rasters: row {rows.stop:,} of {grid.height:,}")
        planes = [one.read(rows) for one in aligned]
        if exposure == "area":
            planes.append(grid.areas(rows)[None].astype(np.float32))
        return np.concatenate(planes)

    names = [name for one in aligned for name in one.names]
    if exposure == "area":
        names.append(exposure)
    return Stack.write(path, grid, names, rows_of, packed=False)


def _with_totals(polygons: Polygons, pixels: pd.DataFrame, exposure: str) -> tuple[Polygons, list[str]]:
    """Polygons with their exposure as a column, and notes on those that have none."""
    position = pd.Index(polygons.labels).get_indexer(pixels["polygon"])
    totals = np.bincount(position, weights=pixels["weight"], minlength=len(polygons))
    frame, notes = polygons.frame, []
    for name in [name for name in frame if name.lower() == exposure]:
        frame = frame.rename(columns={name: f"{name}_given"})
        notes.append(f"{polygons.file}: the column {name!r} was renamed {name + '_given'!r}.")
    frame = frame.assign(**{exposure: totals})
    empty = polygons.labels[totals == 0].tolist()
    if len(empty) == len(polygons):
        raise ValueError(f"{polygons.path}: at least one polygon must have {exposure}; none has.")
    if empty:
        count = plural(len(empty), "polygon")
        notes.append(f"{polygons.file}: left out because of no {exposure}: {count} ({some(empty)}).")
    return replace(polygons, frame=frame), notes
