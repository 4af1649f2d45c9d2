"""What a user would pick instead of vbagg, on the same data: rates of individuals learnt from totals of bags.

    python benchmarks/peers.py [--data all|london-burglary-borough,...] [--methods all|vbagg,process,...] [--again]
                               [--markdown] [--out benchmarks/results/peers.json]

Needs the data folder, and tobler and pyinterpolate (`pip install ".[geo,peers]"`) for the methods of these packages,
which are left out without them. `peers_data.py` says what the data are, `peers_methods.py` what the methods do. Each
method is scored as it is (`raw`) and made to add up to the totals (`rescaled`); vbagg's default gives rates that are
conditioned on the totals. Settings are chosen by held-out bags; no method sees an individual's output.

A row (data set and method) runs on one thread in a process of its own, is written when it is done, and is not computed
again unless `--again`. CPU seconds are of the method: `tuning` its choice of settings, `fit` the rest with compilation
and imports; memory is the peak of the process. Compiled functions of vbagg are kept as `VBAGG_CACHE` says. Differences
to vbagg have 95% intervals by resampling bags. The rates are per 1000 people a year, of elevators as they are.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import resource
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

from common import machine, peak_gb, timed, write_json

ONE_THREAD = {
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}
DIGITS = 4


def one_row(data: str, name: str) -> dict[str, Any]:
    """Tune, fit and score one method on one data set in this process."""
    import peers_data
    import peers_scores
    from peers_methods import METHODS, tuned

    task, method = peers_data.load(data), METHODS[name]
    before = peak_gb()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with timed() as tuning:
            settings = tuned(method, task)
        with timed() as fit:
            prediction = method.predict(task, task, settings)
    row: dict[str, Any] = {"data": data, "method": name, "settings": settings}
    row |= {"cpu": fit.cpu, "tuning_cpu": tuning.cpu, "peak_gb": peak_gb(), "peak_gb_before": before}
    row |= {"individuals": task.bags.n_individuals, "bags": len(task.bags)}
    for way, given in {"raw": prediction, "rescaled": peers_scores.rescaled(task, prediction)}.items():
        row[way] = peers_scores.scores(task, given)
        errors = peers_scores.bag_errors(task, given)
        row[way]["errors"] = {k: " ".join(f"{v:.{DIGITS}g}" for v in values) for k, values in errors.items()}
    return row


def reason_to_leave_out(data: str, name: str) -> str | None:
    """Why a method cannot run on a data set, if it cannot."""
    from peers_methods import METHODS

    method = METHODS[name]
    if method.needs_places and data == "elevators":
        return "the data have no places"
    if method.package and importlib.util.find_spec(method.package) is None:
        return f"the package {method.package} is not installed (the `peers` extra has it)"
    return None


def row_apart(data: str, name: str, limit: int) -> dict[str, Any]:
    """One row in a process of its own; one that fails, or takes more CPU seconds than allowed, says so."""
    command = [sys.executable, __file__, "--only", data, name, "--limit", str(limit)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | ONE_THREAD)
    if done.returncode == 0:
        return json.loads(done.stdout.splitlines()[-1])
    last = (done.stderr.strip().splitlines() or [""])[-1]
    return {"data": data, "method": name, "failed": last or f"stopped after {limit} CPU seconds"}


def parse(options: argparse.Namespace) -> tuple[list[str], list[str]]:
    """Data sets and methods that were asked for; a beginning such as `madagascar-high` stands for all that have it."""
    from peers_data import DATA_SETS
    from peers_methods import METHODS

    asked = DATA_SETS if options.data == "all" else []
    for name in options.data.split(",") if not asked else []:
        members = [known for known in DATA_SETS if known == name or known.startswith(f"{name}-")]
        if not members:
            raise SystemExit(f"--data must be all or among {', '.join(DATA_SETS)}; got {name}.")
        asked = [*asked, *members]
    methods = list(METHODS) if options.methods == "all" else options.methods.split(",")
    unknown = [name for name in methods if name not in METHODS]
    if unknown:
        raise SystemExit(f"--methods must be all or among {', '.join(METHODS)}; got {', '.join(unknown)}.")
    return asked, methods


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="all", help="all, names, or beginnings of names, after commas")
    parser.add_argument("--methods", default="all", help="all, or names after commas")
    parser.add_argument("--again", action="store_true", help="compute rows that are there once more")
    parser.add_argument("--limit", type=int, default=1500, help="CPU seconds that a row may take")
    parser.add_argument("--markdown", action="store_true", help="print the tables of peers.md and compute nothing")
    parser.add_argument("--only", nargs=2, default=None, help=argparse.SUPPRESS)
    parser.add_argument("--out", default="benchmarks/results/peers.json")
    options = parser.parse_args()
    if options.only:
        resource.setrlimit(resource.RLIMIT_CPU, (options.limit, options.limit))
        print(json.dumps(one_row(*options.only)))
        return
    import peers_tables

    path = Path(options.out)
    rows = json.loads(path.read_text())["rows"] if path.exists() else []
    if options.markdown:
        print(peers_tables.markdown(rows))
        return
    asked, methods = parse(options)
    for data in asked:
        for name in methods:
            if any((row["data"], row["method"]) == (data, name) for row in rows) and not options.again:
                continue
            if reason := reason_to_leave_out(data, name):
                print(f"{data}: {name} is left out: {reason}.", flush=True)
                continue
            row = row_apart(data, name, options.limit)
            rows = [r for r in rows if (r["data"], r["method"]) != (data, name)] + [row]
            write_json(path, {"machine": machine(), "rows": rows})
            print(peers_tables.line(row), flush=True)
    print(peers_tables.table(rows))


if __name__ == "__main__":
    main()
