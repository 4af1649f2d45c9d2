"""Maps of the viewer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from vbagg.colours import rate_scale
from vbagg.geo import display, plots
from vbagg.geo.observed_totals import MISSING, SUPPRESSED, states_in
from vbagg.report import MapLayer
from vbagg.workflow import pictures
from vbagg.workflow.results import read_map

if TYPE_CHECKING:
    import geopandas as gpd

    from vbagg.geo.prepared import Prepared
    from vbagg.workflow.report_page.subject import Subject

RATE, OBSERVED = "rate_mean", "observed"


def map_layers(subject: Subject) -> list[MapLayer]:
    """All of them."""
    return list(_layers(subject))


def _layers(subject: Subject) -> Iterator[MapLayer]:
    mean = _mean(subject)
    yield mean
    yield _observed(subject, mean.units)
    if subject.table["effect"].notna().any():
        yield _effect(subject)
    for path in subject.run.map_files(subject.response):
        if path.stem == RATE:
            continue
        values, tags = read_map(path, subject.frame)
        label, look = pictures.layer_look(path.stem, values)
        yield MapLayer(path.stem, label, tags.get("units", ""), values, description=tags.get("title", ""), **look)


def _mean(subject: Subject) -> MapLayer:
    level = subject.run.settings.maps.level
    ends = [f"rate_q{q:.6g}" for q in ((1 - level) / 2, (1 + level) / 2)]
    mean, tags = read_map(subject.maps / f"{RATE}.tif", subject.frame)
    scale = rate_scale(mean, subject.table["observed_rate"].to_numpy(dtype=float))
    return MapLayer(
        RATE,
        "Rate: mean",
        tags["units"],
        mean,
        log=scale.log,
        limits=scale.limits,
        description="Posterior mean.",
        lower=ends[0],
        upper=ends[1],
        interval=f"{subject.level} interval",
    )


def _observed(subject: Subject, units: str) -> MapLayer:
    return MapLayer(
        OBSERVED,
        "Observed rate of polygons",
        units,
        display.burnt(subject.table, "observed_rate", subject.frame),
        same_scale_as=RATE,
        description=f"One rate for each polygon: {_total(subject)} over its {subject.units.exposed}."
        f"{_drawn(subject.prepared)}{_unknown(subject.table)}",
    )


def _effect(subject: Subject) -> MapLayer:
    difference = subject.by_difference
    return MapLayer(
        "effect",
        "Totals against what is expected",
        "above" if difference else "times",
        display.burnt(subject.table, "effect", subject.frame),
        colours="vik",
        log=not difference,
        limits=plots.effect_limits(subject.table["effect"].to_numpy(dtype=float), difference),
        description="One number for each polygon: how far its total is above what covariates and neighbours give.",
    )


def _total(subject: Subject) -> str:
    """What a rate is made of, in words."""
    told = subject.prepared.told.completeness
    return "its total" if told is None else "its total, divided by the share that is reported,"


def _drawn(prepared: Prepared) -> str:
    """How polygons stand for catchments, if they do."""
    return " Catchments share cells; each is drawn where its share is the largest." if prepared.is_shared else ""


def _unknown(table: gpd.GeoDataFrame) -> str:
    """Where the map of observed rates has none."""
    known = set(states_in(table))
    states = [state for state in (MISSING, SUPPRESSED) if state in known]
    return f" None where the total is {' or '.join(states)}." if states else ""
