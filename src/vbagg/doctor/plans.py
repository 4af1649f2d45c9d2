"""What is planned for after the fit: folds to leave out, and other polygons to add up to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from vbagg.doctor.findings import Gathered
from vbagg.doctor.overlaid import Overlaid
from vbagg.errors import did_you_mean
from vbagg.geo.files import some
from vbagg.geo.overlay import Overlay
from vbagg.geo.polygons import Polygons, read_polygons

if TYPE_CHECKING:
    from vbagg.workflow.settings import Maps, Validation

OWN_TABLE = "polygons"
"""Name of the table of the fitted polygons, which stands beside those of other polygons."""
FEWEST_TO_FIT = 2


def check_folds(laid: Overlaid, validation: Validation, found: Gathered) -> None:
    """Look at the folds that validation would use."""
    inhabited = laid.totals > 0
    if validation.skip or inhabited.sum() < FEWEST_TO_FIT:
        return
    scored = [inhabited & laid.polygons.totals(name).known for name in laid.responses] or [inhabited]
    usable = min(scored, key=np.count_nonzero)
    if usable.sum() < FEWEST_TO_FIT:
        text = (
            f"Validation needs {FEWEST_TO_FIT} polygons whose totals are known; there are {usable.sum():,}, the others "
            "are missing or suppressed. Leave it out by `--skip-validation`."
        )
        found.add("error", "folds", text, "settings")
    elif validation.fold_column is not None:
        _check_fold_column(laid.polygons, validation.fold_column, scored, found)
    elif validation.folds > usable.sum():
        text = (
            f"`folds` must not exceed the {usable.sum():,} polygons that can be used; got {validation.folds:,}. "
            "Use fewer folds, or `--skip-validation`."
        )
        found.add("error", "folds", text, "settings")


def _check_fold_column(polygons: Polygons, name: str, scored: Sequence[NDArray[np.bool_]], found: Gathered) -> None:
    """Look at a column of folds, of the polygons that are scored for each response."""
    frame, where = polygons.frame, f"{polygons.file_of(name)}, column {name}"
    known = [str(column) for column in frame.columns if column != "geometry"]
    if name not in known:
        text = f"{polygons.path} has no column {name!r} for the folds{did_you_mean(name, known)}"
        found.add("error", "folds", text, where)
        return
    missing = polygons.labels[frame[name].isna().to_numpy() & np.logical_or.reduce(scored)].tolist()
    if missing:
        text = (
            f"{polygons.path_of(name)}: the column {name!r} must name a fold for every polygon; it is empty for "
            f"{some(missing)}. Fill it in."
        )
        found.add("error", "folds", text, where, missing)
        return
    for usable in scored:
        sizes = Counter(frame[name][usable])
        left = int(usable.sum()) - max(sizes.values())
        if left < FEWEST_TO_FIT:
            text = (
                f"{polygons.path_of(name)}: every fold of {name!r} must leave {FEWEST_TO_FIT} polygons or more to fit "
                f"to; fold {max(sizes, key=sizes.__getitem__)!r} leaves {left}. Divide the polygons into more folds."
            )
            found.add("error", "folds", text, where)


def check_other_polygons(laid: Overlaid, maps: Maps, found: Gathered) -> None:
    """Read the polygons that rates would be added up to."""
    names = Counter(path.stem for path in maps.to)
    for path in maps.to:
        if names[path.stem] > 1 or path.stem == OWN_TABLE:
            taken = "another of them" if names[path.stem] > 1 else "the table of the fitted polygons"
            text = f"The files of `--to` must have names of their own; {path} has that of {taken}. Rename it."
            found.add("error", "to", text, path.name)
        polygons = found.attempt("to", path.name, partial(read_polygons, path))
        if polygons is None:
            continue
        placed = found.attempt("to", path.name, lambda polygons=polygons: polygons.to(laid.grid.crs))  # type: ignore[misc]
        if placed is not None and Overlay(placed, laid.grid).is_empty:
            text = f"{path}: at least one polygon must lie on the target grid; none does. Check the CRS."
            found.add("error", "to", text, path.name)
