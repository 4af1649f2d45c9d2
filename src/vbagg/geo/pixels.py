"""The table of pixels: every cell under a polygon, with its weight, its place and its covariates.

Bands of rows come in the order of the grid, and the table is sorted by polygon: pixels go through a scratch file, in
which each polygon has its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from vbagg.geo.files import appearing, percent
from vbagg.geo.gaps import Filling
from vbagg.geo.grid import Floats
from vbagg.geo.layout import Band, Layout
from vbagg.geo.polygons import Polygons
from vbagg.geo.records import Records
from vbagg.geo.stack import Planes, Stack
from vbagg.numerals import coordinate

ROWS_OF_A_GROUP = 1 << 17
"""Of the table, which are read together."""


@dataclass(frozen=True)
class Written:
    """What was written.

    Attributes
    ----------
    stack
        All layers, with what was filled in under polygons.
    totals
        Exposure of each polygon in the table.
    notes
        What was left out, in sentences.
    """

    stack: Stack
    totals: Floats
    notes: tuple[str, ...]


def check_exposure(layout: Layout) -> tuple[str, ...]:
    """Refuse a population that is negative, or 0 everywhere, under polygons; notes on where it is missing."""
    if layout.people is None:
        return ()
    people = layout.people.layer
    gaps = negative = 0
    first, found = None, False
    for band in layout.read():
        exposure = band.exposure
        assert exposure is not None
        gaps += int(np.isnan(exposure).sum())
        below = np.flatnonzero(exposure < 0)
        negative += below.size
        found = found or bool(np.nan_to_num(exposure).any())
        if below.size and first is None:
            polygon = band.polygon[np.flatnonzero(band.place == below[0])[0]]
            first = band.cells[below[0]], exposure[below[0]], polygon
    if first is not None:
        cell, value, polygon = first
        x, y = (float(side) for side in layout.grid.centres(cell))
        raise ValueError(
            f"{people.path} must not be negative; got {value:g} at ({coordinate(x)}, {coordinate(y)}) in polygon "
            f"{layout.polygons.labels[polygon]!r}, the first of {negative:,} such cells. "
            "Declare its value for missing cells."
        )
    if not found:
        raise ValueError(f"{people.path} must hold people under the polygons; it holds none. Check its extent and CRS.")
    missing = f"no value in {gaps:,} of {layout.n_cells:,} cells under polygons, which counted as zero people"
    return (f"{people.file}: {missing}.",) if gaps else ()


def write_pixels(layout: Layout, filling: Filling, stack: Path, table: Path) -> Written:
    """Write all layers with their gaps filled, and the table of pixels.

    Parameters
    ----------
    layout, filling
        Polygons and layers, and what becomes of gaps.
    stack, table
        Files to write: a GeoTIFF, and Parquet with the columns that `Prepared` has.
    """
    covariates = filling.names
    scratch = Records(layout.stack.path.with_name("pixels.bin"), _row_type(covariates))
    next_place = np.cumsum(layout.pixels) - layout.pixels

    def rows_of(rows: slice) -> Planes:
        band = layout.band(rows)
        values, changed = filling.filled(band)
        exposure = np.zeros(0) if band.exposure is None else np.nan_to_num(band.exposure)
        polygons, sizes = np.unique(band.polygon, return_counts=True)
        scratch.write(_rows(band, values, covariates), next_place[polygons], sizes)
        next_place[polygons] += sizes
        return _filled_planes(band, filling, exposure, values, changed)

    written = Stack.write(stack, layout.grid, (*covariates, layout.kind), rows_of, bands=layout.bands)
    totals, notes = _write_table(table, scratch, layout, covariates)
    return Written(written, totals, notes)


def _row_type(covariates: Sequence[str]) -> np.dtype[Any]:
    numbers = ("coverage", "weight", "x", "y")
    return np.dtype(
        [
            ("polygon", np.int32),
            ("cell", np.int64),
            *((name, np.float64) for name in numbers),
            *((name, np.float32) for name in covariates),
        ]
    )


def _rows(band: Band, values: NDArray[np.float32], covariates: Sequence[str]) -> NDArray[Any]:
    """Pixels of a band, sorted by polygon and cell."""
    rows = np.empty(band.cell.size, dtype=_row_type(covariates))
    if rows.size:
        km = band.stack.grid.kilometres(band.cells)
        rows["polygon"], rows["cell"], rows["coverage"] = band.polygon, band.cell, band.coverage
        rows["weight"] = band.weight
        rows["x"], rows["y"] = km[band.place].T
        for name, column in zip(covariates, values.T, strict=True):
            rows[name] = column[band.place]
    return rows


def _filled_planes(
    band: Band, filling: Filling, exposure: Floats, values: NDArray[np.float32], changed: NDArray[np.bool_]
) -> Planes:
    """All layers on the rows of a band: as they were aligned, with what was filled in under polygons."""
    names = (*filling.names, band.stack.names[-1])
    planes = np.stack([band.planes[band.stack.names.index(filling.indicators.get(name, name))] for name in names])
    for plane, name in zip(planes, names, strict=True):
        if name in filling.indicators:
            plane[~np.isnan(plane)] = 0
    flat = planes.reshape(len(names), -1)
    if band.shares is not None:
        flat[-1] = np.nan  # who lives outside of the polygons is unknown
    cells = band.cells - band.rows.start * band.stack.grid.width
    flat[-1, cells] = exposure
    flat[:-1, cells[changed]] = values[changed].T
    return planes


def _write_table(
    path: Path, scratch: Records, layout: Layout, covariates: Sequence[str]
) -> tuple[Floats, tuple[str, ...]]:
    """Write the pixels that have all covariates; exposure of each polygon, and a note on what was left out."""
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

    n = len(layout.polygons)
    totals, whole, without = np.zeros(n), 0.0, 0
    exact = _to_amounts(scratch, layout, covariates)
    schema = pa.Schema.from_pandas(_frame(np.empty(0, scratch.dtype), layout.polygons), preserve_index=False)
    with appearing(path) as part, ParquetWriter(part, schema) as writer:
        for rows in scratch.chunks(int(layout.pixels.sum())):
            known = _known(rows, covariates)
            whole += float(rows["weight"].sum())
            without += int(np.count_nonzero(~known))
            rows = rows if known.all() else rows[known]
            if exact is not None:
                rows["weight"] *= exact[rows["polygon"]]
            totals += np.bincount(rows["polygon"], rows["weight"], n)
            rows_of_polygons = pa.Table.from_pandas(_frame(rows, layout.polygons), schema=schema, preserve_index=False)
            writer.write_table(rows_of_polygons, ROWS_OF_A_GROUP)
    if not without:
        return totals, ()
    what = f"with {percent(whole - totals.sum(), whole)} of the {layout.kind}"
    if layout.shares is not None:
        what = "and other pixels of their polygons hold what they would have held"
    return totals, (f"{without:,} of {layout.pixels.sum():,} pixels lack a covariate and were left out, {what}.",)


def _known(rows: NDArray[Any], covariates: Sequence[str]) -> NDArray[np.bool_]:
    """Which pixels have all covariates."""
    return np.isfinite(sum((rows[name] for name in covariates), np.zeros(rows.size, np.float32)))


def _to_amounts(scratch: Records, layout: Layout, covariates: Sequence[str]) -> Floats | None:
    """What weights are to be multiplied by, for those that stay to add up to the column that they are shares of."""
    if layout.shares is None:
        return None
    amounts = layout.shares.amounts
    kept = np.zeros_like(amounts)
    for rows in scratch.chunks(int(layout.pixels.sum())):
        kept += np.bincount(rows["polygon"], rows["weight"] * _known(rows, covariates), amounts.size)
    return np.divide(amounts, kept, out=np.zeros_like(amounts), where=kept > 0)


def _frame(rows: NDArray[Any], polygons: Polygons) -> pd.DataFrame:
    """Pixels as a table that names each polygon by its id."""
    ids = polygons.frame[polygons.id].take(rows["polygon"]).array
    return pd.DataFrame({name: ids if name == "polygon" else rows[name] for name in rows.dtype.fields or ()})
