"""Rasters and polygons in longitude and latitude, as the report's viewer shows them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import shapely
from numpy.typing import NDArray

from vbagg.geo.align import bounds_in
from vbagg.geo.grid import Grid, same_crs
from vbagg.geo.longitudes import full_turn, gathered, seen_from

if TYPE_CHECKING:
    import geopandas as gpd

LARGEST = 4_000_000
"""Cells shown at most: finer grids are thinned."""
DEGREES = "EPSG:4326"


@dataclass(frozen=True)
class Frame:
    """A grid in degrees: its transform, shape and bounds (west, south, east, north)."""

    transform: Any
    shape: tuple[int, int]
    bounds: tuple[float, float, float, float]


def display_frame(raster: Path) -> Frame:
    """The frame that shows a raster at its own resolution, or thinned to `LARGEST` cells."""
    import rasterio
    from affine import Affine

    with rasterio.open(raster) as source:
        grid = Grid.of(source)
    # beyond 180 where the raster crosses the antimeridian
    left, bottom, right, top = map(float, bounds_in(grid, DEGREES))
    height, width = grid.shape
    if not (same_crs(grid.crs, DEGREES) and grid.is_upright):
        size = np.sqrt((right - left) * (top - bottom) / grid.n_cells)
        height, width = (max(1, round(side / size)) for side in (top - bottom, right - left))
    thin = max(1, int(np.ceil(np.sqrt(height * width / LARGEST))))
    height, width = -(-height // thin), -(-width // thin)
    transform = Affine((right - left) / width, 0.0, left, 0.0, (bottom - top) / height, top)
    return Frame(transform, (height, width), (left, bottom, right, top))


def shown(raster: Path, frame: Frame) -> tuple[NDArray[np.float32], dict[str, str]]:
    """Values of the cells nearest to those of the frame, NaN where there are none, and the file's tags."""
    import rasterio
    from rasterio.enums import Resampling
    from rasterio.vrt import WarpedVRT

    height, width = frame.shape
    with (
        rasterio.open(raster) as source,
        WarpedVRT(
            source,
            crs=DEGREES,
            transform=frame.transform,
            width=width,
            height=height,
            resampling=Resampling.nearest,
            nodata=np.nan,
        ) as warped,
    ):
        return warped.read(1), source.tags()


def burnt(table: gpd.GeoDataFrame, column: str, frame: Frame) -> NDArray[np.float32]:
    """A column of polygons on the frame."""
    from rasterio.features import rasterize

    there = in_degrees(table, frame)
    known = there[column].notna() & ~there.geometry.is_empty
    pairs = list(zip(there.geometry[known], there[column][known].astype(float), strict=True))
    empty = np.full(frame.shape, np.nan, np.float32)
    if not pairs:
        return empty
    return rasterize(pairs, frame.shape, transform=frame.transform, fill=np.nan, dtype="float32")


def outlines(table: gpd.GeoDataFrame, frame: Frame) -> Mapping[str, Any]:
    """Polygons as GeoJSON in degrees, simplified to half a cell, borders kept shared."""
    there = in_degrees(table[["geometry"]], frame)
    cell = (frame.bounds[2] - frame.bounds[0]) / frame.shape[1]
    shapes = np.asarray(there.geometry.simplify_coverage(cell / 2).array)
    geometries = map(json.loads, shapely.to_geojson(shapes))
    features = [{"type": "Feature", "properties": {}, "geometry": geometry} for geometry in geometries]
    return {"type": "FeatureCollection", "features": features}


def in_degrees(table: gpd.GeoDataFrame, frame: Frame) -> gpd.GeoDataFrame:
    """Polygons in longitude and latitude, in the frame's range of longitudes."""
    there, turn = table.to_crs(DEGREES), full_turn(DEGREES)
    west = (frame.bounds[0] + frame.bounds[2] - turn) / 2
    shapes = seen_from(gathered(np.asarray(there.geometry.array), turn), west, turn)
    return there.set_geometry(shapes, crs=there.crs)
