"""Counts below five are hidden: what their bounds are worth for cells and for other districts' counts.

    python benchmarks/suppressed.py [--seeds 6] [--hyper average] [--cases madagascar,london]
                                    [--out benchmarks/results/suppressed.json]

Madagascar: 109 districts with 30 of their pixels each (drawn by population, which they share evenly) and the real
covariates; the log rate is linear in two of these, plus a smooth random function of the place and an effect of each
pixel. Rates are multiplied so that 35% of the districts expect fewer than 5 cases. Counts are Poisson. Every sixth
district has no count in any fit. Counts of 0 to 4 of the others are: known (`full`), hidden in the bounds 0 to 4
(`bounds`), missing (`dropped`), or taken for 2 (`middle`). Scores, for each way:

- `cells`, `hidden_cells`: all cells, and those of districts with a hidden count, given all that was observed: mean
  absolute error of the median, share of 90% intervals that hold the true rate, their interval score, all in percent
  of the mean rate
- `totals`: expected counts of districts with a hidden count: bias of the mean, and CRPS
- `new`: counts of the districts without one: CRPS, and the share of 90% intervals that hold them

London: burglaries of 982 MSOAs, whose individuals are LSOAs; 30% of them are missing: the share of 90% predictive
intervals of these that hold their counts.

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
from nested import london as london_data

import vbagg
from vbagg import metrics

PIXELS, THRESHOLD, SHARE, EVERY, DRAWS = 30, 5.0, 0.35, 6, 2000
WAYS = ("full", "bounds", "dropped", "middle")


def districts(rng: np.random.Generator) -> tuple[vbagg.Bags, np.ndarray]:
    """Bags of few pixels each, and the true rates of their rows."""
    bags = vbagg.datasets.madagascar().bags.drop_zero_weight()
    rows = []
    for a in range(len(bags)):
        own = np.arange(bags.starts[a], bags.starts[a + 1])
        weight = bags.weight[own]
        rows.append(rng.choice(own, min(PIXELS, len(own)), replace=False, p=weight / weight.sum()))
    row = np.concatenate(rows)
    bag, sizes = bags.bag[row], np.array([len(own) for own in rows])
    X = pd.DataFrame(bags.X[row], columns=bags.feature_names)
    made = vbagg.Bags(X, bags.labels[bag], (bags.totals() / sizes)[bag])
    Z = (made.X - made.X.mean(axis=0)) / made.X.std(axis=0)
    covariates = [j for j in range(Z.shape[1]) if j not in made.coordinates]
    place = Z[:, list(made.coordinates)]
    frequency, phase = rng.standard_t(3, (2, 200)) * 1.2, rng.uniform(0, 2 * np.pi, 200)
    smooth = np.sqrt(2 / 200) * np.cos(place @ frequency + phase) @ rng.standard_normal(200)
    f = 0.5 * Z[:, covariates[0]] - 0.4 * Z[:, covariates[1]] + 0.7 * smooth + 0.3 * rng.standard_normal(len(Z))
    rate = np.exp(f)
    expected = made.sum_by_bag(made.weight * rate)
    return made, rate * THRESHOLD / np.quantile(expected, SHARE)


def observed(way: str, y: np.ndarray) -> dict[str, Any]:
    """Arguments of a fit."""
    small = y < THRESHOLD
    if way == "bounds":
        return {"y": np.where(small, 0.0, y), "upper": np.where(small, THRESHOLD - 1, np.nan)}
    hidden = {"full": y, "dropped": np.where(small, np.nan, y), "middle": np.where(small, 2.0, y)}
    return {"y": hidden[way]}


def of_cells(posterior: Any, rate: np.ndarray, chosen: np.ndarray) -> dict[str, float]:
    low, middle, high = posterior.quantile([0.05, 0.5, 0.95])[:, chosen]
    truth, unit = rate[chosen], 100 / rate.mean()
    return {
        "error": float(np.abs(middle - truth).mean() * unit),
        "coverage": metrics.coverage(truth, low, high),
        "interval_score": metrics.interval_score(truth, low, high, 0.9) * unit,
    }


def madagascar(seed: int, hyper: str) -> list[dict[str, Any]]:
    rng = np.random.default_rng([seed, 5])
    bags, rate = districts(rng)
    expected = bags.sum_by_bag(bags.weight * rate)
    counts = rng.poisson(expected).astype(float)
    new = np.arange(len(bags)) % EVERY == seed % EVERY
    y = np.where(new, np.nan, counts)
    hidden = y < THRESHOLD
    rows = []
    for way in WAYS:
        model = vbagg.VBAgg(hyper=hyper)
        with timed() as clock:
            model.fit(bags, **observed(way, y))
            cells, totals, outputs = model.posterior(bags), model.posterior_bags(bags), model.predictive_bags(bags)
        drawn, low_high = outputs.sample(DRAWS, 1), np.stack(outputs.interval(0.9))
        rows.append(
            {
                "case": "madagascar",
                "seed": seed,
                "way": way,
                "hidden": int(hidden.sum()),
                "cells": of_cells(cells, rate, np.ones(len(rate), bool)),
                "hidden_cells": of_cells(cells, rate, hidden[bags.bag]),
                "totals": {
                    "bias": float((totals.mean - expected)[hidden].mean()),
                    "crps": metrics.crps(expected[hidden], totals.sample(DRAWS, 2)[:, hidden]),
                },
                "new": {
                    "crps": metrics.crps(counts[new], drawn[:, new]),
                    "coverage": metrics.coverage(counts[new], *low_high[:, new]),
                },
                "learnt": model.likelihood_parameters_,
                "cpu": clock.cpu,
            }
        )
    return rows


def london(seed: int, hyper: str) -> list[dict[str, Any]]:
    data = london_data("burglary", "msoa")
    missing = np.random.default_rng([seed, 7]).permutation(len(data.y)) < 0.3 * len(data.y)
    model = vbagg.VBAgg(data.likelihood, data.link, hyper=hyper)
    with timed() as clock:
        model.fit(data.coarse, np.where(missing, np.nan, data.y))
        law = model.predictive_bags(data.coarse)
    low, high = law.interval(0.9)
    held = {"missing": missing, "observed": ~missing}
    coverage = {name: metrics.coverage(data.y[own], low[own], high[own]) for name, own in held.items()}
    return [{"case": "london", "seed": seed, "bags": int(missing.sum()), "coverage": coverage, "cpu": clock.cpu}]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--hyper", default="average")
    parser.add_argument("--cases", default="madagascar,london")
    parser.add_argument("--out", default="benchmarks/results/suppressed.json")
    options = parser.parse_args()
    rows = json.loads(Path(options.out).read_text())["rows"] if Path(options.out).exists() else []
    for name in options.cases.split(","):
        for seed in range(options.seeds if name == "madagascar" else 1):
            if any((row["case"], row["seed"]) == (name, seed) for row in rows):
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", vbagg.errors.ConvergenceWarning)
                rows += {"madagascar": madagascar, "london": london}[name](seed, options.hyper)
            write_json(options.out, {"options": vars(options), "rows": rows, "machine": machine()})
            print(name, seed, f"{sum(row['cpu'] for row in rows[-4:]):.0f} CPU s", flush=True)
    flat = pd.json_normalize([row for row in rows if row["case"] == "madagascar"])
    if len(flat):
        columns = [name for name in flat if "." in name and not name.startswith("learnt")]
        print(flat.groupby("way")[columns].mean().loc[list(WAYS)].T.round(3).to_string())
    for row in rows:
        if row["case"] == "london":
            print(f"london, {row['bags']} missing: {row['coverage']}")


if __name__ == "__main__":
    main()
