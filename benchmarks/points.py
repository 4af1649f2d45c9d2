"""Fifty surveys at points beside the totals of districts: what they are worth for cells, near and far from them.

    python benchmarks/points.py [--seeds 8] [--hyper average] [--out benchmarks/results/points.json]

The simulated country of `vbagg demo`, in coarser cells: 80 districts, 18 covariates, negative binomial cases. Fifty
cells, drawn by their people, were surveyed. In a survey of 60 people each is positive with the log odds
`logit(0.15) + log(rate / overall rate)`; in one of 500 people cases are Poisson with the cell's own rate. Ways:

- `without`: districts alone
- `binomial`: positives of 60, a likelihood of their own with slope 1
- `learnt`: the same with a slope that is learnt
- `same`: cases among 500 people, with the likelihood of the districts

Each with all totals (`case` = `all`), and where every third district has none (`gaps`). Cells are scored one by one
given all that was observed, by the median and 90% intervals: `all`; the tenth of cells that is `nearest` to a survey,
those with one left out, and the half that is `farthest`; cells `surveyed`; and, with gaps, those `unreported`. `error`
is the mean absolute error and `interval_score` that of the intervals, in percent of the mean rate; `factor` the
typical factor by which the median is off.

A row is written when it is done, and a row that is there is not computed again.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from common import machine, timed, write_json
from scipy.spatial import KDTree

import vbagg
from vbagg import metrics

SCALE, DISTRICTS, DISPERSION = 0.002, 80, 0.05
SURVEYS, EXAMINED, WATCHED, PREVALENCE = 50, 60, 0.5, 0.15
WAYS, CASES, EVERY = ("without", "binomial", "learnt", "same"), ("all", "gaps"), 3


class Survey:
    """Fifty cells of a country, and what was found there."""

    def __init__(self, country: Any, seed: int) -> None:
        rng, bags, rate = np.random.default_rng([seed, 18]), country.bags, country.rate
        self.rows = rng.choice(len(rate), SURVEYS, replace=False, p=bags.weight / bags.weight.sum())
        overall = float(bags.weight @ rate / bags.weight.sum())
        odds = PREVALENCE / (1 - PREVALENCE) * rate[self.rows] / overall
        self.positive = rng.binomial(EXAMINED, odds / (1 + odds)).astype(float)
        self.cases = rng.poisson(WATCHED * rate[self.rows]).astype(float)
        self.X = pd.DataFrame(bags.X[self.rows], columns=bags.feature_names)

    def observations(self, way: str) -> vbagg.Observations | None:
        """As a fit takes them."""
        labels = [f"survey {at}" for at in range(SURVEYS)]
        if way == "without":
            return None
        if way == "same":
            return vbagg.Observations(vbagg.Bags(self.X, labels, np.full(SURVEYS, WATCHED)), self.cases)
        slope = "learnt" if way == "learnt" else 1.0
        trials = np.full(SURVEYS, float(EXAMINED))
        return vbagg.Observations(vbagg.Bags(self.X, labels), self.positive, "binomial", trials=trials, slope=slope)


def groups(country: Any, survey: Survey, unreported: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Cells that are scored together."""
    place = country.bags.X[:, list(country.bags.coordinates)]
    distance, _ = KDTree(place[survey.rows]).query(place)
    surveyed = distance == 0
    yield "all", np.ones(len(place), dtype=bool)
    yield "surveyed", surveyed
    yield "nearest", ~surveyed & (distance <= np.quantile(distance[~surveyed], 0.1))
    yield "farthest", distance >= np.median(distance)
    if unreported.any():
        yield "unreported", unreported[country.bags.bag]


def of_cells(posterior: Any, rate: np.ndarray, chosen: np.ndarray) -> dict[str, float]:
    low, middle, high = posterior[:, chosen]
    truth, unit = rate[chosen], 100 / rate.mean()
    return {
        "error": float(np.abs(middle - truth).mean() * unit),
        "factor": float(np.exp(np.abs(np.log(middle / truth)).mean())),
        "coverage": metrics.coverage(truth, low, high),
        "interval_score": metrics.interval_score(truth, low, high, 0.9) * unit,
    }


def run(seed: int, case: str, way: str, hyper: str) -> dict[str, Any]:
    country = vbagg.datasets.simulated_country(SCALE, seed, DISTRICTS, DISPERSION)
    survey, numbers = Survey(country, seed), np.arange(DISTRICTS)
    unreported = (numbers % EVERY == seed % EVERY) & (case == "gaps")
    model = vbagg.VBAgg(hyper=hyper)
    with timed() as clock:
        model.fit(country.bags, np.where(unreported, np.nan, country.y), also=survey.observations(way))
        rates = model.posterior(country.bags).quantile([0.05, 0.5, 0.95])
    learnt = [{"intercept": own.intercept, "slope": own.slope} for own in model.observations_]
    scores = {name: of_cells(rates, country.rate, own) for name, own in groups(country, survey, unreported)}
    return {"case": case, "seed": seed, "way": way, **scores, "learnt": learnt, "cpu": clock.cpu}


def show(rows: list[dict[str, Any]]) -> None:
    flat = pd.json_normalize(rows)
    columns = [name for name in flat if "." in name]
    for case in CASES:
        own = flat[flat["case"] == case].dropna(axis="columns", how="all")
        if len(own):
            means = own.groupby("way")[[name for name in columns if name in own]].mean()
            print(f"{case}\n{means.loc[[way for way in WAYS if way in means.index]].T.round(3).to_string()}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--hyper", default="average")
    parser.add_argument("--out", default="benchmarks/results/points.json")
    options = parser.parse_args()
    rows = json.loads(Path(options.out).read_text())["rows"] if Path(options.out).exists() else []
    for seed in range(options.seeds):
        for case in CASES:
            for way in WAYS:
                if any((row["seed"], row["case"], row["way"]) == (seed, case, way) for row in rows):
                    continue
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", vbagg.errors.ConvergenceWarning)
                    rows.append(run(seed, case, way, options.hyper))
                write_json(options.out, {"options": vars(options), "rows": rows, "machine": machine()})
                print(seed, case, way, f"{rows[-1]['cpu']:.0f} CPU s", flush=True)
    show(rows)


if __name__ == "__main__":
    main()
