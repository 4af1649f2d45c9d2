"""What a model sees of cells of the target grid."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from vbagg.bags import Bags
from vbagg.geo.grid import Grid
from vbagg.geo.prepared import Prepared

Floats = NDArray[np.float64]


def cell_features(prepared: Prepared, cells: NDArray[np.int64]) -> tuple[pd.DataFrame, Floats]:
    """Features of cells, in the order of `prepared.bags()` and NaN where missing, and the exposure of whole cells."""
    stack = prepared.stack
    names = [*prepared.covariates, *([] if prepared.exposure == "area" else [prepared.exposure])]
    values = dict(zip(names, stack.at(cells, names).T.astype(np.float64), strict=True))
    x, y = stack.grid.kilometres(cells).T
    exposure = _areas(stack.grid, cells) if prepared.exposure == "area" else values.pop(prepared.exposure)
    return pd.DataFrame({"x": x, "y": y, **values}), np.nan_to_num(exposure)


def point_bags(prepared: Prepared) -> Bags:
    """The points of prepared data, a bag of one cell each, with the features of `prepared.bags()`."""
    if prepared.points is None:
        raise ValueError(f"{prepared.table.parent} holds no points. Prepare it with `points`.")
    features, _ = cell_features(prepared, prepared.points.table["cell"].to_numpy())
    return prepared.points.bags(features)


def cell_exposure(prepared: Prepared, cells: NDArray[np.int64]) -> Floats:
    """People or square kilometres of whole cells."""
    if prepared.exposure == "area":
        return _areas(prepared.stack.grid, cells)
    return np.nan_to_num(prepared.stack.at(cells, [prepared.exposure])[:, 0].astype(np.float64))


def _areas(grid: Grid, cells: NDArray[np.int64]) -> Floats:
    """Area of each cell in square kilometres."""
    areas = np.empty(len(cells))
    order = np.argsort(cells, kind="stable")
    row, column = np.divmod(cells[order], grid.width)
    for rows in grid.bands():
        here = slice(*np.searchsorted(row, [rows.start, rows.stop]))
        if here.start < here.stop:
            first, last = int(row[here.start]), int(row[here.stop - 1])
            areas[order[here]] = grid.areas(slice(first, last + 1))[row[here] - first, column[here]]
    return areas
