"""Error of the variance of bag totals for bags of up to 6,667 pixels, against sums over all pairs.

    python benchmarks/bag_variance.py [--out results/bag_variance.json]

The malaria twin's pixels in bags of one size, 18 covariates, 576 landmarks. Each model is fitted as by default; then
the sd of its totals is compared with that from every pair of pixels, under the same posterior of the weights.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path

import jax
import numpy as np
from common import machine, write_json
from scaling import LINKS, Case, make_data, twin_kernel

import vbagg
from vbagg.features import features, residual_block
from vbagg.links import get_link

SIZES = (100, 1000, 6667)
BAGS_COMPARED = 8


def sds_from_all_pairs(model: vbagg.VBAgg, bags: vbagg.Bags, positions: np.ndarray) -> list[float]:
    """Sd of totals from every pair of their pixels."""
    spec, basis, mu, factor = model._best.state
    ready, known = model._fitted.frame.standardised(bags, np.zeros(bags.n_individuals))
    link, sds = get_link(model.link), []
    for position in positions:
        rows = slice(bags.starts[position], bags.starts[position + 1])
        X, weight = ready.X[rows], ready.weight[rows]
        with jax.enable_x64(True):
            A = features(spec.feature_map, basis, X)
            F = np.asarray(A @ factor)
            S = np.array(residual_block(spec.feature_map, basis, X, A)) + F @ F.T
            slope = np.asarray(link.slope(known[rows] + np.asarray(A @ mu), np.diag(S)))
            sds.append(float(np.sqrt(link.bag_variance(weight[None], slope[None], S[None])[0])))
    return sds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--links", default=",".join(LINKS))
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--out", default=None, help="rows of other links and sizes that it holds are kept")
    options = parser.parse_args()
    rows = []
    if options.out and Path(options.out).exists():
        rows = json.loads(Path(options.out).read_text())["rows"]
    for link in options.links.split(","):
        for size in map(int, options.sizes.split(",")):
            bags, y, _, names = make_data(Case("bags", link=link, bag_size=size))
            kernel = twin_kernel(names)
            model = vbagg.VBAgg("negative_binomial", link, kernel=kernel, landmarks=[192, 384])
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.fit(bags, y)
            chosen = np.flatnonzero(bags.sizes == size)[:BAGS_COMPARED]
            found = model.posterior_bags(bags).std[chosen]
            ratio = found / sds_from_all_pairs(model, bags, chosen)
            row = {
                "link": link,
                "bag_size": size,
                "bags_compared": len(chosen),
                "mean_ratio_of_sd": float(ratio.mean()),
                "smallest": float(ratio.min()),
                "largest": float(ratio.max()),
            }
            rows = [old for old in rows if (old["link"], old["bag_size"]) != (link, size)] + [row]
            print(row, flush=True)
            if options.out:
                write_json(options.out, {"rows": rows, "machine": machine()})


if __name__ == "__main__":
    main()
