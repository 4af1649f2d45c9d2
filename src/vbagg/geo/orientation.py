"""Coasts, borders and cities on figures of maps."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import shapely
from matplotlib.artist import Artist
from matplotlib.collections import LineCollection
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke
from matplotlib.text import Text
from matplotlib.transforms import Bbox, IdentityTransform

from vbagg.geo.align import bounds_in
from vbagg.geo.atlas import Line
from vbagg.geo.display import DEGREES
from vbagg.geo.grid import Bounds, Floats, Grid, is_geographic, transformer
from vbagg.geo.longitudes import near
from vbagg.geo.surroundings import within

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.backend_bases import RendererBase

CREDIT = "Natural Earth, GeoNames (CC BY 4.0)"
COAST, BORDER = "#2f6690", "0.33"
MOST_NAMES = 10
NAME_SIZE, DOT_SIZE, CREDIT_SIZE = 8.0, 3.5, 5.5
GAP = 3.5
"""Points between the middle of a dot and its name, and between names."""
APART = 36.0
"""Points between the dots of two cities that are shown: a suburb says little beside its city."""
LONGEST_STEP = 0.5
"""Degrees between points of a line: straight ones bend on a projected map."""


def orient(axes: Axes, crs: str) -> None:
    """Draw thin coasts and borders, and the largest cities with their names, inside the limits of a map."""
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    limits = (left, bottom, right, top)
    with np.errstate(invalid="ignore"):  # corners may lie beyond the edge of the world
        frame = bounds_in(Grid(crs, (right - left, 0.0, left, 0.0, bottom - top, top), 1, 1), DEGREES)
    if not np.isfinite(frame).all():
        return
    found = within(frame)
    if found.is_empty:
        return
    _draw_lines(axes, found.lines, limits, crs)
    axes.add_artist(CityNames(found.cities.names, _placed(found.cities.places, limits, crs)))
    look: dict[str, Any] = {"size": CREDIT_SIZE, "color": "0.3", "path_effects": _halo(1.2), "zorder": 4}
    axes.text(0.995, 0.005, CREDIT, transform=axes.transAxes, ha="right", va="bottom", **look)


class CityNames(Artist):
    """Dots with names that do not touch. How many have room shows when the figure is drawn, at its true size.

    Attributes
    ----------
    shown
        Names and where they were drawn, in pixels.
    """

    def __init__(self, names: Sequence[str], places: Floats) -> None:
        super().__init__()
        self._cities = list(zip(names, places, strict=True))
        self.shown: list[tuple[str, Bbox]] = []
        self.set_zorder(4)
        self.set_in_layout(False)

    def draw(self, renderer: RendererBase) -> None:
        """Draw the first ones that have room."""
        assert self.axes is not None
        self.shown, room = [], self.axes.get_window_extent()
        taken: list[Bbox] = []
        dots: list[Floats] = []
        for name, place in self._cities:
            if len(self.shown) == MOST_NAMES:
                return
            dot = self.axes.transData.transform(place)
            if any(math.dist(dot, other) < self._pixels(APART) for other in dots):
                continue
            text, mark = self._text(name), Bbox([dot, dot])
            beside = self._beside(dot, text.get_window_extent(renderer))
            free = next((box for box in beside if _is_free(box, taken, room)), None)
            if free is None or not _is_free(mark, taken, room):
                continue
            text.set_position((free.x0, free.y0))
            for artist in (self._dot(dot), text):
                artist.draw(renderer)
            taken += [mark.padded(self._pixels(DOT_SIZE / 2)), free.padded(self._pixels(GAP))]
            dots.append(dot)
            self.shown.append((name, free))

    def _pixels(self, points: float) -> float:
        figure = self.get_figure(root=True)
        assert figure is not None
        return points * figure.dpi / 72

    def _beside(self, dot: Floats, name: Bbox) -> Iterator[Bbox]:
        """Where a name may stand: to the right of its dot, to the left, above or below."""
        (x, y), (wide, high) = dot, name.size
        gap = self._pixels(GAP)
        corners = (
            (x + gap, y - high / 2),
            (x - gap - wide, y - high / 2),
            (x - wide / 2, y + gap),
            (x - wide / 2, y - gap - high),
        )
        for left, bottom in corners:
            yield Bbox.from_bounds(left, bottom, wide, high)

    def _dot(self, place: Floats) -> Line2D:
        look: dict[str, Any] = {"marker": "o", "markersize": DOT_SIZE, "color": "black", "markeredgewidth": 0.5}
        return self._ours(Line2D(*place[:, None], markeredgecolor="white", **look))

    def _text(self, name: str) -> Text:
        look: dict[str, Any] = {"size": NAME_SIZE, "color": "black", "path_effects": _halo(1.6), "parse_math": False}
        return self._ours(Text(0, 0, name, va="bottom", **look))

    def _ours(self, artist: Any) -> Any:
        """A part of the same figure, placed in pixels."""
        artist.set_figure(self.figure)
        artist.set_transform(IdentityTransform())
        return artist


def _is_free(box: Bbox, taken: Sequence[Bbox], room: Bbox) -> bool:
    inside = room.x0 <= box.x0 and box.x1 <= room.x1 and room.y0 <= box.y0 and box.y1 <= room.y1
    return inside and not any(box.overlaps(other) for other in taken)


def _halo(width: float) -> list[Any]:
    return [withStroke(linewidth=width, foreground="white", alpha=0.85)]


def _draw_lines(axes: Axes, lines: Sequence[Line], limits: Bounds, crs: str) -> None:
    """Coasts, and borders in dashes, above the map and below outlines."""
    for is_border, colour, style in ((False, COAST, "solid"), (True, BORDER, (0, (4, 2)))):
        chosen = [shapely.LineString(line.points) for line in lines if line.is_border == is_border]
        dense = chosen if is_geographic(crs) else shapely.segmentize(chosen, LONGEST_STEP)
        placed = [_placed(shapely.get_coordinates(line), limits, crs) for line in dense]
        pieces = [piece for points in placed for piece in _pieces(points, limits)]
        look: dict[str, Any] = {"colors": colour, "linewidths": 0.6, "linestyles": [style], "zorder": 1.5}
        axes.add_collection(LineCollection(pieces, **look), autolim=False)


def _pieces(points: Floats, limits: Bounds) -> list[Floats]:
    """Parts of a line on a projected map that do not run over its edge to the other side, or off the plane."""
    left, bottom, right, top = limits
    steps = np.abs(np.diff(points, axis=0)) <= 0.5 * np.array([right - left, top - bottom])
    return [part for part in np.split(points, np.flatnonzero(~steps.all(axis=1)) + 1) if len(part) > 1]


def _placed(places: Floats, limits: Bounds, crs: str) -> Floats:
    """Longitudes and latitudes (n, 2) on the map, in its range of longitudes if it has such."""
    x, y = transformer(DEGREES, crs).transform(*places.T)
    if is_geographic(crs):
        x = near(np.asarray(x), (limits[0] + limits[2]) / 2, crs)
    return np.column_stack([x, y])
