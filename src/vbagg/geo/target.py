"""The grid that all layers are brought to."""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
import shapely

from vbagg.geo.files import one_line
from vbagg.geo.grid import Bounds, Grid, crs_name, crs_title, is_geographic, transformer, unit
from vbagg.geo.polygons import Polygons
from vbagg.geo.rasters import Layer, open_layers
from vbagg.numerals import coordinate, count, side

MOST_CELLS = 2_000_000_000
MOST_PIXELS = 50_000_000
"""Cells under polygons, each counted for each polygon, of a fit in one process: it holds them all, in 12 GB or more."""
ENOUGH_PIXELS = 2_000_000
"""Pixels that a fit takes in its stride; the advised resolution gives about so many."""


def target_grid(
    polygons: Polygons,
    base: Layer | None = None,
    resolution: float | None = None,
    grid: Grid | str | os.PathLike[str] | None = None,
) -> Grid:
    """Cells for all layers: those of a raster around the polygons, with one cell to spare.

    Parameters
    ----------
    polygons
        What has to be covered.
    base
        The raster whose cells are taken, unless `grid` says otherwise.
    resolution
        Size of the cells, in the units of the grid's CRS. Default: that of the raster.
    grid
        A grid, which is taken as it is; a raster file, whose cells are taken; or a CRS such as `"EPSG:32738"`, in
        which the raster's cells have about their own size.
    """
    if isinstance(grid, Grid):
        chosen = grid if resolution is None else grid.at_resolution(resolution)
    elif grid is not None and not Path(grid).exists():
        chosen = _in_crs(polygons, base, resolution, os.fspath(grid))
    else:
        layer = base if grid is None else open_layers(grid)[0]
        if layer is None:
            chosen = _without_raster(polygons, resolution)
        else:
            chosen = _cropped(polygons, layer)
            chosen = chosen if resolution is None else chosen.at_resolution(resolution)
    if not chosen.is_upright:
        raise ValueError(
            f"the target grid must be north up and not rotated; got the transform {chosen.transform}. "
            "Straighten the raster, for example with `gdalwarp`, or in Python name a CRS as `grid`."
        )
    if chosen.n_cells > MOST_CELLS:
        raise ValueError(
            f"the target grid must have at most {MOST_CELLS:,} cells; got {chosen.height:,} x {chosen.width:,}. "
            f"Choose a larger `resolution`, such as {coarser(chosen, chosen.n_cells, MOST_CELLS):g}, which is in the "
            f"units of {_units(chosen.crs)}."
        )
    left, bottom, right, top = polygons.to(chosen.crs).bounds
    if resolution is not None and resolution > max(right - left, top - bottom):
        raise ValueError(
            f"`resolution` must not exceed the extent of the polygons, {coordinate(right - left)} x "
            f"{coordinate(top - bottom)} in the units of {_units(chosen.crs)}; got {resolution:g}. Choose a smaller "
            "one."
        )
    return chosen


def _units(crs: str) -> str:
    """A CRS with the name of its units, for messages."""
    return f"{crs_title(crs)} ({'degrees' if is_geographic(crs) else 'metres' if unit(crs) == 1 else 'not metres'})"


def expected_pixels(polygons: Polygons, grid: Grid) -> float:
    """About how many cells polygons cover, by their area on the grid's map."""
    if polygons.catchments is not None:
        return polygons.catchments.expected_pixels(grid)
    across, down = grid.resolution
    inside = shapely.clip_by_rect(polygons.on(grid).geometry, *grid.bounds)
    return float(shapely.area(inside).sum() / (across * down))


def coarser(grid: Grid, number: float, most: float) -> float:
    """Size of square cells, with two digits, of which there are at most so many where the grid has another number."""
    across, down = grid.resolution
    exact = math.sqrt(across * down * number / most)
    digit = 10.0 ** (math.floor(math.log10(exact)) - 1)
    return float(f"{math.ceil(exact / digit) * digit:.2g}")


def require_manageable(polygons: Polygons, grid: Grid, on_workers: int | None = None) -> float:
    """About how many pixels there will be; more than a fit can hold are refused, with a resolution that would do.

    Parameters
    ----------
    polygons, grid
        What lies on what.
    on_workers
        Pixels that the workers of a cluster can hold; None for a fit in one process.
    """
    pixels = expected_pixels(polygons, grid)
    most = MOST_PIXELS if on_workers is None else on_workers
    if pixels <= most:
        return pixels
    who = "a fit in one process holds them all (workers can hold more)"
    who = who if on_workers is None else "the workers of a fit hold them all (more workers, or larger ones, hold more)"
    resolution = coarser(grid, pixels, ENOUGH_PIXELS)
    across, down = grid.resolution
    fewer = pixels * across * down / resolution**2
    raise ValueError(
        f"{polygons.path}: at most {most:,} cells of the grid can lie in polygons, since {who}; "
        f"about {count(pixels)} cells of {side(across)} x {side(down)} do. Use larger ones: "
        f"`--resolution {resolution:g}` (in the units of {_units(grid.crs)}) would give about {count(fewer)}."
    )


def _cropped(polygons: Polygons, layer: Layer) -> Grid:
    """Cells of a raster around the polygons."""
    placed = polygons.to(layer.grid.crs)
    layer = layer.facing((placed.bounds[0], placed.bounds[2]))
    rows, columns = layer.grid.window(placed.bounds, margin=1)
    if rows.start >= rows.stop or columns.start >= columns.stop:
        raise ValueError(
            f"{layer.path} must overlap the polygons of {polygons.path}; it covers {_shown(layer.grid.bounds)} and "
            f"they lie in {_shown(placed.bounds)} ({crs_title(layer.grid.crs)}). {_advice(placed, layer.grid)}"
        )
    return layer.grid.sub(rows, columns)


def _advice(polygons: Polygons, grid: Grid) -> str:
    """What to do about polygons that do not reach a grid."""
    left, bottom, right, top = polygons.bounds
    rows, columns = grid.window((bottom, left, top, right))
    if is_geographic(grid.crs) and rows.start < rows.stop and columns.start < columns.stop:
        return "x and y of one of them look swapped: x must be the longitude."
    return "Check the CRS of both files."


def _in_crs(polygons: Polygons, base: Layer | None, resolution: float | None, text: str) -> Grid:
    try:
        crs = crs_name(text)
    except ValueError as error:
        raise ValueError(f"`grid` must be a raster file or a CRS; got {text!r}: {one_line(error)}.") from None
    if resolution is None:
        if base is None:
            return _without_raster(polygons, resolution)
        resolution = _equal_size(_cropped(polygons, base), crs)
    return _lattice(crs, polygons.to(crs).bounds, resolution)


def _without_raster(polygons: Polygons, resolution: float | None) -> Grid:
    if resolution is None:
        raise ValueError("A target grid is needed: name a population or covariate raster, or set `resolution`.")
    return _lattice(polygons.crs, polygons.bounds, resolution)


def _lattice(crs: str, bounds: Bounds, resolution: float) -> Grid:
    """Square cells at multiples of their size, with one to spare on each side."""
    unit_cell = Grid(crs, (1.0, 0.0, 0.0, 0.0, -1.0, 0.0), 1, 1).at_resolution(resolution)
    r = unit_cell.resolution[0]
    left, bottom, right, top = (math.floor(side / r) for side in bounds)
    corner = (r, 0.0, (left - 1) * r, 0.0, -r, (top + 2) * r)
    return Grid(crs, corner, top - bottom + 3, right - left + 3)


def _equal_size(grid: Grid, crs: str) -> float:
    """Size of square cells in another CRS that are as large as the one in the middle of the grid."""
    corners = np.array([0.0, 1, 0]) + grid.width / 2, np.array([0.0, 0, 1]) + grid.height / 2
    x, y = transformer(grid.crs, crs).transform(*grid.coordinates(*corners))
    return math.sqrt(abs((x[1] - x[0]) * (y[2] - y[0]) - (x[2] - x[0]) * (y[1] - y[0])))


def _shown(bounds: Bounds) -> str:
    left, bottom, right, top = map(coordinate, bounds)
    return f"x {left} to {right}, y {bottom} to {top}"
