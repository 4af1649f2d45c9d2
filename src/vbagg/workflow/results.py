"""Results of the check and of a validation as files: tables for people, and all of it for the report."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vbagg.doctor import Findings
    from vbagg.validate import Validation

FINDINGS, FOLDS, VERDICT = "findings.json", "folds.json", "verdict.txt"


@contextmanager
def written_by(verb: str, path: Path) -> Iterator[None]:
    """Read a file of results; one that the command did not write leads to a message that names both."""
    try:
        yield
    except Exception as error:  # whatever other content leads to
        reason = " ".join(str(error).split()).rstrip(". ") or type(error).__name__
        raise ValueError(
            f"{path} cannot be read as what `vbagg {verb}` wrote: {reason}. Do it again: `vbagg {verb} --force`."
        ) from error


def write_findings(findings: Findings, folder: Path) -> None:
    """Write what the check found, for programs and for people."""
    (folder / FINDINGS).write_text(findings.to_json() + "\n", encoding="utf-8")
    (folder / "findings.txt").write_text(f"{findings}\n", encoding="utf-8")


def read_findings(folder: Path) -> Findings | None:
    """What `write_findings` wrote, None if nothing."""
    from vbagg.doctor import Findings

    path = folder / FINDINGS
    if not path.exists():
        return None
    with written_by("check", path):
        findings = Findings.from_json(path.read_text(encoding="utf-8"))
        str(findings)  # what cannot be told is none of ours
        return findings


def write_validation(validation: Validation, folder: Path, unit: str) -> None:
    """Write scores, comparisons and every left-out polygon as CSV, and the verdict as text."""
    folder.mkdir(parents=True)
    (folder / FOLDS).write_text(
        json.dumps({"per": validation.per, "folds": [json.loads(fold.to_json()) for fold in validation.folds]}),
        encoding="utf-8",
    )
    validation.table.to_csv(folder / "polygons.csv", index=False)
    validation.scores().to_csv(folder / "scores.csv")
    validation.coverage().to_csv(folder / "coverage.csv", index=False)
    validation.compare().to_csv(folder / "comparison.csv")
    (folder / VERDICT).write_text(validation.verdict("polygons", unit=unit) + "\n", encoding="utf-8")


def read_validation(folder: Path) -> Validation | None:
    """What `write_validation` wrote, None if nothing."""
    if not (folder / FOLDS).exists():
        return None
    from vbagg.validate import FoldResult, Validation

    with written_by("validate", folder / FOLDS):
        document = json.loads((folder / FOLDS).read_text(encoding="utf-8"))
        folds = tuple(FoldResult.from_json(json.dumps(fold)) for fold in document["folds"])
        validation = Validation(folds, document["per"])
        # what cannot be scored is none of ours
        validation.scores().loc["vbagg"]
        validation.coverage()
        validation.reliability()
        validation.pit_histogram()
        return validation
