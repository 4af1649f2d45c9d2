"""Polygons and rasters: from a user's files to bags, and from predictions to maps.

`run`, `check` and `predict` do the whole jobs of the command line; they stand above this package and are loaded on
first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vbagg.workflow.elsewhere import predict
    from vbagg.workflow.job import check, run

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
    "check",
    "open_layers",
    "overlay",
    "polygon_table",
    "predict",
    "prepare",
    "read_polygons",
    "run",
    "write_maps",
    "write_polygons",
]


def __getattr__(name: str) -> Any:
    if name == "predict":
        from vbagg.workflow.elsewhere import predict

        return predict
    if name in ("check", "run"):
        from vbagg.workflow import job

        return getattr(job, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
