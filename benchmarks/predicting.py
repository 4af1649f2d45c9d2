"""Rates of individuals, rows per CPU second: mean, sd and two quantiles; and the maps of Madagascar.

    python benchmarks/predicting.py [--rows 10000,100000,1000000] [--against REVISION] [--maps] [--bags] [--out FILE]

A model of 150 made-up bags with averaged parameters, exp and square link. Each case is a process with one thread.
`first` has reading compiled functions in it, or compiling what no earlier run has left in the cache; `second` is the
same once more. With `--maps` also CPU seconds of the maps of `vbagg run` on Madagascar (needs the data folder):
the fit is made once, and each version makes its maps three times, of which the first may compile and is left out.
`difference` is the largest relative one of all numbers from the first version's.

With `--bags` instead of new individuals those of 60 bags that the model was fitted to, given their bags' counts: by
averaged parameters, and by one set of them in float32. `units` are CPU seconds for each member of the average over
those of one float32 product of all rows with a square matrix of as many features.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from common import machine, peak_gb, source_of, timed, write_json
from geo_job import RUN, command

from vbagg.threads import COUNTS

LINKS = ("exp", "square")
LEVELS = (0.025, 0.975)


def fit(path: Path, link: str) -> None:
    """Fit the model that all versions predict with."""
    import vbagg

    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 3)) * [1.0, 20.0, 0.1]
    bags = vbagg.Bags(X, np.arange(len(X)) // 20, rng.uniform(0.5, 2.0, len(X)))
    rate = np.exp(0.4 * X[:, 0] + np.sin(X[:, 1] / 15))
    y = rng.poisson(bags.sum_by_bag(bags.weight * rate)).astype(float)
    vbagg.VBAgg("poisson", link, landmarks=60, hyper="average").fit(bags, y).save(path)


def observed_bags() -> Any:
    """Bags of very different sizes, and counts."""
    import vbagg

    rng = np.random.default_rng(0)
    sizes = np.round(rng.lognormal(5.7, 0.9, 60)).astype(int).clip(40, 1400)
    X = rng.normal(size=(sizes.sum(), 3)) * [1.0, 20.0, 0.1]
    bags = vbagg.Bags(X, np.repeat(np.arange(60), sizes), rng.uniform(0.5, 2.0, len(X)))
    rate = 0.2 * np.exp(0.4 * X[:, 0] + np.sin(X[:, 1] / 15))
    return bags, rng.poisson(bags.sum_by_bag(bags.weight * rate)).astype(float)


def fit_bags(path: Path, precision: str) -> None:
    """Fit a model to these bags, averaged in double precision and alone in single precision."""
    import vbagg

    hyper = "average" if precision == "double" else "point"
    model = vbagg.VBAgg(
        "negative_binomial", "exp", landmarks=250, hyper=hyper, inference=vbagg.Newton(precision=precision)
    )
    model.fit(*observed_bags()).save(path)


def predict(path: Path, n: int) -> dict[str, Any]:
    """Predict so many new individuals, or the bags of the fit, twice, and keep the numbers beside the model."""
    import vbagg

    model = vbagg.load(path)
    X = observed_bags()[0] if n == 0 else np.random.default_rng(1).normal(size=(n, 3)) * [1.0, 20.0, 0.1]
    taken = []
    for _ in range(2):
        # another object each time: what is known of bags is kept
        rows = X.with_arrays() if n == 0 else X
        with timed() as clock:
            rates = model.posterior(rows)
            if hasattr(rates, "summary"):
                told = rates.summary(LEVELS)
                numbers = np.stack([told.mean, told.std, *told.quantiles])
            else:
                numbers = np.stack([rates.mean, rates.std, *rates.quantile(LEVELS)])
        taken.append(clock.cpu)
    np.save(path.with_suffix(".npy"), numbers)
    count = numbers.shape[1]
    found = {
        "first": taken[0],
        "second": taken[1],
        "rows_per_cpu_second": round(count / taken[1]),
        "peak_gb": peak_gb(),
    }
    members = model._fitted.members
    return found | {"units": taken[1] / len(members) / unit(count, len(members[0].q.mu)), "members": len(members)}


def unit(n: int, m: int) -> float:
    """CPU seconds of one float32 (n x m)(m x m) product, in blocks of rows."""
    rng, taken = np.random.default_rng(0), []
    block, square = (rng.standard_normal(shape).astype(np.float32) for shape in ((4096, m), (m, m)))
    for _ in range(20):
        with timed() as clock:
            block @ square
        taken.append(clock.cpu)
    return float(np.median(taken)) * n / len(block)


def run(source: Path, *words: str) -> str:
    """In a process of its own, by the package at `source`."""
    environment = os.environ | dict.fromkeys(COUNTS, "1") | {"PYTHONPATH": str(source)}
    done = subprocess.run([sys.executable, *words], env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout


def rows_of(sources: dict[str, Path], sizes: list[int], folder: Path) -> list[dict[str, Any]]:
    """All versions, links and numbers of rows."""
    found = []
    for link in LINKS:
        path = folder / f"{link}.vbagg"
        run(sources["now"], __file__, "--fit", str(path), link)
        for n in sizes:
            expected: np.ndarray | None = None
            for name, source in sources.items():
                if n == sizes[0]:
                    run(source, __file__, "--one", str(path), str(n))
                taken = json.loads(run(source, __file__, "--one", str(path), str(n)).splitlines()[-1])
                numbers = np.load(path.with_suffix(".npy"))
                expected = numbers if expected is None else expected
                difference = float(np.abs(numbers / expected - 1).max())
                found.append({"link": link, "rows": n, "version": name, **taken, "difference": difference})
                print(json.dumps(found[-1]), flush=True)
    return found


def bags_of(sources: dict[str, Path], folder: Path) -> list[dict[str, Any]]:
    """Observed bags in both precisions by all versions, in turn; the first round fills the cache and is left out."""
    found = []
    for precision in ("double", "single"):
        path = folder / f"{precision}.vbagg"
        run(sources["now"], __file__, "--fit-bags", str(path), precision)
        expected: np.ndarray | None = None
        for attempt in range(4):
            for name, source in sources.items():
                taken = json.loads(run(source, __file__, "--one", str(path), "0").splitlines()[-1])
                numbers = np.load(path.with_suffix(".npy"))
                expected = numbers if expected is None else expected
                difference = float(np.abs(numbers / expected - 1).max())
                if attempt:
                    facts = {"rows": numbers.shape[1], "version": name, **taken, "difference": difference}
                    found.append({"precision": precision, **facts})
                    print(json.dumps(found[-1]), flush=True)
    return found


def maps_of(sources: dict[str, Path], folder: Path) -> dict[str, list[float]]:
    """CPU seconds of the stage, two warm runs of each version."""
    _, *words = command(coarse=False, validation=False)
    run(sources["now"], *words, "--out", str(folder))
    found: dict[str, list[float]] = {name: [] for name in sources}
    for attempt in range(3):
        for name, source in sources.items():
            shutil.rmtree(folder / "maps")
            run(source, "-c", RUN, "predict", "--out", str(folder))
            facts = json.loads((folder / "maps" / "stage.json").read_text())
            if attempt:
                found[name].append(facts["cpu_seconds"])
    print(json.dumps(found), flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="10000,100000,1000000")
    parser.add_argument("--against", default=None, help="a commit")
    parser.add_argument("--maps", action="store_true", help="also the maps of Madagascar")
    parser.add_argument("--bags", action="store_true", help="individuals of observed bags instead of new ones")
    parser.add_argument("--fit", nargs=2, default=None, help=argparse.SUPPRESS)
    parser.add_argument("--fit-bags", nargs=2, default=None, help=argparse.SUPPRESS)
    parser.add_argument("--one", nargs=2, default=None, help=argparse.SUPPRESS)
    parser.add_argument("--out", default=None)
    options = parser.parse_args()
    if options.fit:
        fit(Path(options.fit[0]), options.fit[1])
        return
    if options.fit_bags:
        fit_bags(Path(options.fit_bags[0]), options.fit_bags[1])
        return
    if options.one:
        print(json.dumps(predict(Path(options.one[0]), int(options.one[1]))))
        return
    with source_of(None) as now, source_of(options.against) as before, tempfile.TemporaryDirectory() as folder:
        sources = {"now": now} if options.against is None else {options.against: before, "now": now}
        result: dict[str, Any] = {"machine": machine()}
        if options.bags:
            result["bags"] = bags_of(sources, Path(folder))
        else:
            result["rows"] = rows_of(sources, [int(n) for n in options.rows.split(",")], Path(folder))
        if options.maps:
            result["maps_cpu_seconds"] = maps_of(sources, Path(folder) / "madagascar")
    if options.out:
        write_json(options.out, result)


if __name__ == "__main__":
    main()
