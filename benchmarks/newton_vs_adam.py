"""CPU time of a whole `newton` fit beside the paper's `adam`, the same objective, one process.

    python benchmarks/newton_vs_adam.py [--out benchmarks/results/newton_vs_adam.json]

Swiss roll of 150 bags, 30 landmarks, the paper's approximations without priors. `adam` runs each of the paper's
learning rates for 450 epochs of ten mini-batches; the best ELBO counts, and the time of that run alone. `newton` is
timed as a whole, posterior with all individuals included: to its own end, and when stopped after the fewest iterations
with which it ends above that ELBO. Compilation is left out, and given apart for the first `newton` fit of the process.
"""

from __future__ import annotations

import argparse
import warnings

from common import machine, timed, write_json

import vbagg

PAPER = {"square": "taylor", "exp": "bound"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--links", default="square,exp")
    parser.add_argument("--epochs", type=int, default=450)
    parser.add_argument("--out", default=None)
    options = parser.parse_args()
    data = vbagg.datasets.swiss_roll()
    rows = []
    for link in options.links.split(","):
        settings = {
            "link": link,
            "approximation": PAPER[link],
            "kernel": vbagg.kernels.RBF(),
            "landmarks": vbagg.Landmarks(30, "kmeans++"),
            "priors": None,
            "residual": "subset",
        }
        newton = vbagg.VBAgg(**settings)
        with timed() as first:
            newton.fit(data.bags, data.y)
        with timed() as second:
            newton.fit(data.bags, data.y)
        best = None
        for rate in (0.05, 0.01, 0.001):
            warm_up = vbagg.Adam((rate,), epochs=1, record_every=10**6)
            vbagg.VBAgg(**settings, inference=warm_up).fit(data.bags, data.y)
            adam = vbagg.VBAgg(**settings, inference=vbagg.Adam((rate,), epochs=options.epochs, record_every=10**6))
            with timed() as clock:
                adam.fit(data.bags, data.y)
            print(f"{link} adam {rate}: elbo {adam.elbo_:.2f} in {clock.cpu:.1f} CPU s", flush=True)
            if best is None or adam.elbo_ > best[0]:
                best = adam.elbo_, rate, clock.cpu
        for iterations in range(1, 20):
            stopped = vbagg.VBAgg(**settings, inference=vbagg.Newton(max_iterations=iterations))
            with warnings.catch_warnings(), timed() as short:
                warnings.simplefilter("ignore", vbagg.errors.ConvergenceWarning)
                stopped.fit(data.bags, data.y)
            if stopped.elbo_ >= best[0]:
                break
        row = {
            "link": link,
            "newton_iterations_to_adams_elbo": iterations,
            "newton_elbo_then": stopped.elbo_,
            "newton_cpu_seconds_to_adams_elbo": short.cpu,
            "newton_elbo": newton.elbo_,
            "newton_cpu_seconds": second.cpu,
            "newton_cpu_seconds_with_compilation": first.cpu,
            "adam_elbo": best[0],
            "adam_learning_rate": best[1],
            "adam_cpu_seconds": best[2],
            "ratio_to_adams_elbo": short.cpu / best[2],
            "ratio_to_the_end": second.cpu / best[2],
        }
        rows.append(row)
        print(row, flush=True)
    if options.out:
        write_json(options.out, {"options": vars(options), "rows": rows, "machine": machine()})


if __name__ == "__main__":
    main()
