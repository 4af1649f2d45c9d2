"""A fit on Dask workers beside that of one process: seconds, memory of the driver and of workers, the same numbers.

    python benchmarks/workers.py [--pixels 65000,1044683] [--ways=-1,0,1,2] [--out benchmarks/results/workers.json]

The simulated country in a Parquet file, which workers read. A way is a number of workers with one thread each, 0 for
one process that reads the file and has as many threads as there are processors, -1 for one with one thread, whose
compiled functions are those of the workers. Each case runs in a process of its own; a second run finds compiled
functions. `difference` is the largest relative one of objective, means and sds from the first way.
"""

from __future__ import annotations

import argparse
import json
import os
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

from vbagg.threads import COUNTS

N_PIXELS = 1_044_683


def make(path: Path, pixels: int) -> None:
    """Write the country, and outputs by district beside it."""
    import pandas as pd

    from vbagg import datasets

    country = datasets.simulated_country(pixels / N_PIXELS, dispersion=0.05)
    frame = pd.DataFrame(country.bags.X, columns=list(country.bags.feature_names))
    frame["weight"], frame["bag"] = country.bags.weight, country.bags.bag
    frame.to_parquet(path, index=False, row_group_size=100_000)
    np.save(path.with_suffix(".npy"), country.y)
    np.save(path.with_suffix(".some.npy"), country.bags.X[:: len(frame) // 500])


def one(path: Path, way: int) -> dict[str, Any]:
    """Fit once."""
    import vbagg
    from vbagg.cluster import local_cluster

    warnings.simplefilter("ignore")
    y, some = np.load(path.with_suffix(".npy")), np.load(path.with_suffix(".some.npy"))
    bags = vbagg.Bags.from_parquet(path)
    before = peak_gb()
    with local_cluster(way, threads=1) if way > 0 else nullcontext() as client:
        began = time.perf_counter()
        model = vbagg.VBAgg().fit(bags, y, client=client)
        seconds = time.perf_counter() - began
        workers = [] if client is None else list(client.run(peak_gb).values())
    rates = model.posterior(some)
    return {
        "seconds": seconds,
        "driver_gb": peak_gb(),
        "driver_gb_before": before,
        "worker_gb": workers,
        "elbo": model.elbo_,
        "evaluations": model.status_.evaluations,
        "bags": len(y),
        "numbers": [model.elbo_, *rates.mean, *rates.std],
    }


def peak_gb() -> float:
    """Most memory that this process has had so far; what the system tells of a process counts its parent's too."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 / 1e9 for line in lines if line.startswith("VmHWM"))


def apart(path: Path, way: int) -> dict[str, Any]:
    """In a process of its own."""
    environment = os.environ | (dict.fromkeys(COUNTS, "1") if way != 0 else {})
    words = [sys.executable, __file__, "--one", str(path), str(way)]
    done = subprocess.run(words, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pixels", default=f"65000,{N_PIXELS}")
    parser.add_argument("--ways", default="-1,0,1,2")
    parser.add_argument("--one", nargs=2, default=None, help=argparse.SUPPRESS)
    parser.add_argument("--out", default=None)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one(Path(options.one[0]), int(options.one[1]))))
        return
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for pixels in map(int, options.pixels.split(",")):
            path = Path(folder) / f"{pixels}.parquet"
            make(path, pixels)
            expected: np.ndarray | None = None
            for way in map(int, options.ways.split(",")):
                found = apart(path, way)
                numbers = np.array(found.pop("numbers"))
                expected = numbers if expected is None else expected
                difference = float(np.abs(numbers / expected - 1).max())
                rows.append({"pixels": pixels, "workers": way, **found, "difference": difference})
                print(json.dumps(rows[-1]), flush=True)
    if options.out:
        write_json(options.out, {"machine": machine(), "rows": rows})


if __name__ == "__main__":
    main()
