"""Pictures of how far a model can be trusted, and of what its rates depend on.

Each has one panel, of a size that can be read on a phone.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vbagg.drawing import BLUE, FINE, GREY, ORANGE, literal, new_figure, plain, save
from vbagg.geo.relevance import weighted_quantile
from vbagg.geo.zero_log import ZeroLog
from vbagg.numerals import count, tick
from vbagg.numerals import level as in_percent
from vbagg.texts import texts_in

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from vbagg.geo.prepared import Prepared

Floats = NDArray[np.float64]
ROUND = (1, 2, 5, 10)
"""Steps of marks."""
FLARE = 3.0
"""How many times the largest rate of a curve its band may rise above before it is cut off."""


def plot_observed_predicted(
    observed: ArrayLike,
    predicted: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
    path: Path | str,
    *,
    units: str,
    level: float,
    title: str | None = None,
    left_out: Mapping[str, int] | None = None,
) -> Path:
    """Observed against predicted rates of polygons with predictive intervals, on logarithmic axes if none is negative.

    Zero has a place of its own on these, behind a break.

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
    from matplotlib.collections import PathCollection

    say = texts_in()
    y, mean, low, high = (np.asarray(v, dtype=np.float64) for v in (observed, predicted, lower, upper))
    known = np.isfinite(y) & np.isfinite(mean)
    y, mean, low, high = y[known], mean[known], low[known], high[known]
    inside = (low <= y) & (y <= high)
    figure, axes = _one_panel(5.0, 5.0)
    is_linear = bool((y < 0).any())
    place = (lambda at: at, lambda at: at) if is_linear else _log_places(axes, y, mean, low, high)
    for own, colour, side in ((inside, BLUE, "inside"), (~inside, ORANGE, "outside")):
        if own.any():
            at = place[0](y[own])
            axes.vlines(at, place[1](low[own]), place[1](high[own]), color=colour, linewidth=0.9, alpha=0.45)
            text = say(f"plots.{side}", level=in_percent(level), number=count(own.sum()), of=count(len(own)))
            axes.scatter(at, place[1](mean[own]), s=18, color=colour, linewidths=0, zorder=3, label=text)
    if is_linear:
        axes.axline((0.0, 0.0), slope=1.0, color=GREY, linewidth=1.2, label=say("plots.equal"), zorder=1)
        _write_marks(axes)
    elif not (y > 0).all():
        axes.plot([], [], " ", label=say("plots.zeros", number=count(int(np.sum(y <= 0)))))
    for state, number in (left_out or {}).items():
        axes.plot([], [], " ", label=say(f"plots.not_drawn_{state}", number=count(number)))
    axes.set(xlabel=literal(say("plots.observed_axis", units=units)), title=title or say("plots.predicted"))
    axes.set(ylabel=literal(say("plots.predicted_axis", units=units)))
    # intervals and their points first
    entries = sorted(
        zip(*axes.get_legend_handles_labels(), strict=True), key=lambda entry: not isinstance(entry[0], PathCollection)
    )
    figure.legend(*zip(*entries, strict=True), frameon=False, loc="outside lower left", handlelength=1.2)
    plain(axes)
    return save(figure, path)


def _log_places(axes: Axes, y: Floats, mean: Floats, low: Floats, high: Floats) -> tuple[Any, Any]:
    """Dress both axes; how numbers become places along them. Arrows stand where intervals go on beyond the frame."""
    say = texts_in()
    across, up = ZeroLog.of(y), ZeroLog.of(np.concatenate([y, mean]), np.concatenate([low, high]))
    across.dress(axes, "x")
    up.dress(axes, "y")
    ends = np.array([max(across.low, up.low), min(across.high, up.high)])
    axes.plot(ends, ends, color=GREY, linewidth=1.2, label=say("plots.equal"), zorder=1)
    for cut, edge, marker, where in (
        (up.beyond(low)[0], up.low, "v", "below"),
        (up.beyond(high)[1], up.high, "^", "above"),
    ):
        if cut.any():
            text, edges = say(f"plots.goes_on_{where}"), np.full(int(cut.sum()), edge)
            axes.scatter(across.place(y[cut]), edges, s=14, color=GREY, marker=marker, label=text, zorder=2)
    return across.place, up.place


def plot_coverage(validation: Any, path: Path | str, *, what: str = "polygons") -> Path:
    """Share of unseen bags inside their intervals, at all levels.

    Parameters
    ----------
    validation
        A `vbagg.validate.Validation`: anything with its table `reliability()`.
    path
        Where to write.
    what
        What is predicted, in the plural.
    """
    say, curve = texts_in(), validation.reliability()
    figure, axes = _one_panel(4.6, 4.6)
    level = 100 * curve["level"].to_numpy()
    axes.fill_between(level, 100 * curve["low"], 100 * curve["high"], color="0.85", label=_chance())
    axes.plot([0, 100], [0, 100], color=GREY, linewidth=1.2, label=say("plots.ideal"))
    axes.plot(level, 100 * curve["coverage"], color=BLUE, marker="o", markersize=4, label=say("plots.model"))
    held = say("plots.held", bags=say.noun(what))
    axes.set(xlabel=say("plots.level"), ylabel=held, xlim=(0, 100), ylim=(0, 100))
    axes.set(title=say("plots.coverage"), aspect="equal")
    axes.legend(frameon=False, loc="upper left")
    _write_marks(axes)
    plain(axes)
    return save(figure, path)


def plot_pit(validation: Any, path: Path | str, *, what: str = "polygons") -> Path:
    """Histogram of the probability integral transform: where observed values fell in what was predicted for them.

    Parameters
    ----------
    validation
        A `vbagg.validate.Validation`: anything with its table `pit_histogram()`.
    path
        Where to write.
    what
        What is predicted, in the plural.
    """
    from matplotlib.ticker import MaxNLocator

    say, bars = texts_in(), validation.pit_histogram()
    figure, axes = _one_panel(4.6, 4.6)
    width = (bars["right"] - bars["left"]).to_numpy()
    low, high = (100 * float(bars[name].iloc[0]) for name in ("low", "high"))
    axes.axhspan(low, high, color="0.85", label=_chance())
    axes.bar(bars["left"], 100 * bars["share"], width, align="edge", color=BLUE, alpha=0.75, edgecolor="white")
    axes.axhline(100 * float(bars["expected"].iloc[0]), color="black", linewidth=1.2, label=say("plots.ideal"))
    for end in (low, high):
        axes.axhline(end, color="black", linewidth=0.9, linestyle=":")
    axes.set(xlabel=say("plots.place"), xlim=(0, 1), title=say("plots.pit"))
    axes.set(ylabel=say("plots.unseen", bags=say.noun(what)))
    axes.set_ylim(0, 1.25 * max(high, 100 * float(bars["share"].max())))
    axes.yaxis.set_major_locator(MaxNLocator(6, steps=ROUND))
    axes.legend(frameon=False, loc="upper right", ncols=2)
    _write_marks(axes)
    plain(axes)
    return save(figure, path)


def plot_relevance(
    table: pd.DataFrame, path: Path | str, *, scale: str = "log rate", labels: Mapping[str, str] | None = None
) -> Path:
    """Relevance of covariates, as `vbagg.geo.relevance.relevance` gives it.

    Parameters
    ----------
    table
        `share`, `lower` and `upper` by covariate.
    path
        Where to write.
    scale
        What varies: the rate on the scale of the link.
    labels
        What covariates are called, by name.
    """
    say, table = texts_in(), table.iloc[::-1]
    place = np.arange(len(table))
    share, low, high = (100 * table[name].to_numpy() for name in ("share", "lower", "upper"))
    texts = [_folded((labels or {}).get(name, name)) for name in table.index]
    figure, axes = _one_panel(5.4, 1.5 + sum(0.24 + 0.17 * (1 + text.count("\n")) for text in texts))
    axes.barh(place, share, height=0.62, color=BLUE, alpha=0.75)
    axes.hlines(place, low, high, color="black", linewidth=1.4)
    axes.set_yticks(place, [literal(text) for text in texts])
    axes.set(xlabel=say("plots.share", scale=say.noun(scale)), title=say("plots.relevance"))
    axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter(_mark)
    plain(axes, grid="x")
    return save(figure, path)


def plot_dependence(
    curve: pd.DataFrame,
    name: str,
    prepared: Prepared,
    path: Path | str,
    *,
    units: str,
    top: float | None = None,
) -> Path:
    """Mean rate as a function of a covariate with its band, above the covariate's distribution.

    Parameters
    ----------
    curve
        What `vbagg.geo.relevance.partial_dependence` gave.
    name
        The covariate.
    prepared
        Pixels, whose weighted values make the histogram, and what the covariate's file says of it.
    path
        Where to write.
    units
        Units of rates.
    top
        Largest rate of the axis, to share it with other covariates; `highest_rate` of the curve by default.
    """
    from matplotlib.ticker import MaxNLocator

    figure, axes = _one_panel(3.8, 3.3)
    axes.fill_between(curve["value"], curve["lower"], curve["upper"], color=BLUE, alpha=0.25, linewidth=0)
    axes.plot(curve["value"], curve["rate"], color=BLUE, linewidth=2)
    _histogram(axes, prepared.pixels[name].to_numpy(dtype=np.float64), prepared.pixels["weight"].to_numpy(np.float64))
    axes.set_ylim(0, highest_rate({name: curve}) if top is None else top)
    _write_marks(axes)
    axes.xaxis.set_major_locator(MaxNLocator(5, steps=ROUND))
    axes.set(
        xlabel=literal(_folded(prepared.label(name))),
        ylabel=literal(_folded(texts_in()("plots.mean_rate", units=units))),
    )
    plain(axes)
    return save(figure, path)


def highest_rate(curves: Mapping[str, pd.DataFrame]) -> float:
    """Where the axis of all curves ends: a band that flares up shall not flatten them."""
    tops = [(curve["upper"].max(), FLARE * curve["rate"].max()) for curve in curves.values()]
    return 1.05 * float(np.max(tops, axis=0).min())


def _chance() -> str:
    return texts_in()("plots.chance", level=in_percent(0.95))


def _write_marks(axes: Axes) -> None:
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(_mark)


def _mark(value: float, _: float | None = None) -> str:
    return tick(value)


def _one_panel(width: float, height: float) -> tuple[Figure, Axes]:
    figure = new_figure(width, height, dots=FINE)
    return figure, figure.subplots()


def _folded(text: str, width: int = 38) -> str:
    """A text in lines of no more than so many letters."""
    from textwrap import wrap

    return "\n".join(line for part in text.split("\n") for line in wrap(part, width))


def _histogram(axes: Axes, values: Floats, weight: Floats) -> None:
    """Where the weight lies, along the foot of the panel."""
    ends = weighted_quantile(values, weight, [0.01, 0.99])
    counts, edges = np.histogram(values, bins=30, range=(float(ends[0]), float(ends[1])), weights=weight)
    foot = axes.twinx()
    foot.bar(edges[:-1], counts, np.diff(edges), align="edge", color="0.6", alpha=0.5)
    foot.set(ylim=(0, 5 * max(counts.max(), 1e-300)), yticks=[])
    foot.spines[["top", "right"]].set_visible(False)
