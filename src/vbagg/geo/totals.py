"""Posterior of the totals of polygons of any size.

The posterior of a bag needs all its features at once. A large one is cut into pieces of neighbouring cells, whose
totals are added with their covariance; between pieces, as between bags, that comes from the landmarks alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from vbagg.bags import Bags
from vbagg.geo.units import link_of
from vbagg.posterior import PointEstimate

PIECE = 30_000
"""Most individuals of a piece."""


def posterior_totals(model: Any, bags: Bags) -> Any:
    """Posterior of each bag's expected total (its share, with a logistic link): `mean`, `std`, `interval`, ..."""
    if bags.sizes.max() <= PIECE:
        return model.posterior_bags(bags)
    bags = bags.drop_zero_weight()
    within = np.arange(bags.n_individuals) - bags.starts[:-1][bags.bag]
    number = np.cumsum((within % PIECE == 0).astype(int)) - 1
    X = pd.DataFrame(bags.X, columns=list(bags.feature_names)) if bags.named else bags.X
    coordinates = [bags.feature_names[column] for column in bags.coordinates] if bags.named else bags.coordinates
    # names that no training bag has
    names = np.array([f"piece {at} of a polygon" for at in range(number[-1] + 1)], dtype=object)
    pieces = Bags(X, names[number], bags.weight, coordinates=coordinates)
    whole = bags.bag[pieces.starts[:-1]]
    part = pieces.totals() / bags.totals()[whole] if link_of(model).averages else np.ones(len(pieces))
    posterior = model.posterior_bags(pieces)
    mean = np.bincount(whole, part * posterior.mean)
    if not hasattr(posterior, "covariance"):
        return PointEstimate(mean)
    covariance = np.outer(part, part) * posterior.covariance()
    starts = np.flatnonzero(np.diff(whole, prepend=-1))
    variance = np.diag(np.add.reduceat(np.add.reduceat(covariance, starts, axis=0), starts, axis=1))
    return link_of(model).total_law.from_moments(mean, variance)
