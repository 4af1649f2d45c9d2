"""Sections as HTML."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path

from vbagg.report.content import Block, Code, Figure, Finding, Section, Table
from vbagg.report.markup import Markup, join, tag

PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
LEVEL_NAMES = {"error": "Error", "warning": "Warning", "advice": "Advice"}
NUMBER = re.compile(r"[-+<>~\u2212\u2264\u2265]?\s*\d[\d,.\s]*(e[-+]?\d+)?\s*%?")
NOTHING = "\u2013"


def section_html(section: Section) -> Markup:
    """A heading and its blocks."""
    heading = tag("h2", section.title, id=f"vbagg-heading-{section.anchor}")
    return tag(
        "section",
        heading,
        *_blocks_html(section.blocks),
        id=section.anchor,
        aria_labelledby=f"vbagg-heading-{section.anchor}",
    )


def _blocks_html(blocks: Sequence[Block]) -> Iterable[Markup]:
    for kind, run in groupby(blocks, key=type):
        if kind is Figure:
            yield tag("div", *(_figure(block) for block in run if isinstance(block, Figure)), class_="figures")
        elif kind is Finding:
            yield _findings([block for block in run if isinstance(block, Finding)])
        else:
            yield join(_single(block) for block in run)


def _single(block: Block) -> Markup:
    if isinstance(block, Table):
        return _table(block)
    if isinstance(block, Code):
        return _code(block)
    if isinstance(block, str):
        return tag("p", block)
    raise TypeError(f"A block must be text, Table, Figure, Code or Finding; got {type(block).__name__}.")


def _table(table: Table) -> Markup:
    right = [_is_numeric([row[i] for row in table.rows]) for i in range(len(table.headers))]
    classes = ["number" if numeric else None for numeric in right]
    head = tag(
        "tr", *(tag("th", text, scope="col", class_=kind) for text, kind in zip(table.headers, classes, strict=True))
    )
    rows = [
        tag("tr", *(tag("td", _cell(cell), class_=kind) for cell, kind in zip(row, classes, strict=True)))
        for row in table.rows
    ]
    caption = [tag("caption", table.caption)] if table.caption else []
    content = tag("table", *caption, tag("thead", head), tag("tbody", *rows))
    return tag("div", content, class_="table", tabindex=0, role="region", aria_label=table.caption or "Table")


def _is_numeric(column: Sequence[str | float | None]) -> bool:
    present = [cell for cell in column if cell not in (None, "", NOTHING)]
    return bool(present) and all(not isinstance(cell, str) or NUMBER.fullmatch(cell) for cell in present)


def _cell(cell: str | float | None) -> str:
    if cell is None:
        return NOTHING
    return cell if isinstance(cell, str) else f"{cell:,.4g}" if isinstance(cell, float) else f"{cell:,}"


def _figure(figure: Figure) -> Markup:
    content = figure.png if isinstance(figure.png, bytes) else _read(Path(figure.png))
    if not content.startswith(PNG_SIGNATURE) or len(content) < 24:
        place = "" if isinstance(figure.png, bytes) else f" ({figure.png})"
        raise ValueError(f"Figures must be PNG pictures; got something else for {figure.caption!r}{place}.")
    picture = tag(
        "img",
        src=f"data:image/png;base64,{base64.b64encode(content).decode('ascii')}",
        width=int.from_bytes(content[16:20], "big"),
        height=int.from_bytes(content[20:24], "big"),
        alt=figure.alt,
    )
    button = tag(
        "button", picture, type="button", class_="enlarge", title="Enlarge", aria_label=f"Enlarge: {figure.alt}"
    )
    return tag("figure", button, tag("figcaption", figure.caption))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ValueError(f"Figures must be readable files; got {str(path)!r}: {error.strerror}.") from error


def _code(code: Code) -> Markup:
    content = tag("div", copy_button(), tag("pre", tag("code", code.text), tabindex=0), class_="copied")
    return tag("details", tag("summary", code.title), content)


def _findings(findings: Sequence[Finding]) -> Markup:
    items = (
        tag(
            "li",
            tag("strong", LEVEL_NAMES[finding.level], class_="level"),
            tag("span", finding.text),
            class_=finding.level,
        )
        for finding in findings
    )
    return tag("ul", *items, class_="findings")


def copy_button() -> Markup:
    """Copies the text of the element beside it."""
    return tag("button", "Copy", type="button", class_="copy")
