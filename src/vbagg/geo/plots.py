"""Maps as pictures: observed rates of polygons, and any raster that `write_maps` wrote.

Large rasters are read with decimation, from their overviews, so a picture needs little memory whatever the grid.
"""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import shapely
from numpy.typing import NDArray

from vbagg.colours import ColourScale, Limits, beyond, colour_scale
from vbagg.drawing import FINE, literal, new_figure, save
from vbagg.geo.bands import opened
from vbagg.geo.cog import small_cache
from vbagg.geo.grid import Bounds, Grid, is_geographic, transformer, unit
from vbagg.geo.longitudes import near
from vbagg.geo.observed_totals import MISSING, SUPPRESSED, states_in
from vbagg.geo.places import DEGREES
from vbagg.geo.polygons import Polygons
from vbagg.geo.ratio import RATIO
from vbagg.geo.units import Units
from vbagg.numerals import given, tick

if TYPE_CHECKING:
    import geopandas as gpd
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]
LONGEST_SIDE = 900
"""Cells along the longer side of a picture."""
TAILS = (0.005, 0.995)
"""Quantiles of effects and ratios at the ends of their colours."""
LEAST_FACTOR = 1.05
"""At the ends of the colours of ratios, where these hardly differ from 1."""
TITLE_WIDTH = 34
"""Characters of a line that fit over the narrowest figure."""
BACKGROUND = "0.86"
LONGER, BESIDE, EDGE, NARROWEST = 4.4, 1.5, 0.6, 3.4
"""Inches: the longer side of a map, what title and legend take beside it, its marks, and the least side of a figure."""
HATCHES = {MISSING: "////", SUPPRESSED: "...."}
"""Of polygons whose totals are not known, by what is known of them."""


@dataclass(frozen=True)
class Style:
    """How a kind of map is drawn."""

    title: str
    colours: str = "batlow"
    limits: Limits | None = None
    may_be_log: bool = True


STYLES = {
    "rate_mean": Style("Predicted rate"),
    "rate_sd": Style("Uncertainty: standard deviation\nof the rate", "lapaz"),
    "rate_interval_width": Style("Uncertainty: width of the interval\nof the rate", "lapaz"),
    "exceedance": Style("Probability that the rate is above\n{threshold} {rate_units}", "lajolla_r", (0.0, 1.0), False),
    "information": Style("How much is known of what\nvaries inside polygons", limits=(0.0, 1.0), may_be_log=False),
    "expected_count": Style("Expected count"),
    "expected_count_matched": Style("Expected count, matched\nto observed totals"),
    "population": Style("Population"),
    "expected": Style("Counts expected by the exposure"),
    "extrapolation": Style("Extrapolation: red lies\nbeyond the training data", "vik", (0.0, 2.0), False),
    "extrapolation_place": Style("How little is known of the place", "lajolla_r", (0.0, 1.0), False),
    RATIO: Style("Rate with survey points,\nover that without", "vik"),
}


@dataclass(frozen=True, eq=False)
class Picture:
    """A raster with at most `LONGEST_SIDE` cells along each side, and what its file says about it."""

    values: Floats
    grid: Grid
    tags: dict[str, str]


def plot_input(
    table: gpd.GeoDataFrame,
    path: Path | str,
    units: Units,
    *,
    scale: ColourScale | None = None,
    oriented: bool = False,
) -> Path:
    """Map of the observed rate of each polygon; those whose totals are missing or suppressed are hatched.

    Parameters
    ----------
    table
        What `polygon_table` gave.
    path
        Where to write.
    units
        Units of rates.
    scale
        Colours, to share them with another map; those of the rates by default. Rates of 0 have the lowest colour.
    oriented
        Whether coasts, borders and cities are drawn.
    """
    rates = table["observed_rate"].to_numpy(dtype=np.float64)
    left, bottom, right, top = table.total_bounds.tolist()
    figure, axes = _map_figure((left, bottom, right, top), table.crs.to_wkt())
    scale = colour_scale(rates) if scale is None else scale
    shapes = table.geometry.simplify(max(right - left, top - bottom) / (2 * LONGEST_SIDE))
    filled = _filled(np.asarray(shapes.array), edgecolor="white", linewidth=0.4)
    filled.set(array=np.ma.masked_invalid(_shown(rates, scale)), **scale.style)
    axes.add_collection(filled)
    _hatch(axes, table, np.asarray(shapes.array))
    _orient(axes, table.crs.to_wkt(), oriented)
    axes.set_title("Observed rate")
    _bar(axes, filled, scale, rates, units.rate)
    return save(figure, path)


def plot_effects(
    table: gpd.GeoDataFrame, path: Path | str, *, difference: bool = False, oriented: bool = False
) -> Path:
    """Map of how far the total of each polygon is above what covariates and neighbours give.

    Parameters
    ----------
    table
        What `polygon_table` gave. Polygons that stand out have a heavy outline.
    path
        Where to write.
    difference
        Whether effects are differences, as with the identity link, and not ratios.
    oriented
        Whether coasts, borders and cities are drawn.
    """
    effects = table["effect"].to_numpy(dtype=np.float64)
    left, bottom, right, top = table.total_bounds.tolist()
    figure, axes = _map_figure((left, bottom, right, top), table.crs.to_wkt())
    scale = colour_scale(effects, "vik", not difference, effect_limits(effects, difference))
    shapes = np.asarray(table.geometry.simplify(max(right - left, top - bottom) / (2 * LONGEST_SIDE)).array)
    filled = _filled(shapes, edgecolor="0.35", linewidth=0.3)
    filled.set(array=np.ma.masked_invalid(_shown(effects, scale)), **scale.style)
    axes.add_collection(filled)
    _hatch(axes, table[np.isnan(effects)], shapes[np.isnan(effects)])
    _orient(axes, table.crs.to_wkt(), oriented)
    odd = table["stands_out"].to_numpy(dtype=bool)
    if odd.any():
        axes.add_collection(_filled(shapes[odd], facecolor="none", edgecolor="black", linewidth=1.8))
    axes.set_title("Totals against what covariates\nand neighbours give")
    what = "above what covariates and neighbours give" if difference else "times what covariates and neighbours give"
    _bar(axes, filled, scale, effects, what)
    return save(figure, path)


def effect_limits(effects: Floats, difference: bool = False) -> Limits:
    """Ends of a scale of colours with no effect in its middle, a few extreme effects apart."""
    finite = effects[np.isfinite(effects) & (difference | (effects > 0))]
    sizes = np.abs(finite if difference else np.log(finite))
    least = 1e-12 if difference else np.log(1.25)
    reach = max(float(np.quantile(sizes, TAILS[1], method="nearest")), least) if sizes.size else 1.0
    return (-reach, reach) if difference else (float(np.exp(-reach)), float(np.exp(reach)))


def plot_map(
    raster: Path | str,
    path: Path | str,
    *,
    polygons: Polygons | None = None,
    scale: ColourScale | None = None,
    points: Floats | None = None,
    oriented: bool = False,
) -> Path:
    """Picture of a map that `write_maps` wrote; title and units come from the file.

    Parameters
    ----------
    raster
        The GeoTIFF.
    path
        Where to write.
    polygons
        Polygons whose outlines are drawn.
    scale
        Colours, to share them with another map; those of the cells by default.
    points
        Longitudes and latitudes (n, 2) of places that are marked.
    oriented
        Whether coasts, borders and cities are drawn.
    """
    picture = read_picture(raster)
    values, grid, tags = picture.values, picture.grid, picture.tags
    style = STYLES.get(tags.get("map", ""), Style(tags.get("title", Path(raster).stem)))
    if scale is None:
        scale = colour_scale(values, style.colours, None if style.may_be_log else False, style.limits)
    figure, axes = _map_figure(_occupied(values, grid), grid.crs)
    left, bottom, right, top = grid.bounds
    image = axes.imshow(
        _shown(values, scale), extent=(left, right, bottom, top), interpolation="nearest", **scale.style
    )
    _place(axes, _occupied(values, grid), grid.crs)
    _orient(axes, grid.crs, oriented)
    if polygons is not None:
        _outlines(axes, polygons.to(grid.crs), max(grid.resolution))
    if points is not None:
        _mark(axes, points, grid)
    axes.set_title(literal(_titled(style, tags)))
    _bar(axes, image, scale, values, tags.get("units", ""))
    return save(figure, path)


def around_one(ratios: Floats) -> Limits:
    """Limits of colours for ratios, the same factor above and below 1."""
    known = np.abs(np.log(ratios[np.isfinite(ratios) & (ratios > 0)]))
    most = max(float(np.quantile(known, TAILS[1])) if known.size else 0.0, np.log(LEAST_FACTOR))
    return math.exp(-most), math.exp(most)


def read_picture(raster: Path | str, longest_side: int = LONGEST_SIDE) -> Picture:
    """A raster reduced by averaging."""
    from rasterio.enums import Resampling

    with small_cache(), opened(str(raster)) as dataset:
        grid = Grid.of(dataset)
        step = max(1.0, max(grid.shape) / longest_side)
        height, width = (max(1, math.ceil(side / step)) for side in grid.shape)
        values = dataset.read(1, out_shape=(height, width), resampling=Resampling.average)
        tags = dataset.tags()
    a, b, c, d, e, f = grid.transform
    wide, high = grid.width / width, grid.height / height
    reduced = Grid(grid.crs, (a * wide, b * high, c, d * wide, e * high, f), height, width)
    return Picture(values.astype(np.float64), reduced, tags)


def tags_of(raster: Path | str) -> dict[str, str]:
    """What a raster's file says about it."""
    with opened(str(raster)) as dataset:
        return dict(dataset.tags())


def _occupied(values: Floats, grid: Grid) -> Bounds:
    """Bounds of the cells that have a value, or of all."""
    valid = np.isfinite(values)
    if not valid.any():
        return grid.bounds
    rows, columns = (np.flatnonzero(valid.any(axis=axis)) for axis in (1, 0))
    return grid.sub(slice(int(rows[0]), int(rows[-1]) + 1), slice(int(columns[0]), int(columns[-1]) + 1)).bounds


def _map_figure(bounds: Bounds, crs: str) -> tuple[Figure, Axes]:
    """A figure of the shape of the bounds."""
    left, bottom, right, top = bounds
    ratio = (top - bottom) * _aspect(bounds, crs) / (right - left)
    size = (LONGER / ratio + BESIDE, LONGER + EDGE) if ratio > 1 else (LONGER + EDGE, LONGER * ratio + BESIDE)
    figure = new_figure(max(size[0], NARROWEST), max(size[1], NARROWEST), fixed_aspect=True, dots=FINE)
    axes = figure.subplots()
    axes.title.set_fontsize(11)
    axes.set_facecolor(BACKGROUND)
    _place(axes, bounds, crs)
    return figure, axes


def _aspect(bounds: Bounds, crs: str) -> float:
    """Height of a unit of y over the width of a unit of x: a degree of longitude shrinks towards the poles."""
    middle = (bounds[1] + bounds[3]) / 2
    return 1 / max(math.cos(middle * unit(crs)), 0.05) if is_geographic(crs) else 1.0


def _place(axes: Axes, bounds: Bounds, crs: str) -> None:
    """Limits with a margin, aspect, and labels in degrees or kilometres."""
    from matplotlib.ticker import MaxNLocator

    left, bottom, right, top = bounds
    margin = 0.02 * max(right - left, top - bottom)
    axes.set(xlim=(left - margin, right + margin), ylim=(bottom - margin, top + margin), aspect=_aspect(bounds, crs))
    axes.tick_params(labelsize=9)
    for axis, letters in ((axes.xaxis, "EW"), (axes.yaxis, "NS")):
        axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
        axis.set_major_formatter(partial(_degrees, letters) if is_geographic(crs) else partial(_kilometres, unit(crs)))
    if not is_geographic(crs):
        axes.set(xlabel="east (km)", ylabel="north (km)")


def _orient(axes: Axes, crs: str, wanted: bool) -> None:
    """Coasts, borders and cities inside the limits, if they are wanted."""
    if wanted:
        from vbagg.geo.orientation import orient

        orient(axes, crs)


def _degrees(letters: str, value: float, _: int | None = None) -> str:
    """A longitude, which may lie beyond 180, or a latitude."""
    value = value if abs(value) <= 180 else (value + 180) % 360 - 180
    return f"{tick(abs(value))}°{letters[int(value < 0)] if value % 180 else ''}"


def _kilometres(metres: float, value: float, _: int | None = None) -> str:
    return tick(value * metres / 1000)


def _titled(style: Style, tags: dict[str, str]) -> str:
    """The title, with the threshold as people write it, in lines that fit over a narrow map."""
    known = {"rate_units": "", **tags, "threshold": given(float(tags["threshold"])) if "threshold" in tags else ""}
    return "\n".join(textwrap.fill(line, TITLE_WIDTH) for line in style.title.format_map(known).splitlines())


def _shown(values: Floats, scale: ColourScale) -> Floats:
    """Values, with those below the scale at its lower end: a logarithm has no place for 0."""
    return np.maximum(values, scale.low)


def _bar(axes: Axes, shown: ScalarMappable, scale: ColourScale, values: Floats, label: str) -> None:
    """Colour bar with the marks of the scale, pointed where values lie beyond it; below maps that are wide."""
    ends = {(True, True): "both", (True, False): "min", (False, True): "max"}.get(beyond(scale, values), "neither")
    figure = axes.get_figure(root=True)
    assert figure is not None
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    is_tall = (top - bottom) * float(axes.get_aspect()) > right - left
    place: dict[str, Any] = {"location": "right", "aspect": 24} if is_tall else {"location": "bottom", "aspect": 30}
    bar = figure.colorbar(shown, ax=axes, label=literal(label), shrink=0.85, extend=ends, pad=0.03, **place)
    bar.set_ticks([mark.value for mark in scale.ticks], labels=[mark.text for mark in scale.ticks])
    bar.minorticks_off()


def _mark(axes: Axes, points: Floats, grid: Grid) -> None:
    """Rings at places."""
    x, y = transformer(DEGREES, grid.crs).transform(*points.T)
    if is_geographic(grid.crs):
        left, _, right, _ = grid.bounds
        x = near(np.asarray(x), (left + right) / 2, grid.crs)
    axes.scatter(x, y, s=16, facecolors="none", edgecolors="white", linewidths=2.2)
    axes.scatter(x, y, s=16, facecolors="none", edgecolors="black", linewidths=0.9)


def _filled(shapes: NDArray[Any], **style: Any) -> Any:
    """Polygons with their holes as one collection."""
    from matplotlib.collections import PathCollection
    from matplotlib.path import Path as Outline
    from shapely.geometry.polygon import orient

    paths = []
    for shape in shapes:
        parts = [orient(part) for part in shapely.get_parts(shape)]
        rings = [ring for part in parts for ring in (part.exterior, *part.interiors)]
        closed = [Outline(shapely.get_coordinates(ring), closed=True) for ring in rings]
        paths.append(Outline.make_compound_path(*closed))
    return PathCollection(paths, **style)


def _hatch(axes: Axes, table: gpd.GeoDataFrame, shapes: NDArray[Any]) -> None:
    """Hatch polygons without an observed rate, and say what is known of them."""
    from matplotlib.patches import Patch

    states, entries = states_in(table), []
    for state, hatch in HATCHES.items():
        which = states == state
        if which.any():
            style: dict[str, Any] = {"facecolor": "white", "edgecolor": "0.45", "hatch": hatch, "linewidth": 0.4}
            axes.add_collection(_filled(shapes[which], **style))
            entries.append(Patch(label=f"total {state}", **style))
    if entries:
        axes.figure.legend(handles=entries, loc="outside lower center", ncols=2, frameon=False)


def _outlines(axes: Axes, polygons: Polygons, tolerance: float) -> None:
    """Thin lines around polygons."""
    from matplotlib.collections import LineCollection

    lines = shapely.get_parts(shapely.boundary(shapely.simplify(polygons.geometry, tolerance / 2)))
    rings = [shapely.get_coordinates(line) for line in lines]
    axes.add_collection(LineCollection(rings, colors="black", linewidths=0.3, alpha=0.5), autolim=False)
