"""Longitudes that belong together, whatever range a file has them in: 181 and -179 are the same place."""

from __future__ import annotations

from typing import Any

import numpy as np
import shapely
from numpy.typing import NDArray

from vbagg.geo.grid import unit

LONG = 0.75
"""Part of a turn from which on an edge goes the short way, across the antimeridian. Also how short, as a part of the
usual range, another range of longitudes must be to be the better one."""
WORLD = 1e9


def full_turn(crs: str) -> float:
    """A full circle in the units of a geographic CRS."""
    return round(2 * np.pi / unit(crs), 9)


def near(longitudes: NDArray[np.float64], middle: float, crs: str) -> NDArray[np.float64]:
    """The same places, each at most half a turn from a longitude."""
    turn = full_turn(crs)
    return longitudes - turn * np.round((longitudes - middle) / turn)


def gathered(shapes: NDArray[Any], turn: float) -> NDArray[Any]:
    """The same shapes with longitudes in one range, from -turn/2 unless another range is much shorter.

    Parameters
    ----------
    shapes
        Polygons whose x are longitudes: from -turn/2 to turn/2, from 0 to a turn, or either side of the antimeridian
        in one ring.
    turn
        A full circle in the units of the coordinates, 360 for degrees.
    """
    shapes = _unrolled(shapes, turn)
    bounds = shapely.bounds(shapely.get_parts(shapes))
    start = (bounds[:, 0] + turn / 2) % turn - turn / 2
    end = start + bounds[:, 2] - bounds[:, 0]
    order = np.argsort(start)
    reached = np.maximum.accumulate(end[order])
    gaps = np.append(start[order][1:], start.min() + turn) - reached
    widest = int(np.argmax(gaps))
    whole = turn if end.max() > turn / 2 else end.max() - start.min()
    if turn - gaps[widest] > LONG * whole:
        return seen_from(shapes, -turn / 2, turn)
    middle = reached[widest] + gaps[widest] / 2
    return seen_from(shapes, (middle + turn / 2) % turn - turn / 2, turn)


def seen_from(shapes: NDArray[Any], west: float, turn: float) -> NDArray[Any]:
    """The same shapes with longitudes from `west` to `west + turn`; those that reach beyond are cut there."""
    left, _, right, _ = shapely.bounds(shapes).T
    beyond = np.flatnonzero((left < west - 1e-9 * turn) | (right > west + (1 + 1e-9) * turn))
    shapes = shapes.copy()
    for at in beyond:
        turns = np.arange(np.floor((left[at] - west) / turn), np.ceil((right[at] - west) / turn))
        strips = [shapely.box(west + k * turn, -WORLD, west + (k + 1) * turn, WORLD) for k in turns]
        whole = shapes[at] if shapely.is_valid(shapes[at]) else shapely.make_valid(shapes[at])
        parts = shapely.intersection(whole, strips)
        shapes[at] = shapely.union_all([_moved(part, -k * turn) for part, k in zip(parts, turns, strict=True)])
    return shapes


def _moved(shape: Any, by: float) -> Any:
    return shapely.transform(shape, lambda points: points + np.array([by, 0.0]))


def _unrolled(shapes: NDArray[Any], turn: float) -> NDArray[Any]:
    """Shapes whose rings jump from one side of the antimeridian to the other go on beyond it instead."""
    left, _, right, _ = shapely.bounds(shapes).T
    shapes = shapes.copy()
    for at in np.flatnonzero(right - left > LONG * turn):
        parts = [_unrolled_polygon(part, turn) for part in shapely.get_parts(shapes[at])]
        if any(new is not old for new, old in zip(parts, shapely.get_parts(shapes[at]), strict=True)):
            shapes[at] = shapely.multipolygons(parts) if len(parts) > 1 else parts[0]
    return shapes


def _unrolled_polygon(polygon: Any, turn: float) -> Any:
    if polygon.geom_type != "Polygon":
        return polygon
    rings = [shapely.get_coordinates(ring) for ring in (polygon.exterior, *polygon.interiors)]
    unrolled = [_unrolled_ring(ring, turn) for ring in rings]
    shell, *holes = unrolled
    if shell is rings[0]:
        return polygon
    middle = (shell[:, 0].min() + shell[:, 0].max()) / 2
    holes = [hole + np.array([turn * np.round((middle - hole[:, 0].mean()) / turn), 0.0]) for hole in holes]
    result = shapely.Polygon(shell, holes)
    return result if result.area > 0 else polygon


def _unrolled_ring(ring: NDArray[np.float64], turn: float) -> NDArray[np.float64]:
    """The ring itself if it does not jump, or goes around a pole."""
    steps = np.diff(ring[:, 0])
    jumps = np.where(np.abs(steps) > LONG * turn, np.round(steps / turn), 0.0)
    if not jumps.any() or jumps.sum() != 0:
        return ring
    shift = -turn * np.concatenate([[0.0], np.cumsum(jumps)])
    return ring + np.column_stack([shift, np.zeros(len(ring))])
