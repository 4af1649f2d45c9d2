"""Plain facts about the data, fit for JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vbagg.doctor.overlaid import Overlaid, Raster
from vbagg.geo.align import source_window
from vbagg.geo.grid import Grid, crs_title
from vbagg.geo.polygons import Polygons

if TYPE_CHECKING:
    from vbagg.workflow.settings import Data

PER = 1000.0


def polygon_facts(polygons: Polygons, names: str | None = None) -> dict[str, Any]:
    """Of the polygons alone, whose `names` are in some column."""
    tables = sorted({polygons.file_of(name) for name in polygons.tables})
    return {
        "file": polygons.file,
        **({"tables": tables} if tables else {}),
        "number": len(polygons),
        "id": polygons.id,
        **({} if names in (None, polygons.id) else {"names": names}),
        "crs": crs_title(polygons.crs),
    }


def facts_of(
    laid: Overlaid, original: Polygons, data: Data, trials: str | None = None, names: str | None = None
) -> dict[str, Any]:
    """Of all that was read; rates are relative to a column of trials if there is one."""
    grid = laid.grid
    per_polygon = laid.layout.pixels
    size = _cell_area(grid, slice(0, grid.height)) ** 0.5
    facts: dict[str, Any] = {
        "polygons": {**polygon_facts(original, names), "reprojected": laid.polygons.crs != original.crs},
        "grid": {
            "crs": crs_title(grid.crs),
            "rows": grid.height,
            "columns": grid.width,
            "cell": list(grid.resolution),
            "cell_km": size,
            "bounds": list(grid.bounds),
            "taken_from": None if laid.base is None else laid.base.file,
            "resolution_given": data.resolution,
        },
        "pixels": {
            "number": per_polygon.sum(),
            "cells": laid.n_cells,
            "per_polygon": {"least": per_polygon.min(), "median": np.median(per_polygon), "most": per_polygon.max()},
        },
    }
    if laid.exposure is not None:
        total = float(laid.totals.sum())
        facts["exposure"] = {"kind": laid.kind, "total": total}
        column = data.exposure_column or data.population_column
        if column is not None:
            facts["exposure"]["column"] = column
        if laid.people is not None and laid.reading is not None:
            facts["exposure"] |= {
                "read_as": "counts" if laid.reading.density is None else "density",
                "note": laid.reading.note,
            }
        facts["responses"] = {name: _response_facts(laid, name, trials) for name in laid.responses}
    rasters = [*([laid.people] if laid.people else []), *laid.rasters]
    facts["rasters"] = [_raster_facts(raster, laid) for raster in rasters]
    return facts


def coarseness(raster: Raster) -> float:
    """How many times as long as the grid's cells the layer's are."""
    rows, _ = source_window(raster.layer.grid, raster.alignment.grid)
    grid = raster.alignment.grid
    if rows.start >= rows.stop:
        return float("nan")
    return (_cell_area(raster.layer.grid, rows) / _cell_area(grid, slice(0, grid.height))) ** 0.5


def _cell_area(grid: Grid, rows: slice) -> float:
    """Square kilometres of a cell in the middle of these rows."""
    middle = (rows.start + rows.stop) // 2
    return float(grid.areas(slice(middle, middle + 1)).mean())


def _response_facts(laid: Overlaid, name: str, trials: str | None) -> dict[str, Any]:
    totals = laid.polygons.totals(name)
    base = laid.reporting if trials is None else laid.polygons.frame[trials].to_numpy(dtype=np.float64)
    has_base = (laid.totals > 0) & (base > 0)
    if not has_base.any():
        has_base = np.ones_like(has_base)
    counted = has_base & ~totals.missing
    if not counted.any():
        counted = ~totals.missing
    low, high = totals.sum(counted)
    facts: dict[str, Any] = {
        "total": low,
        "least": float(totals.least[counted].min()),
        "most": float(np.where(np.isinf(totals.most), totals.least, totals.most)[counted].max()),
    }
    if not has_base.all():
        least, most = totals.sum(~has_base)
        facts["left_out"] = {"polygons": int((~has_base).sum()), "total": least} | _up_to(least, most, "total")
    if base[counted].any():
        is_relative = laid.kind == "expected" and trials is None
        name, per = ("relative_risk", 1.0) if is_relative else ("per_1000", PER)
        scale, of = per / base[counted].sum(), counted & totals.known
        rates = per * totals.least[of] / base[of]
        facts |= {name: float(scale * low)} | _up_to(scale * low, scale * high, name)
        if of.any():
            facts |= {f"{name}_least": float(rates.min()), f"{name}_most": float(rates.max())}
        facts |= {} if trials is None else {"per_1000_of": "trials"}
    return facts | totals.gap_sizes | _up_to(low, high, "total")


def _up_to(low: float, high: float, name: str) -> dict[str, float | None]:
    """The largest that a number can be, if that is not its least; None if there is no largest."""
    return {} if high == low else {f"{name}_upper": float(high) if np.isfinite(high) else None}


def _raster_facts(raster: Raster, laid: Overlaid) -> dict[str, Any]:
    layer = raster.layer
    return {
        "name": layer.name,
        "file": layer.file,
        "kind": "population" if raster is laid.people else "categories" if raster.is_category else "covariate",
        "columns": list(raster.alignment.names),
        "crs": crs_title(layer.grid.crs),
        "rows_and_columns": list(layer.grid.shape),
        "cell": list(layer.grid.resolution),
        "units": layer.units,
        "aligned_by": raster.alignment.how,
        "reprojected": layer.grid.crs != laid.grid.crs,
        "times_as_coarse": coarseness(raster),
        "cells_without_value": raster.n_gaps,
    }
