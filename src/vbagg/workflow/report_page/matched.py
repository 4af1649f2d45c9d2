"""Sums over districts of the map that was rescaled to official totals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from vbagg.geo.contents import MATCHED
from vbagg.geo.grid import Grid
from vbagg.workflow.results import written_by

if TYPE_CHECKING:
    from vbagg.workflow.report_page.subject import Subject

CELLS_AT_ONCE = 1 << 22


def matched_totals(subject: Subject, cells_at_once: int = CELLS_AT_ONCE) -> NDArray[np.float64]:
    """Sum of the cells of each district, weighted by the parts that it covers; NaN where it has no cells."""
    import rasterio

    prepared, path = subject.prepared, subject.maps / f"{MATCHED}.tif"
    pixels = prepared.pixels[["polygon", "cell", "coverage"]].sort_values("cell")
    at = pd.Index(prepared.polygons.labels).get_indexer(pixels["polygon"])
    cell, coverage = pixels["cell"].to_numpy(), pixels["coverage"].to_numpy()
    sums, touched = np.zeros(len(prepared.polygons)), np.zeros(len(prepared.polygons), dtype=bool)
    with written_by("predict", path), rasterio.open(path) as source:
        grid = Grid.of(source)
        for rows in grid.bands(cells_at_once):
            first, last = np.searchsorted(cell, [rows.start * grid.width, rows.stop * grid.width])
            values = source.read(1, window=((rows.start, rows.stop), (0, grid.width))).ravel()
            found = values[cell[first:last] - rows.start * grid.width].astype(np.float64)
            known = np.isfinite(found)
            own = at[first:last][known]
            sums += np.bincount(own, coverage[first:last][known] * found[known], len(sums))
            touched[own] = True
    return np.where(touched, sums, np.nan)
