"""Individuals grouped into bags: the one data structure that every model is fitted to.

A row is an individual (a pixel, a patient, a batch) with features and a non-negative weight; a bag is a set
of rows whose outputs were only observed as one total. A bag plays the part of scikit-learn's sample: the
length of `Bags` is the number of bags, and an index is the position of a bag.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vbagg.inputs import (
    as_matrix,
    as_numbers,
    as_table,
    factorize,
    object_array,
    offsets,
    place_of_rows,
    refuse_other_row_order,
    require,
    require_finite,
    resolve_coordinates,
    shown_size,
    some_bags,
    some_values,
)
from vbagg.labelled import Labelled

if TYPE_CHECKING:
    from vbagg.framed import FramedBags
    from vbagg.stored import StoredBags


class BagTable(Labelled, ABC):
    """What can be said of bags by their labels and sums of weights."""

    labels: NDArray[np.object_]
    feature_names: tuple[str, ...]

    @abstractmethod
    def totals(self) -> NDArray[np.float64]:
        """Sum of the weights of each bag (b,)."""

    @abstractmethod
    def weight_squares(self) -> NDArray[np.float64]:
        """Sum of the squared weights of each bag (b,)."""

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return len(self.feature_names)

    def effective_sizes(self) -> NDArray[np.float64]:
        """Effective number of individuals of each bag (b,): that of equal weights with the same sum of squares."""
        return self.totals() ** 2 / self.weight_squares()


class Bags(BagTable):
    """Rows of features and weights, grouped by bag and immutable.

    Parameters
    ----------
    X
        Features (n, d), as numbers or booleans: an array, or a data frame whose column names are kept.
        One dimension means one feature.
    bag
        The label of each row's bag (n,): any hashable values, in any order.
    weight
        Non-negative weight of each row (n,), for example its population. Default: 1.
    coordinates
        Names or numbers of the columns that are spatial coordinates and share one scale. Default: the first
        pair of `COORDINATE_PAIRS` found among the column names of a data frame, in any case.

    Attributes
    ----------
    X, weight
        float64, with the rows of a bag next to each other: bags in the order of `labels`, rows as given.
    labels
        Label of each bag (b,), in order of first appearance. A selection may hold a label more than once.
    bag, rows
        For each stored row, the position of its bag and its row number in the `X` that was given.
    starts
        The rows of bag `a` are `starts[a]:starts[a + 1]`; (b + 1,).
    feature_names, named
        Column names, and whether they were given or made up (`"column 0"`, ...).
    coordinates
        Column numbers of the coordinates, possibly none.
    """

    X: NDArray[np.float64]
    weight: NDArray[np.float64]
    labels: NDArray[np.object_]
    bag: NDArray[np.intp]
    rows: NDArray[np.intp]
    starts: NDArray[np.intp]
    feature_names: tuple[str, ...]
    named: bool
    coordinates: tuple[int, ...]

    def __init__(
        self,
        X: Any,
        bag: Any,
        weight: Any = None,
        *,
        coordinates: Sequence[str | int] | None = None,
    ) -> None:
        for values, name in ((bag, "bag"), (weight, "weight")):
            refuse_other_row_order(X, values, name)
        X, feature_names, named = as_table(X)
        n = X.shape[0]
        labels, code = factorize(bag, n)
        place = place_of_rows(labels, code)
        features = as_matrix(X, feature_names if named else range(len(feature_names)), place)
        weights = np.ones(n) if weight is None else as_numbers(weight, "weight", "row of `X`", n, place)
        require_finite(weights, "`weight`", place)
        require(weights >= 0, weights, "`weight` must be non-negative", place, "Drop nodata pixels first.")
        order = np.argsort(code, kind="stable")
        self._store(
            X=features[order],
            weight=weights[order],
            labels=object_array(labels),
            bag=code[order],
            rows=order,
            starts=offsets(np.bincount(code)),
            feature_names=feature_names,
            named=named,
            coordinates=resolve_coordinates(coordinates, feature_names),
        )
        weightless = self.labels[self.totals() == 0]
        if weightless.size:
            raise ValueError(
                f"every bag must have a positive weight; all weights are 0 in {some_bags(weightless)}. "
                "Leave these bags out, or correct their weights."
            )

    @staticmethod
    def from_parquet(
        path: str | PathLike[str],
        features: Sequence[str] | None = None,
        bag: str = "bag",
        weight: str | None = "weight",
        coordinates: Sequence[str] | None = None,
    ) -> StoredBags:
        """Bags in a Parquet file or a folder of such files, which stay there: `VBAgg.fit` with a `client` takes them.

        Parameters
        ----------
        path
            A file, or a folder with files called `*.parquet`; the rows of a bag follow each other in one of them.
        features
            Names of the columns of individuals; by default all but `bag` and `weight`.
        bag, weight
            Names of the columns with the label of each row's bag and with its weight, None for weights of 1.
        coordinates
            Names of the columns that are spatial coordinates; by default as for `Bags`.
        """
        from vbagg.stored import StoredBags

        return StoredBags(path, features, bag, weight, coordinates)

    @staticmethod
    def from_dask(
        frame: Any,
        features: Sequence[str] | None = None,
        bag: str = "bag",
        weight: str | None = "weight",
        coordinates: Sequence[str] | None = None,
    ) -> FramedBags:
        """Bags in a Dask data frame, whose partitions stay on workers: `VBAgg.fit` with a `client` takes them.

        Parameters
        ----------
        frame
            Rows of a bag follow each other, within partitions and from the end of one to the beginning of the next;
            `frame.sort_values(bag)` sees to it. Partitions are made twice, once for labels and weights alone, and must
            be the same each time.
        features, bag, weight, coordinates
            Names of columns, as for `from_parquet`.
        """
        from vbagg.framed import FramedBags

        return FramedBags(frame, features, bag, weight, coordinates)

    @property
    def sizes(self) -> NDArray[np.intp]:
        """Number of rows of each bag (b,)."""
        return np.diff(self.starts)

    @property
    def n_individuals(self) -> int:
        """Number of rows."""
        return self.X.shape[0]

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return self.X.shape[1]

    @property
    def shape(self) -> tuple[int]:
        """`(len(self),)`: scikit-learn selects from a container with a shape by a single indexing."""
        return (len(self),)

    def __getitem__(self, key: Any) -> Bags:
        """Select bags by position: an integer, a slice, integers (repeats allowed) or a mask.

        Repeated bags stay separate and share their label. A run of neighbouring bags is a view, not a copy.
        """
        try:
            positions = np.atleast_1d(np.arange(len(self))[key])
        except IndexError as error:
            raise IndexError(f"bags are selected by position, out of {len(self)} bags; {error}") from None
        if positions.ndim != 1:
            raise IndexError(f"bags are selected along one axis; got the key {key!r}")
        sizes = self.sizes[positions]
        return self._take(self._rows_of(positions, sizes), sizes, self.labels[positions])

    def __repr__(self) -> str:
        coordinates = [self.feature_names[j] for j in self.coordinates]
        return (
            f"<Bags: {len(self)} bags, {self.n_individuals} individuals, {self.n_features} features: "
            f"{some_values(self.feature_names)}; coordinates: {some_values(coordinates) or 'none'}>"
        )

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError("`Bags` is not an array of numbers; use its `X`, `weight` or `bag`.")

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(f"`Bags` is immutable; make new `Bags` instead of setting `{name}`.")

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._store(**state)  # copies and unpickled arrays come back writeable

    def align_rows(self, values: Any, name: str = "values") -> NDArray[np.float64]:
        """One finite number per row, in the order of the stored rows (n,).

        `values` follow the rows of the `X` given to the constructor. For bags selected from others
        (`bags[...]`, `drop_zero_weight`) they follow the rows of the selection's own `X`.
        """
        bag_as_given = np.empty_like(self.bag)
        bag_as_given[self.rows] = self.bag
        place = place_of_rows(self.labels, bag_as_given)
        numbers = as_numbers(values, name, "row", self.n_individuals, place)
        require_finite(numbers, f"`{name}`", place)
        return numbers[self.rows]

    def sum_by_bag(self, values: ArrayLike) -> NDArray[np.float64]:
        """Sum `values` (n, ...), given in the order of the stored rows, over each bag: (b, ...)."""
        values = np.asarray(values, dtype=np.float64)
        if values.shape[:1] != (self.n_individuals,):
            raise ValueError(
                f"`values` must hold one entry per row, {self.n_individuals} in all; got {shown_size(values)}."
            )
        return np.add.reduceat(values, self.starts[:-1], axis=0)

    def totals(self) -> NDArray[np.float64]:
        """Sum of the weights of each bag (b,)."""
        return self.sum_by_bag(self.weight)

    def weight_squares(self) -> NDArray[np.float64]:
        """Sum of the squared weights of each bag (b,)."""
        return self.sum_by_bag(self.weight**2)

    def drop_zero_weight(self) -> Bags:
        """Return the same bags without their rows of zero weight (views, if there are none)."""
        positive = self.weight > 0
        rows = slice(None) if positive.all() else np.flatnonzero(positive)
        return self._take(rows, self.sum_by_bag(positive).astype(np.intp), self.labels)

    def merged(self, group: ArrayLike) -> Bags:
        """Return the bags that these make up: `group` (b,) has the label of the one that each is part of.

        Stored rows are those at `np.argsort(code[self.bag], kind="stable")`, `code` the position of that label.
        """
        labels, code = factorize(group, len(self))
        order = np.argsort(code[self.bag], kind="stable")
        return self._take(order, np.bincount(code, self.sizes).astype(np.intp), object_array(labels))

    def with_arrays(self, X: ArrayLike | None = None, weight: ArrayLike | None = None) -> Bags:
        """Return the same bags with other features or weights for the stored rows, which are not checked."""
        other = Bags.__new__(Bags)
        other.__dict__.update(self.__dict__)
        if X is not None:
            other._store(X=np.array(X, dtype=np.float64))
        if weight is not None:
            other._store(weight=np.array(weight, dtype=np.float64))
        return other

    def _store(self, **state: Any) -> None:
        for value in state.values():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False
        self.__dict__.update(state)

    def _take(self, rows: slice | NDArray[np.intp], sizes: NDArray[np.intp], labels: NDArray[np.object_]) -> Bags:
        """Bags of these rows, already grouped; they are the selection's own rows 0, 1, 2, ..."""
        taken = object.__new__(type(self))
        taken._store(
            X=self.X[rows],
            weight=self.weight[rows],
            labels=labels,
            bag=np.repeat(np.arange(sizes.size), sizes),
            rows=np.arange(sizes.sum()),
            starts=offsets(sizes),
            feature_names=self.feature_names,
            named=self.named,
            coordinates=self.coordinates,
        )
        return taken

    def _rows_of(self, positions: NDArray[np.intp], sizes: NDArray[np.intp]) -> slice | NDArray[np.intp]:
        """Return the stored rows of these bags, one bag after the other."""
        if positions.size and np.all(np.diff(positions) == 1):
            return slice(self.starts[positions[0]], self.starts[positions[-1] + 1])
        shift = self.starts[positions] - offsets(sizes)[:-1]
        return np.arange(sizes.sum()) + np.repeat(shift, sizes)
