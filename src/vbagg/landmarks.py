"""Where to put the landmarks of one additive component, in its own columns.

The choice depends on the data only through the distinct rows and the weight of each: row order, rows of weight zero
and a row split into two halves change nothing, exactly. Weights are shares of their bag: every bag is one
observation, and populations are so heavy-tailed that a few cities would attract most landmarks otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from vbagg.kmeans import kmeans_centres, kmeans_seeds
from vbagg.ordering import sorted_rows

if TYPE_CHECKING:
    from vbagg.kernels import Kernel, LogParameters

METHODS = ("kmeans", "kmeans++", "variance", "per-bag")
MAX_ROWS = 20_000


@dataclass(frozen=True)
class Landmarks:
    """How a model chooses its landmarks.

    Parameters
    ----------
    number : per additive component; None for `default_number`
    method : "kmeans" (centres), "kmeans++" (its seeds, which are rows), "variance" (greedy conditional
        variance of the kernel) or "per-bag" (one row of each bag, whatever the number)
    joint : one set in the space of all columns instead of one set per component, MATH (11)
    learn : let the objective move the landmarks
    """

    number: int | None = None
    method: str = "kmeans"
    joint: bool = False
    learn: bool = False

    def __post_init__(self) -> None:
        _check_method(self.method)
        if self.number is not None:
            _check_number(self.number)
        for name in ("joint", "learn"):
            if not isinstance(getattr(self, name), bool):
                raise TypeError(f"`{name}` of Landmarks must be True or False; got {getattr(self, name)!r}.")


def default_number(n_distinct: int, n_columns: int, n_bags: int) -> int:
    """Return 2 for each bag, but at least 50, and at most 50 for one column, 300 in the plane and 100 in more columns.

    Outputs of b bags inform about b directions; twice as many leave room for where the landmarks happen to lie. What
    they do not explain is part of the likelihood. Rough spatial fields need the larger number. Never more than the
    distinct rows.
    """
    most = {1: 50, 2: 300}.get(n_columns, 100)
    return min(n_distinct, max(50, min(2 * n_bags, most)))


def choose_landmarks(
    X: ArrayLike,
    weight: ArrayLike,
    number: int | None,
    method: str = "kmeans",
    random_state: int = 0,
    bag: ArrayLike | None = None,
    kernel: Kernel | None = None,
    log_params: LogParameters = None,
    n_bags: int = 1,
) -> np.ndarray:
    """Choose landmarks among (or as centres of) the rows of positive weight.

    Parameters
    ----------
    X : (n, d) standardised columns of the component
    weight : (n,) non-negative
    number : how many, None for `default_number`; "per-bag" ignores it
    method : see `Landmarks`
    bag : (n,) labels; None: weights are shares of `n_bags` bags already; needed by "per-bag"
    kernel, log_params : the resolved component and its parameters, needed by "variance"

    Returns
    -------
    (m, d) distinct rows in lexicographic order. Fewer than ``number`` where centres coincide, or where fewer
    explain the kernel's variance.
    """
    _check_method(method)
    X, weight = _checked_rows(X, weight)
    counted = weight > 0
    labels = None if bag is None else np.asarray(bag)[counted]
    share = weight[counted] if labels is None else shares(weight[counted], labels)
    rows, importance = merge_rows(X[counted], share)
    if len(rows) == 0:
        raise ValueError(f"Landmarks need a row with positive `weight`; all {len(X)} rows have weight zero.")
    if method == "per-bag":
        if labels is None:
            raise ValueError('Landmarks with method="per-bag" need `bag`, the label of each row.')
        return representatives(X[counted], weight[counted], labels)
    if number is None:
        number = default_number(len(rows), X.shape[1], n_bags if labels is None else len(np.unique(labels)))
    _check_number(number)
    if number > len(rows):
        raise ValueError(
            f"The number of landmarks must not exceed the distinct rows with positive weight; got {number} "
            f"landmarks for {len(rows)} distinct rows. Ask for fewer."
        )
    if number == len(rows):
        return rows
    rng = np.random.default_rng(random_state)
    rows, importance = thin_rows(rows, importance, max(MAX_ROWS, number), rng)
    if method == "variance":
        chosen = rows[_greedy_variance(rows, number, kernel, log_params)]
    else:
        chosen = rows[kmeans_seeds(rows, importance, number, int(rng.integers(2**31)))]
        if method == "kmeans":
            chosen = kmeans_centres(rows, importance, chosen)
    return np.unique(chosen, axis=0)


def check_landmarks(landmarks: ArrayLike, n_columns: int) -> np.ndarray:
    """Return the user's own landmarks as a float64 array (m, n_columns) after checking them."""
    Z = np.asarray(landmarks, dtype=np.float64)
    if Z.ndim != 2 or Z.shape[1] != n_columns or len(Z) == 0:
        raise ValueError(f"`landmarks` must have shape (m, {n_columns}), with the component's columns; got {Z.shape}.")
    if not np.isfinite(Z).all():
        row = int(np.flatnonzero(~np.isfinite(Z).all(axis=1))[0])
        raise ValueError(f"`landmarks` must be finite; got {Z[row].tolist()} at row {row}.")
    _, first, group = np.unique(Z, axis=0, return_index=True, return_inverse=True)
    repeated = [(int(first[g]), row) for row, g in enumerate(group.ravel()) if first[g] != row]
    if repeated:
        pairs = ", ".join(f"{row} = {original}" for original, row in repeated[:5])
        raise ValueError(f"`landmarks` must be distinct; got {len(repeated)} repeated, rows {pairs}. Drop them.")
    return Z


def shares(weight: np.ndarray, bag: np.ndarray) -> np.ndarray:
    """Return each weight as a share of its bag, whatever the order of rows."""
    share = np.empty_like(weight)
    for rows in _rows_by_bag(bag):
        share[rows] = weight[rows] / math.fsum(weight[rows])  # fsum is exact
    return share


def _rows_by_bag(bag: np.ndarray) -> list[np.ndarray]:
    order = np.argsort(bag, kind="stable")
    return np.split(order, np.flatnonzero(bag[order][1:] != bag[order][:-1]) + 1)


def merge_rows(X: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct rows in lexicographic order and their total weights, whatever the order of rows."""
    order, first = sorted_rows(X)
    X, weight = X[order], weight[order]
    starts = np.flatnonzero(first)
    stops = np.r_[starts[1:], len(X)]
    total = weight[starts]
    for group in np.flatnonzero(stops - starts > 1):  # fsum is exact, so independent of order
        total[group] = math.fsum(weight[starts[group] : stops[group]])
    return X[starts], total


def thin_rows(
    rows: np.ndarray, weight: np.ndarray, size: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return at most ``size`` rows, drawn by weight, with weights that are unbiased for any sum over rows.

    Priority sampling (Duffield, Lund and Thorup, 2007): keep the largest w / u, u uniform, and raise weights
    to the largest w / u left out.
    """
    if len(rows) <= size:
        return rows, weight
    priority = weight / (1.0 - rng.random(len(rows)))
    order = np.argsort(-priority, kind="stable")
    kept = np.sort(order[:size])
    return rows[kept], np.maximum(weight[kept], priority[order[size]])


def representatives(X: np.ndarray, weight: np.ndarray, bag: np.ndarray) -> np.ndarray:
    """Return the weighted medoid of each bag, its row closest to the weighted mean; equal ones once."""
    return np.unique([_medoid(*merge_rows(X[rows], weight[rows])) for rows in _rows_by_bag(bag)], axis=0)


def _medoid(rows: np.ndarray, weight: np.ndarray) -> np.ndarray:
    mean = (weight / weight.sum()) @ rows
    return rows[np.argmin(np.sum((rows - mean) ** 2, axis=1))]


def _greedy_variance(rows: np.ndarray, number: int, kernel: Kernel | None, log_params: LogParameters) -> list[int]:
    """Pivots of the Cholesky factorisation of the kernel matrix, which is never formed."""
    if kernel is None or log_params is None:
        raise ValueError('Landmarks with method="variance" need `kernel` and `log_params`.')
    import jax

    with jax.enable_x64(True):
        column_of = jax.jit(lambda row: kernel.matrix(log_params, rows, row)[:, 0])
        residual = np.array(kernel.diag(log_params, rows))
        return _pivots(residual, lambda pivot: np.asarray(column_of(rows[pivot : pivot + 1])), number)


def _pivots(residual: np.ndarray, column_of: Callable[[int], np.ndarray], number: int) -> list[int]:
    factor = np.zeros((number, len(residual)))
    negligible = 1e-10 * residual.max()
    pivots: list[int] = []
    for step in range(number):
        pivot = int(np.argmax(residual))
        if residual[pivot] <= negligible:
            break
        # L_ij = (k_ij - sum_l L_il L_jl) / sqrt(residual_j)
        explained = factor[:step, pivot] @ factor[:step]
        factor[step] = (column_of(pivot) - explained) / math.sqrt(residual[pivot])
        residual = np.maximum(residual - factor[step] ** 2, 0.0)
        residual[pivot] = 0.0
        pivots.append(pivot)
    return pivots


def _checked_rows(X: ArrayLike, weight: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    X, weight = np.asarray(X, dtype=np.float64), np.asarray(weight, dtype=np.float64)
    if X.ndim != 2 or weight.shape != X.shape[:1]:
        raise ValueError(f"`X` must be (n, d) and `weight` (n,); got shapes {X.shape} and {weight.shape}.")
    wrong = ~(np.isfinite(X).all(axis=1) & np.isfinite(weight) & (weight >= 0))
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise ValueError(
            f"`X` must be finite and `weight` finite and non-negative; "
            f"got {X[row].tolist()} with weight {weight[row]} at row {row}. Drop nodata rows first."
        )
    return X, weight


def _check_method(method: Any) -> None:
    if method not in METHODS:
        raise ValueError(f"The `method` of landmarks must be one of {list(METHODS)}; got {method!r}.")


def _check_number(number: Any) -> None:
    if not isinstance(number, Integral) or isinstance(number, bool) or number < 1:
        raise ValueError(f"The `number` of landmarks must be a positive integer; got {number!r}.")
