"""Pictures of data and estimates: the swiss roll from its side, and maps."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vbagg.drawing import colour_bar, colour_norm, new_figure, panel_layout, save
from vbagg.errors import unknown_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]


def roll_side(X: ArrayLike, rate: ArrayLike) -> tuple[Floats, NDArray[np.intp]]:
    """A swiss roll seen obliquely from its side, whatever rotation and scaling hid it.

    Parameters
    ----------
    X
        Features (n, d), an affine image of the roll.
    rate
        True rate of each individual, an affine function of the angle.

    Returns
    -------
    points, order
        Points (n, 2) in units of the rate, and the order in which to draw them, rear ones first.
    """
    across, depth = _roll_coordinates(np.asarray(X, dtype=float), np.asarray(rate, dtype=float))
    shift = 0.1 * np.ptp(across[:, 0]) / depth.std()
    return across + np.outer(depth, [shift, 0.5 * shift]), np.argsort(-depth)


def _roll_coordinates(X: Floats, rate: Floats) -> tuple[Floats, Floats]:
    """Position across the roll (n, 2) and along its axis (n,), the first rows in front.

    The rate grows linearly with the angle, whose square is the squared distance from the axis: ``rate^2`` is a
    quadratic form of the position plus a multiple of the rate. The form's null direction is the axis.
    """
    centred = X - X.mean(axis=0)
    _, _, axes = np.linalg.svd(centred[:: max(1, len(X) // 2000)], full_matrices=False)
    inner = centred @ axes[:3].T
    form, centre = _squared_angle(inner, rate)
    curvature, directions = np.linalg.eigh(form)
    by_size = np.argsort(-np.abs(curvature))
    large, second, small = curvature[by_size]
    if large * second <= 0 or abs(small) > 0.2 * abs(second):
        raise ValueError("`rate` must grow linearly along a roll that `X` holds; got others. Pass the true rates.")
    placed = (inner - centre) @ directions[:, by_size]
    across = placed[:, :2] * np.sqrt(np.abs([large, second]))
    # heights do not depend on the angle: what goes with the position across is a slant of the map that hid the roll
    slant = np.column_stack([across, np.ones(len(X))])
    depth = placed[:, 2] - slant @ np.linalg.lstsq(slant, placed[:, 2], rcond=None)[0]
    return _turned(across, rate), -depth if depth @ np.arange(len(X)) < 0 else depth


def _squared_angle(inner: Floats, rate: Floats) -> tuple[Floats, Floats]:
    """Form and centre of ``(p - centre)^T form (p - centre) = rate^2 + a rate + b``, by least squares."""
    first, second = np.triu_indices(3)
    design = np.column_stack([inner[:, first] * inner[:, second], inner, np.ones(len(inner)), rate])
    coefficients = np.linalg.lstsq(design, rate**2, rcond=None)[0]
    form = np.zeros((3, 3))
    form[first, second] = coefficients[:6]
    form = (form + form.T) / 2
    # the linear part is -2 form centre
    centre = np.linalg.lstsq(-2 * form, coefficients[6:9], rcond=1e-3)[0]
    return form, centre


def _turned(plane: Floats, rate: Floats) -> Floats:
    """Turn the spiral so that it runs outwards counter-clockwise and ends at the lower left, in every data set."""
    low, high = np.quantile(rate, [0.9, 0.99])
    before = plane[(rate > low) & (rate <= high)].mean(axis=0)
    end = plane[rate > high].mean(axis=0)
    if before[0] * end[1] - before[1] * end[0] < 0:
        plane, end = plane * [1, -1], end * [1, -1]
    angle = np.deg2rad(225) - np.arctan2(end[1], end[0])
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    return plane @ turn


def roll_scatter(
    bags_X: ArrayLike,
    panels: Mapping[str, ArrayLike],
    path: Path | str,
    *,
    rate: ArrayLike | None = None,
    units: str | Mapping[str, str] = "events per individual",
    same_scale: Sequence[str] | None = None,
    colour_maps: Mapping[str, str] | None = None,
    columns: int = 4,
) -> Path:
    """The roll from its side, one panel for each vector of values.

    Parameters
    ----------
    bags_X
        Features of the individuals (n, d).
    panels
        Values (n,) by title.
    path
        Where to write.
    rate
        True rates, which tell where the roll's axis is; by default the first panel, which must then be theirs.
    units
        Label of the colour bars: one for all, or by title.
    same_scale
        Titles of panels with one scale of colours, by default all; each other has its own. The scale holds all values
        of the first among them and leaves out extremes of the others.
    colour_maps
        Names of cmcrameri's maps by title.
    columns
        Largest number of panels in a row.
    """
    values = {title: np.asarray(panel, dtype=float) for title, panel in panels.items()}
    points, order = roll_side(bags_X, next(iter(values.values())) if rate is None else rate)
    down, across = panel_layout(len(values), columns)
    figure = new_figure(4.1 * across, 3.2 * down, fixed_aspect=True)
    grid = figure.subplots(down, across, squeeze=False).ravel()
    scales = _scales(values, same_scale, (), colour_maps or {})
    for axes, (title, panel) in zip(grid, values.items(), strict=False):
        dots = axes.scatter(*points[order].T, c=panel[order], s=3, linewidths=0, rasterized=True, **scales[title])
        axes.set(title=title, aspect="equal")
        colour_bar(axes, dots, panel, _unit(units, title))
    for axes in grid:
        axes.axis("off")
    return save(figure, path)


@dataclass(frozen=True, eq=False)
class Marks:
    """Things drawn over maps: lines and crosses, in the map's kilometres, each (k, 2)."""

    lines: Sequence[ArrayLike] = ()
    points: ArrayLike | None = None
    line_label: str = "river"
    point_label: str = "site"


def map_panels(
    rasters: Mapping[str, ArrayLike],
    path: Path | str,
    *,
    extent: tuple[float, float, float, float],
    units: str | Mapping[str, str] = "",
    log: bool | Collection[str] = False,
    same_scale: Sequence[str] | None = None,
    colour_maps: Mapping[str, str] | None = None,
    marks: Marks | None = None,
    columns: int = 3,
) -> Path:
    """Maps side by side, each with its colour bar.

    Parameters
    ----------
    rasters
        Arrays (rows, columns) by title, the first row northernmost; NaN where there is nothing.
    path
        Where to write.
    extent
        West, east, south and north ends in kilometres.
    units
        Label of the colour bars: one for all, or by title.
    log
        Whether colours are logarithmic; or the titles for which they are. Values up to 0 have the lowest colour.
    same_scale
        Titles of maps with one scale of colours, by default all; each other has its own. The scale holds all values
        of the first among them and leaves out extremes of the others.
    colour_maps
        Names of cmcrameri's maps by title. Maps that diverge, such as "vik", have their middle at 0.
    marks
        A river, sites.
    columns
        Largest number of maps in a row.
    """
    values = {title: np.asarray(raster, dtype=float) for title, raster in rasters.items()}
    logarithmic = tuple(values) if log is True else tuple(log or ())
    scales = _scales(values, same_scale, logarithmic, colour_maps or {})
    down, across = panel_layout(len(values), columns)
    height = 3.4 * (extent[3] - extent[2]) / (extent[1] - extent[0])
    figure = new_figure(4.8 * across, (height + 0.9) * down + (0.4 if marks else 0.0), fixed_aspect=True)
    grid = figure.subplots(down, across, squeeze=False).ravel()
    for axes, (title, raster) in zip(grid, values.items(), strict=False):
        axes.set_facecolor("0.88")
        shown = np.maximum(raster, scales[title]["norm"].vmin) if title in logarithmic else raster
        image = axes.imshow(shown, extent=extent, origin="upper", interpolation="nearest", **scales[title])
        axes.set(title=title, xlabel="east (km)", ylabel="north (km)", aspect="equal")
        colour_bar(axes, image, raster, _unit(units, title))
        if marks is not None:
            _mark(axes, marks)
    for axes in grid[len(values) :]:
        axes.axis("off")
    if marks is not None:
        handles, labels = grid[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    return save(figure, path)


def _mark(axes: Axes, marks: Marks) -> None:
    limits = axes.get_xlim(), axes.get_ylim()
    for at, line in enumerate(marks.lines):
        label = marks.line_label if at == 0 else None
        # a white edge keeps the line visible on dark and on light colours
        axes.plot(*np.asarray(line).T, color="white", linewidth=2.8)
        axes.plot(*np.asarray(line).T, color="#0072B2", linewidth=1.4, label=label)
    if marks.points is not None:
        x, y = np.asarray(marks.points, dtype=float).T
        axes.scatter(x, y, marker="x", s=46, color="white", linewidths=3.0)
        axes.scatter(x, y, marker="x", s=40, color="black", linewidths=1.4, label=marks.point_label)
    axes.set(xlim=limits[0], ylim=limits[1])


def _unit(units: str | Mapping[str, str], title: str) -> str:
    return units if isinstance(units, str) else units.get(title, "")


_DIVERGING = ("vik", "roma", "broc", "cork", "berlin", "lisbon", "tofino", "bam", "managua", "vanimo")


def _scales(
    values: Mapping[str, Floats],
    same_scale: Sequence[str] | None,
    logarithmic: Collection[str],
    colour_maps: Mapping[str, str],
) -> dict[str, dict[str, Any]]:
    """Colour map and norm of each panel."""
    import cmcrameri.cm

    for title in same_scale or ():
        if title not in values:
            raise unknown_name("same_scale", title, values)
    together = [title for title in values if same_scale is None or title in same_scale]
    result = {}
    for title in values:
        alone = together and title not in together
        colours = colour_maps.get(title, "buda" if alone else "batlow")
        group = [values[other] for other in together] if title in together else [values[title]]
        norm = colour_norm(_limiting(group), title in logarithmic, colours.removesuffix("_r") in _DIVERGING)
        result[title] = {"cmap": getattr(cmcrameri.cm, colours), "norm": norm}
    return result


def _limiting(group: Sequence[Floats]) -> Floats:
    """Finite values whose range is shown: all of the first array, and of the others those that are not extreme."""
    finite = [values[np.isfinite(values)] for values in group]
    usual = [np.quantile(values, [0.01, 0.99], method="nearest") for values in finite[1:] if values.size]
    return np.concatenate([finite[0], *usual])
