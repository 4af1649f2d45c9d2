"""Maps of a fitted model: cloud-optimised GeoTIFFs on the target grid, streamed over bands of rows.

A cell is predicted where some polygon covers it and all covariates are known; it is NaN elsewhere. Cells of polygons
that the model was fitted to are conditioned on their polygon's total. Counts are those of whole cells: their sum over a
polygon, weighted by the covered shares, is the polygon's total. Where polygons overlap, a cell has the rate of that
which covers most of it. A cell that catchments share has the mean of what each of them says of it, weighted by shares:
so are its quantiles, and the counts of all cells, times the parts that attend, add up to those of all facilities.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os import getpid
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vbagg.errors import DataWarning
from vbagg.geo.answers import Answers, ask
from vbagg.geo.cell_features import cell_exposure
from vbagg.geo.cell_index import Band, CellIndex, means_of_cells
from vbagg.geo.cell_rates import CellRates
from vbagg.geo.cog import RowWriter
from vbagg.geo.contents import MATCHED, Contents, model_tags
from vbagg.geo.files import output_folder, some
from vbagg.geo.matching import TotalMatching
from vbagg.geo.observed_totals import Totals
from vbagg.geo.polygons import Polygons
from vbagg.geo.prepared import Prepared
from vbagg.geo.units import likelihood_of, link_of, units_of
from vbagg.numerals import count, rate
from vbagg.progress import Report, reporting

Floats = NDArray[np.float64]
CELLS_PER_BAND = 1 << 18
"""Cells of a band: few enough that features, posterior and all maps of a band take some 100 MB."""


def write_maps(
    model: Any,
    prepared: Prepared,
    folder: Path | str,
    *,
    response: str,
    level: float = 0.95,
    quantiles: Sequence[float] = (),
    threshold: float | None = None,
    per: float = 1000.0,
    match_totals: bool = False,
    progress: bool | Report | None = None,
    keep: Path | str | None = None,
    client: Any = None,
) -> dict[str, Path]:
    """Write all maps of a model, piece by piece of the table of pixels and then in one pass over the grid.

    Parameters
    ----------
    model
        A model fitted to `prepared.bags()`. One without uncertainty gives `rate_mean`, `expected_count` and the
        exposure alone.
    prepared
        Polygons and aligned rasters.
    folder
        Where the files go; made if need be. All appear together at the end.
    response
        The column of totals that the model was fitted to.
    level
        Level of the interval.
    quantiles
        Further quantiles to map.
    threshold
        A rate, in units of `per`, whose probability of being exceeded is mapped.
    per
        Rates are given per so many people (square kilometres without a population).
    match_totals
        Whether to map counts rescaled to the observed totals too; see `vbagg.geo.matching` for overlaps. Expected
        counts stay where totals are missing, or only bounds of them are known. Totals that are reported in part are
        divided by their completeness.
    progress
        None, True, False or a function of one dict per piece (`pieces` done, `of` all), per band (`rows` done, `of`
        all) and per file (`writing`).
    keep
        Folder for the rates of finished pieces. Those that it holds of the same model, pixels and levels are taken, so
        that maps that were interrupted go on where they were.
    client
        A `distributed.Client` of Dask, whose workers each predict a piece at a time. They read the table of pixels and
        write to `keep` (or to `folder`), so that they must share these folders with this process.

    Returns
    -------
    Path by name: `rate_mean`, `rate_sd`, `rate_q...`, `rate_interval_width`, `exceedance`, `information`,
    `expected_count`, `population` or `area`, `expected_count_matched`.
    """
    contents = contents_of(model, prepared, response, level, quantiles, threshold, per)
    observed = _totals_to_match(model, prepared, response) if match_totals else None
    with output_folder(folder) as out, scratch_folder(out) as fresh, reporting(progress, "maps") as report:
        place = fresh / "pieces" if keep is None else Path(keep)
        questions, kept = [CellRates(contents, prepared.is_shared)], keep is not None
        (answers,) = ask(model, prepared.pieces, questions, place, keep=kept, client=client, report=report)
        written = fill_maps(prepared, contents, answers, fresh, report, observed)
        return {name: path.replace(out / path.name) for name, path in written.items()}


def fill_maps(
    prepared: Prepared,
    contents: Contents,
    answers: Answers,
    folder: Path,
    report: Report,
    observed: Totals | None = None,
) -> dict[str, Path]:
    """Write all maps of answers of `CellRates` into a folder, in one pass over the grid; paths by name.

    Parameters
    ----------
    prepared
        Polygons and aligned rasters.
    contents, answers
        What is mapped, and the numbers of all pieces.
    folder
        Where scratch files and maps go.
    report
        Is told of bands and of files.
    observed
        Totals of polygons that counts are rescaled to.
    """
    index = CellIndex.of(prepared, folder / "cells")
    with RowWriter(folder, prepared.stack.grid) as writer:
        _fill(_Predicted(prepared, contents, index, answers), writer, report, observed)
        return writer.finish(lambda name: report({"writing": name}))


def contents_of(
    model: Any,
    prepared: Prepared,
    response: str,
    level: float,
    quantiles: Sequence[float],
    threshold: float | None,
    per: float,
) -> Contents:
    """What the maps of a model hold."""
    units = units_of(prepared, response, per, likelihood_of(model).name)
    tags, has_information = model_tags(model, response), hasattr(model, "information")
    return Contents(units, level, tuple(quantiles), threshold, tags, has_information)


@contextmanager
def scratch_folder(folder: Path) -> Iterator[Path]:
    """A folder within another, removed at the end."""
    fresh = folder / f".maps-{getpid()}"
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir()
    try:
        yield fresh
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


@dataclass(frozen=True)
class _Predicted:
    """Rates of all pieces, and where their cells are."""

    prepared: Prepared
    contents: Contents
    index: CellIndex
    answers: Answers

    def maps(self, band: Band) -> dict[str, Floats]:
        """All maps of the cells of a band, by name."""
        rates = np.concatenate([self.answers[part.file][:, part.rows] for part in band.parts], axis=1)
        if self.prepared.is_shared:
            _, place, coverage = band.pairs
            rates = means_of_cells(rates, place, coverage, band.fitted, len(band.cells))
        else:
            rates = rates[:, band.best]
        return self.contents.values(rates, cell_exposure(self.prepared, band.cells))


def _fill(predicted: _Predicted, writer: RowWriter, report: Report, observed: Totals | None) -> None:
    """Fill all maps; counts that match totals follow in a second walk over the finished expected counts."""
    grid, contents, index = writer.grid, predicted.contents, predicted.index
    matching = None if observed is None else TotalMatching(observed)
    began: set[str] = set()
    for rows in grid.bands(CELLS_PER_BAND):
        band = index.rows(rows)
        if band is not None:
            maps = predicted.maps(band)
            for name, values in maps.items():
                if name not in began:
                    writer.add(name, contents.description(name))
                    began.add(name)
                writer.write(name, rows, _raster(rows, grid.width, band.cells, values))
            if matching is not None:
                _require_positive(maps["expected_count"])
                matching.add(*band.pairs, maps["expected_count"])
        report({"rows": rows.stop, "of": grid.height})
    if not began:
        raise ValueError(
            "some cell of the grid must be covered by a polygon and have all covariates; none is. "
            "Check that polygons and rasters overlap."
        )
    if matching is not None:
        _match(matching, predicted.prepared.polygons, index, contents, writer)


def _raster(rows: slice, width: int, cells: NDArray[np.int64], values: Floats) -> NDArray[np.float32]:
    """Rows with these values at these cells, NaN elsewhere."""
    raster = np.full((rows.stop - rows.start) * width, np.nan, dtype=np.float32)
    with np.errstate(over="ignore"):
        raster[cells - rows.start * width] = values
    return raster.reshape(-1, width)


def _match(
    matching: TotalMatching, polygons: Polygons, index: CellIndex, contents: Contents, writer: RowWriter
) -> None:
    """Map the expected counts once more, times the factors of cells."""
    factor, miss = matching.solve()
    _warn_of_misses(polygons, matching.totals.exact, miss)
    grid = writer.grid
    writer.add(MATCHED, contents.description(MATCHED))
    for rows in grid.bands(CELLS_PER_BAND):
        band = index.rows(rows)
        if band is None:
            continue
        expected = writer.read("expected_count", rows).ravel()
        counts = expected[band.cells - rows.start * grid.width].astype(np.float64)
        counts *= matching.of_cells(factor, *band.pairs, len(band.cells))
        writer.write(MATCHED, rows, _raster(rows, grid.width, band.cells, counts))


def _warn_of_misses(polygons: Polygons, observed: Floats, miss: Floats) -> None:
    far = np.flatnonzero(np.abs(miss) > 1e-3 * np.maximum(observed, 1.0))
    if len(far):
        labels = polygons.labels
        shown = [f"{labels[a]!r} has {count(observed[a] + miss[a])} instead of {count(observed[a])}" for a in far]
        warnings.warn(
            f"The totals of {len(far)} polygons cannot be matched by cells that they share with others, or that hold "
            f"nobody: {some(shown, quote=False)}.",
            DataWarning,
            stacklevel=2,
        )


def _totals_to_match(model: Any, prepared: Prepared, response: str) -> Totals:
    if link_of(model).averages:
        raise ValueError(
            "`match_totals` needs totals of the whole population; a binomial model has those of the people examined. "
            "Leave it out."
        )
    observed = prepared.polygons.totals(response)
    if prepared.told.completeness is not None:
        shares = prepared.polygons.frame[prepared.told.completeness].to_numpy(np.float64)
        observed = Totals(observed.least / shares, observed.most / shares)
    _require_positive(observed.least)
    return observed


def _require_positive(values: Floats) -> None:
    if np.any(values < 0):
        raise ValueError(
            f"`match_totals` rescales counts, which must not be negative; got {rate(np.nanmin(values))}. Leave it out."
        )
