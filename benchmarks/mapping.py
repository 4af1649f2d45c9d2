"""Maps in one process and on Dask workers: seconds, memory of the driver and of workers, the same numbers.

    python benchmarks/mapping.py [--sides 320,1024,3168] [--ways 0,2] [--limit 2GB] [--folder FOLDER]
                                 [--out benchmarks/results/mapping.json]

A made-up country of side x side cells, all under square polygons of 32 x 32 cells. A small model (20 landmarks, fitted
to 200 polygons or all) maps mean, sd, an interval and a probability of exceedance. A way is a number of workers with
one thread each, 0 for one process with one thread. Each case runs in a process of its own, a first one of its kind
compiles. `difference` is the largest relative one of all maps from those of the first way. Cases that `--out` holds
are not done again; countries stay in `--folder`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from common import machine, write_json
from workers import peak_gb

from vbagg.threads import COUNTS

SQUARE, CELL = 32, 50.0
LEFT, TOP = 4e5, 8.5e6
FITTED = 200


def make(folder: Path, side: int) -> None:
    """Write a prepared country and a model of it."""
    import geopandas as gpd
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter
    from shapely import box

    import vbagg
    from vbagg.geo import Grid, Prepared, Stack
    from vbagg.geo.polygons import Polygons

    warnings.simplefilter("ignore")
    folder.mkdir(parents=True, exist_ok=True)
    across, width = side // SQUARE, SQUARE * CELL
    grid = Grid("EPSG:32738", (CELL, 0, LEFT, 0, -CELL, TOP), side, side)

    def rows_of(rows: slice) -> np.ndarray:
        wave = np.sin(np.arange(side) / 90)[None] + np.cos(np.arange(*rows.indices(side)) / 70)[:, None]
        return np.stack([wave, np.exp(wave)]).astype(np.float32)

    stack = Stack.write(folder / "layers.tif", grid, ("wetness", "population"), rows_of)
    down, right = np.mgrid[:SQUARE, :SQUARE].reshape(2, -1)
    writer, people, frames = None, [], []
    chosen = np.unique(np.linspace(0, across**2 - 1, FITTED).astype(int))
    for row in range(across):
        columns = np.arange(across)
        cells = ((row * SQUARE + down)[None] * side + columns[:, None] * SQUARE + right[None]).ravel()
        values, (x, y) = stack.at(cells), grid.kilometres(cells).T
        frame = {
            "polygon": np.repeat(row * across + columns, SQUARE**2),
            "cell": cells,
            "coverage": np.ones(len(cells)),
        }
        frame |= {"weight": values[:, 1].astype(float), "x": x, "y": y, "wetness": values[:, 0]}
        table = pa.table(frame)
        writer = writer or ParquetWriter(folder / "table.parquet", table.schema)
        writer.write_table(table)
        people += frame["weight"].reshape(across, -1).sum(axis=1).tolist()
        frames.append(table.filter(pa.array(np.isin(frame["polygon"], chosen))))
    assert writer is not None
    writer.close()
    corners = [(LEFT + width * (i % across), TOP - width * (i // across)) for i in range(across**2)]
    shapes = [box(x, y - width, x + width, y) for x, y in corners]
    cases = np.random.default_rng(0).poisson(0.02 * np.array(people)).astype(float)
    facts = {"name": range(len(shapes)), "cases": cases, "population": people}
    polygons = Polygons(gpd.GeoDataFrame(facts, geometry=shapes, crs="EPSG:32738"), "name", "polygons")
    prepared = Prepared(polygons, stack, folder / "table.parquet", ("wetness",), ("cases",), (), "population")
    prepared.save(folder / "prepared")
    own = pa.concat_tables(frames).to_pandas()
    bags = vbagg.Bags(own[["x", "y", "wetness"]], own["polygon"].to_numpy(), own["weight"].to_numpy())
    search = vbagg.Newton(max_iterations=3, starts=1)
    model = vbagg.VBAgg("negative_binomial", landmarks=20, hyper="point", inference=search)
    model.fit(bags, cases[chosen], progress=False).save(folder / "model.vbagg")
    for name in ("layers.tif", "table.parquet"):
        (folder / name).unlink()


def one(folder: Path, way: int, limit: str) -> dict[str, Any]:
    """Map once."""
    import vbagg
    from vbagg.cluster import local_cluster
    from vbagg.geo import Prepared, write_maps

    warnings.simplefilter("ignore")
    model, prepared = vbagg.load(folder / "model.vbagg"), Prepared.load(folder / "prepared")
    before, out = peak_gb(), folder / f"maps-{way}"
    times: dict[str, float] = {}

    def note(entry: dict[str, Any]) -> None:
        for word in ("pieces", "rows", "writing"):
            if word in entry:
                times[word] = time.perf_counter() - began

    with local_cluster(way, threads=1, memory=limit) if way else nullcontext() as client:
        began = time.perf_counter()
        write_maps(model, prepared, out, response="cases", threshold=20.0, client=client, progress=note)
        seconds = time.perf_counter() - began
        workers = [] if client is None else list(client.run(peak_gb).values())
        cpu = [] if client is None else list(client.run(time.process_time).values())
    return {
        "seconds": seconds,
        "seconds_until_predicted": times["pieces"],
        "seconds_until_filled": times["rows"],
        "cpu_seconds_of_driver": time.process_time(),
        "cpu_seconds_of_workers": cpu,
        "driver_gb": peak_gb(),
        "driver_gb_before": before,
        "worker_gb": workers,
        "pieces": len(prepared.pieces.all),
    }


def difference(one: Path, other: Path) -> float:
    """The largest relative one of all maps of two folders."""
    import rasterio

    worst = 0.0
    for path in sorted(one.glob("*.tif")):
        with rasterio.open(path) as first, rasterio.open(other / path.name) as second:
            for _, window in first.block_windows(1):
                a, b = first.read(1, window=window), second.read(1, window=window)
                assert (np.isnan(a) == np.isnan(b)).all()
                scale = np.maximum(np.abs(a), 1e-30)
                worst = max(worst, float(np.nanmax(np.abs(a - b) / scale, initial=0.0)))
    return worst


def apart(*words: str) -> dict[str, Any]:
    """Something in a process of its own, with one thread."""
    environment = os.environ | dict.fromkeys(COUNTS, "1")
    done = subprocess.run([sys.executable, __file__, *words], env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sides", default="320,1024,3168")
    parser.add_argument("--ways", default="0,2")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "vbagg-mapping")
    parser.add_argument("--make", nargs=2, default=None, help=argparse.SUPPRESS)
    parser.add_argument("--one", nargs=3, default=None, help=argparse.SUPPRESS)
    parser.add_argument("--limit", default="auto", help="memory of a worker")
    parser.add_argument("--out", default=None)
    options = parser.parse_args()
    if options.make:
        make(Path(options.make[0]), int(options.make[1]))
        print("{}")
        return
    if options.one:
        print(json.dumps(one(Path(options.one[0]), int(options.one[1]), options.one[2])))
        return
    known = Path(options.out) if options.out else None
    rows = json.loads(known.read_text())["rows"] if known is not None and known.exists() else []
    ways = list(map(int, options.ways.split(",")))
    for side in map(int, options.sides.split(",")):
        folder = options.folder / str(side)
        for way in ways:
            if any((row["cells"], row["workers"]) == (side**2, way) for row in rows):
                continue
            if not (folder / "model.vbagg").exists():
                shutil.rmtree(folder, ignore_errors=True)
                apart("--make", str(folder), str(side))
            found = apart("--one", str(folder), str(way), options.limit)
            first = folder / f"maps-{ways[0]}"
            found["difference"] = difference(first, folder / f"maps-{way}") if first.exists() else None
            rows.append({"cells": side**2, "workers": way, "limit": options.limit, **found})
            print(json.dumps(rows[-1]), flush=True)
            if options.out:
                write_json(options.out, {"machine": machine(), "rows": rows})


if __name__ == "__main__":
    main()
