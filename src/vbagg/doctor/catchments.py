"""Catchments that share cells: who belongs to none, which have no cell, and whether they differ enough."""

from __future__ import annotations

from typing import Any

import numpy as np

from vbagg.doctor.findings import Gathered, Level
from vbagg.doctor.overlaid import Overlaid
from vbagg.doctor.words import held, number
from vbagg.geo.files import percent, some
from vbagg.geo.leaks import leaks_of

ALIKE = 0.2
"""How far apart catchments are, at the median, below which hardly anything can be learnt of differences within."""
MANY = 0.1
"""Part of the people who belong to no catchment from which on that must be looked at."""


def check_catchments(laid: Overlaid, found: Gathered) -> dict[str, Any]:
    """Look at catchments on the grid, if polygons are such; facts about them."""
    polygons, layout = laid.polygons, laid.layout
    if polygons.catchments is None:
        return {}
    missed = np.flatnonzero(layout.pixels == 0)
    if missed.size:
        out = laid.labels[missed].tolist()
        text = (
            f"{polygons.file}: {number(out, 'catchment has', 'catchments have')} no cell of the grid and will be left "
            f"out ({some(out)}), with {held(polygons, laid.responses, missed)}. Use smaller cells."
        )
        found.add("warning", "outside", text, polygons.file, out)
    facts: dict[str, Any] = {"kind": laid.kind, "facilities_per_cell": layout.pixels.sum() / max(1, layout.n_cells)}
    leaks = leaks_of(layout)
    if leaks is None or not leaks.attending > 0:
        return {"catchments": facts}
    facts |= {"people": leaks.people, "attending": leaks.attending, "beyond": leaks.beyond, "staying": leaks.staying}
    level: Level = "warning" if leaks.attending < (1 - MANY) * leaks.people else "advice"
    found.add(level, "leak", leaks.note(laid.kind, polygons.file), polygons.file)
    apart = float(np.nanmedian(leaks.apart))
    facts["apart"] = apart
    if apart < ALIKE and len(polygons) > 1:
        text = (
            f"{polygons.file}: catchments hardly differ: of the people of half of them, at most {percent(apart, 1)} "
            "live elsewhere than those of all facilities together. Where in the region rates are high cannot be learnt "
            "from that. Check that shares are right; for travel times, that friction is in minutes for each cell (not "
            "for each metre), and that `--decay` and `--reach` are not too long."
        )
        found.add("warning", "alike", text, polygons.file)
    return {"catchments": facts}
