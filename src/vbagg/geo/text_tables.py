"""Tables as text: encoding and separator are found out."""

from __future__ import annotations

import csv
import io
import re
from itertools import islice
from pathlib import Path
from statistics import median

from vbagg.geo.decimal_commas import with_points
from vbagg.geo.files import one_line
from vbagg.geo.table_lines import HEADER_WITHIN, Line, Lines

SEPARATORS = ",", ";", "\t", "|"
SEEN = 100_000
"""Characters by which the separator is found out."""
MARKUP = re.compile(r"\s*<(!doctype|html|head|body|meta|style|script|table|div|\?xml)", re.IGNORECASE)
SAYS_SEPARATOR = re.compile(r"sep=(.)\r?\n")
"""First line that Excel reads and writes."""
WIDE = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}


def text_lines(path: str, column: str | None) -> Lines:
    """Rows of a file with separated values, one of whose columns may be known by its name."""
    text, notes = _decoded(Path(path).read_bytes(), path)
    if MARKUP.match(text):
        raise ValueError(f"{path} must be a table; it is a web page, whatever its name says. Save it as .xlsx or CSV.")
    if "\0" in text:
        raise ValueError(f"{path} must be a table; it is in no format that is known. Save it as .xlsx or CSV.")
    skipped = 0
    if said := SAYS_SEPARATOR.match(text):
        separator, text, skipped = said[1], text[said.end() :], 1
    else:
        separator = _separator(text, column)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True, skipinitialspace=True)
    try:
        lines = [Line(reader.line_num + skipped, cells) for cells in reader]
    except csv.Error as error:
        raise ValueError(
            f"{path} must have quotation marks in pairs around whole cells; line {reader.line_num + skipped}: "
            f"{one_line(error)}."
        ) from None
    if lines and max(len(line.cells) for line in lines) < 2:
        raise ValueError(
            f"{path} must have columns set apart by commas, semicolons or tabs; it has a single column. "
            "Save it as CSV or .xlsx."
        )
    if separator != ",":
        lines, told = with_points(lines)
        notes += told
    return Lines(lines, "line", notes=notes, decimal_comma=separator in ";\t")


def _decoded(content: bytes, path: str) -> tuple[str, tuple[str, ...]]:
    """The text, and a sentence on how it was read if that is not certain."""
    wide = WIDE.get(content[:2])
    try:
        return content.decode(wide or "utf-8-sig"), ()
    except UnicodeDecodeError:
        if wide:
            raise ValueError(f"{path} begins as UTF-16, and is not. Save it as UTF-8.") from None
    lines = content.split(b"\n")
    foreign = [number for number, line in enumerate(lines, start=1) if not line.isascii() and not _is_utf8(line)]
    if any(not line.isascii() and _is_utf8(line) for line in lines):
        raise ValueError(
            f"{path} must be in one encoding; some lines are UTF-8, and others are not, the first of them line "
            f"{foreign[0]}. Were two files put together? Save the whole as UTF-8."
        )
    try:
        return content.decode("cp1252"), ("it is not UTF-8, and was read as Windows-1252 (Latin-1).",)
    except UnicodeDecodeError as error:
        at = content.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{path} must be text in UTF-8 or Windows-1252 (Latin-1); line {at} is neither. Save it as UTF-8."
        ) from None


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _separator(text: str, column: str | None) -> str:
    """The one that gives the known column, if any is, and else the one that gives most columns."""
    seen = text[:SEEN]

    def fitness(separator: str) -> tuple[bool, float]:
        rows = list(islice(csv.reader(io.StringIO(seen, newline=""), delimiter=separator, skipinitialspace=True),
                           HEADER_WITHIN))  # fmt: skip
        widths = [len(row) for row in rows if row]
        named = any(column == " ".join(cell.split()) for row in rows if len(row) > 1 for cell in row)
        return named, median(widths) if widths else 0.0

    try:
        return max(SEPARATORS, key=fitness)
    except csv.Error:
        return SEPARATORS[0]
