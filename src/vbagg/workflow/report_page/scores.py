"""Scores of predictions of districts that were left out, in words, with their technical names where one points."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from vbagg import numerals
from vbagg.report import Explained, Table

if TYPE_CHECKING:
    from vbagg.texts import Texts
    from vbagg.validate import Validation

WRITTEN: Mapping[str, tuple[str, numerals.Write]] = {
    "mae": ("mae", numerals.rate),
    "rmse": ("rmse", numerals.rate),
    "crps": ("crps", numerals.rate),
    "nll": ("nll", numerals.rate),
    "correlation": ("correlation", numerals.correlation),
    "coverage_95": ("coverage", numerals.share),
}
"""Scores in the order of the table, each with its word of the glossary and how its numbers are written."""
COMPARED = ("constant", "glm")
"""Models that are no words of the user's."""


def score_table(say: Texts, validation: Validation, unit: str) -> Table:
    """One row for each score, one column for each model, the first being that of the run."""
    scores = validation.scores()
    known = [name for name in WRITTEN if name in scores]
    return Table(
        ["", *(_model(say, str(name), at == 0) for at, name in enumerate(scores.index))],
        [[label(say, name), *(WRITTEN[name][1](float(value)) for value in scores[name])] for name in known],
        say("scores.caption", unit=unit),
    )


def label(say: Texts, score: str) -> Explained:
    """What a score says."""
    return Explained(say(f"scores.{score}"), WRITTEN[score][0])


def _model(say: Texts, name: str, is_own: bool) -> str | Explained:
    if is_own:
        return say("scores.own")
    return Explained(say(f"scores.{name}"), name) if name in COMPARED else say.noun(name)
