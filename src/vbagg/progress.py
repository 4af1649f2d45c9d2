"""Progress of long fits: a bar in a terminal, silence in scripts, a callback for others."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from vbagg import numerals

Report = Callable[[dict[str, Any]], None]


@contextmanager
def reporting(progress: bool | Report | None, label: str) -> Iterator[Report]:
    """Turn the user's `progress` into a function that takes one dict per evaluation.

    None shows a bar when standard error is a terminal; True always does; False never; a callable is called.
    """
    if callable(progress):
        yield progress
    elif progress or (progress is None and sys.stderr.isatty()):
        yield from _bar(label)
    else:
        yield lambda entry: None


def _bar(label: str) -> Iterator[Report]:
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(f"{label}: compiling")

        def report(entry: dict[str, Any]) -> None:
            told = {k: numerals.significant(v, 4) if isinstance(v, float) else v for k, v in entry.items()}
            text = ", ".join(f"{k} {v}" for k, v in told.items())
            bar.update(task, description=f"{label}: {text}")

        yield report
