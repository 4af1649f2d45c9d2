"""Maps as pictures: observed rates of polygons, and any raster that `write_maps` wrote.

Large rasters are read with decimation, from their overviews, so a picture needs little memory whatever the grid.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import shapely
from numpy.typing import NDArray

from vbagg.drawing import colour_bar, colour_norm, new_figure, save
from vbagg.geo.bands import opened
from vbagg.geo.cog import small_cache
from vbagg.geo.grid import Bounds, Grid, is_geographic, transformer, unit
from vbagg.geo.longitudes import near
from vbagg.geo.observed_totals import MISSING, SUPPRESSED, states_in
from vbagg.geo.places import DEGREES
from vbagg.geo.polygons import Polygons
from vbagg.geo.ratio import RATIO
from vbagg.geo.units import Units

if TYPE_CHECKING:
    import geopandas as gpd
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]
Limits = tuple[float, float]
LONGEST_SIDE = 1200
"""Cells along the longer side of a picture."""
TAILS = (0.005, 0.995)
"""Quantiles at the ends of the colours, so that a few extreme cells do not hide the rest."""
LEAST_FACTOR = 1.05
"""At the ends of the colours of ratios, where these hardly differ from 1."""
BACKGROUND = "0.86"
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
    "rate_sd": Style("Uncertainty: standard deviation of the rate", "lapaz"),
    "rate_interval_width": Style("Uncertainty: width of the interval of the rate", "lapaz"),
    "exceedance": Style("Probability that the rate is above\n{threshold} {rate_units}", "lajolla", (0.0, 1.0), False),
    "information": Style("How much is known of what varies inside polygons", limits=(0.0, 1.0), may_be_log=False),
    "expected_count": Style("Expected count"),
    "expected_count_matched": Style("Expected count, matched to observed totals"),
    "population": Style("Population"),
    "expected": Style("Counts expected by the exposure"),
    "extrapolation": Style("Extrapolation: red lies beyond the training data", "vik", (0.0, 2.0), False),
    "extrapolation_place": Style("How little is known of the place", "lajolla", (0.0, 1.0), False),
    RATIO: Style("Rate with survey points, over that without", "vik"),
}


@dataclass(frozen=True, eq=False)
class Picture:
    """A raster with at most `LONGEST_SIDE` cells along each side, and what its file says about it."""

    values: Floats
    grid: Grid
    tags: dict[str, str]


def plot_input(
    table: gpd.GeoDataFrame, path: Path | str, units: Units, *, log: bool = False, limits: Limits | None = None
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
    log
        Whether colours are logarithmic; rates of 0 have the lowest colour.
    limits
        Rates of the first and the last colour, to share them with another map.
    """
    rates = table["observed_rate"].to_numpy(dtype=np.float64)
    left, bottom, right, top = table.total_bounds.tolist()
    figure, axes = _map_figure((left, bottom, right, top), table.crs.to_wkt())
    scale = _scale(rates, Style("", limits=limits), log)
    shapes = table.geometry.simplify(max(right - left, top - bottom) / (2 * LONGEST_SIDE))
    filled = _filled(np.asarray(shapes.array), edgecolor="white", linewidth=0.4)
    filled.set(array=np.ma.masked_invalid(_shown(rates, scale)), **scale)
    axes.add_collection(filled)
    _hatch(axes, table, np.asarray(shapes.array))
    axes.set_title("Observed rate")
    _bar(axes, filled, rates, units.rate, log)
    return save(figure, path)


def plot_effects(table: gpd.GeoDataFrame, path: Path | str, *, difference: bool = False) -> Path:
    """Map of how far the total of each polygon is above what covariates and neighbours give.

    Parameters
    ----------
    table
        What `polygon_table` gave. Polygons that stand out have a heavy outline.
    path
        Where to write.
    difference
        Whether effects are differences, as with the identity link, and not ratios.
    """
    effects = table["effect"].to_numpy(dtype=np.float64)
    left, bottom, right, top = table.total_bounds.tolist()
    figure, axes = _map_figure((left, bottom, right, top), table.crs.to_wkt())
    limits = effect_limits(effects, difference)
    scale = _scale(effects, Style("", "vik", limits), log=not difference)
    shapes = np.asarray(table.geometry.simplify(max(right - left, top - bottom) / (2 * LONGEST_SIDE)).array)
    filled = _filled(shapes, edgecolor="0.35", linewidth=0.3)
    filled.set(array=np.ma.masked_invalid(effects), **scale)
    axes.add_collection(filled)
    _hatch(axes, table[np.isnan(effects)], shapes[np.isnan(effects)])
    odd = table["stands_out"].to_numpy(dtype=bool)
    if odd.any():
        axes.add_collection(_filled(shapes[odd], facecolor="none", edgecolor="black", linewidth=1.8))
    axes.set_title("Totals against what covariates and neighbours give")
    what = "above what covariates and neighbours give" if difference else "times what covariates and neighbours give"
    _bar(axes, filled, effects, what, log=not difference)
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
    log: bool = False,
    limits: Limits | None = None,
    points: Floats | None = None,
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
    log
        Whether colours are logarithmic, where that makes sense.
    limits
        Values of the first and the last colour; otherwise a few extreme cells lie beyond them.
    points
        Longitudes and latitudes (n, 2) of places that are marked.
    """
    picture = read_picture(raster)
    values, grid, tags = picture.values, picture.grid, picture.tags
    style = STYLES.get(tags.get("map", ""), Style(tags.get("title", Path(raster).stem)))
    style = style if limits is None else replace(style, limits=limits)
    log = log and style.may_be_log
    scale = _scale(values, style, log)
    figure, axes = _map_figure(_occupied(values, grid), grid.crs)
    left, bottom, right, top = grid.bounds
    image = axes.imshow(_shown(values, scale), extent=(left, right, bottom, top), interpolation="nearest", **scale)
    _place(axes, _occupied(values, grid), grid.crs)
    if polygons is not None:
        _outlines(axes, polygons.to(grid.crs), max(grid.resolution))
    if points is not None:
        _mark(axes, points, grid)
    axes.set_title(style.title.format_map({"threshold": "", "rate_units": "", **tags}))
    _bar(axes, image, values, tags.get("units", ""), log)
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
    width = 4.6 if ratio > 1 else 5.6
    figure = new_figure(width + 1.6, min(max(width * ratio, 2.4), 8.0) + 0.9, fixed_aspect=True)
    axes = figure.subplots()
    axes.set_facecolor(BACKGROUND)
    _place(axes, bounds, crs)
    return figure, axes


def _aspect(bounds: Bounds, crs: str) -> float:
    """Height of a unit of y over the width of a unit of x: a degree of longitude shrinks towards the poles."""
    middle = (bounds[1] + bounds[3]) / 2
    return 1 / max(math.cos(middle * unit(crs)), 0.05) if is_geographic(crs) else 1.0


def _place(axes: Axes, bounds: Bounds, crs: str) -> None:
    """Limits with a margin, aspect, and labels in degrees or kilometres."""
    left, bottom, right, top = bounds
    margin = 0.02 * max(right - left, top - bottom)
    axes.set(xlim=(left - margin, right + margin), ylim=(bottom - margin, top + margin), aspect=_aspect(bounds, crs))
    if is_geographic(crs):
        axes.set(xlabel="longitude (degrees)", ylabel="latitude (degrees)")
        return
    axes.set(xlabel="east (km)", ylabel="north (km)")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value * unit(crs) / 1000:,.10g}")


def _scale(values: Floats, style: Style, log: bool) -> dict[str, Any]:
    """Colour map and norm."""
    import cmcrameri.cm

    finite = values[np.isfinite(values) & (values > 0 if log else True)]
    ends = np.quantile(finite, TAILS, method="nearest") if finite.size else finite
    if style.limits is not None:
        ends = np.asarray(style.limits, dtype=np.float64)
    return {"cmap": getattr(cmcrameri.cm, style.colours), "norm": colour_norm(ends, log, diverging=False)}


def _shown(values: Floats, scale: dict[str, Any]) -> Floats:
    """Values, with those below the scale at its lower end: a logarithm has no place for 0."""
    return np.maximum(values, scale["norm"].vmin)


def _bar(axes: Axes, shown: ScalarMappable, values: Floats, label: str, log: bool) -> None:
    """Colour bar, with plain numbers where it is logarithmic."""
    from matplotlib.ticker import LogLocator, NullFormatter

    colour_bar(axes, shown, values, label)
    bar = shown.colorbar
    if log and bar is not None:
        low, high = shown.get_clim()
        subs = (1.0, 2.0, 5.0) if high / low < 1000 else (1.0,)
        bar.ax.yaxis.set_major_locator(LogLocator(subs=subs, numticks=99))
        bar.ax.yaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
        bar.ax.yaxis.set_minor_formatter(NullFormatter())


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
