"""The page as one file: template, styles, scripts and data."""

from __future__ import annotations

import base64
import hashlib
import os
import re
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, PackageLoader, Template
from markupsafe import Markup

from vbagg.files import written_whole
from vbagg.report.blocks import shown_blocks
from vbagg.report.checks import check
from vbagg.report.content import Report
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
    "orientation.js",
    "legend.js",
    "probe.js",
    "pane.js",
    "readout.js",
    "compare.js",
    "controls.js",
    "viewer.js",
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
    check(report)
    script = _script()
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    sections = [
        {"anchor": section.anchor, "title": section.title, "blocks": list(shown_blocks(section.blocks))}
        for section in report.sections
        if section.blocks
    ]
    return _template().render(
        report=report,
        sections=sections,
        targets=_targets(report),
        data=list(viewer_data(report)) if report.layers else [],
        script_hash=f"sha256-{digest}",
        style=Markup(_style()),
        script=Markup(script),
        licence=Markup(_vendor("LICENSE-leaflet.txt")),
    )


def _template() -> Template:
    """The page's template: whatever is put into it is escaped, but for what is `Markup`."""
    environment = Environment(loader=PackageLoader("vbagg.report", "assets"), autoescape=True, trim_blocks=True)
    return environment.get_template("page.html")


def _targets(report: Report) -> list[tuple[str, str]]:
    """Anchors and names of the parts of the page."""
    targets = [("map", "Map")] if report.layers else []
    targets += [(section.anchor, section.title) for section in report.sections if section.blocks]
    return targets + ([("cite", "How to cite")] if report.citation else [])


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
