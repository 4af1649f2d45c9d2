"""Files of the run that the page links to."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vbagg.report import Link, Links, Section
from vbagg.workflow.folder import SETTINGS
from vbagg.workflow.results import ABOVE

if TYPE_CHECKING:
    from vbagg.report import MapLayer
    from vbagg.workflow.report_page.subject import Subject

SHOWN = (".tif", ".csv", ".gpkg")


def files_section(subject: Subject, layers: Sequence[MapLayer]) -> Section:
    """Maps and tables, by their paths from the page."""
    say = subject.say
    return Section(say("page.files"), "files", [say("page.files_note"), Links(list(_links(subject, layers)))])


def _links(subject: Subject, layers: Sequence[MapLayer]) -> Iterator[Link]:
    run, folder = subject.run, subject.run.folder
    labels = {layer.name: layer.label for layer in layers} | {Path(ABOVE).stem: subject.say("above.file")}
    record, own = folder.record("maps"), run.file_name(subject.response)
    paths = [folder["maps"] / name for name in (record.files if record is not None else ())]
    for path in sorted(paths, key=lambda path: (SHOWN.index(path.suffix) if path.suffix in SHOWN else 0, path.name)):
        if path.suffix in SHOWN and path.parent == folder["maps"] / own:
            ending = path.suffix[1:]
            kind = subject.say(f"page.{ending}")
            yield Link(_from_page(subject, path), f"{labels.get(path.stem, path.stem)} ({kind})")
    yield Link(_from_page(subject, folder.path / SETTINGS), subject.say("page.settings"))


def _from_page(subject: Subject, path: os.PathLike[str]) -> str:
    return os.path.relpath(path, subject.run.folder["report"]).replace(os.sep, "/")
