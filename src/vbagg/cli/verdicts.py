"""The verdict on a map at the end of a command: words, which a terminal shows in the colour of the outcome as well."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vbagg.report import Judgement
    from vbagg.workflow.run import Run

COLOURS = {"yes": "green", "with care": "yellow", "no": "red", "unchecked": "magenta"}


def show_verdicts(run: Run) -> None:
    """Print one for each response of a run."""
    from vbagg.texts import texts_in
    from vbagg.workflow.report_page.judgement import judged

    for response in run.settings.data.response:
        _show(response, judged(run, response, texts_in()))


def _show(response: str, judgement: Judgement) -> None:
    question = f"{response}: {judgement.question}"
    if not sys.stdout.isatty():
        print(f"{question} {judgement.answer}.", *(f"  - {reason}" for reason in judgement.reasons), sep="\n")
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console, rows = Console(highlight=False), Table.grid(padding=(0, 1))
    console.print(Text.assemble(f"{question} ", (f"{judgement.answer}.", f"bold {COLOURS[judgement.word]}")))
    for reason in judgement.reasons:
        rows.add_row(Text("  -"), Text(reason))
    console.print(rows)
