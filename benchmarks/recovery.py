"""Does recovery foretell what a fit recovers? Simulated countries with known rates, beside refits to simulated totals.

    python benchmarks/recovery.py [--seeds 4] [--scale 0.01] [--out benchmarks/results/recovery.json]

Countries of some 10,000 pixels, as `simulated_country` makes them; cases have a dispersion of 0.05. What the model sees
of them makes them easier or harder:

- `relevant`: the five covariates that rates depend on, and the place
- `all`: these among the 13 others
- `place`: the place alone
- `shuffled`: the five covariates, exchanged at random between pixels: they say nothing, and vary inside districts
- `few`: the five of 40 districts instead of 200

Of each country: `real`, by the fit and the known truth, and `recovery`, by `vbagg.validate.recovery` of the fit alone:
R2 within districts against their own rates, coverage and interval score of cells at 90%, weighted by people.
`information` is the share of the prior variance inside districts that the fit has removed. Processor seconds of the fit
(functions compiled before), of recovery, and of its refits without drawing truths and scoring.

The truth is none of the model's: rates rise in steps, so that `real` may be below or above `recovery`.

A row is written when it is done, and a row that is there is not computed again.
"""

from __future__ import annotations

import argparse
import itertools
import json
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pandas as pd
from common import machine, timed, write_json

import vbagg
from vbagg.datasets import simulated_country
from vbagg.datasets.country import RELEVANT, SimulatedCountry
from vbagg.validate import recovery

DISPERSION, LEVEL = 0.05, 0.9
DISTRICTS = {"relevant": 200, "all": 200, "place": 200, "shuffled": 200, "few": 40}
MEASURES = ("r2_within", "coverage_90", "interval_score_90")
KEYS = ("seed", "sees")


def seen_of(country: SimulatedCountry, sees: str, seed: int) -> vbagg.Bags:
    """Districts with what a model sees of them."""
    bags, names = country.bags, list(country.bags.feature_names)
    frame = pd.DataFrame(bags.X, columns=names)
    chosen = [] if sees == "place" else names[2:] if sees == "all" else list(RELEVANT)
    if sees == "shuffled":
        frame[chosen] = frame[chosen].to_numpy()[np.random.default_rng(seed).permutation(len(frame))]
    return vbagg.Bags(frame[["x", "y", *chosen]], bags.labels[bags.bag], bags.weight)


def real(model: vbagg.VBAgg, bags: vbagg.Bags, y: np.ndarray, rate: np.ndarray) -> dict[str, float]:
    """How near the fit is to the truth."""
    w, law = bags.weight, model.posterior(bags).law
    own = (y / bags.totals())[bags.bag]
    low, high = law.interval(LEVEL)
    beyond = np.maximum(low - rate, 0) + np.maximum(rate - high, 0)
    return {
        "r2_within": 1 - float(w @ (law.mean - rate) ** 2 / (w @ (own - rate) ** 2)),
        "coverage_90": float(np.average(beyond == 0, weights=w)),
        "interval_score_90": float(np.average(high - low + 2 / (1 - LEVEL) * beyond, weights=w)),
    }


def timed_fits() -> SimpleNamespace:
    """Processor seconds of all fits from now on."""
    clock, fit = SimpleNamespace(cpu=0.0), vbagg.VBAgg.fit

    def counted(self: Any, *arguments: Any, **options: Any) -> Any:
        with timed() as own:
            found = fit(self, *arguments, **options)
        clock.cpu += own.cpu
        return found

    vbagg.VBAgg.fit = counted  # type: ignore[method-assign]
    clock.stop = lambda: setattr(vbagg.VBAgg, "fit", fit)
    return clock


def row(seed: int, sees: str, scale: float) -> dict[str, Any]:
    """One country."""
    country = simulated_country(scale, seed, DISTRICTS[sees], DISPERSION)
    bags, y = seen_of(country, sees, seed), country.y
    model = vbagg.VBAgg("negative_binomial")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(bags, y, progress=False)
        with timed() as fitted:
            model.fit(bags, y, progress=False)
        # functions of refits compiled
        recovery(model, bags, y, refits=1, seed=99, progress=False)
        fits = timed_fits()
        with timed() as recovered:
            found = recovery(model, bags, y, progress=False)
        fits.stop()
    summary = found.summary()
    return {
        "seed": seed,
        "sees": sees,
        "pixels": bags.n_individuals,
        "districts": len(bags),
        "real": real(model, bags, y, country.rate),
        "recovery": {
            name: float(summary.at[name, "mean"]) for name in ("r2_within", "coverage_90", "interval_score_90")
        },
        "std_error": {name: float(summary.at[name, "std_error"]) for name in ("r2_within", "coverage_90")},
        "information": model.information(bags).overall,
        "cpu": {"fit": fitted.cpu, "recovery": recovered.cpu, "refits": fits.cpu},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--scale", type=float, default=0.01)
    parser.add_argument("--out", default="benchmarks/results/recovery.json")
    options = parser.parse_args()
    path = Path(options.out)
    rows = json.loads(path.read_text())["rows"] if path.exists() else []
    there = {tuple(one[key] for key in KEYS) for one in rows}
    for setting in itertools.product(range(options.seeds), DISTRICTS):
        if setting not in there:
            rows.append(row(*setting, options.scale))
            jax.clear_caches()  # compiled functions of fixed parameters pile up
            write_json(path, {"options": vars(options), "rows": rows, "machine": machine()})
    table = pd.json_normalize(rows)
    with pd.option_context("display.width", 250, "display.max_columns", 40):
        print(table.drop(columns=["seed", "pixels", "districts"]).groupby("sees").mean().round(3).T.to_string())
    told, truth = table["recovery.r2_within"], table["real.r2_within"]
    rank, apart = told.rank().corr(truth.rank()), (told - truth).abs().mean()
    print(f"R2: rank correlation {rank:.2f}, mean absolute difference {apart:.3f}")


if __name__ == "__main__":
    main()
