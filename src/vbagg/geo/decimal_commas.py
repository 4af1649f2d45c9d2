"""Numbers that are written with a comma before their decimals, as spreadsheets write them in much of Europe."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from vbagg.geo.table_lines import Line, is_empty, is_missing

GROUPS = r"\d{1,3}(?:[ .'\u2019\u00a0\u2009\u202f]\d{3})+"
NUMBER = re.compile(rf"[+-]?(?:\d+|{GROUPS})(?:,(?P<decimals>\d+))?")
THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(?:,\d{3})+")
"""What commas may set apart as well."""
MARKS = re.compile(r"[ .'\u2019\u00a0\u2009\u202f]")


def with_points(lines: Sequence[Line]) -> tuple[list[Line], tuple[str, ...]]:
    """Rows of a text with points before decimals, and a sentence if that is a change.

    Commas stand before decimals if those of some column cannot set thousands apart. The first row with any content has
    the names of columns.
    """
    filled = [at for at, line in enumerate(lines) if not all(map(is_empty, line.cells))][1:]
    rows = [lines[at].cells for at in filled]
    with_commas = [at for at in range(max(map(len, rows), default=0)) if _has_commas(_column(rows, at))]
    said = [text for at in with_commas for text in _column(rows, at) if "," in text and not THOUSANDS.fullmatch(text)]
    if not said:
        return list(lines), ()
    found = list(lines)
    for at in filled:
        number, cells = lines[at]
        found[at] = Line(number, [_pointed(cell) if i in with_commas else cell for i, cell in enumerate(cells)])
    example = f"{said[0]!r}, read as {_pointed(said[0])}"
    return found, (f"its numbers have commas before their decimals, for example {example}.",)


def _column(rows: Sequence[Sequence[str]], at: int) -> Iterator[str]:
    return (row[at].strip() for row in rows if at < len(row) and not is_missing(row[at]))


def _has_commas(cells: Iterator[str]) -> bool:
    """Whether all are numbers, and some have a comma before what may be decimals."""
    read = [NUMBER.fullmatch(cell) for cell in cells]
    return all(read) and any(one is not None and one["decimals"] for one in read)


def _pointed(cell: str) -> str:
    return cell if is_missing(cell) else MARKS.sub("", cell.strip()).replace(",", ".")
