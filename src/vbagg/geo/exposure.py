"""What cells are weighted by: a raster of people, a column of the polygons that is spread over their cells, or area."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vbagg.geo.files import plural, some
from vbagg.geo.grid import Floats, Grid

if TYPE_CHECKING:
    from vbagg.geo.polygons import Polygons
    from vbagg.geo.rasters import Layer

Planes = NDArray[np.float32]

SPREAD = "spread"
"""Name of the layer that a column is spread by."""
WEIGHED = {"population": "people", "area": "km²", "expected": "expected"}
"""What cells hold, in a word, by the kind of exposure."""


@dataclass(frozen=True)
class Exposure:
    """What cells are weighted by.

    Attributes
    ----------
    kind
        `"population"`, `"area"`, or `"expected"`: counts that would be expected in each polygon.
    column
        The column of the polygons that holds it; None for a raster and for areas.
    """

    kind: str
    column: str | None = None

    @property
    def word(self) -> str:
        """What the column holds, for messages."""
        return "population" if self.kind == "population" else "exposure"


BY_AREA = Exposure("area")


def exposure_of(
    population: Any, population_column: str | None, exposure_column: str | None, spread_by: Any
) -> Exposure:
    """What was asked for, of which only one thing can be."""
    words = {"population": population, "population-column": population_column, "exposure-column": exposure_column}
    given = [f"`--{word}`" for word, value in words.items() if value is not None]
    if len(given) > 1:
        raise ValueError(
            f"Only one thing can say what rates are relative to; got {' and '.join(given)}. Leave out one."
        )
    column = population_column if exposure_column is None else exposure_column
    if spread_by is not None and column is None:
        raise ValueError(
            "`--spread-by` says where in a polygon the people of a column live; none was named. Name one by "
            "`--population-column` or `--exposure-column`."
        )
    kind = "expected" if exposure_column is not None else "population" if given else "area"
    return Exposure(kind, column)


@dataclass(frozen=True, eq=False)
class Shares:
    """A column of the polygons over their cells, in proportion to area, or to area times a raster.

    Attributes
    ----------
    amounts
        What each polygon has (n).
    of_area, of_raster
        What one square kilometre has; and times one unit of the raster. Of each polygon, one of them is 0.
    by_area
        Polygons where the raster is 0 or missing everywhere.
    """

    amounts: Floats
    of_area: Floats
    of_raster: Floats
    by_area: NDArray[np.intp]

    def weights(self, polygon: NDArray[np.intp], coverage: Floats, area: Floats, raster: Floats | None) -> Floats:
        """What each pair of a polygon and a cell has, given the area and the raster in the cell (pairs)."""
        density = self.of_area[polygon]
        if raster is not None:
            density = density + self.of_raster[polygon] * np.nan_to_num(raster)
        return coverage * area * density

    def note(self, polygons: Polygons, layer: Layer) -> str | None:
        """Where area took the place of the raster, in a sentence."""
        if not self.by_area.size:
            return None
        count, names = plural(self.by_area.size, "polygon"), some(polygons.labels[self.by_area].tolist())
        return f"{layer.file}: 0 or missing all over {count} ({names}), where people were spread by area instead."


@dataclass
class ShareSums:
    """Area, and area times a raster, of each polygon, summed up band by band."""

    amounts: Floats
    layer: Layer | None
    area: Floats = field(init=False)
    raster: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.area, self.raster = np.zeros_like(self.amounts), np.zeros_like(self.amounts)

    def add(self, pairs: NDArray[Any], rows: slice, grid: Grid, area: Planes, raster: Planes | None) -> None:
        """Count the pairs of a band, on whose rows the area of cells and the raster are these."""
        n, cell = self.amounts.size, pairs["cell"] - rows.start * grid.width
        covered = pairs["coverage"] * area.ravel()[cell].astype(np.float64)
        self.area += np.bincount(pairs["polygon"], covered, n)
        if raster is not None and self.layer is not None:
            values = np.nan_to_num(raster.ravel()[cell].astype(np.float64))
            if (values < 0).any():
                raise ValueError(
                    f"{self.layer.path} must not be negative, since people are spread by it; got {values.min():g} in "
                    "a polygon. Declare its value for missing cells, or use another raster."
                )
            self.raster += np.bincount(pairs["polygon"], covered * values, n)

    def shares(self) -> Shares:
        """After the last band."""
        lit = self.raster > 0

        def per(total: Floats, where: NDArray[np.bool_]) -> Floats:
            return np.divide(self.amounts, total, out=np.zeros_like(total), where=where)

        dark = np.flatnonzero(~lit & (self.area > 0) & (self.amounts > 0))
        by_area = dark if self.layer is not None else dark[:0]
        return Shares(self.amounts, per(self.area, ~lit & (self.area > 0)), per(self.raster, lit), by_area)
