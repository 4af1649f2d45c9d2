"""Rows of polygons as they stand in their file, or as a table joined to them makes them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import geopandas as gpd

from vbagg.errors import did_you_mean
from vbagg.geo.files import as_reason, inside_zip, is_local, one_line, require_file, some

if TYPE_CHECKING:
    from vbagg.geo.joining import JoinedBy

PARQUET = (".parquet", ".geoparquet", ".pq")
IN_ARCHIVES = (".shp", ".gpkg", ".geojson", ".fgb", ".gml", ".kml")


class Origin(NamedTuple):
    """Where a column comes from, for messages."""

    path: str
    places: Sequence[str] | None = None
    """Of its values, such as "line 7"; None for the rows of the polygons."""
    flaw: str | None = None
    """Why it cannot be used, in a sentence."""


@dataclass(frozen=True, eq=False)
class PolygonRows:
    """Polygons and columns that nobody has looked at yet.

    Attributes
    ----------
    frame
        Geometry and attributes.
    path
        The file of the polygons, for messages.
    key
        The column that a table was joined by.
    origins
        Where columns come from, those of the polygons' file left out.
    notes
        What joining did, in sentences.
    noun
        What a row is called in messages.
    lines
        Where rows are, such as "line 7"; None for rows of a file of polygons, which have numbers.
    """

    frame: gpd.GeoDataFrame
    path: str
    key: str | None = None
    origins: Mapping[str, Origin] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    noun: str = "polygon"
    lines: Sequence[str] | None = None

    def origin(self, column: str) -> Origin:
        """Where a column comes from."""
        return self.origins.get(column, Origin(self.path, self.lines))

    def known(self, without: str | None = None) -> list[str]:
        """Names of columns, those of the table first."""
        names = [*self.origins, *(name for name in self.frame.columns if name not in self.origins)]
        return [str(name) for name in names if name not in ("geometry", without)]


def read_rows(
    path: str | os.PathLike[str] | gpd.GeoDataFrame,
    id: str | None = None,
    layer: str | None = None,
    table: JoinedBy | None = None,
) -> PolygonRows:
    """Read a file of polygons, or take a GeoDataFrame, and join a table to it; see `read_polygons`."""
    rows = read_own_rows(path, layer, (id, None if table is None else table.key))
    return rows if table is None else table.join(rows, id)


def read_own_rows(
    path: str | os.PathLike[str] | gpd.GeoDataFrame, layer: str | None = None, wanted: Sequence[str | None] = ()
) -> PolygonRows:
    """The same without a table; the wanted columns may be `fid`, the numbers that the file has for its rows."""
    if isinstance(path, gpd.GeoDataFrame):
        return PolygonRows(_plain(path.copy()), "polygons")
    return PolygonRows(_plain(read_frame(os.fspath(path), layer, wanted)), os.fspath(path))


def _plain(frame: gpd.GeoDataFrame) -> gpd.GeoDataFrame:
    """The frame with text as names of columns, that of the geometry `geometry`, and rows numbered from 0."""
    frame = frame.rename_geometry("geometry") if frame.geometry.name != "geometry" else frame
    return frame.reset_index(drop=True).rename(columns=str)


def read_frame(
    path: str,
    layer: str | None = None,
    wanted: Sequence[str | None] = (),
    noun: str = "polygon",
    table: str = "a table by `--totals`",
) -> gpd.GeoDataFrame:
    """A file of polygons, or of what else `noun` says; without geometry, `table` is how to name it."""
    import pyogrio

    require_file(path, f"a {noun} file")
    unreadable = f"{path} cannot be read as {noun}s"
    source = inside_zip(path, IN_ARCHIVES)
    if Path(path).suffix.lower() in PARQUET:
        try:
            return gpd.read_parquet(path)
        except Exception as error:  # pyarrow's many kinds
            raise ValueError(f"{unreadable}: {one_line(error)}. Write it as GeoParquet.") from None
    try:
        known = {name: kind for name, kind in pyogrio.list_layers(source) if kind is not None}
    except (pyogrio.errors.DataSourceError, RuntimeError) as error:
        advice = "" if not is_local(path) else " Is the file complete, with all its parts?"
        raise ValueError(f"{unreadable}: {as_reason(error)}.{advice}") from None
    if not known:
        raise ValueError(f"{path} must hold {noun}s; it holds no geometry. Name a file with {noun}s, and {table}.")
    if layer is None and len(known) > 1:
        raise ValueError(f"{path} has several layers: {some(list(known))}. Name one with `layer`.")
    if layer is not None and layer not in known:
        raise ValueError(f"{path} has no layer {layer!r}{did_you_mean(layer, known)}")
    try:
        frame = pyogrio.read_dataframe(source, layer=layer or next(iter(known)), fid_as_index=True)
    except (pyogrio.errors.DataSourceError, pyogrio.errors.DataLayerError, RuntimeError) as error:
        raise ValueError(f"{unreadable}: {one_line(error)}. Is the file complete, with all its parts?") from None
    if "fid" in wanted and "fid" not in frame:
        frame["fid"] = frame.index.to_numpy()
    return frame
