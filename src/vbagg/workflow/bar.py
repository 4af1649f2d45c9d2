"""Progress of a run as a bar in a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

from vbagg.workflow.time_left import TimeLeft


@contextmanager
def shown_as_bar() -> Iterator[Bar]:
    """A bar for each stage on standard error."""
    columns = (
        TextColumn("{task.fields[stage]:<10}"),
        BarColumn(20),
        TimeElapsedColumn(),
        _Left(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        yield Bar(progress)


class _Left(ProgressColumn):
    """The time left of a stage that is not finished, if it is known."""

    def render(self, task: Task) -> Text:
        seconds = None if task.finished else task.fields["left"].seconds()
        return Text("" if seconds is None else f"{timedelta(seconds=round(seconds))} left")


class Bar:
    """Where progress is shown: see `vbagg.workflow.progress.Shown`."""

    def __init__(self, progress: Progress) -> None:
        self.progress, self.left = progress, TimeLeft()
        self.task: Any = None

    def begin(self, stage: str) -> None:
        """A stage begins."""
        self.left = TimeLeft()
        self.task = self.progress.add_task("", total=None, stage=stage, left=self.left)

    def tell(self, text: str, share: float | None = None) -> None:
        """What it is doing, and the share of it that is done."""
        if self.task is None:
            return
        self.progress.update(self.task, description=text)
        if share is not None:
            self.left.tell(share)
            self.progress.update(self.task, total=1.0, completed=share)

    def step(self, text: str) -> None:
        """A part of it is finished that takes long by itself."""
        self.tell(text)

    def end(self, needed: bool = True) -> None:
        """It ended, or was not needed."""
        self.progress.update(self.task, total=1.0, completed=1.0, description="" if needed else "nothing changed")
