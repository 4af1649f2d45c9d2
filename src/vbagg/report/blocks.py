"""Blocks of a section as the template shows them: cells as text, pictures with their sizes."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import quote

from markupsafe import Markup, escape

from vbagg import numerals
from vbagg.language import written_in
from vbagg.report.content import Block, Code, Explained, Figure, Finding, Foreign, Links, Table, TableText
from vbagg.report.glossary import Explain, Glossary

PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True)
class ShownTable:
    """Cells as text."""

    headers: Sequence[str]
    rows: list[list[str]]
    caption: Markup
    label: str
    numeric: list[bool]
    """Whether a column holds numbers alone."""


@dataclass(frozen=True)
class Picture:
    """A PNG file, base64."""

    content: str
    width: int
    height: int
    alt: str
    caption: Markup


@dataclass(frozen=True)
class ShownFinding:
    """A finding with its words explained."""

    level: str
    text: Markup
    language: str = ""
    """Of the word for its level, where that is another than that of the text."""


@dataclass(frozen=True)
class ShownForeign:
    """Blocks in another language than that of the page."""

    language: str
    blocks: Sequence[tuple[str, Any]]


def shown_blocks(blocks: Sequence[Block], glossary: Glossary) -> Iterator[tuple[str, Any]]:
    """Name of the macro that shows a block, and what it shows; pictures and findings in a row share one.

    Words of the glossary are explained where they first stand.
    """
    explain = glossary.section()
    plain = [part for block in blocks for part in _in_language(block, glossary.language)]
    yield from _shown(plain, glossary, explain)


def _in_language(block: Block, language: str) -> Sequence[Block]:
    """Blocks that are said to be foreign, as they are if that is the language of the page."""
    return block.blocks if isinstance(block, Foreign) and block.language == language else [block]


def _shown(
    blocks: Sequence[Block], glossary: Glossary, explain: Explain, language: str = ""
) -> Iterator[tuple[str, Any]]:
    for (kind, small), run in groupby(blocks, key=lambda block: (type(block), getattr(block, "small", False))):
        if kind is Figure:
            shown = [_picture(block, explain) for block in run if isinstance(block, Figure)]
            yield "small_figures" if small else "figures", shown
        elif kind is Finding:
            found = (block for block in run if isinstance(block, Finding))
            yield "findings", [ShownFinding(finding.level, explain(finding.text), language) for finding in found]
        else:
            yield from (_single(block, glossary, explain) for block in run)


def _single(block: Block, glossary: Glossary, explain: Explain) -> tuple[str, Any]:
    if isinstance(block, Table):
        return "table", _table(block, glossary, explain)
    if isinstance(block, Code):
        return "code", block
    if isinstance(block, Foreign):
        with written_in(block.language):
            return "foreign", ShownForeign(
                block.language, list(_shown(block.blocks, glossary, escape, glossary.language))
            )
    if isinstance(block, Links):
        return "links", [(quote(link.path), link.title) for link in block.links]
    if isinstance(block, str):
        return "text", explain(block)
    raise TypeError(
        f"A block must be text, Table, Figure, Code, Finding, Links or Foreign; got {type(block).__name__}."
    )


def _table(table: Table, glossary: Glossary, explain: Explain) -> ShownTable:
    numeric = [_is_numeric([row[i] for row in table.rows]) for i in range(len(table.headers))]
    caption = explain(table.caption)
    headers = [
        _cell(header, glossary) if isinstance(header, Explained) else explain(header) for header in table.headers
    ]
    rows = [[_cell(cell, glossary) for cell in row] for row in table.rows]
    return ShownTable(headers, rows, caption, table.caption, numeric)


def _is_numeric(column: Sequence[TableText | float | None]) -> bool:
    present = [cell for cell in column if cell not in (None, "", numerals.NOTHING)]
    return bool(present) and all(
        numerals.is_one(cell) if isinstance(cell, str) else not isinstance(cell, Explained) for cell in present
    )


def _cell(cell: TableText | float | None, glossary: Glossary) -> str:
    if isinstance(cell, Explained):
        return glossary.link(cell.word, cell.text)
    if cell is None:
        return numerals.NOTHING
    return cell if isinstance(cell, str) else numerals.rate(cell) if isinstance(cell, float) else numerals.count(cell)


def _picture(figure: Figure, explain: Explain) -> Picture:
    content = figure.png if isinstance(figure.png, bytes) else _read(Path(figure.png))
    if not content.startswith(PNG_SIGNATURE) or len(content) < 24:
        place = "" if isinstance(figure.png, bytes) else f" ({figure.png})"
        raise ValueError(f"Figures must be PNG pictures; got something else for {figure.caption!r}{place}.")
    width, height = (int.from_bytes(content[at : at + 4], "big") for at in (16, 20))
    return Picture(base64.b64encode(content).decode("ascii"), width, height, figure.alt, explain(figure.caption))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ValueError(f"Figures must be readable files; got {str(path)!r}: {error.strerror}.") from error
