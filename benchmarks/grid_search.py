"""Whether searching the baselines' grids one setting after another finds what all combinations would.

    python benchmarks/grid_search.py [--experiment swiss-normal-bags] [--methods Nystrom,NN] [--seeds 0] [--out ...]

The first data set (100 bags) of an experiment for each seed. Every combination of the paper's grids is fitted and
scored once; the search is then followed through these fits. `rank` is the place of what it chose among all by the
score that chooses, the NLL of the validation bags; squared errors and NLL of individuals say what the difference is
worth, beside the range between combinations of similar validation NLL. Fits are kept in the file, so that a run that
was stopped goes on.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from common import machine, write_json

from vbagg.experiments import get_experiment
from vbagg.experiments.base import Task
from vbagg.experiments.scores import individual_scores
from vbagg.experiments.swiss import METHODS
from vbagg.experiments.tuning import Trials

SIMILAR = 10
"""Combinations of the lowest validation NLL whose scores are compared with the chosen one's."""


def fit_all(experiment: Any, method: str, seed: int, done: dict[str, Any], keep: Any) -> dict[str, Any]:
    """Scores of all combinations by name; those in `done` are not fitted again."""
    split, truth = experiment.data(Task({"bags": 100, "repetition": seed, "method": method}), quick=False)
    grid = METHODS[experiment.likelihood][method].candidates(False)
    for number, name in enumerate(grid):
        if name in done:
            continue
        trials, began = Trials(split, early_stop=True), time.process_time()
        trial = trials.of(grid[name])
        found = {"validation_nll": trial.validation_nll, "cpu": time.process_time() - began}
        if np.isfinite(trial.validation_nll):
            scores = individual_scores(trial.model, split.train, truth)
            found |= {key: float(scores[key]) for key in ("individual_nll", "individual_mse")}
        done[name] = found
        keep()
        print(f"{method} {seed}: {number + 1} of {len(grid)}: {name}: {trial.validation_nll:.4f}", flush=True)
    return done


def followed(experiment: Any, method: str, done: dict[str, Any]) -> dict[str, Any]:
    """What the search would have chosen, beside the best of all."""
    grid = METHODS[experiment.likelihood][method].candidates(False)
    asked: dict[str, float] = {}

    def rank(name: str) -> float:
        asked[name] = done[name]["validation_nll"]
        return asked[name]

    grid.search(rank)
    chosen, order = min(asked, key=asked.__getitem__), sorted(done, key=lambda name: done[name]["validation_nll"])
    near = {key: [done[name][key] for name in order[:SIMILAR]] for key in ("individual_nll", "individual_mse")}
    return {
        "fits": len(asked),
        "of": len(done),
        "rank": order.index(chosen) + 1,
        "chosen": {"name": chosen, **done[chosen]},
        "best": {"name": order[0], **done[order[0]]},
        f"first {SIMILAR}": {key: [min(values), float(np.median(values)), max(values)] for key, values in near.items()},
        "cpu_search": sum(done[name]["cpu"] for name in asked),
        "cpu_all": sum(found["cpu"] for found in done.values()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--experiment", default="swiss-normal-bags")
    parser.add_argument("--methods", default="Nystrom,NN")
    parser.add_argument("--seeds", default="0", help="of the data, after commas")
    parser.add_argument("--out", default="benchmarks/results/grid_search.json")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    path, experiment = Path(options.out), get_experiment(options.experiment)
    kept = json.loads(path.read_text()) if path.exists() else {"fits": {}, "found": {}}
    for seed in map(int, options.seeds.split(",")):
        for method in options.methods.split(","):
            case = f"{options.experiment}, {method}, seed {seed}"
            fits = kept["fits"].setdefault(case, {})
            fit_all(experiment, method, seed, fits, lambda: write_json(path, kept | {"machine": machine()}))
            kept["found"][case] = followed(experiment, method, fits)
            write_json(path, kept | {"machine": machine()})
            print(case, json.dumps(kept["found"][case], indent=1))


if __name__ == "__main__":
    main()
