"""A cross-validation in plain words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from vbagg import numerals
from vbagg.texts import Texts, texts_in
from vbagg.wording import sentence

if TYPE_CHECKING:
    import pandas as pd

    from vbagg.validate.result import Validation

SIGNIFICANT = 0.05
TOO_FEW, FEW = 10, 30
JUDGED = (0.95, 0.5)
JUDGEMENTS = {"too narrow": "too_narrow", "too wide": "too_wide"}
"""Texts for intervals that do not hold what they should."""


def in_words(validation: Validation, bags: str, outputs: str | None, unit: str) -> str:
    """Sentences about comparisons, intervals and what is missing, in the language that is written."""
    say = texts_in()
    bags, outputs = say.noun(bags), say.noun(outputs or validation.outputs)
    return " ".join(_sentences(say, validation, bags, outputs, unit))


def _sentences(say: Texts, validation: Validation, bags: str, outputs: str, unit: str) -> Iterator[str]:
    yield say("outcome.opening", n=validation.n_bags, bags=bags, folds=len(validation.folds))
    yield from _failed(say, validation, bags)
    n = int(validation.scores()["bags"].iloc[0])
    if n:
        yield from _few(say, n, bags)
        yield from (_compared(say, row, name, bags, unit) for name, row in _comparison(validation))
        yield from _intervals(say, validation.coverage(), validation.models[0], n, bags, outputs)
        yield from _correlated(say, validation)


def _failed(say: Texts, validation: Validation, bags: str) -> Iterator[str]:
    for name in validation.models:
        failures = [failure for failure in validation.failures if failure["model"] == name]
        if not failures:
            continue
        who = say("outcome.model") if name == validation.models[0] else _described(say, name, bags)
        missing, reason = sum(failure["bags"] for failure in failures), failures[0]["reason"].rstrip(".")
        where = say("outcome.some_folds", failed=len(failures), folds=len(validation.folds))
        where = where if missing < validation.n_bags else say("outcome.any_fold")
        yield sentence(
            say("outcome.failed", who=who, where=where, reason=reason, missing=numerals.count(missing), bags=bags)
        )


def _few(say: Texts, n: int, bags: str) -> list[str]:
    if n < TOO_FEW:
        return [say("outcome.too_few", n=n, bags=bags)]
    return [say("outcome.few", n=n, bags=bags)] if n < FEW else []


def _comparison(validation: Validation) -> list[tuple[str, dict[str, Any]]]:
    """Rows by baseline: CRPS, or the error of the median against baselines (or from a model) without a law."""
    rows: dict[str, dict[str, Any]] = {}
    for score in ("absolute_error", "crps"):
        for name, row in validation.compare(score).iterrows():
            rows[str(name)] = {**row.to_dict(), "title": score}
    return [(name, rows[name]) for name in validation.models if name in rows]


def _compared(say: Texts, row: dict[str, Any], name: str, bags: str, unit: str) -> str:
    own, its, better, worse = row["score"], row["other_score"], row["p_better"], row["p_worse"]
    kind = _outcome(own, its, better, worse, int(row["pairs"]))
    is_worse = kind in ("worse", "not_better_in_most")
    figures = say(
        "outcome.figures",
        title=say(f"outcome.{row['title']}"),
        own=numerals.rate(own),
        other=numerals.rate(its),
        unit=f" {unit}" if unit else "",
        better=numerals.count(int(row["better"])),
        pairs=numerals.count(int(row["pairs"])),
        bags=bags,
    ) + (_p_value(say, "p_worse", worse) if is_worse else _p_value(say, "p_better", better))
    return say(f"outcome.{kind}", bags=bags, other=_described(say, name, bags), figures=figures)


def _outcome(own: float, its: float, p_better: float, p_worse: float, pairs: int) -> str:
    """Name of the text that says how two models compare: mean scores, and how clear it is that one is better."""
    if pairs < TOO_FEW:
        return "untold"
    if p_better < SIGNIFICANT:
        return "better" if own < its else "not_better_on_average"
    if p_worse < SIGNIFICANT:
        return "worse" if own > its else "not_better_in_most"
    return "not_clearly_better" if own < its else "not_better"


def _intervals(say: Texts, coverage: pd.DataFrame, model: str, n: int, bags: str, outputs: str) -> Iterator[str]:
    own = coverage[coverage["model"] == model]
    if not len(own):
        yield say("outcome.no_intervals")
        return
    judged = {level: own[own["level"] == level].iloc[0] for level in JUDGED}
    held = [
        say(
            "outcome.held",
            level=numerals.level(level),
            share=numerals.share(row["coverage"]),
            outputs=outputs,
            bags=bags,
            chance=numerals.span(row["low"], row["high"], numerals.share),
        )
        for level, row in judged.items()
    ]
    yield sentence(say.listed(held)) + "."
    if n < TOO_FEW:
        return
    off = {
        text: [level for level, row in judged.items() if row["judgement"] == what] for what, text in JUDGEMENTS.items()
    }
    for text, levels in off.items():
        if levels:
            yield say(f"outcome.{text}", levels=say.listed([numerals.level(level) for level in levels]))
    if not any(off.values()):
        yield say("outcome.as_expected", n=n, bags=bags)
    yield say("outcome.nothing_inside", bags=bags)


def _correlated(say: Texts, validation: Validation) -> list[str]:
    value = float(validation.scores()["correlation"].iloc[0])
    return [] if np.isnan(value) else [say("outcome.correlation", value=numerals.correlation(value))]


def _described(say: Texts, name: str, bags: str) -> str:
    if name in ("constant", "glm"):
        return say(f"outcome.{name}", bags=bags)
    return say("outcome.named", name=say.noun(name))


def _p_value(say: Texts, text: str, p: float) -> str:
    return "" if np.isnan(p) else say(f"outcome.{text}", p=numerals.probability(p))
