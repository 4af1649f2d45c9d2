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
    from vbagg.geo.above import people_above
    from vbagg.geo.aggregate import aggregate, polygon_table, write_polygons
    from vbagg.geo.catchments import catchments_by_travel, catchments_from_shares, catchments_of
    from vbagg.geo.cell_shares import CellShares, attendance
    from vbagg.geo.grid import Grid
    from vbagg.geo.maps import write_maps
    from vbagg.geo.overlay import overlay
    from vbagg.geo.polygons import Polygons, read_polygons
    from vbagg.geo.prepare import prepare
    from vbagg.geo.prepared import Prepared
    from vbagg.geo.rasters import Layer, open_layers
    from vbagg.geo.stack import Stack
    from vbagg.geo.travel import travel_minutes
except ModuleNotFoundError as error:
    if (error.name or "").startswith("vbagg"):
        raise
    raise ModuleNotFoundError(
        f"`vbagg.geo` needs the package {error.name!r}. Install it with `pip install 'vbagg[geo]'`.", name=error.name
    ) from error

__all__ = [
    "CellShares",
    "Grid",
    "Layer",
    "Polygons",
    "Prepared",
    "Stack",
    "aggregate",
    "attendance",
    "catchments_by_travel",
    "catchments_from_shares",
    "catchments_of",
    "check",
    "open_layers",
    "overlay",
    "people_above",
    "polygon_table",
    "predict",
    "prepare",
    "read_polygons",
    "run",
    "travel_minutes",
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
