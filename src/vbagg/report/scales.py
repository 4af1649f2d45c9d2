"""Colours of layers, some of which take over those of another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from vbagg.colours import ColourScale, colour_scale
from vbagg.report.content import MapLayer


def scales_of(layers: Iterable[MapLayer]) -> dict[str, ColourScale]:
    """Scale of each layer that has values, by name."""
    by_name = {layer.name: layer for layer in layers}
    found = {name: scale_of(layer, by_name) for name, layer in by_name.items()}
    return {name: scale for name, scale in found.items() if scale is not None}


def scale_of(layer: MapLayer, layers: Mapping[str, MapLayer]) -> ColourScale | None:
    """Scale of a layer, or that of the layer it refers to; None where there is no value at all."""
    source = layer
    while source.same_scale_as is not None:
        source = layers[source.same_scale_as]
    if any((one.values != one.values).all() for one in (layer, source)):
        return None
    return colour_scale(source.values, source.colours, source.log, source.limits)
