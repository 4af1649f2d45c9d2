"""A kernel that follows the surface on which individuals lie."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any, Self

from vbagg.kernels.columns import checked_columns, column_number
from vbagg.kernels.families import RBF


@dataclass(frozen=True)
class Graph(RBF):
    """`RBF` of geodesic coordinates: distances along the surface that the columns lie on, not through its folds.

    For individuals whose columns depend on fewer quantities than there are columns, as on a sheet that is rolled up in
    space. A graph of nearest neighbours among the individuals of the training bags gives their distances along the
    sheet, and these give coordinates, few in number (`vbagg.geodesic`). New individuals are placed by their neighbours.

    Parameters
    ----------
    columns, ard, variance, lengthscale, fixed, local : as `Stationary`; a length-scale per coordinate with ``ard``
    neighbours : of each individual in the graph; fewer follow tighter folds, more bridge gaps
    dimensions : number of coordinates; None for those that stand out from what the graph's paths get wrong
    of : the columns that a fitted kernel's coordinates were made of, when ``columns`` are these coordinates
    """

    neighbours: int = 10
    dimensions: int | None = None
    of: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_whole("neighbours", self.neighbours, 2)
        if self.dimensions is not None:
            _check_whole("dimensions", self.dimensions, 1)
        object.__setattr__(self, "of", checked_columns(self.of))

    @property
    def column_numbers(self) -> tuple[int, ...]:
        """The numbers of its coordinates among all columns."""
        if self.of is None:
            raise ValueError("A Graph kernel has no coordinates before it is fitted, which VBAgg does alone.")
        return super().column_numbers

    @property
    def source(self) -> tuple[int, ...]:
        """The numbers of the columns that its coordinates are made of."""
        return super().column_numbers if self.of is None else self.of

    def on_coordinates(self, columns: range) -> Self:
        """The same kernel on coordinates that were made of its columns."""
        if isinstance(self.lengthscale, tuple) and len(self.lengthscale) != len(columns):
            raise ValueError(
                f"`lengthscale` of Graph must have one value per geodesic coordinate; got {len(self.lengthscale)} for"
                f" {len(columns)} coordinates."
            )
        return self._with(columns=columns, of=self.source)

    def _resolved(self, names: tuple[str, ...]) -> Self:
        if self.of is not None:
            return self
        columns = range(len(names)) if self.columns is None else self.columns
        return self._with(columns=[column_number(column, names) for column in columns])


def _check_whole(name: str, value: Any, least: int) -> None:
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise ValueError(f"`{name}` of Graph must be a whole number of at least {least}; got {value!r}.")
