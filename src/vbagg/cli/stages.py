"""``vbagg run`` and its stages ``prepare``, ``fit``, ``predict``, ``validate`` and ``report``."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from vbagg.cli.options import base_settings, with_settings
from vbagg.cli.verdicts import show_verdicts
from vbagg.cli.wrong_input import WrongInput, told_in_one_line, warned_in_one_line
from vbagg.errors import BrowserError, ClusterError
from vbagg.workflow.folder import SETTINGS
from vbagg.workflow.settings import combine

INTERRUPTED = 130
Out = Annotated[Path, typer.Option(help="Folder of the run.")]
Config = Annotated[
    Path | None, typer.Option(help="TOML file with settings; options on the command line come before it.")
]
Force = Annotated[bool, typer.Option("--force", help="Do again what is finished.")]
Workers = Annotated[
    int | None,
    typer.Option(min=1, help="Prepare, fit, map and validate on so many processes of this machine (needs Dask)."),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        help="Address of a Dask scheduler whose workers prepare, fit, map and validate, such as tcp://host:8786."
    ),
]
Given = dict[str, dict[str, Any]]
FOLDER = Path("vbagg-out")


@with_settings("data", "model", "validation", "maps", "report")
def run_command(
    given: Given,
    out: Out = FOLDER,
    config: Config = None,
    force: Force = False,
    workers: Workers = None,
    cluster: Cluster = None,
) -> int:
    """Make maps with uncertainty, and a report, from polygons with totals and rasters.

    Stages: check, prepare, fit, predict, validate, report. What is finished is skipped, unless its inputs changed. At
    the end stands whether the map is worth having: see docs/is-the-map-worth-having.md.

    Exit status: 0 done, 2 wrong input, 130 interrupted.
    """
    return carry_out_all(given, out, config, force, workers, cluster)


def carry_out_all(
    given: Given,
    out: Path,
    config: Path | None = None,
    force: bool = False,
    workers: int | None = None,
    cluster: str | None = None,
) -> int:
    """All stages, the check first."""
    return _carry_out(None, given, out, config, force, workers, cluster)


@with_settings("data")
def prepare_command(
    given: Given,
    out: Out = FOLDER,
    config: Config = None,
    force: Force = False,
    workers: Workers = None,
    cluster: Cluster = None,
) -> int:
    """Read polygons and rasters, align them to one grid, and lay the polygons over it."""
    return _carry_out(("prepared",), given, out, config, force, workers, cluster)


@with_settings("model")
def fit_command(
    given: Given,
    out: Out = FOLDER,
    config: Config = None,
    force: Force = False,
    workers: Workers = None,
    cluster: Cluster = None,
) -> int:
    """Learn rates from the totals of a prepared folder."""
    return _carry_out(("models",), given, out, config, force, workers, cluster)


@with_settings("maps", "ground", "report.language")
def predict_command(
    given: Given,
    out: Out = FOLDER,
    config: Config = None,
    force: Force = False,
    workers: Workers = None,
    cluster: Cluster = None,
) -> int:
    """Map rates and their uncertainty, and add them up to polygons; also on new ground, with nothing fitted again.

    New ground is another year, scenario or country: new rasters for covariates or people, other polygons, or another
    grid. Its maps say where they are extrapolations.
    """
    if "ground" in given:
        return _predict_elsewhere(given, out, config, force, workers, cluster)
    return _carry_out(("maps",), given, out, config, force, workers, cluster)


@with_settings("validation", "model")
def validate_command(
    given: Given,
    out: Out = FOLDER,
    config: Config = None,
    force: Force = False,
    workers: Workers = None,
    cluster: Cluster = None,
) -> int:
    """Judge whether the map is worth having: predict polygons left out, and what differs inside groups of polygons.

    The verdict stands at the end: yes, with care, or no, with its reasons. What these rest on, and what to do then,
    tells docs/is-the-map-worth-having.md.
    """
    return _carry_out(("validation",), given, out, config, force, workers, cluster)


@with_settings("report")
def report_command(given: Given, out: Out = FOLDER, config: Config = None, force: Force = False) -> int:
    """Write plots and the one-file HTML report of a folder."""
    return _carry_out(("report",), given, out, config, force)


def _carry_out(
    names: Sequence[str] | None,
    given: Given,
    out: Path,
    config: Path | None,
    force: bool,
    workers: int | None = None,
    cluster: str | None = None,
) -> int:
    """Carry out stages, all if none are named, with the settings given and else those of the file.

    Single stages without a file take what is not given from the settings of the folder.
    """
    written = out / SETTINGS
    with told_in_one_line(ValueError):
        base = base_settings(config or (written if written.exists() and names else None))
        settings = combine(base, given, "command line")
    try:
        with told_in_one_line(ValueError, OSError, ImportError, ClusterError, BrowserError), warned_in_one_line():
            from vbagg.workflow.job import carry_out_stages
            from vbagg.workflow.odd_totals import told_of_odd_totals
            from vbagg.workflow.progress import showing
            from vbagg.workflow.stages import STAGES

            names = names or tuple(STAGES)
            with client_of(workers, cluster) as client, showing() as shown:
                run = carry_out_stages(settings, out, names, force, shown, _command_line(), client=client)
    except KeyboardInterrupt:
        print(f"Stopped. Finished stages are in {out}; the same command goes on from there.", file=sys.stderr)
        return INTERRUPTED
    for name in names:
        print(f"{name}: {run.folder[name]}")
    for sentence in told_of_odd_totals(run) if "maps" in names else ():
        print(sentence)
    if "validation" in names:
        show_verdicts(run)
    for page in run.pages() if "report" in names else ():
        print(f"Open {page} in a browser.")
    return 0


def _predict_elsewhere(
    given: Given, out: Path, config: Path | None, force: bool, workers: int | None, cluster: str | None
) -> int:
    """Maps of new ground, and what of them is extrapolated."""
    if config is not None:
        raise WrongInput("`--config` holds settings of a run; those of new ground are options. Leave it out.")
    with told_in_one_line(ValueError, OSError, ImportError, ClusterError), warned_in_one_line():
        from vbagg.workflow.elsewhere import STAGES, ground_settings, predict_elsewhere
        from vbagg.workflow.progress import showing

        settings = ground_settings(out, given, "command line")
        try:
            with client_of(workers, cluster) as client, showing() as shown:
                run = predict_elsewhere(settings, out, force, shown, _command_line(), client=client)
        except KeyboardInterrupt:
            print("Stopped; the same command goes on from what is finished.", file=sys.stderr)
            return INTERRUPTED
        for stage in STAGES:
            print(f"{stage.name}: {run.folder[stage.name]}")
        for response in settings.data.response:
            for sentence in run.beyond(response).sentences():
                print(f"{response}: {sentence}")
    for page in run.pages():
        print(f"Open {page} in a browser.")
    return 0


@contextmanager
def client_of(workers: int | None, cluster: str | None) -> Iterator[Any]:
    """A client of new workers or of the cluster at an address; None for neither."""
    if workers is None and cluster is None:
        yield None
        return
    if workers is not None and cluster is not None:
        raise ValueError("--workers starts workers of its own, --cluster uses those of others: give one of them.")
    from vbagg.cluster import connected, local_cluster

    with local_cluster(workers) if workers is not None else connected(str(cluster)) as client:
        yield client


def _command_line() -> str:
    return shlex.join(["vbagg", *sys.argv[1:]])
