"""Seconds and memory of a fit and of maps on a cluster: what formulas say beside what was measured, and far beyond it.

    python benchmarks/cluster_cost.py [--folder benchmarks/results]

For fits with parameters at their best to `n` cells with `d` columns in `b` polygons, `m` features and `W` workers with
one thread each::

    fit: seconds  START + SEARCH 32 b m^2 / min(W, blocks of 32 b) + LOOK n + (READ + PASS m^2) n / W
         bytes    LIBRARIES + (60 + 10 d) n / W + min(KEPT, 4 m n / W), twice as many where the fit is short
    map: seconds  DRIVER n + (ROW + RATE m^2) n / W
         bytes    MAPPING, whatever n

`KEPT` are features, up to 2 GB or 0.6 of the worker's limit. Constants are of one core of the machine named in the
files of results, from rows of two sizes each; the others of `workers.json`, `preparing.json` and `mapping.json` test
them.
The tables are Markdown, for `docs/cluster.md`.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from common import ROOT

from vbagg.chunks import BLOCK, PASSES, PASSES_OF_A_SEARCH
from vbagg.geo.workers import bytes_per_pixel
from vbagg.inference.problem import LONG
from vbagg.representatives import NUMBERS

START, SEARCH, LOOK, READ, PASS = 12.0, 1.1e-9, 1e-6, 1.1e-5, 1.4e-10
DRIVER, ROW, RATE = 2e-6, 4.5e-6, 7e-11
LIBRARIES, KEPT, MAPPING = 0.75e9, 2e9, 0.75e9
CASES = {
    # cells, polygons, columns, features, workers
    "a country at 1 km": (1e6, 1_000, 20, 600, 2),
    "a country at 100 m": (1e8, 1_000, 20, 600, 16),
    "Africa at 1 km": (3e7, 5_000, 20, 600, 8),
    "Africa at 100 m": (3e9, 5_000, 20, 600, 256),
    "Africa at 100 m, 1,000 workers": (3e9, 5_000, 20, 600, 1_000),
}


def fit(n: float, b: int, d: int, m: int, workers: int, kept: float = KEPT) -> tuple[float, float]:
    """Seconds, and bytes of each worker."""
    few = min(n, NUMBERS[1] * b)
    search = SEARCH * few * m**2 / min(workers, max(1.0, few // BLOCK))
    seconds = START + search + LOOK * n + (READ + PASS * m**2) * n / workers
    is_long = m**2 * (PASSES * n + PASSES_OF_A_SEARCH * few) > LONG  # then in single precision
    features = (4 if is_long else 8) * m * n / workers
    return seconds, LIBRARIES + bytes_per_pixel(d) * n / workers + min(kept, features)


def maps(n: float, m: int, workers: int) -> float:
    """Seconds."""
    return DRIVER * n + (ROW + RATE * m**2) * n / workers


def compared(folder: Path) -> list[tuple[str, float, float, float, float]]:
    """What was done, seconds measured and by the formula, and gigabytes of the largest worker likewise."""

    def rows(name: str) -> list[dict[str, Any]]:
        every = json.loads((folder / name).read_text())["rows"]
        return [row for row in every if row["workers"] > 0 and "note" not in row]

    found = []
    for row in rows("workers.json"):
        if row["pixels"] > 1e6:  # the others are averaged over parameters
            found.append(_told("fit", row, row["pixels"], fit(row["pixels"], row["bags"], 20, 595, row["workers"])))
    for row in rows("preparing.json"):
        if row["stage"] == "models":
            n = next(r["rows"] for r in rows("preparing.json") if r["pixels"] == row["pixels"] and "rows" in r)
            limit = 0.6 * float(row["limit"].removesuffix("GB")) * 1e9 if row["limit"] != "auto" else None
            kept = KEPT if limit is None else max(0.0, limit - LIBRARIES - bytes_per_pixel(10) * n / row["workers"])
            found.append(_told("fit", row, n, fit(n, 400, 10, 49, row["workers"], kept)))
    for row in rows("mapping.json"):
        found.append(_told("map", row, row["cells"], (maps(row["cells"], 44, row["workers"]), MAPPING)))
    return found


def _told(
    what: str, row: dict[str, Any], n: float, expected: tuple[float, float]
) -> tuple[str, float, float, float, float]:
    name = f"{what}, {n:,.0f} cells, {row['workers']} workers"
    return name, row["seconds"], expected[0], max(row["worker_gb"]), expected[1] / 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=ROOT / "benchmarks" / "results")
    options = parser.parse_args()
    print("| | s: measured | formula | GB of a worker: measured | formula |\n|---|---|---|---|---|")
    for name, *numbers in compared(options.folder):
        print(f"| {name} | {numbers[0]:.0f} | {numbers[1]:.0f} | {numbers[2]:.1f} | {numbers[3]:.1f} |")
    print("\n| | cells | features | workers | fit: hours | GB of each | map: hours |\n|---|---|---|---|---|---|---|")
    for name, (n, b, d, m, workers) in CASES.items():
        seconds, size = fit(n, b, d, m, workers)
        hours = f"{seconds / 3600:.2g} | {size / 1e9:.1f} | {maps(n, m, workers) / 3600:.2g}"
        print(f"| {name} | {n:,.0f} | {m} | {workers:,} | {hours} |")


if __name__ == "__main__":
    main()
