"""Polygons that are in a file several times, as in a table with a row for each month."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import shapely
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

SAME = 0.99
"""Part of what two polygons cover together that both must cover to be the same."""
NEAR = 0.01
"""Distance of their centres, in roots of their area, within which that is looked at."""


def outlines(shapes: NDArray[Any]) -> NDArray[np.intp]:
    """Number of the outline of each valid polygon: those that are (nearly) the same have the same number."""
    exact, _ = pd.factorize(shapely.to_wkb(shapely.normalize(shapes)))
    firsts = shapes[np.unique(exact, return_index=True)[1]]
    pairs = _nearly_the_same(firsts)
    links = coo_array((np.ones(len(pairs[0])), pairs), (len(firsts), len(firsts)))
    return connected_components(links, directed=False)[1][exact]


def _nearly_the_same(shapes: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    areas, centres = shapely.area(shapes), shapely.centroid(shapes)
    one, other = shapely.STRtree(centres).query(centres, predicate="dwithin", distance=NEAR * np.sqrt(areas))
    close = (one < other) & (np.minimum(areas[one], areas[other]) > SAME * np.maximum(areas[one], areas[other]))
    one, other = one[close], other[close]
    both = shapely.area(shapely.intersection(shapes[one], shapes[other]))
    same = both > SAME * (areas[one] + areas[other] - both)
    return one[same], other[same]
