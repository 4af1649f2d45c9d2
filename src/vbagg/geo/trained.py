"""What the training data of a model cover: individuals that stand for all, and where their covariates end."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from vbagg.bags import Bags
from vbagg.geo.prepared import Prepared

Floats = NDArray[np.float64]
MOST, FEWEST, AT_MOST = 64, 8, 1 << 16
"""Individuals for each bag, and, where there are many bags, for each and for all of them."""
MOST_KNOWN = 0.95
"""Share of the training data of which covariates say enough: a cell of which they say less is beyond them."""
IN_RANGE = 0.99
"""Share of the training data that lies in the middle range of a covariate."""


@dataclass(frozen=True, eq=False)
class Trained:
    """Individuals (n) of training bags, as many of each, drawn evenly by weight: every bag counts once.

    Attributes
    ----------
    rows
        What the model saw of them: `x`, `y` and the covariates.
    """

    rows: pd.DataFrame

    @classmethod
    def of(cls, prepared: Prepared, response: str) -> Trained:
        """Those of the polygons whose totals are known, if only within bounds."""
        y = prepared.y(response)
        known = set(y.index[y.notna()])
        number = int(np.clip(AT_MOST // max(len(known), 1), FEWEST, MOST))
        found = []
        for piece in prepared.pieces.all:
            bags = prepared.pieces.rows(piece).bags
            if bags is not None:
                chosen = np.array([label in known for label in bags.labels.tolist()])
                found += individuals_for(bags[chosen], number) if chosen.any() else []
        return cls(pd.DataFrame(np.concatenate(found), columns=["x", "y", *prepared.covariates]))

    def range_of(self, name: str) -> tuple[float, float]:
        """Values of a covariate between which nearly all of them lie."""
        low, high = np.quantile(self.rows[name], [(1 - IN_RANGE) / 2, (1 + IN_RANGE) / 2])
        return float(low), float(high)

    @cached_property
    def ranges(self) -> dict[str, tuple[float, float]]:
        """Of all covariates."""
        return {name: self.range_of(name) for name in self.rows if name not in ("x", "y")}

    def edge(self, model: Any) -> float | None:
        """Standard deviation of what covariates say that 95% of them do not exceed; None without covariates."""
        sd = model.latent_parts(self.rows).covariates_sd
        return None if sd is None else float(np.quantile(sd, MOST_KNOWN))


def individuals_for(bags: Bags, number: int) -> list[Floats]:
    """Features of so many individuals of each bag, each as often as its weight deserves, at even steps."""
    found = []
    for start, stop in zip(bags.starts[:-1], bags.starts[1:], strict=True):
        reached = np.cumsum(bags.weight[start:stop])
        marks = (np.arange(number) + 0.5) / number * reached[-1]
        found.append(bags.X[start + np.searchsorted(reached, marks)])
    return found
