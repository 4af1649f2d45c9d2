"""``vbagg experiment``: the paper's experiments."""

from __future__ import annotations

import math
import sys
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vbagg.cli.wrong_input import WrongInput, told_in_one_line
from vbagg.experiments import EXPERIMENTS, get_experiment
from vbagg.room import room_for

if TYPE_CHECKING:
    from vbagg.experiments.runner import Run

INTERRUPTED = 130


def experiment_command(
    name: Annotated[str | None, typer.Argument(help="Which experiment; --list shows all.", show_default=False)] = None,
    list_all: Annotated[bool, typer.Option("--list", help="List the experiments and leave.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the results; a run that was stopped continues there.", show_default="results/NAME"
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick/--full", help="A small version, or the paper's sizes.")] = False,
    jobs: Annotated[int, typer.Option(min=1, help="Number of processes.")] = 1,
    repetitions: Annotated[
        int | None, typer.Option(min=1, help="Number of repetitions.", show_default="as in the paper")
    ] = None,
    methods: Annotated[
        str | None, typer.Option(help="Methods to run, separated by commas.", show_default="all")
    ] = None,
    scale: Annotated[float | None, typer.Option(help="Share of the paper's million pixels (malaria).")] = None,
    bag_mean: Annotated[float | None, typer.Option(help="Mean size of bags (elevators).")] = None,
    bag_std: Annotated[float | None, typer.Option(help="Standard deviation of the size of bags (elevators).")] = None,
    overview: Annotated[
        Path | None,
        typer.Option(help="Write one page over all experiments in this folder, and leave.", show_default=False),
    ] = None,
    report_only: Annotated[
        bool, typer.Option("--report-only", help="Write the report again from finished rows; run nothing.")
    ] = False,
) -> int:
    """Run an experiment of the paper and write its tables and figures.

    Each finished row is on disk at once, and the same command continues after a stop.

    Other --repetitions or --methods add rows to the folder.

    Exit status: 0 all done, 1 some tasks failed, 2 wrong input, 130 interrupted.
    """
    if list_all:
        return _list()
    if overview is not None:
        from vbagg.experiments.overview import write_overview

        with told_in_one_line(OSError, ValueError):
            _show([write_overview(overview)])
        return 0
    if name is None:
        raise WrongInput(f"Name an experiment: {', '.join(EXPERIMENTS)}.")
    options = _positive({"scale": scale, "bag_mean": bag_mean, "bag_std": bag_std})
    folder = out or Path("results") / (f"{name}-quick" if quick else name)
    with ExitStack() as opened:
        with told_in_one_line(ValueError, ImportError):
            run = opened.enter_context(_open(name, folder, quick, repetitions, methods, options, report_only))
        with told_in_one_line(OSError), room_for(f"the results of {name}", folder):
            return _report(run) if report_only else _run_and_report(run, jobs)


def _list() -> int:
    for name in EXPERIMENTS:
        try:
            title = get_experiment(name).title
        except ImportError as error:
            title = f"(cannot be loaded: {error})"
        print(f"{name:<26}{title}")
    return 0


def _positive(options: dict[str, float | None]) -> dict[str, float]:
    given = {name: value for name, value in options.items() if value is not None}
    for name, value in given.items():
        if not (value > 0 and math.isfinite(value)):
            raise WrongInput(f"--{name.replace('_', '-')} must be a positive number; got {value}.")
    return given


def _open(
    name: str,
    folder: Path,
    quick: bool,
    repetitions: int | None,
    methods: str | None,
    options: dict[str, float],
    report_only: bool,
) -> AbstractContextManager[Run]:
    chosen = get_experiment(name)
    from vbagg.experiments.base import Settings
    from vbagg.experiments.runner import load_rows, open_run

    names = None if methods is None else tuple(filter(None, (method.strip() for method in methods.split(","))))
    settings = Settings(quick, repetitions, names, options)
    if report_only:
        with told_in_one_line(FileNotFoundError):
            load_rows(folder)
    return open_run(chosen, folder, settings)


def _run_and_report(run: Run, jobs: int) -> int:
    from vbagg.experiments.store import ERRORS

    try:
        failed = len(run.execute(jobs, progress=True))
    except KeyboardInterrupt:
        rows = len(run.store.rows)
        print(f"Stopped. {rows} finished rows are in {run.out}; the same command goes on from there.", file=sys.stderr)
        return INTERRUPTED
    print(f"{len(run.tasks) - failed} of {len(run.tasks)} tasks are done")
    if failed:
        print(f"{failed} of {len(run.tasks)} tasks failed: see {run.out / ERRORS}", file=sys.stderr)
    if run.store.rows:
        _show(run.experiment.example(run.settings, run.out))
        _report(run)
    return 1 if failed else 0


def _report(run: Run) -> int:
    _show(run.experiment.report(run.table(), run.out, run.settings))
    return 0


def _show(written: list[Path]) -> None:
    for path in written:
        print(f"wrote {path}")
