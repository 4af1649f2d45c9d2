"""A simulated truth with known shares: rates of cells are recovered, and not by who is nearest."""

import numpy as np
import pandas as pd
import pytest

import vbagg
from vbagg.geo import attendance
from vbagg.geo.cell_index import means_of_cells
from vbagg.geo.cell_shares import shares_of
from vbagg.geo.grid import Grid
from vbagg.geo.travel import Minutes, least_minutes

SIDE, FACILITIES = 16, 40
GRID = Grid("EPSG:6933", (5000.0, 0.0, 3e6, 0.0, -5000.0, -1e5), SIDE, SIDE)


def country(rng):
    """Minutes to facilities, and cells with a covariate on which the log rate depends, and many people."""
    row, column = np.mgrid[:SIDE, :SIDE]
    friction = 11 + 4 * np.sin(row / 2.3) + 3 * np.cos(column / 1.9)
    soil = np.sin(row / 1.7 + 0.4) * np.cos(column / 2.1) + 0.3 * rng.standard_normal(row.shape)
    found = []
    for at, place in enumerate(rng.choice(SIDE**2, FACILITIES, replace=False)):
        minutes = least_minutes(friction, divmod(int(place), SIDE), 70.0).ravel()
        near = np.flatnonzero(np.isfinite(minutes))
        found.append(np.column_stack([np.full(near.size, at), near, minutes[near]]))
    facility, cell, taken = np.concatenate(found).T
    people = rng.gamma(3, 400, SIDE**2)
    x, y = GRID.kilometres(np.arange(SIDE**2)).T
    features = pd.DataFrame({"x": x, "y": y, "soil": soil.ravel()})
    return Minutes(GRID, FACILITIES, facility.astype(np.intp), cell.astype(np.int64), taken), features, people


def nearest(minutes):
    order = np.lexsort((minutes.minutes, minutes.cell))
    first = order[np.flatnonzero(np.diff(minutes.cell[order], prepend=-1))]
    return shares_of(minutes.cell[first], minutes.facility[first], np.ones(first.size), GRID, FACILITIES)


@pytest.mark.slow  # two fits
@pytest.mark.filterwarnings("ignore::vbagg.errors.ConvergenceWarning")
def test_rates_are_recovered_with_the_shares():
    rng = np.random.default_rng(6)
    minutes, features, people = country(rng)
    rate = 0.05 * np.exp(0.9 * features["soil"].to_numpy())
    true = attendance(minutes, 15.0, staying=0.1)
    pairs = true.pairs(GRID)
    mean = np.bincount(pairs["polygon"], pairs["coverage"] * (people * rate)[pairs["cell"]], FACILITIES)
    counts, error, held = rng.poisson(mean).astype(float), {}, {}
    for way, shares in (("known", true), ("nearest", nearest(minutes))):
        facility, cell, coverage = (shares.pairs(GRID)[name].to_numpy() for name in ("polygon", "cell", "coverage"))
        bags = vbagg.Bags(features.iloc[cell].reset_index(drop=True), facility, coverage * people[cell])
        model = vbagg.VBAgg("negative_binomial", landmarks=25, hyper="point")
        law = model.fit(bags, pd.Series(counts).loc[bags.labels]).posterior(bags)
        cells, place = np.unique(cell, return_inverse=True)
        levels = np.stack([law.mean, *law.quantile([0.05, 0.95])])
        middle, low, high = means_of_cells(levels, place, coverage, np.ones(len(cell), bool), len(cells))
        error[way] = np.abs(middle - rate[cells]).mean() / rate.mean()
        held[way] = np.mean((low <= rate[cells]) & (rate[cells] <= high))
    assert error["known"] < 0.2
    assert error["known"] < 0.7 * error["nearest"]
    assert held["known"] > 0.8
