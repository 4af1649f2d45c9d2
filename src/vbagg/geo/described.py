"""What files say of their layers: titles and units, as axes, legends and tables show them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from vbagg.geo.gaps import Filling
from vbagg.geo.rasters import Layer
from vbagg.numerals import RAISED

LONGEST = 80
"""Characters of a title or of units; the rest is cut off."""
NO_UNITS = {"1", "-", "none", "unitless", "dimensionless", "no units", "n/a", "na", "unknown"}
CELSIUS = re.compile(r"(deg(ree)?s?[ _]?)?celsius|deg(ree)?s?[ _]?c|°c|c", re.IGNORECASE)
POWER = re.compile(r"(?<=[A-Za-z])(?:(?:\*\*|\^)(-?\d)|(-\d))(?!\w)|(?<=\b[kc]m)([23])\b|(?<=\bm)([23])\b")
PART = "part of the cell"
"""Units of a class: each has a column with the part of every cell that it covers."""


@dataclass(frozen=True)
class Described:
    """What a covariate is: a title that says more than its name, and units; either may be empty."""

    title: str = ""
    units: str = ""

    @classmethod
    def of(cls, title: str, units: str) -> Described:
        """From what a file says."""
        return cls(_one_line(title), _tidy(_one_line(units)))

    def titled(self, name: str) -> str:
        """The title, or the name of the covariate."""
        return self.title or name

    def named(self, name: str) -> str:
        """The name of the covariate, with its units."""
        return f"{name} ({self.units})" if self.units else name

    def labelled(self, name: str) -> str:
        """Title, name and units; what is the title but for its spelling is left out."""
        if not self.title or _letters(self.title) == _letters(name):
            return Described(units=self.units).named(self.titled(name))
        return f"{self.title}\n{self.named(name)}"


def described(filling: Filling, layers: Iterable[Layer]) -> dict[str, Described]:
    """What is known of each covariate, by its name, from the layer that each group of them comes from."""
    found: dict[str, Described] = {}
    for group, layer in zip(filling.groups, layers, strict=True):
        own = Described.of(layer.title, layer.units)
        title, units = own.titled(layer.name), PART if group.categories else own.units
        for name in group.columns:
            found[name] = Described.of(f"{title}, class {name.rpartition('=')[2]}", units) if group.categories else own
        if group.name in filling.constants:
            found[group.indicator] = Described.of(f"Where {title} is missing", units if group.categories else "")
    return {name: one for name, one in found.items() if one != Described()}


def _one_line(text: str) -> str:
    text = " ".join(re.sub(r"[\x00-\x1f\x7f-\x9f]", " ", text).split())
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1].rstrip()}\u2026"


def _tidy(units: str) -> str:
    """Units as people write them."""
    units = units.removeprefix("[").removesuffix("]").strip()
    if units.lower() in NO_UNITS:
        return ""
    if CELSIUS.fullmatch(units):
        return "°C"
    return POWER.sub(lambda found: next(part for part in found.groups() if part).translate(RAISED), units)


def _letters(text: str) -> str:
    return re.sub(r"[\W_]+", "", text).lower()
