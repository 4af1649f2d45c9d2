"""What was told of reports and of people, as columns of the polygons and in sentences."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from vbagg.geo.files import percent, plural, some
from vbagg.geo.grid import Floats
from vbagg.geo.people_errors import INDEPENDENT, PeopleErrors, PopulationSd
from vbagg.geo.polygons import Polygons, free_name
from vbagg.geo.told import RELATIVE_SD, Told
from vbagg.language import marks
from vbagg.numerals import rate, span
from vbagg.texts import texts_in
from vbagg.wording import sentence

if TYPE_CHECKING:
    from vbagg.geo.prepared import Prepared

TINY = 0.01
"""Relative standard deviation below which it hardly changes anything."""
MUCH = 0.01
"""Part of the people without a standard deviation from which on it is told."""


def with_told(
    polygons: Polygons, told: Told, doubt: PopulationSd, errors: PeopleErrors | None
) -> tuple[Polygons, Told, list[str]]:
    """Polygons with all that was told as columns, which columns these are, and sentences on what they mean."""
    notes = [text for _, text in assumptions(polygons, told, doubt, errors)]
    notes += [] if errors is None else gaps_of(polygons, errors)
    if doubt.relative is not None:
        values = np.full(len(polygons), doubt.relative)
    elif errors is not None:
        values = np.minimum(errors.relative, 1.0)
    else:
        return polygons, told, notes
    name = free_name(RELATIVE_SD, polygons.frame)
    return replace(polygons, frame=polygons.frame.assign(**{name: values})), replace(told, sd=name), notes


def assumptions(
    polygons: Polygons, told: Told, doubt: PopulationSd, errors: PeopleErrors | None
) -> list[tuple[str, str]]:
    """What totals and people are taken for: where that was told, and a sentence."""
    found = []
    if told.completeness is not None:
        file = polygons.file_of(told.completeness)
        found.append((f"{file}, column {told.completeness}", completeness_note(polygons, told.completeness)))
    if told.sd is not None:
        file, column = polygons.file_of(told.sd), told.sd
        off = _off(*ends(polygons.frame[column].to_numpy()))
        found.append((f"{file}, column {column}", f"{file}: {off} (column {column!r}), {ALIKE}."))
    if doubt.relative is not None:
        found.append(("settings", f"`--population-sd`: {_off(doubt.relative, doubt.relative)}, {ALIKE}."))
    if errors is not None:
        how = "with independent errors of cells" if errors.errors == INDEPENDENT else ALIKE
        file = errors.alignment.layer.file
        found.append((file, f"{file}: {_off(*ends(errors.relative[errors.people > 0]))}, {how}."))
    return found


ALIKE = "all cells of a polygon alike; the more a polygon's may be, the less its total tells of its own cells"


def completeness_note(polygons: Polygons, column: str) -> str:
    """What is taken to be reported."""
    low, high = ends(polygons.frame[column].to_numpy())
    return (
        f"{polygons.file_of(column)}: totals are taken for the share {column!r} of what occurred ({rate(low)} to "
        f"{rate(high)}); rates, and fitted totals, are those of all that occurred."
    )


def gaps_of(polygons: Polygons, errors: PeopleErrors) -> list[str]:
    """Where a raster of standard deviations has none, if that is much."""
    gone = errors.unknown.sum()
    if gone <= MUCH * errors.people.sum():
        return []
    bare = polygons.labels[np.flatnonzero(errors.unknown > 0.5 * errors.people)].tolist()
    names = f": most of those in {plural(len(bare), 'polygon')} ({some(bare)})" if bare else ""
    share = percent(gone, errors.people.sum())
    return [
        f"{errors.alignment.layer.file}: {share} of the people live in cells without a standard deviation, and were "
        f"taken for exact{names}."
    ]


def assumed(prepared: Prepared) -> list[str]:
    """What totals and people were taken for, for the report."""
    say, told = texts_in(), prepared.told
    found = []
    if told.completeness is not None:
        found.append(say("assumed.completeness", column=told.completeness))
    if told.sd is not None:
        off = _off(*ends(prepared.polygons.frame[told.sd].to_numpy()))
        found.append(f"{sentence(off)}. {say('assumed.less_certain')}")
    return found


def ends(values: Floats) -> tuple[float, float]:
    """Least and largest of those that are known."""
    return float(np.nanmin(values, initial=np.inf)), float(np.nanmax(values, initial=-np.inf))


def _off(low: float, high: float) -> str:
    by = _percent(low) if low == high else span(low, high, _percent)
    return texts_in()("assumed.off", share=by)


def _percent(value: float) -> str:
    return f"{rate(100 * value)}{marks().percent}"
