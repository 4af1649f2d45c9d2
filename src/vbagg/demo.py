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
from vbagg.experiments.pictures import roll_side

if TYPE_CHECKING:
    from vbagg.datasets import SimulatedData
    from vbagg.models.vbagg import VBAgg
    from vbagg.posterior import Posterior

FEWEST_BAGS = 10


def main(arguments: list[str] | None = None) -> int:
    """Run the demonstration."""
    parser = argparse.ArgumentParser(prog="python -m vbagg.demo", description=__doc__.splitlines()[0])
    parser.add_argument("--bags", type=int, default=150, help="number of training bags (default 150)")
    parser.add_argument("--link", choices=("square", "exp"), default="square")
    parser.add_argument("--seed", type=int, default=0, help="of the data")
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder of the figure (default demo/)")
    options = parser.parse_args(arguments)
    if options.bags < FEWEST_BAGS:
        parser.error(f"--bags must be at least {FEWEST_BAGS}; got {options.bags}")
    demonstrate(options.bags, options.link, options.seed, options.out)
    return 0


def demonstrate(n_bags: int, link: str, seed: int, out: Path) -> None:
    """Fit, print scores, and draw ``swiss_roll.png`` into ``out``."""
    out.mkdir(parents=True, exist_ok=True)
    data = vbagg.datasets.swiss_roll(n_bags=n_bags, seed=seed)
    test = vbagg.datasets.swiss_roll(n_bags=n_bags, seed=seed, part="test")
    print(f"{len(data.bags)} bags, {data.bags.n_individuals} individuals, {data.y.sum():.0f} events in all")
    model = vbagg.VBAgg("poisson", link, kernel=vbagg.kernels.RBF())
    began = time.perf_counter()
    model.fit(data.bags, data.y)
    print(f"fitted in {time.perf_counter() - began:.1f} s: {model.status_.message}")
    posterior = model.posterior(data.bags.X)
    report(data, test, model, posterior)
    path = out / "swiss_roll.png"
    draw(data, posterior, path)
    print(f"figure: {path}")


def report(data: SimulatedData, test: SimulatedData, model: VBAgg, posterior: Posterior) -> None:
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


def draw(data: SimulatedData, posterior: Posterior, path: Path) -> None:
    """Draw the roll from the side: truth, estimate, uncertainty, and calibration."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        sys.exit("the figure needs matplotlib: pip install 'vbagg[plots]'")
    points, order = roll_side(data.bags.X, data.rate)
    figure = Figure(figsize=(13, 3.2), layout="constrained")
    panels = figure.subplots(1, 4)
    limits = {"vmin": data.rate.min(), "vmax": data.rate.max(), "cmap": "viridis"}
    shown = (
        ("true rate", data.rate, limits),
        ("posterior mean", posterior.mean, limits),
        ("posterior sd", posterior.std, {"cmap": "magma"}),
    )
    for panel, (title, values, colours) in zip(panels, shown, strict=False):
        dots = panel.scatter(*points[order].T, c=values[order], s=3, linewidths=0, rasterized=True, **colours)
        panel.set(title=title, aspect="equal")
        panel.axis("off")
        figure.colorbar(dots, ax=panel, label="events per individual", shrink=0.8)
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
