"""Memory of mapping as the grid grows: a small model, maps with intervals of ever more cells.

    python benchmarks/large_grid.py [--sides 1000,3162,10000] [--out benchmarks/results/large_grid.json]

Each grid has side x side cells and 400 square polygons, which cover all of it up to a million cells and that many of
larger grids. A process of its own fits a model of ten landmarks, maps the grid, and tells its peak memory.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from common import machine, peak_gb, write_json

POLYGONS_PER_SIDE = 20
COVERED = 1_000_000
"""Most cells under polygons, which a model holds in memory, whatever the grid."""


def map_grid(side: int) -> dict[str, float]:
    """Map one grid in this process."""
    import geopandas as gpd
    import pandas as pd
    from shapely import box

    import vbagg
    from vbagg.geo import Grid, Prepared, Stack, write_maps
    from vbagg.geo.polygons import Polygons

    rng = np.random.default_rng(0)
    grid = Grid("EPSG:32738", (50.0, 0, 4e5, 0, -50.0, 8.5e6), side, side)
    step = side // POLYGONS_PER_SIDE
    cells_across = min(step, int((COVERED / POLYGONS_PER_SIDE**2) ** 0.5))
    boxes, covered = [], []
    down, right = np.mgrid[:cells_across, :cells_across].reshape(2, -1)
    for row in range(POLYGONS_PER_SIDE):
        for column in range(POLYGONS_PER_SIDE):
            left, top = 4e5 + 50 * column * step, 8.5e6 - 50 * row * step
            boxes.append(box(left, top - 50 * cells_across, left + 50 * cells_across, top))
            covered.append((row * step + down) * side + column * step + right)
    frame = gpd.GeoDataFrame({"name": range(len(boxes)), "cases": rng.poisson(40.0, len(boxes))}, geometry=boxes)
    frame = frame.set_crs("EPSG:32738")

    def rows_of(rows: slice) -> np.ndarray:
        across = np.sin(np.arange(side) / 90)[None] + np.cos(np.arange(*rows.indices(side)) / 70)[:, None]
        return np.stack([across, np.exp(across)]).astype(np.float32)

    with tempfile.TemporaryDirectory() as folder:
        stack = Stack.write(Path(folder) / "stack.tif", grid, ("wetness", "population"), rows_of)
        cells = np.concatenate(covered)
        x, y = grid.kilometres(cells).T
        values = stack.at(cells)
        pixels = pd.DataFrame(
            {
                "polygon": np.repeat(np.arange(len(boxes)), cells_across**2),
                "cell": cells,
                "coverage": 1.0,
                "weight": values[:, 1].astype(float),
                "x": x,
                "y": y,
                "wetness": values[:, 0].astype(float),
            }
        )
        pixels.to_parquet(Path(folder) / "pixels.parquet", index=False)
        polygons = Polygons(frame.assign(population=1.0), "name", "polygons")
        prepared = Prepared(
            polygons, stack, Path(folder) / "pixels.parquet", ("wetness",), ("cases",), (), "population"
        )
        model = vbagg.VBAgg("negative_binomial", "exp", landmarks=10).fit(prepared.bags(), prepared.y("cases"))
        before, began, cpu = peak_gb(), time.perf_counter(), time.process_time()
        written = write_maps(model, prepared, Path(folder) / "maps", response="cases", threshold=20.0, progress=False)
        size = sum(path.stat().st_size for path in written.values())
    return {
        "side": side,
        "cells": side**2,
        "mapped": len(boxes) * cells_across**2,
        "seconds": time.perf_counter() - began,
        "cpu_seconds": time.process_time() - cpu,
        "peak_gb_before": before,
        "peak_gb": peak_gb(),
        "maps": len(written),
        "maps_gb": size / 1e9,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sides", default="1000,3162,10000")
    parser.add_argument("--one", type=int, default=None, help="map one grid in this process and print JSON")
    parser.add_argument("--out", default=None)
    options = parser.parse_args()
    if options.one is not None:
        print(json.dumps(map_grid(options.one)))
        return
    rows = []
    for side in options.sides.split(","):
        done = subprocess.run([sys.executable, __file__, "--one", side], check=True, capture_output=True, text=True)
        rows.append(json.loads(done.stdout.splitlines()[-1]))
        print(
            "{cells:11,} cells, {mapped:10,} mapped: {cpu_seconds:6.1f} CPU s,"
            " {peak_gb:.2f} GB ({peak_gb_before:.2f} before), {maps} maps of {maps_gb:.2f} GB".format(**rows[-1]),
            flush=True,
        )
    if options.out:
        write_json(options.out, {"grids": rows, "machine": machine()})


if __name__ == "__main__":
    main()
