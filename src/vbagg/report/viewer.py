"""Data of the map viewer, as blocks that its scripts read."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from numbers import Real
from typing import Any

import numpy as np

from vbagg.colours import ColourScale, beyond, colour_table
from vbagg.report.content import Districts, MapLayer, Orientation, Report
from vbagg.report.encoding import Coding, encode, pack_bytes, pack_codes
from vbagg.report.scales import scales_of
from vbagg.report.scripts import DataBlock, script_json
from vbagg.texts import texts_in

COORDINATE_DIGITS = 5
"""Decimals of district coordinates: about a metre."""
FINEST_DECADE = 4
"""Coasts are kept to 10^-4 of the longer side of the map, or better."""


def viewer_data(report: Report) -> Iterator[DataBlock]:
    """One block of settings, one per layer, and one each of districts and of orientation if there are any."""
    scales = scales_of(report.layers)
    described = []
    for position, layer in enumerate(report.layers):
        codes, coding = encode(layer.values, layer.digits)
        described.append(_describe(layer, coding, scales.get(layer.name)))
        yield DataBlock(f"vbagg-layer-{position}", pack_codes(codes), "application/octet-stream")
    settings = {**_frame(report), "palettes": _palettes(scales), "layers": described}
    yield DataBlock("vbagg-settings", script_json(settings), "application/json")
    if report.districts is not None:
        yield _districts(report.districts)
    if report.orientation is not None:
        assert report.bounds is not None
        west, south, east, north = report.bounds
        yield _orientation(report.orientation, max(east - west, north - south))


def _frame(report: Report) -> dict[str, Any]:
    assert report.bounds is not None
    height, width = report.layers[0].values.shape
    edges = ("west", "south", "east", "north")
    second = report.layers[min(1, len(report.layers) - 1)].name
    return {
        "height": height,
        "width": width,
        "bounds": dict(zip(edges, map(float, report.bounds), strict=True)),
        "home": dict(zip(edges, _home(report.layers, report.bounds), strict=True)),
        "compare": report.compare or second,
    }


def _home(layers: Sequence[MapLayer], bounds: tuple[float, float, float, float]) -> tuple[float, ...]:
    """Bounds of the pixels that have a value in some layer."""
    present = np.zeros(layers[0].values.shape, dtype=bool)
    for layer in layers:
        present |= ~np.isnan(layer.values)
    if not present.any():
        return tuple(map(float, bounds))
    west, south, east, north = bounds
    rows, columns = np.flatnonzero(present.any(axis=1)), np.flatnonzero(present.any(axis=0))
    height, width = layers[0].values.shape
    tall, wide = (north - south) / height, (east - west) / width
    return (
        float(west + columns[0] * wide),
        float(north - (rows[-1] + 1) * tall),
        float(west + (columns[-1] + 1) * wide),
        float(north - rows[0] * tall),
    )


def _palettes(scales: Mapping[str, ColourScale]) -> dict[str, str]:
    return {scale.colours: colour_table(scale.colours) for scale in scales.values()}


def _describe(layer: MapLayer, coding: Coding, scale: ColourScale | None) -> dict[str, Any]:
    texts = ("name", "label", "units", "description", "lower", "upper")
    return {
        **{name: getattr(layer, name) for name in texts},
        "interval": layer.interval or texts_in()("viewer.its_interval"),
        "gaps": bool(np.isnan(layer.values).any()),
        "coding": asdict(coding),
        "scale": _scale(scale, layer) if scale else None,
    }


def _scale(scale: ColourScale, layer: MapLayer) -> dict[str, Any]:
    """A scale with its marks, and whether values lie beyond it."""
    ends = zip(("below", "above"), beyond(scale, layer.values), strict=True)
    return {**asdict(scale), "ticks": [{"place": mark.place, "text": mark.text} for mark in scale.ticks], **dict(ends)}


def _districts(districts: Districts) -> DataBlock:
    geometries = [
        {"type": geometry["type"], "coordinates": _rounded(geometry["coordinates"])}
        for geometry in (feature["geometry"] for feature in districts.geojson["features"])
    ]
    facts = [[[str(label), str(text)] for label, text in entry.items()] for entry in districts.facts]
    return _packed("vbagg-districts", {"geometries": geometries, "facts": facts})


def _orientation(orientation: Orientation, side: float) -> DataBlock:
    """Lines as whole numbers, each point by its step from the one before; as fine as a map of this side can show."""
    digits = int(np.clip(math.ceil(FINEST_DECADE - math.log10(side)), 0, COORDINATE_DIGITS))
    content = {
        "step": 10.0**-digits,
        "coasts": [_steps(line, digits) for line in orientation.coasts],
        "borders": [_steps(line, digits) for line in orientation.borders],
        "cities": [[name, round(x, digits), round(y, digits)] for name, x, y in orientation.cities],
    }
    return _packed("vbagg-orientation", content)


def _steps(line: np.ndarray, digits: int) -> list[int]:
    whole = np.rint(line * 10.0**digits).astype(np.int64)
    return np.diff(whole, axis=0, prepend=np.zeros((1, 2), np.int64)).ravel().tolist()


def _packed(identifier: str, content: Any) -> DataBlock:
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return DataBlock(identifier, pack_bytes(text.encode("utf-8")), "application/octet-stream")


def _rounded(coordinates: Any) -> Any:
    """Rings at any depth, without heights."""
    if isinstance(coordinates[0][0], Real):
        return np.array([point[:2] for point in coordinates], dtype=np.float64).round(COORDINATE_DIGITS).tolist()
    return [_rounded(part) for part in coordinates]
