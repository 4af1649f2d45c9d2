"""A user's tables, labels and numbers as plain arrays, refused with requirement, value, place and remedy."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

COORDINATE_PAIRS = (
    ("x", "y"),
    ("lon", "lat"),
    ("long", "lat"),
    ("longitude", "latitude"),
    ("easting", "northing"),
)
NUMBER_KINDS = "biuf"  # NumPy's letters for boolean, signed, unsigned, floating
SHOWN = 5  # how many labels or names a message or a repr lists


def factorize(bag: Any, n: int) -> tuple[list[Hashable], NDArray[np.intp]]:
    """Return the labels in order of first appearance and the position of each row's label among them."""
    import pandas as pd

    if isinstance(bag, (list, tuple)):  # `asarray` would turn [1, "a"] into text and tuples into columns
        bag = object_array(bag)
    elif np.ma.isMaskedArray(bag):
        bag = np.ma.filled(bag.astype(object), np.nan)
    elif not hasattr(bag, "factorize"):
        bag = np.asarray(bag)
    require_length(bag, "bag", "label per row of `X`", n)
    if isinstance(bag, np.ndarray) and bag.dtype.kind in "mM":
        bag = pd.Series(bag)  # dates become Timestamps, as in a pandas index
    try:
        code, found = pd.factorize(bag)
    except TypeError as error:
        raise TypeError(f"`bag` must hold hashable labels, such as text or numbers: {error}.") from None
    require(code >= 0, bag, "`bag` must label every row", "row {}".format, "Drop rows outside every bag first.")
    return [python_scalar(label) for label in found], code


def as_table(X: Any) -> tuple[Any, tuple[str, ...], bool]:
    """Return `X` as a data frame or a 2-D array, its column names, and whether these were given."""
    named = hasattr(X, "columns")
    if not named:
        X = as_array(X, "X")
        X = np.reshape(X, (-1, 1)) if X.ndim == 1 else X
        if X.ndim != 2:
            raise ValueError(f"`X` must be a table of rows and columns; got {shown_size(X)}.")
    if 0 in X.shape:
        raise ValueError(f"`X` must have at least one row and one column; got shape {X.shape}.")
    names = tuple(map(str, X.columns)) if named else tuple(f"column {j}" for j in range(X.shape[1]))
    repeated = [name for j, name in enumerate(names) if name in names[:j]]
    if repeated:
        raise ValueError(f"`X` must have distinct column names; got {some_values(repeated)} more than once.")
    return X, names, named


def as_matrix(X: Any, columns: Sequence[Any], place: Callable[[int], str]) -> NDArray[np.float64]:
    """Return a table as finite float64; `columns` are the names or numbers to use in messages."""
    if isinstance(X, np.ndarray) and X.dtype.kind in NUMBER_KINDS:
        matrix = to_float(X, "`X`", place)
    else:
        series = X.T if isinstance(X, np.ndarray) else (X[name] for name in X.columns)
        named = zip(series, columns, strict=True)
        matrix = np.column_stack([to_float(values, f"`X` (column {c!r})", place) for values, c in named])
    require_finite(matrix, "`X`", lambda row, j: f"column {columns[j]!r}, {place(row)}")
    return matrix


def as_numbers(values: Any, name: str, owner: str, length: int, place: Callable[[int], str]) -> NDArray[np.float64]:
    """Return `length` numbers, one per `owner`, with NaN where one is missing."""
    values = as_array(values, name)
    require_length(values, name, f"number per {owner}", length)
    return to_float(values, f"`{name}`", place)


def as_array(values: Any, name: str) -> Any:
    """Return an array, but leave pandas objects and masked arrays what they are."""
    if hasattr(values, "iloc") or np.ma.isMaskedArray(values):
        return values
    try:
        return np.asarray(values)
    except ValueError as error:
        raise ValueError(f"`{name}` must be a rectangular array of numbers: {error}") from None


def to_float(values: Any, what: str, place: Callable[[int], str]) -> NDArray[np.float64]:
    """Return numbers as float64, with NaN where one is missing; refuse text, dates and the like."""
    if hasattr(values, "iloc") and values.dtype.kind in NUMBER_KINDS:
        return values.to_numpy(np.float64, na_value=np.nan)
    if np.ma.isMaskedArray(values):
        values = np.where(np.ma.getmaskarray(values), np.nan, values.data)
    values = np.asarray(values)
    if values.dtype.kind in NUMBER_KINDS:
        return values.astype(np.float64, copy=False)
    import pandas as pd

    missing = pd.isna(values)
    for i in np.flatnonzero(~missing):
        # The text "12" has no `__float__`, and rightly so: it is more often a code than a quantity.
        if values.dtype.kind != "O" or not hasattr(values[i], "__float__"):
            raise TypeError(
                f"{what} must hold numbers; got {python_scalar(values[i])!r} at {place(int(i))}. "
                "Convert text, dates and categories to numbers, or leave them out."
            )
    return np.where(missing, np.nan, values).astype(np.float64)


def require_length(values: Any, name: str, owner: str, length: int) -> None:
    """Raise unless `values` is 1-D with `length` entries."""
    if values.shape != (length,):
        raise ValueError(f"`{name}` must hold one {owner}, {length} in all; got {shown_size(values)}.")


def require_finite(values: NDArray[np.float64], what: str, place: Callable[..., str]) -> None:
    """Raise where a number is missing or infinite."""
    require(np.isfinite(values), values, f"{what} must be finite", place, "Drop or fill these rows first.")


def require(ok: NDArray[np.bool_], values: Any, requirement: str, place: Callable[..., str], remedy: str) -> None:
    """Raise unless all is `ok`, showing the first value that is not and the number of such values."""
    if not ok.all():
        first = np.unravel_index(np.argmin(ok), ok.shape)
        count = ok.size - np.count_nonzero(ok)
        value = np.asarray(values)[first]
        among = f", the first of {count} such values" if count > 1 else ""
        raise ValueError(f"{requirement}; got {value} at {place(*first)}{among}. {remedy}")


def refuse_other_row_order(X: Any, values: Any, name: str) -> None:
    """Refuse pandas rows that are those of `X` in another order, since rows are matched by position."""
    if not (hasattr(X, "iloc") and hasattr(values, "iloc")) or X.index.equals(values.index):
        return
    if len(X) == len(values) and X.index.symmetric_difference(values.index, sort=False).empty:
        raise ValueError(
            f"`{name}` must have its rows in the order of `X`; its index is that of `X` in another order. "
            f"Pass `{name}.loc[X.index]`, or `{name}.to_numpy()` if the rows do correspond."
        )


def resolve_coordinates(coordinates: Sequence[str | int] | None, names: tuple[str, ...]) -> tuple[int, ...]:
    """Return the numbers of the columns given, or of the first pair recognised by name."""
    if coordinates is None:
        lower = [name.lower() for name in names]
        found = (pair for pair in COORDINATE_PAIRS if set(pair) <= set(lower))
        return tuple(lower.index(name) for name in next(found, ()))
    if isinstance(coordinates, (str, int)) or any(isinstance(c, (bool, np.bool_)) for c in coordinates):
        raise TypeError(f"`coordinates` must be a tuple of column names or numbers; got {coordinates!r}.")
    columns = tuple(names.index(c) if c in names else c for c in coordinates)
    if len(set(columns)) < len(columns) or not all(c in range(len(names)) for c in columns):
        raise ValueError(
            "`coordinates` must be distinct columns of `X`, by name or by number from 0; "
            f"got {tuple(coordinates)!r}, and the columns are {some_values(names)}."
        )
    return tuple(int(c) for c in columns)


def offsets(sizes: NDArray[np.intp]) -> NDArray[np.intp]:
    """Where each bag starts and the last one ends."""
    return np.concatenate(([0], np.cumsum(sizes)))


def object_array(values: Sequence[Any]) -> NDArray[np.object_]:
    """A 1-D array that keeps tuples and mixed types as they are."""
    return np.fromiter(values, dtype=object, count=len(values))


def python_scalar(value: Any) -> Any:
    """Return 3 for `np.int64(3)`; NumPy's dates stay, since `item` makes bare integers of some."""
    return value.item() if isinstance(value, np.generic) and value.dtype.kind not in "mM" else value


def place_of_rows(labels: Any, code: NDArray[np.intp]) -> Callable[[int], str]:
    """Function that names a row and its bag, for messages."""
    return lambda row: f"row {row} (bag {labels[code[row]]!r})"


def shown_size(values: Any) -> str:
    """Length or shape of an array, for messages."""
    if values.ndim == 0:
        return repr(values.item())
    return str(len(values)) if values.ndim == 1 else f"shape {values.shape}"


def some_values(values: Sequence[Any]) -> str:
    """The first few values, for messages."""
    more = len(values) - SHOWN
    return ", ".join(map(repr, values[:SHOWN])) + (f" and {more} more" if more > 0 else "")


def some_bags(labels: Sequence[Any] | NDArray[np.object_]) -> str:
    """The first few labels, for messages."""
    return f"bag{'s' if len(labels) > 1 else ''} {some_values(list(labels))}"
