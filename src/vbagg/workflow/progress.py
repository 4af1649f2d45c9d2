"""Progress of a run: a bar with stage names and time left in a terminal, lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Shown(Protocol):
    """Where progress is shown."""

    def begin(self, stage: str) -> None:
        """A stage begins."""
        ...

    def tell(self, text: str, share: float | None = None) -> None:
        """What it is doing, and the share of it that is done."""
        ...

    def step(self, text: str) -> None:
        """A part of it is finished that takes long by itself."""
        ...

    def end(self, needed: bool = True) -> None:
        """It ended, or was not needed."""
        ...


@contextmanager
def showing(wanted: bool = True) -> Iterator[Shown]:
    """Show the progress of stages on standard error."""
    if not wanted:
        yield _Nothing()
        return
    if not sys.stderr.isatty():
        yield _Lines()
        return
    from vbagg.workflow.bar import shown_as_bar

    with shown_as_bar() as bar:
        yield bar


class _Nothing:
    def begin(self, stage: str) -> None:
        pass

    def tell(self, text: str, share: float | None = None) -> None:
        pass

    def step(self, text: str) -> None:
        pass

    def end(self, needed: bool = True) -> None:
        pass


class _Lines:
    def __init__(self) -> None:
        self.stage, self.began = "", time.perf_counter()

    def begin(self, stage: str) -> None:
        self.stage, self.began = stage, time.perf_counter()

    def tell(self, text: str, share: float | None = None) -> None:
        pass

    def step(self, text: str) -> None:
        print(f"{self.stage}: {text}", file=sys.stderr, flush=True)

    def end(self, needed: bool = True) -> None:
        what = f"{time.perf_counter() - self.began:.1f} s" if needed else "nothing changed"
        print(f"{self.stage}: {what}", file=sys.stderr, flush=True)
