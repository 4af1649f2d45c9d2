"""Polygons with an id and one or more responses, from any of the usual files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import geopandas as gpd
import numpy as np
import pandas as pd
import shapely
from numpy.typing import NDArray
from pyproj.exceptions import ProjError

from vbagg.errors import did_you_mean
from vbagg.geo.bounds import Interval
from vbagg.geo.earth import require_degrees, require_earth
from vbagg.geo.exposure import BY_AREA, Exposure
from vbagg.geo.files import one_line, plural, some
from vbagg.geo.grid import Bounds, Grid, crs_name, crs_title, is_geographic, same_crs, unit
from vbagg.geo.longitudes import full_turn, gathered, seen_from
from vbagg.geo.observed_totals import Totals, read_observed
from vbagg.geo.polygon_rows import PolygonRows, read_rows
from vbagg.geo.repeated import outlines
from vbagg.geo.responses import read_totals
from vbagg.geo.told import NOTHING, Told, read_told
from vbagg.numerals import coordinate

if TYPE_CHECKING:
    from vbagg.geo.catchments import Catchments
    from vbagg.geo.joining import JoinedBy

ROW_NUMBER = "row"
TORN_KM = 1000.0
EDGE_KM = 10.0  # longer edges get more points before they are reprojected: they are straight in one CRS only


@dataclass(frozen=True, eq=False)
class Polygons:
    """Polygons in the order of their file.

    Attributes
    ----------
    frame
        Geometry and attributes; the index is 0, 1, 2, ..., and every geometry is valid and polygonal.
    id
        The column that names each polygon.
    path
        The file they come from, for messages.
    notes
        What was done to them, in sentences.
    tables
        Files of columns that come from a table.
    uppers
        Columns with upper bounds of responses of which only bounds are known in some polygons; these hold the lower.
    catchments
        Who attends which facility, if polygons are the outlines of catchments that share cells.
    negative
        Whether totals may be negative.
    """

    frame: gpd.GeoDataFrame
    id: str
    path: str
    notes: tuple[str, ...] = ()
    tables: Mapping[str, str] = field(default_factory=dict)
    uppers: Mapping[str, str] = field(default_factory=dict)
    catchments: Catchments | None = None
    negative: bool = False

    def __len__(self) -> int:
        return len(self.frame)

    @property
    def file(self) -> str:
        """The file's name without its folder, for messages."""
        return Path(self.path).name

    def path_of(self, column: str) -> str:
        """The file that a column comes from."""
        return self.tables.get(column, self.path)

    def file_of(self, column: str) -> str:
        """Its name without its folder."""
        return Path(self.path_of(column)).name

    @property
    def crs(self) -> str:
        """Coordinate reference system, as in `Grid`."""
        return crs_name(self.frame.crs.to_wkt())

    @property
    def labels(self) -> NDArray[Any]:
        """The id of each polygon (n,)."""
        ids = self.frame[self.id]
        return ids.to_numpy() if ids.dtype.kind in "iub" else ids.to_numpy(dtype=object)

    @property
    def geometry(self) -> NDArray[Any]:
        """Shapely geometries (n,)."""
        return np.asarray(self.frame.geometry.array)

    @property
    def bounds(self) -> Bounds:
        """Left, bottom, right and top of all polygons together."""
        left, bottom, right, top = self.frame.total_bounds.tolist()
        return left, bottom, right, top

    def totals(self, response: str) -> Totals:
        """What is known of a response."""
        least = self.frame[response].to_numpy(dtype=np.float64)
        if response not in self.uppers:
            return Totals(least, least)
        upper = self.frame[self.uppers[response]].to_numpy(dtype=np.float64)
        return Totals(least, np.where(np.isnan(upper), least, upper))

    def to(self, crs: str) -> Polygons:
        """The same polygons in another CRS, and a note that says so."""
        return self if same_crs(self.crs, crs) else _moved(self, crs)

    def on(self, grid: Grid) -> Polygons:
        """The same polygons in a grid's CRS, and in its range of longitudes."""
        moved = self.to(grid.crs)
        if not is_geographic(grid.crs):
            return moved
        left, _, right, _ = grid.bounds
        if left <= moved.bounds[0] and moved.bounds[2] <= right:
            return moved
        turn = full_turn(grid.crs)
        shapes = seen_from(moved.geometry, (left + right - turn) / 2, turn)
        return replace(moved, frame=_reshaped(moved.frame, shapes))


def read_polygons(
    path: str | os.PathLike[str] | gpd.GeoDataFrame,
    id: str | None = None,
    layer: str | None = None,
    columns: Sequence[str] = (),
    table: JoinedBy | None = None,
    exposure: Exposure = BY_AREA,
    marks: Mapping[str, Interval] | None = None,
    negative: bool = False,
    told: Told = NOTHING,
) -> Polygons:
    """Read polygons from a GeoPackage, a shapefile, GeoJSON or GeoParquet, and check them.

    Parameters
    ----------
    path
        The file, or a GeoDataFrame.
    id
        Column with a distinct name or number for each polygon. Default: the one that a table is joined by; without a
        table, rows are numbered from 1.
    layer
        Layer of the file; needed if there are several.
    columns
        Response columns of numbers, of bounds of numbers, and of nothing where nobody counted. Polygons
        that are there several times are then refused, unless each has an id: the people in them would count as often.
    table
        A table whose columns come to those of the polygons: see `joined_by`.
    exposure
        What cells are weighted by; if it is a column, this must hold a non-negative number for every polygon.
    marks
        What marks of suppressed totals stand for: see `marks_of`.
    negative
        Whether responses may be negative, as differences are, and have no bounds.
    told
        Columns that say how totals came about; numbers wherever there is a total.
    """
    rows = read_rows(path, id, layer, table)
    return checked(rows, id, columns, exposure, marks=marks, negative=negative, told=told)


def checked(
    rows: PolygonRows,
    id: str | None = None,
    columns: Sequence[str] = (),
    exposure: Exposure = BY_AREA,
    *,
    marks: Mapping[str, Interval] | None = None,
    negative: bool = False,
    told: Told = NOTHING,
) -> Polygons:
    """Polygons from rows that nobody has looked at; see `read_polygons`."""
    frame, path = rows.frame.copy(), rows.path
    if frame.empty:
        raise ValueError(f"{path} must hold at least one polygon; it is empty.")
    if frame.crs is None:
        raise ValueError(
            f"{path} must say its coordinate reference system; it has none. Add it, for example with "
            "`geopandas`: `polygons.set_crs('EPSG:4326')`, or restore the .prj file of a shapefile."
        )
    require_earth(frame.crs, path)
    notes = rows.notes
    id = id or rows.key
    is_numbered = id is None
    if id is None:
        id = free_name(ROW_NUMBER, frame)
        frame[id] = np.arange(1, len(frame) + 1)
        notes += (f"{Path(path).name}: no id was named, so polygons are numbered from 1 in the order of the file.",)
    numbers = [(name, "response") for name in columns]
    numbers += [(exposure.column, exposure.word)] if exposure.column is not None else []
    numbers += told.words.items()
    for name, what in ((id, "id"), *numbers):
        if (flaw := rows.origin(name).flaw) is not None:
            raise ValueError(flaw)
        if name not in frame or name == "geometry":
            where = " and ".join([*dict.fromkeys(origin.path for origin in rows.origins.values()), path])
            known = rows.known(without=None if what == "id" else id)
            raise ValueError(
                f"{where} {'have' if rows.origins else 'has'} no column {name!r} for the {what}"
                f"{did_you_mean(name, known)}"
            )
    names = [id, *(name for name, _ in numbers)]
    _require_distinct(names, path)
    frame[id] = _ids(frame[id], path)
    polygons = Polygons(frame, id, path, (), {name: origin.path for name, origin in rows.origins.items()})
    _require_polygonal(polygons)
    uppers: dict[str, str] = {}
    labels = polygons.labels.tolist()
    for name in columns:
        totals, ways = read_observed(frame[name], rows.origin(name), labels, marks, negative)
        frame[name] = totals.least
        if totals.suppressed.any():
            uppers[name] = free_name(f"{name}_upper", frame)
            frame[uppers[name]] = totals.upper
        notes += tuple(f"{polygons.file_of(name)}: {how}" for how in ways)
        if rows.origins and name not in rows.origins:
            tables = some([Path(origin.path).name for origin in rows.origins.values()][:1], quote=False)
            notes += (f"{polygons.file}: the response {name!r} was taken from here, since {tables} has none.",)
    if exposure.column is not None:
        frame[exposure.column], read_as = read_totals(
            frame[exposure.column], rows.origin(exposure.column), labels, exposure.word
        )
        notes += (f"{polygons.file_of(exposure.column)}: {read_as}",) if read_as else ()
    for name, what in told.words.items():
        frame[name] = read_told(frame[name], rows.origin(name), labels, _any_total(frame, columns), what)
    require_degrees(polygons.bounds, polygons.crs, path)
    gathered_frame = _gathered(_plain(frame, {*names, *uppers.values()}))
    frame, repaired = _valid(gathered_frame)
    left, _, right, _ = gathered_frame.total_bounds
    if (left, right) != polygons.bounds[::2]:
        notes += (
            f"{polygons.file}: longitudes were taken from {coordinate(left)} to {coordinate(right)}, as places on both "
            "sides of the antimeridian are near to each other.",
        )
    if repaired.any():
        count, which = plural(repaired.sum(), "polygon"), some(polygons.labels[repaired].tolist())
        notes += (f"{polygons.file}: invalid geometry was repaired in {count} ({which}).",)
    polygons = replace(polygons, frame=frame, notes=notes, uppers=uppers, negative=negative)
    if columns and is_numbered:
        _require_once(polygons)
    return polygons


def _any_total(frame: gpd.GeoDataFrame, columns: Sequence[str]) -> NDArray[np.bool_]:
    """Which polygons have a total of some response, or bounds of it."""
    found = [frame[name].notna().to_numpy() for name in columns]
    return np.any(found, axis=0) if found else np.zeros(len(frame), dtype=bool)


@lru_cache(maxsize=1)  # the grid's CRS is asked for several times in a row
def _moved(polygons: Polygons, crs: str) -> Polygons:
    length = EDGE_KM * 1000 / (6_371_000 if is_geographic(polygons.crs) else 1) / unit(polygons.crs)
    dense = polygons.frame.set_geometry(polygons.frame.geometry.segmentize(length))
    try:
        moved = _gathered(dense.to_crs(crs))
    except ProjError as error:
        raise ValueError(
            f"{polygons.file}: there is no way from {crs_title(polygons.crs)} to {crs_title(crs)}: {one_line(error)}."
        ) from None
    if not np.isfinite(moved.total_bounds).all() or moved.geometry.is_empty.any():
        raise ValueError(
            f"{polygons.file}: polygons must lie where {crs_title(crs)} is defined; they have no place there. "
            "Choose another CRS for the grid."
        )
    _require_untorn(polygons, np.asarray(moved.geometry.array), crs)
    note = f"{polygons.file}: polygons were reprojected from {crs_title(polygons.crs)} to {crs_title(crs)}."
    return replace(polygons, frame=_valid(moved)[0], notes=(*polygons.notes, note))


def _require_untorn(polygons: Polygons, moved: NDArray[Any], crs: str) -> None:
    """Raise for polygons that came to lie across the edge of a map: some of their short edges are very long there."""
    parts, polygon = shapely.get_parts(moved, return_index=True)
    rings, part = shapely.get_rings(parts, return_index=True)
    points, ring = shapely.get_coordinates(rings, return_index=True)
    length = np.hypot(*np.diff(points, axis=0).T) * unit(crs)
    longest = TORN_KM * 1000 if not is_geographic(crs) else np.pi / 2
    torn = np.unique(polygon[part[ring[1:][(length > longest) & (np.diff(ring) == 0)]]])
    if torn.size:
        names = some(polygons.labels[torn].tolist())
        raise ValueError(
            f"{polygons.file}: polygons must not lie across the edge of a map; {plural(torn.size, 'polygon')} would in "
            f"{crs_title(crs)} ({names}). Use rasters in longitudes and latitudes, or in a projection of the region."
        )


def _gathered(frame: gpd.GeoDataFrame) -> gpd.GeoDataFrame:
    """The frame with longitudes that belong together, if these are its coordinates."""
    crs = crs_name(frame.crs.to_wkt())
    if not is_geographic(crs) or not np.isfinite(frame.total_bounds).all():
        return frame
    return _reshaped(frame, gathered(np.asarray(frame.geometry.array), full_turn(crs)))


def _reshaped(frame: gpd.GeoDataFrame, shapes: NDArray[Any]) -> gpd.GeoDataFrame:
    """The frame with other shapes in the same CRS."""
    return frame.set_geometry(gpd.GeoSeries(shapes, crs=frame.crs))


def free_name(name: str, frame: gpd.GeoDataFrame) -> str:
    """A name for a new column: the given one, with underscores after it if it is taken."""
    taken = {str(column).lower() for column in frame.columns}
    while name.lower() in taken:
        name += "_"
    return name


def _require_distinct(names: Sequence[str], path: str) -> None:
    """Raise for columns whose names are the same, which for files of databases they are whatever their capitals."""
    for at, name in enumerate(names):
        for other in names[:at]:
            if name == other:
                raise ValueError(
                    f"{path}: the column {name!r} was named twice. Name it once, as the id, a response or people."
                )
            if name.lower() == other.lower():
                raise ValueError(
                    f"{path}: names of the id and of responses must differ by more than capitals; "
                    f"got {other!r} and {name!r}. Rename one of them."
                )


def _require_once(polygons: Polygons) -> None:
    """Raise if polygons are there several times, as in a table with a row for each month."""
    kinds = outlines(polygons.geometry)
    sizes = np.bincount(kinds)
    if sizes.max() > 1:
        rows = (np.flatnonzero(kinds == np.argmax(sizes)) + 1).tolist()
        raise ValueError(
            f"{polygons.path} must hold each polygon once; its {len(polygons):,} rows have {sizes.size:,} outlines "
            f"(rows {some(rows)} have the same), and the people in them would count several times. Keep one row for "
            "each polygon: choose a period, or add up the totals. If they are polygons of their own, name the column "
            "with their ids by `--id`."
        )


def _ids(ids: pd.Series, path: str) -> pd.Series:
    """Ids as whole numbers or text, all there and all distinct."""
    missing = np.flatnonzero(ids.isna() | (ids.astype(str).str.strip() == ""))
    if missing.size:
        where = f"row {missing[0] + 1} has none"
        raise ValueError(f"{path} must have an id in column {ids.name!r} for every polygon; {where}. Fill it in.")
    repeated = ids[ids.duplicated()].unique().tolist()
    if repeated:
        rows = np.flatnonzero(ids == repeated[0]) + 1
        raise ValueError(
            f"{path} must have distinct ids in column {ids.name!r}; {repeated[0]!r} is in rows {some(rows.tolist())}"
            f"{f' ({len(repeated)} ids are repeated)' if len(repeated) > 1 else ''}. "
            "Keep one row for each polygon: merge its parts, choose a period or add up the totals; or name another "
            "column."
        )
    if pd.api.types.is_bool_dtype(ids) or not pd.api.types.is_numeric_dtype(ids):
        return ids.astype(str)
    whole = ids.to_numpy(dtype=np.float64) % 1 == 0
    return ids.astype(np.int64) if whole.all() else ids.astype(str)


def _require_polygonal(polygons: Polygons) -> None:
    """Raise for the first row that is no polygon."""
    for position, flaw in flaws(polygons.frame.geometry).items():
        label = polygons.labels.tolist()[position]
        raise ValueError(
            f"{polygons.path} must hold polygons; {label!r} (row {position + 1}) {flaw}. "
            "Remove it, or give it a polygon."
        )


def flaws(geometry: gpd.GeoSeries) -> dict[int, str]:
    """Why rows are no polygons, by position."""
    shapes, found = np.asarray(geometry.array), {}
    usual = np.isin(shapely.get_type_id(shapes), [shapely.GeometryType.POLYGON, shapely.GeometryType.MULTIPOLYGON])
    for position in np.flatnonzero(
        ~(usual & np.isfinite(shapely.bounds(shapes)).all(axis=1) & (shapely.area(shapes) > 0))
    ):
        shape = shapes[position]
        if shape is None or shape.is_empty:
            found[int(position)] = "has no geometry"
        elif not usual[position] and shape.geom_type != "GeometryCollection":
            found[int(position)] = f"is a {shape.geom_type}"
        elif not np.isfinite(shapely.get_coordinates(shape)).all():
            found[int(position)] = "has coordinates that are no numbers"
        elif _polygonal(shapely.make_valid(shape)).is_empty:
            found[int(position)] = "has no area" if usual[position] else "is a GeometryCollection without an area"
    return found


def _plain(frame: gpd.GeoDataFrame, needed: set[str]) -> gpd.GeoDataFrame:
    """Numbers, truth values and text as the few types that every file keeps; other columns are left out."""
    kept: dict[str, Any] = {}
    needed = needed | {"geometry", "fid_"}
    for name, values in frame.drop(columns="geometry").items():
        if name not in needed and str(name).lower() in {other.lower() for other in (*needed, *kept)}:
            continue  # files of databases do not tell capitals apart
        if pd.api.types.is_bool_dtype(values) and not values.hasnans:
            kept[str(name)] = values.astype(bool)
        elif pd.api.types.is_integer_dtype(values) and not values.hasnans:
            kept[str(name)] = values.astype(np.int64)
        elif pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_complex_dtype(values):
            kept[str(name)] = values.to_numpy(dtype=np.float64, na_value=np.nan)
        elif pd.api.types.is_string_dtype(values) or values.dropna().map(type).eq(str).all():
            kept[str(name)] = values.astype("str")
    return gpd.GeoDataFrame(kept, geometry=frame.geometry)


def _valid(frame: gpd.GeoDataFrame) -> tuple[gpd.GeoDataFrame, NDArray[np.bool_]]:
    """The frame with flat, valid, polygonal geometry, and which polygons had to be repaired."""
    shapes = shapely.force_2d(np.asarray(frame.geometry.array))
    broken = ~shapely.is_valid(shapes)
    odd = broken | (shapely.get_type_id(shapes) == shapely.GeometryType.GEOMETRYCOLLECTION)
    shapes[odd] = [_polygonal(shapely.make_valid(shape)) for shape in shapes[odd]]
    return _reshaped(frame, shapes), broken


def _polygonal(shape: Any) -> Any:
    """The parts of a geometry that have an area."""
    parts = shapely.get_parts(shapely.get_parts(shape))
    areas = [part for part in parts if part.geom_type == "Polygon" and not part.is_empty]
    return shapely.union_all(areas) if len(areas) != 1 else areas[0]
