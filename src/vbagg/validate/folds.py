"""Folds of bags: at random, compact regions, or a user's own.

Folds of `Bags` follow from labels and places alone: the order of rows and bags changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vbagg.bags import Bags
from vbagg.inputs import object_array, python_scalar, require_finite, some_bags, some_values
from vbagg.models.bagpixel import bag_means

Integers = NDArray[np.int64]
FEWEST_TRAINING_BAGS = 2


def random_folds(bags: Bags | int, k: int = 5, seed: int = 0, by: Any = None) -> Integers:
    """Fold 1 to `k` of each bag, drawn at random; the sizes of folds differ by one at most.

    Parameters
    ----------
    bags
        Bags, or their number: then folds go by position.
    k
        Number of folds.
    seed
        Seed of the draw.
    by
        A number for each bag, such as its rate, of which every fold gets high and low values alike.
    """
    n = len(bags) if isinstance(bags, Bags) else int(bags)
    _check_number(k, n)
    rng = np.random.default_rng(seed)
    order = rng.permutation(n)
    if isinstance(bags, Bags):
        order = _label_order(bags)[order]
    if by is not None:
        order = order[np.argsort(_numbers_of(bags, by)[order], kind="stable")]
    folds = np.empty(n, dtype=np.int64)
    for start in range(0, n, k):
        group = order[start : start + k]
        folds[group] = 1 + rng.permutation(k)[: len(group)]
    return folds


def spatial_folds(bags: Bags | ArrayLike, k: int = 5, seed: int = 0) -> Integers:
    """Fold 1 to `k` of each bag, each fold a compact region; the sizes of folds differ by one at most.

    Bags are halved again and again, by straight cuts across the longer side of a randomly turned frame.

    Parameters
    ----------
    bags
        Bags with coordinate columns, whose weighted means are the places; or the places (b, 2).
    k
        Number of folds.
    seed
        Seed of the frame's direction.
    """
    places = _places(bags)
    n, n_columns = places.shape
    _check_number(k, n)
    turn, _ = np.linalg.qr(np.random.default_rng(seed).standard_normal((n_columns, n_columns)))
    turned = (places - places.mean(axis=0)) @ turn
    turned = np.round(turned / max(float(np.ptp(turned)), 1e-300), 9)  # blind to rounding by the order of rows
    start = _label_order(bags) if isinstance(bags, Bags) else np.arange(n)
    folds = np.empty(n, dtype=np.int64)

    def cut(members: NDArray[np.intp], first: int, number: int) -> None:
        if number == 1:
            folds[members] = first
            return
        axis = int(np.argmax(np.ptp(turned[members], axis=0)))
        ordered = members[np.argsort(turned[members, axis], kind="stable")]
        left = number // 2
        each, rest = divmod(len(members), number)
        size = each * left + round(rest * left / number)
        cut(ordered[:size], first, left)
        cut(ordered[size:], first + left, number - left)

    cut(start[np.lexsort(turned[start].T)], 1, k)
    return folds


def is_number(folds: Any) -> bool:
    """Whether folds are to be drawn at random, so many."""
    return isinstance(folds, int | np.integer) and not isinstance(folds, bool)


def as_folds(folds: Any, bags: Bags, seen: NDArray[np.bool_] | None = None) -> NDArray[np.object_]:
    """Name of the fold of each bag (b,).

    From a number of random folds, a vector in label order, a Series by label, or a function of the bags that gives one.
    Of those `seen` alone, if that is given: others need no fold.
    """
    if callable(folds):
        folds = folds(bags)
    if is_number(folds):
        folds = random_folds(bags, int(folds))
    import pandas as pd

    if isinstance(folds, Mapping):
        folds = pd.Series(folds)
    is_series = hasattr(folds, "iloc") and folds.ndim == 1
    code, names = pd.factorize(folds if is_series else object_array(list(folds)))
    # the labels of a Series are matched as for outputs; a code of -1 is a missing name
    positions = bags.align(pd.Series(code, index=folds.index) if is_series else code, "folds").astype(int)
    labels = bags.labels
    if seen is not None:
        positions, labels = positions[seen], labels[seen]
    if np.any(positions < 0):
        raise ValueError(
            f"`folds` must name a fold for every bag; it is missing for {some_bags(labels[positions < 0])}."
            " Name one, or leave these bags out."
        )
    named = object_array([python_scalar(names[position]) for position in positions])
    _check_sizes(named)
    return named


def fold_names(folds: NDArray[np.object_]) -> list[Any]:
    """The folds in order."""
    names = list(dict.fromkeys(folds))
    try:
        return sorted(names)
    except TypeError:
        return sorted(names, key=repr)


def _check_number(k: int, n: int) -> None:
    if k < 2:
        raise ValueError(f"`k` must be at least 2 folds; got {k}.")
    if k > n:
        raise ValueError(f"`k` must not exceed the number of bags, {n}; got {k}. Use fewer folds.")


def _check_sizes(folds: NDArray[np.object_]) -> None:
    names, n = fold_names(folds), len(folds)
    if len(names) < 2:
        raise ValueError(
            f"`folds` must divide the bags into two folds at least; all {n} bags are in fold {some_values(names)}."
        )
    for name in names:
        left = n - int(np.sum(folds == name))
        if left < FEWEST_TRAINING_BAGS:
            raise ValueError(
                f"Every fold must leave {FEWEST_TRAINING_BAGS} bags to fit to; fold {name!r} leaves {left} of {n}."
            )


def _label_order(bags: Bags) -> NDArray[np.intp]:
    """Positions of bags in an order that depends on their labels alone."""
    return np.array(sorted(range(len(bags)), key=lambda a: repr(bags.labels[a])), dtype=np.intp)


def _numbers_of(bags: Bags | int, by: Any) -> NDArray[np.float64]:
    if isinstance(bags, Bags):
        return bags.align(by, "by")
    values = np.asarray(by, dtype=float)
    if values.shape != (bags,):
        raise ValueError(f"`by` must hold one number per bag, {bags} in all; got shape {values.shape}.")
    require_finite(values, "`by`", "bag {}".format)
    return values


def _places(bags: Bags | ArrayLike) -> NDArray[np.float64]:
    if isinstance(bags, Bags):
        if not bags.coordinates:
            raise ValueError(
                f"Spatial folds need coordinate columns; the columns are {some_values(bags.feature_names)}."
                " Call two of them x and y, or pass the centroids of the bags."
            )
        return bag_means(bags).X[:, bags.coordinates]
    places = np.asarray(bags, dtype=float)
    if places.ndim != 2 or 0 in places.shape:
        raise ValueError(f"Centroids must be a table (bags, 2) of numbers; got shape {places.shape}.")
    require_finite(places, "centroids", lambda row, column: f"row {row}, column {column}")
    return places
