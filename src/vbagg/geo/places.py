"""Places with coordinates, such as surveys or facilities: a table with two columns of them, or a file of points."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import geopandas as gpd
import numpy as np
import pandas as pd
import shapely
from numpy.typing import NDArray

from vbagg.errors import did_you_mean
from vbagg.geo.earth import require_degrees, require_earth
from vbagg.geo.files import require_file, some
from vbagg.geo.grid import Floats, Grid, crs_name, is_geographic, transformer, unit
from vbagg.geo.longitudes import near
from vbagg.geo.polygon_rows import read_frame
from vbagg.geo.polygons import free_name
from vbagg.geo.responses import PLAIN
from vbagg.geo.table_lines import is_missing
from vbagg.geo.tables import Needed, Table, read_table
from vbagg.numerals import coordinate

DEGREES = "EPSG:4326"
USUAL = (("lon", "lat"), ("long", "lat"), ("lng", "lat"), ("longitude", "latitude"), ("x", "y"))
"""Names of columns with coordinates, in any case."""
LAYERS = (".gpkg", ".shp", ".geojson", ".json", ".fgb", ".gml", ".kml", ".zip", ".geoparquet")
"""Endings of files that have points of their own."""
FEW = 0.3
"""Part of the rows up to which coordinates that cannot be are taken for mistakes in these rows."""
OFF = -1
"""In the place of the number of a cell."""


@dataclass(frozen=True, eq=False)
class Places:
    """Rows with coordinates, in the order of their file.

    Attributes
    ----------
    table
        The rows, with what else is known of each.
    x, y
        Coordinates, NaN where a row has none.
    crs
        Coordinate reference system, as in `Grid`.
    at
        The columns that they are from, none for points of a file.
    crs_by
        How another CRS is named, for messages; nothing where the file says its own.
    counted
        A column of the table that only numbers the rows, if there is one.
    """

    table: Table
    x: Floats
    y: Floats
    crs: str
    at: tuple[str, ...]
    crs_by: str = ""
    counted: str | None = None

    def __len__(self) -> int:
        return len(self.x)

    @property
    def path(self) -> str:
        """The file, for messages."""
        return self.table.path

    @property
    def file(self) -> str:
        """Its name without its folder."""
        return self.table.file

    @property
    def where(self) -> list[str]:
        """Where each row is, such as "line 7"."""
        return self.table.places

    @property
    def frame(self) -> pd.DataFrame:
        """The other columns of the rows."""
        columns = {
            name: values for name, values in self.table.columns().items() if name not in (*self.at, self.counted)
        }
        return pd.DataFrame(columns, index=range(len(self)))

    def require_all(self) -> Places:
        """The same; raise if a row has no coordinates."""
        gone = np.flatnonzero(~self.has_place)
        if gone.size:
            more = f", the first of {gone.size:,} such rows" if gone.size > 1 else ""
            raise ValueError(
                f"{self.path} must say of every row where it is; {self.where[gone[0]]} has no coordinates{more}. Fill "
                "them in, or leave out the row."
            )
        return self

    def on_map(self, crs: str) -> Floats:
        """Coordinates (n, 2) of all rows in a CRS, in which each must have a place."""
        moved = np.column_stack(self._at(crs))
        gone = [self.where[at] for at in np.flatnonzero(~np.isfinite(moved).all(axis=1)).tolist()]
        if gone:
            raise ValueError(
                f"{self.path}: places must lie where the map of the rasters is defined; {some(gone, quote=False)} do "
                "not. Correct their coordinates."
            )
        return moved

    @property
    def has_place(self) -> NDArray[np.bool_]:
        """Which rows have coordinates."""
        return np.isfinite(self.x) & np.isfinite(self.y)

    def cells(self, name: str, use: str) -> list[Any]:
        """What a column holds; `use` says what it is needed for."""
        known = [column for column in self.table.header if column]
        if name not in known:
            raise ValueError(f"{self.path} has no column {name!r} {use}{did_you_mean(name, known)}")
        if (flaw := self.table.flaw(name)) is not None:
            raise ValueError(flaw)
        return self.table.cells(name)

    def on(self, grid: Grid, exchanged: bool = False) -> NDArray[np.int64]:
        """Number of the cell that each place lies in, `OFF` where there is none; with x and y exchanged if asked."""
        x, y = self.at_grid(grid, exchanged)
        column, row = grid.positions(x, y)
        with np.errstate(invalid="ignore"):
            inside = (column >= 0) & (column < grid.width) & (row >= 0) & (row < grid.height)
        cell = np.full(len(x), OFF, dtype=np.int64)
        cell[inside] = np.floor(row[inside]).astype(np.int64) * grid.width + np.floor(column[inside]).astype(np.int64)
        return cell

    def at_grid(self, grid: Grid, exchanged: bool = False) -> tuple[Floats, Floats]:
        """Coordinates in a grid's CRS, and in its range of longitudes, NaN where a row has no place there."""
        x, y = self._at(grid.crs, exchanged)
        if is_geographic(grid.crs):
            left, _, right, _ = grid.bounds
            x = near(x, (left + right) / 2, grid.crs)
        return x, y

    def degrees(self) -> tuple[Floats, Floats]:
        """Longitudes and latitudes, NaN where a row has no place."""
        return self._at(DEGREES)

    def _at(self, crs: str, exchanged: bool = False) -> tuple[Floats, Floats]:
        x, y = (self.y, self.x) if exchanged else (self.x, self.y)
        moved = transformer(self.crs, crs).transform(x, y)
        return tuple(np.where(np.isfinite(side), side, np.nan) for side in moved)  # type: ignore[return-value]


def read_places(
    source: str | os.PathLike[str] | pd.DataFrame,
    at: str | None = None,
    *,
    layer: str | None = None,
    crs: str | None = None,
    sheet: str | None = None,
    called: str = "points",
    words: tuple[str, str] = ("--at", "--point-crs"),
) -> Places:
    """Read a table of places, or a file of points.

    Parameters
    ----------
    source
        A table (CSV, Excel, Parquet or a data frame) with columns of coordinates, or a file of points (GeoPackage,
        shapefile, GeoJSON, GeoParquet or a GeoDataFrame).
    at
        The columns with longitudes (or x) and latitudes (or y): `"LON,LAT"`. Default: the first of the `USUAL` names.
    layer
        Layer of a file of points; needed if there are several.
    crs
        Coordinate reference system of these columns. Default: longitudes and latitudes on WGS 84.
    sheet
        Sheet of a workbook; needed if there are several.
    called
        What a data frame is called in messages.
    words
        Options that name `at` and `crs`, if there is one, for messages.
    """
    by_at, by_crs = words
    if isinstance(source, gpd.GeoDataFrame) or (not isinstance(source, pd.DataFrame) and _is_layer(os.fspath(source))):
        for word, value in ((by_at, at), (by_crs, crs)):
            if value is not None:
                what = called if isinstance(source, gpd.GeoDataFrame) else os.fspath(source)
                raise ValueError(f"{what} has points of its own; got `{word} {value}` too. Leave it out.")
        return _of_layer(source, layer, called)
    columns = None if at is None else _two_columns(at, by_at)
    needed = None
    if columns is not None:
        needed = Needed(columns[0], "of coordinates", f"Name both by `{by_at} LON,LAT`.")
    table = read_table(source, needed, sheet, called)
    columns = columns or _usual_columns(table, by_at)
    known = [name for name in table.header if name]
    for name in columns:
        if name not in known:
            raise ValueError(f"{table.path} has no column {name!r} of coordinates{did_you_mean(name, known)}")
        if table.header.count(name) > 1:
            raise ValueError(table.flaw(name))
    own = crs_name(crs or DEGREES)
    require_earth(own, f"`{by_crs}`")
    x, y = (_coordinates(table, name, is_geographic(own)) for name in columns)
    places = Places(table, x, y, own, columns, by_crs)
    _require_columns_of_degrees(places, by_at)
    return places


def _two_columns(at: str, word: str) -> tuple[str, str]:
    names = [name.strip() for name in at.split(",")]
    if len(names) != 2 or not all(names) or names[0] == names[1]:
        raise ValueError(f"`{word}` must name two columns, longitude first, such as `{word} lon,lat`; got {at!r}.")
    return names[0], names[1]


def _usual_columns(table: Table, word: str) -> tuple[str, str]:
    """Columns whose names say that they hold coordinates."""
    lower = {name.lower(): name for name in reversed(table.header)}
    for pair in USUAL:
        if all(name in lower for name in pair):
            return lower[pair[0]], lower[pair[1]]
    known = [name for name in table.header if name]
    raise ValueError(
        f"{table.path} must have columns of coordinates, such as lon and lat; it has {some(known)}. Name them by "
        f"`{word} LON,LAT`."
    )


def _coordinates(table: Table, name: str, in_degrees: bool) -> Floats:
    """Numbers, NaN where there is none."""
    found = np.full(len(table.lines), np.nan)
    for at, cell in enumerate(table.cells(name)):
        if is_missing(cell):
            continue
        is_number = isinstance(cell, int | float) and not isinstance(cell, bool)
        says_number = isinstance(cell, str) and PLAIN.fullmatch(cell.strip()) is not None
        if says_number or (is_number and np.isfinite(cell)):
            found[at] = float(cell)
        else:
            example = "decimal degrees, such as -18.91" if in_degrees else "a number, such as 532100.5"
            raise ValueError(
                f"{table.path}: coordinates in column {name!r} must be {example}; got {_shown(cell)} "
                f"({table.places[at]}). Correct it, or empty it to leave the row out."
            )
    return found


def _shown(cell: Any) -> str:
    return repr(cell) if isinstance(cell, str | int | float) else repr(str(cell))


def _require_columns_of_degrees(places: Places, word: str) -> None:
    """Raise for longitudes and latitudes that are none, and say whether they are exchanged, or metres."""
    if not is_geographic(places.crs):
        return
    quarter = np.pi / 2 / unit(places.crs)
    with np.errstate(invalid="ignore"):
        bad = (np.abs(places.y) > quarter) | (np.abs(places.x) > 4 * quarter)
        exchanged = (np.abs(places.x) <= quarter) & (np.abs(places.y) <= 4 * quarter)
    if not bad.any():
        return
    first, share = int(np.flatnonzero(bad)[0]), bad.sum() / places.has_place.sum()
    name_x, name_y = places.at
    advice = "Correct the row, or empty its coordinates to leave it out."
    if exchanged[places.has_place].all() and share > FEW:
        advice = f"They look exchanged: `{word} {name_y},{name_x}`."
    elif share > FEW:
        advice = "They look like coordinates of a map projection: "
        advice += (
            f"name it by `{places.crs_by}`, such as EPSG:32738."
            if places.crs_by
            else "give a file of points with its CRS."
        )
    raise ValueError(
        f"{places.path} must hold longitudes in {name_x!r}, and latitudes from -90 to 90 in {name_y!r}; got "
        f"{coordinate(places.x[first])} and {coordinate(places.y[first])} ({places.where[first]}). {advice}"
    )


def _is_layer(path: str) -> bool:
    """Whether a file has points of its own."""
    if Path(path).suffix.lower() in LAYERS:
        return True
    if not Path(path).is_file():
        return False
    with open(path, "rb") as file:
        if file.read(4) != b"PAR1":
            return False
    from pyarrow.parquet import read_schema

    try:
        return b"geo" in (read_schema(path).metadata or {})
    except Exception:  # pyarrow's many kinds; reading tells
        return False


def _of_layer(source: str | os.PathLike[str] | gpd.GeoDataFrame, layer: str | None, called: str) -> Places:
    """Points and attributes of a file, or of a GeoDataFrame."""
    if isinstance(source, gpd.GeoDataFrame):
        path, frame = called, source
    else:
        path = os.fspath(source)
        require_file(path, "a point file")
        frame = (
            gpd.read_parquet(path)
            if _begins_as_parquet(path)
            else read_frame(path, layer, noun="point", table="a table")
        )
    if frame.empty:
        raise ValueError(f"{path} must hold points; it is empty.")
    if frame.crs is None:
        raise ValueError(
            f"{path} must say its coordinate reference system; it has none. Add it, for example with `geopandas`: "
            "`points.set_crs('EPSG:4326')`, or restore the .prj file of a shapefile."
        )
    require_earth(frame.crs, path)
    shapes = np.asarray(frame.geometry.array)
    there = ~(shapely.is_missing(shapes) | shapely.is_empty(shapes))
    others = np.flatnonzero(there & (shapely.get_type_id(shapes) != shapely.GeometryType.POINT))
    if others.size:
        kind = shapes[others[0]].geom_type
        raise ValueError(
            f"{path} must hold points; row {others[0] + 1} is a {kind}. Take one point of each, such as its centroid."
        )
    x, y = np.full((2, len(shapes)), np.nan)
    x[there], y[there] = shapely.get_x(shapes[there]), shapely.get_y(shapes[there])
    plain = pd.DataFrame(frame.drop(columns=frame.geometry.name)).reset_index(drop=True).rename(columns=str)
    # rows without any attribute count too
    number = free_name("row", frame)
    table = read_table(plain.assign(**{number: np.arange(1, len(plain) + 1)}), None, called=path)
    places = Places(table, x, y, crs_name(frame.crs.to_wkt()), (), counted=number)
    _require_layer_degrees(places)
    return places


def _begins_as_parquet(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(4) == b"PAR1"


def _require_layer_degrees(places: Places) -> None:
    some_place = places.has_place
    if some_place.any():
        x, y = places.x[some_place], places.y[some_place]
        require_degrees((x.min(), y.min(), x.max(), y.max()), places.crs, places.path)
