"""Sheets of Excel workbooks, as they are shown."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

from vbagg.errors import did_you_mean
from vbagg.geo.files import one_line, some
from vbagg.geo.table_lines import Line, Lines

PADDED = re.compile(r"0{2,}")
"""Format of numbers that are shown with zeros in front, as codes are."""


def workbook_lines(path: str, sheet: str | None) -> Lines:
    """Rows of a sheet: the named one, or the only one with any content."""
    book = _opened(path, values=False)
    chosen = _sheet(book, sheet, path)
    formulas = [cell for row in chosen.iter_rows() for cell in row if cell.data_type == "f"]
    if formulas:
        chosen = _opened(path, values=True)[chosen.title]
        for cell in formulas:
            if chosen[cell.coordinate].value is None:
                raise ValueError(
                    f"{path} must hold the results of its formulas; cell {cell.coordinate} of sheet {chosen.title!r} "
                    "has none. Open the file in a spreadsheet program, and save it."
                )
    rows = [Line(number, [_shown(cell) for cell in row]) for number, row in enumerate(chosen.iter_rows(), start=1)]
    merged = {str(cells): (cells.min_row, cells.max_row) for cells in chosen.merged_cells.ranges}
    return Lines(rows, merged=merged)


def _opened(path: str, values: bool) -> Any:
    """The workbook with formulas, or with the values that they had when it was saved."""
    try:
        import openpyxl
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "Excel workbooks need the package 'openpyxl'. Install it with `pip install 'vbagg[geo]'`.", name=error.name
        ) from None
    try:
        with warnings.catch_warnings(), Path(path).open("rb") as file:
            warnings.simplefilter("ignore")  # of styles and extensions, which hold no values
            return openpyxl.load_workbook(file, data_only=values)
    except Exception as error:  # openpyxl's many kinds
        raise ValueError(
            f"{path} cannot be read as an Excel workbook: {one_line(error)}. Save it again, or as CSV."
        ) from None


def _sheet(book: Any, name: str | None, path: str) -> Any:
    sheets = {sheet.title: sheet for sheet in book.worksheets}
    if name is not None:
        if name not in sheets:
            raise ValueError(f"{path} has no sheet {name!r}{did_you_mean(name, sheets)}")
        return sheets[name]
    filled = {
        title: sheet
        for title, sheet in sheets.items()
        if sheet.sheet_state == "visible" and any(cell is not None for row in sheet.values for cell in row)
    }
    if len(filled) > 1:
        raise ValueError(f"{path} has several sheets: {some(list(filled))}. Name one by `--sheet`.")
    return next(iter(filled.values()), book.worksheets[0])


def _shown(cell: Any) -> Any:
    """The value of a cell; a number that is shown with zeros in front as text."""
    value = cell.value
    if isinstance(value, int) and not isinstance(value, bool) and PADDED.fullmatch(cell.number_format):
        return str(value).zfill(len(cell.number_format))
    return value
