"""What was told of reports and of people, as columns of the polygons and in sentences."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vbagg.geo.files import percent, plural, some
from vbagg.geo.grid import Floats
from vbagg.geo.people_errors import INDEPENDENT, PeopleErrors, PopulationSd
from vbagg.geo.polygons import Polygons, free_name
from vbagg.geo.told import RELATIVE_SD, Told

TINY = 0.01
"""Relative standard deviation below which it hardly changes anything."""
MUCH = 0.01
"""Part of the people without a standard deviation from which on it is told."""


def with_told(
    polygons: Polygons, told: Told, doubt: PopulationSd, errors: PeopleErrors | None
) -> tuple[Polygons, Told, list[str]]:
    """Polygons with all that was told as columns, which columns these are, and sentences on what they mean."""
    notes, frame = [], polygons.frame
    if told.completeness is not None:
        notes.append(completeness_note(polygons, told.completeness))
    if told.sd is not None:
        low, high = ends(frame[told.sd].to_numpy())
        notes.append(f"{polygons.file_of(told.sd)}: {_off(low, high)} (column {told.sd!r}), {ALIKE}.")
    values: Floats | None = None
    if doubt.relative is not None:
        values = np.full(len(polygons), doubt.relative)
        notes.append(f"Numbers of people: {_off(doubt.relative, doubt.relative)}, {ALIKE}.")
    elif errors is not None:
        values = np.minimum(errors.relative, 1.0)
        notes += errors_notes(polygons, errors)
    if values is None:
        return polygons, told, notes
    name = free_name(RELATIVE_SD, frame)
    return replace(polygons, frame=frame.assign(**{name: values})), replace(told, sd=name), notes


ALIKE = "all cells of a polygon alike; the more a polygon's may be, the less its total tells of its own cells"


def completeness_note(polygons: Polygons, column: str) -> str:
    """What is taken to be reported."""
    low, high = ends(polygons.frame[column].to_numpy())
    return (
        f"{polygons.file_of(column)}: totals are taken for the share {column!r} of what occurred ({low:.3g} to "
        f"{high:.3g}); rates, and fitted totals, are those of all that occurred."
    )


def errors_notes(polygons: Polygons, errors: PeopleErrors) -> list[str]:
    """What a raster of standard deviations is taken to mean, and where it has none."""
    low, high = ends(errors.relative[errors.people > 0])
    how = "with independent errors of cells" if errors.errors == INDEPENDENT else ALIKE
    file = errors.alignment.layer.file
    notes = [f"{file}: {_off(low, high)}, {how}."]
    gone = errors.unknown.sum()
    if gone > MUCH * errors.people.sum():
        bare = np.flatnonzero(errors.unknown > 0.5 * errors.people)
        names = (
            f": most in {plural(bare.size, 'polygon')} ({some(polygons.labels[bare].tolist())})" if bare.size else ""
        )
        notes.append(
            f"{file}: {percent(gone, errors.people.sum())} of the people live in cells without a standard deviation, "
            f"and were taken for exact{names}."
        )
    return notes


def ends(values: Floats) -> tuple[float, float]:
    """Least and largest of those that are known."""
    return float(np.nanmin(values, initial=np.inf)), float(np.nanmax(values, initial=-np.inf))


def _off(low: float, high: float) -> str:
    span = f"{100 * low:.3g}%" if low == high else f"{100 * low:.3g}% to {100 * high:.3g}%"
    return f"the people of a polygon are taken to be off by {span} (a standard deviation)"
