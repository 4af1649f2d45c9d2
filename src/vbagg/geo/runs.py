"""Runs of numbers, one after the other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.intp]


def laid_out(first: Places, last: Places) -> tuple[Places, Places]:
    """All numbers from each `first` to before its `last`: which of them they belong to, and the numbers."""
    number = last - first
    at = np.repeat(np.arange(len(first)), number)
    within = np.arange(len(at)) - np.repeat(np.cumsum(number) - number, number)
    return at, first[at] + within


def starts_of(sorted_numbers: NDArray[np.integer], n: int) -> Places:
    """Where the run of each of the numbers `0..n-1` begins, and the end of the last (n + 1)."""
    return np.searchsorted(sorted_numbers, np.arange(n + 1)).astype(np.intp)
