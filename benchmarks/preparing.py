"""Preparing, and a small fit, in one process and on Dask workers: seconds, memory of the driver and of workers.

    python benchmarks/preparing.py [--pixels 100000,1044683,4200000] [--ways 0,2] [--limit 3GB] [--no-fit]
                                   [--folder FOLDER] [--out benchmarks/results/preparing.json]

A simulated country of 1,044,683 cells and eight rasters, on grids with about so many cells under polygons. A way is a
number of workers with one thread each, 0 for one process. Each case runs in a process of its own. `digest` is that of
the stack and the table of pixels, which must be the same for all ways. The fit has 20 landmarks for each set of columns
and one set of parameters: it shows what the driver holds, not what a model costs. With `--folder` the country and what
was prepared stay; cases that are in the file of results already are not run again.
"""

from __future__ import annotations

import argparse
import hashlib
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

from common import machine, write_json
from workers import peak_gb

from vbagg.threads import COUNTS

N_PIXELS, DEGREES = 1_044_683, 0.008993205895777723


def one(folder: Path, pixels: int, way: int, stage: str, limit: str) -> dict[str, Any]:
    """Carry out one stage."""
    from vbagg.cluster import local_cluster
    from vbagg.geo.country_files import CountryFiles
    from vbagg.workflow.job import carry_out_stages
    from vbagg.workflow.progress import showing
    from vbagg.workflow.settings import from_words

    warnings.simplefilter("ignore")
    files = CountryFiles.within(folder / "country")
    resolution = None if pixels == N_PIXELS else float(f"{DEGREES * (N_PIXELS / pixels) ** 0.5:.3g}")
    words = {"polygons": files.districts, "id": "id", "response": "cases", "population": files.population}
    words |= {"covariate": list(files.covariates.values()), "resolution": resolution, "landmarks": 20, "hyper": "point"}
    out = folder / f"{pixels}-{way}"
    before = peak_gb()
    with local_cluster(way, threads=1, memory=limit) if way else nullcontext() as client, showing(False) as shown:
        began, cpu = time.perf_counter(), time.process_time()
        run = carry_out_stages(from_words(words, None), out, (stage,), True, shown, client=client)
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
        workers = [] if client is None else list(client.run(peak_gb).values())
    found = {"seconds": seconds, "driver_cpu_seconds": cpu, "driver_gb": peak_gb(), "driver_gb_before": before}
    found |= {"worker_gb": workers}
    if stage == "prepared":
        prepared = run.prepared()
        return found | {"rows": rows_in(prepared.table), "digest": digest(prepared.table, prepared.stack.path)}
    return found | {"elbo": run.model().elbo_}


def rows_in(table: Path) -> int:
    """Of a Parquet file."""
    from pyarrow.parquet import read_metadata

    return read_metadata(table).num_rows


def digest(*paths: Path) -> str:
    """Of files, read a little at a time."""
    found = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            while part := file.read(1 << 20):
                found.update(part)
    return found.hexdigest()[:16]


def apart(words: list[str]) -> dict[str, Any]:
    """One case in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, "--one", *words],
        env=os.environ | dict.fromkeys(COUNTS, "1"),
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pixels", default=f"100000,{N_PIXELS},4200000")
    parser.add_argument("--ways", default="0,2")
    parser.add_argument("--limit", default="auto", help="memory of a worker")
    parser.add_argument("--no-fit", action="store_true")
    parser.add_argument("--folder", default=None)
    parser.add_argument("--one", nargs=5, default=None, help=argparse.SUPPRESS)
    parser.add_argument("--out", default=None)
    options = parser.parse_args()
    if options.one:
        folder, pixels, way, stage, limit = options.one
        print(json.dumps(one(Path(folder), int(pixels), int(way), stage, limit)))
        return
    known = json.loads(Path(options.out).read_text())["rows"] if options.out and Path(options.out).exists() else []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(options.folder or scratch)
        if not (folder / "country").exists():
            from vbagg.geo.country_files import write_country

            write_country(folder / "country", scale=1.0, n_districts=400)
        for pixels in map(int, options.pixels.split(",")):
            for way in map(int, options.ways.split(",")):
                for stage in ("prepared", *([] if options.no_fit or not way else ["models"])):
                    case = {"pixels": pixels, "workers": way, "stage": stage, "limit": options.limit}
                    if any(case.items() <= row.items() for row in known):
                        continue
                    known.append(case | apart([str(folder), str(pixels), str(way), stage, options.limit]))
                    print(json.dumps(known[-1]), flush=True)
                    if options.out:
                        write_json(options.out, {"machine": machine(), "rows": known})


if __name__ == "__main__":
    main()
