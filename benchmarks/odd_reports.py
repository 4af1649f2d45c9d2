"""Planted faults among counts of districts: how many are found, how many others are blamed, and effects of the rest.

    python benchmarks/odd_reports.py [--seeds 12] [--out benchmarks/results/odd_reports.json]

Districts of 3 to 11 places; the log rate is a smooth function of the place, counts are Poisson times a gamma effect
of each district, as the model assumes. `few` and `many` counts differ by a factor of twelve, effects by their variance.
With faults, one district in twenty reports five times its count, and one in sixty a tenth. Fits have the
defaults of `VBAgg`. Of each setting and way of looking:

- `found`: share of the faults that stand out; `high` and `low` alone too
- `false`: share of those that stand out that are no faults, 0 where none does, averaged over simulations: at most 10%
- `chance_5`, `chance_1`: share of the other districts whose `chance` is below 5% and 1%

Ways: `given`, as `bag_effects` does; `plain`, left out, but not judged by the spread of the bulk; `with_own`, the
district's own count taken part in what is expected of it.

`effects`, of districts without a fault: share of 90% intervals that hold the true effect, mean absolute error of the
median's logarithm, and the intervals' score on the scale of logarithms.

A row is written when it is done, and a row that is there is not computed again.
"""

from __future__ import annotations

import argparse
import itertools
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from common import machine, timed, write_json

import vbagg
from vbagg.effects import Tails, stand_out

COUNTS = {"few": 0.6, "many": 7.0}
"""Mean weights of places: districts have about 9 and 110 cases."""
DISPERSIONS, SIZES = (0.06, 0.2), (60, 200)
HIGH, LOW = 20, 60
"""One district in so many reports five times its count, or a tenth."""
LEVEL = 0.9


def simulated(seed: int, n: int, counts: str, phi: float, faults: bool) -> tuple[vbagg.Bags, np.ndarray, Any, Any]:
    """Districts, what they report, their effects, and which of them report too much (1) or too little (-1)."""
    rng = np.random.default_rng([seed, n])
    label = np.repeat(np.arange(n), rng.integers(3, 12, n))
    X = rng.uniform(0, np.sqrt(n / 0.6), (n, 2))[label] + rng.normal(0, 0.3, (len(label), 2))
    frame = pd.DataFrame(X, columns=["x", "y"])
    bags = vbagg.Bags(frame, label, rng.gamma(2, COUNTS[counts], len(label)), coordinates=["x", "y"])
    f = 0.6 * np.sin(0.7 * bags.X[:, 0]) + 0.4 * np.cos(0.6 * bags.X[:, 1])
    effect = rng.gamma(1 / phi, phi, n)
    y = rng.poisson(bags.sum_by_bag(bags.weight * np.exp(f)) * effect).astype(float)
    fault, at = np.zeros(n, int), rng.permutation(n)
    if faults:
        fault[at[: n // HIGH]], fault[at[n // HIGH : n // HIGH + n // LOW]] = 1, -1
    return bags, np.where(fault > 0, 5 * y, np.where(fault < 0, y // 10, y)), effect, fault


def share(which: np.ndarray) -> float | None:
    """Of what is true, none where nothing is asked."""
    return float(np.mean(which)) if len(which) else None


def looked_at(chance: np.ndarray, fault: np.ndarray) -> dict[str, float | None]:
    """How many faults are found, and how many others are blamed."""
    odd, honest = stand_out(chance), fault == 0
    return {
        "found": share(odd[~honest]),
        "high": share(odd[fault > 0]),
        "low": share(odd[fault < 0]),
        "false": float((odd & honest).sum() / max(odd.sum(), 1)),
        "chance_5": share(chance[honest] < 0.05),
        "chance_1": share(chance[honest] < 0.01),
    }


def plain(tails: Tails) -> np.ndarray:
    """Chance without regard to the spread of the bulk."""
    return np.minimum(2 * np.minimum(tails.at_most, tails.at_least), 1.0)


def row(seed: int, n: int, counts: str, phi: float, faults: bool) -> dict[str, Any]:
    """One simulation."""
    bags, y, effect, fault = simulated(seed, n, counts, phi, faults)
    model = vbagg.VBAgg("negative_binomial")
    with timed() as clock, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(bags, y)
    found = model.bag_effects(bags)
    with_own = Tails.of(model.predictive_bags(bags).law, y, y)
    ways = {"given": found.chance, "plain": plain(found.tails), "with_own": plain(with_own)}
    honest = fault == 0
    low, high = (np.log(end)[honest] for end in found.effect.interval(LEVEL))
    truth, middle = np.log(effect)[honest], np.log(found.effect.quantile(0.5))[honest]
    beyond = np.maximum(low - truth, 0) + np.maximum(truth - high, 0)
    return {
        "seed": seed,
        **{"n": n, "counts": counts, "phi": phi, "faults": faults, "cpu": clock.cpu},
        "median_count": float(np.median(y)),
        "spread": found.tails.spread,
        "dispersion": model.likelihood_parameters_["dispersion"],
        **{way: looked_at(chance, fault) for way, chance in ways.items()},
        "effects": {
            "coverage": float(np.mean(beyond == 0)),
            "error": float(np.mean(np.abs(middle - truth))),
            "interval_score": float(np.mean(high - low + 2 / (1 - LEVEL) * beyond)),
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--out", default="benchmarks/results/odd_reports.json")
    options = parser.parse_args()
    path = Path(options.out)
    rows = json.loads(path.read_text())["rows"] if path.exists() else []
    keys = ("seed", "n", "counts", "phi", "faults")
    there = {tuple(one[key] for key in keys) for one in rows}
    for setting in itertools.product(range(options.seeds), SIZES, COUNTS, DISPERSIONS, (True, False)):
        if setting not in there:
            rows.append(row(*setting))
            write_json(path, {"options": vars(options), "rows": rows, "machine": machine()})
    table = pd.json_normalize(rows)
    numbers = table.columns.drop(list(keys))
    with pd.option_context("display.width", 250, "display.max_columns", 40):
        print(table.groupby(["faults", "n", "counts", "phi"])[list(numbers)].mean().round(3).T.to_string())
    print(f"{table['cpu'].sum():.0f} CPU s of fits")


if __name__ == "__main__":
    main()
