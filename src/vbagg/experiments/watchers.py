"""Who hears of a run's progress: nobody, lines of a log, or a bar in a terminal."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vbagg.experiments.base import Task
    from vbagg.experiments.workers import Outcome


class Watcher:
    """Hears of each step and is silent; a base for others."""

    def open(self, name: str, total: int, done_before: int) -> None:
        """A run starts."""
        self.name, self.total, self.done, self.done_before = name, total, done_before, done_before
        self._began = time.perf_counter()

    def begun(self, task: Task) -> None:
        """A task starts."""

    def ended(self, outcome: Outcome) -> None:
        """A task ended, well or not."""
        self.done += 1

    def close(self) -> None:
        """The run ended, well or not."""

    def time_left(self) -> str:
        """Estimate from the mean time of this run's tasks; empty at the end and before the first."""
        here, left = self.done - self.done_before, self.total - self.done
        if not here or not left:
            return ""
        return f"about {duration((time.perf_counter() - self._began) / here * left)} left"


class Lines(Watcher):
    """One line for each finished task."""

    def open(self, name: str, total: int, done_before: int) -> None:
        """Say how much there is to do."""
        super().open(name, total, done_before)
        self._say(f"{name}: {total} tasks" if not done_before else f"{name}: {done_before} of {total} done before")

    def ended(self, outcome: Outcome) -> None:
        """Say which task ended, how long it took, and how long the rest will take."""
        super().ended(outcome)
        fate = "FAILED" if outcome.error else f"{outcome.wall_seconds:.1f} s"
        left = self.time_left()
        self._say(f"[{self.done:>{len(str(self.total))}}/{self.total}] {outcome.task}: {fate}{left and ', ' + left}")

    def _say(self, text: str) -> None:
        print(text, flush=True)


class Bar(Watcher):
    """A bar on standard error."""

    def open(self, name: str, total: int, done_before: int) -> None:
        """Draw the bar."""
        from rich.console import Console
        from rich.markup import escape
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        super().open(name, total, done_before)
        self._running: list[Task] = []
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            TextColumn("{task.fields[current]}", style="dim"),
        )
        self._escape = escape
        self._bar = Progress(*columns, console=Console(stderr=True, highlight=False), transient=True)
        if done_before:
            self._bar.console.print(f"{name}: {done_before} of {total} done before")
        self._row = self._bar.add_task(name, total=total, completed=done_before, left="", current="")
        self._bar.start()

    def begun(self, task: Task) -> None:
        """Show the task."""
        self._running.append(task)
        self._show()

    def ended(self, outcome: Outcome) -> None:
        """Move on; a failure stays on the screen."""
        super().ended(outcome)
        self._running.remove(outcome.task)
        if outcome.error:
            self._bar.console.print(f"FAILED {self._escape(str(outcome.task))}")
        self._show()

    def close(self) -> None:
        """Take the bar away."""
        self._bar.stop()

    def _show(self) -> None:
        current = self._escape("; ".join(map(str, self._running)))
        self._bar.update(self._row, completed=self.done, left=self.time_left(), current=current)


def watcher(progress: bool | Watcher | None) -> Watcher:
    """A given watcher; for True a bar on a terminal and lines elsewhere; otherwise silence."""
    if isinstance(progress, Watcher):
        return progress
    if not progress:
        return Watcher()
    return Bar() if sys.stderr.isatty() else Lines()


def duration(seconds: float) -> str:
    """Rounded for reading: 42 s, 12 min, 3.5 h."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
