"""Pictures of how far a model can be trusted, and of what its rates depend on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vbagg.drawing import new_figure, panel_layout, save
from vbagg.geo.relevance import weighted_quantile

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from vbagg.geo.prepared import Prepared

Floats = NDArray[np.float64]
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "0.45"
"""Okabe and Ito's colours, which the colour-blind can tell apart."""
CHANCE = "range of chance (95%)"


def plot_observed_predicted(
    observed: ArrayLike,
    predicted: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
    path: Path | str,
    *,
    units: str,
    level: float,
    title: str = "Observed and predicted rates",
    left_out: Mapping[str, int] | None = None,
) -> Path:
    """Observed against predicted rates of polygons with predictive intervals, on logarithmic axes if none is negative.

    Parameters
    ----------
    observed, predicted, lower, upper
        Rates (b,): observed, predicted mean or median, and the ends of the interval of a new observed rate.
    path
        Where to write.
    units
        Units of the rates.
    level
        Level of the intervals.
    title
        What the predictions are: of polygons in the fit, or of unseen ones.
    left_out
        Number of polygons that cannot be drawn, by what their totals are: `missing`, `suppressed`.
    """
    y, mean, low, high = (np.asarray(v, dtype=np.float64) for v in (observed, predicted, lower, upper))
    known = np.isfinite(y) & np.isfinite(mean)
    y, mean, low, high = y[known], mean[known], low[known], high[known]
    inside = (low <= y) & (y <= high)
    linear, positive = bool((y < 0).any()), np.concatenate([y[y > 0], mean[mean > 0]])
    floor = -np.inf if linear else positive.min() / 2 if positive.size else 0.5
    figure = new_figure(6.4, 5.8)
    axes = figure.subplots()
    for own, colour, label in ((inside, BLUE, "inside"), (~inside, ORANGE, "outside")):
        if own.any():
            at = np.maximum(mean[own], floor)
            ends = np.maximum([low[own], high[own]], floor)
            axes.vlines(np.maximum(y[own], floor), *ends, color=colour, linewidth=0.9, alpha=0.45)
            text = f"{label} its {100 * level:g}% interval: {own.sum()} of {len(own)}"
            axes.scatter(np.maximum(y[own], floor), at, s=22, color=colour, linewidths=0, zorder=3, label=text)
    zeros = int(np.sum(y <= 0))
    if zeros and not linear:
        axes.plot([], [], " ", label=f"observed rate of 0, drawn at {floor:.2g}: {zeros}")
    for state, count in (left_out or {}).items():
        axes.plot([], [], " ", label=f"observed total {state}, not drawn: {count}")
    if linear:
        axes.axline((0.0, 0.0), slope=1.0, color=GREY, linewidth=1.2, label="equal", zorder=1)
    else:
        ends = np.array([floor, max(positive.max(initial=1.0), floor * 2)])
        axes.plot(ends * [0.8, 1.25], ends * [0.8, 1.25], color=GREY, linewidth=1.2, label="equal", zorder=1)
        axes.set(xscale="log", yscale="log", xlim=ends * [0.75, 1.35], ylim=ends * [0.5, 2.0])
    axes.set(xlabel=f"observed ({units})", ylabel=f"predicted ({units})", title=title)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    axes.legend(frameon=False, loc="upper left")
    _plain(axes)
    return save(figure, path)


def plot_calibration(validation: Any, path: Path | str, *, what: str = "polygons") -> Path:
    """Coverage of intervals at all levels, and the histogram of the probability integral transform.

    Parameters
    ----------
    validation
        A `vbagg.validate.Validation`: anything with its tables `reliability()` and `pit_histogram()`.
    path
        Where to write.
    what
        What is predicted, in the plural.
    """
    curve, bars = validation.reliability(), validation.pit_histogram()
    figure = new_figure(10.4, 4.6)
    left, right = figure.subplots(1, 2)
    level = 100 * curve["level"].to_numpy()
    left.fill_between(level, 100 * curve["low"], 100 * curve["high"], color="0.85", label=CHANCE)
    left.plot([0, 100], [0, 100], color=GREY, linewidth=1.2, label="ideal")
    left.plot(level, 100 * curve["coverage"], color=BLUE, marker="o", markersize=4, label="model")
    left.set(xlabel="level of the interval (%)", ylabel=f"unseen {what} inside it (%)", xlim=(0, 100), ylim=(0, 100))
    left.set(title="Coverage of intervals", aspect="equal")
    left.legend(frameon=False, loc="upper left")
    width = (bars["right"] - bars["left"]).to_numpy()
    low, high = (100 * float(bars[name].iloc[0]) for name in ("low", "high"))
    right.axhspan(low, high, color="0.85", label=CHANCE)
    right.bar(bars["left"], 100 * bars["share"], width, align="edge", color=BLUE, alpha=0.75, edgecolor="white")
    right.axhline(100 * float(bars["expected"].iloc[0]), color="black", linewidth=1.2, label="ideal")
    for end in (low, high):
        right.axhline(end, color="black", linewidth=0.9, linestyle=":")
    right.set(xlabel="where the observed value fell in its predicted distribution\n(0: lowest, 1: highest)")
    right.set(ylabel=f"unseen {what} (%)", xlim=(0, 1), title="Probability integral transform")
    right.set_ylim(0, 1.2 * max(high, 100 * float(bars["share"].max())))
    right.legend(frameon=False, loc="upper right", ncols=2)
    _plain(left, right)
    return save(figure, path)


def plot_relevance(table: pd.DataFrame, path: Path | str, *, scale: str = "log rate") -> Path:
    """Relevance of covariates, as `vbagg.geo.relevance.relevance` gives it.

    Parameters
    ----------
    table
        `share`, `lower` and `upper` by covariate.
    path
        Where to write.
    scale
        What varies: the rate on the scale of the link.
    """
    table = table.iloc[::-1]
    place = np.arange(len(table))
    share, low, high = (100 * table[name].to_numpy() for name in ("share", "lower", "upper"))
    figure = new_figure(7.2, 1.7 + 0.42 * len(table))
    axes = figure.subplots()
    axes.barh(place, share, height=0.62, color=BLUE, alpha=0.75)
    axes.hlines(place, low, high, color="black", linewidth=1.4)
    axes.set_yticks(place, list(table.index))
    axes.set(xlabel=f"share of the variance of the {scale} that goes through it (%)", title="Relevance of covariates")
    axes.set_xlim(left=0)
    _plain(axes, grid="x")
    note = "bar: median, line: 90% interval of posterior draws; shares need not add up to 100%"
    figure.supxlabel(note, fontsize=8, color="0.35")
    return save(figure, path)


def plot_partial_dependence(
    curves: Mapping[str, pd.DataFrame],
    prepared: Prepared,
    path: Path | str,
    *,
    units: str,
    level: float = 0.95,
    covariate_units: Mapping[str, str] | None = None,
    columns: int = 3,
) -> Path:
    """Mean rate as a function of each covariate with bands, above the covariate's distribution.

    Parameters
    ----------
    curves
        What `vbagg.geo.relevance.partial_dependence` gave, by covariate.
    prepared
        Pixels, whose weighted values make the histograms.
    path
        Where to write.
    units
        Units of rates.
    level
        Level of the bands.
    covariate_units
        Units of covariates by name, where known.
    columns
        Largest number of panels in a row.
    """
    down, across = panel_layout(len(curves), columns)
    figure = new_figure(0.6 + 3.5 * across, 0.5 + 3.0 * down)
    grid = figure.subplots(down, across, squeeze=False, sharey=True).ravel()
    weight = prepared.pixels["weight"].to_numpy(dtype=np.float64)
    for axes, (name, curve) in zip(grid, curves.items(), strict=False):
        axes.fill_between(curve["value"], curve["lower"], curve["upper"], color=BLUE, alpha=0.25, linewidth=0)
        axes.plot(curve["value"], curve["rate"], color=BLUE, linewidth=2)
        unit = (covariate_units or {}).get(name, "")
        axes.set(xlabel=f"{name} ({unit})" if unit else name)
        _histogram(axes, prepared.pixels[name].to_numpy(dtype=np.float64), weight)
    tops = np.transpose([(curve["upper"].max(), 3 * curve["rate"].max()) for curve in curves.values()]).max(axis=1)
    grid[0].set_ylim(0, 1.05 * tops.min())  # a band that flares up shall not flatten the curves
    for axes in grid[::across]:
        axes.set_ylabel(f"mean rate\n({units})")
    for axes in grid[len(curves) :]:
        axes.axis("off")
    _plain(*grid[: len(curves)])
    note = f"median and {100 * level:g}% band of posterior draws; grey: distribution of the {prepared.exposure}"
    figure.supxlabel(note, fontsize=8, color="0.35")
    return save(figure, path)


def _histogram(axes: Axes, values: Floats, weight: Floats) -> None:
    """Where the weight lies, along the foot of the panel."""
    ends = weighted_quantile(values, weight, [0.01, 0.99])
    counts, edges = np.histogram(values, bins=30, range=(float(ends[0]), float(ends[1])), weights=weight)
    foot = axes.twinx()
    foot.bar(edges[:-1], counts, np.diff(edges), align="edge", color="0.6", alpha=0.5)
    foot.set(ylim=(0, 5 * max(counts.max(), 1e-300)), yticks=[])
    foot.spines[["top", "right"]].set_visible(False)


def _plain(*panels: Axes, grid: str = "both") -> None:
    for axes in panels:
        axes.grid(axis=grid, color="0.9", linewidth=0.8)  # type: ignore[arg-type]
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
