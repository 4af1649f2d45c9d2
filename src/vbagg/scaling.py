"""Standard units: each covariate has sd 1, coordinates share one scale. Every bag counts once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vbagg.bags import Bags


@dataclass(frozen=True)
class Scaler:
    """`(X - centre) / scale` per column."""

    centre: np.ndarray
    scale: np.ndarray

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
        """To standard units."""
        return (X - self.centre) / self.scale

    def backward(self, X: np.ndarray, columns: tuple[int, ...]) -> np.ndarray:
        """Some columns from standard to user's units."""
        index = list(columns)
        return X * self.scale[index] + self.centre[index]
