"""What nested validation found: skill against one rate for each union, and coverage, at each scale and for cells."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vbagg import numerals
from vbagg.validate.bag_scores import LEVELS, percent
from vbagg.validate.carried import Carried, carry, parts_of
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
CELLS = "cells"
"""In the place of a scale: what the model that knows all bags claims of the cells inside these."""


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

    def trend(self, recovery: Recovery | None = None) -> pd.DataFrame:
        """`scales()`, and what they lead to expect of cells as a last row, which is not `observed`.

        `size`: parts of an area whose total is known, bags of a union or cells of a bag. Columns of what can be seen
        alone are NaN in the last row. It is not there where no scale, or not the model itself, could be fitted.
        """
        import pandas as pd

        seen = self.scales().assign(observed=True)
        if not len(seen) or not len(self.claims.table):
            return seen
        cells = self.cells(recovery)
        told = {"scale": CELLS, "size": parts_of(self.claims.table), "claimed": cells.claimed, "observed": False}
        told |= {"skill": min(cells.skill.value, cells.skill.high), "low": cells.skill.low, "high": cells.skill.high}
        for level, share in cells.coverage.items():
            name = percent(level)
            told |= {f"coverage_{name}": share.value, f"low_{name}": share.low, f"high_{name}": share.high}
        return pd.DataFrame([*seen.to_dict("records"), told], columns=seen.columns)

    def plot(
        self,
        path: str | os.PathLike[str],
        recovery: Recovery | None = None,
        bags: str = "bags",
        individuals: str = "individuals",
        panels: Sequence[str] = ("skill", "coverage"),
    ) -> Path:
        """Draw `trend`: what was seen inside unions, and what is expected of cells; needs matplotlib.

        Parameters
        ----------
        path
            Where to write, such as "inside.png".
        recovery
            As for `cells`; the coverage that it found is marked, too.
        bags, individuals
            What these are, in the plural.
        panels
            One of them, or both.
        """
        from vbagg.validate.picture import plot_trend

        if not self.sums:
            reasons = "; ".join(f"{one['fold']}: {one['reason']}" for one in self.failures)
            raise ValueError(f"A picture needs a scale that was fitted; all fits failed ({reasons}). See `failures`.")
        words = {"what": bags, "cells": individuals}
        return plot_trend(self.trend(recovery), Path(path), recovery=recovery, panels=panels, **words)

    def __repr__(self) -> str:
        lines = [f"Nested: {self._about}", *(["", self._shown().to_string(index=False)] if self.sums else [])]
        return "\n".join([*lines, *(f"{one['fold']}: {one['reason']}" for one in self.failures)])

    def _repr_html_(self) -> str:
        """The same as a table, for notebooks."""
        failed = "".join(f"<p>{escape(str(one['fold']))}: {escape(one['reason'])}</p>" for one in self.failures)
        table = self._shown().to_html(index=False) if self.sums else ""
        return f"<p>Nested: {escape(self._about)}</p>{table}{failed}"

    @property
    def _about(self) -> str:
        return f"{self.claims.n_bags:,} bags, as models see them that know totals of larger areas alone; 90% intervals"

    def _shown(self) -> pd.DataFrame:
        """`trend` as people read it."""
        import pandas as pd

        rows = []
        for row in self.trend().to_dict("records"):
            held = f"{percent(INTERVAL)}"
            rows.append(
                {
                    "scale": row["scale"] if row["observed"] else f"{row['scale']} (expected)",
                    "parts": numerals.count(round(row["size"])),
                    "skill": numerals.with_span(row["skill"], row["low"], row["high"], _rounded),
                    f"inside {held}% intervals": numerals.with_span(
                        row[f"coverage_{held}"], row[f"low_{held}"], row[f"high_{held}"], _rounded
                    ),
                }
            )
        return pd.DataFrame(rows)

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


def _rounded(share: float) -> str:
    """Without decimals, which these numbers do not have."""
    return numerals.share(round(share, 2))


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
