"""Polygons: how many, how large, whether they lie on the grid, and whether they overlap."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import shapely
from numpy.typing import NDArray

from vbagg.doctor.findings import Gathered, Level
from vbagg.doctor.overlaid import Overlaid
from vbagg.doctor.words import held, most, number, plain_labels
from vbagg.geo.area_shares import NO_SHARE
from vbagg.geo.files import percent, some
from vbagg.geo.joining import NO_ROW
from vbagg.geo.names import names_column
from vbagg.geo.overlay import shares_inside
from vbagg.geo.polygons import Polygons
from vbagg.geo.prepare import INSIDE

FEW = 20
MUCH_OUTSIDE = 0.05
"""Part of a polygon outside the grid from which on it must be looked at."""
OVERLAP = 0.01
"""Part of the smaller of two polygons up to which their overlap is a sliver along a border."""
SLIVERS = 0.001
"""Part of the whole area from which on slivers are worth a word."""


def check_polygons(polygons: Polygons, responses: Sequence[str], exposure: str, found: Gathered) -> None:
    """Look at polygons on their own, and at the names of their columns."""
    n = len(polygons)
    seen = min((int((~polygons.totals(name).missing).sum()) for name in responses), default=n)
    for name in (polygons.id, *responses):
        if name.lower() == exposure:
            text = f"{polygons.path}: an id or a response must not be called {name!r}. Rename the column."
            found.add("error", "reserved-name", text, f"{polygons.file}, column {name}")
    for note in polygons.notes:
        if "invalid geometry" in note:
            text = f"{note} Look at them on a map: a repair keeps the outline, not always the intention."
            found.add("warning", "invalid-geometry", text, polygons.file)
        elif NO_ROW in note:
            found.add("warning", "no-row", note, polygons.file)
        elif NO_SHARE in note:
            found.add("warning", "no-share", note, polygons.file)
        else:
            found.add("advice", "assumed", note, polygons.file)
    if n < 2:
        text = f"{polygons.path} must hold at least 2 polygons; it holds {n}. One total says nothing of variation."
        found.add("error", "few-polygons", text, polygons.file)
    elif seen < FEW:
        which = "" if seen == n else " with a total"
        text = (
            f"{polygons.file}: there are only {seen} polygons{which}. What covariates and distance do can hardly be "
            f"learnt from fewer than {FEW} totals; expect wide intervals, and use few covariates or smaller polygons."
        )
        found.add("warning", "few-polygons", text, polygons.file)
    if polygons.catchments is None:
        _check_overlaps(polygons, found)


def check_names(polygons: Polygons, column: str | None, found: Gathered) -> str:
    """The column that a report takes the names of polygons from."""
    where = f"{polygons.file}, column {column}"
    return found.attempt("names", where, lambda: names_column(polygons, column)) or polygons.id


def check_places(laid: Overlaid, found: Gathered) -> None:
    """Look at polygons on the grid; what there is to say of catchments is said elsewhere."""
    polygons, labels = laid.polygons, laid.labels
    if polygons.catchments is not None:
        return
    inside = shares_inside(polygons, laid.grid, laid.layout.covered)
    reached = laid.layout.pixels > 0
    if not reached.all():
        out = labels[~reached].tolist()
        text = (
            f"{polygons.file}: {number(out, 'polygon lies', 'polygons lie')} outside the grid and will be left out "
            f"({some(out)}), with {held(polygons, laid.responses, ~reached)}. Use rasters that "
            "reach them, or check the CRS."
        )
        found.add("warning", "outside", text, polygons.file, out)
    partly = np.flatnonzero(reached & (inside < INSIDE))
    if partly.size:
        text = (
            f"{polygons.file}: {number(partly, 'polygon reaches', 'polygons reach')} beyond the grid, most "
            f"{most(labels, 1 - inside, partly)}. Their totals count for the part inside alone. Use rasters that cover "
            "them."
        )
        level: Level = "warning" if 1 - inside[partly].min() > MUCH_OUTSIDE else "advice"
        found.add(level, "partly-outside", text, polygons.file, labels[partly].tolist())
    across, down = laid.grid.resolution
    cells = shapely.area(polygons.geometry) / (across * down)
    tiny = np.flatnonzero(reached & (cells < 1))
    if tiny.size:
        people = f"a share of a cell's {laid.kind} by area, and " if laid.layout.shares is None else ""
        text = (
            f"{polygons.file}: {number(tiny, 'polygon is', 'polygons are')} smaller than a cell of the grid "
            f"({some(labels[tiny].tolist())}). Each gets {people}the covariates of its cell. Use finer rasters, or "
            "check their rates."
        )
        found.add("warning", "tiny", text, polygons.file, labels[tiny].tolist())


def _check_overlaps(polygons: Polygons, found: Gathered) -> None:
    shapes, labels = polygons.geometry, plain_labels(polygons)
    areas = shapely.area(shapes)
    one, other, shared = overlaps(shapes)
    share = shared / np.minimum(areas[one], areas[other])
    large = np.flatnonzero(share > OVERLAP)
    if large.size:
        order = large[np.argsort(-share[large], kind="stable")]
        pairs = [
            f"{labels[one[i]]!r} and {labels[other[i]]!r} ({percent(share[i], 1.0)} of the smaller)" for i in order
        ]
        text = (
            f"{polygons.file}: {number(large, 'pair of polygons overlaps', 'pairs of polygons overlap')}: "
            f"{some(pairs, quote=False)}. What lies in both counts in both. That is right for catchments that overlap; "
            "otherwise remove the overlap, or polygons that are there twice."
        )
        involved = labels[np.unique([one[large], other[large]])].tolist()
        found.add("warning", "overlap", text, polygons.file, involved)
    slivers = np.flatnonzero(share <= OVERLAP)
    if shared[slivers].sum() > SLIVERS * areas.sum():
        text = (
            f"{polygons.file}: {number(slivers, 'pair of neighbours overlaps', 'pairs of neighbours overlap')} in "
            f"slivers along the border, {percent(shared[slivers].sum(), areas.sum())} of the area in all. What lies "
            "there counts in both. Snap the borders to each other if that is too much."
        )
        found.add("advice", "slivers", text, polygons.file)


def overlaps(shapes: NDArray[np.object_]) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.float64]]:
    """Positions of each two shapes that share an area, and that area."""
    one, other = shapely.STRtree(shapes).query(shapes, predicate="intersects")
    one, other = one[one < other], other[one < other]
    shared = shapely.area(shapely.intersection(shapes[one], shapes[other]))
    some_area = shared > 0
    return one[some_area], other[some_area], shared[some_area]
