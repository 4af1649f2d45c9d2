"""The whole job of `vbagg run` on Madagascar, beside the R package's: CPU seconds and memory of each stage.

    python benchmarks/geo_job.py [--coarse] [--validation] [--against REVISION] [--repeats 2] [--out ...geo_job.json]

109 districts, 28,892 cells, three covariates, negative binomial. A process does the job once, from the start of Python
to the report; its processor time includes reading libraries. The first process of a pair has an empty cache and
compiles all functions (cold), the second finds them (warm). With `--against`, the package as it was at that commit does
the same in turn. Medians of the repeats. The R package `disaggregation` 0.4.1 needs 53 to 67 CPU seconds, by its mesh,
and 1.04 GB for preparing, fitting and predicting, without a report or a check, alone on one core.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from common import machine, source_of, write_json

R_PACKAGE = {"cpu_seconds": [53.0, 67.0], "peak_gb": 1.04}
STAGES = ("check", "prepared", "models", "maps", "validation", "report")
RUN = "import sys; from vbagg.cli import main; sys.exit(main())"


def command(coarse: bool, validation: bool) -> list[str]:
    """The job, but for the folder."""
    data = Path(os.environ.get("VBAGG_DATA", "../shared/data")) / "madagascar_malaria"
    covariates = [data / f"{name}.tif" for name in ("EVI", "Elevation", "LSTmean")]
    if coarse:
        covariates += sorted((data / "coarse").glob("*.tif"))
    words = [sys.executable, "-c", RUN, "run", "--polygons", data / "districts.gpkg", "--id", "ID_2"]
    words += ["--response", "cases", "--population", data / "population.tif"]
    words += [part for path in covariates for part in ("--covariate", path)]
    return [str(word) for word in (*words, *([] if validation else ["--skip-validation"]))]


def done_once(words: list[str], source: Path, cache: str) -> dict[str, Any]:
    """CPU seconds and peak memory of the job in a process of its own, whole and by stage."""
    environment = os.environ | {"PYTHONPATH": str(source), "VBAGG_CACHE": cache}
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen([*words, "--out", folder], env=environment, stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        if status:
            raise SystemExit(f"The job ended with status {os.waitstatus_to_exitcode(status)}.")
        stages = {name: json.loads((Path(folder) / name / "stage.json").read_text()) for name in STAGES}
        size = sum(file.stat().st_size for file in Path(folder).rglob("*.html"))
    whole = {"cpu_seconds": used.ru_utime + used.ru_stime, "peak_gb": used.ru_maxrss * 1024 / 1e9}
    kept = ("cpu_seconds", "peak_gb")
    return {
        "whole": whole,
        "stages": {name: {key: facts[key] for key in kept} for name, facts in stages.items()},
        "report_mb": size / 1e6,
    }


def medians(runs: Iterable[Any]) -> Any:
    """Of all numbers in dictionaries of the same form."""
    every = list(runs)
    if isinstance(every[0], dict):
        return {key: medians(run[key] for run in every) for key in every[0]}
    return round(float(np.median(every)), 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--coarse", action="store_true", help="also the four rasters on another grid")
    parser.add_argument("--validation", action="store_true", help="also 5-fold validation")
    parser.add_argument("--against", default=None, help="a commit")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--out", default=None)
    options = parser.parse_args()
    words = command(options.coarse, options.validation)
    with source_of(None) as now, source_of(options.against) as before:
        sources = {"now": now} if options.against is None else {options.against: before, "now": now}
        runs: dict[str, dict[str, list[Any]]] = {name: {"cold": [], "warm": []} for name in sources}
        for _ in range(options.repeats):
            for name, source in sources.items():
                with tempfile.TemporaryDirectory() as cache:
                    for kind in ("cold", "warm"):
                        runs[name][kind].append(done_once(words, source, cache))
                        print(f"{name:9s} {kind} {told(runs[name][kind][-1]['whole'])}", flush=True)
    found = {name: {kind: medians(own) for kind, own in kinds.items()} for name, kinds in runs.items()}
    for name, kinds in found.items():
        for kind, result in kinds.items():
            for stage, facts in {"whole": result["whole"], **result["stages"]}.items():
                print(f"{name:9s} {kind} {stage:12s} {told(facts)}")
    if options.out:
        about = {"coarse": options.coarse, "validation": options.validation, "repeats": options.repeats}
        single = {name: {kind: [run["whole"] for run in kinds[kind]] for kind in kinds} for name, kinds in runs.items()}
        every = {"options": about, **found, "single_runs": single, "r_package": R_PACKAGE, "machine": machine()}
        write_json(options.out, every)


def told(facts: dict[str, float]) -> str:
    """CPU seconds and memory in words."""
    return f"{facts['cpu_seconds']:7.1f} CPU s   {facts['peak_gb']:5.2f} GB"


if __name__ == "__main__":
    main()
