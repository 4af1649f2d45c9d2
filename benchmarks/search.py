"""How high the search for parameters climbs, and at what cost, where columns have length-scales of their own.

    python benchmarks/search.py [--against REVISION] [--cases all|name,...] [--out benchmarks/results/search.json]

Elevators in bags of 30 and 50 with the kernel of the paper, London's crime and Madagascar with the default kernel (all
need the data folder), and data from the model's own prior class. Parameters at their best values, no average. With
`--against`, each case is also fitted by the package as it was at that commit. Rows that are there are kept.
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

import nested
import numpy as np
import prior_class
from common import machine, source_of, timed, write_json

import vbagg

ELEVATORS = [f"elevators-{size}-{repetition}" for size in (30, 50) for repetition in range(20)]
REAL = [case for case in nested.CASES if case != "elevators"]
SIMULATED = [f"{case}/{seed}" for case in ("poisson-exp-1e2", "nb-exp-1e2", "normal-identity-1e2") for seed in range(5)]
CASES = [*ELEVATORS, *REAL, *SIMULATED]


def fit(case: str) -> tuple[vbagg.VBAgg, float, float]:
    """The fitted model, its CPU seconds, and the mean squared error of individuals where outputs are known."""
    if case.startswith("elevators"):
        size, repetition = map(int, case.split("-")[1:])
        train = vbagg.datasets.elevators_parts(repetition, size, size / 2)["train"]
        model = vbagg.VBAgg("normal", "identity", kernel=vbagg.kernels.RBF(ard=True), hyper="point")
        with timed() as clock:
            model.fit(train.bags, train.y)
        error = np.mean((model.posterior(train.bags.X).mean - train.individual_y) ** 2)
        return model, clock.cpu, float(error)
    if "/" in case:
        name, seed = case.split("/")
        data = prior_class.simulate(prior_class.CASES[name], int(seed))
        model = vbagg.VBAgg(data.case.likelihood, data.case.link, hyper="point")
        with timed() as clock:
            data.fit(model)
        return model, clock.cpu, float(np.mean((model.posterior(data.bags).mean - data.rate) ** 2))
    problem = nested.load(case)
    model = vbagg.VBAgg(problem.likelihood, problem.link, hyper="point")
    with timed() as clock:
        model.fit(problem.coarse, problem.y)
    return model, clock.cpu, float(np.mean((model.predict(problem.fine) - problem.fine_y) ** 2))


def one_row(case: str) -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, seconds, error = fit(case)
    status = model.status_
    return {
        "objective": max(status.starts),
        "evaluations": status.evaluations,
        "cpu_seconds": seconds,
        "squared_error": error,
        "converged": status.converged,
        **{name: float(value) for name, value in model.likelihood_parameters_.items()},
    }


def rows_of(cases: list[str], source: Path) -> Any:
    """Rows of one version of the package, one after another in a process of its own."""
    command = [sys.executable, __file__, "--only", ",".join(cases)]
    environment = os.environ | {"PYTHONPATH": str(source)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        for line in process.stdout:
            yield json.loads(line)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=None, help="cases: fit them in this process and print their rows")
    parser.add_argument("--cases", default="all")
    parser.add_argument("--against", default=None, help="a commit")
    parser.add_argument("--out", default="benchmarks/results/search.json")
    options = parser.parse_args()
    if options.only:
        for case in options.only.split(","):
            print(json.dumps({"case": case} | one_row(case)), flush=True)
        return
    cases = CASES if options.cases == "all" else options.cases.split(",")
    out = Path(options.out)
    rows = json.loads(out.read_text())["rows"] if out.exists() else []
    with source_of(None) as now, source_of(options.against) as before:
        sources = {"now": now} if options.against is None else {"now": now, options.against: before}
        for version, source in sources.items():
            there = {row["case"] for row in rows if row["version"] == version}
            missing = [case for case in cases if case not in there]
            for row in rows_of(missing, source) if missing else ():
                rows.append({"version": version} | row)
                print(rows[-1], flush=True)
                write_json(out, {"rows": rows, "machine": machine()})


if __name__ == "__main__":
    main()
