"""Cloud-optimised GeoTIFFs written row by row: neither the grid nor a whole file is ever in memory.

GDAL writes a cloud-optimised file only as a copy of another, so rows go to a scratch file first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import rasterio
import rasterio.shutil
from affine import Affine
from numpy.typing import NDArray

from vbagg.geo.grid import Grid

CACHE_MEGABYTES = 64
STRIP_CELLS = 1 << 16
BLOCK = 256
COG = {
    "driver": "COG",
    "blocksize": BLOCK,
    "compress": "DEFLATE",
    "predictor": "YES",
    "overview_resampling": "AVERAGE",
    "bigtiff": "IF_SAFER",
}


@dataclass(frozen=True)
class Description:
    """What a raster holds; `title`, `units` and `tags` are stored in the file."""

    title: str
    units: str
    tags: Mapping[str, str] = field(default_factory=dict)


@contextmanager
def small_cache() -> Iterator[None]:
    """Keep GDAL's cache of blocks small; by default it takes a twentieth of the machine's memory."""
    with rasterio.Env(GDAL_CACHEMAX=CACHE_MEGABYTES):
        yield


class RowWriter:
    """Scratch rasters on one grid, filled band of rows by band of rows; rows never written are missing.

    `finish` turns each into a cloud-optimised GeoTIFF of the same name. Use as a context manager.

    Parameters
    ----------
    folder
        Where scratch files, and the finished ones, go.
    grid
        Grid of all rasters.
    """

    def __init__(self, folder: Path, grid: Grid) -> None:
        self.folder, self.grid = folder, grid
        self._open: dict[str, Any] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._stack.enter_context(small_cache())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: Any, trace: TracebackType | None) -> None:
        self._stack.close()

    def add(self, name: str, description: Description) -> None:
        """Create the raster `name`."""
        grid = self.grid
        dataset = rasterio.open(
            self._scratch(name),
            "w+",
            driver="GTiff",
            height=grid.height,
            width=grid.width,
            count=1,
            dtype="float32",
            nodata=np.nan,
            crs=grid.crs,
            transform=Affine(*grid.transform),
            blockysize=min(grid.height, max(1, STRIP_CELLS // grid.width)),
            sparse_ok=True,
            bigtiff="IF_SAFER",
        )
        self._open[name] = self._stack.enter_context(dataset)
        dataset.set_band_description(1, description.title)
        dataset.units = (description.units,)
        dataset.update_tags(
            TIFFTAG_IMAGEDESCRIPTION=description.title,
            title=description.title,
            units=description.units,
            **description.tags,
        )

    def write(self, name: str, rows: slice, values: NDArray[np.float32]) -> None:
        """Fill some rows."""
        self._open[name].write(values, 1, window=self._window(rows))

    def read(self, name: str, rows: slice) -> NDArray[np.float32]:
        """Rows as they are now."""
        return self._open[name].read(1, window=self._window(rows))

    def finish(self, tell: Callable[[str], None] | None = None) -> dict[str, Path]:
        """Copy every raster, named to `tell` before, to its cloud-optimised form and remove the scratch files."""
        paths = {}
        for name, dataset in self._open.items():
            if tell is not None:
                tell(name)
            dataset.close()
            paths[name] = self.folder / f"{name}.tif"
            rasterio.shutil.copy(self._scratch(name), paths[name], **COG)
            self._scratch(name).unlink()
        self._open = {}
        return paths

    def _scratch(self, name: str) -> Path:
        return self.folder / f"{name}.scratch.tif"

    def _window(self, rows: slice) -> tuple[tuple[int, int], tuple[int, int]]:
        return (rows.start, rows.stop), (0, self.grid.width)
