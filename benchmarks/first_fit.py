"""CPU time of the first fit of a process, compilation included, and of a second: the default on small data.

    python benchmarks/first_fit.py [--against REVISION] [--repeats 3] [--out benchmarks/results/first_fit.json]

The swiss roll of 150 bags with both links, and malaria in the districts of Madagascar (needs the data folder). Each
pair of fits runs in a process of its own; importing the package and making the data are not counted. With `--against`,
the package as it was at that commit is timed in turn with the present one. Medians of the repeats.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
from common import machine, source_of, timed, write_json


def fit_twice(case: str) -> dict[str, float]:
    import vbagg

    if case == "madagascar":
        data = vbagg.datasets.madagascar()
        bags, y, model = data.bags, data.cases, vbagg.VBAgg("negative_binomial", "exp")
    else:
        swiss = vbagg.datasets.swiss_roll()
        bags, y = swiss.bags, swiss.y
        model = vbagg.VBAgg("poisson", case.removeprefix("swiss "), kernel=vbagg.kernels.RBF())
    seconds = []
    for _ in range(2):
        with timed() as clock, warnings.catch_warnings():
            warnings.simplefilter("ignore", vbagg.errors.DataWarning)
            model.fit(bags, y)
        seconds.append(clock.cpu)
    return {"first_cpu_seconds": seconds[0], "second_cpu_seconds": seconds[1], "elbo": model.elbo_}


def timed_apart(case: str, source: Path) -> dict[str, float]:
    """One pair of fits in a process of its own."""
    command = [sys.executable, __file__, "--only", case]
    environment = os.environ | {"PYTHONPATH": str(source)}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=None, help="a case: fit it in this process and print the row")
    parser.add_argument("--cases", default="swiss square,swiss exp,madagascar", help="the last needs the data folder")
    parser.add_argument("--against", default=None, help="a commit")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", default=None)
    options = parser.parse_args()
    if options.only:
        print(json.dumps(fit_twice(options.only)))
        return
    rows = []
    with source_of(None) as now, source_of(options.against) as before:
        sources = {"now": now} if options.against is None else {"now": now, options.against: before}
        for case in options.cases.split(","):
            runs: dict[str, list[dict[str, float]]] = {name: [] for name in sources}
            for _ in range(options.repeats):
                for name, source in sources.items():
                    runs[name].append(timed_apart(case, source))
            for name, own in runs.items():
                medians = {key: float(np.median([run[key] for run in own])) for key in own[0]}
                rows.append({"case": case, "version": name, **medians})
                print(rows[-1], flush=True)
    if options.out:
        write_json(options.out, {"rows": rows, "repeats": options.repeats, "machine": machine()})


if __name__ == "__main__":
    main()
