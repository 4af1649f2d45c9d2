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
    from vbagg.report.texts import texts_in
    from vbagg.workflow.report_page.judgement import judged

    for response in run.settings.data.response:
        _show(response, judged(run, response, texts_in()))


def _show(response: str, judgement: Judgement) -> None:
    question, reasons = f"{response}: {judgement.question}", [f"  - {reason}" for reason in judgement.reasons]
    if not sys.stdout.isatty():
        print(f"{question} {judgement.answer}.", *reasons, sep="\n")
        return
    from rich.console import Console
    from rich.padding import Padding
    from rich.text import Text

    console = Console(highlight=False)
    console.print(Text.assemble(f"{question} ", (f"{judgement.answer}.", f"bold {COLOURS[judgement.word]}")))
    for reason in judgement.reasons:
        console.print(Padding(Text(f"- {reason}"), (0, 0, 0, 2)))
