"""What a report holds: words, map layers, districts, tables of areas, and sections made of a few kinds of blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from vbagg.language import ENGLISH
from vbagg.report.above import AboveCurve
from vbagg.report.area_table import AreaTable

Level = Literal["error", "warning", "advice"]
Word = Literal["yes", "with care", "no", "unchecked"]
"""How far a map can be relied on; `unchecked` where nobody has looked."""


@dataclass(frozen=True, eq=False)
class MapLayer:
    """One map of the viewer.

    Parameters
    ----------
    name : str
        By which other layers refer to this one.
    label, units, description : str
        What the reader sees: title, units (may be empty), and a sentence or two.
    values : ndarray of shape (H, W)
        Row 0 is the northmost. NaN where there is no value.
    colours : str
        One of cmcrameri's maps.
    log : bool
        Whether colours follow the logarithm of the value.
    lower, upper : str, optional
        Names of the layers that hold the ends of the interval shown with each value.
    interval : str
        What that interval is called, such as "90% interval".
    same_scale_as : str, optional
        Name of the layer whose colours, limits and ``log`` this one takes over.
    limits : (float, float), optional
        Values of the first and the last colour; otherwise the 0.5% and 99.5% quantiles.
    digits : int
        Significant digits stored and shown, 2 to 4.
    """

    name: str
    label: str
    units: str
    values: np.ndarray
    colours: str = "batlow"
    log: bool = False
    description: str = ""
    lower: str | None = None
    upper: str | None = None
    interval: str = ""
    same_scale_as: str | None = None
    limits: tuple[float, float] | None = None
    digits: int = 3


@dataclass(frozen=True, eq=False)
class Districts:
    """Polygons over the map, and what to say about each.

    Parameters
    ----------
    geojson : mapping
        A GeoJSON FeatureCollection of Polygons and MultiPolygons in longitude and latitude, already simplified.
    facts : sequence of mappings
        Label to text, one mapping per feature; the first entry is the heading, such as ``{"District": "Ambato"}``.
    """

    geojson: Mapping[str, Any]
    facts: Sequence[Mapping[str, str]]


@dataclass(frozen=True, eq=False)
class Orientation:
    """Coasts, borders and cities around the map, in the longitudes of its bounds.

    Parameters
    ----------
    coasts, borders : sequence of ndarray of shape (n, 2)
        Longitudes and latitudes of lines.
    cities : sequence of (name, longitude, latitude)
        The most important first; names are shown where there is room.
    source : str
        Where these data come from, for the foot of the page.
    """

    coasts: Sequence[np.ndarray]
    borders: Sequence[np.ndarray]
    cities: Sequence[tuple[str, float, float]]
    source: str


@dataclass(frozen=True)
class Explained:
    """A text of a table that a word of the glossary explains, by its key."""

    text: str
    word: str


TableText = str | Explained
"""A head, or a cell that is no number."""


@dataclass(frozen=True)
class Table:
    """Rows of text or numbers; columns of numbers are set flush right."""

    headers: Sequence[TableText]
    rows: Sequence[Sequence[TableText | float | None]]
    caption: str = ""


@dataclass(frozen=True)
class Figure:
    """A PNG picture, as bytes or the path of a file; of small ones more stand side by side."""

    png: bytes | Path | str
    caption: str
    alt: str
    small: bool = False


@dataclass(frozen=True)
class Code:
    """Text in a fixed-width face, folded under its title; that of settings otherwise."""

    text: str
    title: str = ""


@dataclass(frozen=True)
class Finding:
    """One result of the data check."""

    level: Level
    text: str


@dataclass(frozen=True)
class Link:
    """A file that lies beside the page, by its path from there."""

    path: str
    title: str


@dataclass(frozen=True)
class Links:
    """Files beside the page."""

    links: Sequence[Link]


@dataclass(frozen=True)
class Foreign:
    """Blocks in another language than that of the page, if they are: their words are not explained."""

    blocks: Sequence[Block]
    language: str = ENGLISH


Block = str | Table | Figure | Code | Finding | Links | Foreign
"""A string is a paragraph, its line breaks kept."""


@dataclass(frozen=True)
class Section:
    """A heading with its blocks; figures in a row stand side by side, findings in a row make one list.

    A section without blocks is left out.
    """

    title: str
    anchor: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Judgement:
    """Whether the map can be relied on.

    Parameters
    ----------
    word : str
        One of `Word`, which decides on colour and shape.
    question, answer : str
        What is asked, and the word as the reader sees it.
    reasons : sequence of str
        Sentences.
    """

    word: Word
    question: str
    answer: str
    reasons: Sequence[str]


@dataclass(frozen=True)
class MadeWith:
    """How the report came about."""

    version: str
    date: str
    command: str = ""


@dataclass(frozen=True, eq=False)
class Report:
    """All that `write_report` needs.

    Parameters
    ----------
    title, subtitle : str
    paragraph : str
        All that matters, in a few sentences that anybody understands.
    judgement : Judgement, optional
    summary : sequence of (label, value)
        A few key facts.
    above : AboveCurve, optional
        How many people live above a threshold.
    tables : sequence of AreaTable
    layers : sequence of MapLayer
        The first is shown at the start. All have one shape, at most 16.7 million pixels.
    bounds : (west, south, east, north)
        Outer edges of the layers in degrees of longitude and latitude.
    districts : Districts, optional
    orientation : Orientation, optional
    map_note : str
        What to know before looking at the map.
    sections : sequence of Section
    appendix : sequence of Section
        For the statistician; folded until asked for, and last.
    citation : str
        How to cite; line breaks are kept.
    made_with : MadeWith, optional
    language : str
    names : sequence of str
        Names that users gave, such as that of what was counted: they are no words of the glossary.
    compare : str, optional
        Name of the layer that stands on the right when two maps are compared; otherwise the second.
    """

    title: str
    subtitle: str = ""
    paragraph: str = ""
    judgement: Judgement | None = None
    summary: Sequence[tuple[str, str]] = ()
    above: AboveCurve | None = None
    tables: Sequence[AreaTable] = ()
    layers: Sequence[MapLayer] = ()
    bounds: tuple[float, float, float, float] | None = None
    districts: Districts | None = None
    orientation: Orientation | None = None
    map_note: str = ""
    sections: Sequence[Section] = ()
    appendix: Sequence[Section] = ()
    citation: str = ""
    made_with: MadeWith | None = None
    compare: str | None = None
    language: str = ENGLISH
    names: Sequence[str] = ()
