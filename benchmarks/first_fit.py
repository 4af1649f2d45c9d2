"""CPU time of the first fit of a process, compilation included, and of a second: the default on small data.

    python benchmarks/first_fit.py [--against REVISION] [--cases all|name,...] [--repeats 3] [--fits 2]
                                   [--out benchmarks/results/first_fit.json]

The swiss roll of 150 bags with both links; malaria in the districts of Madagascar and crime in 982 areas of London
(both need the data folder); four fifths of the districts of the simulated country that `vbagg demo` is about. Each pair
of fits runs in a process of its own; importing the package and making the data are not counted. With `--against`, the
package as it was at that commit is timed in turn with the present one. Medians of the repeats, and the least of them,
which tells most on a shared machine. Compiled functions are taken from the cache unless `VBAGG_CACHE=off`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from common import machine, source_of, timed, write_json

CASES = ("swiss square", "swiss exp", "madagascar", "country", "london")


def problem(case: str) -> tuple[Any, Any, Any]:
    """Bags, outputs and the model."""
    import vbagg

    counts = vbagg.VBAgg("negative_binomial", "exp")
    if case == "madagascar":
        data = vbagg.datasets.madagascar()
        return data.bags, data.cases, counts
    if case == "london":
        import nested

        london = nested.load("london-theft-msoa")
        return london.coarse, london.y, counts
    if case == "country":
        from vbagg.geo.country_rasters import COVARIATES

        country = vbagg.datasets.simulated_country(0.01, 9, 80, 0.05)
        bags, kept = country.bags, np.arange(80) % 5 > 0
        columns = [bags.feature_names.index(name) for name in ("x", "y", *COVARIATES)]
        X = pd.DataFrame(bags.X[:, columns], columns=["x", "y", *COVARIATES])
        return vbagg.Bags(X, bags.bag, bags.weight)[np.flatnonzero(kept)], country.y[kept], counts
    swiss = vbagg.datasets.swiss_roll()
    return swiss.bags, swiss.y, vbagg.VBAgg("poisson", case.removeprefix("swiss "), kernel=vbagg.kernels.RBF())


def fit_again(case: str, fits: int) -> dict[str, float]:
    import vbagg

    bags, y, model = problem(case)
    seconds = []
    for _ in range(fits):
        with timed() as clock, warnings.catch_warnings():
            warnings.simplefilter("ignore", vbagg.errors.DataWarning)
            model.fit(bags, y)
        seconds.append(clock.cpu)
    status = model.status_
    row = {"first_cpu_seconds": seconds[0]} | ({"second_cpu_seconds": seconds[1]} if fits > 1 else {})
    outer = sum("evaluation" in entry for entry in model.history_)
    row |= {"points": outer, "evaluations": status.evaluations, "objective": max(status.starts)}
    return row | {"elbo": model.elbo_}


def timed_apart(case: str, source: Path, fits: int) -> dict[str, float]:
    """Fits in a process of its own."""
    command = [sys.executable, __file__, "--only", case, "--fits", str(fits)]
    environment = os.environ | {"PYTHONPATH": str(source)}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=None, help="a case: fit it in this process and print the row")
    parser.add_argument("--cases", default="all", help=f"all, or among {', '.join(CASES)}")
    parser.add_argument("--fits", type=int, default=2, choices=(1, 2), help="in each process")
    parser.add_argument("--against", default=None, help="a commit")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", default=None)
    options = parser.parse_args()
    if options.only:
        print(json.dumps(fit_again(options.only, options.fits)))
        return
    rows: list[dict[str, Any]] = []
    with source_of(None) as now, source_of(options.against) as before:
        sources = {"now": now} if options.against is None else {"now": now, options.against: before}
        for case in CASES if options.cases == "all" else options.cases.split(","):
            runs: dict[str, list[dict[str, float]]] = {name: [] for name in sources}
            for _ in range(options.repeats):
                for name, source in sources.items():
                    runs[name].append(timed_apart(case, source, options.fits))
            for name, own in runs.items():
                medians = {key: float(np.median([run[key] for run in own])) for key in own[0]}
                least = min(run["first_cpu_seconds"] for run in own)
                rows.append({"case": case, "version": name, "least_first_cpu_seconds": least, **medians})
                print(rows[-1], flush=True)
    if options.out:
        write_json(options.out, {"rows": rows, "repeats": options.repeats, "machine": machine()})


if __name__ == "__main__":
    main()
