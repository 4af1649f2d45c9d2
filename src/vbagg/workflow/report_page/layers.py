"""Maps of the viewer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from vbagg.colours import rate_scale
from vbagg.geo import display, plots
from vbagg.geo.map_words import words_of
from vbagg.geo.observed_totals import MISSING, SUPPRESSED, states_in
from vbagg.report import MapLayer
from vbagg.workflow import pictures
from vbagg.workflow.results import read_map

if TYPE_CHECKING:
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
        title, units = words_of(tags, subject.units)
        yield MapLayer(path.stem, label, units, values, description=title, **look)


def _mean(subject: Subject) -> MapLayer:
    level = subject.run.settings.maps.level
    ends = [f"rate_q{q:.6g}" for q in ((1 - level) / 2, (1 + level) / 2)]
    mean, _ = read_map(subject.maps / f"{RATE}.tif", subject.frame)
    scale = rate_scale(mean, subject.table["observed_rate"].to_numpy(dtype=float))
    return MapLayer(
        RATE,
        subject.say("layers.rate"),
        subject.units.rate,
        mean,
        log=scale.log,
        limits=scale.limits,
        description=subject.say("layers.rate_about"),
        lower=ends[0],
        upper=ends[1],
        interval=subject.say("layers.interval", level=subject.level),
    )


def _observed(subject: Subject, units: str) -> MapLayer:
    return MapLayer(
        OBSERVED,
        subject.say("layers.observed"),
        units,
        display.burnt(subject.table, "observed_rate", subject.frame),
        same_scale_as=RATE,
        description=" ".join(_about_observed(subject)),
    )


def _effect(subject: Subject) -> MapLayer:
    difference, say = subject.by_difference, subject.say
    return MapLayer(
        "effect",
        say("layers.effect"),
        say("layers.effect_above" if difference else "layers.effect_times"),
        display.burnt(subject.table, "effect", subject.frame),
        colours="vik",
        log=not difference,
        limits=plots.effect_limits(subject.table["effect"].to_numpy(dtype=float), difference),
        description=say("layers.effect_about"),
    )


def _about_observed(subject: Subject) -> Iterator[str]:
    """What the map of observed rates shows, and where it has none."""
    say, exposed = subject.say, subject.units.exposed
    if subject.prepared.told.completeness is None:
        yield say("layers.observed_about", exposed=exposed)
    else:
        yield say("layers.observed_reported", exposed=exposed)
    if subject.prepared.is_shared:
        yield say("layers.shared")
    states = [state for state in (MISSING, SUPPRESSED) if state in set(states_in(subject.table))]
    if states:
        kind = "both" if len(states) > 1 else states[0]
        yield say(f"layers.unknown_{kind}")
