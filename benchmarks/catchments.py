"""Facilities that share cells: what it is worth to know who attends which.

    python benchmarks/catchments.py [--seeds 5] [--hyper point] [--out benchmarks/results/catchments.json]

A simulated country of 40 x 40 cells with smooth friction, people who gather in towns, two covariates and 80
facilities where people live. Of the people of a cell, shares attend the facilities within 90 minutes by gravity, with a
decay of 20 minutes; the log rate is linear in the covariates, plus a smooth random function of the place and something
of each cell.
Counts of facilities are Poisson. The same counts are fitted with these shares:

- `known`: the true ones
- `half`, `double`: by gravity with half of the decay, and with twice the decay
- `nearest`: everybody attends the nearest facility
- `table`: the true ones, averaged over 100 square wards of 4 x 4 cells, weighted by people

Scores of the rates of all cells within reach, in which people live, given all counts: mean absolute error of the mean,
share of 90% intervals that hold the true rate, and their interval score, in percent of the mean rate. A cell has the
mean of what its facilities say, weighted by shares, as in maps (`cells`); for comparison, what the facility with the
largest share says alone (`largest`). `attending` is by how much people of facilities are off, in percent of all.

A row is written when it is done, and a row that is there is not computed again.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from common import machine, timed, write_json
from scipy.ndimage import gaussian_filter

import vbagg
from vbagg import metrics
from vbagg.geo import CellShares, attendance
from vbagg.geo.cell_index import best_of_cells, means_of_cells
from vbagg.geo.cell_shares import shares_of
from vbagg.geo.grid import Grid
from vbagg.geo.travel import Minutes, least_minutes

SIDE, FACILITIES, DECAY, REACH, WARD = 40, 80, 20.0, 90.0, 4
GRID = Grid("EPSG:6933", (5000.0, 0.0, 3e6, 0.0, -5000.0, -1e5), SIDE, SIDE)
WAYS = ("known", "half", "double", "nearest", "table")


def smooth(rng: np.random.Generator, width: float) -> np.ndarray:
    """A random field of mean 0 and variance 1 whose values belong together over so many cells."""
    field = gaussian_filter(rng.standard_normal((SIDE, SIDE)), width, mode="reflect")
    return (field - field.mean()) / field.std()


def country(rng: np.random.Generator) -> tuple[pd.DataFrame, Minutes]:
    """Cells with covariates, people and true rates; and minutes to facilities, which stand where people live."""
    friction = 12 * np.exp(0.5 * smooth(rng, 2))
    people = np.exp(4 + 0.9 * smooth(rng, 2) + 0.4 * rng.standard_normal((SIDE, SIDE)))
    soil, rain = smooth(rng, 2), smooth(rng, 4)
    f = 0.6 * soil - 0.4 * rain + 0.4 * smooth(rng, 6) + 0.2 * rng.standard_normal((SIDE, SIDE))
    cells = np.arange(SIDE**2)
    x, y = GRID.kilometres(cells).T
    columns = {"x": x, "y": y, "soil": soil.ravel(), "rain": rain.ravel()}
    frame = pd.DataFrame(columns).assign(people=people.ravel(), rate=0.02 * np.exp(f.ravel()))
    places = rng.choice(cells, FACILITIES, replace=False, p=people.ravel() / people.sum())
    found = []
    for at, place in enumerate(places):
        minutes = least_minutes(friction, divmod(int(place), SIDE), REACH).ravel()
        near = np.flatnonzero(np.isfinite(minutes))
        found.append(np.column_stack([np.full(near.size, at), near, minutes[near]]))
    facility, cell, taken = np.concatenate(found).T
    return frame, Minutes(GRID, FACILITIES, facility.astype(np.intp), cell.astype(np.int64), taken)


def shares(way: str, minutes: Minutes, people: np.ndarray) -> CellShares:
    """Who is taken to attend which facility."""
    if way == "nearest":
        order = np.lexsort((minutes.minutes, minutes.cell))
        first = order[np.flatnonzero(np.diff(minutes.cell[order], prepend=-1))]
        return shares_of(minutes.cell[first], minutes.facility[first], np.ones(first.size), GRID, FACILITIES)
    true = attendance(minutes, DECAY * {"half": 0.5, "double": 2.0}.get(way, 1.0))
    if way != "table":
        return true
    pairs = true.pairs(GRID)
    ward = (pairs["cell"] // SIDE // WARD) * (SIDE // WARD) + pairs["cell"] % SIDE // WARD
    served = np.unique(pairs["cell"])
    own = pd.Series(people[pairs["cell"]] * pairs["coverage"]).groupby([ward, pairs["polygon"]]).sum()
    whole = own.groupby(level=0).sum()
    ward_of = pd.Series(served // SIDE // WARD * (SIDE // WARD) + served % SIDE // WARD, index=served, name="ward")
    table = own.div(whole, level=0).rename("share").rename_axis(["ward", "facility"]).reset_index()
    joined = ward_of.rename_axis("cell").reset_index().merge(table, on="ward")
    return shares_of(joined["cell"], joined["facility"], joined["share"], GRID, FACILITIES)


def of_cells(levels: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    """Scores of mean, lower and upper end."""
    mean, low, high = levels
    unit = 100 / truth.mean()
    return {
        "error": float(np.abs(mean - truth).mean() * unit),
        "coverage": metrics.coverage(truth, low, high),
        "interval_score": metrics.interval_score(truth, low, high, 0.9) * unit,
    }


def study(seed: int, hyper: str) -> list[dict[str, Any]]:
    rng = np.random.default_rng([seed, 11])
    frame, minutes = country(rng)
    people, rate = frame["people"].to_numpy(), frame["rate"].to_numpy()
    true = shares("known", minutes, people).pairs(GRID)
    attended = np.bincount(true["polygon"], true["coverage"] * people[true["cell"]], FACILITIES)
    weight = true["coverage"] * people[true["cell"]] * rate[true["cell"]]
    counts = rng.poisson(np.bincount(true["polygon"], weight, FACILITIES))
    rows = []
    for way in WAYS:
        pairs = shares(way, minutes, people).pairs(GRID)
        facility, cell, coverage = (pairs[name].to_numpy() for name in ("polygon", "cell", "coverage"))
        features = frame.iloc[cell][["x", "y", "soil", "rain"]]
        bags = vbagg.Bags(features.reset_index(drop=True), facility, coverage * people[cell])
        model = vbagg.VBAgg(hyper=hyper)
        with timed() as clock:
            model.fit(bags, pd.Series(counts.astype(float)).loc[bags.labels])
            law = model.posterior(bags)
            levels = np.stack([law.mean, *law.quantile([0.05, 0.95])])
        assert (bags.rows == np.arange(len(cell))).all()
        cells, place = np.unique(cell, return_inverse=True)
        fitted = np.ones(len(cell), dtype=bool)
        mean = means_of_cells(levels, place, coverage, fitted, len(cells))
        largest = levels[:, best_of_cells(cell, coverage, fitted)]
        own = np.bincount(facility, coverage * people[cell], FACILITIES)
        rows.append(
            {
                "seed": seed,
                "way": way,
                "pairs": len(cell),
                "cells": of_cells(mean, rate[cells]),
                "largest": of_cells(largest, rate[cells]),
                "attending": float(50 * np.abs(own - attended).sum() / attended.sum()),
                "share_of_zero_counts": float((counts == 0).mean()),
                "cpu": clock.cpu,
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--hyper", default="point")
    parser.add_argument("--out", default="benchmarks/results/catchments.json")
    options = parser.parse_args()
    rows = json.loads(Path(options.out).read_text())["rows"] if Path(options.out).exists() else []
    for seed in range(options.seeds):
        if any(row["seed"] == seed for row in rows):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", vbagg.errors.ConvergenceWarning)
            rows += study(seed, options.hyper)
        write_json(options.out, {"options": vars(options), "rows": rows, "machine": machine()})
        print(seed, f"{sum(row['cpu'] for row in rows[-len(WAYS) :]):.0f} CPU s", flush=True)
    flat = pd.json_normalize(rows).drop(columns=["seed"])
    print(flat.groupby("way").mean().loc[list(WAYS)].T.round(3).to_string())


if __name__ == "__main__":
    main()
