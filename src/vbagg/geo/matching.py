"""Counts of cells rescaled so that each polygon's sum is its observed total.

With `c_ai` the share of cell `i` that polygon `a` covers, `C_i = sum_a c_ai` and `s_ai = c_ai / C_i`, the expected
count `e_i` becomes `e_i exp(sum_a s_ai l_a)`: the factor of a cell is the geometric mean of those of its polygons, and
observed over expected where polygons share no cells. The logarithms `l` minimise the convex function
`sum_i C_i e_i exp(sum_a s_ai l_a) - sum_a y_a l_a`, whose gradient is matched minus observed totals. So counts are, of
all that have the observed totals, the nearest to the expected ones in relative entropy, whatever overlaps. A small
penalty on `l` makes the compromise unique where overlapping polygons contradict each other. Totals that are known
within bounds only are free as long as they lie within these, and are brought to the nearer bound otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import spsolve

from vbagg.geo.observed_totals import Totals
from vbagg.stepping import backtrack

Floats = NDArray[np.float64]
State = tuple[float, Floats, Floats]
"""Value, counts of cells and gradient at some factors."""
Places = NDArray[np.intp]
PENALTY = 1e-6
TOLERANCE = 1e-9
MOST_STEPS = 200
MOST_ROUNDS = 30
"""How often bounds are looked at."""
WITHIN = 1e-6
"""Relative distance by which a bound may be missed."""


@dataclass
class TotalMatching:
    """Sums over bands of cells, then factors.

    Cells that share their polygons in the same parts are summed up, so that memory holds cells at borders alone.

    Parameters
    ----------
    totals
        What is known of the total of each polygon; where nothing is, expected counts stay.
    """

    totals: Totals
    _parts: list[tuple[Any, Floats]] = field(init=False, default_factory=list)

    def add(self, polygon: Places, cell: Places, coverage: Floats, expected: Floats) -> None:
        """Count a band: pairs of a polygon and a cell `0..n-1` with the covered share, and expected counts (n,)."""
        shares, whole = self._shares(polygon, cell, coverage, len(expected))
        self._parts.append(_merged(shares, expected * whole))

    def solve(self) -> tuple[Floats, Floats]:
        """Logarithm of the factor of each polygon, and matched minus observed totals, NaN where these are not known."""
        shares, weight = _merged(
            sparse.vstack([part for part, _ in self._parts], format="csr"),
            np.concatenate([own for _, own in self._parts]),
        )
        wanted = self.totals.exact
        # where a total is 0, so is every cell that the polygon touches
        weight = np.where(shares @ (wanted == 0).astype(float) > 0, 0.0, weight)
        for _ in range(MOST_ROUNDS):
            factor, found = _solved(shares, weight, wanted)
            held = self._bounds_held(wanted, factor, found)
            if np.array_equal(held, wanted, equal_nan=True):
                break
            wanted = held
        return factor, found - self.totals.exact

    def _bounds_held(self, wanted: Floats, factor: Floats, found: Floats) -> Floats:
        """Totals to be matched next: bounds that were missed come in, those that hold back nothing are let go."""
        least, most = self.totals.least, self.totals.most
        held = self.totals.suppressed & np.isfinite(wanted)
        idle = held & np.where(wanted == most, factor >= 0, factor <= 0)
        free = self.totals.suppressed & ~held
        wanted = np.where(idle, np.nan, wanted)
        wanted = np.where(free & (found > most * (1 + WITHIN)), most, wanted)
        return np.where(free & (found > 0) & (found < least * (1 - WITHIN)), least, wanted)

    def of_cells(self, factor: Floats, polygon: Places, cell: Places, coverage: Floats, n: int) -> Floats:
        """Factor of each cell of a band (n,)."""
        return np.exp(self._shares(polygon, cell, coverage, n)[0] @ factor)

    def _shares(self, polygon: Places, cell: Places, coverage: Floats, n: int) -> tuple[Any, Floats]:
        """Shares `s` (n, b), whose rows sum to 1, and the covered part `C` of each cell."""
        whole: Floats = np.bincount(cell, coverage, n).astype(np.float64)
        entries = (coverage / whole[cell], (cell, polygon))
        return sparse.csr_array(entries, shape=(n, len(self.totals.least))), whole


def _solved(shares: Any, weight: Floats, wanted: Floats) -> tuple[Floats, Floats]:
    """Logarithm of the factor of each polygon, and its sum with them; NaN is wanted where a sum is free."""
    expected = shares.T @ weight
    solved = np.flatnonzero((expected > 0) & (wanted > 0))
    factor = np.where(wanted == 0, -np.inf, 0.0)
    factor[solved] = _minimise(shares[:, solved], weight, wanted[solved], expected[solved])
    with np.errstate(invalid="ignore"):
        cells = np.where(weight > 0, weight * np.exp(shares @ factor), 0.0)
    return factor, shares.T @ cells


def _merged(shares: Any, weight: Floats) -> tuple[Any, Floats]:
    """Distinct rows of shares, and the sums of their weights; rows are told apart by a random projection."""
    key = shares @ np.random.default_rng(0).standard_normal(shares.shape[1])
    _, first, group = np.unique(key, return_index=True, return_inverse=True)
    return shares[first], np.bincount(group, weight).astype(np.float64)


def _minimise(shares: Any, weight: Floats, observed: Floats, expected: Floats) -> Floats:
    """Newton's method."""
    penalty = PENALTY * observed

    def state(factor: Floats) -> State:
        with np.errstate(over="ignore"):
            cells = weight * np.exp(shares @ factor)
        value = cells.sum() - observed @ factor + penalty @ factor**2 / 2
        return float(value), cells, shares.T @ cells - observed + penalty * factor

    def attempt(factor: Floats, value: float, step: Floats) -> Callable[[float], tuple[float, State]]:
        def at(length: float) -> tuple[float, State]:
            trial = state(factor + length * step)
            return value - trial[0], trial

        return at

    factor = np.log(observed / expected)
    value, cells, gradient = state(factor)
    for _ in range(MOST_STEPS):
        if np.all(np.abs(gradient) <= TOLERANCE * observed):
            break
        curvature = shares.T @ sparse.diags_array(cells) @ shares + sparse.diags_array(penalty)
        step = -np.atleast_1d(spsolve(sparse.csc_array(curvature), gradient))
        found = backtrack(attempt(factor, value, step), -float(gradient @ step), tries=30)
        if found is None:
            break
        factor = factor + found[0] * step
        value, cells, gradient = found[1]
    return factor
