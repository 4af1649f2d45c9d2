"""Small rasters and polygons written to disk for tests."""

from pathlib import Path

import geopandas as gpd
import numpy as np
import rasterio
from affine import Affine
from shapely import box

# 3 rows, 4 columns of unequal sides, north up, with an origin that is not zero.
TRANSFORM = Affine(0.5, 0, 30, 0, -0.25, 10)
VALUES = np.arange(1, 13, dtype=np.float32).reshape(3, 4)


def write_raster(path, values=VALUES, transform=TRANSFORM, crs="EPSG:4326", nodata=None, **more):
    """Write planes (k, rows, columns) or one plane; `more` goes to the dataset's attributes."""
    values = np.asarray(values)
    planes = values if values.ndim == 3 else values[None]
    count, height, width = planes.shape
    with rasterio.open(
        path,
        "w",
        driver="GTiff",
        dtype=planes.dtype,
        count=count,
        height=height,
        width=width,
        crs=crs,
        transform=transform,
        nodata=nodata,
    ) as dataset:
        for name, value in more.items():
            setattr(dataset, name, value)
        dataset.write(planes)
    return Path(path)


def districts(shapes=None, ids=("a", "b"), cases=(3.0, 8.0), crs="EPSG:4326", **columns):
    """Two districts within the bounds of `TRANSFORM`, or other shapes."""
    shapes = [box(30.1, 9.4, 30.9, 9.9), box(30.9, 9.3, 31.8, 9.9)] if shapes is None else shapes
    return gpd.GeoDataFrame({"name": list(ids), "cases": list(cases), **columns}, geometry=list(shapes), crs=crs)


def write_polygons(path, frame=None, **more):
    frame = districts() if frame is None else frame
    if Path(path).suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_file(path, **more)
    return Path(path)
