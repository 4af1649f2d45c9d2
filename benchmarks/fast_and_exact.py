"""The default fit beside one that never leaves anything out, on the malaria twin.

    python benchmarks/fast_and_exact.py [--pixels 65000] [--link exp] [--out results/fast_and_exact.json]

Fast: the defaults (parameters searched for with representatives, features in single precision where a fit is long).
Exact: all pixels throughout, double precision. Both see four fifths of the districts. Compared are the ELBO by Monte
Carlo with a control variate, the log density of held-out districts, and the rates of pixels.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
from common import machine, timed, write_json
from scaling import N_PIXELS, twin_kernel

import vbagg
from vbagg import datasets, metrics

PATHS = {"fast": vbagg.Newton(), "exact": vbagg.Newton(representatives=None, precision="double")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pixels", type=int, default=65_000)
    parser.add_argument("--link", default="exp")
    parser.add_argument("--out", default=None)
    options = parser.parse_args()
    country = datasets.simulated_country(options.pixels / N_PIXELS, dispersion=0.05)
    bags = country.bags
    covariates = [name for name in bags.feature_names if name not in ("x", "y")]
    kernel = twin_kernel(covariates)
    held_out = np.zeros(len(bags), bool)
    held_out[np.random.default_rng(1).permutation(len(bags))[: len(bags) // 5]] = True
    train, test = np.flatnonzero(~held_out), np.flatnonzero(held_out)
    unseen = held_out[bags.bag]
    rows, densities = {}, {}
    for name, inference in PATHS.items():
        model = vbagg.VBAgg("negative_binomial", options.link, kernel=kernel, landmarks=[192, 384], inference=inference)
        with warnings.catch_warnings(), timed() as clock:
            warnings.simplefilter("ignore")
            model.fit(bags[train], country.y[train])
        densities[name] = model.predictive_bags(bags[test]).log_prob(country.y[test])
        rates = model.posterior(bags.X)
        low, high = rates.interval(0.9)
        row = {
            "seconds": clock.wall,
            "cpu_seconds": clock.cpu,
            "elbo": model.elbo_,
            "elbo_mc": model.elbo_mc_,
            "objective": max(model.status_.starts),
            "representation_gap": model.status_.representation_gap,
            "held_out_bag_nll": float(-densities[name].mean()),
            "status": model.status_.message,
        }
        for part, chosen in (("training", ~unseen), ("unseen", unseen)):
            row[f"log_mse_{part}"] = metrics.log_mse(country.rate[chosen], rates.mean[chosen])
            row[f"coverage_90_{part}"] = metrics.coverage(country.rate[chosen], low[chosen], high[chosen])
        rows[name] = row
        print(
            name, {key: value if isinstance(value, str) else round(value, 4) for key, value in row.items()}, flush=True
        )
    difference = densities["exact"] - densities["fast"]
    compared = {
        "bags": len(train),
        "elbo_mc_lost_per_100_bags": 100 * (rows["exact"]["elbo_mc"] - rows["fast"]["elbo_mc"]) / len(train),
        "held_out_nll_difference": float(difference.mean()),
        "its_standard_error": float(difference.std(ddof=1) / np.sqrt(len(difference))),
        "cpu_ratio": rows["exact"]["cpu_seconds"] / rows["fast"]["cpu_seconds"],
    }
    print(compared)
    if options.out:
        write_json(
            options.out,
            {"pixels": bags.n_individuals, "link": options.link, "paths": rows, "compared": compared}
            | {"machine": machine()},
        )


if __name__ == "__main__":
    main()
