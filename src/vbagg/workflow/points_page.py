"""The section of a report on survey points: what was learnt of them, and what they change."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vbagg.colours import ColourScale
from vbagg.geo import plots
from vbagg.geo.files import percent, plural
from vbagg.geo.points import TRIALS
from vbagg.geo.ratio import RATIO
from vbagg.geo.units import Units
from vbagg.numerals import count, level, rate, share, with_span
from vbagg.report import Explained, Figure, Section, Table
from vbagg.report.texts import texts_in
from vbagg.workflow.report_page.orientation import is_oriented
from vbagg.workflow.report_page.scores import WRITTEN, label
from vbagg.workflow.results import read_change
from vbagg.workflow.run import Run

if TYPE_CHECKING:
    import pandas as pd

    from vbagg.geo.points import Points
    from vbagg.geo.prepared import Prepared
    from vbagg.models.observations import FittedObservations

WITHOUT = "without points"
"""The model without points, in a validation."""
SCORES = ("mae", "crps", "coverage_95")


def points_section(
    run: Run,
    prepared: Prepared,
    response: str,
    maps: Path,
    units: Units,
    folder: Path,
    scales: Mapping[str, ColourScale],
) -> Section | None:
    """What survey points say, and what maps would be without them; None where there are none."""
    points = prepared.points
    if points is None:
        return None
    learnt = run.model(response).observations_
    blocks: list[Any] = [f"{_counted(points)} {' '.join(map(_learnt, learnt))}"]
    blocks.append(_change(run, response, maps, units))
    blocks += _figures(run, prepared, points, response, maps, folder, scales)
    return Section("Survey points", "points", blocks)


def _counted(points: Points) -> str:
    """How many there are, where, and what was found in all."""
    cells, found = points.table["cell"].nunique(), points.table["found"].sum()
    text = f"{plural(len(points), 'point')} of {points.file}, in {plural(cells, 'cell')} of the grid."
    if points.sized_by is None:
        return text
    size = points.table["size"].sum()
    if points.sized_by == TRIALS:
        return f"{text} {count(found)} {points.response} of {count(size)} {points.size} ({percent(found, size)})."
    return f"{text} {count(found)} {points.response} among {count(size)} {points.size}."


def _learnt(own: FittedObservations) -> str:
    """In words."""
    if own.intercept is None or own.intercept_sd is None:
        return "They have the likelihood of the polygons: rates in the same units."
    low, high = (own.intercept + sign * 1.96 * own.intercept_sd for sign in (-1, 1))
    text = (
        f"They have a likelihood of their own, {own.likelihood} with link {own.link}, and share the latent function "
        f"alone, with the slope {rate(own.slope)}."
    )
    if own.link == "logistic":
        middle, low, high = (1 / (1 + np.exp(-value)) for value in (own.intercept, low, high))
        return f"{text} Where the rate is the overall one, they would find {with_span(middle, low, high, share)}."
    return f"{text} Their intercept is {with_span(own.intercept, low, high, rate)}."


def _change(run: Run, response: str, maps: Path, units: Units) -> Table:
    change = read_change(maps)
    rows: list[list[str | float | Explained | None]] = [
        [f"mean rate, {units.rate}", change.rate, change.other_rate],
        [
            f"mean width of {level(run.settings.maps.level)} intervals of cells",
            change.width,
            change.other_width,
        ],
    ]
    validation = run.validation(response)
    if validation is not None:
        scores = validation.scores()
        if WITHOUT in scores.index:
            rows += [_scored(scores, key) for key in SCORES if key in scores]
    caption = (
        "The model with the points, which all other sections are about, beside the one without. Means over cells count "
        f"their {units.weighed}; scores are of polygons that were left out. Rates of a cell differ by a factor of "
        f"{rate(change.factor)} on average."
    )
    return Table(["", "with points", "without"], rows, caption)


def _scored(scores: pd.DataFrame, key: str) -> list[str | float | Explained | None]:
    """What a score says, and that of both models."""
    return [label(texts_in(), key), *(WRITTEN[key][1](float(scores.loc[name, key])) for name in ("vbagg", WITHOUT))]


def _figures(
    run: Run,
    prepared: Prepared,
    points: Points,
    response: str,
    maps: Path,
    folder: Path,
    scales: Mapping[str, ColourScale],
) -> list[Figure]:
    into = folder / "plots" / run.file_name(response)
    places = points.table[["longitude", "latitude"]].to_numpy()
    shared: dict[str, Any] = {"polygons": prepared.polygons, "points": places, "oriented": is_oriented(run, maps)}
    drawn, ratio = (
        plots.plot_map(maps / f"{name}.tif", into / file, scale=scales.get(name), **shared)
        for name, file in (("rate_mean", "points.png"), (RATIO, "ratio.png"))
    )
    return [
        Figure(drawn, f"Where {points.file} says {points.response!r}, over rates.", "Map of rates and points"),
        Figure(ratio, "What the points change: rates with them, over rates without.", "Map of the ratio of rates"),
    ]
