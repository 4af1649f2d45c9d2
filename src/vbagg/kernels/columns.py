"""Which columns a kernel sees, by name or number."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral
from typing import Any

import jax
import numpy as np


def take_columns(X: jax.Array, used: tuple[int, ...]) -> jax.Array:
    """Columns ``used`` of an array of all columns, or of these alone."""
    if X.shape[-1] == len(used):  # its own columns; all columns only if it uses all
        return X
    if max(used) >= X.shape[-1]:
        raise ValueError(
            f"A kernel on the columns {list(used)} needs an array of all columns, or of these {len(used)}; "
            f"got {X.shape[-1]} columns."
        )
    return X[..., np.array(used)]


def checked_columns(columns: Any) -> tuple[int | str, ...] | None:
    """Columns as a tuple of names and numbers, refused if there are none or some twice."""
    if columns is None:
        return None
    several = (columns,) if isinstance(columns, str) or not isinstance(columns, Iterable) else tuple(columns)
    if not several or not all(isinstance(c, str | Integral) and not isinstance(c, bool) for c in several):
        raise TypeError(f"`columns` must be one or more names or numbers; got {columns!r}.")
    if len(set(several)) < len(several):
        raise ValueError(f"`columns` must not repeat a column; got {columns!r}.")
    return tuple(str(c) if isinstance(c, str) else int(c) for c in several)


def column_number(column: int | str, names: tuple[str, ...]) -> int:
    """Number of a column among the features ``names``."""
    if isinstance(column, str) and column not in names:
        raise ValueError(f"A kernel's `columns` must be among the features {list(names)}; got {column!r}.")
    number = names.index(column) if isinstance(column, str) else column
    if not 0 <= number < len(names):
        raise ValueError(
            f"A kernel's column number must be from 0 to {len(names) - 1}; got {number}. "
            f"The features are {list(names)}."
        )
    return number
