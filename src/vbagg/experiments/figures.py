"""Figures of the experiments: scores over a setting and calibration here, the swiss roll and maps in `pictures`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vbagg.drawing import new_figure, save
from vbagg.experiments.pictures import Marks, map_panels, roll_scatter, roll_side
from vbagg.experiments.plotting import in_order, mean_and_spread, method_style, spread_note
from vbagg.metrics import LEVELS

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "Marks",
    "coverage_curves",
    "coverage_error_curves",
    "error_curves",
    "map_panels",
    "roll_scatter",
    "roll_side",
]

COVERAGE_COLUMNS = {f"coverage_{round(100 * level)}": level for level in LEVELS}


def error_curves(
    table: pd.DataFrame,
    x: str,
    y: str,
    path: Path | str,
    *,
    xlabel: str | None = None,
    ylabel: str | None = None,
    title: str | None = None,
    references: Mapping[str, float] | None = None,
    methods: Sequence[str] | None = None,
    leave_out: Sequence[str] = (),
    top: float | None = None,
    spread: str = "std",
    logarithmic: bool = False,
) -> Path:
    """Mean of a score over repetitions against a setting, one line per method, with bars of its spread.

    Parameters
    ----------
    table
        Rows of repetitions with a ``method`` column.
    x, y
        Columns of the setting and of the score.
    path
        Where to write.
    xlabel, ylabel, title
        Texts, with units; by default the names of the columns and no title.
    references
        Scores drawn as horizontal lines by name, such as the oracle's.
    methods
        The methods to draw, in the order of the legend; those without rows are named below the figure.
    leave_out
        Methods that would stretch the scale; the legend names them with their range.
    top
        Upper end of the vertical axis; methods that lie above it everywhere are left out likewise.
    spread
        ``"std"`` or ``"se"``.
    logarithmic
        Whether the vertical axis is.
    """
    asked = list(methods) if methods is not None else in_order(table["method"])
    curves = _curves(table, x, y, asked, spread)
    outside = {m for m, c in curves.items() if m in leave_out or (top is not None and c["mean"].min() > top)}
    shown = {m: c for m, c in curves.items() if m not in outside}
    figure = new_figure(7.2, 4.2)
    axes = figure.subplots()
    places = sorted({place for curve in curves.values() for place in curve.index})
    for at, (method, curve) in enumerate(shown.items()):
        _bars(axes, curve.index.to_numpy() + _dodge(places, at, len(shown)), curve, method)
    for at, (name, value) in enumerate((references or {}).items()):
        axes.axhline(value, color="black", linewidth=1, linestyle=("--", ":", "-.")[at % 3], label=name, zorder=1)
    for method in sorted(outside, key=asked.index):
        low, high = curves[method]["mean"].min(), curves[method]["mean"].max()
        axes.plot([], [], " ", label=f"{method}: off the scale\n({_range(low, high)})")
    axes.set(xlabel=xlabel or x, ylabel=ylabel or y, title=title or "", xticks=places)
    if logarithmic:
        _logarithmic(axes)
    if top is not None:
        axes.set_ylim(top=top)
    _finish(figure, axes, shown, spread, [method for method in asked if method not in curves])
    return save(figure, path)


def coverage_curves(
    table: pd.DataFrame,
    path: Path | str,
    *,
    methods: Sequence[str] | None = None,
    title: str | None = None,
    spread: str = "std",
) -> Path:
    """Share of true values inside central intervals against the intervals' level, one line per method.

    The shares are the columns ``coverage_70`` to ``coverage_95``, as fractions; methods without intervals have none.
    """
    asked = list(methods) if methods is not None else in_order(table["method"])
    columns = _coverage_columns(table)
    long = table.melt(["method"], list(columns), var_name="column", value_name="inside").dropna(subset=["inside"])
    long = long.assign(level=100 * long["column"].map(columns), inside=100 * long["inside"])
    curves = _curves(long, "level", "inside", asked, spread)
    figure = new_figure(6.4, 4.6)
    axes = figure.subplots()
    levels = sorted(100 * level for level in columns.values())
    axes.plot(levels, levels, color="0.6", linewidth=1.5, label="ideal", zorder=1)
    for at, (method, curve) in enumerate(curves.items()):
        _bars(axes, curve.index.to_numpy() + _dodge(levels, at, len(curves)), curve, method)
    labels = {"xlabel": "nominal coverage (%)", "ylabel": "true values inside the interval (%)"}
    axes.set(xticks=levels, title=title or "", **labels)
    axes.set_ylim(top=min(101.5, axes.get_ylim()[1]))
    _finish(figure, axes, curves, spread, [method for method in asked if method not in curves])
    return save(figure, path)


def coverage_error_curves(table: pd.DataFrame, x: str, path: Path | str, **options: Any) -> Path:
    """Mean distance of coverage from its level against a setting; options as in :func:`error_curves`."""
    misses = [(table[name] - level).abs() for name, level in _coverage_columns(table).items()]
    with_error = table.assign(_coverage_error=100 * sum(misses) / len(misses))
    options.setdefault("ylabel", "mean |coverage - level| (percentage points)")
    return error_curves(with_error, x, "_coverage_error", path, **options)


def _curves(table: pd.DataFrame, x: str, y: str, methods: Sequence[str], spread: str) -> dict[str, pd.DataFrame]:
    """Mean and spread over ``x`` for the methods that have scores."""
    present = table.dropna(subset=[y])
    rows = {method: present[present["method"] == method] for method in methods}
    return {method: mean_and_spread(part[y], part[x], spread) for method, part in rows.items() if len(part)}


def _coverage_columns(table: pd.DataFrame) -> dict[str, float]:
    """Columns of coverage that the table has, with their levels."""
    columns = {name: level for name, level in COVERAGE_COLUMNS.items() if name in table}
    if not columns:
        raise ValueError(f"The table must have columns {', '.join(COVERAGE_COLUMNS)}; got none of them.")
    return columns


def _bars(axes: Axes, places: Any, curve: pd.DataFrame, method: str) -> None:
    yerr = curve["spread"].to_numpy() if curve["spread"].any() else None
    options: dict[str, Any] = {"markersize": 5, "linewidth": 1.5, "capsize": 2.5, "elinewidth": 1.0, "zorder": 2}
    axes.errorbar(places, curve["mean"].to_numpy(), yerr=yerr, label=method, **method_style(method), **options)


def _dodge(places: Sequence[float], at: int, count: int) -> float:
    """Small shift to the side, so that the bars of different methods do not hide each other."""
    gap = float(min(np.diff(places))) if len(places) > 1 else 1.0
    return 0.25 * gap * ((at + 0.5) / count - 0.5)


def _logarithmic(axes: Axes) -> None:
    """Logarithmic scale with plain numbers at 1, 2 and 5."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=99))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())


def _range(low: float, high: float) -> str:
    return f"{low:.3g}" if f"{low:.3g}" == f"{high:.3g}" else f"{low:.3g} to {high:.3g}"


def _finish(
    figure: Figure, axes: Axes, curves: Mapping[str, pd.DataFrame], spread: str, missing: Sequence[str]
) -> None:
    axes.grid(axis="y", color="0.9", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        lines_last = sorted(range(len(labels)), key=lambda at: labels[at] not in curves)
        ordered = [handles[at] for at in lines_last], [labels[at] for at in lines_last]
        figure.legend(*ordered, loc="outside right upper", frameon=False, fontsize=9)
    notes = [spread_note(np.concatenate([curve["count"] for curve in curves.values()]), spread)] if curves else []
    if missing:
        notes.append(f"without results: {', '.join(missing)}")
    figure.supxlabel("; ".join(notes), fontsize=8, color="0.35")
