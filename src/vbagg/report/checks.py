"""What a report must be like before a page is made of it."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import get_args

import numpy as np

from vbagg.errors import unknown_name
from vbagg.report.content import (
    Block,
    Districts,
    Figure,
    Finding,
    Foreign,
    Level,
    MapLayer,
    Orientation,
    Report,
    Section,
    Table,
)

MOST_PIXELS = 4096 * 4096
"""What browsers on phones can draw."""
RESERVED_ANCHORS = ("above", "map", "cite", "appendix", "words")


def check(report: Report) -> None:
    """Raise ValueError at the first thing that cannot be shown."""
    _check_layers(report)
    if report.districts is not None:
        _check_districts(report.districts)
    if report.orientation is not None:
        _check_orientation(report.orientation)
    anchors = list(RESERVED_ANCHORS)
    for section in (*report.sections, *report.appendix):
        _check_anchor(section, anchors)
        anchors.append(section.anchor)
        _check_blocks(section)


def _check_layers(report: Report) -> None:
    layers: dict[str, MapLayer] = {}
    for layer in report.layers:
        if layer.name in layers:
            raise ValueError(f"Names of layers must differ; got {layer.name!r} twice. Rename one.")
        layers[layer.name] = layer
    for layer in report.layers:
        _check_values(layer, report.layers[0])
        _check_look(layer)
        _check_references(layer, layers)
    if report.layers:
        _check_bounds(report.bounds)
    if report.compare is not None and report.compare not in layers:
        raise unknown_name("compare", report.compare, layers)


def _check_values(layer: MapLayer, first: MapLayer) -> None:
    values = layer.values
    if np.ndim(values) != 2 or np.size(values) == 0:
        raise ValueError(
            f"`values` must be (H, W) and not empty; got shape {np.shape(values)} in layer {layer.name!r}."
        )
    if values.shape != first.values.shape:
        raise ValueError(
            f"All layers must have the shape of the first, {first.values.shape} ({first.name!r}); got {values.shape} in"
            f" layer {layer.name!r}. Bring them to one grid."
        )
    if values.size > MOST_PIXELS:
        raise ValueError(
            f"A layer may have {MOST_PIXELS:,} pixels; got {values.size:,} in layer {layer.name!r}. Coarsen the layers."
        )
    if not np.issubdtype(values.dtype, np.floating):
        raise ValueError(f"`values` must be floating point; got {values.dtype} in layer {layer.name!r}. Convert them.")
    if np.isinf(values).any():
        row, column = np.argwhere(np.isinf(values))[0]
        raise ValueError(
            f"`values` must be finite, or NaN where missing; got {values[row, column]} at row {row}, column {column} of"
            f" layer {layer.name!r}. Replace it by NaN."
        )


def _check_look(layer: MapLayer) -> None:
    if layer.digits not in (2, 3, 4):
        raise ValueError(f"`digits` must be 2, 3 or 4; got {layer.digits!r} in layer {layer.name!r}.")
    _check_colours(layer)
    if layer.limits is None:
        return
    low, high = layer.limits
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(f"`limits` must be two ascending numbers; got {layer.limits} in layer {layer.name!r}.")
    if layer.log and low <= 0:
        raise ValueError(f"`limits` of a log layer must be positive; got {layer.limits} in layer {layer.name!r}.")


def _check_colours(layer: MapLayer) -> None:
    from cmcrameri import cm

    if layer.colours not in cm.cmaps:
        nearest = difflib.get_close_matches(layer.colours, cm.cmaps, n=1)
        remedy = f"Did you mean {nearest[0]!r}?" if nearest else "Take 'batlow', for example."
        raise ValueError(
            f"`colours` must be one of cmcrameri's maps; got {layer.colours!r} in layer {layer.name!r}. {remedy}"
        )


def _check_references(layer: MapLayer, layers: Mapping[str, MapLayer]) -> None:
    for field in ("lower", "upper", "same_scale_as"):
        name = getattr(layer, field)
        if name is not None and name not in layers:
            raise unknown_name(f"{field} of layer {layer.name}", name, layers)
    if (layer.lower is None) != (layer.upper is None):
        raise ValueError(
            f"`lower` and `upper` go together; layer {layer.name!r} has one of them. Give both or neither."
        )
    seen = [layer.name]
    while (following := layers[seen[-1]].same_scale_as) is not None:
        if following in seen:
            raise ValueError(f"`same_scale_as` must not run in a circle; got {' -> '.join([*seen, following])}.")
        seen.append(following)


def _check_bounds(bounds: tuple[float, float, float, float] | None) -> None:
    if bounds is None:
        raise ValueError("`bounds` must be given with layers: (west, south, east, north) in degrees.")
    west, south, east, north = bounds
    if not (-360 <= west < east <= 360 and -90 <= south < north <= 90 and east - west <= 360):
        raise ValueError(
            "`bounds` must be (west, south, east, north) in degrees, west < east and south < north; got"
            f" {tuple(bounds)}."
        )


def _check_districts(districts: Districts) -> None:
    features = districts.geojson.get("features")
    if features is None:
        raise ValueError(f"`geojson` must be a FeatureCollection; got type {districts.geojson.get('type')!r}.")
    if len(features) != len(districts.facts):
        raise ValueError(f"`facts` must have one entry per feature; got {len(districts.facts)} for {len(features)}.")
    for position, feature in enumerate(features):
        geometry = feature.get("geometry") or {}
        kind = geometry.get("type")
        if kind not in ("Polygon", "MultiPolygon"):
            raise ValueError(
                f"Districts must be Polygons or MultiPolygons; got {kind} at feature {position}. Drop or convert it."
            )
        if not geometry["coordinates"]:
            raise ValueError(f"Districts must not be empty; got an empty {kind} at feature {position}. Drop it.")


def _check_orientation(orientation: Orientation) -> None:
    for kind in ("coasts", "borders"):
        for position, line in enumerate(getattr(orientation, kind)):
            if np.ndim(line) != 2 or np.shape(line)[1] != 2 or not np.isfinite(line).all():
                raise ValueError(
                    f"`{kind}` must be lines of finite longitudes and latitudes (n, 2); got shape {np.shape(line)} at"
                    f" line {position}. Drop or convert it."
                )
    for name, *place in orientation.cities:
        if not np.isfinite(place).all():
            raise ValueError(f"Cities must have a longitude and a latitude; got {place} for {name!r}. Drop it.")


def _flat(blocks: Sequence[Block]) -> Iterator[Block]:
    for block in blocks:
        if isinstance(block, Foreign):
            yield from _flat(block.blocks)
        else:
            yield block


def _check_anchor(section: Section, taken: list[str]) -> None:
    if not re.fullmatch(r"[A-Za-z][\w-]*", section.anchor):
        raise ValueError(
            f"`anchor` must be letters, digits, '-' and '_', a letter first; got {section.anchor!r} in section"
            f" {section.title!r}."
        )
    if section.anchor in taken or section.anchor.startswith("vbagg-"):
        raise ValueError(
            f"Anchors must differ, also from {', '.join(map(repr, RESERVED_ANCHORS))} and 'vbagg-...'; got"
            f" {section.anchor!r} in section {section.title!r}. Rename it."
        )


def _check_blocks(section: Section) -> None:
    for block in _flat(section.blocks):
        if isinstance(block, Finding) and block.level not in get_args(Level):
            raise unknown_name(f"level of a finding in section {section.title}", block.level, get_args(Level))
        if isinstance(block, Figure) and not block.alt.strip():
            raise ValueError(f"`alt` must describe the figure; got none for {block.caption!r} in {section.title!r}.")
        if isinstance(block, Table):
            _check_table(block, section)


def _check_table(table: Table, section: Section) -> None:
    for position, row in enumerate(table.rows):
        if len(row) != len(table.headers):
            raise ValueError(
                f"Rows must be as long as the headers, {len(table.headers)}; got {len(row)} cells at row {position} of"
                f" a table in section {section.title!r}."
            )
