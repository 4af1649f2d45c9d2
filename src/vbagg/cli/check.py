"""``vbagg check``: look at the data before modelling."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from vbagg.cli.options import base_settings, with_settings
from vbagg.cli.stages import Config
from vbagg.cli.wrong_input import told_in_one_line
from vbagg.workflow.settings import combine

FOUND_ERRORS = 2
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead.")]


@with_settings("data", "model", "validation", "maps")
def check_command(given: dict[str, dict[str, Any]], config: Config = None, json: Json = False) -> int:
    """Read everything that a run would read, and say what is wrong, odd or good to know. Nothing is kept.

    Errors would make a run fail or mean nothing; warnings must be looked at; advice is the rest.

    Exit status: 0 no errors, 2 errors.
    """
    with told_in_one_line(ValueError):
        settings = combine(base_settings(config), given, "command line")
    with told_in_one_line(ImportError):
        from vbagg.doctor.text import show
        from vbagg.workflow.stages import check_settings
    findings = check_settings(settings, announce=lambda text: print(text, file=sys.stderr))
    if json:
        print(findings.to_json())
    elif sys.stdout.isatty():
        show(findings)
    else:
        print(findings)
    return FOUND_ERRORS if findings.errors else 0
