"""Totals and rates of polygons: those of the fit beside what was observed, and any others.

Intervals keep the covariance between cells: they come from the posterior of each polygon's sum.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import geopandas as gpd
import numpy as np
from numpy.typing import NDArray

from vbagg.bags import Bags
from vbagg.effects import Tails, stand_out
from vbagg.errors import DataWarning
from vbagg.geo.answers import Question, Source, ask
from vbagg.geo.areas import Areas, Outside
from vbagg.geo.cell_features import cell_features
from vbagg.geo.cell_index import CellIndex
from vbagg.geo.contents import model_tags
from vbagg.geo.files import appearing, output_folder, some
from vbagg.geo.observed_totals import STATE
from vbagg.geo.overlay import cells_covered, overlay, shares_inside
from vbagg.geo.pieces import whole_runs
from vbagg.geo.polygons import Polygons
from vbagg.geo.prepared import Prepared
from vbagg.geo.told import COMPLETENESS, RELATIVE_SD, REPORTED
from vbagg.geo.totals import ABOVE, TAILS, FittedTotals, posterior_totals, summary
from vbagg.geo.units import Units, likelihood_of, units_of

Floats = NDArray[np.float64]
PIXELS_AT_ONCE = 1_000_000
MOSTLY = 0.95
COLUMNS = {"completeness": COMPLETENESS, "weight_sd": RELATIVE_SD}
"""Columns with what was told."""


def polygon_table(
    model: Any,
    prepared: Prepared,
    response: str,
    level: float = 0.95,
    per: float = 1000.0,
    trials: str | None = None,
    threshold: float | None = None,
    *,
    keep: Path | str | None = None,
    client: Any = None,
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
    threshold
        A rate, in units of `per`: how many people of each polygon are expected to live above it.
    keep, client
        As for `write_maps`; workers on other machines need a folder `keep` that they share with this process.

    Returns
    -------
    The polygons with their own columns and

    - `observed`, `population` (or `area`) and `observed_rate`
    - if they were told: `completeness`, by which `observed` is divided for `observed_rate`, and `fitted_reported`, the
      part of `fitted` that would be reported; `population_relative_sd`, the standard deviation of the people over them
    - if some totals are missing, or known within bounds only, and so not in these columns: `observation` (`observed`,
      `suppressed` or `missing`), `observed_lower` and `observed_upper`
    - `fitted`, `fitted_lower`, `fitted_upper`: mean and interval of the expected total of all that occurs
    - `predicted_lower`, `predicted_upper`: interval of a new count that is reported alike (in full where that was not
      told), noise and errors of people included
    - `rate`, `rate_lower`, `rate_upper`: the expected total as a rate
    - `pit`: where the observed total lies in the law of a new count, 0 to 1 (the middle of its step)
    - `residual`: observed minus fitted over the standard deviation of that law
    - `information`: how much of what may vary inside the polygon the data have settled, from 0 to 1; none if it is a
      single cell
    - `effect`, `effect_lower`, `effect_upper`: how many times its total the polygon has is what covariates and
      neighbours give, median and interval; `effect_above` the probability that it is above 1. With the identity link by
      how much it is above that, and the probability that it is above 0
    - `from_others`, `from_others_lower`, `from_others_upper`: median and interval of a new count, noise included, by
      the totals of the other polygons alone
    - `chance`: probability by them, doubled, of a total at least as far out on its side as the observed one
    - `stands_out`: whether that is odd among so many polygons (`vbagg.effects.stand_out`)
    - with a threshold: `population_above` (or `area_above`), the sum over cells of their people times the probability
      that the rate is above it

    Polygons without weight have none of the fitted ones, and those of which nothing was observed no effect and no
    `chance`; where only bounds are known, `chance` is that of the likeliest total between them. A model without
    uncertainty has no interval of the total, and nothing from `information` on.
    """
    units = units_of(prepared, response, per, likelihood_of(model).name)
    question = FittedTotals.of(prepared, response, level, per, trials, threshold)
    with _place(keep) as folder:
        (answers,) = ask(model, prepared.pieces, [question], folder, keep=keep is not None, client=client)
        found = question.columns(answers)
    at, n = found.pop("position").astype(np.intp), len(prepared.polygons)
    exposure = np.zeros(n)
    exposure[at] = found.pop("exposure")
    base = exposure if question.examined is None else question.examined
    people = found.pop(ABOVE)
    labels = prepared.polygons.labels
    told = {COLUMNS[name]: values.reindex(labels).to_numpy() for name, values in prepared.reporting().items()}
    with np.errstate(divide="ignore", invalid="ignore"):
        observed_rate = np.where(base > 0, per * question.y / (base * told.get(COMPLETENESS, 1.0)), np.nan)
    columns: dict[str, Any] = {"observed": question.y, prepared.exposure: exposure, "observed_rate": observed_rate}
    columns |= told
    if COMPLETENESS in told:
        found[REPORTED] = told[COMPLETENESS][at] * found["fitted"]
    totals = prepared.polygons.totals(response)
    if not totals.known.all():
        columns |= {STATE: totals.states, "observed_lower": totals.least, "observed_upper": totals.most}
    columns |= _spread(found, at, n)
    chance = Tails(*(columns.pop(name) for name in TAILS)).chance
    columns |= {"chance": chance, "stands_out": stand_out(chance)}
    if threshold is not None:
        columns |= _spread({f"{prepared.exposure}_{ABOVE}": people}, at, n)
    return polygon_frame(prepared.polygons, columns, model, units, level)


@contextmanager
def _place(keep: Path | str | None) -> Iterator[Path]:
    """The folder for what is kept, or one that is removed at the end."""
    if keep is not None:
        yield Path(keep)
        return
    with TemporaryDirectory() as folder:
        yield Path(folder)


def aggregate(
    model: Any,
    prepared: Prepared,
    polygons: Polygons,
    response: str | None = None,
    level: float = 0.95,
    per: float = 1000.0,
    *,
    keep: Path | str | None = None,
    client: Any = None,
    as_new: bool = False,
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
    keep, client
        As for `write_maps`; workers on other machines need a folder `keep` that they share with this process.
    as_new
        Whether this is other ground than the model was fitted on, so that nothing was observed in any cell.

    Returns
    -------
    The polygons with their own columns and `covered` (share of the polygon's area in cells of the grid with all
    covariates: the figures are of that part), `population` (or `area`), `total`, `total_sd`, `total_lower`,
    `total_upper`, `rate`, `rate_sd`, `rate_lower`, `rate_upper`. Those with nothing covered, or with nobody in them,
    have NaN, and a warning names them. Models of trials give rates alone, since trials of other polygons are unknown.
    """
    units, grid = units_of(prepared, response, per, likelihood_of(model).name), prepared.stack.grid
    with _place(keep) as folder, TemporaryDirectory(dir=_made(folder)) as scratch:
        if hasattr(model, "area_sums"):
            laid = lay_areas(prepared, polygons, Path(scratch), as_new)
            exposure, cells = laid.exposure, laid.cells
            columns = _by_parts(model, prepared, laid, folder, keep is not None, client, level, per)
        else:
            exposure, cells, columns = _whole(model, prepared, polygons, level, per)
    covered = shares_inside(polygons, grid, cells)
    if not columns:
        raise ValueError(
            f"{polygons.path}: polygons must lie where the grid of the model has covariates and a {prepared.exposure}; "
            "none does. Check their place and coordinate reference system."
        )
    columns = {name: values for name, values in columns.items() if units.has_counts or not name.startswith("total")}
    _warn_of_gaps(polygons, covered, exposure, prepared.exposure)
    return polygon_frame(polygons, {"covered": covered, prepared.exposure: exposure} | columns, model, units, level)


def lay_areas(prepared: Prepared, polygons: Polygons, scratch: Path, as_new: bool = False) -> Areas:
    """Other polygons over the grid and, unless all is new, over those of the fit, in scratch files."""
    index = CellIndex.empty(prepared) if as_new else CellIndex.of(prepared, scratch)
    return Areas.of(prepared, polygons, index, scratch)


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _by_parts(
    model: Any, prepared: Prepared, laid: Areas, folder: Path, keep: bool, client: Any, level: float, per: float
) -> dict[str, Floats]:
    """Totals and rates by sums over parts of fitted polygons, and over what lies outside of them."""
    if not laid.exposure.any():
        return {}
    outside = Outside.of(prepared, laid.pairs)
    asked: list[tuple[Source, Question]] = [(outside, laid.outside_parts)]
    if not laid.is_new:
        asked.insert(0, (prepared.pieces, laid.parts(prepared.polygons.labels)))
    answers = [ask(model, source, [one], folder, keep=keep, client=client)[0] for source, one in asked]
    at, totals = laid.totals(model, chain(*answers))
    return _spread(summary(model, totals, laid.exposure[at], level, per), at, len(laid.exposure))


def _whole(
    model: Any, prepared: Prepared, polygons: Polygons, level: float, per: float
) -> tuple[Floats, Floats, dict[str, Floats]]:
    """Exposure, cells with all covariates, totals and rates by models that take each polygon as one bag."""
    pairs = overlay(polygons, prepared.stack.grid)
    known = np.zeros(len(pairs), dtype=bool)
    exposure = np.zeros(len(polygons))
    columns: dict[str, Floats] = {}
    polygon = pairs["polygon"].to_numpy()
    for group in whole_runs(np.flatnonzero(np.diff(polygon, append=-1)) + 1, PIXELS_AT_ONCE):
        own = pairs[group]
        features, size = cell_features(prepared, own["cell"].to_numpy())
        known[group] = features.notna().all(axis=1)
        weight = own["coverage"].to_numpy() * size
        used = known[group] & (weight > 0)
        if used.any():
            here = own["polygon"].to_numpy()[used]
            at = np.unique(here)
            exposure[at] = np.bincount(here, weight[used])[at]
            totals = posterior_totals(model, Bags(features[used], here, weight[used]))
            for name, values in summary(model, totals, exposure[at], level, per).items():
                columns.setdefault(name, np.full(len(polygons), np.nan))[at] = values
    return exposure, cells_covered(pairs[known], len(polygons)), columns


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


def _spread(columns: dict[str, Floats], at: NDArray[np.intp], n: int) -> dict[str, Floats]:
    """Columns of some rows as columns of all, NaN elsewhere."""
    result = {}
    for name, values in columns.items():
        result[name] = np.full(n, np.nan)
        result[name][at] = values
    return result


def polygon_frame(
    polygons: Polygons, columns: dict[str, Any], model: Any, units: Units, level: float
) -> gpd.GeoDataFrame:
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
