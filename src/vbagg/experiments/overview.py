"""One page over the folders of all experiments: how much was run, the paper's claims judged, its tables beside ours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vbagg.experiments import EXPERIMENTS, get_experiment
from vbagg.experiments.base import Experiment, Settings
from vbagg.experiments.claims import CLAIMS, WORDS, p_value
from vbagg.experiments.report import present, run_section
from vbagg.experiments.store import ROWS, load_rows
from vbagg.experiments.tables import markdown_table, summary, with_paper, write_text

if TYPE_CHECKING:
    import pandas as pd

PAGE, NOTES = "README.md", "NOTES.md"
INTRODUCTION = """\
Each folder holds one run of `vbagg experiment NAME`: every repetition (`repetitions.csv`), the page with tables, tests
of significance and figures (`README.md`), and the settings with machine and date (`settings.json`). The same command
with `--out` and the folder continues or extends it. This page is written by `vbagg experiment --overview` from these
rows, and from the remarks in `NOTES.md`.
"""
Tables = dict[str, "pd.DataFrame"]


def write_overview(folder: Path) -> Path:
    """Write the page over all experiments that have rows in `folder/NAME`; FileNotFoundError if none has."""
    tables = {name: load_rows(folder / name) for name in EXPERIMENTS if (folder / name / ROWS).exists()}
    if not tables:
        raise FileNotFoundError(
            f"`{folder}` must hold folders of experiments with finished rows, called {', '.join(EXPERIMENTS)};"
            " it has none."
        )
    notes = (folder / NOTES).read_text(encoding="utf-8") if (folder / NOTES).exists() else ""
    sections = [
        "# The paper's experiments, and ours",
        INTRODUCTION,
        f"## How much was run\n\n{_progress(folder, tables)}",
        f"## What the paper claims\n\n{_claims(tables)}",
        notes,
        "## The paper's numbers beside ours",
        *_numbers(tables),
    ]
    return write_text(folder / PAGE, "\n\n".join(section.strip() for section in sections if section) + "\n")


def _progress(folder: Path, tables: Tables) -> str:
    import pandas as pd

    rows = []
    for name, table in tables.items():
        asked = get_experiment(name).tasks(Settings())
        done = set(map(tuple, table[list(asked[0])].astype(str).to_numpy()))
        finished = sum(tuple(map(str, task.values())) in done for task in asked)
        rows.append(
            {
                "experiment": f"[{name}]({name}/README.md)",
                "rows of the paper's design": f"{finished} of {len(asked)}",
                "CPU minutes": round(table["cpu_seconds"].sum() / 60),
                "command, machine, date": run_section(folder / name, table).partition(" Every row")[0],
            }
        )
    return markdown_table(pd.DataFrame(rows))


def _claims(tables: Tables) -> str:
    import pandas as pd

    rows = []
    for claim in CLAIMS:
        if claim.experiment not in tables:
            continue
        experiment = get_experiment(claim.experiment)
        for part, table in experiment.parts(tables[claim.experiment]):
            judged = claim.judge(table, experiment.pair_by)
            where = f"{claim.experiment}, {part}" if part else claim.experiment
            cells = (where, claim.words, f"**{judged.verdict}**", judged.evidence)
            rows.append(dict(zip(("experiment", "claim", "verdict", "seen here"), cells, strict=True)))
    explanation = (
        "p-values are of one-sided Wilcoxon signed-rank tests over all data sets, as in the paper; the null hypothesis"
        " is that the first method is not better. Intervals count as calibrated up to a coverage error of 0.1, and as"
        " not calibrated from 0.2 on.\n\n"
    )
    return explanation + markdown_table(pd.DataFrame(rows))


def _numbers(tables: Tables) -> Iterator[str]:
    for name, table in tables.items():
        experiment = get_experiment(name)
        for part, rows in experiment.parts(table):
            title = f"### {experiment.title}" + (f", {part}" if part else "")
            yield "\n\n".join([title, *_scores(experiment, rows), *_p_values(experiment, rows)])


def _scores(experiment: Experiment, rows: pd.DataFrame) -> Iterator[str]:
    columns = present(rows, experiment.overview_scores)
    frame = summary(rows, ["method"], columns, formats=experiment.formats)
    paper: dict[str, dict[str, Any]] = {
        method: {score: value for score, value in own.items() if score in columns}
        for method, own in experiment.paper_scores.items()
    }
    yield markdown_table(with_paper(frame, paper))


def _p_values(experiment: Experiment, rows: pd.DataFrame) -> Iterator[str]:
    import pandas as pd

    table = [
        {
            "better": one,
            "than": other,
            "in": WORDS[score],
            "p": p_value(rows, score, one, other, experiment.pair_by),
            "p (paper)": paper,
        }
        for (one, other), own in experiment.paper_p_values.items()
        for score, paper in own.items()
    ]
    if table:
        yield markdown_table(pd.DataFrame(table), {"p": ".2g", "p (paper)": ".2g"})
