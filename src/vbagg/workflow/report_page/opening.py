"""The first paragraph of a page, for a reader who reads no further."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from vbagg import numerals
from vbagg.geo.observed_totals import MISSING, SUPPRESSED
from vbagg.workflow.report_page.key_figures import Sums, reported_share

if TYPE_CHECKING:
    import pandas as pd

    from vbagg.report import MapLayer
    from vbagg.texts import Texts
    from vbagg.workflow.report_page.subject import Subject

NAMED = 3
"""Districts that are named."""
DIGITS = 3
"""Of large numbers, which are the same at a glance."""


def opening(subject: Subject, sums: Sums, layers: list[MapLayer]) -> str:
    """How much there is, where, where the rate is highest, and how sure that is."""
    return " ".join(_sentences(subject, sums, layers))


def subtitle(subject: Subject, made: str) -> str:
    """When, by whom and what: parts in a line."""
    chosen, say = subject.run.settings.report, subject.say
    told = [("period", chosen.period), ("source", chosen.source), ("made", made)]
    return " · ".join(say(f"opening.{name}", value=value) for name, value in told if value)


def _sentences(subject: Subject, sums: Sums, layers: list[MapLayer]) -> Iterator[str]:
    counted = _counted(subject, sums)
    yield counted[0].upper() + counted[1:]
    if subject.prepared.told.completeness:
        yield subject.say("opening.reported", share=reported_share(sums.used))
    gaps = {state: count for state, count in sums.counts.items() if count}
    if gaps:
        words = {SUPPRESSED: "only_suppressed"} if MISSING not in gaps else {}
        names = [subject.say(f"opening.{words.get(state, state)}", n=count) for state, count in gaps.items()]
        yield subject.say("opening.gaps", which=subject.say.listed(names))
    yield from _highest(subject)
    yield from _burden(subject)
    yield from _sureness(subject, layers)


def _counted(subject: Subject, sums: Sums) -> str:
    say, units, trials = subject.say, subject.units, subject.run.settings.model.trials
    kind = "trials" if trials is not None else subject.prepared.exposure
    low, high = sums.rate
    return say(
        f"opening.counted_{kind}",
        n=len(sums.used),
        total=_about(say, sums.total, numerals.count),
        response=subject.response,
        trials=trials,
        base=_rounded(sums.base if trials is not None else sums.people),
        rate=_about(say, (low, high), numerals.rate),
        per=numerals.given(units.per),
    )


def _about(say: Texts, ends: tuple[float, float], write: numerals.Write) -> str:
    """A number, or the numbers between which it is."""
    low, high = (_rounded(end) if abs(end) >= 1000 and np.isfinite(end) else write(end) for end in ends)
    if np.isinf(ends[1]):
        return say("numbers.at_least", low=low)
    return low if low == high else say("numbers.between", low=low, high=high)


def _rounded(value: float) -> str:
    """A large number with few digits."""
    if value == 0:
        return "0"
    places = DIGITS - 1 - int(np.floor(np.log10(abs(value))))
    return numerals.count(round(value, min(places, 0)))


def _highest(subject: Subject) -> Iterator[str]:
    """Where rates are highest."""
    table = subject.named[subject.named["rate"].notna()]
    if len(table) <= NAMED:
        return
    top = table.nlargest(NAMED, "rate")
    per = numerals.given(subject.units.per)
    kind = "risk" if subject.units.is_relative else "rate"
    in_full = 0 if kind == "rate" else None
    first, *others = [
        subject.say("opening.name_rate" if at == in_full else "opening.name_number", name=name, rate=rate, per=per)
        for at, (name, rate) in enumerate(zip(_names(subject, top), map(numerals.rate, top["rate"]), strict=True))
    ]
    yield subject.say(f"opening.highest_{kind}", names=subject.say.listed([first, *others]))


def _burden(subject: Subject) -> Iterator[str]:
    """Which districts have the most."""
    if not subject.units.has_counts or subject.run.settings.data.negative:
        return
    table = subject.named
    totals = table["fitted"] if subject.prepared.told.completeness else table["observed"].fillna(table["fitted"])
    if totals.count() <= NAMED or not totals.sum() > 0:
        return
    top = totals.nlargest(NAMED)
    names = _names(subject, table.loc[top.index])
    part = numerals.share(float(top.sum() / totals.sum()))
    yield subject.say("opening.burden", response=subject.response, names=subject.say.listed(names), share=part)


def _names(subject: Subject, rows: pd.DataFrame) -> list[str]:
    return [str(name) for name in rows[subject.prepared.polygons.id]]


def _sureness(subject: Subject, layers: list[MapLayer]) -> Iterator[str]:
    """How far off the map may be at a typical place."""
    maps = {layer.name: layer.values for layer in layers}
    mean = next(layer for layer in layers if layer.name == "rate_mean")
    if mean.lower not in maps or mean.upper not in maps:
        return
    level = subject.level
    times = typical_factor(maps[mean.lower], maps[mean.upper], maps.get(subject.prepared.exposure))
    if times is not None:
        yield subject.say("opening.sure", times=numerals.ratio(times), level=level)


def typical_factor(
    lower: NDArray[np.float32], upper: NDArray[np.float32], people: NDArray[np.float32] | None
) -> float | None:
    """By which factor the ends of an interval differ from its middle: the median over people, None without any.

    The middle is that of logarithms, so that both ends are as far off.
    """
    weight = np.ones(lower.shape) if people is None else np.nan_to_num(people.astype(np.float64))
    use = (lower > 0) & np.isfinite(upper) & (weight > 0)
    if np.sum(weight[use]) <= 0.5 * np.sum(weight[np.isfinite(lower)]):
        return None
    factor = np.sqrt(upper[use].astype(np.float64) / lower[use])
    order = np.argsort(factor)
    below = np.cumsum(weight[use][order])
    return float(factor[order][np.searchsorted(below, below[-1] / 2)])
