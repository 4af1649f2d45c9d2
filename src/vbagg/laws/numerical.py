"""A law of which only the log density, mean and standard deviation are known."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.polynomial import chebyshev

from .base import Array, Law, probabilities, require, require_finite, require_positive, require_spread
from .panels import NODES, Panels, measured, refined, split

_CHUNK = 256  # rows whose tables are held at once
_REACH = 1e6  # standard deviations, beyond which lies less than 1e-12 (Chebyshev's inequality)
_MISSING = 1e-7
_UNACCOUNTED = 1e-4


class NumericalLaw(Law):
    """Law tabulated from its log density: the default for an output without closed form.

    Probabilities are right to 1e-8 in absolute terms for densities, and for masses of counts, that are smooth
    apart from spikes at the ends of the support, with any number of peaks. Each row costs some thousand values of
    the log density; a law of many rows is tabulated anew for each call.

    Parameters
    ----------
    log_prob
        ``log_prob(y, rows)``: log density, or log mass of whole numbers, at y (k, len(rows)) of the rows at these
        positions, which may repeat.
    mean, std
        Of each row.
    discrete
        Whether the output is a whole number.
    lower, upper
        Ends of the support, one number or one per row.

    Examples
    --------
    >>> rate = np.array([2.0, 50.0])
    >>> law = NumericalLaw(lambda y, rows: -y / rate[rows] - np.log(rate[rows]), rate, rate, False, lower=0.0)
    >>> np.round(law.quantile(0.5) / rate, 6)
    array([0.693147, 0.693147])
    """

    def __init__(
        self,
        log_prob: Callable[[Array, npt.NDArray[np.intp]], npt.ArrayLike],
        mean: npt.ArrayLike,
        std: npt.ArrayLike,
        discrete: bool,
        lower: npt.ArrayLike = -np.inf,
        upper: npt.ArrayLike = np.inf,
    ) -> None:
        self._centre, self._spread, self._lower, self._upper = self._rows(mean=mean, std=std, lower=lower, upper=upper)
        require_finite("mean", self._centre)
        require_spread("std", self._spread)
        if not discrete:
            require_positive("std", self._spread, "A density needs some width; take a point mass for a known value.")
        inside = (self._lower <= self._centre) & (self._centre <= self._upper)
        require(inside, "mean", self._centre, "between `lower` and `upper`", "Check the ends of the support.")
        self.discrete = discrete
        self._density = log_prob
        self._position = np.arange(len(self))
        self._kept: _Table | None = None

    def __getitem__(self, rows: slice | npt.NDArray[Any]) -> NumericalLaw:
        part = super().__getitem__(rows)
        part._kept = None
        return part

    def _mean(self) -> Array:
        return self._centre

    def _std(self) -> Array:
        return self._spread

    def _log_prob(self, y: Array) -> Array:
        y = np.broadcast_to(np.where(np.isnan(y), self._centre, y), np.broadcast_shapes(y.shape, (len(self),)))
        flat = y.reshape(-1, len(self))
        return self._log_density(flat, np.arange(len(self))).reshape(y.shape)

    def _log_density(self, y: Array, rows: npt.NDArray[np.intp]) -> Array:
        """Log density, -inf outside the support."""
        outside = (y < self._lower[rows]) | (y > self._upper[rows])
        safe = np.where(outside, np.round(self._centre[rows]) if self.discrete else self._centre[rows], y)
        return np.where(outside, -np.inf, np.asarray(self._density(safe, self._position[rows]), dtype=np.float64))

    def _tail(self, x: Array, upper: bool) -> Array:
        x = np.broadcast_to(x, np.broadcast_shapes(x.shape, (len(self),)))
        edge = np.where(np.isnan(x), 0.0, np.floor(x) + 1 if self.discrete else x)
        return self._by_table(lambda table, values: table.tail(values, upper), edge)

    def quantile(self, q: npt.ArrayLike) -> Array:
        """Quantiles of shape (rows,) for a scalar ``q``, (len(q), rows) for a vector."""
        levels = probabilities(q, "q")
        return self._by_table(_Table.quantile, np.broadcast_to(levels[..., None], (*levels.shape, len(self))))

    def _quantile(self, q: float) -> Array:
        return self.quantile(q)

    def _sample(self, n: int, rng: np.random.Generator) -> Array:
        return self._by_table(_Table.quantile, rng.uniform(1e-15, 1, (n, len(self))))

    def _by_table(self, method: Callable[[_Table, Array], Array], values: Array) -> Array:
        """Answers of the tables to values (..., rows)."""
        flat = values.reshape(-1, len(self))
        parts = [method(table, flat[:, rows]) for rows, table in self._tables()]
        return np.concatenate(parts, axis=1).reshape(values.shape)

    def _tables(self) -> Iterator[tuple[slice, _Table]]:
        if len(self) <= _CHUNK:
            self._kept = self._kept or _Table(self)
            yield slice(None), self._kept
            return
        for start in range(0, len(self), _CHUNK):
            rows = slice(start, start + _CHUNK)
            yield rows, _Table(self[rows])


class _Table:
    """Cumulative probabilities of the panels of each row."""

    def __init__(self, law: NumericalLaw) -> None:
        self.discrete = law.discrete
        panels = _complete_panels(law)
        total = np.exp(panels.log_totals(len(law)))
        remedy = "Check that `log_prob` is normalised, and its mean, std and support."
        require(np.abs(total - 1) < _UNACCOUNTED, "sum of probabilities", total, "1", remedy)
        self.row, self.start, self.width = panels.row, panels.start, panels.width
        self.first = np.searchsorted(panels.row, np.arange(len(law) + 1))
        self.inner = panels.cumulatives(law.discrete) / total[panels.row]
        self.mass = self.inner.sum(axis=0)  # the value at 1
        self.before = _sums_within(self.mass, self.first)
        self.after = _sums_within(self.mass[::-1], len(self.row) - self.first[::-1])[::-1]
        last = self.first[1:] - 1
        self.highest = (self.before + self.mass)[last] * (1 - 1e-13)  # beyond, rounding decides

    def tail(self, edge: Array, upper: bool) -> Array:
        """Probability beyond ``edge`` if ``upper`` else before it."""
        panel = self._last_panel(lambda middle: self.start[middle] <= edge, edge.shape)
        share = np.clip((edge - self.start[panel]) / self.width[panel], 0.0, 1.0)
        inside = _chebyshev(2 * share - 1, self.inner[:, panel])
        probability = self.after[panel] + self.mass[panel] - inside if upper else self.before[panel] + inside
        return np.clip(probability, 0.0, 1.0)

    def quantile(self, level: Array) -> Array:
        """Smallest value whose cumulative probability reaches ``level``."""
        level = np.minimum(level, self.highest)
        panel = self._last_panel(lambda middle: self.before[middle] < level, level.shape)
        before, width, inner = self.before[panel], self.width[panel], self.inner[:, panel]
        low, high = np.zeros(level.shape), np.ones(level.shape)
        for _ in range(2 + int(np.log2(width.max())) if self.discrete else 50):
            middle = 0.5 * (low + high)
            if self.discrete:
                middle = np.floor(middle * width) / width
            reached = before + _chebyshev(2 * middle - 1, inner) >= level
            low, high = np.where(reached, low, middle), np.where(reached, middle, high)
        value = self.start[panel] + high * width
        return np.round(value) - 1 if self.discrete else value

    def _last_panel(self, holds: Callable[[npt.NDArray[np.intp]], npt.NDArray[Any]], shape: tuple[int, ...]) -> Any:
        """Last panel of each row of which a condition holds that is true up to some panel."""
        low = np.broadcast_to(self.first[:-1], shape).copy()
        high = np.broadcast_to(self.first[1:], shape).copy()
        while (high - low > 1).any():
            middle = (low + high) // 2
            true = holds(middle)
            low, high = np.where(true, middle, low), np.where(true, high, middle)
        return low


def _chebyshev(x: Array, coefficients: Array) -> Array:
    return np.asarray(chebyshev.chebval(x, coefficients, tensor=False), dtype=np.float64)


def _sums_within(values: Array, first: npt.NDArray[np.intp]) -> Array:
    """Sum of the values of a row before each of them; rows start at the positions ``first``."""
    before = np.concatenate([[0.0], np.cumsum(values)[:-1]])
    return before - np.repeat(before[first[:-1]], np.diff(first))


def _complete_panels(law: NumericalLaw) -> Panels:
    """Panels that hold the whole probability of each row, looking closer where some of it is missing."""
    panels = refined(law._log_density, _first_panels(law), len(law), law.discrete)
    for _ in range(6):
        missing = 1 - np.exp(panels.log_totals(len(law)))
        if not (missing > _MISSING).any():
            break
        # Chebyshev's inequality: within std / sqrt(missing) of the mean
        distance = law._spread / np.sqrt(np.maximum(missing, _MISSING))
        left, right = (law._centre - distance)[panels.row], (law._centre + distance)[panels.row]
        near = (missing > _MISSING)[panels.row] & (panels.start < right) & (panels.start + panels.width > left)
        panels = refined(law._log_density, split(law._log_density, panels, near, law.discrete), len(law), law.discrete)
    return panels


def _first_panels(law: NumericalLaw) -> Panels:
    """Panels that grow fourfold from the lower end of the support, or else from the mean to both sides."""
    reach = _REACH * law._spread + 4 * NODES
    left, right = np.maximum(law._lower, law._centre - reach), np.minimum(law._upper, law._centre + reach)
    origin = law._centre
    pieces = []
    if law.discrete:
        right = right + 1
        origin = np.where(np.isfinite(law._lower), law._lower, np.floor(law._centre))
    unit = np.full(len(law), float(NODES)) if law.discrete else 0.5 * law._spread
    for side, end in ((1, right), (-1, left)):
        edge, width = origin.copy(), unit.copy()
        while (open_ := side * (end - edge) > 0).any():
            rows = np.flatnonzero(open_)
            step = width if law.discrete else np.minimum(width, side * (end - edge))
            pieces.append((rows, (edge if side > 0 else edge - step)[rows], step[rows]))
            edge, width = edge + side * step, 4 * width
    row, start, width = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
    return measured(law._log_density, row, start, width, law.discrete)
