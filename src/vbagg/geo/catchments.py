"""Facilities whose catchments share cells: polygons stand for them on maps, shares say who attends which.

A facility's pixels are all cells from which anybody attends it, and their coverage is the part of the cell's people who
do. Its polygon is where its share is the largest of all: the outline by which maps and tables show it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import geopandas as gpd
import numpy as np
import pandas as pd
import shapely
from numpy.typing import NDArray

from vbagg.errors import did_you_mean
from vbagg.geo.area_shares import COLUMNS, read_shares
from vbagg.geo.bounds import Interval
from vbagg.geo.cell_shares import attendance
from vbagg.geo.covariates import open_one
from vbagg.geo.exposure import BY_AREA, Exposure
from vbagg.geo.files import plural, some
from vbagg.geo.grid import Floats, Grid
from vbagg.geo.joining import JoinedBy
from vbagg.geo.places import Places, read_places
from vbagg.geo.polygon_rows import PolygonRows
from vbagg.geo.polygons import Polygons, checked, read_polygons
from vbagg.geo.told import NOTHING, Told
from vbagg.geo.travel import travel_minutes

Tell = Callable[[str], None]
CATCHMENT = "catchment"
"""What rows are called that stand for facilities."""
EQUAL_AREA = "EPSG:6933"


class Catchments(Protocol):
    """Which part of the people of a cell attend which facility."""

    @property
    def n_facilities(self) -> int:
        """Number of facilities."""
        ...

    @property
    def crs(self) -> str:
        """What outlines are in."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What was assumed, in sentences."""
        ...

    def pairs(self, grid: Grid, rows: slice = ...) -> pd.DataFrame:
        """Facilities and cells of some rows of a grid, with the share as `coverage`: see `Overlay.pairs`."""
        ...

    def served(self, grid: Grid, rows: slice) -> Floats:
        """Part of each cell of some rows whose people are counted as attending some facility or none."""
        ...

    def expected_pixels(self, grid: Grid) -> float:
        """About how many pairs there are on a grid."""
        ...

    def outlines(self) -> NDArray[Any]:
        """A shape for each facility."""
        ...


def catchments_of(
    facilities: pd.DataFrame, shares: Catchments, response: str | Sequence[str] = (), *, id: str | None = None
) -> Polygons:
    """Catchments by shares of one's own.

    Parameters
    ----------
    facilities
        A row for each facility, in the order of the shares, with its totals.
    shares
        Such as `attendance` gives them.
    response, id
        Column or columns with what was counted at each facility, and the column with ids of facilities.

    Returns
    -------
    A polygon for each facility, for `prepare`.
    """
    if len(facilities) != shares.n_facilities:
        raise ValueError(
            f"`facilities` must have a row for each of the {shares.n_facilities} facilities of the shares, in their "
            f"order; it has {len(facilities)}."
        )
    return _outlined(_with_totals(facilities.reset_index(drop=True), "facilities", id, response), shares)


def catchments_from_shares(
    areas: str | os.PathLike[str] | gpd.GeoDataFrame,
    id: str | None,
    shares: str | os.PathLike[str] | pd.DataFrame,
    response: str | Sequence[str] = (),
    *,
    layer: str | None = None,
    share_columns: Sequence[str] = COLUMNS,
    totals: str | os.PathLike[str] | pd.DataFrame | None = None,
    on: str | None = None,
    sheet: str | None = None,
    unmatched: str = "refuse",
    marks: Mapping[str, Interval] | None = None,
    negative: bool = False,
    told: Told = NOTHING,
    exposure: Exposure = BY_AREA,
) -> Polygons:
    """Catchments by a table that says which part of the people of an area attend which facility.

    Parameters
    ----------
    areas, id, layer
        Polygons of small areas, the column with their ids, and the file's layer.
    shares, share_columns
        A table with a row for each area and facility, and its columns with ids of areas, ids of facilities and shares
        from 0 to 1. Those of an area add up to at most 1; people that are left attend none.
    response
        Column or columns of `totals` with what was counted at each facility.
    totals, on, sheet
        A table with a row for each facility, its column with the ids of facilities (default: named as in `shares`), and
        the sheet of a workbook.
    unmatched
        `"refuse"` or `"drop"`: what becomes of rows of either table that match nothing.
    marks
        What marks of suppressed totals stand for: see `marks_of`.
    negative, told
        Whether totals may be negative, and columns that say how they came about: see `read_polygons`.
    exposure
        What cells are weighted by, for messages.

    Returns
    -------
    A polygon for each facility, for `prepare`.
    """
    _require_names(share_columns)
    if id is None:
        raise ValueError("Areas are matched with shares by their ids. Name the column of the areas by `--id`.")
    facility = share_columns[1]
    polygons = read_polygons(areas, id, layer)
    found, labels = read_shares(shares, polygons, share_columns, None, unmatched)
    table = None
    if totals is not None:
        source = totals if isinstance(totals, pd.DataFrame) else os.fspath(totals)
        table = JoinedBy(source, facility, _column_on(on, facility), sheet, unmatched)
    path = "shares" if isinstance(shares, pd.DataFrame) else os.fspath(shares)
    frame = pd.DataFrame({facility: labels})
    known = _with_totals(frame, path, facility, response, table, exposure, marks=marks, negative=negative, told=told)
    note = (
        f"{known.file}: {plural(len(labels), CATCHMENT)} share {plural(int((found.sums > 0).sum()), 'area')} of "
        f"{polygons.file}. On maps and in tables of polygons, each has the areas where its share is the largest."
    )
    return _outlined(known, replace(found, notes=(*polygons.notes, *found.notes, note)))


def catchments_by_travel(
    facilities: str | os.PathLike[str] | pd.DataFrame,
    friction: str | os.PathLike[str],
    decay: float,
    reach: float,
    response: str | Sequence[str] = (),
    *,
    at: str | None = None,
    id: str | None = None,
    layer: str | None = None,
    attraction: str | None = None,
    staying: float = 0.0,
    table: JoinedBy | None = None,
    marks: Mapping[str, Interval] | None = None,
    negative: bool = False,
    told: Told = NOTHING,
    exposure: Exposure = BY_AREA,
    progress: Tell | None = None,
) -> Polygons:
    """Catchments by travel time: of facilities within reach, nearer ones are attended by more (see `attendance`).

    Parameters
    ----------
    facilities, id, layer
        Table or file of points, the column with ids of facilities, and the file's layer.
    friction
        Raster of the minutes that it takes to cross a cell.
    decay, reach
        Minutes by which a facility must be farther away to attract 1 / e of what it does; and minutes beyond which
        nobody travels.
    response
        Column or columns with what was counted at each facility.
    at
        Columns of a table with longitudes and latitudes in degrees, as in `"lon,lat"`.
    attraction
        Column with how much each facility attracts, such as its beds. Default: all alike.
    staying
        Attraction of attending none, in the same units: see `attendance`.
    table
        A table whose columns come to those of the facilities: see `joined_by`.
    marks
        What marks of suppressed totals stand for: see `marks_of`.
    negative, told
        Whether totals may be negative, and columns that say how they came about: see `read_polygons`.
    exposure
        What cells are weighted by, for messages.
    progress
        Called with a few words before each facility.

    Returns
    -------
    A polygon for each facility, for `prepare`.
    """
    places = read_places(facilities, at, layer=layer, called="facilities", words=("--at", "")).require_all()
    totals_as: dict[str, Any] = {"marks": marks, "negative": negative, "told": told}
    known = _with_totals(places.frame, places.path, id, response, table, exposure, places.where, **totals_as)
    attracts = None if attraction is None else _attractions(known, places, attraction)
    raster = open_one(friction)
    labels = known.labels.tolist()
    minutes = travel_minutes(raster, places.on_map(raster.grid.crs), reach, labels, progress)
    found = attendance(minutes, decay, attracts, staying)
    note = (
        f"{places.file}: {plural(len(labels), CATCHMENT)} share cells by travel time over {raster.file}, by gravity "
        f"with a decay of {decay:g} minutes and a reach of {reach:g}"
        f"{f', staying counting as {staying:g}' if staying else ''}. On maps and in tables of polygons, each has the "
        "cells where its share is the largest."
    )
    return _outlined(known, replace(found, notes=(*found.notes, note)))


def _with_totals(
    frame: pd.DataFrame,
    path: str,
    id: str | None,
    response: str | Sequence[str],
    table: JoinedBy | None = None,
    exposure: Exposure = BY_AREA,
    lines: Sequence[str] | None = None,
    **totals_as: Any,
) -> Polygons:
    """Facilities with their totals, as squares: so all tables are looked at before work that takes long."""
    squares = [shapely.box(2 * at, 0, 2 * at + 1, 1) for at in range(len(frame))]
    rows = PolygonRows(gpd.GeoDataFrame(frame, geometry=squares, crs=EQUAL_AREA), path, noun=CATCHMENT, lines=lines)
    if table is not None:
        rows = table.join(rows, id)
    responses = (response,) if isinstance(response, str) else tuple(response)
    return checked(rows, id, responses, exposure, **totals_as)


def _outlined(known: Polygons, catchments: Catchments) -> Polygons:
    """The facilities with their catchments, and outlines of these in the place of squares."""
    shapes = shapely.make_valid(shapely.force_2d(catchments.outlines()))
    frame = known.frame.set_geometry(gpd.GeoSeries(shapes, crs=catchments.crs))
    return replace(known, frame=frame, notes=(*known.notes, *catchments.notes), catchments=catchments)


def _attractions(known: Polygons, places: Places, name: str) -> Floats:
    if name not in known.frame or name == "geometry":
        columns = [str(column) for column in known.frame.columns if column != "geometry"]
        raise ValueError(f"{places.path} has no column {name!r} for `--attraction`{did_you_mean(name, columns)}")
    values = pd.to_numeric(known.frame[name], errors="coerce").to_numpy(dtype=np.float64)
    bad = known.labels[~(np.isfinite(values) & (values > 0))].tolist()
    if bad:
        raise ValueError(
            f"{known.path_of(name)}: the column {name!r} must hold a number above 0 for every facility, since people "
            f"are attracted by it; it does not for {some(bad)}. Fill it in, or leave out facilities nobody attends."
        )
    return values


def _require_names(columns: Sequence[str]) -> None:
    if len(columns) != len(COLUMNS) or not all(columns) or len(set(columns)) != len(COLUMNS):
        raise ValueError(
            "`--share-columns` must name three columns, of areas, facilities and shares, as in "
            f"`--share-columns area,facility,share`; got {','.join(columns)!r}."
        )


def _column_on(on: str | None, facility: str) -> str:
    """The column of the table of totals with the ids of facilities."""
    key, _, column = (on or facility).partition("=")
    if column and key.strip() != facility:
        raise ValueError(
            f"`--on` must join totals to the column {facility!r} of the table of shares; got {on!r}. Write "
            f"`--on {facility}={column.strip()}`."
        )
    return (column or key).strip()
