"""Standard units: each covariate has sd 1, coordinates share one scale. Every bag counts once.

Behind them stand columns that are made of them: coordinates on surfaces, for kernels that ask for such.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vbagg.bags import Bags
from vbagg.geodesic import GeodesicChart


@dataclass(frozen=True)
class Scaler:
    """`(X - centre) / scale` per column, then the coordinates of each chart, which have centre 0 and scale 1."""

    centre: np.ndarray
    scale: np.ndarray
    charts: tuple[GeodesicChart, ...] = ()

    @classmethod
    def fit(cls, bags: Bags) -> Scaler:
        """Weighted mean and sd, the weights of each bag summing to one; a constant column is an error."""
        share = bags.weight / bags.totals()[bags.bag] / len(bags)
        centre = share @ bags.X
        variance = share @ (bags.X - centre) ** 2
        magnitude = np.abs(bags.X).max(axis=0)
        constant = np.flatnonzero(variance <= (1e-12 * magnitude) ** 2)
        if len(constant):
            at = constant[0]
            raise ValueError(
                f"Every column must vary; column {bags.feature_names[at]!r} is constant ({bags.X[0, at]:g})"
                f" ({len(constant)} such columns). Drop it."
            )
        coordinates = list(bags.coordinates)
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
