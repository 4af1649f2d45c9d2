"""Totals and rates of polygons: those of the fit beside what was observed, and any others.

Intervals keep the covariance between cells: they come from the posterior of each polygon's sum.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import geopandas as gpd
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from vbagg.bags import Bags
from vbagg.errors import DataWarning
from vbagg.geo.areas import Parts
from vbagg.geo.cell_features import cell_features
from vbagg.geo.contents import model_tags
from vbagg.geo.files import appearing, output_folder, some
from vbagg.geo.overlay import cells_covered, overlay, shares_inside
from vbagg.geo.polygons import Polygons
from vbagg.geo.prepared import Prepared
from vbagg.geo.totals import posterior_totals
from vbagg.geo.units import Units, likelihood_of, link_of, units_of
from vbagg.validate.bag_scores import pit_ends

Floats = NDArray[np.float64]
PIXELS_AT_ONCE = 1_000_000
MOSTLY = 0.95


def polygon_table(
    model: Any,
    prepared: Prepared,
    response: str,
    level: float = 0.95,
    per: float = 1000.0,
    trials: str | None = None,
) -> gpd.GeoDataFrame:
    """Polygons of the fit: what was observed, fitted, and would be expected of a new count.

    Parameters
    ----------
    model
        A model fitted to `prepared.bags()`.
    prepared
        Polygons and their pixels.
    response
        The column of totals that the model was fitted to.
    level
        Level of all intervals.
    per
        Rates are given per so many people (square kilometres without a population).
    trials
        Column with the number examined, for the binomial: rates are then relative to it.

    Returns
    -------
    The polygons with their own columns and

    - `observed`, `population` (or `area`) and `observed_rate`
    - `fitted`, `fitted_lower`, `fitted_upper`: mean and interval of the expected total
    - `predicted_lower`, `predicted_upper`: interval of a new count, noise included
    - `rate`, `rate_lower`, `rate_upper`: the expected total as a rate
    - `pit`: where the observed total lies in the law of a new count, 0 to 1 (the middle of its step)
    - `residual`: observed minus fitted over the standard deviation of that law

    Polygons without weight have none of the fitted ones; a model without uncertainty has no interval of the total.
    """
    units = units_of(prepared, response, per, likelihood_of(model).name)
    bags, frame, labels = prepared.bags(), prepared.polygons.frame, prepared.polygons.labels
    at = pd.Index(labels).get_indexer(list(bags.labels))
    y = frame[response].to_numpy(dtype=np.float64)
    examined = None if trials is None else prepared.y(trials).reindex(labels).to_numpy()
    new = model.predictive_bags(bags, None if examined is None else examined[at])
    exposure = np.zeros(len(frame))
    exposure[at] = bags.totals()
    base = exposure if examined is None else examined
    with np.errstate(divide="ignore", invalid="ignore"):
        observed_rate = np.where(base > 0, per * y / base, np.nan)
    found = _summary(model, model.posterior_bags(bags), base[at], level, per)
    own = {"fitted": found["total"], "fitted_lower": found["total_lower"], "fitted_upper": found["total_upper"]}
    own["predicted_lower"], own["predicted_upper"] = new.interval(level)
    own |= {name: found[name] for name in ("rate", "rate_lower", "rate_upper")}
    below, upto = pit_ends(new, y[at])
    own |= {"pit": (below + upto) / 2, "residual": (y[at] - new.mean) / new.std}
    columns = {"observed": y, prepared.exposure: exposure, "observed_rate": observed_rate}
    return _frame(prepared.polygons, columns | _spread(own, at, len(frame)), model, units, level)


def aggregate(
    model: Any,
    prepared: Prepared,
    polygons: Polygons,
    response: str | None = None,
    level: float = 0.95,
    per: float = 1000.0,
) -> gpd.GeoDataFrame:
    """Expected totals and rates of any other polygons, given the totals of those of the fit.

    Parameters
    ----------
    model
        A fitted model.
    prepared
        The aligned rasters that the model was fitted on.
    polygons
        Any polygons on the grid; they may overlap, and cut through those of the fit.
    response
        The column of totals that the model was fitted to, by default the first.
    level
        Level of intervals.
    per
        Rates are given per so many people (square kilometres without a population).

    Returns
    -------
    The polygons with their own columns and `covered` (share of the polygon's area in cells of the grid with all
    covariates: the figures are of that part), `population` (or `area`), `total`, `total_sd`, `total_lower`,
    `total_upper`, `rate`, `rate_sd`, `rate_lower`, `rate_upper`. Those with nothing covered, or with nobody in them,
    have NaN, and a warning names them. Models of trials give rates alone, since trials of other polygons are unknown.
    """
    units, grid = units_of(prepared, response, per, likelihood_of(model).name), prepared.stack.grid
    pairs = overlay(polygons, grid)
    known = np.zeros(len(pairs), dtype=bool)
    exposure = np.zeros(len(polygons))
    columns: dict[str, Floats] = {}
    parts = Parts(prepared, polygons)
    for group in _groups(pairs["polygon"].to_numpy()):
        own = pairs[group]
        features, size = cell_features(prepared, own["cell"].to_numpy())
        known[group] = features.notna().all(axis=1)
        weight = own["coverage"].to_numpy() * size
        used = known[group] & (weight > 0)
        if used.any():
            here = own["polygon"].to_numpy()[used]
            at = np.unique(here)
            exposure[at] = np.bincount(here, weight[used])[at]
            if hasattr(model, "posterior_areas"):
                totals = parts.posterior(model, own[used], features[used], weight[used])
            else:
                totals = posterior_totals(model, Bags(features[used], here, weight[used]))
            for name, values in _summary(model, totals, exposure[at], level, per).items():
                if units.has_counts or not name.startswith("total"):
                    columns.setdefault(name, np.full(len(polygons), np.nan))[at] = values
    covered = shares_inside(polygons, grid, cells_covered(pairs[known], len(polygons)))
    if not columns:
        raise ValueError(
            f"{polygons.path}: polygons must lie where the grid of the model has covariates and a {prepared.exposure}; "
            "none does. Check their place and coordinate reference system."
        )
    _warn_of_gaps(polygons, covered, exposure, prepared.exposure)
    return _frame(polygons, {"covered": covered, prepared.exposure: exposure} | columns, model, units, level)


def write_polygons(table: gpd.GeoDataFrame, folder: Path | str, name: str = "polygons") -> dict[str, Path]:
    """Write a table of polygons as GeoPackage, with units and model as its metadata, and as CSV.

    Returns
    -------
    Path by format: `gpkg` and `csv`.
    """
    import pyogrio

    with output_folder(folder) as out:
        paths = {kind: out / f"{name}.{kind}" for kind in ("gpkg", "csv")}
        with appearing(paths["gpkg"]) as part, appearing(paths["csv"]) as plain:
            pyogrio.write_dataframe(table, part, layer=name, driver="GPKG", layer_metadata=dict(table.attrs))
            table.drop(columns=table.geometry.name).to_csv(plain, index=False, float_format="%.10g")
    return paths


def _summary(model: Any, posterior: Any, exposure: Floats, level: float, per: float) -> dict[str, Floats]:
    """Expected totals and rates of bags with their uncertainty, NaN where the model has none."""
    unknown = np.full(len(exposure), np.nan)
    lower, upper = posterior.interval(level) if hasattr(posterior, "interval") else (unknown, unknown)
    sd = posterior.std if hasattr(posterior, "std") else unknown
    to_total = exposure if link_of(model).averages else 1.0
    parts = {"": posterior.mean, "_sd": sd, "_lower": lower, "_upper": upper}
    totals = {f"total{part}": to_total * values for part, values in parts.items()}
    return totals | {f"rate{part}": per * totals[f"total{part}"] / exposure for part in parts}


def _groups(polygon: NDArray[np.intp]) -> Iterator[slice]:
    """Slices of pairs, sorted by polygon, that hold whole polygons and few enough pixels for memory."""
    ends = np.append(np.flatnonzero(np.diff(polygon)) + 1, len(polygon))
    start = 0
    for at, end in enumerate(ends):
        if at + 1 == len(ends) or ends[at + 1] - start > PIXELS_AT_ONCE:
            yield slice(start, end)
            start = end


def _spread(columns: dict[str, Floats], at: NDArray[np.intp], n: int) -> dict[str, Floats]:
    """Columns of some rows as columns of all, NaN elsewhere."""
    result = {}
    for name, values in columns.items():
        result[name] = np.full(n, np.nan)
        result[name][at] = values
    return result


def _frame(polygons: Polygons, columns: dict[str, Floats], model: Any, units: Units, level: float) -> gpd.GeoDataFrame:
    """The polygons' own columns, except those of the same names in whatever case, then these."""
    new = {name.lower() for name in columns} - {polygons.id.lower()}
    kept = [name for name in polygons.frame.columns if name.lower() not in new and name != "geometry"]
    attributes = polygons.frame[kept].assign(**{name: columns[name] for name in columns})
    frame = gpd.GeoDataFrame(attributes, geometry=polygons.frame.geometry)
    frame.attrs = model_tags(model, units.response) | {"units": units.rate, "level": f"{level:.6g}"}
    return frame


def _warn_of_gaps(polygons: Polygons, covered: Floats, exposure: Floats, what: str) -> None:
    """Name the polygons whose figures are missing, or speak of a part of them."""
    labels = polygons.labels
    outside, nobody = covered == 0, (covered > 0) & (exposure == 0)
    partly = (covered < MOSTLY) & ~outside & ~nobody
    found = [
        (outside, "lie where the grid has no covariates and have no result"),
        (nobody, f"hold no {what} and have no result"),
        (partly, f"are covered by less than {MOSTLY:.0%}, and their results are of the covered part"),
    ]
    for which, what_of_them in found:
        if which.any():
            warnings.warn(
                f"{polygons.file}: {which.sum()} of {len(labels)} polygons {what_of_them}: "
                f"{some(labels[which].tolist())}.",
                DataWarning,
                stacklevel=3,
            )
