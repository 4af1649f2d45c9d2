"""What the figures of experiments share: colours of methods, means with spread, captions."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

# Okabe and Ito's colours, which the colour-blind can tell apart, by family and link
_COLOURS = {
    "vbagg": "#0072B2",
    "vbagg-sq": "#0072B2",
    "vbagg-exp": "#D55E00",
    "nystrom": "#E69F00",
    "nystrom-exp": "#E69F00",
    "nystrom-sq": "#8C6100",
    "nn": "#009E73",
    "nn-exp": "#009E73",
    "nn-sq": "#00553E",
    "bag-pixel": "#CC79A7",
    "constant": "#666666",
    "oracle": "#000000",
}
_OTHER_COLOURS = ("#56B4E9", "#882255", "#999933", "#AA4499", "#44AA99", "#661100")
_MARKERS = {"vbagg": "o", "nystrom": "s", "nn": "^", "bag-pixel": "D", "constant": "v", "oracle": "*"}
_OTHER_MARKERS = ("P", "X", "<", ">", "p", "h")
_VARIANT_LINES: dict[str, Any] = {"obj": "--", "adam": ":"}
_VARIANT_MARKERS = {"graph": "X"}
_OTHER_LINES: tuple[Any, ...] = ("-.", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)))


def method_style(name: str) -> dict[str, Any]:
    """Colour, marker and line of a method: the same in every figure, whatever other methods it shows.

    Family and link set the colour. Variants of a method, as in "VBAgg-Sq-Obj", have broken lines and hollow markers,
    some of another shape.
    """
    base, variant = _split(name)
    family = next((known for known in sorted(_MARKERS, key=len) if base.startswith(known)), base)
    code = zlib.crc32(base.encode())
    colour = _COLOURS.get(base) or _COLOURS.get(family) or _OTHER_COLOURS[code % len(_OTHER_COLOURS)]
    style: dict[str, Any] = {
        "color": colour,
        "marker": _VARIANT_MARKERS.get(variant) or _MARKERS.get(family) or _OTHER_MARKERS[code % len(_OTHER_MARKERS)],
        "linestyle": "-",
        "markerfacecolor": "white" if variant else colour,
    }
    if variant:
        other = _OTHER_LINES[zlib.crc32(variant.encode()) % len(_OTHER_LINES)]
        style["linestyle"] = _VARIANT_LINES.get(variant, other)
    return style


def _split(name: str) -> tuple[str, str]:
    """Method with its link, and the variant: ("vbagg-sq", "obj")."""
    plain = name.lower().replace("ö", "o").replace("bagpixel", "bag-pixel").replace("bag pixel", "bag-pixel")
    for base in sorted(_COLOURS, key=len, reverse=True):
        if plain.startswith(base) and not plain[len(base) : len(base) + 1].isalnum():
            return base, plain[len(base) :].strip("-_ ()")
    return plain, ""


def in_order(methods: Any) -> list[str]:
    """Methods in order of first appearance."""
    return list(dict.fromkeys(methods))


def mean_and_spread(values: Any, by: Any, spread: str) -> pd.DataFrame:
    """Columns ``mean``, ``spread`` (0 for one value) and ``count`` for each value of ``by``, ascending."""
    import pandas as pd

    groups = pd.Series(np.asarray(values, dtype=float)).groupby(np.asarray(by))
    deviation = groups.std() if spread == "std" else groups.sem()
    return pd.DataFrame({"mean": groups.mean(), "spread": deviation.fillna(0.0), "count": groups.count()})


def spread_note(counts: Any, spread: str) -> str:
    """What the bars mean, such as "mean ± standard deviation of 5 repetitions"."""
    from vbagg.experiments.tables import SPREADS

    fewest, most = int(min(counts)), int(max(counts))
    if most == 1:
        return "one repetition"
    number = f"{most}" if fewest == most else f"{fewest} to {most}"
    return f"mean ± {SPREADS[spread]} of {number} repetitions"
