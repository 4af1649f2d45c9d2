"""What nested validation found: skill against one rate for each union, and coverage, at each scale and for cells."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vbagg.validate.bag_scores import LEVELS, percent
from vbagg.validate.carried import Carried, carry
from vbagg.validate.result import FoldResult
from vbagg.validate.sums import Sums

if TYPE_CHECKING:
    import pandas as pd

    from vbagg.validate.recovered import Recovery

Floats = NDArray[np.float64]
RESAMPLED = 1000
ALIKE = 0.5
"""Correlation of the tests of two scales."""
INTERVAL = 0.9
"""Level of intervals of skill and coverage."""


@dataclass(frozen=True, eq=False)
class Nested:
    """Bags inside unions, as a model predicts them that knows the outputs of these alone."""

    folds: tuple[FoldResult, ...]
    """A scale each, named by how many neighbours were merged, or by the column that says so."""
    claims: FoldResult
    """What the model that knows all bags claims of the cells inside these."""

    def table(self, scale: str) -> pd.DataFrame:
        """One row per bag inside a union of this scale; see `inside.scores_inside`."""
        return next(fold.table for fold in self.folds if fold.fold == scale)

    @cached_property
    def sums(self) -> dict[str, Sums]:
        """Sums by union of each scale that was fitted."""
        return {str(fold.fold): Sums.of(fold.table) for fold in self.folds if len(fold.table)}

    def scales(self) -> pd.DataFrame:
        """One row per scale.

        `unions`, `bags` inside them; `skill`: share of the differences between the bags of a union that the model
        explains, 0 where it is as good as one rate for the union, without chance; `low`, `high`: its 90% interval, from
        unions drawn anew; `claimed`: the skill that the model expects; `p_better`: chance that bags which it takes for
        higher than their union would so often be higher if it knew nothing, and `p_worse` that they would so often be
        lower, of Wilcoxon tests of unions; `coverage_90`, ...: shares of bags inside their intervals, with `low_90`,
        `high_90`.
        """
        import pandas as pd

        return pd.DataFrame([{"scale": name, **_row(sums)} for name, sums in self.sums.items()])

    def p_value(self, worse: bool = False) -> float:
        """Of all scales together: Stouffer's sum of normal scores, which go together since bags are the same."""
        from scipy.special import ndtr, ndtri

        sign = -1.0 if worse else 1.0
        pairs = [(len(sums.own), signed_rank(sign * sums.agreement)) for sums in self.sums.values()]
        known = [(np.sqrt(n), ndtri(np.clip(p, 1e-12, 1 - 1e-12))) for n, p in pairs if np.isfinite(p)]
        if not known:
            return 1.0
        weight, scores = (np.array(column) for column in zip(*known, strict=True))
        together = weight @ (ALIKE + (1 - ALIKE) * np.eye(len(weight))) @ weight
        return float(ndtr(weight @ scores / np.sqrt(together)))

    def cells(self, recovery: Recovery | None = None) -> Carried:
        """What the scales lead to expect of cells: skill and coverage, with their uncertainty.

        `recovery` says how much intervals of cells would hold if the model were right.
        """
        return carry(self.sums, self.claims.table, recovery)

    def document(self) -> dict[str, Any]:
        """As it is stored."""
        return {
            "scales": [json.loads(fold.to_json()) for fold in self.folds],
            "cells": json.loads(self.claims.to_json()),
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Nested:
        """What `document` gave."""
        folds = tuple(FoldResult.from_json(json.dumps(fold)) for fold in document["scales"])
        return cls(folds, FoldResult.from_json(json.dumps(document["cells"])))

    @property
    def notes(self) -> list[str]:
        """Warnings of the fits, each once."""
        return list(dict.fromkeys(note for fold in (*self.folds, self.claims) for note in fold.notes))

    @property
    def failures(self) -> list[dict[str, Any]]:
        """Fits that failed."""
        return [failure for fold in (*self.folds, self.claims) for failure in fold.failures]


def _row(sums: Sums) -> dict[str, float]:
    total, drawn = sums.total(), sums.resampled(RESAMPLED)
    ends = ((1 - INTERVAL) / 2, (1 + INTERVAL) / 2)
    low, high = _quantiles(drawn.skill, ends)
    row = {
        "unions": len(sums.own),
        "bags": int(total.bags[0]),
        "size": float(total.bags[0] / len(sums.own)),
        "skill": float(total.skill[0]),
        "low": low,
        "high": high,
        "claimed": float(total.claimed[0]),
        "p_better": signed_rank(sums.agreement),
        "p_worse": signed_rank(-sums.agreement),
    }
    for level in LEVELS:
        name = percent(level)
        row[f"coverage_{name}"] = float(total.coverage(level)[0])
        row[f"low_{name}"], row[f"high_{name}"] = _quantiles(drawn.coverage(level), ends)
    return row


def _quantiles(values: Floats, ends: tuple[float, float]) -> tuple[float, float]:
    known = values[np.isfinite(values)]
    low, high = np.quantile(known, ends) if len(known) else (np.nan, np.nan)
    return float(low), float(high)


def signed_rank(gains: Floats) -> float:
    """p-value of a one-sided Wilcoxon test that gains are positive; NaN if none differs from zero."""
    from scipy.stats import wilcoxon

    gains = gains[gains != 0]
    return float(wilcoxon(gains, alternative="greater").pvalue) if len(gains) else np.nan
