"""The page as one file: template, styles, scripts and data."""

from __future__ import annotations

import base64
import hashlib
import os
import re
from importlib.resources import files
from pathlib import Path
from string import Template

from vbagg.files import written_whole
from vbagg.report.blocks import copy_button, section_html
from vbagg.report.checks import check
from vbagg.report.content import MadeWith, Report
from vbagg.report.markup import Markup, join, tag
from vbagg.report.viewer import viewer_data

STYLES = ("base.css", "sections.css", "viewer.css", "map.css", "print.css")
SCRIPTS = (
    "dom.js",
    "codec.js",
    "numbers.js",
    "layers.js",
    "geography.js",
    "graticule.js",
    "districts.js",
    "legend.js",
    "probe.js",
    "pane.js",
    "readout.js",
    "compare.js",
    "controls.js",
    "viewer.js",
    "page.js",
)


def write_report(path: str | os.PathLike, report: Report) -> Path:
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
    check(report)
    script = _script()
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    return Template(_asset("page.html")).substitute(
        script_hash=f"sha256-{digest}",
        title=tag("title", report.title),
        style=_style(),
        header=_header(report),
        navigation=_navigation(report),
        map=_map(report),
        sections=join(section_html(section) for section in report.sections if section.blocks),
        citation=_citation(report.citation),
        footer=_footer(report.made_with),
        data=join(viewer_data(report)) if report.layers else "",
        script=script,
        licence=_vendor("LICENSE-leaflet.txt"),
    )


def _checked_target(path: str | os.PathLike) -> Path:
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


def _header(report: Report) -> Markup:
    subtitle = [tag("p", report.subtitle, class_="subtitle")] if report.subtitle else []
    facts = (tag("div", tag("dt", label), tag("dd", value)) for label, value in report.summary)
    summary = [tag("dl", *facts, class_="summary")] if report.summary else []
    return tag("header", tag("h1", report.title), *subtitle, *summary, class_="top")


def _navigation(report: Report) -> Markup:
    targets = [("map", "Map")] if report.layers else []
    targets += [(section.anchor, section.title) for section in report.sections if section.blocks]
    targets += [("cite", "How to cite")] if report.citation else []
    return join(tag("a", text, href=f"#{anchor}") for anchor, text in targets)


def _map(report: Report) -> Markup:
    return Markup(_asset("map.html")) if report.layers else Markup("")


def _citation(text: str) -> Markup:
    if not text:
        return Markup("")
    block = tag("div", copy_button(), tag("pre", text, tabindex=0), class_="copied citation")
    heading = tag("h2", "How to cite", id="vbagg-heading-cite")
    return tag("section", heading, block, id="cite", aria_labelledby="vbagg-heading-cite")


def _footer(made_with: MadeWith | None) -> Markup:
    maps = "Maps: Leaflet 1.9.4. Colours: Fabio Crameri's scientific colour maps."
    if made_with is None:
        return tag("footer", tag("p", maps))
    made = tag("p", f"Made with vbagg {made_with.version} on {made_with.date}.")
    command = [tag("p", tag("code", made_with.command))] if made_with.command else []
    return tag("footer", made, *command, tag("p", maps))
