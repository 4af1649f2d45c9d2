"""Accuracy and calibration on the paper's swiss roll, several data seeds, `newton` beside the paper's `adam`.

    python benchmarks/swiss_roll.py [--seeds 0,1,2,3,4] [--rate-scale 1] [--out benchmarks/results/swiss_roll.json]

150 training bags, 500 test bags, RBF kernel. Individual scores are against the true rates of the training individuals,
which no model sees. Coverage error: mean |coverage - level| over central intervals of 70% to 95%. Beside it stands the
error to be expected of a perfectly calibrated posterior: errors of neighbours go together, so the coverage of one data
set is off by chance. It is the mean error when joint draws of the posterior take the place of the truth. A run that was
stopped continues: rows that the output file holds are not computed again.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from common import machine, timed, write_json

import vbagg
from vbagg import metrics
from vbagg.posterior import Posterior

PAPER = {"square": "taylor", "exp": "bound"}


def models(link: str, landmarks: int | None, with_adam: bool) -> dict[str, vbagg.VBAgg]:
    kernel = vbagg.kernels.RBF()
    rows = {
        "newton, point": vbagg.VBAgg("poisson", link, kernel=kernel, landmarks=landmarks, hyper="point"),
        "newton, averaged": vbagg.VBAgg("poisson", link, kernel=kernel, landmarks=landmarks, hyper="average"),
    }
    if with_adam:
        rows["adam, paper's settings"] = vbagg.VBAgg(
            "poisson",
            link,
            PAPER[link],
            kernel=kernel,
            landmarks=vbagg.Landmarks(30, "kmeans++"),
            priors=None,
            inference=vbagg.Adam(learning_rates=(0.05, 0.01, 0.001), record_every=450),
        )
    return rows


def chance_coverage_error(posterior: Posterior, n_draws: int = 200) -> float:
    """Mean coverage error over draws of the posterior itself."""
    draws = posterior.sample(n_draws, seed=1)
    off = []
    for level in metrics.LEVELS:
        lower, upper = posterior.interval(level)
        off.append(np.abs(np.mean((draws >= lower) & (draws <= upper), axis=1) - level))
    return float(np.mean(off))


def scores(
    model: vbagg.VBAgg, data: vbagg.datasets.AggregateData, test: vbagg.datasets.AggregateData
) -> dict[str, float]:
    posterior = model.posterior(data.bags.X)
    off = [metrics.coverage(data.rate, *posterior.interval(level)) - level for level in metrics.LEVELS]
    return {
        "individual_nll": metrics.nll(data.individual_y, posterior.mean),
        "individual_mse": metrics.mse(data.rate, posterior.mean),
        "coverage_error": metrics.coverage_error(data.rate, posterior),
        "coverage_bias": float(np.mean(off)),
        "chance_coverage_error": chance_coverage_error(model.posterior(data.bags.X[::8])),
        "interval_score_90": metrics.interval_score(data.rate, *posterior.interval(0.9), 0.9),
        "mean_sd": float(posterior.std.mean()),
        "test_bag_nll_plug_in": metrics.nll(test.y, model.predict(test.bags)),
        "test_bag_log_density": model.score(test.bags, test.y),
        "elbo": model.elbo_,
        "elbo_mc": model.elbo_mc_,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0,1,2,3,4")
    parser.add_argument("--links", default="square,exp")
    parser.add_argument("--landmarks", type=int, default=None)
    parser.add_argument("--rate-scale", type=float, default=1.0, help="0.02 is the low-count roll")
    parser.add_argument("--no-adam", action="store_true")
    parser.add_argument("--no-average", action="store_true")
    parser.add_argument("--out", default=None)
    options = parser.parse_args()
    rows = json.loads(Path(options.out).read_text())["rows"] if options.out and Path(options.out).exists() else []
    done = {(row["link"], row["seed"], row["model"]) for row in rows}
    for link in options.links.split(","):
        for seed in map(int, options.seeds.split(",")):
            data = vbagg.datasets.swiss_roll(seed=seed, rate_scale=options.rate_scale)
            test = vbagg.datasets.swiss_roll(seed=seed, part="test", rate_scale=options.rate_scale)
            for name, model in models(link, options.landmarks, not options.no_adam).items():
                if (link, seed, name) in done or (options.no_average and name == "newton, averaged"):
                    continue
                with timed() as clock:
                    model.fit(data.bags, data.y)
                row = {"link": link, "seed": seed, "model": name, "cpu_seconds": clock.cpu, **scores(model, data, test)}
                rows.append(row)
                shown = ("individual_nll", "individual_mse", "coverage_error", "chance_coverage_error", "cpu_seconds")
                print(link, seed, name, *(f"{key} {row[key]:.4f}" for key in shown), flush=True)
                if options.out:
                    write_json(options.out, {"options": vars(options), "rows": rows, "machine": machine()})
    means = []
    for link, name in dict.fromkeys((row["link"], row["model"]) for row in rows):
        chosen = [row for row in rows if (row["link"], row["model"]) == (link, name)]
        keys = [key for key in chosen[0] if isinstance(chosen[0][key], float)]
        means.append(
            {"link": link, "model": name, **{key: float(np.mean([row[key] for row in chosen])) for key in keys}}
        )
        print("mean", link, name, *(f"{key} {means[-1][key]:.4f}" for key in keys))
    if options.out:
        write_json(options.out, {"options": vars(options), "means": means, "rows": rows, "machine": machine()})


if __name__ == "__main__":
    main()
