"""Seconds that imports take: of vbagg beside JAX, and of what vbagg loads on first use.

    python benchmarks/import_time.py [--out results/import_time.json]

Each import in a process of its own, the median of several; the time of an empty process is taken off.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

import numpy as np
from common import machine, write_json

CODE = {
    "jax": "import jax",
    "jax and vbagg": "import jax, vbagg",
    "vbagg alone": "import vbagg",
    "the model": "from vbagg import VBAgg",
    "the model and scikit-learn's k-means": "from vbagg import VBAgg; from sklearn.cluster import KMeans",
    "maps and polygons": "from vbagg import VBAgg; import vbagg.geo; vbagg.geo.run; import rasterio, geopandas",
}


def seconds(code: str, repeats: int = 7) -> float:
    """Median wall time of a process that runs `code`."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        times.append(time.perf_counter() - began)
    return float(np.median(times))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default=None)
    options = parser.parse_args()
    empty = seconds("")
    rows = {name: seconds(code) - empty for name, code in CODE.items()}
    rows["added by vbagg to jax"] = rows["jax and vbagg"] - rows["jax"]
    for name, value in rows.items():
        print(f"{name}: {value:.2f} s")
    if options.out:
        write_json(options.out, {"seconds": rows, "machine": machine()})


if __name__ == "__main__":
    main()
