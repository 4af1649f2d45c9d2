"""What is mapped: names, values, titles, units and tags of the rasters that describe a rate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vbagg import __version__
from vbagg.geo.cog import Description
from vbagg.geo.map_words import title_of, units_of_map
from vbagg.geo.units import Units, likelihood_of, link_of

Floats = NDArray[np.float64]
MATCHED, INFORMATION = "expected_count_matched", "information"


@dataclass(frozen=True)
class Contents:
    """The maps of one model.

    Parameters
    ----------
    units
        Units of rates and counts.
    level
        Level of the interval.
    quantiles
        Further quantiles.
    threshold
        Rate, in the units of rates, whose probability of being exceeded is mapped.
    tags
        What all files say.
    has_information
        Whether it is mapped how much of what may vary inside polygons the data have settled.
    """

    units: Units
    level: float
    quantiles: tuple[float, ...]
    threshold: float | None
    tags: Mapping[str, str]
    has_information: bool = False

    def __post_init__(self) -> None:
        for name, values in (("level", (self.level,)), ("quantiles", self.quantiles)):
            for value in values:
                if not 0 < value < 1:
                    raise ValueError(
                        f"`{name}` must lie strictly between 0 and 1; got {value!r}. Give 0.9, not 90, for 90 percent."
                    )

        if len(self._named(self._ends)) < 2:
            raise ValueError(
                f"`level` must be so large that the ends of its interval differ; got {self.level!r}. Choose another."
            )

    @property
    def _ends(self) -> tuple[float, float]:
        return (1 - self.level) / 2, (1 + self.level) / 2

    @staticmethod
    def _named(quantiles: Iterable[float]) -> dict[str, float]:
        return {f"rate_q{q:.6g}": q for q in quantiles}

    @property
    def levels(self) -> dict[str, float]:
        """All quantiles by the name of their map: ends of the interval, then the chosen ones."""
        return self._named((*self._ends, *self.quantiles))

    def rates(self, posterior: Any) -> dict[str, Floats]:
        """Maps of the rates of some cells, by name; those that a model without uncertainty has come first."""
        per = self.units.per
        if not hasattr(posterior, "summary"):
            return {"rate_mean": per * posterior.mean}
        names, levels = zip(*self.levels.items(), strict=True)
        told = posterior.summary(levels, () if self.threshold is None else (self.threshold / per,))
        found = {"rate_mean": per * told.mean, "rate_sd": per * told.std}
        found |= zip(names, per * told.quantiles, strict=True)
        found["rate_interval_width"] = found[names[1]] - found[names[0]]
        found |= zip(("exceedance",), told.exceedances, strict=False)
        return found

    @property
    def rate_names(self) -> list[str]:
        """Names of the maps of rates, in the order of `rates`, and of what is mapped beside them."""
        threshold = [] if self.threshold is None else ["exceedance"]
        information = [INFORMATION] if self.has_information else []
        return ["rate_mean", "rate_sd", *self.levels, "rate_interval_width", *threshold, *information]

    def values(self, rates: Floats, exposure: Floats) -> dict[str, Floats]:
        """All maps of some cells, by name, from numbers (k, n) by `rate_names` and the exposure of whole cells."""
        found = dict(zip(self.rate_names, rates, strict=False))
        if self.units.has_counts:
            found["expected_count"] = found["rate_mean"] / self.units.per * exposure
        found[self.units.exposure] = exposure
        return found

    def description(self, name: str) -> Description:
        """Title, units and tags of a map."""
        title, units, own = self._described(name)
        facts = {key: f"{value:.6g}" for key, value in own.items()}
        return Description(title, units, {**self.tags, "map": name, "rate_units": self.units.rate, **facts})

    def _described(self, name: str) -> tuple[str, str, dict[str, float]]:
        own = self._numbers(name)
        told = {"level": self.level, "threshold": self.threshold or 0.0, **own}
        return title_of(name, self.units, told), units_of_map(name, self.units), own

    def _numbers(self, name: str) -> dict[str, float]:
        """Those that belong to a map."""
        is_end = name in list(self.levels)[:2]
        return {
            **({"quantile": self.levels[name]} if name in self.levels else {}),
            **({"level": self.level} if is_end or name == "rate_interval_width" else {}),
            **({"threshold": self.threshold or 0.0} if name == "exceedance" else {}),
        }


def model_tags(model: Any, response: str) -> dict[str, str]:
    """What every map says of the model it comes from."""
    return {
        "response": response,
        "period": f"that in which {response!r} was counted",
        "model": type(model).__name__,
        "likelihood": likelihood_of(model).name,
        "link": link_of(model).name,
        "vbagg_version": __version__,
        "TIFFTAG_SOFTWARE": f"vbagg {__version__}",
    }
