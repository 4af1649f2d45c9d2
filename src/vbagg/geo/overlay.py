"""How much of each cell each polygon covers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import shapely
from numpy.typing import NDArray

from vbagg.geo.grid import Floats, Grid
from vbagg.geo.polygons import Polygons

SPECK = 1e-9  # part of a cell below which a polygon does not reach it
ON_A_LINE = 1e-6  # distance, in cells, within which a corner is on a cell's edge
ROWS = slice(None)


@dataclass(frozen=True)
class Overlay:
    """Polygons over upright cells, for any rows of these.

    Polygons may be in any CRS, with holes and overlaps as they come, and reach beyond the grid: what lies outside is
    left out.
    """

    polygons: Polygons
    grid: Grid

    def __post_init__(self) -> None:
        if not self.grid.is_upright:
            raise ValueError(
                f"the target grid must be north up and not rotated; got the transform {self.grid.transform}."
            )

    def require_pairs(self) -> Overlay:
        """The same; raise if no polygon reaches any cell."""
        if self.is_empty:
            raise ValueError(
                f"{self.polygons.path}: at least one polygon must lie on the target grid; none does. Check the CRS."
            )
        return self

    def pairs(self, rows: slice = ROWS) -> pd.DataFrame:
        """Cells of some rows that each polygon covers, in whole or in part; catchments have their shares of cells.

        Returns
        -------
        Data frame with the columns `polygon` (position among the polygons), `cell` (number on the whole grid) and
        `coverage` (part of the cell that lies in the polygon, above 0 and at most 1), sorted by polygon and cell.
        """
        if self.polygons.catchments is not None:
            return self.polygons.catchments.pairs(self.grid, rows)
        first, last, _ = rows.indices(self.grid.height)
        near = self._near(first, last)
        shapes = self._shapes[near]
        cells, coverages = _extract(shapes, self.grid, first, last) if near.size else ([], [])
        pairs = pd.DataFrame(
            {
                "polygon": np.repeat(near, [cell.size for cell in cells]),
                "cell": np.concatenate([*cells, np.empty(0, np.int64)]) + first * self.grid.width,
                "coverage": np.minimum(np.concatenate([*coverages, np.empty(0)]), 1.0),
            }
        )
        return pairs[pairs["coverage"] > SPECK].reset_index(drop=True)

    @property
    def is_empty(self) -> bool:
        """Whether no polygon reaches any cell."""
        return all(self.pairs(rows).empty for rows in self.grid.bands())

    def _near(self, first: int, last: int) -> NDArray[np.intp]:
        """Positions of polygons that may reach cells of the rows from `first` to before `last`."""
        left, bottom, right, top = self._bounds.T
        above, below = self.grid.height - first, self.grid.height - last
        return np.flatnonzero((left < self.grid.width) & (right > 0) & (bottom < above) & (top > below))

    @cached_property
    def _bounds(self) -> Floats:
        return shapely.bounds(self._shapes)

    @cached_property
    def _shapes(self) -> NDArray[Any]:
        """Shapes in units of cells from the south-western corner; edges along cell lines would be lost in rounding."""
        across, _, west, _, down, north = self.grid.transform

        def places(points: Floats) -> Floats:
            found = np.column_stack([(points[:, 0] - west) / across, self.grid.height - (points[:, 1] - north) / down])
            lines = np.rint(found)
            return np.where(np.abs(found - lines) < ON_A_LINE, lines, found)

        return shapely.transform(self.polygons.on(self.grid).geometry, places)


def overlay(polygons: Polygons, grid: Grid) -> pd.DataFrame:
    """Cells of the whole grid that each polygon covers: see `Overlay.pairs`."""
    return Overlay(polygons, grid).pairs()


def shares_inside(polygons: Polygons, grid: Grid, covered: Floats) -> Floats:
    """Part of each polygon's area, as drawn on the grid's map, that lies in so many cells of the grid (n,)."""
    across, down = grid.resolution
    areas = shapely.area(polygons.on(grid).geometry)
    return np.clip(np.divide(covered * across * down, areas, out=np.zeros(len(areas)), where=areas > 0), 0, 1)


def cells_covered(pairs: pd.DataFrame | NDArray[Any], n_polygons: int) -> Floats:
    """How many cells each polygon covers, parts of cells counted as such (n,)."""
    return np.bincount(pairs["polygon"], pairs["coverage"], n_polygons).astype(np.float64)


def _extract(
    shapes: NDArray[Any], grid: Grid, first: int, last: int
) -> tuple[list[NDArray[np.int64]], list[NDArray[np.float64]]]:
    """Numbers, from the start of the rows on, and covered parts of the cells of each shape in some rows."""
    from exactextract import exact_extract
    from exactextract.feature import Feature, FeatureSource
    from exactextract.raster import RasterSource

    class Ones(RasterSource):  # type: ignore[misc]
        """A raster that has a value everywhere and is nowhere in memory: cells without one would be dropped."""

        def res(self) -> tuple[float, float]:
            return 1.0, 1.0

        def extent(self) -> tuple[float, float, float, float]:
            return 0.0, float(grid.height - last), float(grid.width), float(grid.height - first)

        def nodata_value(self) -> None:
            return None

        def srs_wkt(self) -> None:
            return None

        def read_window(self, x0: int, y0: int, nx: int, ny: int) -> NDArray[np.uint8]:
            return np.ones((ny, nx), dtype=np.uint8)

    class Shape(Feature):  # type: ignore[misc]
        def __init__(self, wkb: bytes) -> None:
            super().__init__()
            self.wkb = wkb

        def geometry(self) -> bytes:
            return self.wkb

        def fields(self) -> list[str]:
            return []

    class Shapes(FeatureSource):  # type: ignore[misc]
        def count(self) -> int:
            return len(shapes)

        def __iter__(self) -> Iterator[Shape]:
            return map(Shape, shapely.to_wkb(shapes))

        def srs_wkt(self) -> None:
            return None

    found = exact_extract(Ones(), Shapes(), ["cell_id", "coverage"], output="pandas")
    return found["cell_id"].tolist(), found["coverage"].tolist()
