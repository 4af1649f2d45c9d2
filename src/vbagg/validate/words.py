"""A cross-validation in plain words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vbagg import numerals
from vbagg.wording import sentence

if TYPE_CHECKING:
    import pandas as pd

    from vbagg.validate.result import Validation

SIGNIFICANT = 0.05
TOO_FEW, FEW = 10, 30
JUDGED = (0.95, 0.5)


def in_words(validation: Validation, bags: str, outputs: str | None, unit: str) -> str:
    """Sentences about comparisons, intervals and what is missing."""
    outputs = outputs or validation.outputs
    sentences = [_opening(validation, bags), *_failed(validation, bags)]
    n = int(validation.scores()["bags"].iloc[0])
    if n:
        sentences += _few(n, bags)
        sentences += [_compared(row, name, bags, unit) for name, row in _comparison(validation)]
        sentences += _intervals(validation.coverage(), validation.models[0], n, bags, outputs)
        sentences += _correlated(validation)
    return " ".join(sentences)


def _opening(validation: Validation, bags: str) -> str:
    return f"Each of {validation.n_bags} {bags} was predicted without its data, in {len(validation.folds)} folds."


def _failed(validation: Validation, bags: str) -> list[str]:
    sentences = []
    for name in validation.models:
        failures = [failure for failure in validation.failures if failure["model"] == name]
        if not failures:
            continue
        who = "The model" if name == validation.models[0] else sentence(_described(name, bags))
        missing, first = sum(failure["bags"] for failure in failures), failures[0]["reason"].rstrip(".")
        where = f"{len(failures)} of {len(validation.folds)} folds" if missing < validation.n_bags else "any fold"
        sentences.append(f"{who} could not be fitted in {where} ({first}): {missing} {bags} have no prediction by it.")
    return sentences


def _few(n: int, bags: str) -> list[str]:
    if n < TOO_FEW:
        return [f"{n} {bags} are too few to tell whether a model is good: the figures are hints at most."]
    return [f"With only {n} {bags} the figures are rough."] if n < FEW else []


def _comparison(validation: Validation) -> list[tuple[str, dict[str, Any]]]:
    """Rows by baseline: CRPS, or the error of the median against baselines (or from a model) without a law."""
    rows: dict[str, dict[str, Any]] = {}
    for score, title in (("absolute_error", "mean error"), ("crps", "CRPS")):
        for name, row in validation.compare(score).iterrows():
            rows[str(name)] = {**row.to_dict(), "title": title}
    return [(name, rows[name]) for name in validation.models if name in rows]


def _compared(row: dict[str, Any], name: str, bags: str, unit: str) -> str:
    other, pairs, better = _described(name, bags), int(row["pairs"]), int(row["better"])
    own, its, p = row["score"], row["other_score"], row["p_better"]
    scores = f"{row['title']} {numerals.rate(own)} against {numerals.rate(its)}{' ' + unit if unit else ''}"
    figures = f"{scores}, better in {better} of {pairs} {bags}{_p_value(p)}"
    against = f"{scores}, better in {better} of {pairs} {bags}{_p_value(row['p_worse'], ' that it is worse')}"
    if pairs < TOO_FEW:
        return f"Whether the model predicts unseen {bags} better than {other} cannot be told ({figures})."
    if p < SIGNIFICANT and own < its:
        return f"The model predicts unseen {bags} better than {other} ({figures})."
    if row["p_worse"] < SIGNIFICANT and own > its:
        return f"The model predicts unseen {bags} worse than {other} ({against})."
    if p < SIGNIFICANT:
        return f"The model is NOT better than {other} on average, though in most {bags}: a few are far off ({figures})."
    if row["p_worse"] < SIGNIFICANT:
        return f"The model is NOT better than {other} in most {bags}, though on average ({against})."
    if own < its:
        return f"The model is NOT clearly better than {other}: the difference may be chance ({figures})."
    return f"The model is NOT better than {other} ({figures})."


def _intervals(coverage: pd.DataFrame, model: str, n: int, bags: str, outputs: str) -> list[str]:
    own = coverage[coverage["model"] == model]
    if not len(own):
        return ["It gives no intervals."]
    judged = {level: own[own["level"] == level].iloc[0] for level in JUDGED}
    held = [
        f"its {numerals.level(level)} intervals held {numerals.share(row['coverage'])} of the {outputs} of"
        f" unseen {bags}"
        f" (chance allows {numerals.span(row['low'], row['high'], numerals.share)})"
        for level, row in judged.items()
    ]
    sentences = [sentence(" and ".join(held)) + "."]
    if n < TOO_FEW:
        return sentences
    by_judgement = {
        what: [numerals.level(level) for level, row in judged.items() if row["judgement"] == what]
        for what in ("too narrow", "too wide")
    }
    for what, advice in (
        ("too narrow", "the uncertainty is larger than they say"),
        ("too wide", "the uncertainty is smaller than they say"),
    ):
        if by_judgement[what]:
            which = " and ".join(by_judgement[what])
            sentences.append(f"The {which} intervals are {what}, beyond chance: {advice}.")
    if not any(by_judgement.values()):
        sentences.append(f"That is what such intervals should hold, as far as {n} {bags} can show.")
    sentences.append(f"This says nothing of intervals of rates inside {bags}, where nothing was counted.")
    return sentences


def _correlated(validation: Validation) -> list[str]:
    value = float(validation.scores()["correlation"].iloc[0])
    return [] if np.isnan(value) else [f"Predicted and observed rates correlate at {numerals.correlation(value)}."]


def _described(name: str, bags: str) -> str:
    known = {"constant": "one constant rate", "glm": f"a regression on averages over {bags}"}
    return known.get(name, f"{name!r}")


def _p_value(p: float, of: str = "") -> str:
    return "" if np.isnan(p) else f", p {numerals.probability(p)}{of}"
