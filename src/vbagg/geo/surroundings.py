"""What lies around a map, for orientation: coasts, borders and cities, in the map's range of longitudes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import compress

import numpy as np
import shapely
from numpy.typing import NDArray

from vbagg.geo.align import bounds_in
from vbagg.geo.atlas import Cities, Line, world_cities, world_lines
from vbagg.geo.display import DEGREES
from vbagg.geo.grid import Bounds, Floats, Grid, transformer
from vbagg.geo.longitudes import near

TURN = 360.0
WIDEST, TALLEST = 1.8, 1.35
"""Width over height of the widest window that shows a map, and height over width of the tallest."""
SPARE = 1.2
"""Sides of the frame around a map over those of the window: a little beyond what is shown at first."""
FINEST, FINEST_PRINTED = 1 / 4000, 1 / 1500
"""Part of the longer side of a frame by which lines are simplified at least, of maps to zoom into and of pictures."""
MOST_POINTS = 12_000
"""Of all lines of a frame."""
MOST_CITIES, MOST_BEYOND = 300, 60
"""Cities on a map, and beyond its edges."""
ASKED = 60
"""Cells of which it is asked whether they lie on land."""
ON_LAND = 0.5
"""Least share of them, for a map of a real place."""


@dataclass(frozen=True, eq=False)
class Surroundings:
    """Coasts, borders, and cities, the largest first."""

    lines: tuple[Line, ...]
    cities: Cities

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to show."""
        return not self.lines and not len(self.cities)


def around(bounds: Bounds) -> Surroundings:
    """What any window shows that a map of these bounds, in degrees, fills from side to side or from top to bottom."""
    frame = window(bounds)
    cities = _placed_near(frame)
    on_map, in_frame = (_inside(cities.places, box) for box in (bounds, frame))
    shown = [*np.flatnonzero(on_map)[:MOST_CITIES], *np.flatnonzero(in_frame & ~on_map)[:MOST_BEYOND]]
    return Surroundings(_lines_in(frame, FINEST), cities.chosen(np.sort(np.array(shown, dtype=np.intp))))


def within(frame: Bounds) -> Surroundings:
    """What lies inside a frame in degrees, as a picture shows it."""
    cities = _placed_near(frame)
    inside = np.flatnonzero(_inside(cities.places, frame))
    return Surroundings(_lines_in(frame, FINEST_PRINTED), cities.chosen(inside[:MOST_CITIES]))


def window(bounds: Bounds) -> Bounds:
    """The bounds with room at their sides, or above and below, for windows of other shapes."""
    west, south, east, north = bounds
    shrink = max(0.2, math.cos(math.radians((south + north) / 2)))
    wide = max(east - west, min(TURN, WIDEST * (north - south) / shrink))
    tall = max(north - south, TALLEST * (east - west) * shrink)
    x, y, half_wide, half_tall = (west + east) / 2, (south + north) / 2, SPARE * wide / 2, SPARE * tall / 2
    return x - half_wide, max(-90.0, y - half_tall), x + half_wide, min(90.0, y + half_tall)


def clipped(lines: Sequence[Line], frame: Bounds) -> tuple[Line, ...]:
    """The parts of lines that lie inside a frame, at every turn that it reaches."""
    west, south, east, north = frame
    boxes = _boxes(lines)
    first, last = (west - boxes[:, 2].max()) / TURN, (east - boxes[:, 0].min()) / TURN
    parts = []
    for turn in range(math.ceil(first), math.floor(last) + 1):
        shift = np.array([TURN * turn, 0.0])
        left, bottom, right, top = (boxes + np.tile(shift, 2)).T
        reached = (left <= east) & (right >= west) & (bottom <= north) & (top >= south)
        for line in compress(lines, reached):
            inside = shapely.clip_by_rect(shapely.LineString(line.points + shift), west, south, east, north)
            for part in shapely.get_parts(inside):
                if part.geom_type == "LineString" and part.length > 0:
                    parts.append(Line(shapely.get_coordinates(part), line.is_border))
    return tuple(parts)


def simplified(lines: Sequence[Line], tolerance: float, most: int = MOST_POINTS) -> tuple[Line, ...]:
    """The same lines with fewer points, and without islands that are smaller than the tolerance.

    Parameters
    ----------
    lines
        Coasts and borders.
    tolerance
        Degrees that a line may be off; doubled until there are not too many points.
    most
        So many points of all lines are not too many.
    """
    large = [line for line in lines if not _is_closed(line) or np.ptp(line.points, axis=0).max() > tolerance]
    shapes = shapely.simplify([shapely.LineString(line.points) for line in large], tolerance, preserve_topology=False)
    pairs = [(shape, line) for shape, line in zip(shapes, large, strict=True) if shape.length > 0]
    fewer = tuple(Line(shapely.get_coordinates(shape), line.is_border) for shape, line in pairs)
    return fewer if sum(len(line.points) for line in fewer) <= most else simplified(fewer, 2 * tolerance, most)


def lies_on_land(values: Floats, grid: Grid) -> bool:
    """Whether the cells that have a value are those of a real place: most lie on land, or there is a city in one.

    The latter is asked since coasts of small islands are not known.
    """
    row, column = np.nonzero(np.isfinite(values))
    some = np.unique(np.linspace(0, len(row) - 1, ASKED).astype(int)) if len(row) else slice(0)
    x, y = transformer(grid.crs, DEGREES).transform(*grid.coordinates(column[some] + 0.5, row[some] + 0.5))
    places = np.column_stack([x, y])
    places = places[np.isfinite(places).all(axis=1)]
    if not len(places):
        return False
    return bool(np.mean([is_on_land(place) for place in places]) >= ON_LAND) or _has_city(values, grid)


def is_on_land(place: Floats) -> bool:
    """Whether the way from a longitude and latitude to the North Pole crosses coasts an odd number of times."""
    starts, ends = _coast_segments()
    longitude, latitude = place
    crossings = 0
    for x in longitude + TURN * np.arange(-2, 3):
        across = np.flatnonzero((starts[:, 0] <= x) != (ends[:, 0] <= x))
        (x0, y0), (x1, y1) = starts[across].T, ends[across].T
        crossings += int(np.sum(y0 + (x - x0) / (x1 - x0) * (y1 - y0) > latitude))
    return crossings % 2 == 1


def _has_city(values: Floats, grid: Grid) -> bool:
    """Whether a city lies in one of the cells that have a value."""
    frame = bounds_in(grid, DEGREES)
    cities = _placed_near(frame).places
    x, y = transformer(DEGREES, grid.crs).transform(*cities[_inside(cities, frame)].T)
    column, row = (np.floor(position) for position in grid.positions(x, y))
    inside = (row >= 0) & (row < grid.height) & (column >= 0) & (column < grid.width)
    return bool(np.isfinite(values[row[inside].astype(int), column[inside].astype(int)]).any())


def _lines_in(frame: Bounds, finest: float) -> tuple[Line, ...]:
    west, south, east, north = frame
    return simplified(clipped(world_lines(), frame), finest * max(east - west, north - south))


def _placed_near(frame: Bounds) -> Cities:
    """All cities, with longitudes as near to the middle of a frame as they can be."""
    cities = world_cities()
    longitudes = near(cities.places[:, 0], (frame[0] + frame[2]) / 2, DEGREES)
    return Cities(cities.names, np.column_stack([longitudes, cities.places[:, 1]]), cities.people)


def _inside(places: Floats, frame: Bounds) -> NDArray[np.bool_]:
    west, south, east, north = frame
    x, y = places.T
    return (x >= west) & (x <= east) & (y >= south) & (y <= north)


def _boxes(lines: Sequence[Line]) -> Floats:
    """West, south, east and north of each line."""
    points = np.concatenate([line.points for line in lines])
    first = np.cumsum([0, *(len(line.points) for line in lines[:-1])])
    return np.hstack([np.minimum.reduceat(points, first), np.maximum.reduceat(points, first)])


def _is_closed(line: Line) -> bool:
    return bool((line.points[0] == line.points[-1]).all())


@lru_cache(maxsize=1)
def _coast_segments() -> tuple[Floats, Floats]:
    """First and last points of the segments of all coasts."""
    coasts = [line.points for line in world_lines() if not line.is_border]
    return np.concatenate([points[:-1] for points in coasts]), np.concatenate([points[1:] for points in coasts])
