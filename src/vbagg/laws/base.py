"""What every law offers: a distribution per row, evaluated for all rows at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
CACHED = 1 << 14  # numbers whose temporaries stay in the processor's cache


@dataclass(frozen=True)
class Summary:
    """What maps and tables tell of the distributions of rows."""

    mean: Array
    std: Array
    quantiles: Array
    """(levels, rows)"""
    exceedances: Array
    """(thresholds, rows) probabilities of being above each threshold."""


class Law(ABC):
    """Probability distributions of many rows, vectorised.

    Arguments named ``x``, ``y`` or ``threshold`` broadcast against the rows: a scalar, ``(rows,)``, or
    ``(k, 1)`` and ``(k, rows)`` for several values per row. NaN gives NaN. A law of zero variance is a
    point mass.
    """

    discrete: bool = False
    _length: int

    @property
    def mean(self) -> Array:
        """Expected value of each row."""
        return self._mean()

    @property
    def std(self) -> Array:
        """Standard deviation of each row."""
        return self._std()

    def cdf(self, x: npt.ArrayLike) -> Array:
        """P(value <= x)."""
        x = np.asarray(x, dtype=np.float64)
        return np.where(np.isnan(x), np.nan, self._tail(x, upper=False))

    def exceedance(self, threshold: npt.ArrayLike) -> Array:
        """P(value > threshold), accurate also where it is tiny."""
        threshold = np.asarray(threshold, dtype=np.float64)
        return np.where(np.isnan(threshold), np.nan, self._tail(threshold, upper=True))

    def log_prob(self, y: npt.ArrayLike) -> Array:
        """Log density, or log mass of a discrete law; the density of a point mass is infinite."""
        y = np.asarray(y, dtype=np.float64)
        return np.where(np.isnan(y), np.nan, self._log_prob(y))

    def log_prob_within(self, lower: npt.ArrayLike, upper: npt.ArrayLike) -> Array:
        """Log probability of values from `lower` to `upper`, ends included; `log_prob` where these are equal.

        An `upper` of NaN is `lower`.
        """
        low, high = np.broadcast_arrays(np.asarray(lower, dtype=np.float64), np.asarray(upper, dtype=np.float64))
        high = np.where(np.isnan(high), low, high)
        hidden = high > low
        density = self.log_prob(low)
        if not hidden.any():
            return density
        before = np.ceil(low) - 1 if self.discrete else low
        ends = np.where(np.isfinite(high), high, low)
        # differences of the tail on the side where the interval lies
        below, above = self.cdf(before), self.exceedance(before)
        from_above = above - np.where(np.isfinite(high), self.exceedance(ends), 0.0)
        inside = np.where((below > 0.5) | np.isposinf(high), from_above, self.cdf(ends) - below)
        with np.errstate(divide="ignore"):
            return np.where(hidden, np.log(np.maximum(inside, 0.0)), density)

    def quantile(self, q: npt.ArrayLike) -> Array:
        """Quantiles of shape (rows,) for a scalar ``q``, (len(q), rows) for a vector."""
        levels = probabilities(q, "q")
        values = np.empty((levels.size, len(self)))
        for position, level in enumerate(levels.ravel()):
            values[position] = self._quantile(float(level))
        return values if levels.ndim else values[0]

    def interval(self, level: float) -> tuple[Array, Array]:
        """Lower and upper end of the central interval that holds ``level`` of the probability."""
        level = float(probabilities(level, "level"))
        lower, upper = self.quantile([(1 - level) / 2, (1 + level) / 2])
        return lower, upper

    def summary(self, levels: npt.ArrayLike = (), thresholds: npt.ArrayLike = ()) -> Summary:
        """Mean, standard deviation, quantiles and exceedances of each row."""
        above = np.reshape(np.asarray(thresholds, dtype=np.float64), (-1, 1))
        exceedances = self.exceedance(above) if above.size else np.empty((0, len(self)))
        return Summary(self.mean, self.std, self.quantile(np.ravel(levels)), exceedances)

    def at_scores(self, z: npt.ArrayLike) -> Array:
        """Values whose normal scores are ``z`` (n, rows): the law, if they are standard normal."""
        raise NotImplementedError(f"{type(self).__name__} has no values by normal scores")

    def sample(self, n: int, rng: np.random.Generator | int | None = None) -> Array:
        """Draw ``n`` values of every row, independently across rows; shape (n, rows)."""
        return self._sample(n, np.random.default_rng(rng))

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, rows: slice | npt.NDArray[Any]) -> Self:
        """Law of some rows, picked by a slice, positions or a mask."""
        part = copy(self)
        part._length = len(np.arange(len(self))[rows])
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray | Law):
                setattr(part, name, value[..., rows] if isinstance(value, np.ndarray) else value[rows])
        return part

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} rows)"

    @abstractmethod
    def _mean(self) -> Array: ...

    @abstractmethod
    def _std(self) -> Array: ...

    @abstractmethod
    def _tail(self, x: Array, upper: bool) -> Array:
        """P(value > x) if ``upper`` else P(value <= x)."""

    @abstractmethod
    def _log_prob(self, y: Array) -> Array: ...

    @abstractmethod
    def _quantile(self, q: float) -> Array:
        """Smallest value of each row whose cdf reaches ``q``."""

    @abstractmethod
    def _sample(self, n: int, rng: np.random.Generator) -> Array: ...

    def _cdf_of(self, x: Array, rows: npt.NDArray[np.intp]) -> Array:
        """P(value <= x) of the picked rows, for a root finder, which may have none left."""
        return self[rows]._tail(x, upper=False) if np.size(x) else np.zeros(np.shape(x))

    def _rows(self, **parameters: npt.ArrayLike) -> list[Array]:
        """Parameters as float64 arrays of one common length, which becomes the law's."""
        arrays = [np.asarray(value, dtype=np.float64) for value in parameters.values()]
        shapes = {name: array.shape for name, array in zip(parameters, arrays, strict=True)}
        if any(array.ndim > 1 for array in arrays):
            raise ValueError(f"Parameters of a law must be scalars or one-dimensional; got shapes {shapes}.")
        try:
            (self._length,) = np.broadcast_shapes((1,), *shapes.values())
        except ValueError:
            raise ValueError(f"Parameters of a law must have one length; got shapes {shapes}.") from None
        return [np.array(np.broadcast_to(array, self._length)) for array in arrays]


def row_chunks(length: int) -> Iterator[slice]:
    """Slices that cover ``length`` rows."""
    return (slice(start, start + CACHED) for start in range(0, length, CACHED))


def require(ok: npt.NDArray[np.bool_], name: str, values: Array, requirement: str, remedy: str = "") -> None:
    """Raise ``ValueError`` naming the first row where ``ok`` fails."""
    if not ok.all():
        row = int(np.argmin(ok))
        raise ValueError(f"`{name}` must be {requirement}; got {values[row]:g} at row {row}. {remedy}".rstrip())


def require_finite(name: str, values: Array) -> None:
    """Raise unless every value is a finite number."""
    require(np.isfinite(values), name, values, "finite", "Drop rows with missing inputs first.")


def require_spread(name: str, values: Array) -> None:
    """Raise unless every value is finite and non-negative."""
    ok = (values >= 0) & np.isfinite(values)
    require(ok, name, values, "non-negative and finite", "Clamp rounding errors at zero first.")


def require_positive(name: str, values: Array, remedy: str = "") -> None:
    """Raise unless every value is positive; infinity is allowed."""
    require(values > 0, name, values, "positive", remedy)


def moments(mean: npt.ArrayLike, variance: npt.ArrayLike) -> tuple[Array, Array]:
    """Mean and checked variance as arrays of one shape."""
    means, variances = np.broadcast_arrays(
        np.atleast_1d(np.asarray(mean, dtype=np.float64)), np.asarray(variance, dtype=np.float64)
    )
    require_spread("variance", variances)
    return means, variances


def probabilities(values: npt.ArrayLike, name: str) -> Array:
    """Scalar or vector of probabilities strictly between 0 and 1."""
    levels = np.asarray(values, dtype=np.float64)
    if levels.ndim > 1:
        raise ValueError(f"`{name}` must be a scalar or a vector; got shape {levels.shape}.")
    bad = ~((levels > 0) & (levels < 1))
    if bad.any():
        place = f" at position {int(np.argmax(bad))}" if levels.ndim else ""
        got = levels.ravel()[int(np.argmax(bad))]
        remedy = "Give 0.9, not 90, for 90 percent."
        raise ValueError(f"`{name}` must lie strictly between 0 and 1; got {got:g}{place}. {remedy}")
    return levels
