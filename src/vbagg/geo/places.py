"""Places with coordinates: rows of a table with longitudes and latitudes, or points of a file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import geopandas as gpd
import numpy as np
import pandas as pd
import shapely
from numpy.typing import NDArray

from vbagg.errors import did_you_mean
from vbagg.geo.files import plural, some
from vbagg.geo.grid import crs_name, same_crs, transformer
from vbagg.geo.polygon_rows import read_own_rows
from vbagg.geo.responses import PLAIN, number_of
from vbagg.geo.table_lines import is_missing
from vbagg.geo.tables import Table, read_table

Floats = NDArray[np.float64]
DEGREES = "EPSG:4326"
OF_TABLES = (".csv", ".tsv", ".txt", ".xlsx")
OF_POINTS = (".gpkg", ".shp", ".geojson", ".json", ".fgb", ".gml", ".kml", ".zip")
"""Endings of files, by what these hold; Parquet may hold either."""


@dataclass(frozen=True, eq=False)
class Places:
    """Rows with a point each.

    Attributes
    ----------
    frame
        Their other columns, rows numbered from 0.
    points
        Coordinates x (or longitude) and y (or latitude) (n, 2).
    crs
        What these are in.
    path
        The file, for messages.
    lines
        Where each row is, such as "line 7".
    """

    frame: pd.DataFrame
    points: Floats
    crs: str
    path: str
    lines: Sequence[str]

    def __len__(self) -> int:
        return len(self.frame)

    @property
    def file(self) -> str:
        """The file's name without its folder."""
        return Path(self.path).name

    def on(self, crs: str) -> Floats:
        """Coordinates in another CRS (n, 2)."""
        if same_crs(self.crs, crs):
            return self.points
        moved = np.column_stack(transformer(self.crs, crs).transform(*self.points.T))
        if not np.isfinite(moved).all():
            gone = [self.lines[at] for at in np.flatnonzero(~np.isfinite(moved).all(axis=1)).tolist()]
            raise ValueError(
                f"{self.path}: places must lie where the map of the rasters is defined; {some(gone, quote=False)} "
                "do not. Correct their coordinates."
            )
        return moved


def read_places(
    source: str | os.PathLike[str] | pd.DataFrame,
    at: str | None = None,
    layer: str | None = None,
    sheet: str | None = None,
    called: str = "places",
) -> Places:
    """Read a table of places (CSV, Excel, Parquet), or a file of points (GeoPackage, shapefile, GeoJSON, GeoParquet).

    Parameters
    ----------
    source
        The file; or a data frame, with a geometry or without.
    at
        Columns of a table with longitudes and latitudes in degrees (WGS 84), as in `"lon,lat"`.
    layer, sheet
        Layer of a file of points; sheet of a workbook.
    called
        What a data frame is called in messages.
    """
    if at is None:
        return _points(source, layer, called)
    if isinstance(source, gpd.GeoDataFrame) or _ends_in(source, OF_POINTS):
        what = called if isinstance(source, pd.DataFrame) else os.fspath(source)
        raise ValueError(f"`--at` names columns of a table; {what} has points of its own. Leave it out.")
    names = tuple(name.strip() for name in at.split(","))
    if len(names) != 2 or not all(names) or names[0] == names[1]:
        raise ValueError(
            f"`--at` must name two columns, with longitudes and latitudes in degrees, as in `--at lon,lat`; got {at!r}."
        )
    remedy = "Name the columns with longitudes and latitudes by `--at LON,LAT`."
    table = read_table(source, names[0], sheet, "with longitudes", remedy, called)
    if names[1] not in table.header:
        raise ValueError(
            f"{table.path} has no column {names[1]!r} with latitudes"
            f"{did_you_mean(names[1], [name for name in table.header if name])} {remedy}"
        )
    longitude = _degrees(table, names[0], -180, 360, "longitudes")
    latitude = _degrees(table, names[1], -90, 90, "latitudes")
    columns = {name: values for name, values in table.columns().items() if name not in names}
    points = np.column_stack([longitude, latitude])
    return Places(pd.DataFrame(columns, index=range(len(points))), points, DEGREES, table.path, table.places)


def _ends_in(source: Any, endings: tuple[str, ...]) -> bool:
    return not isinstance(source, pd.DataFrame) and Path(os.fspath(source)).suffix.lower() in endings


def _degrees(table: Table, name: str, least: float, most: float, what: str) -> Floats:
    """Numbers of a column, all there and within bounds."""
    if (flaw := table.flaw(name)) is not None:
        raise ValueError(flaw)
    cells = table.cells(name)
    found = np.array([np.nan if is_missing(cell) else _number(cell) for cell in cells])
    bad = np.flatnonzero(~((found >= least) & (found <= most)))
    if bad.size:
        first = int(bad[0])
        got = "nothing" if is_missing(cells[first]) else repr(cells[first])
        more = f", the first of {plural(bad.size, 'such row')}" if bad.size > 1 else ""
        remedy = "Fill it in, or leave out the row."
        if not is_missing(cells[first]):
            remedy = "Write degrees with a decimal point, longitude first in `--at LON,LAT`; no metres of a map."
        raise ValueError(
            f"{table.path} must hold {what} from {least:g} to {most:g} degrees in column {name!r}; "
            f"{table.places[first]} has {got}{more}. {remedy}"
        )
    return found


def _number(cell: Any) -> float:
    """A plain number: a comma may be that of thousands or of decimals."""
    if isinstance(cell, str):
        return float(cell) if PLAIN.fullmatch(cell.strip()) else np.nan
    return float(cell) if isinstance(cell, Decimal) else number_of(cell)


def _points(source: Any, layer: str | None, called: str) -> Places:
    """Places of a file, or data frame, that has points."""
    if _ends_in(source, OF_TABLES) or (isinstance(source, pd.DataFrame) and not isinstance(source, gpd.GeoDataFrame)):
        what = called if isinstance(source, pd.DataFrame) else os.fspath(source)
        raise ValueError(
            f"{what} is a table, whose places are told by two of its columns. Name those with longitudes and latitudes "
            "by `--at LON,LAT`."
        )
    rows = read_own_rows(source, layer)
    frame, path = rows.frame, called if isinstance(source, pd.DataFrame) else rows.path
    lines = [f"row {number}" for number in range(1, len(frame) + 1)]
    if frame.empty:
        raise ValueError(f"{path} must hold at least one point; it is empty.")
    if frame.crs is None:
        raise ValueError(f"{path} must say its coordinate reference system; it has none. Add it.")
    shapes = np.asarray(frame.geometry.array)
    wrong = [at for at, shape in enumerate(shapes) if shape is None or shape.geom_type != "Point" or shape.is_empty]
    if wrong:
        shape = shapes[wrong[0]]
        got = "no geometry" if shape is None or shape.is_empty else f"a {shape.geom_type}"
        raise ValueError(
            f"{path} must hold a point in every row; {lines[wrong[0]]} has {got}. Give it a point, or leave it out."
        )
    attributes = pd.DataFrame(frame.drop(columns="geometry"))
    return Places(attributes, shapely.get_coordinates(shapes), crs_name(frame.crs.to_wkt()), path, lines)
