"""From files of polygons and rasters to a table of pixels and a stack of layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from vbagg.errors import unknown_name
from vbagg.geo.assumptions import with_told
from vbagg.geo.bands import kept_open
from vbagg.geo.bounds import marks_of
from vbagg.geo.catchment_words import CatchmentWords
from vbagg.geo.cell_features import cell_features
from vbagg.geo.covariates import File, Files, open_covariates, open_one
from vbagg.geo.described import described
from vbagg.geo.exposure import exposure_of
from vbagg.geo.files import output_folder, plural, some
from vbagg.geo.gaps import POLICIES, Group, plan_filling
from vbagg.geo.grid import Floats, Grid
from vbagg.geo.joining import joined_by
from vbagg.geo.layout import Layout, lay_out
from vbagg.geo.leaks import leaks_of
from vbagg.geo.overlay import Overlay, shares_inside
from vbagg.geo.people_errors import ERRORS, EXACT, TOGETHER, PopulationSd, population_sd_of, require_sound
from vbagg.geo.pixels import check_exposure, write_pixels
from vbagg.geo.polygons import Polygons, read_polygons
from vbagg.geo.population import READINGS
from vbagg.geo.prepared import PIXELS, STACK, Prepared
from vbagg.geo.surveyed import surveyed_by
from vbagg.geo.target import require_manageable, target_grid
from vbagg.geo.told import NOTHING, Told
from vbagg.geo.workers import most_pixels, places_of

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
    totals: Any = None,
    on: str | None = None,
    sheet: str | None = None,
    unmatched: str = "refuse",
    suppressed: str | Sequence[str] = (),
    negative: bool = False,
    categories: Files = (),
    resolution: float | None = None,
    grid: Grid | File | None = None,
    population_is: str = "guess",
    population_column: str | None = None,
    exposure_column: str | None = None,
    spread_by: File | None = None,
    completeness_column: str | None = None,
    population_sd: float | File | None = None,
    population_sd_column: str | None = None,
    population_errors: str = TOGETHER,
    shares: Any = None,
    share_columns: str | None = None,
    facilities: Any = None,
    at: str | None = None,
    friction: File | None = None,
    decay: float | None = None,
    reach: float | None = None,
    attraction: str | None = None,
    staying: float | None = None,
    missing: str = "nearest",
    points: Any = None,
    point_response: str | None = None,
    point_trials: str | None = None,
    point_people: str | None = None,
    point_crs: str | None = None,
    point_sheet: str | None = None,
    folder: File,
    progress: Callable[[str], None] | None = None,
    layout: Layout | None = None,
    client: Any = None,
) -> Prepared:
    """Read polygons and rasters, align them, and list the pixels of each polygon.

    Parameters
    ----------
    polygons, id, layer
        File (or GeoDataFrame) with the polygons, the column that names them (None: row numbers), and the file's layer.
        `Polygons` are taken as they are, as those of `catchments_from_shares` and `catchments_by_travel`.
    response
        Column or columns with the totals of the polygons. Those that are empty are missing; text such as `<5`, `1-4` or
        `>=100` gives bounds.
    totals, on, sheet, unmatched
        A table (file or DataFrame) with columns for the polygons, and how it is joined to them: see `joined_by`.
    suppressed
        What a mark in the place of a total stands for: see `marks_of`.
    negative
        Whether totals may be negative numbers, as those of the likelihood `normal`; they are no counts then, and have
        no bounds.
    population
        Raster of people. Without it, weights are areas.
    covariates
        Raster files; `file::name` means one layer of a file. A mapping gives them other names.
    categories
        Raster files of classes; each class becomes a column that holds its share of the cell, named `layer=value`.
    resolution, grid
        The target grid: see `target_grid`. Default: the cells of the population raster (or of that to spread by, or of
        the first covariate).
    population_is
        `"counts"`, `"density"` or `"guess"`: see `read_population_as`.
    population_column, exposure_column
        Column of the polygons with their people, or with the counts that would be expected in them, in the place of a
        raster of people; rates are then relative risks.
    spread_by
        Raster by which such a column is spread over the cells of each polygon: a cell's share is proportional to its
        area times its value. Default: by area.
    completeness_column
        Column of the polygons with the share of what occurs that is reported, above 0 and at most 1.
    population_sd, population_sd_column, population_errors
        How far off people may be, as a standard deviation: a number relative to the people of each polygon, a column of
        such numbers, or a raster of that of the people in each cell, in the units of `population`; and whether errors
        of its cells are `"shared"` within a polygon, so that standard deviations add up, or `"independent"`.
    shares, share_columns
        A table (file or DataFrame) of the parts of the people of polygons who attend facilities, and its columns, such
        as `"area,facility,share"`; totals are then those of facilities. See `catchments_from_shares`.
    facilities, at, friction, decay, reach, attraction, staying
        Facilities in the place of polygons, which share cells by travel time: see `catchments_by_travel`.
    missing
        `"nearest"`, `"drop"` or `"median"`: what becomes of missing covariates, see `fill`.
    points, at, point_response, point_trials, point_people, point_crs, point_sheet
        Surveys at points: a file, DataFrame or GeoDataFrame, where these are, and what was found; see `surveyed_by`.
    folder
        Where the aligned layers and the table of pixels are written. `Prepared.save` puts the rest beside them.
    progress
        Called with a few words before each step.
    layout
        What the check made of the same inputs. By default it is made here.
    client
        A `distributed.Client` of Dask, whose workers overlay polygons and align rasters; they must have the same files
        under the same paths. What is written is the same.

    Notes
    -----
    Everything is read and written in bands of rows, so that memory does not grow with the rasters or the pixels. More
    pixels than a fit can hold, here or on the workers, are refused before any raster is read.
    """
    for name, value, known in (
        ("missing", missing, POLICIES),
        ("population_is", population_is, READINGS),
        ("population_errors", population_errors, ERRORS),
    ):
        if value not in known:
            raise unknown_name(name, value, known)
    surveyed = surveyed_by(points, at, point_response, point_trials, point_people, point_crs, point_sheet)
    tell = progress or (lambda text: None)
    responses = (response,) if isinstance(response, str) else tuple(response)
    exposure = exposure_of(population, population_column, exposure_column, spread_by)
    doubt = population_sd_of(population_sd, population_sd_column, population_errors, population, exposure)
    told_by = Told(completeness_column, population_sd_column)
    words = CatchmentWords(shares, share_columns, facilities, at, friction, decay, reach, attraction, staying)
    words.require(polygons, totals, exposure, points)
    table = None if words.are_given else joined_by(totals, on, sheet, unmatched)
    marks = marks_of(suppressed)
    with output_folder(folder) as out, TemporaryDirectory(prefix=".layout-", dir=out) as scratch, kept_open():
        if surveyed is not None:
            tell("reading points")
        surveys = None if surveyed is None else surveyed.read()
        if layout is None:
            tell("reading polygons")
            if words.are_given:
                shapes = words.read(
                    polygons, id, responses, layer=layer, totals=totals, on=on, sheet=sheet, unmatched=unmatched,
                    suppressed=suppressed, negative=negative, told=told_by, exposure=exposure, tell=tell,
                )  # fmt: skip
            elif isinstance(polygons, Polygons):
                shapes = polygons
            else:
                shapes = read_polygons(polygons, id, layer, responses, table, exposure, marks, negative, told_by)
            for name in (shapes.id, *responses):
                if name.lower() == exposure.kind:
                    raise ValueError(
                        f"{shapes.path}: an id or a response must not be called {name!r}. Rename the column."
                    )
            tell("reading rasters")
            people = None if population is None else open_one(population)
            lit = None if spread_by is None else open_one(spread_by)
            sd = None if doubt.file is None else open_one(doubt.file)
            inputs = open_covariates(covariates, categories)
            base = people or lit or next((covariate.layer for covariate in inputs), None)
            target = target_grid(shapes, base, resolution, grid)
            require_manageable(shapes, target, most_pixels(client, len(inputs) + 2))
            if surveys is not None:
                surveys.cells(target)  # those that lie elsewhere are refused before rasters are read
            tell("overlaying polygons")
            overlay = Overlay(shapes.to(target.crs), target).require_pairs()
            layout = lay_out(
                shapes, responses, overlay, base, people, inputs,
                exposure=exposure, spread_by=lit, population_is=population_is, sd=sd, sd_errors=population_errors,
                folder=Path(scratch), tell=tell, places=places_of(client),
            )  # fmt: skip
        made = from_layout(layout, missing, Path(scratch), tell, told_by, doubt)
        if surveys is not None:
            placed = surveys.placed(made.stack.grid, lambda cells: cell_features(made, cells)[0])
            made = replace(made, points=placed, notes=(*made.notes, *placed.notes))
        return moved_to(out, made)


def moved_to(folder: Path, made: Prepared) -> Prepared:
    """The same with its layers and pixels in another folder."""
    stack = replace(made.stack, path=made.stack.path.replace(folder / STACK))
    return replace(made, stack=stack, table=made.table.replace(folder / PIXELS))


def from_layout(
    layout: Layout,
    missing: str,
    folder: Path,
    tell: Callable[[str], None],
    told_by: Told = NOTHING,
    doubt: PopulationSd = EXACT,
) -> Prepared:
    """Fill gaps, and write layers and pixels."""
    tell("filling gaps")
    gone = check_exposure(layout)
    if layout.errors is not None:
        require_sound(layout.errors, layout.polygons.labels)
    groups = [
        Group(one.alignment.layer.file, one.alignment.layer.name, one.alignment.names, one.is_category)
        for one in layout.covariates
    ]
    filling = plan_filling(layout.stack, groups, layout.read, missing, layout.kind)
    tell("writing layers")
    written = write_pixels(layout, filling, folder / STACK, folder / PIXELS)
    shapes, more = _with_totals(layout.polygons, written.totals, layout)
    shapes, told, assumed = with_told(shapes, told_by, doubt, layout.errors)
    return Prepared(
        polygons=shapes,
        stack=written.stack,
        table=folder / PIXELS,
        covariates=filling.names,
        responses=layout.responses,
        notes=(*_notes(layout), *filling.notes, *gone, *written.notes, *more, *assumed),
        exposure=layout.kind,
        is_spread=layout.shares is not None,
        told=told,
        is_shared=layout.placed.catchments is not None,
        described=described(filling, [one.alignment.layer for one in layout.covariates]),
    )


def _notes(layout: Layout) -> list[str]:
    """What was done to polygons and rasters to bring them together, and who belongs to no catchment."""
    leaks = leaks_of(layout)
    rasters = [one for one in (layout.people, layout.spread_by) if one is not None]
    aligned = [*(one.alignment for one in layout.covariates), *rasters]
    dark = None
    if layout.shares is not None and layout.spread_by is not None:
        dark = layout.shares.note(layout.placed, layout.spread_by.layer)
    return [
        *layout.placed.notes,
        *_gaps(layout.placed, layout.responses),
        *_placement(layout),
        *([layout.reading.note] if layout.reading else []),
        *([dark] if dark else []),
        *([] if leaks is None else [leaks.note(layout.kind, layout.placed.file)]),
        *(note for one in aligned for note in (*one.layer.notes, one.note) if note),
    ]


def _gaps(polygons: Polygons, responses: Sequence[str]) -> list[str]:
    """Notes on totals that are missing or suppressed."""
    labels = polygons.labels.tolist()
    return [gap.text for name in responses for gap in polygons.totals(name).gaps(name, polygons.file_of(name), labels)]


def _placement(layout: Layout) -> list[str]:
    """Notes on polygons that lie outside the grid, in whole or in part."""
    polygons = layout.placed
    reached = layout.pixels > 0
    inside = reached.astype(float)
    if polygons.catchments is None:
        inside = shares_inside(polygons, layout.grid, layout.covered)
    notes = []
    for which, what in (
        (~reached, "no cell of the target grid is covered by"),
        (reached & (inside < INSIDE), "what lies outside the target grid is left out of"),
    ):
        if which.any():
            count, names = plural(which.sum(), "polygon"), some(polygons.labels[which].tolist())
            notes.append(f"{polygons.file}: {what} {count} ({names}).")
    return notes


def _with_totals(polygons: Polygons, totals: Floats, layout: Layout) -> tuple[Polygons, list[str]]:
    """Polygons with their exposure as a column, and notes on those that have none."""
    frame, notes, exposure = polygons.frame, [], layout.kind
    if layout.shares is not None:  # without the rounding of sums
        totals = np.where(totals > 0, layout.shares.amounts, 0.0)
    for name in [name for name in frame if name.lower() == exposure and not np.array_equal(frame[name], totals)]:
        frame = frame.rename(columns={name: f"{name}_given"})
        notes.append(f"{polygons.file}: the column {name!r} was renamed {name + '_given'!r}.")
    frame = frame.assign(**{exposure: totals})
    empty = polygons.labels[totals == 0].tolist()
    if len(empty) == len(polygons):
        raise ValueError(f"{polygons.path}: at least one polygon must have {exposure}; none has.")
    if empty:
        count = plural(len(empty), "polygon")
        notes.append(f"{polygons.file}: left out because of no {exposure}: {count} ({some(empty)}).")
    return replace(polygons, frame=frame, catchments=None), notes
