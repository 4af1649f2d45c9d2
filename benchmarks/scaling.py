"""Cost of a fit and of maps with intervals as the number of pixels grows, for the malaria twin's 957 districts.

    python benchmarks/scaling.py [--sizes 20000,65000,260000,1044683] [--links exp] [--out results/scaling.json]

18 covariates and 2 coordinates; linear + ARD RBF + Matern 3/2 with 576 landmarks in all, negative binomial, all
parameters learnt. The same country and number of districts at coarser resolutions, each size in a process of its own.
Times are wall seconds, CPU seconds and *units*: the wall time of one float32 product of (pixels x features) with
(features x features), measured in the same process before and after the fit. A figure is written beside the JSON.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from common import machine, peak_gb, write_json

N_PIXELS = 1_044_683
LANDMARKS = (192, 384)
BLOCK = 16_384
R_PACKAGE = {"pixels": [7_000, 29_000, 116_000, 260_000], "fit_cpu_seconds": [24.9, 38.0, 96.0, 186.0]}
"""Fits of the R package `disaggregation` 0.4.1 with three linear covariates."""


class Clock:
    """Wall and CPU seconds since it was last read."""

    def __init__(self) -> None:
        self.read()

    def read(self) -> dict[str, float]:
        """Seconds since the last reading."""
        now = time.perf_counter(), time.process_time()
        past = getattr(self, "past", now)
        self.past = now
        return {"seconds": now[0] - past[0], "cpu_seconds": now[1] - past[1]}


def unit(n: int, m: int) -> float:
    """Wall seconds of one float32 (n x m)(m x m) product, in blocks of rows."""
    import jax
    import jax.numpy as jnp

    rng = np.random.default_rng(0)
    block = jnp.asarray(rng.standard_normal((BLOCK, m)), jnp.float32)
    square = jnp.asarray(rng.standard_normal((m, m)), jnp.float32)
    product = jax.jit(jnp.matmul)
    product(block, square).block_until_ready()
    times = []
    for _ in range(3):
        began = time.perf_counter()
        for _ in range(max(1, min(20, n // BLOCK))):
            product(block, square).block_until_ready()
        times.append((time.perf_counter() - began) / max(1, min(20, n // BLOCK)))
    return float(np.median(times)) * n / BLOCK


def measure(n: int, link: str) -> dict:
    """Fit and predict one size in this process."""
    import vbagg
    from vbagg import datasets
    from vbagg.kernels import RBF, Linear, Matern32

    country = datasets.simulated_country(n / N_PIXELS, dispersion=0.05)
    bags = country.bags
    covariates = tuple(name for name in bags.feature_names if name not in ("x", "y"))
    kernel = Linear(covariates, ard=True) + RBF(covariates, ard=True) + Matern32(("x", "y"))
    n_features = 1 + len(covariates) + sum(LANDMARKS)
    units = [unit(bags.n_individuals, n_features)]
    before = peak_gb()
    entries: list[dict] = []
    clock = Clock()
    stages: dict[str, dict[str, float]] = {}

    def progress(entry: dict) -> None:
        stages["prepare" if not entries else "parameters"] = _add(
            stages.get("prepare" if not entries else "parameters"), clock.read()
        )
        entries.append(entry)

    model = vbagg.VBAgg("negative_binomial", link, kernel=kernel, landmarks=[None, *LANDMARKS])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(bags, country.y, progress=progress)
    stages["final q"] = clock.read()
    fitted = peak_gb()
    rates = model.posterior(bags.X)
    found = rates.mean, rates.std, *rates.interval(0.9)
    stages["predict"] = clock.read()
    units.append(unit(bags.n_individuals, n_features))
    one = float(np.mean(units))
    truth = np.log(country.rate)
    for stage in stages.values():
        stage["units"] = stage["seconds"] / one
    fit = {key: sum(stages[name][key] for name in stages if name != "predict") for key in stages["predict"]}
    return {
        "pixels": bags.n_individuals,
        "districts": len(bags),
        "features": n_features,
        "link": link,
        "unit_seconds": one,
        "stages": stages,
        "fit": fit,
        "evaluations": len(entries),
        "peak_gb": {"data": before, "fit": fitted, "predict": peak_gb()},
        "log_mse": float(np.mean((np.log(found[0]) - truth) ** 2)),
        "coverage_90": float(np.mean((found[2] <= country.rate) & (country.rate <= found[3]))),
        "elbo": model.elbo_,
        "status": model.status_.message,
    }


def draw(rows: list[dict], path: Path) -> None:
    """CPU seconds of each stage against pixels, on logarithmic axes, beside the R package's fits."""
    from vbagg.drawing import new_figure, save

    figure = new_figure(6.4, 4.4)
    axes = figure.subplots()
    for link in dict.fromkeys(row["link"] for row in rows):
        own = [row for row in rows if row["link"] == link]
        pixels = [row["pixels"] for row in own]
        axes.plot(pixels, [row["fit"]["cpu_seconds"] for row in own], "o-", label=f"vbagg, fit ({link})")
        for name, line in (("parameters", ":"), ("final q", "--"), ("predict", "-.")):
            seconds = [row["stages"][name]["cpu_seconds"] for row in own]
            axes.plot(pixels, seconds, line, marker=".", lw=1, label=f"vbagg, {name} ({link})")
    axes.plot(
        R_PACKAGE["pixels"], R_PACKAGE["fit_cpu_seconds"], "s-", color="0.4", label="R package, 3 linear covariates"
    )
    axes.set(xscale="log", yscale="log", xlabel="pixels", ylabel="CPU seconds")
    axes.set_title("Fit and prediction of 957 districts, 18 covariates", fontsize=10)
    axes.grid(alpha=0.3, which="both")
    axes.legend(fontsize=7)
    save(figure, path)


def _add(total: dict[str, float] | None, more: dict[str, float]) -> dict[str, float]:
    return more if total is None else {key: total[key] + more[key] for key in more}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default=f"20000,65000,260000,{N_PIXELS}")
    parser.add_argument("--links", default="exp")
    parser.add_argument("--one", default=None, help="pixels,link: measure in this process and print JSON")
    parser.add_argument("--out", default=None)
    options = parser.parse_args()
    if options.one:
        n, link = options.one.split(",")
        print(json.dumps(measure(int(n), link)))
        return
    rows = []
    for link in options.links.split(","):
        for size in options.sizes.split(","):
            command = [sys.executable, __file__, "--one", f"{size},{link}"]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            row = json.loads(done.stdout.splitlines()[-1])
            rows.append(row)
            stages = ", ".join(f"{name} {stage['units']:.1f}" for name, stage in row["stages"].items())
            print(
                f"{link} {row['pixels']:9,} pixels: unit {row['unit_seconds']:.3f} s; fit {row['fit']['units']:.1f}"
                f" units ({row['fit']['seconds']:.0f} s, {row['fit']['cpu_seconds']:.0f} CPU s);"
                f" {stages}; {row['peak_gb']['predict']:.2f} GB;"
                f" {row['evaluations']} evaluations; log MSE {row['log_mse']:.3f}, coverage {row['coverage_90']:.3f}",
                flush=True,
            )
            if options.out:
                write_json(options.out, {"runs": rows, "r_package": R_PACKAGE, "machine": machine()})
                draw(rows, Path(options.out).with_suffix(".png"))


if __name__ == "__main__":
    main()
