"""Where the geography is worked out: in this process, or on the workers of a Dask cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from vbagg.geo import target
from vbagg.held import Held, Here

PACKAGES = ("rasterio", "exactextract", "geopandas", "shapely", "pyproj", "pandas", "xarray", "netcdf4", "zarr")
"""Whose versions must be the same on workers, besides those of a fit."""
LIBRARIES, BYTES_PER_PIXEL = 1e9, 240
"""Memory of a worker in a fit, without the features that it keeps while there is room."""


def places_of(client: Any) -> Held[Any]:
    """The workers of a cluster, which must have the same packages; this process without a client."""
    if client is None:
        return Here(())
    from vbagg.cluster import workers_of

    return workers_of(client, PACKAGES)


def most_pixels(client: Any) -> int | None:
    """How many pixels the workers of a cluster can hold; None without a client, or if their memory has no limit."""
    each = [] if client is None else _memory(client)
    return sum(int(max(0.0, size - LIBRARIES) / BYTES_PER_PIXEL) for size in each) if each and all(each) else None


def holds_all(client: Any, table: Path) -> bool:
    """Whether each worker, and this process, can hold a whole table of pixels."""
    from pyarrow.parquet import read_metadata

    room = [(size - LIBRARIES) / BYTES_PER_PIXEL if size else target.MOST_PIXELS for size in _memory(client)]
    return bool(read_metadata(table).num_rows <= min(target.MOST_PIXELS, *room))


def memory_of_all(client: Any) -> float | None:
    """Bytes that all workers have together; None if that has no limit."""
    each = _memory(client)
    return sum(each) if all(each) else None


def _memory(client: Any) -> list[float]:
    from vbagg.cluster import memory_of

    return memory_of(client)
