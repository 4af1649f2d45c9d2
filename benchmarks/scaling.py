"""Cost of a fit and of maps with intervals as pixels, landmarks, bags and covariates grow.

    python benchmarks/scaling.py [--studies pixels,landmarks,bags,covariates] [--out results/scaling.json]

The malaria twin: 957 districts, 18 covariates and 2 coordinates; linear + ARD RBF + Matern 3/2 with 576 landmarks in
all, negative binomial, all parameters learnt; pixels of this country have no effects of their own, so the kernel has
none. `pixels`: the same country at coarser resolutions, both links. The others vary one thing on 30,000 pixels:
`landmarks` in all; `bags`: the pixels in runs of one size instead of districts; `covariates`: the first of the 18, or
the 18 and products of them.

Each case has a process of its own. Times are wall seconds, CPU seconds and *units*: the wall time of one float32
product of (pixels x features) with (features x features), measured in the same process before and after the fit. A
figure is written beside the JSON; runs of other studies that the file already holds are kept.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from common import machine, peak_gb, write_json

N_PIXELS, FEW_PIXELS = 1_044_683, 30_000
BLOCK = 16_384
LINKS = "exp", "square"
R_PACKAGE = {
    "pixels": [7_000, 29_000, 116_000, 260_000],
    "fit_cpu_seconds": [24.9, 38.0, 96.0, 186.0],
}
"""Fits of the R package `disaggregation` 0.4.1 with three linear covariates."""


@dataclass(frozen=True)
class Case:
    """What is fitted."""

    study: str
    pixels: int = FEW_PIXELS
    link: str = "exp"
    landmarks: int = 576
    covariates: int = 18
    bag_size: int | None = None
    """None: the districts of the country."""


STUDIES = {
    "pixels": [Case("pixels", n, link) for n in (20_000, 65_000, 260_000, N_PIXELS) for link in LINKS],
    "landmarks": [Case("landmarks", landmarks=m) for m in (100, 300, 576, 1000)],
    "bags": [Case("bags", link=link, bag_size=size) for size in (10, 100, 1000, 6667) for link in LINKS],
    "covariates": [Case("covariates", covariates=d) for d in (3, 9, 18, 50)],
}


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


def make_data(case: Case):
    """Bags, outputs, true rates and the names of the covariates."""
    import pandas as pd

    import vbagg
    from vbagg import datasets

    country = datasets.simulated_country(case.pixels / N_PIXELS, dispersion=0.05)
    bags = country.bags
    names = [name for name in bags.feature_names if name not in ("x", "y")]
    if case.covariates == len(names) and case.bag_size is None:
        return bags, country.y, country.rate, names
    own = bags.X[:, [bags.feature_names.index(name) for name in names]]
    standard = (own - own.mean(0)) / own.std(0)
    pairs = [(i, j) for i in range(len(names)) for j in range(i)]
    products = np.stack([standard[:, i] * standard[:, j] for i, j in pairs], axis=1)
    X = np.column_stack([own, products])[:, : case.covariates]
    names = [f"c{i}" for i in range(case.covariates)]
    where = bags.X[:, [bags.feature_names.index(name) for name in ("x", "y")]]
    label = bags.bag if case.bag_size is None else np.arange(len(X)) // case.bag_size
    table = pd.DataFrame(np.column_stack([X, where]), columns=[*names, "x", "y"])
    cut = vbagg.Bags(table, label, bags.weight, coordinates=("x", "y"))
    mean = cut.sum_by_bag(cut.weight * country.rate)
    rng = np.random.default_rng(0)
    return cut, rng.poisson(mean * rng.gamma(20.0, 1 / 20.0, len(mean))), country.rate, names


def twin_kernel(covariates):
    """Linear + ARD RBF on the covariates, Matern 3/2 on the coordinates."""
    from vbagg.kernels import RBF, Linear, Matern32

    columns = tuple(covariates)
    return Linear(columns, ard=True) + RBF(columns, ard=True) + Matern32(("x", "y"))


def measure(case: Case) -> dict:
    """Fit and predict one case in this process."""
    import vbagg

    bags, y, rate, names = make_data(case)
    landmarks = case.landmarks // 3, case.landmarks - case.landmarks // 3
    n_features = 1 + len(names) + case.landmarks
    units = [unit(bags.n_individuals, n_features)]
    before = peak_gb()
    entries: list[dict] = []
    clock = Clock()
    stages: dict[str, dict[str, float]] = {}

    def progress(entry: dict) -> None:
        stage = "parameters" if entries else "prepare"
        stages[stage] = _add(stages.get(stage), clock.read())
        entries.append(entry)

    model = vbagg.VBAgg("negative_binomial", case.link, kernel=twin_kernel(names), landmarks=list(landmarks))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(bags, y, progress=progress)
    stages["final q"] = clock.read()
    fitted = peak_gb()
    # the effect of a district is noise of its count in this country
    rates = model.posterior(bags, bag_effect="reporting")
    found = rates.mean, rates.std, *rates.interval(0.9)
    stages["predict"] = clock.read()
    as_risk = model.posterior(bags).interval(0.9)
    units.append(unit(bags.n_individuals, n_features))
    one = float(np.mean(units))
    for stage in stages.values():
        stage["units"] = stage["seconds"] / one
    fit = {key: sum(stages[name][key] for name in stages if name != "predict") for key in stages["predict"]}
    return {
        **asdict(case),
        "pixels": bags.n_individuals,
        "bags": len(bags),
        "largest_bag": int(bags.sizes.max()),
        "features": n_features,
        "unit_seconds": one,
        "stages": stages,
        "fit": fit,
        "evaluations": len(entries),
        "evaluations_of_q": model.status_.evaluations,
        "peak_gb": {"data": before, "fit": fitted, "predict": peak_gb()},
        "log_mse": float(np.mean((np.log(found[0]) - np.log(rate)) ** 2)),
        "coverage_90": float(np.mean((found[2] <= rate) & (rate <= found[3]))),
        "coverage_90_effect_as_risk": float(np.mean((as_risk[0] <= rate) & (rate <= as_risk[1]))),
        "elbo": model.elbo_,
        "representation_gap": model.status_.representation_gap,
        "status": model.status_.message,
    }


SHOWN = {
    "pixels": ("pixels", "pixels", "957 districts, 18 covariates, 576 landmarks"),
    "landmarks": ("landmarks", "landmarks", "30,000 pixels, 957 districts, 18 covariates"),
    "bags": ("bag_size", "pixels in each bag", "30,000 pixels, 18 covariates, 576 landmarks"),
    "covariates": ("covariates", "covariates", "30,000 pixels, 957 districts, 576 landmarks"),
}
"""What is varied, its label, and what stays."""


def draw(rows: list[dict], path: Path) -> None:
    """CPU seconds against what is varied, on logarithmic axes; pixels beside the R package's fits."""
    from vbagg.drawing import new_figure, save

    studies = list(dict.fromkeys(row["study"] for row in rows))
    columns = min(2, len(studies))
    lines = -(-len(studies) // columns)
    figure = new_figure(5.5 * columns, 3.6 * lines + 0.6)
    for number, study in enumerate(studies):
        key, label, title = SHOWN[study]
        axis = figure.add_subplot(lines, columns, number + 1)
        for link, colour in zip(LINKS, ("C0", "C1"), strict=True):
            own = [row for row in rows if row["study"] == study and row["link"] == link]
            if not own:
                continue
            x = [row[key] for row in own]
            axis.plot(x, [row["fit"]["cpu_seconds"] for row in own], "o-", color=colour, label=f"fit, {link}")
            # the last solve of `q` from a first start comes before the search from a second
            for name, stages, line in (
                ("search and q", ("parameters", "final q"), ":"),
                ("predict", ("predict",), "-."),
            ):
                seconds = [sum(row["stages"][stage]["cpu_seconds"] for stage in stages) for row in own]
                axis.plot(x, seconds, line, marker=".", lw=1, color=colour, label=f"{name}, {link}")
        if study == "pixels":
            cpu = R_PACKAGE["fit_cpu_seconds"]
            axis.plot(R_PACKAGE["pixels"], cpu, "s-", color="0.4", label="R package's fit, 3 linear covariates")
        axis.set(xscale="log", yscale="log", xlabel=label, ylabel="CPU seconds")
        if study != "pixels":
            values = sorted({row[key] for row in rows if row["study"] == study})
            axis.set_xticks(values, [f"{value:,}" for value in values])
            axis.set_xticks([], minor=True)
        axis.set_title(title, fontsize=10)
        axis.grid(alpha=0.3, which="both")
    named = dict(zip(*reversed(figure.axes[0].get_legend_handles_labels()), strict=True))
    figure.legend(named.values(), named.keys(), loc="outside lower center", ncols=3, fontsize=8)
    save(figure, path)


def describe(row: dict) -> str:
    """One case in one line."""
    stages = ", ".join(f"{name} {stage['units']:.1f}" for name, stage in row["stages"].items())
    return (
        f"{row['study']}: {row['link']}, {row['pixels']:,} pixels in {row['bags']} bags (largest {row['largest_bag']}),"
        f" {row['landmarks']} landmarks, {row['covariates']} covariates: unit {row['unit_seconds']:.3f} s; fit"
        f" {row['fit']['units']:.1f} units ({row['fit']['seconds']:.0f} s, {row['fit']['cpu_seconds']:.0f} CPU s);"
        f" {stages}; {row['peak_gb']['predict']:.2f} GB; {row['evaluations']} evaluations ({row['evaluations_of_q']} of"
        f" q); log MSE {row['log_mse']:.3f}, coverage {row['coverage_90']:.3f}; gap {row['representation_gap']:.1f}"
    )


def _add(total: dict[str, float] | None, more: dict[str, float]) -> dict[str, float]:
    return more if total is None else {key: total[key] + more[key] for key in more}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", default=",".join(STUDIES))
    parser.add_argument("--links", default=",".join(LINKS))
    parser.add_argument("--one", default=None, help="a case as JSON: measure it in this process and print JSON")
    parser.add_argument("--out", default=None)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(Case(**json.loads(options.one)))))
        return
    wanted = [case for study in options.studies.split(",") for case in STUDIES[study]]
    rows: list[dict] = []
    if options.out and Path(options.out).exists():
        rows = json.loads(Path(options.out).read_text())["runs"]
    for case in wanted:
        if case.link not in options.links.split(","):
            continue
        command = [sys.executable, __file__, "--one", json.dumps(asdict(case))]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        row = json.loads(done.stdout.splitlines()[-1]) | {"asked": asdict(case)}
        rows = [old for old in rows if old["asked"] != row["asked"]] + [row]
        print(describe(row), flush=True)
        if options.out:
            order = [asdict(own) for study in STUDIES.values() for own in study]
            rows.sort(key=lambda row: order.index(row["asked"]))
            write_json(options.out, {"runs": rows, "r_package": R_PACKAGE, "machine": machine()})
            draw(rows, Path(options.out).with_suffix(".png"))


if __name__ == "__main__":
    main()
