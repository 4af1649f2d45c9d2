"""Adaptive tables of cumulative probabilities, the numerics behind `NumericalLaw`.

The support of each row is cut into panels on which its density is a polynomial of degree 15 to the accuracy wanted.
A panel of a count holds 16, 64, 256, ... whole numbers. With 16, all of them are summed. With more, 16 are evaluated
and the sum follows from the interpolating polynomial by the Euler-Maclaurin formula.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache

import numpy as np
import numpy.typing as npt
from numpy.polynomial import chebyshev

from .base import Array

Rows = npt.NDArray[np.intp]
LogDensity = Callable[[Array, Rows], Array]
NODES = 16
_TOLERANCE = 1e-11  # of a row's probability, for each panel
_LOWEST = -1e8  # log densities below are as good as -infinity


@dataclass
class Panels:
    """Pieces of the supports of rows, from ``start`` to ``start + width``; log densities are (nodes, panels)."""

    row: Rows
    start: Array
    width: Array
    log_density: Array
    log_mass: Array
    log_error: Array

    def __len__(self) -> int:
        return len(self.row)

    def __getitem__(self, chosen: npt.NDArray[np.bool_] | Rows) -> Panels:
        return Panels(*(getattr(self, field.name)[..., chosen] for field in fields(self)))

    def __add__(self, other: Panels) -> Panels:
        pairs = ((getattr(self, field.name), getattr(other, field.name)) for field in fields(self))
        return Panels(*(np.concatenate(pair, axis=-1) for pair in pairs))

    def log_totals(self, rows: int) -> Array:
        """Log probability of each row."""
        largest = np.full(rows, -np.inf)
        np.maximum.at(largest, self.row, self.log_mass)
        return largest + np.log(np.bincount(self.row, np.exp(self.log_mass - largest[self.row]), rows))

    def cumulatives(self, discrete: bool) -> Array:
        """Chebyshev coefficients (degree, panels) of the probability from the start of each panel."""
        density = np.exp(np.minimum(self.log_density, 700.0))
        return self.width * _over_widths(_cumulation, self.width, density, discrete)


def refined(log_density: LogDensity, panels: Panels, rows: int, discrete: bool) -> Panels:
    """Split panels until the density of every row is resolved, and sort them by row and place."""
    for _ in range(300):
        rough = panels.log_error > np.log(_TOLERANCE) + panels.log_totals(rows)[panels.row]
        if not rough.any():
            break
        panels = split(log_density, panels, rough, discrete)
    return panels[np.lexsort((panels.start, panels.row))]


def split(log_density: LogDensity, panels: Panels, chosen: npt.NDArray[np.bool_], discrete: bool) -> Panels:
    """Replace the chosen panels by their parts: halves, or quarters of a count's."""
    chosen = chosen & (panels.width > (NODES if discrete else 0))
    parents, parts = panels[chosen], 4 if discrete else 2
    width = np.repeat(parents.width / parts, parts)
    start = np.repeat(parents.start, parts) + width * np.tile(np.arange(parts), len(parents))
    return panels[~chosen] + measured(log_density, np.repeat(parents.row, parts), start, width, discrete)


def measured(log_density: LogDensity, row: Rows, start: Array, width: Array, discrete: bool) -> Panels:
    """Panels with their log densities, probabilities and errors."""
    places = _over_widths(lambda *key: _places(*key)[:, None], width, np.ones((1, len(width))), discrete)
    y = start + (np.round(places * width - 0.5) if discrete else places * width)
    values = np.nan_to_num(log_density(y, row), nan=_LOWEST, neginf=_LOWEST, posinf=np.inf)
    # where rounding meets the end of the support the density may be infinite
    peak = np.maximum(np.where(values < np.inf, values, _LOWEST).max(axis=0), _LOWEST)
    values = np.clip(values, _LOWEST, peak)
    scaled = np.exp(values - peak)
    with np.errstate(divide="ignore"):
        scale = peak + np.log(width)
        mass = _over_widths(_cumulation, width, scaled, discrete).sum(axis=0)  # the value at 1
        log_mass = scale + np.log(np.maximum(mass, 1e-300))
        error = scale + np.log(np.abs(_over_widths(_interpolation, width, scaled, discrete)[-3:]).sum(axis=0))
    bound = _concave_bound(values, places)
    hidden = np.where(bound > peak + 0.5, bound + np.log(width), -np.inf)
    smallest = width <= (NODES if discrete else 1e-14 * np.abs(start) + 1e-300)
    return Panels(row, start, width, values, log_mass, np.where(smallest, -np.inf, np.maximum(error, hidden)))


def _concave_bound(values: Array, places: Array) -> Array:
    """Largest value of any concave function through these values, so that no peak between them is missed.

    Between two nodes it stays below the lines through the two nodes before and the two nodes after.
    """
    gap = np.diff(places, axis=0)
    slope = np.diff(values, axis=0) / gap
    before, after = slope[:-2], slope[2:]
    concave = (before > slope[1:-1]) & (slope[1:-1] > after)
    with np.errstate(divide="ignore", invalid="ignore"):
        meeting = (values[2:-1] - values[1:-2] - after * gap[1:-1]) / (before - after)
    inside = np.where(concave, values[1:-2] + before * meeting, -np.inf).max(axis=0)
    first = np.where(slope[1] < slope[0], values[1] - slope[1] * places[1], -np.inf)
    last = np.where(slope[-2] > slope[-1], values[-2] + slope[-2] * (1 - places[-2]), -np.inf)
    return np.maximum(inside, np.maximum(first, last))


def _over_widths(matrix: Callable[[int], Array], width: Array, values: Array, discrete: bool) -> Array:
    """Product of the matrix for each panel's width with its values; for a density one matrix serves all widths."""
    if not discrete:
        return np.repeat(matrix(0), len(width), axis=1) if len(values) == 1 else matrix(0) @ values
    result = np.empty((len(matrix(NODES)), len(width)))
    for size in np.unique(width):
        chosen = width == size
        result[:, chosen] = matrix(int(size)) @ values[:, chosen]
    return result


@cache
def _places(size: int) -> Array:
    """Nodes as fractions of a panel: Chebyshev's, or the centres of chosen whole numbers out of ``size``."""
    if size == 0:
        return 0.5 - 0.5 * np.cos(np.pi * (np.arange(NODES) + 0.5) / NODES)
    if size == NODES:
        return (np.arange(NODES) + 0.5) / NODES
    lobatto = 0.5 - 0.5 * np.cos(np.pi * np.arange(NODES) / (NODES - 1))
    return (np.round((size - 1) * lobatto) + 0.5) / size


@cache
def _interpolation(size: int) -> Array:
    """Matrix from values at the nodes to Chebyshev coefficients on [-1, 1]."""
    return np.asarray(np.linalg.inv(chebyshev.chebvander(2 * _places(size) - 1, NODES - 1)), dtype=np.float64)


@cache
def _cumulation(size: int) -> Array:
    """Matrix from values at the nodes to coefficients of their integral or sum from the start, over the width."""
    if size == NODES:
        edges = np.linspace(-1, 1, NODES + 1)
        sums = np.tril(np.ones((NODES + 1, NODES)), -1) / NODES
        return np.asarray(np.linalg.solve(chebyshev.chebvander(edges, NODES), sums), dtype=np.float64)
    coefficients = _interpolation(size)
    result: Array = 0.5 * np.asarray(chebyshev.chebint(coefficients), dtype=np.float64)
    if size:
        # sum of f(j + 1/2) over j = integral of f - [f'] / 24 + ...
        result[: NODES - 1] -= 2 / size**2 / 24 * chebyshev.chebder(coefficients)
    result[0] -= chebyshev.chebval(-1.0, result)
    return result
