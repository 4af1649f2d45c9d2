"""Random division of bags into parts whose labels are distributed alike."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vbagg.datasets.aggregate import PARTS, Floats, Integers

PAPER_SPLIT = (576, 95, 95, 191)


def split_bags(values: ArrayLike, sizes: Sequence[int] = PAPER_SPLIT, seed: int = 0) -> dict[str, NDArray[np.intp]]:
    """Divide bags at random into the parts `PARTS`, such that ``values`` have a similar distribution in each.

    Among the bags in order of their value, the n members of a part lie evenly: from a random start, one in each n-th
    of the way. The paper asks for such parts in its ten divisions of 957 districts.

    Parameters
    ----------
    values
        What to balance, one number per bag, for example observed rates (``country.district_rate``).
    sizes
        Number of bags of each part. If their sum is not the number of bags, they are taken as proportions.
    seed
        Seed of the division.

    Returns
    -------
    dict
        For each part, the positions of its bags, increasing. Every bag is in one part.
    """
    values = np.asarray(values, dtype=float)
    if values.ndim != 1 or not np.isfinite(values).all():
        raise ValueError(f"`values` must be one finite number per bag; got {values}.")
    if len(sizes) != len(PARTS) or min(sizes) < 0 or sum(sizes) == 0:
        raise ValueError(f"`sizes` must be {len(PARTS)} non-negative numbers, for {', '.join(PARTS)}; got {sizes}.")
    counts = _in_proportion(sizes, values.size)
    random = np.random.default_rng(seed)
    part = np.repeat(np.arange(len(PARTS)), counts)
    quantile = np.concatenate([_evenly(n, random) for n in counts])
    by_value = np.lexsort((random.uniform(size=values.size), values))  # equal values in random order
    part_by_value = part[np.argsort(quantile, kind="stable")]
    return {name: np.sort(by_value[part_by_value == k]) for k, name in enumerate(PARTS)}


def _evenly(n: int, random: np.random.Generator) -> Floats:
    """Random points of the circle [0, 1), one in each of ``n`` equal arcs that begin anywhere."""
    return (random.uniform() + (np.arange(n) + random.uniform(size=n)) / max(n, 1)) % 1


def _in_proportion(sizes: Sequence[int], total: int) -> Integers:
    """Whole numbers of sum ``total`` in proportion to ``sizes``; the largest remainders are rounded up."""
    exact = np.asarray(sizes, dtype=float) * total / sum(sizes)
    counts = np.floor(exact).astype(np.int64)
    counts[np.argsort(counts - exact, kind="stable")[: total - counts.sum()]] += 1
    return counts
