"""Progress of a run: a bar with stage names and time left in a terminal, a line per stage elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol


class Shown(Protocol):
    """Where progress is shown."""

    def begin(self, stage: str) -> None:
        """A stage begins."""
        ...

    def tell(self, text: str, share: float | None = None) -> None:
        """What it is doing, and the share of it that is done."""
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
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.fields[stage]:<10}"),
        BarColumn(20),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        yield _Bar(bar)


class _Nothing:
    def begin(self, stage: str) -> None:
        pass

    def tell(self, text: str, share: float | None = None) -> None:
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

    def end(self, needed: bool = True) -> None:
        what = f"{time.perf_counter() - self.began:.1f} s" if needed else "nothing changed"
        print(f"{self.stage}: {what}", file=sys.stderr)


class _Bar:
    def __init__(self, bar: Any) -> None:
        self.bar, self.task = bar, None

    def begin(self, stage: str) -> None:
        self.task = self.bar.add_task("", total=None, stage=stage)

    def tell(self, text: str, share: float | None = None) -> None:
        if self.task is not None:
            done = {} if share is None else {"total": 1.0, "completed": share}
            self.bar.update(self.task, description=text, **done)

    def end(self, needed: bool = True) -> None:
        self.bar.update(self.task, total=1.0, completed=1.0, description="" if needed else "nothing changed")
