"""Tables with a row for each polygon, from CSV, Excel or Parquet, with the place of each row for messages."""

from __future__ import annotations

import datetime
import os
import re
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from vbagg.errors import did_you_mean
from vbagg.geo.files import one_line, plural, require_file, some
from vbagg.geo.responses import PLAIN
from vbagg.geo.table_lines import HEADER_WITHIN, Line, Lines, is_empty, is_missing
from vbagg.geo.text_tables import text_lines
from vbagg.geo.workbooks import workbook_lines

OLD_EXCEL = b"\xd0\xcf\x11\xe0"
OTHER_KINDS = {
    b"%PDF": "a PDF document",
    b"\x1f\x8b": "compressed by gzip",
    b"\x89PNG": "a picture",
    b"II*\0": "a raster (TIFF)",
    b"MM\0*": "a raster (TIFF)",
    b"SQLite format 3\0": "a database (SQLite), such as a GeoPackage",
}


@dataclass(frozen=True, eq=False)
class Table:
    """Rows below the names of columns.

    Attributes
    ----------
    path
        The file, for messages.
    header
        Names of all columns.
    lines
        Rows with any content.
    of
        The file's content, with what is known of it as a whole.
    """

    path: str
    header: tuple[str, ...]
    lines: list[Line]
    of: Lines

    @property
    def file(self) -> str:
        """The file's name without its folder."""
        return Path(self.path).name

    @property
    def places(self) -> list[str]:
        """Where each row is, such as "line 7"."""
        return [f"{self.of.called} {line.number}" for line in self.lines]

    def cells(self, name: str) -> list[Any]:
        """What a column holds, row by row."""
        at = self.header.index(name)
        return [line.cells[at] for line in self.lines]

    def columns(self, order: Sequence[int] | None = None) -> dict[str, pd.Series]:
        """Columns without a flaw, as numbers where all of their cells are or say numbers; see `as_column`.

        Parameters
        ----------
        order
            The rows that are taken, by position; -1 stands for a row without any content. Default: all.
        """
        order = range(len(self.lines)) if order is None else order
        found = {}
        for name in self.header:
            if name and self.flaw(name) is None:
                cells = [*self.cells(name), None]
                found[name] = as_column([cells[at] for at in order])
        return found

    def flaw(self, name: str) -> str | None:
        """Why a column cannot be used, in a sentence."""
        times = self.header.count(name)
        if times > 1:
            return f"{self.path}: the column {name!r} is there {times} times. Rename the others."
        pointed = _like_thousands(self.cells(name)) if self.of.decimal_comma else None
        if pointed is None:
            return None
        return (
            f"{self.path}: numbers in column {name!r} must be plain; the point of "
            f"{self.cells(name)[pointed]!r} ({self.places[pointed]}) may be that of thousands or of decimals. "
            "Write whole numbers without it."
        )


class Needed(NamedTuple):
    """A column that a table must have: what for, and what to do without it."""

    column: str
    use: str = "to join it by"
    remedy: str = "Name it by `--on KEY=COLUMN`."


def read_table(
    source: str | os.PathLike[str] | pd.DataFrame,
    column: str | Needed | None,
    sheet: str | None = None,
    called: str = "totals",
) -> Table:
    """Read a table whose columns include a certain one.

    Parameters
    ----------
    source
        A data frame, or a file: what it is follows from its content, not from its name.
    column
        A column that must be there, if any must.
    sheet
        Sheet of a workbook; needed if there are several.
    called
        What a data frame is called in messages.
    """
    column = Needed(column) if isinstance(column, str) else column
    if isinstance(source, pd.DataFrame):
        return _below_header(called, _frame_lines(source), column)
    path = os.fspath(source)
    require_file(path, "a table")
    if not Path(path).is_file():
        raise ValueError(f"a table must be a file; {path} is a folder. Name a file in it.")
    kind = _kind(path)
    if sheet is not None and kind != "workbook":
        raise ValueError(f"`sheet` is for Excel workbooks; {path} is none. Leave it out.")
    if kind == "parquet":
        return _below_header(path, _parquet_lines(path), column)
    if kind == "workbook":
        return _below_header(path, workbook_lines(path, sheet), column)
    return _below_header(path, text_lines(path, None if column is None else column.column), column)


def _kind(path: str) -> str:
    """`"parquet"`, `"workbook"` or `"text"`, by the first bytes of a file."""
    with open(path, "rb") as file:
        start = file.read(4096)
    if start.startswith(b"PAR1"):
        return "parquet"
    if start.startswith(OLD_EXCEL):
        raise ValueError(
            f"{path} is a workbook of an Excel before 2007, or is protected by a password. "
            "Save it as .xlsx without a password, or as CSV."
        )
    if start.startswith(b"PK"):
        names = zipfile.ZipFile(path).namelist() if zipfile.is_zipfile(path) else []
        if "xl/workbook.xml" in names:
            return "workbook"
        what = "an OpenDocument sheet" if "content.xml" in names else "an archive" if names else "half an archive"
        raise ValueError(f"{path} must be a table; it is {what}. Save the table as .xlsx or CSV.")
    for beginning, what in OTHER_KINDS.items():
        if start.startswith(beginning):
            raise ValueError(f"{path} must be a table; it is {what}. Save the table as .xlsx or CSV.")
    return "text"


def _parquet_lines(path: str) -> Lines:
    try:
        frame = pd.read_parquet(path)
    except Exception as error:  # pyarrow's many kinds
        raise ValueError(f"{path} cannot be read as Parquet: {one_line(error)}. Is the file complete?") from None
    return _frame_lines(frame)


def _frame_lines(frame: pd.DataFrame) -> Lines:
    """Rows of a data frame, with an index that has a name, which may hold the keys, as a column."""
    if any(frame.index.names):
        frame = frame.reset_index()
    plain = frame.astype(object).where(frame.notna(), None)
    rows = [Line(number, cells) for number, cells in enumerate(plain.to_numpy().tolist(), start=1)]
    return Lines([Line(0, list(frame.columns)), *rows])


def _below_header(path: str, lines: Lines, needed: Needed | None) -> Table:
    """The table that begins with the first row that holds anything."""
    filled = [line for line in lines.all if not all(map(is_empty, line.cells))]
    if not filled:
        raise ValueError(f"{path} must hold a table; it is empty. Name another file, or another sheet.")
    first, *others = filled
    header = tuple(_name(cell) for cell in first.cells)
    column = None if needed is None else needed.column
    if column is not None and column not in header:
        for line in others[:HEADER_WITHIN]:
            if column in map(_name, line.cells):
                where = f"{lines.called} {line.number}"
                raise ValueError(
                    f"{path} must have the names of its columns in its first row; {column!r} stands in {where}, below "
                    f"{_shown(first)}. Remove the rows above {where}."
                )
    for cells, (top, bottom) in lines.merged.items():
        if top <= first.number <= bottom:
            raise ValueError(
                f"{path} must have one name for each column; its header has merged cells ({cells}). "
                "Unmerge them, and leave one row with a name for each column."
            )
    if needed is not None and needed.column not in header:
        known = [name for name in header if name]
        remedy = needed.remedy
        if any(as_column([name]).dtype.kind in "if" for name in known):
            remedy = "As its first row holds numbers: add a row with the names of columns above it."
        raise ValueError(f"{path} has no column {column!r} {needed.use}{did_you_mean(needed.column, known)} {remedy}")
    if not others:
        raise ValueError(f"{path} must have rows below the names of its columns; it has none.")
    table = Table(path, header, [Line(line.number, _padded(line, header, lines, path)) for line in others], lines)
    if column is not None and header.count(column) > 1:
        raise ValueError(table.flaw(column))
    return table


def _padded(line: Line, header: Sequence[str], lines: Lines, path: str) -> list[Any]:
    """As many cells as there are columns; more are refused, since they show that separators are mistaken."""
    n = len(header)
    if not all(map(is_empty, line.cells[n:])):
        raise ValueError(
            f"{path} must have {plural(n, 'cell')} in each row, as in its first; {lines.called} {line.number} has "
            f"{len(line.cells)}. Is a number written with a separator, as in 1,234? Put it in quotes, or leave out "
            "separators."
        )
    return [*line.cells[:n], *[None] * (n - len(line.cells))]


def _shown(line: Line) -> str:
    return some([str(cell) for cell in line.cells if not is_empty(cell)][:3])


def _name(cell: Any) -> str:
    """Name of a column as it is looked for."""
    if isinstance(cell, datetime.datetime) and cell.time() == datetime.time():
        cell = cell.date()
    return "" if is_empty(cell) else " ".join(str(cell).replace("\ufeff", "").split())


def as_column(cells: Sequence[Any]) -> pd.Series:
    """Cells as numbers if all that hold anything are or say numbers; else as they are, dates as text.

    Text such as 007 is a code, and stays as it is.
    """
    is_gone = [is_missing(cell) for cell in cells]
    present = [cell for cell, gone in zip(cells, is_gone, strict=True) if not gone]
    if present and all(map(_says_number, present)):
        numbers = [_as_number(cell) for cell in present]
        is_whole = len(present) == len(cells) and all(isinstance(number, int) for number in numbers)
        if is_whole and max(map(abs, numbers)) < 2**63:
            return pd.Series(numbers, dtype=np.int64)
        values = iter(numbers)
        return pd.Series([np.nan if gone else float(next(values)) for gone in is_gone], dtype=np.float64)
    return pd.Series([None if is_empty(cell) else _plain(cell) for cell in cells], dtype=object)


def _says_number(cell: Any) -> bool:
    if isinstance(cell, bool):
        return False
    if isinstance(cell, str):
        text = cell.strip().lstrip("+-")
        return PLAIN.fullmatch(text) is not None and not (len(text) > 1 and text[0] == "0" and text[1].isdigit())
    return isinstance(cell, (int, float, Decimal))


def _as_number(cell: Any) -> int | float:
    if isinstance(cell, str):
        return int(cell) if re.fullmatch(r"[+-]?\d+", cell.strip()) else float(cell)
    return cell if isinstance(cell, int) else float(cell)


def _plain(cell: Any) -> Any:
    return str(cell) if isinstance(cell, (datetime.date, datetime.time, datetime.timedelta)) else cell


def _like_thousands(cells: Sequence[Any]) -> int | None:
    """The first text with a point, if all have three digits after it, and one to three, not zero first, before."""
    pointed = {at: cell.strip() for at, cell in enumerate(cells) if isinstance(cell, str) and "." in cell}
    alike = all(re.fullmatch(r"[+-]?[1-9]\d{0,2}\.\d{3}", text) for text in pointed.values())
    return next(iter(pointed)) if pointed and alike else None
