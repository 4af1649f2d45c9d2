"""The page that an experiment leaves: how it was run, scores, tests of significance, figures."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vbagg.experiments import figures
from vbagg.experiments.tables import markdown_table, write_text
from vbagg.significance import wilcoxon_table

if TYPE_CHECKING:
    import pandas as pd

PValues = Mapping[tuple[str, str], Mapping[str, float]]
"""The paper's p-values: (reference, other) to score to value."""


def present(frame: pd.DataFrame, columns: Sequence[str]) -> list[str]:
    """The columns that the table has values in."""
    return [name for name in columns if name in frame and frame[name].notna().any()]


def significance_section(
    table: pd.DataFrame, references: Sequence[str], scores: Sequence[str], pair_by: Sequence[str], paper: PValues
) -> str:
    """One table per reference method: p-values of each score, ours beside the paper's."""
    import pandas as pd

    parts = []
    methods = set(table["method"])
    for reference in references:
        if reference not in methods or len(methods) < 2:
            continue
        columns: dict[str, list[Any]] = {}
        for score in present(table, scores):
            tested = wilcoxon_table(table, score, reference, pair_by)
            columns["method"] = tested["method"].tolist()
            columns["pairs"] = tested["pairs"].tolist()
            columns[score] = tested["p_value"].tolist()
            quoted = [paper.get((reference, other), {}).get(score) for other in columns["method"]]
            if any(value is not None for value in quoted):
                columns[f"{score} (paper)"] = quoted
        text = markdown_table(pd.DataFrame(columns), dict.fromkeys(columns, ".2g"))
        parts.append(f"### {reference} better than\n\n{text}")
    if not parts:
        return ""
    explanation = (
        "One-sided Wilcoxon signed-rank tests over all settings and repetitions pooled. The null hypothesis is that the"
        " method in the heading performs equally or worse; small p-values say that it is better.\n\n"
    )
    return "## Significance\n\n" + explanation + "\n".join(parts)


def coverage_figure(table: pd.DataFrame, folder: Path, caption: str) -> dict[str, Path]:
    """Calibration of the methods that have intervals, by its caption; nothing if none has."""
    if not present(table, ["coverage_90"]):
        return {}
    path = folder / "coverage.png"
    figures.coverage_curves(table[table["coverage_90"].notna()], path)
    return {caption: path}


def run_section(folder: Path, table: pd.DataFrame) -> str:
    """How the rows came about: command, dates, machine, CPU time."""
    settings = json.loads((folder / "settings.json").read_text()) if (folder / "settings.json").exists() else None
    if settings is None:
        return ""
    commands = dict.fromkeys(_command(settings, run) for run in settings["runs"])
    machine = settings["runs"][-1]["machine"]
    dates = sorted({run["date"][:10] for run in settings["runs"]})
    minutes = table["cpu_seconds"].sum() / 60
    where = f"{machine['cpus']} cores, {machine['platform']}, Python {machine['python']}, {' and '.join(dates)}"
    return (
        f"{', then '.join(commands)}: {len(table)} rows, {minutes:.0f} CPU minutes (compilation included) on {where}."
        " Every row is in `repetitions.csv`."
    )


def _command(settings: Mapping[str, Any], run: Mapping[str, Any]) -> str:
    """What was typed for one of the runs of a folder."""
    flags = ["--quick"] if settings["quick"] else []
    flags += [f"--{name.replace('_', '-')} {value:g}" for name, value in settings["options"].items()]
    flags += [f"--repetitions {run['repetitions']}"] if run["repetitions"] else []
    flags += [f"--methods {','.join(run['methods'])}"] if run["methods"] else []
    return f"`{' '.join(['vbagg experiment', settings['experiment'], *flags])}`"


def write_page(
    folder: Path, title: str, table: pd.DataFrame, sections: Sequence[str], pictures: Mapping[str, Path]
) -> Path:
    """Markdown page: how it was run, the sections and, last, those figures that exist, by caption."""
    existing = {caption: path for caption, path in pictures.items() if path.exists()}
    shown = "\n".join(f"![{caption}]({path.name})\n\n{caption}\n" for caption, path in existing.items())
    body = "\n\n".join(section.strip() for section in (run_section(folder, table), *sections) if section)
    ending = f"\n\n## Figures\n\n{shown}" if existing else "\n"
    return write_text(folder / "README.md", f"# {title}\n\n{body}{ending}")
