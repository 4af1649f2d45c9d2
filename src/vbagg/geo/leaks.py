"""Who attends none of the facilities of shared cells, and how much catchments differ."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from vbagg.geo.exposure import WEIGHED
from vbagg.geo.files import percent
from vbagg.geo.grid import Floats
from vbagg.geo.layout import Band, Layout
from vbagg.numerals import count


@dataclass(frozen=True, eq=False)
class Leaks:
    """People (or square kilometres) by whether they attend.

    Attributes
    ----------
    people
        All that are counted: those in the areas of shares, or on the grid around what is within reach.
    attending
        Those who attend some facility.
    beyond
        Those in cells from which nobody attends any: out of reach, or in areas without shares.
    apart
        For each facility the part of its people who live elsewhere than those of all facilities together would (the
        distance between two distributions over cells in total variation): 0 if catchments are alike, near 1 if nothing
        is shared among many.
    """

    people: float
    attending: float
    beyond: float
    apart: Floats

    @property
    def staying(self) -> float:
        """Those who attend none although some of their neighbours do."""
        return max(0.0, self.people - self.attending - self.beyond)

    def note(self, kind: str, file: str) -> str:
        """What leaks, in a sentence."""
        unit, whole = WEIGHED[kind], self.people
        return (
            f"{file}: of {count(whole)} {unit}, {count(self.attending)} ({percent(self.attending, whole)}) attend a "
            f"facility; {count(self.beyond)} ({percent(self.beyond, whole)}) are where nobody does, and "
            f"{count(self.staying)} ({percent(self.staying, whole)}) attend none where others do. Rates are learnt "
            "from those who attend."
        )


def leaks_of(layout: Layout) -> Leaks | None:
    """Two walks over a layout; None for polygons that share nothing, or without exposure."""
    catchments = layout.placed.catchments
    if catchments is None or layout.exposed_as is None:
        return None
    people = beyond = 0.0
    attending = np.zeros(len(layout.placed))
    for band, cells in _bands(layout):
        served = catchments.served(layout.grid, band.rows) * cells
        people += float(served.sum())
        attending += np.bincount(band.polygon, _weight(band, cells), attending.size)
        served[band.cells - band.rows.start * layout.grid.width] = 0.0
        beyond += float(served.sum())
    return Leaks(people, float(attending.sum()), beyond, _apart(layout, attending))


def _bands(layout: Layout) -> Iterator[tuple[Band, Floats]]:
    """All bands, with the exposure of all of their cells, 0 where it is unknown or negative."""
    at = layout.stack.names.index(str(layout.exposed_as))
    for rows in layout.bands:
        band = layout.band(rows)
        yield band, np.maximum(np.nan_to_num(band.planes[at].ravel().astype(np.float64)), 0.0)


def _weight(band: Band, cells: Floats) -> Floats:
    return band.coverage * cells[band.cell - band.rows.start * band.stack.grid.width]


def _apart(layout: Layout, totals: Floats) -> Floats:
    """Half of the sum over cells of the difference between a facility's part there and that of all."""
    whole = max(float(totals.sum()), np.finfo(float).tiny)
    own = np.divide(1.0, totals, out=np.zeros_like(totals), where=totals > 0)
    differing, met = np.zeros_like(totals), np.zeros_like(totals)
    for band, cells in _bands(layout):
        weight = _weight(band, cells)
        of_all = np.bincount(band.place, weight, band.cells.size)[band.place] / whole
        differing += np.bincount(band.polygon, np.abs(weight * own[band.polygon] - of_all), totals.size)
        met += np.bincount(band.polygon, of_all, totals.size)
    return np.where(totals > 0, (differing + 1 - met) / 2, np.nan)
