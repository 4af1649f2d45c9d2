"""Whether the maps of a run have coasts and cities around them, and which."""

from __future__ import annotations

from pathlib import Path

from vbagg.geo import plots
from vbagg.geo.display import Frame
from vbagg.geo.surroundings import around, lies_on_land
from vbagg.report import Orientation
from vbagg.texts import texts_in
from vbagg.workflow.run import Run

COARSE = 64
"""Cells along the longer side of a map that is asked whether it lies on land."""


def is_oriented(run: Run, maps: Path) -> bool:
    """Whether maps have coasts and cities: as the settings say, otherwise if they are of a place on land."""
    chosen = run.settings.report.orientation
    if chosen is not None:
        return chosen
    picture = plots.read_picture(maps / "rate_mean.tif", COARSE)
    return lies_on_land(picture.values, picture.grid)


def orientation_of(run: Run, maps: Path, frame: Frame) -> Orientation | None:
    """What the viewer shows around a map; None without coasts and cities."""
    if not is_oriented(run, maps):
        if run.settings.report.orientation is None:
            run.folder.log(
                "report: no coasts and cities, since the map does not lie on land; `--orientation` draws them"
            )
        return None
    found = around(frame.bounds)
    if found.is_empty:
        return None
    coasts, borders = (
        [line.points for line in found.lines if line.is_border == is_border] for is_border in (False, True)
    )
    say = texts_in()
    places = zip(found.cities.names, *found.cities.places.T.tolist(), strict=True)
    return Orientation(coasts, borders, list(places), say("page.surroundings"))
