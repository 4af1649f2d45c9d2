"""A picture of skill and coverage by scale: what was seen inside unions, and what is expected of cells."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vbagg import numerals
from vbagg.drawing import BLUE, FINE, GREY, ORANGE, literal, new_figure, plain, save
from vbagg.texts import texts_in
from vbagg.validate.bag_scores import percent

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from vbagg.validate.recovered import Recovery

Floats = NDArray[np.float64]
JUDGED, SECOND = 0.9, 0.5
SHOWN = {JUDGED: (BLUE, "o"), SECOND: ("#009E73", "s")}
"""Levels whose coverage is drawn, with colour and mark."""
NAMES = {JUDGED: "judged", SECOND: "second"}
LEAST_SKILL, MOST_SKILL, WRITTEN = -100.0, 150.0, 1000.0
"""Percent: where the axis of skill is cut off, and from where numbers beyond are not written."""
FULL = 104.0
"""Percent: end of an axis on which all is 100%."""
HEAD = 0.22
"""How much higher the panel is on which grounds are told."""
PANELS = ("skill", "coverage")
ASIDE = 1.05
"""How far marks of the second level stand beside those of the first."""
BEYOND = 3.0
"""How many times as far out as the last scale cells are drawn at least."""
SOLID, DASHED = (0.0, ()), (0.0, (3.0, 2.0))
PAPER = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
"""Behind numbers that may stand on a line."""
MARKS = ("observed", "expected", "claimed", "one_rate", "judged", "second", "if_right", "below", "above", "unknown")
"""What is told of, in this order."""


def plot_trend(
    trend: pd.DataFrame,
    path: Path | str,
    *,
    recovery: Recovery | None = None,
    what: str = "bags",
    cells: str = "individuals",
    panels: Sequence[str] = PANELS,
) -> Path:
    """Skill, and below it coverage, against the number of parts of an area whose total is known.

    What was seen has filled marks, what is expected of cells hollow ones on a ground of their own. Cells stand at their
    number of parts, or to the right of all scales where bags have fewer of them than unions have bags.

    Parameters
    ----------
    trend
        What `Nested.trend` gave.
    path
        Where to write.
    recovery
        Coverage of cells that refits to simulated outputs found.
    what, cells
        What bags and individuals are, in the plural.
    panels
        Those that are drawn.
    """
    figure = new_figure(4.6, 2.2 + 2.4 * len(panels), dots=FINE)
    drawn = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    row = _Row.of(trend)
    for axes, panel in zip(drawn, panels, strict=True):
        if panel == "skill":
            _draw_skill(axes, trend, row)
        else:
            _draw_coverage(axes, trend, row, recovery)
        row.dress(axes)
        plain(axes, grid="y")
    row.tell_grounds(drawn[0], what, cells)
    drawn[-1].set_xlabel(texts_in()("picture.parts"))
    _legend(figure, drawn)
    return save(figure, path)


@dataclass(frozen=True, eq=False)
class _Row:
    """Where scales and cells stand along the axis."""

    at: Floats
    parts: Floats
    observed: NDArray[np.bool_]

    @classmethod
    def of(cls, trend: pd.DataFrame) -> _Row:
        parts, observed = trend["size"].to_numpy(dtype=float), trend["observed"].to_numpy(dtype=bool)
        at = parts.copy()
        at[~observed] = np.maximum(at[~observed], BEYOND * at[observed].max())
        return cls(at, parts, observed)

    def points(self, axes: Axes, values: Floats, low: Floats, high: Floats, level: float) -> None:
        """Marks with intervals in percent, and a line through those that were seen."""
        (colour, mark), at = SHOWN[level], self.at * (1.0 if level == JUDGED else ASIDE)
        axes.plot(at[self.observed], values[self.observed], color=colour, linewidth=1.0, alpha=0.5)
        for own, style, inner, name in ((self.observed, SOLID, colour, "observed"), (~self.observed, DASHED, "white",
                                                                                   "expected")):  # fmt: skip
            axes.vlines(at[own], low[own], high[own], color=colour, linewidth=1.6, linestyles=style)
            look: dict[str, Any] = {"s": 42, "marker": mark, "color": inner, "edgecolors": colour, "linewidths": 1.6}
            if own.any():
                axes.scatter(at[own], values[own], zorder=3, label=_meaning(name) if level == JUDGED else None, **look)

    @property
    def border(self) -> float:
        """Between what was observed and what is expected."""
        return self.ends[1] if self.observed.all() else float(np.sqrt(self.at[self.observed][-1] * self.at[-1]))

    @property
    def ends(self) -> tuple[float, float]:
        """Of the axis."""
        return float(self.at[0] / 1.5), float(self.at[-1] * (1.5 if self.observed.all() else 2.0))

    def dress(self, axes: Axes) -> None:
        """Numbers of parts below, and another ground where nothing was observed."""
        axes.set_xscale("log")
        axes.minorticks_off()
        axes.set_xticks(self.at, [numerals.count(round(parts)) for parts in self.parts])
        axes.set_xlim(self.ends)
        if not self.observed.all():
            axes.axvspan(self.border, self.ends[1], color=ORANGE, alpha=0.09, linewidth=0, zorder=0)

    def tell_grounds(self, axes: Axes, what: str, cells: str) -> None:
        """Say on top which ground is which, above all that is drawn."""
        bottom, top = axes.get_ylim()
        axes.set_ylim(bottom, top + HEAD * (top - bottom))
        left, right = self.ends
        for start, end, name in ((left, self.border, "observed"), (self.border, right, "expected")):
            if start < end:
                place: dict[str, Any] = {
                    "transform": axes.get_xaxis_transform(),
                    "ha": "center",
                    "va": "top",
                    "size": 9,
                }
                text = texts_in()(f"picture.ground_{name}", what=what, cells=cells)
                axes.text(np.sqrt(start * end), 0.985, literal(text), **place)


def _draw_skill(axes: Axes, trend: pd.DataFrame, row: _Row) -> None:
    """Share of differences explained; arrows and numbers stand where it goes on beyond the axis.

    It can be more than all, since what chance adds is only known on average. Where it is not known, an interval of
    those draws in which it is would say nothing.
    """
    known = trend["skill"].notna()
    value, low, high = (100 * trend[name].where(known).to_numpy(dtype=float) for name in ("skill", "low", "high"))
    least, most = _ends(np.concatenate([value, low, high]))
    bottom, top = least - 0.08 * (100 - least), most
    axes.axhline(0, color="black", linewidth=1.2, label=_meaning("one_rate"), zorder=1)
    claimed = 100 * trend["claimed"].to_numpy(dtype=float)
    axes.scatter(row.at, claimed, s=150, color=GREY, marker="_", linewidths=1.8, label=_meaning("claimed"), zorder=2)
    beyond, unknown = (value < least) | (value > most), np.isnan(value)
    row.points(axes, np.where(beyond, np.nan, value), np.maximum(low, bottom), np.minimum(high, top), JUDGED)
    for which, height, mark, name in (
        ((value < least) | (low < least), bottom, "v", "below"),
        ((value > most) | (high > most), top, "^", "above"),
        (unknown, 0.0, "$?$", "unknown"),
    ):
        if which.any():
            look: dict[str, Any] = {"s": 90 if name == "unknown" else 40, "color": GREY, "marker": mark, "zorder": 4}
            axes.scatter(row.at[which], np.full(which.sum(), height), label=_meaning(name), clip_on=False, **look)
    for at, own in zip(row.at[beyond], value[beyond], strict=True):
        end, up = (bottom, 7) if own < least else (top, -14)
        axes.annotate(_written(own), (at, end), (0, up), textcoords="offset points", ha="center", size=8, bbox=PAPER)
    axes.set_ylim(bottom, top)
    _name(axes, "skill")
    _percent(axes, [at for at in (-100, -50, 0, 50, 100) if at >= bottom])


def _ends(values: Floats) -> tuple[float, float]:
    """Of the axis of skill."""
    known = values[np.isfinite(values)]
    least, most = known.min(initial=-10.0), known.max(initial=100.0)
    return max(LEAST_SKILL, float(least)), FULL if most <= FULL else min(MOST_SKILL, float(most))


def _draw_coverage(axes: Axes, trend: pd.DataFrame, row: _Row, recovery: Recovery | None) -> None:
    """Share inside intervals of the levels shown."""
    if row.observed.all() or (recovery is not None and not recovery.has_results):
        recovery = None
    for level, (colour, mark) in SHOWN.items():
        value, low, high = (100 * trend[f"{name}_{percent(level)}"].to_numpy() for name in ("coverage", "low", "high"))
        axes.axhline(100 * level, color=colour, linewidth=1.2, linestyle="--", zorder=1)
        axes.plot([], [], color=colour, marker=mark, linestyle="--", label=_meaning(NAMES[level]))
        row.points(axes, value, low, high, level)
        if recovery is not None:
            held = 100 * recovery.coverage(level)
            axes.scatter(
                row.at[-1:] / ASIDE**2, [held], s=44, color="black", marker="x", label=_meaning("if_right"), zorder=4
            )
    axes.set_ylim(100 - FULL, FULL)
    _name(axes, "coverage")
    _percent(axes, [0, 25, 50, 75, 90, 100])


def _name(axes: Axes, panel: str) -> None:
    say = texts_in()
    axes.set(ylabel=say(f"picture.axis_{panel}"), title=say(f"picture.title_{panel}"))


def _meaning(mark: str) -> str:
    """What a mark stands for."""
    return texts_in()(f"picture.mark_{mark}", level=numerals.level(SECOND if mark == NAMES[SECOND] else JUDGED))


def _percent(axes: Axes, ticks: list[int]) -> None:
    axes.set_yticks(ticks, [numerals.share(at / 100) for at in ticks])


def _written(skill: float) -> str:
    """Far beyond the axis nobody needs to know how far."""
    if abs(skill) < WRITTEN:
        return numerals.share(round(skill / 100, 2))
    return f"{'<' if skill < 0 else '>'}{numerals.share(np.sign(skill) * WRITTEN / 100)}"


def _legend(figure: Figure, panels: Iterable[Axes]) -> None:
    """One for all panels, below them."""
    found = {text: mark for axes in panels for mark, text in zip(*axes.get_legend_handles_labels(), strict=True)}
    texts = [text for text in map(_meaning, MARKS) if text in found]
    figure.legend([found[text] for text in texts], texts, frameon=False, loc="outside lower left", handlelength=2.2)
