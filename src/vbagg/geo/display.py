"""Rasters and polygons in longitude and latitude, as the report's viewer shows them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

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
    from rasterio.transform import array_bounds, from_bounds
    from rasterio.warp import calculate_default_transform

    with rasterio.open(raster) as source:
        same = source.crs.to_epsg() == 4326 and source.transform.e < 0 and source.transform.b == 0
        if same:
            transform, width, height = source.transform, source.width, source.height
        else:
            transform, width, height = calculate_default_transform(
                source.crs, DEGREES, source.width, source.height, *source.bounds
            )
    south_west_north_east = array_bounds(height, width, transform)
    thin = int(np.ceil(np.sqrt(height * width / LARGEST)))
    if thin > 1:
        height, width = -(-height // thin), -(-width // thin)
        transform = from_bounds(*south_west_north_east, width, height)
    return Frame(transform, (height, width), south_west_north_east)


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

    there = table.to_crs(DEGREES)
    known = there[column].notna() & ~there.geometry.is_empty
    pairs = list(zip(there.geometry[known], there[column][known].astype(float), strict=True))
    empty = np.full(frame.shape, np.nan, np.float32)
    if not pairs:
        return empty
    return rasterize(pairs, frame.shape, transform=frame.transform, fill=np.nan, dtype="float32")


def outlines(table: gpd.GeoDataFrame, frame: Frame) -> Mapping[str, Any]:
    """Polygons as GeoJSON in degrees, simplified to half a cell, borders kept shared."""
    there = table[["geometry"]].to_crs(DEGREES)
    cell = (frame.bounds[2] - frame.bounds[0]) / frame.shape[1]
    return json.loads(there.assign(geometry=there.geometry.simplify_coverage(cell / 2)).to_json(drop_id=True))
