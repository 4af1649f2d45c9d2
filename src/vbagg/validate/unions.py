"""Bags merged into larger ones: by a column of the user's, or into compact unions of a few neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vbagg.bags import Bags
from vbagg.inputs import factorize, object_array, python_scalar
from vbagg.models.bagpixel import bag_means
from vbagg.validate.folds import spatial_folds

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
FEWEST_UNIONS = 4
"""Unions that a fit to them needs, to say anything."""
NAMED = "group"
"""The scale of unions that a user named."""
AXES = 2
"""Principal axes of the means of bags that neighbours are sought along, where there are no coordinates."""


@dataclass(frozen=True)
class Unions:
    """Bags and the larger ones that they make up."""

    name: str
    fine: Bags
    of: Integers
    """(b) position of the union of each bag."""
    coarse: Bags

    @property
    def part(self) -> NDArray[np.intp]:
        """Position of the bag of each stored row of `coarse`."""
        return self.fine.bag[np.argsort(self.of[self.fine.bag], kind="stable")]

    @property
    def inside(self) -> NDArray[np.bool_]:
        """(b) whether a bag is not a union by itself, so that there is something to tell it from."""
        return np.bincount(self.of)[self.of] > 1

    def sum(self, values: Floats) -> Floats:
        """Sums of numbers of bags (b) by union."""
        return np.bincount(self.of, values).astype(float)


def unions(bags: Bags, group: Any, name: str) -> Unions:
    """Bags merged by labels of `group` (b), in the order of `bags`."""
    _, of = factorize(group, len(bags))
    return Unions(name, bags, of.astype(np.int64), bags.merged(group))


def compact_group(bags: Bags, size: int) -> Integers:
    """Union of each bag (b) when `size` neighbours, one more or less, are merged: the same on every call.

    Neighbours are near to each other by their coordinates, or else by the means of their individuals along the axes on
    which these differ most.
    """
    number = max(1, round(len(bags) / size))
    if number < 2:
        return np.ones(len(bags), dtype=np.int64)
    return spatial_folds(bags if bags.coordinates else _by_features(bags), number)


def _by_features(bags: Bags) -> Floats:
    """Means of bags, in standard deviations of individuals, along the axes on which bags differ most."""
    spread = bags.X.std(axis=0)
    means = bag_means(bags).X[:, spread > 0] / spread[spread > 0]
    centred = means - means.mean(axis=0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    return centred @ axes[: min(AXES, len(axes))].T


def group_of(bags: Bags, group: Any) -> NDArray[np.object_]:
    """Label of the union of each bag (b), from a vector in label order or a Series by label; None where it has none."""
    import pandas as pd

    is_series = hasattr(group, "iloc") and group.ndim == 1
    code, names = pd.factorize(group if is_series else object_array(list(group)))
    at = bags.align(pd.Series(code, index=group.index) if is_series else code, "group").astype(int)
    return object_array([None if a < 0 else python_scalar(names[a]) for a in at])
