"""Rates of the cells of a grid: those of fitted polygons given their polygon's total, others from their covariates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from vbagg.geo.prepared import Prepared
from vbagg.posterior import PointEstimate


class CellRates:
    """Posterior of the rate of any cells that polygons cover.

    A cell that several polygons share has the rate that it has in the one that covers most of it.
    """

    def __init__(self, model: Any, prepared: Prepared) -> None:
        self.model = model
        cell, coverage = (prepared.bag_pixels[name].to_numpy() for name in ("cell", "coverage"))
        order = np.lexsort((-coverage, cell))
        first = np.ones(len(order), dtype=bool)
        first[1:] = cell[order][1:] != cell[order][:-1]
        self._cells, self._rows = cell[order][first], order[first]
        self._posterior = model.posterior(prepared.bags())

    def parts(self, cells: NDArray[np.int64], features: pd.DataFrame) -> Iterator[tuple[NDArray[np.bool_], Any]]:
        """Masks of cells with these features, and the posteriors of the cells of each."""
        place = np.searchsorted(self._cells, cells).clip(max=len(self._cells) - 1)
        fitted = self._cells[place] == cells
        if fitted.any():
            rows = self._rows[place[fitted]]
            point = isinstance(self._posterior, PointEstimate)
            yield fitted, PointEstimate(self._posterior.mean[rows]) if point else self._posterior.law[rows]
        if not fitted.all():
            yield ~fitted, self.model.posterior(features[~fitted])
