"""The layout of polygons and rasters that the check has judged, for the stage that prepares from it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

    from vbagg.geo.layout import Layout


class SharedLayout:
    """A folder within that of a run, which is there as long as some stage may need it."""

    def __init__(self, parent: Path) -> None:
        self._parent = parent
        self._folder: Path | None = None
        self.layout: Layout | None = None

    def folder(self) -> Path:
        """An empty folder for a layout, named like those of stages: the next run removes it if this one is killed."""
        self.drop()
        self._folder = self._parent / f".layout-{os.getpid()}"
        self._folder.mkdir(parents=True)
        return self._folder

    def drop(self) -> None:
        """Remove the layout."""
        self.layout = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def __enter__(self) -> SharedLayout:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.drop()
