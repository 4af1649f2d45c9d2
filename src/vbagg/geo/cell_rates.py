"""Rates of cells: those of fitted polygons given their polygon's total, others from their covariates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vbagg.geo.cell_index import best_of_cells, by_cell
from vbagg.geo.contents import Contents
from vbagg.geo.pieces import PieceRows
from vbagg.posterior import PointEstimate

Floats = NDArray[np.float64]
Places = NDArray[np.intp]
CELLS_AT_ONCE = 1 << 18
"""Cells whose quantiles are worked out at once."""


@dataclass(frozen=True)
class CellRates:
    """Asks for the rates that maps show, of the cells of a piece, sorted by cell.

    A cell that several polygons share has the rate that it has in the one that covers most of it: the others have NaN.

    Attributes
    ----------
    contents
        What the maps hold.
    of_each
        Whether all polygons that share a cell have its rate as they see it.
    """

    contents: Contents
    of_each: bool = False
    name: str = "rates"

    def told(self) -> str:
        """Units, levels and names."""
        contents = self.contents
        asked = contents.units.per, contents.levels, contents.threshold, contents.rate_names
        return repr((*asked, *([self.of_each] * self.of_each)))

    def answer(self, model: Any, rows: PieceRows) -> Floats:
        """Numbers of `contents.rates` (k, n), and information about the cells of polygons if that is mapped."""
        cell, coverage = (rows.pixels[name].to_numpy() for name in ("cell", "coverage"))
        wanted = np.arange(len(cell)) if self.of_each else best_of_cells(cell, coverage, rows.inside)
        found: list[tuple[Places, dict[str, Floats]]] = []
        for own, posterior in _parts(model, rows, wanted):
            found.append((own, self.contents.rates(posterior)))
        numbers = np.full((len(found[0][1]), len(cell)), np.nan)
        for own, rates in found:
            numbers[:, own] = np.stack(list(rates.values()))
        if self.contents.has_information:
            numbers = np.vstack([numbers, _information(model, rows)])
        return numbers[:, by_cell(cell)]


def _information(model: Any, rows: PieceRows) -> Floats:
    """Share (n) of what may vary inside its polygon that the data have settled of each row; NaN outside of polygons."""
    found = np.full(len(rows.inside), np.nan)
    if rows.bags is not None:
        found[np.flatnonzero(rows.inside)[rows.bags.rows]] = model.information(rows.bags).individuals
    return found


def _parts(model: Any, rows: PieceRows, wanted: Places) -> Iterator[tuple[Places, Any]]:
    """Some of the wanted rows, and the posterior of their rates."""
    inside = rows.inside[wanted] & (rows.bags is not None)
    if rows.bags is not None and inside.any():
        posterior = model.posterior(rows.bags)
        place = np.empty(len(rows.inside), dtype=np.intp)
        place[np.flatnonzero(rows.inside)[rows.bags.rows]] = np.arange(rows.bags.n_individuals)
        for own in _some(wanted[inside]):
            at = place[own]
            point = isinstance(posterior, PointEstimate)
            yield own, PointEstimate(posterior.mean[at]) if point else posterior.law[at]
    for own in _some(wanted[~inside]):
        yield own, model.posterior(rows.features.iloc[own])


def _some(rows: Places) -> Iterator[Places]:
    return (rows[start : start + CELLS_AT_ONCE] for start in range(0, len(rows), CELLS_AT_ONCE))
