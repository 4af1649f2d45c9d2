"""The section of a report on survey points: what was learnt of them, and what they change."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vbagg.colours import ColourScale
from vbagg.geo import plots
from vbagg.geo.files import percent
from vbagg.geo.points import TRIALS
from vbagg.geo.ratio import RATIO
from vbagg.geo.units import Units
from vbagg.numerals import count, level, rate, share, with_span
from vbagg.report import Explained, Figure, Section, Table
from vbagg.texts import texts_in
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
    blocks += _figures(run, prepared, points, units, maps, folder, scales)
    return Section(texts_in()("points.section"), "points", blocks)


def _counted(points: Points) -> str:
    """How many there are, where, and what was found in all."""
    say, found = texts_in(), points.table["found"].sum()
    cells = say("points.cells", n=points.table["cell"].nunique())
    text = say("points.counted", n=len(points), file=points.file, cells=cells)
    if points.sized_by is None:
        return text
    size = points.table["size"].sum()
    told = {"found": count(found), "response": points.response, "size": count(size), "base": points.size}
    if points.sized_by == TRIALS:
        return f"{text} {say('points.positive', share=percent(found, size), **told)}"
    return f"{text} {say('points.among', **told)}"


def _learnt(own: FittedObservations) -> str:
    """In words."""
    say = texts_in()
    if own.intercept is None or own.intercept_sd is None:
        return say("points.same_likelihood")
    low, high = (own.intercept + sign * 1.96 * own.intercept_sd for sign in (-1, 1))
    text = say("points.own_likelihood", likelihood=own.likelihood, link=own.link, slope=rate(own.slope))
    if own.link == "logistic":
        middle, low, high = (1 / (1 + np.exp(-value)) for value in (own.intercept, low, high))
        return f"{text} {say('points.would_find', share=with_span(middle, low, high, share))}"
    return f"{text} {say('points.intercept', value=with_span(own.intercept, low, high, rate))}"


def _change(run: Run, response: str, maps: Path, units: Units) -> Table:
    say, change = texts_in(), read_change(maps)
    rows: list[list[str | float | Explained | None]] = [
        [say("points.mean_rate", units=units.rate), change.rate, change.other_rate],
        [say("points.mean_width", level=level(run.settings.maps.level)), change.width, change.other_width],
    ]
    validation = run.validation(response)
    if validation is not None:
        scores = validation.scores()
        if WITHOUT in scores.index:
            rows += [_scored(scores, key) for key in SCORES if key in scores]
    caption = say("points.caption", weighed=units.weighed, factor=rate(change.factor))
    return Table(["", say("points.with"), say("points.without")], rows, caption)


def _scored(scores: pd.DataFrame, key: str) -> list[str | float | Explained | None]:
    """What a score says, and that of both models."""
    return [label(texts_in(), key), *(WRITTEN[key][1](float(scores.loc[name, key])) for name in ("vbagg", WITHOUT))]


def _figures(
    run: Run,
    prepared: Prepared,
    points: Points,
    units: Units,
    maps: Path,
    folder: Path,
    scales: Mapping[str, ColourScale],
) -> list[Figure]:
    into = folder / "plots" / run.file_name(units.response)
    say, places = texts_in(), points.table[["longitude", "latitude"]].to_numpy()
    shared: dict[str, Any] = {"polygons": prepared.polygons, "points": places, "oriented": is_oriented(run, maps)}
    shared["units"] = units
    drawn, ratio = (
        plots.plot_map(maps / f"{name}.tif", into / file, scale=scales.get(name), **shared)
        for name, file in (("rate_mean", "points.png"), (RATIO, "ratio.png"))
    )
    return [
        Figure(drawn, say("points.where", file=points.file, response=points.response), say("points.where_alt")),
        Figure(ratio, say("points.change"), say("points.change_alt")),
    ]
