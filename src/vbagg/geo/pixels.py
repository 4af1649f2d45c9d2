"""The table of pixels: every cell under a polygon, with its weight, its place and its covariates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from vbagg.geo.files import percent
from vbagg.geo.gaps import Cells, Filled, Group, fill
from vbagg.geo.grid import Floats
from vbagg.geo.polygons import Polygons
from vbagg.geo.rasters import Layer
from vbagg.geo.stack import Planes, Stack


@dataclass(frozen=True)
class PixelTable:
    """Pixels, and what their cells hold once gaps are dealt with.

    Attributes
    ----------
    frame
        The table, as in `Prepared`.
    cells
        Numbers of all cells under polygons, each once and in order.
    exposure
        Exposure of these cells: 0 where it is missing.
    filled
        Covariates of these cells.
    notes
        What was done, in sentences.
    """

    frame: pd.DataFrame
    cells: Cells
    exposure: Floats
    filled: Filled
    notes: tuple[str, ...]


def pixel_table(
    polygons: Polygons, pairs: pd.DataFrame, raw: Stack, groups: Sequence[Group], missing: str, people: Layer | None
) -> PixelTable:
    """List the pixels of each polygon.

    Parameters
    ----------
    polygons, pairs
        Polygons and their overlay with the grid.
    raw
        Covariates on the grid, with gaps, and the exposure as the last layer.
    groups, missing
        The covariates by file, and what becomes of their gaps.
    people
        The population raster, if the exposure comes from one, for messages.
    """
    cells, place = np.unique(pairs["cell"].to_numpy(), return_inverse=True)
    kind = raw.names[-1]
    exposure, notes = _exposure(polygons, pairs, raw, cells, people)
    within = np.bincount(place, weights=pairs["coverage"], minlength=cells.size) * exposure
    filled = fill(raw, groups, cells, within, missing, kind)
    km = raw.grid.kilometres(cells)
    frame = pd.DataFrame(
        {
            "polygon": polygons.frame[polygons.id].take(pairs["polygon"]).array,
            "cell": pairs["cell"].to_numpy(),
            "coverage": pairs["coverage"].to_numpy(),
            "weight": pairs["coverage"].to_numpy() * exposure[place],
            "x": km[place, 0],
            "y": km[place, 1],
            **{name: column[place] for name, column in zip(filled.names, filled.values.T, strict=True)},
        }
    )
    whole = np.isfinite(filled.values.sum(axis=1))[place]
    if not whole.all():
        lost = percent(frame["weight"][~whole].sum(), frame["weight"].sum())
        notes += (
            f"{np.count_nonzero(~whole):,} of {whole.size:,} pixels lack a covariate and were left out, "
            f"with {lost} of the {kind}.",
        )
        frame = frame[whole].reset_index(drop=True)
    return PixelTable(frame, cells, exposure, filled, (*filled.notes, *notes))


def write_filled(path: Path, raw: Stack, table: PixelTable) -> Stack:
    """Write the final stack: the raw layers, with what was filled in under polygons."""
    filled = table.filled
    names = (*filled.names, raw.names[-1])
    source = {name: band for band, name in enumerate(raw.names)}

    def rows_of(rows: slice) -> Planes:
        planes = raw.read(rows)
        result = np.stack([planes[source[filled.indicators.get(name, name)]] for name in names])
        for band, name in enumerate(names):
            if name in filled.indicators:
                result[band][~np.isnan(result[band])] = 0
        first, last = rows.start * raw.grid.width, rows.stop * raw.grid.width
        here = slice(*np.searchsorted(table.cells, [first, last]))
        flat = result.reshape(len(names), -1)
        cells = table.cells[here] - first
        flat[-1, cells] = table.exposure[here]
        changed = filled.changed[here]
        flat[:-1, cells[changed]] = filled.values[here][changed].T
        return result

    return Stack.write(path, raw.grid, names, rows_of)


def _exposure(
    polygons: Polygons, pairs: pd.DataFrame, raw: Stack, cells: Cells, people: Layer | None
) -> tuple[Floats, tuple[str, ...]]:
    """Exposure of each cell: 0 where it is missing, never negative, and not 0 everywhere."""
    exposure = raw.at(cells, raw.names[-1:])[:, 0].astype(np.float64)
    gaps = np.isnan(exposure)
    exposure[gaps] = 0.0
    if people is None:
        return exposure, ()
    for cell in np.flatnonzero(exposure < 0):
        position = pairs["polygon"][pairs["cell"] == cells[cell]].iloc[0]
        x, y = (float(side) for side in raw.grid.centres(cells[cell]))
        raise ValueError(
            f"{people.path} must not be negative; got {exposure[cell]:g} at ({x:.6g}, {y:.6g}) in polygon "
            f"{polygons.labels[position]!r}, the first of {np.count_nonzero(exposure < 0):,} such cells. "
            "Declare its value for missing cells."
        )
    if not exposure.any():
        raise ValueError(f"{people.path} must hold people under the polygons; it holds none. Check its extent and CRS.")
    missing = f"no value in {gaps.sum():,} of {gaps.size:,} cells under polygons, which counted as zero people"
    return exposure, (f"{people.file}: {missing}.",) if gaps.any() else ()
