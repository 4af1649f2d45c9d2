"""Survey points: how many can be used, where they lie, and what they hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import shapely
from numpy.typing import NDArray

from vbagg.doctor.findings import Gathered
from vbagg.doctor.overlaid import Overlaid
from vbagg.doctor.words import number
from vbagg.geo.files import some
from vbagg.geo.grid import Grid
from vbagg.geo.points import TRIALS, observed_as
from vbagg.geo.surveyed import Surveys, surveyed_by
from vbagg.numerals import rate

if TYPE_CHECKING:
    from vbagg.workflow.settings import Data, Model

BEYOND = 0.1
"""Part of a covariate's range in polygons by which a point may lie outside of it before it is told."""


def read_surveys(data: Data, found: Gathered) -> Surveys | None:
    """Read the points as far as they can be read."""
    words = (data.points, data.at, data.point_response, data.point_trials, data.point_people, data.point_crs)
    where = "settings" if data.points is None else data.points.name

    def work() -> Surveys | None:
        by = surveyed_by(*words, data.point_sheet)
        return None if by is None else by.read()

    surveys = found.attempt("points", where, work)
    if surveys is not None:
        _check_rows(surveys, found)
    return surveys


def check_use(surveys: Surveys, model: Model, exposure: str, found: Gathered) -> None:
    """Look at how a model is to see points."""
    asked = (surveys.by.sized_by, model.likelihood, model.point_likelihood, model.point_slope, exposure)
    found.attempt("points", "settings", lambda: observed_as(*asked))


def lie_on(grid: Grid, surveys: Surveys, found: Gathered) -> bool:
    """Whether most points lie on the target grid."""
    return found.attempt("points", surveys.places.file, lambda: surveys.cells(grid)) is not None


def _check_rows(surveys: Surveys, found: Gathered) -> None:
    """Rows that say nothing, and places that are there several times."""
    places, file = surveys.places, surveys.places.file
    for note in places.table.of.notes:
        found.add("advice", "assumed", f"{file}: {note}", file)
    for reason, which in surveys.gaps.items():
        text = f"{file}: {number(int(which.sum()), 'point has', 'points have')} {reason} ({_where(surveys, which)})"
        found.add(
            "warning", "points-left-out", f"{text} and will be left out. Correct them if they are mistakes.", file
        )
    usable = np.flatnonzero(surveys.usable)
    at = np.column_stack([places.x[usable], places.y[usable]])
    _, place, times = np.unique(at, axis=0, return_inverse=True, return_counts=True)
    again = np.zeros(len(places), dtype=bool)
    again[usable[times[place.ravel()] > 1]] = True
    rows = [tuple(map(str, places.table.lines[row].cells)) for row in usable]
    if len(set(rows)) < len(rows):
        text = (
            f"{file}: {number(len(rows) - len(set(rows)), 'row is', 'rows are')} there twice, with the same in every "
            "column. Remove those that stand for the same survey: each counts."
        )
        found.add("warning", "points-twice", text, file)
    elif again.any():
        text = (
            f"{file}: {number(int(again.sum()), 'point shares its place', 'points share their places')} with others "
            f"({_where(surveys, again)}). That is right for several surveys of one place; each counts."
        )
        found.add("advice", "points-at-one-place", text, file)


def check_points(surveys: Surveys, laid: Overlaid, found: Gathered) -> dict[str, Any]:
    """Look at points on the grid, some of which lie on it; facts about them."""
    places, file, grid = surveys.places, surveys.places.file, laid.grid
    cell, usable = surveys.cells(grid), surveys.usable
    off = usable & (cell < 0)
    if off.any():
        text = (
            f"{file}: {number(int(off.sum()), 'point lies', 'points lie')} off the target grid "
            f"({_where(surveys, off)}) and will be left out. Check their coordinates."
        )
        found.add("warning", "points-left-out", text, file)
    here = usable & ~off
    inside = _polygons_of(surveys, laid, here)
    if outside := int((here & (inside == 0)).sum()):
        text = (
            f"{file}: {number(outside, 'point lies', 'points lie')} on the grid but in no polygon "
            f"({_where(surveys, here & (inside == 0))}); the fit learns from them too. Check their "
            "coordinates if they should lie inside."
        )
        found.add("advice", "points-outside", text, file)
    above = here & (surveys.found > surveys.size) & (laid.kind == "population")
    if above.any():
        text = (
            f"{file}: {surveys.by.response} exceeds {surveys.by.size} at {number(int(above.sum()), 'point', 'points')} "
            f"({_where(surveys, above)}). Were the columns exchanged?"
        )
        found.add("warning", "points-above", text, file)
    _check_covariates(surveys, laid, cell, here, found)
    facts: dict[str, Any] = {
        "file": file,
        "number": int(here.sum()),
        "left_out": int((~here).sum()),
        "cells": int(np.unique(cell[here]).size),
        "in_polygons": int((here & (inside > 0)).sum()),
        "found": {"name": surveys.by.response, "sum": float(surveys.found[here].sum())},
    }
    if surveys.by.size is not None:
        facts["size"] = {"name": surveys.by.size, "sum": float(surveys.size[here].sum())}
    if surveys.by.sized_by == TRIALS and surveys.found[here].sum() in (0, surveys.size[here].sum()):
        what = "none" if not surveys.found[here].any() else "all"
        text = f"{places.path}: {what} of those examined at points are positive: they say little of where rates differ."
        found.add("warning", "points-alike", text, file)
    return facts


def _polygons_of(surveys: Surveys, laid: Overlaid, here: NDArray[np.bool_]) -> NDArray[np.intp]:
    """In how many polygons each of these points lies."""
    inside = np.zeros(len(here), dtype=np.intp)
    rows = np.flatnonzero(here)
    x, y = surveys.places.at_grid(laid.grid)
    tree = shapely.STRtree(laid.polygons.geometry)
    row, _ = tree.query(shapely.points(x[rows], y[rows]), predicate="intersects")
    np.add.at(inside, rows[row], 1)
    return inside


def _check_covariates(
    surveys: Surveys, laid: Overlaid, cell: NDArray[np.int64], here: NDArray[np.bool_], found: Gathered
) -> None:
    """Points in cells without covariates, and with values that polygons do not have."""
    file, rows = surveys.places.file, np.flatnonzero(here)
    missing = np.zeros(len(here), dtype=bool)
    for raster in laid.rasters:
        values = laid.layout.stack.at(cell[rows], raster.alignment.names[:1])[:, 0].astype(np.float64)
        missing[rows[np.isnan(values)]] = True
        if raster.is_category or not raster.has_values:
            continue
        spare = BEYOND * (raster.high - raster.low)
        far = np.zeros(len(here), dtype=bool)
        far[rows[(values < raster.low - spare) | (values > raster.high + spare)]] = True
        if far.any():
            held = values[far[rows]]
            text = (
                f"{file}: {number(int(far.sum()), 'point lies', 'points lie')} where {raster.layer.name!r} is far "
                f"outside of what it is in polygons, {rate(raster.low)} to {rate(raster.high)}: from "
                f"{rate(held.min())} to {rate(held.max())} ({_where(surveys, far)}). Check their coordinates."
            )
            found.add("warning", "points-beyond", text, file)
    if missing.any():
        text = (
            f"{file}: {number(int(missing.sum()), 'point lies', 'points lie')} in cells where a covariate is missing "
            f"({_where(surveys, missing)}). Such cells outside of polygons stay without, and their points are left out."
        )
        found.add("warning" if missing.sum() > BEYOND * len(rows) else "advice", "points-in-gaps", text, file)


def _where(surveys: Surveys, which: NDArray[np.bool_]) -> str:
    return some([surveys.places.where[at] for at in np.flatnonzero(which).tolist()], quote=False)
