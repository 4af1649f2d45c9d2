"""``vbagg check``: look at the data before modelling."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from vbagg.cli.options import base_settings, with_settings
from vbagg.cli.stages import Cluster, Config, Workers, client_of
from vbagg.cli.wrong_input import told_in_one_line
from vbagg.errors import ClusterError
from vbagg.workflow.settings import combine

FOUND_ERRORS = 2
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead.")]


@with_settings("data", "model", "validation", "maps")
def check_command(
    given: dict[str, dict[str, Any]],
    config: Config = None,
    json: Json = False,
    workers: Workers = None,
    cluster: Cluster = None,
) -> int:
    """Read everything that a run would read, and say what is wrong, odd or good to know. Nothing is kept.

    Errors would make a run fail or mean nothing; warnings must be looked at; advice is the rest.

    Exit status: 0 no errors, 2 errors.
    """
    with told_in_one_line(ValueError):
        settings = combine(base_settings(config), given, "command line")
    with told_in_one_line(ImportError):
        from vbagg.doctor.text import show
        from vbagg.workflow.stages import check_settings
    with told_in_one_line(ImportError, ValueError, ClusterError), client_of(workers, cluster) as client:
        findings = check_settings(settings, lambda text: print(text, file=sys.stderr), client)
    if json:
        print(findings.to_json())
    elif sys.stdout.isatty():
        show(findings)
    else:
        print(findings)
    return FOUND_ERRORS if findings.errors else 0
