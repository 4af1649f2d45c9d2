"""Rows in lexicographic order, whatever order they came in."""

from __future__ import annotations

import numpy as np


def lexicographic_order(*keys: np.ndarray) -> np.ndarray:
    """Order by the first key, ties by the second, and so on; as `np.lexsort`, but later keys sort the ties alone."""
    order = np.argsort(keys[0], kind="stable")
    run = _runs(keys[0][order])
    for key in keys[1:]:
        tied = np.flatnonzero(_in_ties(run))
        if len(tied) == 0:
            break
        values = key[order[tied]]
        within = np.lexsort((values, run[tied]))
        order[tied] = order[tied][within]
        # runs of ties are split where the key changes
        new = np.zeros(len(run), int)
        new[tied[1:]] = (values[within][1:] != values[within][:-1]) & (run[tied[1:]] == run[tied[:-1]])
        run = run + np.cumsum(new)
    return order


def sorted_rows(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lexicographic order of the rows, and whether each of them, in that order, is the first of its kind."""
    order = lexicographic_order(*X.T)
    rows = X[order]
    return order, np.concatenate([np.ones(len(X[:1]), bool), np.any(rows[1:] != rows[:-1], axis=1)])


def _runs(values: np.ndarray) -> np.ndarray:
    """Number of the run of equal values that each of the sorted values is in."""
    return np.cumsum(np.concatenate([[0], values[1:] != values[:-1]])[: len(values)])


def _in_ties(run: np.ndarray) -> np.ndarray:
    """Whether each position shares its run with another."""
    same = np.concatenate([[False], run[1:] == run[:-1], [False]])
    return (same[1:] | same[:-1])[: len(run)]
