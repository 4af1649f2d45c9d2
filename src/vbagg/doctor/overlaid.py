"""Polygons laid over the target grid, and what all rasters hold in the cells under them, as a run would have it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from vbagg.doctor.findings import OF_BAD_INPUT, Gathered
from vbagg.doctor.reading import Inputs
from vbagg.doctor.tallies import People, Raster
from vbagg.doctor.words import plain_labels
from vbagg.geo.grid import Floats, Grid
from vbagg.geo.layout import Band, Layout, Tell, lay_out
from vbagg.geo.overlay import Overlay
from vbagg.geo.polygons import Polygons
from vbagg.geo.population import Reading
from vbagg.geo.rasters import Layer
from vbagg.geo.target import target_grid
from vbagg.geo.told import NOTHING, Told
from vbagg.held import Held
from vbagg.room import room_for

if TYPE_CHECKING:
    from vbagg.workflow.settings import Data

__all__ = ["Overlaid", "Raster", "Target", "choose_target", "overlaid"]


class Overlaid:
    """What a layout holds, summed up in one walk over it.

    Attributes
    ----------
    layout
        Polygons and layers on the grid.
    totals
        Exposure of each polygon: the area of its cells if the exposure could not be read.
    people, rasters
        The population, None without one, and covariates.
    told
        Columns on reports and people.
    n_inhabited, n_weighty
        Number of cells, and of pixels, with any exposure in polygons that a fit learns from.
    """

    def __init__(self, layout: Layout, told: Told = NOTHING) -> None:
        self.layout, self.told = layout, told
        n = len(layout.placed)
        self.people = None if layout.people is None else People(layout.people, n)
        self.rasters = tuple(Raster(one.alignment, one.is_category, n) for one in layout.covariates)
        self.totals = np.zeros(n)
        self.n_inhabited = self.n_weighty = 0
        for band in layout.read():
            weight = _weight(band)
            self.totals += np.bincount(band.polygon, weight, n)
            fitted = weight * self._has_total[band.polygon]
            self.n_weighty += int(np.count_nonzero(fitted))
            self.n_inhabited += int(np.count_nonzero(np.bincount(band.place, fitted)))
            for raster in (*self.rasters, *([self.people] if self.people else [])):
                raster.add(band, weight)

    @cached_property
    def _has_total(self) -> NDArray[np.bool_]:
        """Which polygons have a total of some response; all, if there is no response."""
        seen = [~self.polygons.totals(name).missing for name in self.responses]
        return np.any(seen, axis=0) if seen else np.ones(len(self.polygons), dtype=bool)

    @property
    def reporting(self) -> Floats:
        """Exposure of each polygon times the share that is reported, where it is known: what rates are relative to."""
        if self.told.completeness is None:
            return self.totals
        share = self.polygons.frame[self.told.completeness].to_numpy(np.float64)
        return self.totals * np.where(np.isnan(share), 1.0, share)

    @property
    def polygons(self) -> Polygons:
        """In the grid's CRS."""
        return self.layout.placed

    @property
    def responses(self) -> tuple[str, ...]:
        """Columns of the polygons with totals."""
        return self.layout.responses

    @property
    def grid(self) -> Grid:
        """The target grid."""
        return self.layout.grid

    @property
    def base(self) -> Layer | None:
        """The raster that the grid was taken from."""
        return self.layout.base

    @property
    def kind(self) -> str:
        """What exposure is: `"population"`, `"area"` or `"expected"`."""
        return self.layout.kind

    @property
    def exposure(self) -> str | None:
        """The same; None if it could not be read."""
        return self.layout.exposed_as

    @property
    def reading(self) -> Reading | None:
        """How the population was read."""
        return self.layout.reading

    @property
    def n_cells(self) -> int:
        """Number of cells under polygons."""
        return self.layout.n_cells

    @property
    def weighed_by(self) -> str:
        """What `totals` are: the area stands in for a population that could not be read."""
        return self.exposure or "area"

    @cached_property
    def labels(self) -> NDArray[np.object_]:
        """Ids of the polygons."""
        return plain_labels(self.polygons)

    def any_complete(self, rasters: Sequence[Raster]) -> bool:
        """Whether any cell with exposure has all of these layers."""
        names = [raster.alignment.names[0] for raster in rasters]
        for band in self.layout.read():
            complete = np.flatnonzero(np.isfinite(band.values(names)).all(axis=1))
            if _weight(band)[np.isin(band.place, complete)].any():
                return True
        return False

    def correlation(self, rasters: Sequence[Raster]) -> Floats | None:
        """Correlation of layers over the cells that have them all; None if there are few or some do not vary there."""
        names, means = [raster.alignment.names[0] for raster in rasters], np.array([raster.mean for raster in rasters])
        n, total, product = 0, np.zeros(len(names)), np.zeros((len(names), len(names)))
        low, high = np.full(len(names), np.inf), np.full(len(names), -np.inf)
        for band in self.layout.read():
            values = band.values(names)
            off = values[~np.isnan(values).any(axis=1)].astype(np.float64) - means
            if len(off):
                n, total, product = n + len(off), total + off.sum(axis=0), product + off.T @ off
                low, high = np.minimum(low, off.min(axis=0)), np.maximum(high, off.max(axis=0))
        if n < 3 or not (high > low).all():
            return None
        covariance = product / n - np.outer(total / n, total / n)
        sd = np.sqrt(np.diag(covariance))
        return covariance / np.outer(sd, sd)

    def distinct_values(self, enough: int) -> int:
        """Number of distinct rows of covariates in cells that a fit learns from; no more are counted than enough."""
        names = [name for raster in self.rasters for name in raster.alignment.names]
        found = pd.DataFrame()
        for band in self.layout.read():
            weight = _weight(band) * self._has_total[band.polygon]
            values = band.values(names)[np.bincount(band.place, weight) > 0]
            found = pd.concat([found, pd.DataFrame(values).dropna().drop_duplicates()]).drop_duplicates()
            if len(found) >= enough:
                break
        return len(found)


@dataclass(frozen=True)
class Target:
    """The polygons on the grid, and the raster that it was taken from."""

    overlay: Overlay
    base: Layer | None


def choose_target(inputs: Inputs, polygons: Polygons, data: Data, found: Gathered) -> Target | None:
    """The grid of a run, or else the first that can be made of the other rasters, to go on with; None without any."""
    candidates: list[Layer | None] = [*inputs.layers] or [None]
    for base in candidates:
        try:
            grid = target_grid(polygons, base, data.resolution)
        except OF_BAD_INPUT as error:
            if base is candidates[0]:
                found.add("error", "grid", str(error), "settings" if base is None else base.file)
            continue
        placed = found.attempt("crs", polygons.file, partial(polygons.to, grid.crs))
        if placed is None:
            return None
        overlay = found.attempt("outside", polygons.file, Overlay(placed, grid).require_pairs)
        return None if overlay is None else Target(overlay, base)
    return None


def overlaid(
    inputs: Inputs,
    polygons: Polygons,
    target: Target,
    data: Data,
    found: Gathered,
    folder: Path,
    tell: Tell,
    places: Held[Any],
) -> Overlaid | None:
    """Bring all rasters to the grid, and sum up what they hold under polygons; None where that cannot be."""

    def work() -> Overlaid:
        with room_for("rasters on the target grid", folder):
            layout = lay_out(
                polygons,
                inputs.responses,
                target.overlay,
                target.base,
                inputs.people if target.base is inputs.people else None,
                inputs.covariates,
                exposure=inputs.exposure,
                spread_by=inputs.spread_by if target.base is inputs.spread_by else None,
                population_is=data.population_is,
                sd=inputs.sd,
                sd_errors=data.population_errors,
                folder=folder,
                attempt=found.attempt,
                tell=tell,
                places=places,
            )
        return Overlaid(layout, inputs.told)

    return found.attempt("layout", "settings", work)


def _weight(band: Band) -> Floats:
    """Exposure of each pair, 0 where it is unknown or negative; the covered part of a cell if all of it is unknown."""
    if band.shares is not None:
        return band.weight
    if band.exposure is None:
        return band.coverage
    return band.coverage * np.nan_to_num(np.maximum(band.exposure, 0))[band.place]
