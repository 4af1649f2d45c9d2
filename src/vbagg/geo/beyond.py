"""How much of new ground lies beyond the training data, and by which covariate."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from vbagg.geo.bands import opened
from vbagg.geo.cell_features import cell_exposure, cell_features
from vbagg.geo.files import percent
from vbagg.geo.ground_cells import BEYOND, PLACE, PLACES
from vbagg.geo.overlay import Overlay
from vbagg.geo.polygons import Polygons
from vbagg.geo.prepared import Prepared
from vbagg.geo.trained import Trained
from vbagg.numerals import rate, share
from vbagg.texts import Texts, texts_in

Floats = NDArray[np.float64]
CELLS_PER_BAND = 1 << 18
EXAMINED = 512
"""Marked cells of which it is asked which covariate marks them."""
UNKNOWN = 0.9
"""Share of the spatial effect's prior variance from which the effect of a place counts as unknown."""
OTHER_UNITS = 2.0
"""How many widths of its training range the middle of a covariate may lie away before other units are suspected."""
OUTSIDE = 0.5
"""Share of cells outside of the range of training data that is needed too."""


@dataclass(frozen=True)
class CovariateBeyond:
    """One covariate on new ground.

    Attributes
    ----------
    trained
        Between which values 99% of the training data lie.
    new
        Least and largest value of mapped cells.
    outside, outside_weight
        Shares of mapped cells, and of the exposure in them, outside of these values.
    marks
        Share of the marked cells that this covariate marks most; None if none is marked.
    """

    trained: tuple[float, float]
    new: tuple[float, float]
    outside: float
    outside_weight: float
    marks: float | None = None


@dataclass(frozen=True)
class Beyond:
    """What of new ground lies beyond the training data.

    Attributes
    ----------
    exposure
        Kind of exposure, for words.
    cells, weight
        Mapped cells, and the exposure in them.
    marked, marked_weight
        Those of them whose extrapolation is above 1; None without covariates.
    far, far_weight
        Those of them where the effect of the place is unknown; None without a spatial effect.
    covariates
        By name.
    """

    exposure: str
    cells: int
    weight: float
    marked: int | None
    marked_weight: float | None
    far: int | None
    far_weight: float | None
    covariates: Mapping[str, CovariateBeyond]

    def sentences(self) -> list[str]:
        """How far the maps can be believed, in words."""
        say, told = texts_in(), []
        if self.marked is not None and self.marked_weight is not None:
            shares = self._shares(self.marked, self.marked_weight)
            told.append(say("ground.beyond", by=self._by(say), **shares) if self.marked else say("ground.none_beyond"))
        if self.far and self.far_weight is not None:
            told.append(say("ground.unknown", **self._shares(self.far, self.far_weight)))
        return told

    def table(self) -> pd.DataFrame:
        """Covariates, the one that marks most first."""
        rows = [
            {
                "covariate": name,
                "trained_low": one.trained[0],
                "trained_high": one.trained[1],
                "new_low": one.new[0],
                "new_high": one.new[1],
                "outside_cells": one.outside,
                f"outside_{self.exposure}": one.outside_weight,
                "marks": np.nan if one.marks is None else one.marks,
            }
            for name, one in self.covariates.items()
        ]
        columns = ["covariate", "trained_low", "trained_high", "new_low", "new_high", "outside_cells"]
        frame = pd.DataFrame(rows, columns=[*columns, f"outside_{self.exposure}", "marks"])
        return frame.sort_values(["marks", "outside_cells"], ascending=False, kind="stable", ignore_index=True)

    def to_json(self) -> str:
        """All of it."""
        return json.dumps(asdict(self), indent=1)

    @classmethod
    def from_json(cls, text: str) -> Beyond:
        """What `to_json` wrote."""
        said = json.loads(text)
        covariates = {
            name: CovariateBeyond(**(one | {"trained": tuple(one["trained"]), "new": tuple(one["new"])}))
            for name, one in said.pop("covariates").items()
        }
        return cls(**said, covariates=covariates)

    def _shares(self, cells: int, weight: float) -> dict[str, str]:
        """Shares of the cells, and of what they hold."""
        of_weight = texts_in()(f"ground.with_{self.exposure}", share=percent(weight, self.weight))
        return {"share": percent(cells, self.cells), "weight": of_weight}

    def _by(self, say: Texts) -> str:
        """By which covariates most."""
        shares = {name: one.marks for name, one in self.covariates.items() if one.marks}
        chief = sorted(shares, key=lambda name: -shares[name])[:2]
        named = [
            say("ground.by_name", name=name, share=share(round(shares[name], 2)))
            for name in chief
            if shares[name] >= 0.1
        ]
        return say("ground.by", names=say.listed(named)) if named else ""


class _Rows(NamedTuple):
    """Mapped cells of some rows of the grid."""

    cells: NDArray[np.int64]
    measures: dict[str, Floats]
    weight: Floats


def beyond(model: Any, prepared: Prepared, maps: Mapping[str, Path], trained: Trained) -> Beyond:
    """Count what the maps of extrapolation mark, and ask which covariates do.

    Parameters
    ----------
    model
        The model that the maps are of.
    prepared
        The new ground.
    maps
        Finished maps by name.
    trained
        What the training data cover.
    """
    counts: dict[str, list[float]] = {name: [0, 0.0] for name in (BEYOND, PLACE) if name in maps}
    whole = [0, 0.0]
    tallies = {name: _Tally(*trained.ranges[name]) for name in prepared.covariates}
    marked: list[NDArray[np.int64]] = []
    for rows in _mapped(prepared, maps):
        whole = [whole[0] + len(rows.cells), whole[1] + float(rows.weight.sum())]
        for name, values in rows.measures.items():
            over = values > (1 if name == BEYOND else UNKNOWN)
            counts[name] = [counts[name][0] + int(over.sum()), counts[name][1] + float(rows.weight[over].sum())]
            if name == BEYOND:
                marked.append(rows.cells[over])
        held = prepared.stack.at(rows.cells, prepared.covariates).astype(np.float64)
        for name, values in zip(prepared.covariates, held.T, strict=True):
            tallies[name].add(values, rows.weight)
    covariates = {name: tally.found(*whole) for name, tally in tallies.items()}
    cells = np.concatenate([*marked, np.empty(0, np.int64)])
    if len(cells):
        shares = marked_by(model, prepared, cells[:: -(-len(cells) // EXAMINED)], trained)
        covariates = {name: replace(one, marks=shares[name]) for name, one in covariates.items()}
    (of_cells, of_weight), (far, far_weight) = (counts.get(name, [None, None]) for name in (BEYOND, PLACE))
    return Beyond(prepared.exposure, int(whole[0]), whole[1], of_cells, of_weight, far, far_weight, covariates)  # type: ignore[arg-type]


def marked_by(model: Any, prepared: Prepared, cells: NDArray[np.int64], trained: Trained) -> dict[str, float]:
    """Share of some marked cells that each covariate marks most.

    It is the one without whose excess over its range in the training data what covariates say would be known best.
    Cells inside of all ranges are marked by their combination: none of them counts.
    """
    features, _ = cell_features(prepared, cells)
    before = model.latent_parts(features, PLACES).covariates_sd
    gains = []
    for name, (low, high) in trained.ranges.items():
        held = features.assign(**{name: features[name].clip(low, high)})
        is_same = (held[name] == features[name]).to_numpy()
        gain = before - model.latent_parts(held, PLACES).covariates_sd
        gains.append(np.where(is_same, 0.0, gain))
    best = np.where(np.max(gains, axis=0) > 0, np.argmax(gains, axis=0), -1)
    return {name: float(np.mean(best == number)) for number, name in enumerate(trained.ranges)}


def suspicions(prepared: Prepared, trained: Trained) -> list[str]:
    """Covariates that seem to be in other units than those of the training data, in sentences."""
    found = []
    pieces = [prepared.pieces.rows(piece).features for piece in prepared.pieces.all]
    sample = pd.concat([rows.iloc[:: max(1, len(rows) * len(pieces) // EXAMINED)] for rows in pieces])
    for name, (low, high) in trained.ranges.items():
        values = sample[name].to_numpy(np.float64)
        middle = float(np.median(values))
        away = max(low - middle, middle - high)
        if np.mean((values < low) | (values > high)) > OUTSIDE and away > OTHER_UNITS * (high - low):
            found.append(
                f"{name}: new values are about {rate(middle)}, those of the training data {rate(low)} to {rate(high)}. "
                "Are they in other units?"
            )
    return found


def shares_beyond(prepared: Prepared, polygons: Polygons, extrapolation: Path) -> Floats:
    """Part of the exposure of each polygon (n), in its mapped cells, that is marked; NaN where nothing is mapped."""
    grid = prepared.stack.grid
    laid, known, marked = Overlay(polygons, grid), np.zeros(len(polygons)), np.zeros(len(polygons))
    for rows in grid.bands(CELLS_PER_BAND):
        pairs = laid.pairs(rows)
        if pairs.empty:
            continue
        polygon, cell, coverage = (pairs[name].to_numpy() for name in ("polygon", "cell", "coverage"))
        values = _read(extrapolation, rows)[cell - rows.start * grid.width]
        weight = coverage * cell_exposure(prepared, cell) * np.isfinite(values)
        known += np.bincount(polygon, weight, len(polygons))
        marked += np.bincount(polygon, weight * (values > 1), len(polygons))
    return np.divide(marked, known, out=np.full(len(polygons), np.nan), where=known > 0)


@dataclass
class _Tally:
    """Values of a covariate beside its range in the training data, some at a time."""

    low: float
    high: float
    least: float = np.inf
    most: float = -np.inf
    cells: int = 0
    weight: float = 0.0

    def add(self, values: Floats, weight: Floats) -> None:
        outside = (values < self.low) | (values > self.high)
        self.least, self.most = min(self.least, float(values.min())), max(self.most, float(values.max()))
        self.cells, self.weight = self.cells + int(outside.sum()), self.weight + float(weight[outside].sum())

    def found(self, cells: float, weight: float) -> CovariateBeyond:
        part = self.weight / weight if weight > 0 else 0.0
        return CovariateBeyond((self.low, self.high), (self.least, self.most), self.cells / cells, part)


def _mapped(prepared: Prepared, maps: Mapping[str, Path]) -> Iterator[_Rows]:
    """Cells that have a rate, band of rows by band of rows."""
    grid = prepared.stack.grid
    for rows in grid.bands(CELLS_PER_BAND):
        here = np.flatnonzero(np.isfinite(_read(maps["rate_mean"], rows)))
        if here.size:
            measures = {name: _read(maps[name], rows)[here] for name in (BEYOND, PLACE) if name in maps}
            weight = np.nan_to_num(_read(maps[prepared.exposure], rows)[here].astype(np.float64))
            yield _Rows(here + rows.start * grid.width, measures, weight)


def _read(path: Path, rows: slice) -> Floats:
    """Rows of a map, one after the other."""
    with opened(str(path)) as dataset:
        return dataset.read(1, window=((rows.start, rows.stop), (0, dataset.width))).ravel()
