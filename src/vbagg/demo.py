"""Learn the rates of 22,000 individuals from 150 totals, score them against the truth, and draw them.

The data are the paper's swiss roll: individuals on a rolled sheet, bags are slabs of it, and the rate grows along the
roll. Only the bag totals are seen by the model.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import vbagg
from vbagg import metrics

if TYPE_CHECKING:
    from vbagg.datasets import AggregateData
    from vbagg.models.vbagg import VBAgg
    from vbagg.posterior import Posterior


def main(arguments: list[str] | None = None) -> int:
    """Run the demonstration."""
    parser = argparse.ArgumentParser(prog="python -m vbagg.demo", description=__doc__.splitlines()[0])
    parser.add_argument("--bags", type=int, default=150, help="number of training bags (default 150)")
    parser.add_argument("--link", choices=("square", "exp"), default="square")
    parser.add_argument("--seed", type=int, default=0, help="of the data")
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder of the figure (default demo/)")
    options = parser.parse_args(arguments)
    if options.bags < 10:
        parser.error(f"--bags must be at least 10; got {options.bags}")

    data = vbagg.datasets.swiss_roll(n_bags=options.bags, seed=options.seed)
    test = vbagg.datasets.swiss_roll(n_bags=options.bags, seed=options.seed, part="test")
    print(f"{len(data.bags)} bags, {data.bags.n_individuals} individuals, {data.y.sum():.0f} events in all")
    model = vbagg.VBAgg("poisson", options.link, kernel=vbagg.kernels.RBF())
    began = time.perf_counter()
    model.fit(data.bags, data.y)
    print(f"fitted in {time.perf_counter() - began:.1f} s: {model.status_.message}")
    posterior = model.posterior(data.bags.X)
    report(data, test, model, posterior)
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "swiss_roll.png"
    draw(data, posterior, path)
    print(f"figure: {path}")
    return 0


def report(data: AggregateData, test: AggregateData, model: VBAgg, posterior: Posterior) -> None:
    """Print scores of individuals against the known rates, beside the constant model's, and of unseen bags."""
    constant = (data.y / data.bags.totals())[data.bags.bag]
    print("\nindividuals (never seen)        vbagg   constant rate per bag   truth")
    rows = [metrics.nll(data.individual_y, rate) for rate in (posterior.mean, constant, data.rate)]
    print(f"  negative log likelihood      {rows[0]:6.3f}   {rows[1]:21.3f}  {rows[2]:6.3f}")
    errors = [metrics.mse(data.rate, rate) for rate in (posterior.mean, constant)]
    print(f"  squared error of the rate    {errors[0]:6.3f}   {errors[1]:21.3f}   0.000")
    for level in (0.7, 0.9):
        inside = metrics.coverage(data.rate, *posterior.interval(level))
        print(f"  {level:.0%} intervals that hold it   {inside:6.1%}")
    print(f"unseen bags: mean log predictive density {model.score(test.bags, test.y):.3f}\n")


def draw(data: AggregateData, posterior: Posterior, path: Path) -> None:
    """Draw the roll from the side: truth, estimate, uncertainty, and calibration."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        sys.exit("the figure needs matplotlib: pip install 'vbagg[plots]'")
    # the first two principal axes of the standardised features show the spiral
    centred = data.bags.X - data.bags.X.mean(axis=0)
    _, _, axes = np.linalg.svd(centred[::20], full_matrices=False)
    side = centred @ axes[:3].T
    angle = np.argsort([abs(np.corrcoef(side[:, k] ** 2, data.rate)[0, 1]) for k in range(3)])[1:]
    figure = Figure(figsize=(13, 3.6), layout="constrained")
    panels = figure.subplots(1, 4)
    limits = {"vmin": data.rate.min(), "vmax": data.rate.max(), "cmap": "viridis"}
    shown = (
        ("true rate", data.rate, limits),
        ("posterior mean", posterior.mean, limits),
        ("posterior sd", posterior.std, {"cmap": "magma"}),
    )
    for panel, (title, values, colours) in zip(panels, shown, strict=False):
        points = panel.scatter(side[:, angle[0]], side[:, angle[1]], c=values, s=2, rasterized=True, **colours)
        panel.set(title=title, xlabel="projection 1 (sd)", ylabel="projection 2 (sd)")
        figure.colorbar(points, ax=panel, label="events per individual")
    levels = np.arange(0.05, 1.0, 0.05)
    coverage = [metrics.coverage(data.rate, *posterior.interval(level)) for level in levels]
    panels[3].plot([0, 1], [0, 1], color="0.7", label="ideal")
    panels[3].plot(levels, coverage, marker="o", markersize=3, label="vbagg")
    panels[3].set(title="calibration", xlabel="nominal coverage", ylabel="true rates inside", xlim=(0, 1), ylim=(0, 1))
    panels[3].legend()
    temporary = path.with_suffix(".tmp.png")
    figure.savefig(temporary, dpi=150)
    temporary.replace(path)


if __name__ == "__main__":
    sys.exit(main())
