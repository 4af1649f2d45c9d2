"""Polygons and rasters: from a user's files to bags, and from predictions to maps."""

try:
    from vbagg.geo.aggregate import aggregate, polygon_table, write_polygons
    from vbagg.geo.grid import Grid
    from vbagg.geo.maps import write_maps
    from vbagg.geo.overlay import overlay
    from vbagg.geo.polygons import Polygons, read_polygons
    from vbagg.geo.prepare import prepare
    from vbagg.geo.prepared import Prepared
    from vbagg.geo.rasters import Layer, open_layers
    from vbagg.geo.stack import Stack
except ModuleNotFoundError as error:
    if (error.name or "").startswith("vbagg"):
        raise
    raise ModuleNotFoundError(
        f"`vbagg.geo` needs the package {error.name!r}. Install it with `pip install 'vbagg[geo]'`.", name=error.name
    ) from error

__all__ = [
    "Grid",
    "Layer",
    "Polygons",
    "Prepared",
    "Stack",
    "aggregate",
    "open_layers",
    "overlay",
    "polygon_table",
    "prepare",
    "read_polygons",
    "write_maps",
    "write_polygons",
]
