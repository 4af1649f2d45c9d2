"""What a fit will take, roughly: formulas with constants measured for the default model on a 2-core machine.

With `b` polygons, `n` pixels and `m` features (landmarks of places and of covariates, covariates, a constant), the
search for parameters sees at most 32 pixels of each polygon, and the last steps see all. CPU seconds are about::

    COMPILATION + SEARCH min(n, 32 b) m^2 + FINAL n m^2

and bytes are those of the libraries, the table, the features at work on one chunk of polygons, the features kept, and
what is worked out for each polygon::

    LIBRARIES + COLUMN n (covariates + 6) + min(WORK, 32 n m) + min(KEPT, 6 n m) + 5 b m^2

| polygons | pixels | features | CPU seconds: measured, formula | GB: measured, formula |
|---|---|---|---|---|
| 40 | 2,500 | 204 | 21, 20 | 0.8, 0.9 |
| 109 | 30,000 | 404 | 37, 37 | 1.2, 1.3 |
| 300 | 30,000 | 404 | 57, 60 | 1.3, 1.4 |
| 300 | 200,000 | 404 | 83, 88 | 1.6, 1.9 |
| 1,000 | 60,000 | 404 | 125, 149 | 2.3, 2.1 |
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from vbagg.doctor.findings import Gathered
from vbagg.doctor.reading import Inputs
from vbagg.doctor.words import duration
from vbagg.geo.align import source_window
from vbagg.geo.grid import Grid, crs_title
from vbagg.geo.overlay import Overlay
from vbagg.geo.rasters import Layer
from vbagg.geo.target import ENOUGH_PIXELS, coarser, require_manageable
from vbagg.geo.workers import memory_of_all, most_pixels
from vbagg.landmarks import default_number
from vbagg.numerals import count

if TYPE_CHECKING:
    from vbagg.doctor.overlaid import Overlaid
    from vbagg.workflow.settings import Model

SETTINGS = "settings"
COMPILATION = 19.0
SEARCH = 2.3e-8
FINAL = 1e-9
SEEN = 32
LIBRARIES = 0.85e9
COLUMN = 24
WORK = 0.25e9
KEPT = 2e9
LONG = 2 * 3600.0
"""CPU seconds of a fit from which on a larger `resolution` is worth a word."""
SLOW_READING = 20.0
"""Seconds of reading from which on it is announced."""
READING = 0.9e9
"""Bytes that the check takes, whatever the rasters."""
SECONDS_PER_SOURCE, SECONDS_PER_CELL, SECONDS_PER_PIXEL = 5e-8, 1e-8, 4e-7
"""CPU seconds of the check for each cell of a file, each cell of a layer on the grid, and each pixel: 87 for three
files of 400 million cells with 38 million pixels, 67 on a grid of 1.7 million cells."""


def expected_cost(laid: Overlaid, model: Model | None) -> dict[str, Any]:
    """Landmarks, CPU seconds and bytes of one fit, good to a factor of two or so."""
    columns = sum(len(raster.alignment.names) for raster in laid.rasters)
    return _fit(int(np.count_nonzero(laid.totals)), laid.n_weighty, laid.n_inhabited, columns, model)


def check_size(
    overlay: Overlay,
    inputs: Inputs,
    model: Model | None,
    found: Gathered,
    announce: Callable[[str], None],
    client: Any = None,
) -> bool:
    """Before any raster is read: whether a fit can hold all pixels, and what reading and fitting will take."""
    polygons, grid, layers = overlay.polygons, overlay.grid, inputs.layers
    most = most_pixels(client, len(layers) + 1)
    pixels = found.attempt("too-large", SETTINGS, lambda: require_manageable(polygons, grid, most))
    if pixels is None:
        return False
    seconds = _reading_seconds(pixels, grid, layers)
    if seconds > SLOW_READING:
        size = f"{READING / 1e9:g} GB of memory"
        announce(
            f"{len(layers)} rasters and about {count(pixels)} pixels take about {duration(seconds)} and {size} to read"
        )
    cost = _fit(len(polygons), int(pixels), int(pixels), len(layers), model)
    memory = machine_memory() if client is None else memory_of_all(client)
    whose = "this machine has" if client is None else "the workers have"
    is_too_large = memory is not None and cost["bytes"] > memory
    if is_too_large or cost["cpu_seconds"] > LONG:
        resolution = coarser(grid, pixels, ENOUGH_PIXELS)
        across, down = grid.resolution
        fewer = pixels * across * down / resolution**2
        less = _fit(len(polygons), int(fewer), int(fewer), len(layers), model)
        has = f"; {whose} {memory / 1e9:.1f} GB" if memory is not None and is_too_large else ""
        text = (
            f"A fit of about {count(pixels)} pixels takes about {_amounts(cost)}{has}. "
            f"`--resolution {resolution:g}` (in the units of {crs_title(grid.crs)}) would give about {count(fewer)} "
            f"pixels, and take {_amounts(less)}."
        )
        found.add("warning" if is_too_large else "advice", "large", text, SETTINGS)
    return True


def machine_memory() -> float | None:
    """Bytes of memory that this machine has; None if it does not tell."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):  # not on Windows
        return None


def _fit(polygons: int, pixels: int, cells: int, columns: int, model: Model | None) -> dict[str, Any]:
    sets = [2, *([columns] if columns else [])]
    chosen = None if model is None else model.landmarks
    each = [default_number(cells, dims, polygons) if chosen is None else min(chosen, cells) for dims in sets]
    landmarks = sum(each)
    features = landmarks + columns + 1
    seconds = COMPILATION + features**2 * (SEARCH * min(pixels, SEEN * polygons) + FINAL * pixels)
    numbers = pixels * features
    size = LIBRARIES + COLUMN * pixels * (columns + 6) + min(WORK, 32 * numbers) + min(KEPT, 6 * numbers)
    size += 5 * polygons * features**2
    return {"landmarks": landmarks, "cpu_seconds": seconds, "bytes": size}


def _reading_seconds(pixels: float, grid: Grid, layers: Sequence[Layer]) -> float:
    """For the check, roughly: every raster is read twice around the polygons, and written once on the grid."""
    windows = [source_window(layer.grid, grid) for layer in layers]
    stored = sum(float(rows.stop - rows.start) * (columns.stop - columns.start) for rows, columns in windows)
    on_grid = grid.n_cells * max(1, len(layers))
    return SECONDS_PER_SOURCE * stored + SECONDS_PER_CELL * on_grid + SECONDS_PER_PIXEL * pixels


def _amounts(cost: Mapping[str, Any]) -> str:
    return f"{duration(cost['cpu_seconds'])} of CPU time and {cost['bytes'] / 1e9:.1f} GB of memory"
