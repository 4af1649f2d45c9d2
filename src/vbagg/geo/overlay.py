"""How much of each cell each polygon covers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import shapely
from numpy.typing import NDArray

from vbagg.geo.grid import Grid
from vbagg.geo.polygons import Polygons

SPECK = 1e-9  # part of a cell below which a polygon does not reach it
ON_A_LINE = 1e-6  # distance, in cells, within which a corner is on a cell's edge


def overlay(polygons: Polygons, grid: Grid) -> pd.DataFrame:
    """Cells that each polygon covers, in whole or in part.

    Parameters
    ----------
    polygons
        In any CRS, with holes and overlaps as they come.
    grid
        Upright cells. Polygons may reach beyond them; what lies outside is left out.

    Returns
    -------
    Data frame with the columns `polygon` (position among the polygons), `cell` (number) and `coverage` (part of the
    cell that lies in the polygon, above 0 and at most 1), sorted by polygon and cell.
    """
    if not grid.is_upright:
        raise ValueError(f"the target grid must be north up and not rotated; got the transform {grid.transform}.")
    cells, coverages = _extract(_in_cells(polygons.on(grid).geometry, grid), grid)
    sizes = [cell.size for cell in cells]
    pairs = pd.DataFrame(
        {
            "polygon": np.repeat(np.arange(len(polygons)), sizes),
            "cell": np.concatenate(cells),
            "coverage": np.minimum(np.concatenate(coverages), 1.0),
        }
    )
    return pairs[pairs["coverage"] > SPECK].reset_index(drop=True)


def shares_inside(polygons: Polygons, grid: Grid, pairs: pd.DataFrame) -> NDArray[np.float64]:
    """Part of each polygon's area, as drawn on the grid's map, that lies in cells of the grid (n,)."""
    across, down = grid.resolution
    covered = np.bincount(pairs["polygon"], weights=pairs["coverage"], minlength=len(polygons)) * across * down
    areas = shapely.area(polygons.on(grid).geometry)
    return np.clip(np.divide(covered, areas, out=np.zeros(len(areas)), where=areas > 0), 0, 1)


def _in_cells(shapes: NDArray[Any], grid: Grid) -> NDArray[Any]:
    """Shapes in units of cells from the south-western corner; edges along cell lines would be lost in rounding."""
    across, _, west, _, down, north = grid.transform

    def places(points: NDArray[np.float64]) -> NDArray[np.float64]:
        found = np.column_stack([(points[:, 0] - west) / across, grid.height - (points[:, 1] - north) / down])
        lines = np.rint(found)
        return np.where(np.abs(found - lines) < ON_A_LINE, lines, found)

    return shapely.transform(shapes, places)


def _extract(shapes: NDArray[Any], grid: Grid) -> tuple[list[NDArray[np.int64]], list[NDArray[np.float64]]]:
    """Numbers and covered parts of the cells of each shape, given in units of cells."""
    from exactextract import exact_extract
    from exactextract.feature import Feature, FeatureSource
    from exactextract.raster import RasterSource

    class Ones(RasterSource):
        """A raster that has a value everywhere and is nowhere in memory: cells without one would be dropped."""

        def res(self) -> tuple[float, float]:
            return 1.0, 1.0

        def extent(self) -> tuple[float, float, float, float]:
            return 0.0, 0.0, float(grid.width), float(grid.height)

        def nodata_value(self) -> None:
            return None

        def srs_wkt(self) -> None:
            return None

        def read_window(self, x0: int, y0: int, nx: int, ny: int) -> NDArray[np.uint8]:
            return np.ones((ny, nx), dtype=np.uint8)

    class Shape(Feature):
        def __init__(self, wkb: bytes) -> None:
            super().__init__()
            self.wkb = wkb

        def geometry(self) -> bytes:
            return self.wkb

        def fields(self) -> list[str]:
            return []

    class Shapes(FeatureSource):
        def count(self) -> int:
            return len(shapes)

        def __iter__(self) -> Iterator[Shape]:
            return map(Shape, shapely.to_wkb(shapes))

        def srs_wkt(self) -> None:
            return None

    found = exact_extract(Ones(), Shapes(), ["cell_id", "coverage"], output="pandas")
    return found["cell_id"].tolist(), found["coverage"].tolist()
