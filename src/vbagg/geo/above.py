"""How many people live where the rate is above a threshold, for many thresholds, with intervals.

People of a cell that a polygon covers in part count with the rate that the cell has in that polygon; those of cells
that catchments share with that of the facility that they attend; those of overlapping polygons in each of them. Where
there are no people, square kilometres are counted, or expected counts: whatever cells are weighted by. Intervals are
those of joint draws of all cells, given the totals of their polygons: draws share the weights of the process and the
parameters, whichever piece of the table a cell is in.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from vbagg.errors import NoUncertaintyError
from vbagg.geo.answers import ask
from vbagg.geo.pieces import PieceRows
from vbagg.geo.prepared import Prepared
from vbagg.geo.round_grid import round_grid
from vbagg.geo.units import Units, likelihood_of, link_of, units_of

Floats = NDArray[np.float64]
DRAWS, SEED = 200, 0
PILOT = 1000
"""Cells that tell where thresholds are needed."""
FINE, COARSE = 240, 20
"""How many thresholds lie between the rates of nearly all people, and beyond on each side."""
NEARLY_ALL = 0.005, 0.995
"""Shares of people between whose rates these are."""
LIKELY = 0.02, 0.25, 0.5, 0.75, 0.98
"""Quantiles of the rate of each cell of the pilot."""
BEYOND = 3.0
"""How far thresholds go beyond all of these: as a ratio, or as a share of their range where rates may be negative."""
NOBODY = 1e-7
"""Share of all people that is none."""
COLUMNS = ("threshold", "threshold_units", "above", "above_lower", "above_upper", "all", "all_units", "level")
WORDS = ("threshold_units", "all_units")
"""Those that hold no numbers."""


@dataclass(frozen=True, eq=False)
class PeopleAbove:
    """Asks for joint draws of the people of a piece who live where rates are above thresholds.

    Attributes
    ----------
    labels
        All polygons, by which a piece has draws of its own.
    units
        Units of rates.
    thresholds
        Rates (k), in these units.
    chosen
        Those of them that somebody asked for.
    draws, seed
        How many draws, and which.
    """

    labels: NDArray[np.object_]
    units: Units
    thresholds: Floats
    chosen: tuple[float, ...] = ()
    draws: int = DRAWS
    seed: int = SEED
    name: str = "above"

    @classmethod
    def of(
        cls,
        model: Any,
        prepared: Prepared,
        response: str,
        per: float,
        threshold: float | None = None,
        thresholds: Sequence[float] | None = None,
    ) -> PeopleAbove:
        """That of a model: at given thresholds, or at round numbers where people are and at one that was chosen."""
        if not hasattr(model, "weight_above"):
            raise NoUncertaintyError(
                "How many people live above a threshold takes joint draws of the rates of all cells, which "
                f"{type(model).__name__} does not have. Use vbagg.VBAgg."
            )
        units = units_of(prepared, response, per, likelihood_of(model).name)
        chosen = [*([] if threshold is None else [threshold]), *([] if thresholds is None else thresholds)]
        found = _thresholds(model, prepared, response, per) if thresholds is None else np.empty(0)
        every = np.unique(np.append(found, chosen))
        return cls(prepared.polygons.labels, units, every, tuple(float(value) for value in chosen))

    def told(self) -> str:
        """Thresholds, units, draws and polygons."""
        return repr((self.thresholds.tolist(), self.units.per, self.draws, self.seed, self.labels.tolist()))

    def answer(self, model: Any, rows: PieceRows) -> Floats:
        """Draws (1 + k, draws): all people of the piece, and those above each threshold."""
        bags = rows.bags
        if bags is None:
            return np.zeros((1 + len(self.thresholds), self.draws))
        part = int(pd.Index(self.labels).get_loc(bags.labels[0]))
        above = model.weight_above(bags, self.thresholds / self.units.per, self.draws, self.seed, part)
        return np.vstack([np.full(self.draws, bags.weight.sum()), above.T])

    def table(
        self, model: Any, prepared: Prepared, level: float, *, keep: Path | str | None = None, client: Any = None
    ) -> pd.DataFrame:
        """What `people_above` returns, from answers about all pieces."""
        with TemporaryDirectory() as scratch:
            place = Path(scratch) if keep is None else Path(keep)
            (answers,) = ask(model, prepared.pieces, [self], place, keep=keep is not None, client=client)
            drawn = np.sum([np.asarray(answer) for answer in answers], axis=0)
        everybody, above = drawn[0, 0], drawn[1:]
        lower, upper = np.quantile(above, [(1 - level) / 2, (1 + level) / 2], axis=1)
        values = (self.thresholds, self.units.rate, above.mean(axis=1), lower, upper, everybody)
        table = pd.DataFrame(dict(zip(COLUMNS, (*values, self.units.weighed, level), strict=True)))
        return _where_people_are(table, self.chosen)


def people_above(
    model: Any,
    prepared: Prepared,
    response: str,
    *,
    level: float = 0.95,
    per: float = 1000.0,
    threshold: float | None = None,
    thresholds: Sequence[float] | None = None,
    keep: Path | str | None = None,
    client: Any = None,
) -> pd.DataFrame:
    """How many people live where the rate is above each of many thresholds.

    Parameters
    ----------
    model
        A model fitted to `prepared.bags()`, with uncertainty.
    prepared
        Polygons and their pixels.
    response
        The column of totals that the model was fitted to.
    level
        Level of the interval.
    per
        Rates are given per so many people (square kilometres without a population).
    threshold
        One that must be among them.
    thresholds
        All of them; by default some hundred round numbers, near to each other where people are.
    keep, client
        As for `write_maps`.

    Returns
    -------
    A row for each threshold, in ascending order: `threshold` and its `threshold_units`; `above`, the mean number of
    people above it, with `above_lower` and `above_upper`; `all` people, and in `all_units` what is counted: people,
    km², or expected counts; the `level` of the interval. Those by default reach from the last that all people are above
    to the first that nobody is.
    """
    question = PeopleAbove.of(model, prepared, response, per, threshold, thresholds)
    return question.table(model, prepared, level, keep=keep, client=client)


def _where_people_are(table: pd.DataFrame, chosen: Collection[float]) -> pd.DataFrame:
    """Without thresholds that all people are above, or nobody, but for the next ones and those that were chosen."""
    everybody = table["all"].to_numpy()
    all_are = table["above_lower"].to_numpy() >= everybody * (1 - NOBODY)
    none_is = table["above"].to_numpy() <= everybody * NOBODY
    kept = ~(all_are & np.append(all_are[1:], False)) & ~(none_is & np.append(False, none_is[:-1]))
    return table[kept | table["threshold"].isin(chosen)].reset_index(drop=True)


def _thresholds(model: Any, prepared: Prepared, response: str, per: float) -> Floats:
    """Round numbers where people are, by the rates of a few cells and the observed ones of polygons."""
    rows = _evenly_by_people(prepared, PILOT)
    rates = [*model.posterior(rows).summary(LIKELY).quantiles, _observed(prepared, response)]
    pool = per * np.concatenate(rates)
    ratios = link_of(model).least_rate == 0
    pool = pool[np.isfinite(pool) & ((pool > 0) | (not ratios))]
    (low, high), (least, most) = np.quantile(pool, NEARLY_ALL), (pool.min(), pool.max())
    if ratios:
        least, most = least / BEYOND, most * BEYOND
        low, high = min(low, high / 1.1), max(high, low * 1.1)
    else:
        width = max(most - least, 1e-6 * max(abs(most), 1e-6))
        least, most = least - width / BEYOND, most + width / BEYOND
        low, high = min(low, high - width / 100), max(high, low + width / 100)
    return round_grid(low, high, min(least, low), max(most, high), FINE, COARSE, ratios)


def _observed(prepared: Prepared, response: str) -> Floats:
    """Rates of as many polygons as there are cells in the pilot, drawn evenly by people; those that are known."""
    frame = prepared.polygons.frame
    people = frame[prepared.exposure].to_numpy(np.float64)
    known = np.isfinite(prepared.polygons.totals(response).exact) & (people > 0)
    if not known.any():
        return np.empty(0)
    below = np.cumsum(people[known])
    chosen = np.searchsorted(below, (np.arange(PILOT) + 0.5) / PILOT * below[-1])
    return (prepared.polygons.totals(response).exact[known] / people[known])[chosen]


def _evenly_by_people(prepared: Prepared, n: int) -> pd.DataFrame:
    """Features of about so many pixels, evenly along the people of the table, a piece at a time."""
    everybody = prepared.polygons.frame[prepared.exposure].sum()
    found, before = [], 0.0
    for piece in prepared.pieces.all:
        rows = prepared.pieces.rows(piece)
        below = before + np.cumsum(rows.pixels["weight"].to_numpy(np.float64))
        marks = (np.arange(n) + 0.5) / n * everybody
        marks = marks[(marks > before) & (marks <= below[-1])]
        found.append(rows.features.iloc[np.searchsorted(below, marks)])
        before = float(below[-1])
    return pd.concat(found, ignore_index=True)
