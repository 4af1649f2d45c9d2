"""Where the geography is worked out: in this process, or on the workers of a Dask cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from vbagg.geo import target
from vbagg.held import Held, Here

PACKAGES = ("rasterio", "exactextract", "geopandas", "shapely", "pyproj", "pandas", "xarray", "netcdf4", "zarr")
"""Whose versions must be the same on workers, besides those of a fit."""
LIBRARIES = 1e9
"""Bytes of a worker in a fit besides its pixels, without the features that it keeps while there is room."""
BYTES_PER_PIXEL, BYTES_PER_NUMBER = 60, 10
"""Of a pixel, and of each of its columns, padding of bags counted."""


def places_of(client: Any) -> Held[Any]:
    """The workers of a cluster, which must have the same packages; this process without a client."""
    if client is None:
        return Here(())
    from vbagg.cluster import workers_of

    return workers_of(client, PACKAGES)


def most_pixels(client: Any, columns: int) -> int | None:
    """How many pixels of so many columns workers can hold; None without a client, or if their memory has no limit."""
    each = [] if client is None else _memory(client)
    own = bytes_per_pixel(columns)
    return sum(int(max(0.0, size - LIBRARIES) / own) for size in each) if each and all(each) else None


def bytes_per_pixel(columns: int) -> int:
    """Memory that a pixel takes in a fit."""
    return BYTES_PER_PIXEL + BYTES_PER_NUMBER * columns


def holds_all(client: Any, table: Path) -> bool:
    """Whether each worker, and this process, can hold a whole table of pixels, and those of a fit beside it."""
    from pyarrow.parquet import read_metadata

    about = read_metadata(table)
    own = 2 * bytes_per_pixel(about.num_columns)
    room = [(size - LIBRARIES) / own if size else target.MOST_PIXELS for size in _memory(client)]
    return bool(about.num_rows <= min(target.MOST_PIXELS, *room))


def memory_of_all(client: Any) -> float | None:
    """Bytes that all workers have together; None if that has no limit."""
    each = _memory(client)
    return sum(each) if all(each) else None


def _memory(client: Any) -> list[float]:
    from vbagg.cluster import memory_of

    return memory_of(client)
