"""Bands of the raster files that GDAL reads."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vbagg.geo.files import as_reason, inside_zip, require_file
from vbagg.geo.grid import Grid

IN_ARCHIVES = (".tif", ".tiff", ".img", ".asc", ".bil")
UNITS = ("units", "UNITS", "GRIB_UNIT")
TITLES = ("long_name", "LONG_NAME", "TITLE", "DESCRIPTION", "GRIB_COMMENT")
"""Tags of files, and of bands, in which programs say these."""
TILE_MEMORY = 256 << 20  # bytes
_kept: ContextVar[dict[str, Any] | None] = ContextVar("_kept", default=None)


@dataclass(frozen=True)
class Band:
    """One band as its file stores it."""

    path: str
    band: int
    label: str
    grid: Grid
    dtype: str
    units: str
    nodata: tuple[float, ...]
    scale: float
    offset: float
    has_mask: bool
    title: str = ""
    notes: tuple[str, ...] = ()

    def read(self, rows: slice, columns: slice) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        """Stored numbers, and where a mask of the file hides them."""
        from rasterio.windows import Window

        window = Window.from_slices(rows, columns)
        with opened(self.path) as dataset:
            values = dataset.read(self.band, window=window)
            return values, dataset.read_masks(self.band, window=window) == 0 if self.has_mask else None


def bands_of(path: str) -> list[Band]:
    """Every band of a file, except transparency."""
    from rasterio.enums import ColorInterp, MaskFlags

    with opened(path) as dataset:
        if dataset.count == 0:
            inner = ", ".join(dataset.subdatasets[:5])
            raise ValueError(f"{path} must hold raster bands; it holds none. Name one of its parts: {inner or 'none'}.")
        if dataset.crs is None:
            raise ValueError(
                f"{path} must say its coordinate reference system; it has none. "
                f"Add it, for example with `gdal_edit.py -a_srs EPSG:4326 {path}`."
            )
        if dataset.transform.is_identity:
            raise ValueError(f"{path} must be georeferenced; it has no geotransform. Georeference it first.")
        if any(dtype.startswith("complex") for dtype in dataset.dtypes):
            raise ValueError(f"{path} must hold real numbers; it holds complex ones. Write their sizes to a file.")
        grid, of_all = Grid.of(dataset), dataset.tags() if dataset.count == 1 else {}
        parts = zip(
            *(dataset.indexes, dataset.descriptions, dataset.dtypes, dataset.units, dataset.nodatavals),
            *(dataset.scales, dataset.offsets, dataset.mask_flag_enums, dataset.colorinterp),
            strict=True,
        )
        return [
            Band(
                path=path,
                band=band,
                label=_label(description, dataset.tags(band)),
                grid=grid,
                dtype=dtype,
                units=units or _tag(dataset.tags(band), UNITS) or _tag(of_all, UNITS),
                nodata=() if nodata is None else (float(nodata),),
                scale=float(scale),
                offset=float(offset),
                title=_tag(dataset.tags(band), TITLES) or _tag(of_all, TITLES) or description or "",
                has_mask=not {MaskFlags.all_valid, MaskFlags.nodata} & set(flags),
            )
            for band, description, dtype, units, nodata, scale, offset, flags, colour in parts
            if colour != ColorInterp.alpha
        ]


@contextmanager
def opened(path: str) -> Iterator[Any]:
    """Open a raster for reading; what goes wrong becomes one message."""
    from rasterio.errors import RasterioError

    require_file(path, "a raster")
    kept = _kept.get()
    try:
        if kept is None:
            with _open(path) as dataset:
                yield dataset
        else:
            if path not in kept:
                kept[path] = _open(path)
            yield kept[path]
    except RasterioError as error:
        raise ValueError(f"{path} cannot be read as a raster: {as_reason(error)}. Is the file complete?") from None


@contextmanager
def kept_open() -> Iterator[None]:
    """Keep rasters open that are read bit by bit: a tile that several bits share is unpacked once.

    GDAL's own memory for tiles is bounded meanwhile; by default it grows with the machine's. Within another such block
    nothing changes.
    """
    import rasterio

    if _kept.get() is not None:
        yield
        return
    datasets: dict[str, Any] = {}
    token = _kept.set(datasets)
    try:
        with rasterio.Env(GDAL_CACHEMAX=TILE_MEMORY):
            yield
    finally:
        _kept.reset(token)
        for dataset in datasets.values():
            dataset.close()


def _open(path: str) -> Any:
    import rasterio
    from rasterio.errors import NotGeoreferencedWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotGeoreferencedWarning)
        return rasterio.open(inside_zip(path, IN_ARCHIVES))


def _label(description: str | None, tags: dict[str, str]) -> str:
    return description or tags.get("DESCRIPTION") or tags.get("long_name") or ""


def _tag(tags: dict[str, str], names: tuple[str, ...]) -> str:
    """The first of these tags that says anything."""
    return next((tags[name] for name in names if tags.get(name)), "")
