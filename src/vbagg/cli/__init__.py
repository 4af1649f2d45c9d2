"""The command line: one file per command, which parses, calls and prints.

Libraries for the work itself are imported by the commands that need them, so that help comes at once.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from vbagg import __version__
from vbagg.cli.check import check_command
from vbagg.cli.demo import demo_command
from vbagg.cli.experiment import experiment_command
from vbagg.cli.options import with_values
from vbagg.cli.process import settle
from vbagg.cli.stages import (
    fit_command,
    predict_command,
    prepare_command,
    report_command,
    run_command,
    validate_command,
)

app = typer.Typer(
    name="vbagg",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("check")(check_command)
app.command("run")(run_command)
app.command("prepare")(prepare_command)
app.command("fit")(fit_command)
app.command("predict")(predict_command)
app.command("validate")(validate_command)
app.command("report")(report_command)
app.command("demo")(demo_command)
app.command("experiment")(experiment_command)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; wrong input is one line on standard error and status 2."""
    if arguments is None:
        settle()
    try:
        given = with_values(sys.argv[1:] if arguments is None else arguments)
        status = app(given, prog_name="vbagg", standalone_mode=False)
    except typer.TyperException as error:
        message = " ".join(error.format_message().split())
        if message:
            print(f"Error: {message}", file=sys.stderr)
        return error.exit_code
    return status or 0


def _version(wanted: bool) -> None:
    if wanted:
        print(f"vbagg {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and leave.")
    ] = False,
) -> None:
    """Fine-scale rates, with calibrated uncertainty, from outputs that were only observed as totals."""
