"""Standard units: each covariate has sd 1, coordinates share one scale. Every bag counts once.

Behind them stand columns that are made of them: coordinates on surfaces, for kernels that ask for such.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vbagg.bags import Bags
from vbagg.geodesic import GeodesicChart
from vbagg.portions import Portions


@dataclass(frozen=True)
class Scaler:
    """`(X - centre) / scale` per column, then the coordinates of each chart, which have centre 0 and scale 1."""

    centre: np.ndarray
    scale: np.ndarray
    charts: tuple[GeodesicChart, ...] = ()

    @classmethod
    def fit(cls, portions: Portions) -> Scaler:
        """Weighted mean and sd, the weights of each bag summing to one; a constant column is an error."""
        n_bags, names = len(portions.outline), portions.outline.feature_names
        centre, magnitude = portions.added(_means, n_bags), np.max(portions.each(_largest), axis=0)
        variance = portions.added(_variances, n_bags, centre)
        constant = np.flatnonzero(variance <= (1e-12 * magnitude) ** 2)
        if len(constant):
            at = constant[0]
            raise ValueError(
                f"Every column must vary; column {names[at]!r} is constant ({centre[at]:g})"
                f" ({len(constant)} such columns). Drop it."
            )
        coordinates = list(portions.outline.coordinates)
        if coordinates:
            variance[coordinates] = variance[coordinates].mean()
        return cls(centre, np.sqrt(variance))

    def forward(self, X: np.ndarray) -> np.ndarray:
        """To standard units, with the coordinates of each chart."""
        own = X.shape[1]
        standard = (X - self.centre[:own]) / self.scale[:own]
        return np.hstack([standard, *(chart.place(standard) for chart in self.charts)]) if self.charts else standard

    def with_chart(self, chart: GeodesicChart) -> Scaler:
        """Return the same units with the coordinates of one more chart behind all columns."""
        new = chart.dimensions
        return Scaler(np.r_[self.centre, np.zeros(new)], np.r_[self.scale, np.ones(new)], (*self.charts, chart))

    def backward(self, X: np.ndarray, columns: tuple[int, ...]) -> np.ndarray:
        """Some columns from standard to user's units."""
        index = list(columns)
        return X * self.scale[index] + self.centre[index]


def _largest(bags: Bags) -> np.ndarray:
    """Largest size of each column."""
    return np.abs(bags.X).max(axis=0)


def _means(bags: Bags, n_bags: int) -> np.ndarray:
    """Part of the mean of each column."""
    return _shares(bags, n_bags) @ bags.X


def _variances(bags: Bags, n_bags: int, centre: np.ndarray) -> np.ndarray:
    """Part of the variance of each column."""
    return _shares(bags, n_bags) @ (bags.X - centre) ** 2


def _shares(bags: Bags, n_bags: int) -> np.ndarray:
    return bags.weight / bags.totals()[bags.bag] / n_bags
