"""Whether a population raster holds people per cell or people per area."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vbagg.errors import unknown_name
from vbagg.geo.align import source_window
from vbagg.geo.grid import Grid
from vbagg.geo.rasters import Layer
from vbagg.numerals import count

READINGS = ("guess", "counts", "density")
DENSITY_WORDS = r"dens|popden|\bpd\b|(per |/)(sq|km|ha\b|hectare)|\b(km|ha)(\^|\*\*)?-[12]\b"
COUNT_WORDS = r"count|\bppp\b|(per |/)(cell|pixel|grid)"
HECTARE_WORDS = r"(per |/)ha\b|hectare|\bha(\^|\*\*)?-1\b"
DENSEST = ((50_000.0, 2_000.0), (0.0, 60_000.0))  # at least so many km2, at most so many people per km2
EMPTIEST = 0.02
EVERYONE = 1e10


@dataclass(frozen=True)
class Reading:
    """How a population raster is read.

    Attributes
    ----------
    density
        None for counts; otherwise people per square kilometre for each unit of the raster.
    note
        How it was read and why, in a sentence.
    """

    density: float | None
    note: str


def read_population_as(layer: Layer, grid: Grid, population_is: str, responses: Sequence[float]) -> Reading:
    """Decide how to read a population raster.

    Parameters
    ----------
    layer, grid
        The raster, and the target grid, which says what part of it matters.
    population_is
        `"counts"`, `"density"`, or `"guess"`: by the words in the file's name, units and description; where these
        say nothing, by which reading gives a credible number of people.
    responses
        Totals of the response columns: fewer people than that are not credible.
    """
    if population_is not in READINGS:
        raise unknown_name("population_is", population_is, READINGS)
    words = " ".join([Path(layer.path).stem, layer.source.label, layer.units]).lower().replace("_", " ")
    per_km2 = 100.0 if re.search(HECTARE_WORDS, words) else 1.0
    area, counted, spread_out = _totals(layer, grid, per_km2)
    totals = {"counts": counted, "density": spread_out}
    if population_is != "guess":
        reading, why = population_is, "as asked"
    elif re.search(DENSITY_WORDS, words):
        reading, why = "density", f"because of the words {words.strip()!r}"
    elif re.search(COUNT_WORDS, words):
        reading, why = "counts", f"because of the words {words.strip()!r}"
    else:
        credible = [name for name, total in totals.items() if _credible(total, area, max(responses, default=0.0))]
        reading = credible[0] if credible else "counts"
        why = f"a guess: {'the other is not credible' if len(credible) == 1 else 'most such files are'}"
    other = "counts" if reading == "density" else "density"
    per = (
        f"people per {'hectare' if per_km2 > 1 else 'square kilometre'}" if reading == "density" else "people per cell"
    )
    note = (
        f"{layer.file}: population was read as {per} ({why}), which gives {count(totals[reading])} people in the area "
        f"of the grid; read as {other} it would be {count(totals[other])}. Set `population_is` to say which is right."
    )
    return Reading(per_km2 if reading == "density" else None, note)


def _totals(layer: Layer, grid: Grid, per_km2: float) -> tuple[float, float, float]:
    """Square kilometres with a value, and people by either reading."""
    area = counts = density = 0.0
    for window in layer.chunks(*source_window(layer.grid, grid)):
        values = layer.read(*window).astype(np.float64)
        cells = np.where(np.isnan(values), 0.0, layer.grid.sub(*window).areas())
        values = np.nan_to_num(values)
        area += cells.sum()
        counts += values.sum()
        density += (values * cells).sum() * per_km2
    return float(area), float(counts), float(density)


def _credible(people: float, area: float, response: float) -> bool:
    densest = next(limit for size, limit in DENSEST if area >= size)
    return response <= people <= EVERYONE and EMPTIEST * area <= people <= densest * area
