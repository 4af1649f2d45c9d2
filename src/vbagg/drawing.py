"""What all figures share: size, panels, colours, saving in one piece."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]
DOTS, FINE = 150, 200
"""Per inch: usually, and in small figures that may be enlarged."""
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "0.45"
"""Okabe and Ito's colours, which the colour-blind can tell apart."""


def new_figure(width: float, height: float, fixed_aspect: bool = False, dots: int = DOTS) -> Figure:
    """An empty figure, in inches; ``fixed_aspect`` packs panels that keep their shape."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), dpi=dots, layout="compressed" if fixed_aspect else "constrained")


def literal(text: str) -> str:
    """A text that a user gave, in which dollars are no mark of a formula."""
    return text.replace("$", r"\$")


def save(figure: Figure, path: Path | str) -> Path:
    """Save under a temporary name and move into place."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from PIL import Image

    path = Path(path)
    temporary = path.with_name(f".{path.stem}.tmp{path.suffix}")
    if path.suffix == ".png":
        # `savefig` would draw everything once more beforehand, to find places that the layout finds anyway
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        opaque = Image.frombuffer("RGBA", canvas.get_width_height(), canvas.buffer_rgba()).convert("RGB")
        opaque.save(temporary, dpi=(figure.dpi, figure.dpi))
    else:
        figure.savefig(temporary, dpi=figure.get_dpi())
    temporary.replace(path)
    return path


def plain(axes: Axes, grid: Literal["both", "x", "y"] = "both") -> None:
    """A light grid behind the data, and no frame above and to the right."""
    axes.grid(axis=grid, color="0.9", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.title.set_fontsize(11)


def panel_layout(count: int, columns: int) -> tuple[int, int]:
    """Rows, and columns that fill them evenly."""
    down = -(-count // columns)
    return down, -(-count // down)


def colour_norm(values: Floats, logarithmic: bool, diverging: bool) -> Normalize:
    """From the least to the largest value; by logarithms, or symmetric about zero."""
    from matplotlib.colors import LogNorm, Normalize

    if logarithmic:
        values = values[values > 0]
        return LogNorm(*(_ends(values) if values.size else (0.1, 1.0)))
    low, high = _ends(values) if values.size else (0.0, 1.0)
    if diverging:
        high = max(abs(low), abs(high))
        low = -high
    return Normalize(low, high)


def _ends(values: Floats) -> tuple[float, float]:
    return float(values.min()), float(values.max())


def colour_bar(axes: Axes, shown: ScalarMappable, values: Floats, label: str) -> None:
    """A bar whose ends are pointed where values lie beyond the scale."""
    low, high = _ends(values[np.isfinite(values)]) if np.isfinite(values).any() else (0.0, 0.0)
    bottom, top = shown.get_clim()
    assert bottom is not None
    assert top is not None
    beyond = low < bottom, high > top
    extend = {(True, True): "both", (True, False): "min", (False, True): "max"}.get(beyond, "neither")
    axes.figure.colorbar(shown, ax=axes, label=label, shrink=0.85, extend=extend)
