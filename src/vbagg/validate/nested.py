"""Fit to unions of bags, score the bags inside: a test of disaggregation itself, at each scale."""

from __future__ import annotations

import hashlib
import os
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vbagg import __version__
from vbagg.bags import Bags
from vbagg.inputs import some_values
from vbagg.models.frame import check_is_bags
from vbagg.models.outputs import FEWEST, aligned_outputs
from vbagg.models.reporting import aligned_told
from vbagg.progress import Report, reporting
from vbagg.validate.content import content
from vbagg.validate.inside import Known, claims_of_cells, scores_inside
from vbagg.validate.kept import Kept
from vbagg.validate.result import FoldResult
from vbagg.validate.scales import CELLS, Nested
from vbagg.validate.unions import FEWEST_UNIONS, NAMED, Unions, compact_group, group_of, unions

Floats = NDArray[np.float64]
SIZES = (2, 4, 8)
"""Neighbours that are merged."""


def nested(
    model: Any,
    bags: Bags,
    y: Any,
    group: Any = None,
    *,
    sizes: Sequence[int] = SIZES,
    fitted: Any = None,
    trials: Any = None,
    completeness: Any = None,
    weight_sd: Any = None,
    progress: bool | Report | None = None,
    keep: str | os.PathLike[str] | None = None,
) -> Nested:
    """Merge bags into unions, fit to the outputs of these, and score the bags inside against one rate for each union.

    What cross-validation asks is how well bags are predicted whose outputs are not known. This asks what maps are made
    for: what a model says of the differences inside areas whose totals it knows.

    Parameters
    ----------
    model
        A `VBAgg`, of which clones are fitted.
    bags, y, trials, completeness, weight_sd
        As for `VBAgg.fit`. Bags without an output (NaN) are left out.
    group
        The union of each bag, such as its region: a vector in the order of `bags.labels`, or a Series by label. Without
        it, unions of neighbours are made, as compact as straight cuts make them.
    sizes
        How many neighbours are merged: one fit for each.
    fitted
        The model fitted to the bags themselves, if there is one; otherwise it is fitted here, since `Nested.cells()`
        needs what it claims of the individuals.
    progress
        As for `VBAgg.fit`; entries have `scale`, `done` and `of`.
    keep
        Folder in which finished scales are kept, so that an interrupted run goes on from them.

    Returns
    -------
    Nested
        `scales()`: skill and coverage at each scale; `cells()`: what they lead to expect of individuals.
    """
    check_is_bags(bags)
    if not hasattr(model, "posterior_areas"):
        raise TypeError(f"`model` must be a vbagg.VBAgg, which predicts parts of bags; got {model!r}.")
    outputs = aligned_outputs(bags, y, trials)
    outputs.require(FEWEST)
    told, seen = aligned_told(bags, completeness, weight_sd, outputs.seen), outputs.seen
    observed = outputs.observed()
    known = Known(observed.y, observed.trials, **{name: values[seen] for name, values in told.items()})
    merged = _merged(bags if seen.all() else bags[seen], None if group is None else group_of(bags, group)[seen], sizes)
    job = _Job(model, fitted, merged[0].fine, known, None if keep is None else Kept(Path(keep), FoldResult, "scale"))
    return job.run(merged, progress)


def _merged(bags: Bags, group: Any, sizes: Sequence[int]) -> list[Unions]:
    if group is not None:
        if any(label is None for label in group):
            raise ValueError("`group` must name a union for every bag with an output; it is missing for some.")
        found = [unions(bags, group, NAMED)]
    else:
        found = [unions(bags, compact_group(bags, size), str(size)) for size in sizes if len(bags) >= 2 * size]
    enough = [one for one in found if len(one.coarse) >= FEWEST_UNIONS and one.inside.any()]
    if not enough:
        raise ValueError(
            f"Unions must be {FEWEST_UNIONS} at least, some of several bags; got"
            f" {some_values([len(one.coarse) for one in found]) or 'none'} of {len(bags)} bags with an output."
            " Give a `group` with more unions, or more bags."
        )
    return enough


@dataclass(frozen=True, eq=False)
class _Job:
    """The fits of a nested validation."""

    model: Any
    fitted: Any
    bags: Bags
    known: Known
    kept: Kept[FoldResult] | None

    def run(self, merged: Sequence[Unions], progress: bool | Report | None) -> Nested:
        """All scales, then the cells."""
        found, of = [], len(merged) + 1
        with reporting(progress, "nested validation") as report:
            for done, one in enumerate(merged):
                report({"scale": one.name, "done": done, "of": of})
                found.append(self._scale(one.name, one))
            report({"scale": CELLS, "done": len(merged), "of": of})
            cells = self._scale(CELLS, None)
            report({"finished": CELLS, "done": of, "of": of})
        return Nested(tuple(found), cells)

    def _scale(self, name: str, one: Unions | None) -> FoldResult:
        rests_on = self._digest(one)
        result = None if self.kept is None else self.kept.get(name, rests_on)
        if result is None:
            result = self._scored(name, one)
            if self.kept is not None and not result.failures:
                self.kept.put(name, result, rests_on)
        return result

    def _scored(self, name: str, one: Unions | None) -> FoldResult:
        import pandas as pd

        started, table, failures = time.perf_counter(), pd.DataFrame(), []
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                table = self._claims() if one is None else scores_inside(self._fit(one), one, self.known)
            except (ValueError, FloatingPointError, np.linalg.LinAlgError) as error:
                failures = [{"fold": name, "model": "vbagg", "bags": len(self.bags), "reason": str(error)}]
        notes = tuple(dict.fromkeys(f"{name}: {warning.message}" for warning in caught))
        likelihood, seconds = str(_name(self.model.likelihood)), {"vbagg": time.perf_counter() - started}
        n = len(self.bags) if one is None else len(one.coarse)
        return FoldResult(name, ("vbagg",), likelihood, n, table, tuple(failures), notes, seconds)

    def _fit(self, one: Unions) -> Any:
        from sklearn.base import clone

        known = self.known.summed(one)
        return clone(self.model).fit(one.coarse, known.y, progress=False, **known.facts())

    def _claims(self) -> Any:
        from sklearn.base import clone

        fitted = self.fitted
        if fitted is None:
            fitted = clone(self.model).fit(self.bags, self.known.y, progress=False, **self.known.facts())
        return claims_of_cells(fitted, self.bags)

    def _digest(self, one: Unions | None) -> str:
        found = hashlib.sha256(f"{__version__} {content(sorted(self.model.get_params(deep=False).items()))}".encode())
        parts = (self.bags.X, self.bags.weight, self.bags.bag, self.bags.labels, self.known.y, self.known.trials)
        of_scale = getattr(self.fitted, "elbo_", None) if one is None else one.of
        told = (self.known.completeness, self.known.weight_sd, of_scale)
        for values in (*parts, *told):
            found.update(content(values).encode())
        return found.hexdigest()


def _name(likelihood: Any) -> str:
    return likelihood if isinstance(likelihood, str) else likelihood.name
