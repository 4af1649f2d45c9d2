"""The page as one file: template, styles, scripts and data."""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, Template
from markupsafe import Markup

from vbagg.files import written_whole
from vbagg.language import written_in
from vbagg.report import above
from vbagg.report.blocks import shown_blocks
from vbagg.report.checks import check
from vbagg.report.content import Report, Section
from vbagg.report.glossary import ANCHOR, Glossary
from vbagg.report.scripts import DataBlock, script_json
from vbagg.report.table_data import ShownAreas, area_blocks, shown_tables
from vbagg.report.texts import Texts, scripted, texts_in
from vbagg.report.viewer import viewer_data

STYLES = (
    "base.css",
    "sections.css",
    "verdict.css",
    "above.css",
    "areas.css",
    "words.css",
    "viewer.css",
    "map.css",
    "print.css",
)
SCRIPTS = (
    "dom.js",
    "texts.js",
    "words.js",
    "codec.js",
    "numbers.js",
    "layers.js",
    "geography.js",
    "graticule.js",
    "districts.js",
    "orientation.js",
    "legend.js",
    "probe.js",
    "pane.js",
    "readout.js",
    "compare.js",
    "controls.js",
    "viewer.js",
    "above.js",
    "area_rows.js",
    "areas.js",
    "download.js",
    "page.js",
)


def write_report(path: str | os.PathLike[str], report: Report) -> Path:
    """Write the report to one HTML file, replacing a file of that name; an interrupted write changes nothing.

    The page needs no other file and asks for none.

    Returns
    -------
    Path
        The file written.

    Raises
    ------
    ValueError
        If something in the report cannot be shown; nothing is written then.
    """
    target = _checked_target(path)
    content = page_html(report).encode("utf-8")
    with written_whole(target) as file:
        file.write(content)
    return target


def page_html(report: Report) -> str:
    """Text of the page."""
    with written_in(report.language):
        return _page_html(report)


def _page_html(report: Report) -> str:
    check(report)
    script = _script()
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    say, tables, glossary = (
        texts_in(report.language),
        shown_tables(report.tables),
        Glossary.of(report.language, report.names),
    )
    opening, in_viewer = glossary.section(), glossary.section()
    reasons = report.judgement.reasons if report.judgement else ()
    shown = {
        "paragraph": opening(report.paragraph),
        **_shown_above(report, say, glossary),
        "reasons": [opening(reason) for reason in reasons],
        "sections": _shown(report.sections, glossary),
        "appendix": _shown(report.appendix, glossary),
    }
    for layer in report.layers:
        in_viewer(layer.description)  # which scripts show
    return _template().render(
        report=report,
        say=say,
        **shown,
        glossary=glossary.shown,
        targets=_targets(report, say, glossary),
        tables=tables,
        data=list(_data(report, say, tables, glossary)),
        script_hash=f"sha256-{digest}",
        style=Markup(_style()),
        script=Markup(script),
        licence=Markup(_vendor("LICENSE-leaflet.txt")),
    )


def _data(report: Report, say: Texts, tables: Sequence[ShownAreas], glossary: Glossary) -> Iterator[DataBlock]:
    """All that scripts read."""
    yield DataBlock("vbagg-words", script_json(glossary.scripted), "application/json")
    yield DataBlock("vbagg-texts", script_json(scripted(say)), "application/json")
    yield from [above.above_block(report.above)] if report.above else ()
    yield from viewer_data(report) if report.layers else ()
    yield from area_blocks(tables)


def _template() -> Template:
    """The page's template: whatever is put into it is escaped, but for what is `Markup`."""
    environment = Environment(loader=PackageLoader("vbagg.report", "assets"), autoescape=True, trim_blocks=True)
    return environment.get_template("page.html")


def _shown(sections: Sequence[Section], glossary: Glossary) -> list[dict[str, Any]]:
    """Those that have something to show."""
    return [
        {"anchor": section.anchor, "title": section.title, "blocks": list(shown_blocks(section.blocks, glossary))}
        for section in sections
        if section.blocks
    ]


def _shown_above(report: Report, say: Texts, glossary: Glossary) -> dict[str, Any]:
    """People above a threshold, and what to know of them."""
    if report.above is None:
        return {}
    explain = glossary.section()
    return {
        "above": above.shown_above(report.above, say),
        "above_notes": [explain(note) for note in report.above.notes],
    }


def _targets(report: Report, say: Texts, glossary: Glossary) -> list[tuple[str, str]]:
    """Anchors and names of the parts of the page."""
    tables = [(table.anchor, table.title) for table in report.tables]
    people = [(above.ANCHOR, say(f"above.title_{report.above.counted}"))] if report.above else []
    targets = [*people, *tables[:1], *([("map", say("page.map"))] if report.layers else []), *tables[1:]]
    targets += [(section.anchor, section.title) for section in report.sections if section.blocks]
    targets += [("cite", say("page.cite"))] if report.citation else []
    targets += [("appendix", say("page.appendix"))] if report.appendix else []
    return targets + ([(ANCHOR, say("page.words"))] if glossary.used else [])


def _checked_target(path: str | os.PathLike[str]) -> Path:
    target = Path(path)
    if target.is_dir():
        raise ValueError(f"`path` must name a file; got the folder {str(target)!r}. Add a file name.")
    if not target.parent.is_dir():
        raise ValueError(f"`path` must lie in an existing folder; got {str(target)!r}. Create the folder first.")
    return target


def _asset(name: str) -> str:
    return files("vbagg.report").joinpath("assets", name).read_text(encoding="utf-8")


def _vendor(name: str) -> str:
    return files("vbagg.report").joinpath("vendor", name).read_text(encoding="utf-8")


def _style() -> str:
    """Leaflet's rules, whose pictures no control here uses, and ours."""
    leaflet = re.sub(r"url\([^)]*\)", "none", _vendor("leaflet.css"))
    return "\n".join([leaflet, *(_asset(f"css/{name}") for name in STYLES)])


def _script() -> str:
    leaflet = re.sub(r"//# sourceMappingURL=.*", "", _vendor("leaflet.js"))
    own = "\n".join(_asset(f"js/{name}") for name in SCRIPTS)
    return f'{leaflet}\n(() => {{\n"use strict";\n{own}\n}})();\n'
