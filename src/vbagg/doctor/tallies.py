"""What a raster holds under polygons, summed up over bands of cells."""

from __future__ import annotations

import numpy as np

from vbagg.geo.align import Alignment
from vbagg.geo.grid import Floats
from vbagg.geo.layout import Band
from vbagg.geo.rasters import Layer


class Raster:
    """A layer in the cells under polygons.

    Attributes
    ----------
    alignment, is_category
        How it comes to the grid, and whether its columns are shares of categories.
    n_cells, n_gaps
        Number of cells, and of those without a value.
    gap_area, gap_weight
        Cells (parts counted as such) and exposure of each polygon where there is no value.
    first, low, high, mean
        The first value, the least, the largest and the mean over cells.
    classes
        Share of each category in the area that has a value.
    """

    def __init__(self, alignment: Alignment, is_category: bool, n_polygons: int) -> None:
        self.alignment, self.is_category = alignment, is_category
        self.n_cells = self.n_gaps = 0
        self.gap_area, self.gap_weight, self._known_pixels = (np.zeros(n_polygons) for _ in range(3))
        self.first, self.low, self.high = np.nan, np.inf, -np.inf
        self._shift, self._sum = np.nan, 0.0
        self._area, self._moment, self._square = (np.zeros(n_polygons) for _ in range(3))
        self._classes, self._known_area = np.zeros(len(alignment.names)), 0.0

    @property
    def layer(self) -> Layer:
        """The layer."""
        return self.alignment.layer

    def add(self, band: Band, weight: Floats) -> None:
        """Count a band, whose pairs have these weights."""
        values = band.values(self.alignment.names)
        gaps = np.isnan(values[:, 0])
        self.n_cells += gaps.size
        self.n_gaps += int(gaps.sum())
        at, known = gaps[band.place], ~gaps

        def by_polygon(weights: Floats) -> Floats:
            return np.bincount(band.polygon, weights, self.gap_area.size).astype(np.float64)

        self.gap_area += by_polygon(band.coverage * at)
        self.gap_weight += by_polygon(weight * at)
        if not known.any():
            return
        numbers = values[known, 0].astype(np.float64)
        if np.isnan(self._shift):
            self.first, self._shift = float(numbers[0]), float(numbers.mean())
        self.low, self.high = min(self.low, float(numbers.min())), max(self.high, float(numbers.max()))
        self._sum += float(numbers.sum())
        off = np.where(gaps, 0.0, values[:, 0].astype(np.float64) - self._shift)[band.place]
        coverage = band.coverage * ~at
        self._known_pixels += by_polygon((~at).astype(np.float64))
        self._area += by_polygon(coverage)
        self._moment += by_polygon(coverage * off)
        self._square += by_polygon(coverage * off**2)
        covered = band.covered * known
        self._known_area += float(covered.sum())
        self._classes += np.array([covered @ np.nan_to_num(column) for column in values.T])

    @property
    def has_values(self) -> bool:
        """Whether any cell has a value."""
        return self.n_gaps < self.n_cells

    @property
    def mean(self) -> float:
        """Over cells that have a value."""
        return self._sum / (self.n_cells - self.n_gaps)

    @property
    def classes(self) -> Floats:
        """Share of each category in the area that has a value."""
        return self._classes / self._known_area

    def variation(self) -> tuple[float, float]:
        """Sums of squares within polygons, and about the mean of all cells."""
        means = np.divide(self._moment, self._area, out=np.zeros_like(self._area), where=self._area > 0)
        within = self._square - means * self._moment
        off = self.mean - self._shift
        around = self._square - 2 * off * self._moment + off**2 * self._area
        return float(within.sum()), float(around.sum())

    @property
    def most_pixels(self) -> float:
        """Number of cells with a value in the polygon that has most of them."""
        return float(self._known_pixels.max())


class People(Raster):
    """The population in the cells under polygons.

    Attributes
    ----------
    n_negative, lowest, lowest_cell, has_negative
        Number of cells with less than nobody; the least value and its cell; which polygons have such cells.
    beyond
        People in the parts of cells that no polygon covers, shared among the polygons of the cell.
    """

    def __init__(self, alignment: Alignment, n_polygons: int) -> None:
        super().__init__(alignment, False, n_polygons)
        self.n_negative, self.lowest, self.lowest_cell = 0, 0.0, -1
        self.has_negative = np.zeros(n_polygons, dtype=bool)
        self.beyond = np.zeros(n_polygons)

    def add(self, band: Band, weight: Floats) -> None:
        """Count a band, whose pairs have these weights."""
        super().add(band, weight)
        values = band.values(self.alignment.names)[:, 0]
        negative = values < 0
        if negative.any():
            self.n_negative += int(negative.sum())
            least = int(np.nanargmin(values))
            if values[least] < self.lowest:
                self.lowest, self.lowest_cell = float(values[least]), int(band.cells[least])
            self.has_negative[band.polygon[negative[band.place]]] = True
        beyond = np.maximum(1 - band.covered, 0) * np.nan_to_num(np.maximum(values, 0))
        self.beyond += np.bincount(band.polygon, band.coverage * (beyond / band.covered)[band.place], self.beyond.size)
