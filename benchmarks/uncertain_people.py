"""People that are counted with errors, and reports that are incomplete: what a fit gains by being told.

    python benchmarks/uncertain_people.py [--seeds 5] [--hyper average] [--out benchmarks/results/uncertain_people.json]

Madagascar: 109 districts with 30 of their pixels each and simulated rates, as in `suppressed.py`, times 10, so that 35%
of the districts expect fewer than 50 cases. Of every second district the true people are those given times a
log-normal error of mean one and relative sd `sd`; its pixels share the error. Counts are Poisson with the true people,
times the completeness of the district: 1 everywhere, or from 0.3 to 1 (a logistic function of the log people plus
noise, so that large districts report more). Every sixth district has no count in any fit.

A model (negative binomial, all else default) is told neither (`silent`) or what there is to tell (`told`): the
completeness of each district, and `sd` of those whose people are off. Scores:

- `cells`, `off_cells`, `exact_cells`: all cells given all that was observed, those of districts whose people are off,
  and the others: mean absolute error of the median, share of 90% intervals that hold the true rate, and their interval
  score, all in percent of the mean rate
- `new`: counts of the districts without one, of people as given and reports as they are: CRPS, and the share of 90%
  intervals that hold them

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
from suppressed import districts, of_cells

import vbagg
from vbagg import metrics

MORE, EVERY, DRAWS, LEAST = 10.0, 6, 2000, 0.3
CASES = {
    "as they are": (0.0, False),
    "sd 0.2": (0.2, False),
    "sd 0.4": (0.4, False),
    "reported in part": (0.0, True),
    "sd 0.4, reported in part": (0.4, True),
}
WAYS = ("silent", "told")


def log_normal(rng: np.random.Generator, sd: np.ndarray) -> np.ndarray:
    """Errors of mean one."""
    variance = np.log1p(sd**2)
    return np.exp(np.sqrt(variance) * rng.standard_normal(len(sd)) - variance / 2)


def shares(rng: np.random.Generator, people: np.ndarray) -> np.ndarray:
    """From `LEAST` to 1, more in large districts."""
    score = np.log(people)
    score = (score - score.mean()) / score.std() + rng.standard_normal(len(people))
    return LEAST + (1 - LEAST) / (1 + np.exp(-1.5 * score))


def one(seed: int, case: str, hyper: str) -> list[dict[str, Any]]:
    largest, in_part = CASES[case]
    rng = np.random.default_rng([seed, 11, list(CASES).index(case)])
    bags, rate = districts(np.random.default_rng([seed, 5]))
    rate = MORE * rate
    off = np.arange(len(bags)) % 2 == seed % 2
    sd = np.where(off, largest, 0.0)
    complete = shares(rng, bags.totals()) if in_part else np.ones(len(bags))
    expected = complete * log_normal(rng, sd) * bags.sum_by_bag(bags.weight * rate)
    counts = rng.poisson(expected).astype(float)
    new = rng.permutation(len(bags)) % EVERY == 0
    known = ({"completeness": complete} if in_part else {}) | ({"weight_sd": sd} if largest else {})
    rows = []
    for way in WAYS if known else WAYS[:1]:
        also = known if way == "told" else {}
        model = vbagg.VBAgg(hyper=hyper)
        with timed() as clock:
            model.fit(bags, np.where(new, np.nan, counts), **also)
            cells, outputs = model.posterior(bags), model.predictive_bags(bags, **also)
        drawn, low_high = outputs.sample(DRAWS, 1), np.stack(outputs.interval(0.9))
        rows.append(
            {
                "case": case,
                "seed": seed,
                "way": way,
                "cells": of_cells(cells, rate, np.ones(len(rate), bool)),
                "off_cells": of_cells(cells, rate, (off & ~new)[bags.bag]),
                "exact_cells": of_cells(cells, rate, (~off & ~new)[bags.bag]),
                "new": {
                    "crps": metrics.crps(counts[new], drawn[:, new]),
                    "coverage": metrics.coverage(counts[new], *low_high[:, new]),
                },
                "learnt": model.likelihood_parameters_,
                "cpu": clock.cpu,
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--hyper", default="average")
    parser.add_argument("--out", default="benchmarks/results/uncertain_people.json")
    options = parser.parse_args()
    rows = json.loads(Path(options.out).read_text())["rows"] if Path(options.out).exists() else []
    for seed in range(options.seeds):
        for case in CASES:
            if any((row["case"], row["seed"]) == (case, seed) for row in rows):
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", vbagg.errors.ConvergenceWarning)
                rows += one(seed, case, options.hyper)
            write_json(options.out, {"options": vars(options), "rows": rows, "machine": machine()})
            print(case, seed, f"{sum(row['cpu'] for row in rows[-2:]):.0f} CPU s", flush=True)
    flat = pd.json_normalize(rows)
    columns = [name for name in flat if "." in name and not name.startswith("learnt")]
    print(flat.groupby(["case", "way"], sort=False)[columns].mean().round(3).to_string())


if __name__ == "__main__":
    main()
