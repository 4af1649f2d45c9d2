"""Tables of areas, which a reader can sort, search, download and find on the map."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Column:
    """A column of a table of areas.

    Parameters
    ----------
    title : str
    numeric : bool
        Whether it is set flush right.
    falling : bool
        Whether rows are sorted from the largest to the smallest when the reader first asks for it.
    about : str
        What it means, in a sentence.
    """

    title: str
    numeric: bool = True
    falling: bool = True
    about: str = ""


@dataclass(frozen=True)
class Cell:
    """What a table of areas shows.

    Parameters
    ----------
    text : str
    value : float or str, optional
        By which rows are sorted; those without come last.
    range : str
        The interval of the number, or what else stands below it.
    """

    text: str
    value: float | str | None = None
    range: str = ""


@dataclass(frozen=True)
class Area:
    """A row of a table of areas.

    Parameters
    ----------
    name : str
        As told apart from all others.
    cells : sequence of Cell
        One for each column after the name.
    record : sequence of str, float or None
        Its row of the downloaded file.
    district : int, optional
        Which of the report's `Districts` it is, on the map.
    bounds : (west, south, east, north), optional
        Where it lies, if it is none of them.
    """

    name: str
    cells: Sequence[Cell]
    record: Sequence[str | float | None] = ()
    district: int | None = None
    bounds: tuple[float, float, float, float] | None = None


@dataclass(frozen=True)
class Order:
    """A way to sort a table of areas, by the position of a column, that of the name being 0."""

    title: str
    column: int
    falling: bool = True


@dataclass(frozen=True)
class AreaTable:
    """Areas with numbers, which the reader can sort, search, download and find on the map.

    Parameters
    ----------
    title, anchor : str
    intro, note : str
        What stands above and below it.
    columns : sequence of Column
        The first is that of the names.
    areas : sequence of Area
    sum : Area, optional
        The row below them that adds them up.
    orders : sequence of Order
        The first is that at the start.
    file : str
        Name of the downloaded file.
    headers : sequence of str
        Its columns.
    """

    title: str
    anchor: str
    columns: Sequence[Column]
    areas: Sequence[Area]
    orders: Sequence[Order]
    sum: Area | None = None
    intro: str = ""
    note: str = ""
    file: str = "areas.csv"
    headers: Sequence[str] = ()
