"""What maps are called, and their units, in the language that is written: in files, on figures and in the viewer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from vbagg import numerals
from vbagg.texts import texts_in
from vbagg.wording import sentence

if TYPE_CHECKING:
    from vbagg.geo.units import Units

QUANTILE = "rate_q"
"""Maps of quantiles begin so."""
WRITERS: Mapping[str, numerals.Write] = {
    "level": numerals.level,
    "quantile": numerals.given,
    "threshold": numerals.given,
}
"""Numbers that a title may need beside the units."""
RATES = {"rate_mean", "rate_sd", "rate_interval_width", "rate_quantile"}
COUNTS = {"expected_count", "expected_count_matched"}
EXPOSURES = {"population", "area", "expected"}


def title_of(name: str, units: Units, numbers: Mapping[str, float]) -> str:
    """What a map shows, as its file says."""
    say = texts_in()
    told = {"rate": units.rate, "exposure": say(f"maps.{units.exposure}"), **_written(numbers)}
    return say(f"maps.{_kind(name)}", **told)


def words_of(tags: Mapping[str, str], units: Units) -> tuple[str, str]:
    """Title and units of a map by the tags of its file; as the file has them where the map is none of ours."""
    name = tags.get("map", "")
    if not is_known(name):
        return tags.get("title", ""), tags.get("units", "")
    return title_of(name, units, numbers_in(tags)), units_of_map(name, units)


def caption_of(tags: Mapping[str, str], units: Units) -> str:
    """The title as a sentence."""
    return f"{sentence(words_of(tags, units)[0])}."


def heading_of(name: str, rate: str, numbers: Mapping[str, float]) -> str:
    """The same at the top of a figure, with units of rates."""
    return texts_in()(f"map_titles.{_kind(name)}", rate=rate, **_written(numbers))


def label_of(name: str) -> str:
    """The same in a list of maps."""
    say, kind = texts_in(), _kind(name)
    if kind not in say.entries["map_names"]:
        return name
    quantile = numerals.given(float(name.removeprefix(QUANTILE))) if kind == "rate_quantile" else ""
    return say(f"map_names.{kind}", quantile=quantile)


def units_of_map(name: str, units: Units) -> str:
    """Units of its cells."""
    say, kind = texts_in(), _kind(name)
    if kind in RATES:
        return units.rate
    if kind in COUNTS or (kind in EXPOSURES and units.is_relative):
        return units.count
    return say("units.cell", what=units.weighed) if kind in EXPOSURES else say(f"units.{kind}")


def is_known(name: str) -> bool:
    """Whether a map is one of ours."""
    return _kind(name) in texts_in().entries["maps"]


def numbers_in(tags: Mapping[str, str]) -> dict[str, float]:
    """Those that the tags of a file hold."""
    return {name: float(tags[name]) for name in WRITERS if name in tags}


def _kind(name: str) -> str:
    return "rate_quantile" if name.startswith(QUANTILE) else name


def _written(numbers: Mapping[str, float]) -> dict[str, str]:
    """All of them as texts, empty where a map has none."""
    return {name: write(numbers[name]) if name in numbers else "" for name, write in WRITERS.items()}
