"""The section of a report on survey points: what was learnt of them, and what they change."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vbagg.geo import plots
from vbagg.geo.files import percent, plural
from vbagg.geo.points import TRIALS
from vbagg.geo.ratio import RATIO
from vbagg.geo.units import Units
from vbagg.report import Figure, Section, Table
from vbagg.workflow.orientation import is_oriented
from vbagg.workflow.results import read_change
from vbagg.workflow.run import Run

if TYPE_CHECKING:
    from vbagg.geo.points import Points
    from vbagg.geo.prepared import Prepared
    from vbagg.models.observations import FittedObservations

WITHOUT = "without points"
"""The model without points, in a validation."""
SCORES = {
    "crps": "CRPS of polygons that were left out",
    "mae": "mean error of polygons that were left out",
    "coverage_95": "share of them inside their 95% interval",
}


def points_section(
    run: Run, prepared: Prepared, response: str, maps: Path, units: Units, folder: Path, log: bool
) -> Section | None:
    """What survey points say, and what maps would be without them; None where there are none."""
    points = prepared.points
    if points is None:
        return None
    learnt = run.model(response).observations_
    blocks: list[Any] = [f"{_counted(points)} {' '.join(map(_learnt, learnt))}"]
    blocks.append(_change(run, response, maps, units))
    blocks += _figures(run, prepared, points, response, maps, folder, log)
    return Section("Survey points", "points", blocks)


def _counted(points: Points) -> str:
    """How many there are, where, and what was found in all."""
    cells, found = points.table["cell"].nunique(), points.table["found"].sum()
    text = f"{plural(len(points), 'point')} of {points.file}, in {plural(cells, 'cell')} of the grid."
    if points.sized_by is None:
        return text
    size = points.table["size"].sum()
    if points.sized_by == TRIALS:
        return f"{text} {found:,.10g} {points.response} of {size:,.10g} {points.size} ({percent(found, size)})."
    return f"{text} {found:,.10g} {points.response} among {size:,.10g} {points.size}."


def _learnt(own: FittedObservations) -> str:
    """In words."""
    if own.intercept is None or own.intercept_sd is None:
        return "They have the likelihood of the polygons: rates in the same units."
    low, high = (own.intercept + sign * 1.96 * own.intercept_sd for sign in (-1, 1))
    text = (
        f"They have a likelihood of their own, {own.likelihood} with link {own.link}, and share the latent function "
        f"alone, with the slope {own.slope:.3g}."
    )
    if own.link == "logistic":
        middle, low, high = (1 / (1 + np.exp(-value)) for value in (own.intercept, low, high))
        return f"{text} Where the rate is the overall one, they would find {middle:.1%} ({low:.1%} to {high:.1%})."
    return f"{text} Their intercept is {own.intercept:.3g} ({low:.3g} to {high:.3g})."


def _change(run: Run, response: str, maps: Path, units: Units) -> Table:
    change = read_change(maps)
    rows: list[list[str | float | None]] = [
        [f"mean rate, {units.rate}", change.rate, change.other_rate],
        [f"mean width of {100 * run.settings.maps.level:g}% intervals of cells", change.width, change.other_width],
    ]
    validation = run.validation(response)
    if validation is not None:
        scores = validation.scores()
        if WITHOUT in scores.index:
            pairs = {title: [float(scores.loc[name, key]) for name in ("vbagg", WITHOUT)]
                     for key, title in SCORES.items() if key in scores}  # fmt: skip
            rows += [[title, *pair] for title, pair in pairs.items()]
    caption = (
        "The model with the points, which all other sections are about, beside the one without. Means over cells count "
        f"their {units.weighed}. Rates of a cell differ by a factor of {change.factor:.3g} on average."
    )
    return Table(["", "with points", "without"], rows, caption)


def _figures(
    run: Run, prepared: Prepared, points: Points, response: str, maps: Path, folder: Path, log: bool
) -> list[Figure]:
    into = folder / "plots" / run.file_name(response)
    places = points.table[["longitude", "latitude"]].to_numpy()
    shared: dict[str, Any] = {"polygons": prepared.polygons, "points": places, "oriented": is_oriented(run, maps)}
    drawn = plots.plot_map(maps / "rate_mean.tif", into / "points.png", log=log, **shared)
    ratio = plots.plot_map(
        maps / f"{RATIO}.tif",
        into / "ratio.png",
        log=True,
        limits=plots.around_one(plots.read_picture(maps / f"{RATIO}.tif").values),
        **shared,
    )
    return [
        Figure(drawn, f"Where {points.file} says {points.response!r}, over rates.", "Map of rates and points"),
        Figure(ratio, "What the points change: rates with them, over rates without.", "Map of the ratio of rates"),
    ]
