"""Whether marked cells of new ground are those where a model should not be believed.

    python benchmarks/new_ground.py [--seeds 4] [--scale 0.008] [--splits highlands,dry,east]
                                    [--out benchmarks/results/new_ground.json]

A simulated country whose true rates are known (`vbagg.datasets.simulated_country`), of which a model sees some
districts and their counts; all pixels of the other districts are the new ground. The splits are: `highlands`, trained
on the 60% of districts with the lowest mean elevation; `dry`, trained on the 60% that are nearest to water; `east`,
trained on the 60% in the west, whose covariates are alike. Covariates are those that the rate depends on.
`extrapolation` is that of `vbagg predict`: the sd of what covariates say over the one that 95% of the training data do
not exceed. Of new cells with `extrapolation` up to 1, from 1 to 2, and above 2, each cell counted once:

- `share` of the cells
- `error`: mean absolute distance of the log of the median from the log of the true rate; `bias`: mean distance
- `coverage`: share of 90% intervals that hold the true rate; `score`: interval score of the log rate

Two other rules stand beside it. `ranges` marks cells with some covariate outside of the middle 99% of the training
data. `distance` is that to the nearest training individual in the length-scales of the kernel on covariates, over the
one that 99% of training individuals have to those of other districts. `auc` is the probability that a cell with one of
the 10% largest errors has a higher mark than another cell.

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
from scipy.spatial import KDTree

import vbagg
from vbagg import metrics
from vbagg.geo.trained import Trained, individuals_for

PART, LEVEL, WORST, RANGE = 0.6, 0.9, 0.9, 0.99
GROUPS = {"inside": (0.0, 1.0), "marked": (1.0, 2.0), "far": (2.0, np.inf)}
SPLITS = {"highlands": "elevation", "dry": "distance_to_water", "east": "x"}


def auc(mark: np.ndarray, bad: np.ndarray) -> float:
    """Probability that a bad cell has the higher mark, ties counted half."""
    rank = pd.Series(mark).rank().to_numpy()
    n = int(bad.sum())
    return float((rank[bad].sum() - n * (n + 1) / 2) / (n * (len(bad) - n)))


def distance(model: Any, bags: vbagg.Bags, rows: np.ndarray, new: pd.DataFrame) -> np.ndarray:
    """To the nearest of the training rows, of which each bag has the same number, in units of their own distances."""
    best = model.parameters_.query("part == 'RBF' and parameter == 'lengthscale'")
    lengths = best.set_index("columns")["user_value"]
    columns = [bags.feature_names.index(name) for name in lengths.index]
    scaled, label = rows[:, columns] / lengths.to_numpy(), np.repeat(np.arange(len(bags)), len(rows) // len(bags))
    tree = KDTree(scaled)
    some = np.random.default_rng(0).choice(len(rows), 1000, replace=False)
    near, at = tree.query(scaled[some], k=4 * (len(rows) // len(bags)))
    others = np.where(label[at] == label[some][:, None], np.inf, near).min(axis=1)
    return tree.query(new[lengths.index].to_numpy() / lengths.to_numpy())[0] / np.quantile(others, RANGE)


def scores(truth: np.ndarray, quantiles: np.ndarray, chosen: np.ndarray) -> dict[str, float]:
    low, middle, high = quantiles[:, chosen]
    error = middle - truth[chosen]
    return {
        "share": float(chosen.mean()),
        "error": float(np.abs(error).mean()),
        "bias": float(error.mean()),
        "coverage": metrics.coverage(truth[chosen], low, high),
        "score": metrics.interval_score(truth[chosen], low, high, LEVEL),
    }


def outcome(split: str, seed: int, scale: float) -> dict[str, Any]:
    country = vbagg.datasets.simulated_country(scale, seed)
    names = ["x", "y", *country.relevant]
    columns = [country.bags.feature_names.index(name) for name in names]
    X = pd.DataFrame(country.bags.X[:, columns], columns=names)
    bags = vbagg.Bags(X, country.bags.labels[country.bags.bag], country.bags.weight)
    column = bags.X[:, names.index(SPLITS[split])]
    by = bags.sum_by_bag(bags.weight * column) / bags.totals()
    seen = by <= np.quantile(by, PART)
    model = vbagg.VBAgg()
    with timed() as clock:
        model.fit(bags[seen], country.y[seen])
        rows = np.concatenate(individuals_for(bags[seen], 64))
        trained = Trained(pd.DataFrame(rows, columns=names))
        new = X[~seen[bags.bag]]
        mark = model.latent_parts(new).covariates_sd / trained.edge(model)
        quantiles = np.log(model.posterior(new).quantile([(1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2]))
    truth = np.log(country.rate[~seen[bags.bag]])
    outside = np.zeros(len(new), bool)
    for name, (low, high) in trained.ranges.items():
        outside |= ~new[name].between(low, high).to_numpy()
    away = distance(model, bags[seen], rows, new)
    error = np.abs(quantiles[1] - truth)
    bad = error > np.quantile(error, WORST)
    found = {name: (mark > low) & (mark <= high) for name, (low, high) in GROUPS.items()}
    found |= {"inside ranges": ~outside, "outside ranges": outside, "near": away <= 1, "distant": away > 1}
    return {
        "split": split,
        "seed": seed,
        "districts": int(seen.sum()),
        "cells": len(new),
        "groups": {name: scores(truth, quantiles, chosen) for name, chosen in found.items() if chosen.sum() >= 20},
        "auc": {"extrapolation": auc(mark, bad), "ranges": auc(outside.astype(float), bad), "distance": auc(away, bad)},
        "cpu": clock.cpu,
    }


def table(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Means over seeds by split and group, those with more cells counting more."""
    flat = [
        {"split": row["split"], "group": name, "cells": row["cells"] * own["share"], **own}
        for row in rows
        for name, own in row["groups"].items()
    ]
    frame = pd.DataFrame(flat)
    sizes = {split: sum(row["cells"] for row in rows if row["split"] == split) for split in frame["split"].unique()}
    found = []
    for (split, group), own in frame.groupby(["split", "group"], sort=False):
        means = {name: np.average(own[name], weights=own["cells"]) for name in ("error", "bias", "coverage", "score")}
        found.append({"split": split, "group": group, "share": own["cells"].sum() / sizes[split], **means})
    return pd.DataFrame(found).set_index(["split", "group"]).sort_index(level="split", sort_remaining=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--scale", type=float, default=0.008)
    parser.add_argument("--splits", default=",".join(SPLITS))
    parser.add_argument("--out", default="benchmarks/results/new_ground.json")
    options = parser.parse_args()
    rows = json.loads(Path(options.out).read_text())["rows"] if Path(options.out).exists() else []
    for seed in range(options.seeds):
        for split in options.splits.split(","):
            if any((row["split"], row["seed"]) == (split, seed) for row in rows):
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", vbagg.errors.ConvergenceWarning)
                rows.append(outcome(split, seed, options.scale))
            write_json(options.out, {"options": vars(options), "rows": rows, "machine": machine()})
            print(split, seed, f"{rows[-1]['cpu']:.0f} CPU s", flush=True)
    print(table(rows).round(2).to_string())
    marks = pd.DataFrame([{"split": row["split"], **row["auc"]} for row in rows]).groupby("split").mean()
    print(f"AUC of the 10% largest errors:\n{marks.round(2).to_string()}")


if __name__ == "__main__":
    main()
