"""Maps as one xarray.Dataset."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import xarray

OF_EACH = ("title", "units", "map", "level", "quantile", "threshold")
"""Tags that describe one map; the others are said of all."""


def opened_maps(files: Sequence[Path]) -> xarray.Dataset:
    """Read maps on one grid, north up."""
    import rasterio
    import rioxarray  # noqa: F401  (adds the accessor `rio`)
    import xarray

    if not files:
        raise ValueError("There are no maps of this response. Run `vbagg predict` first.")
    maps = {}
    for file in files:
        with rasterio.open(file) as source:
            tags, crs, place = source.tags(), source.crs, source.transform
            about = {name: tags[name] for name in OF_EACH if name in tags}
            maps[file.stem] = (("y", "x"), source.read(1), about)
            centres = {
                "y": place.f + place.e * (np.arange(source.height) + 0.5),
                "x": place.c + place.a * (np.arange(source.width) + 0.5),
            }
    of_all = {name: text for name, text in tags.items() if name not in OF_EACH and not name.isupper()}
    return xarray.Dataset(maps, centres, of_all).rio.write_crs(crs)
