"""The whole job of `vbagg run` on Madagascar, beside the R package's: CPU seconds and memory of each stage.

    python benchmarks/geo_job.py [--coarse] [--validation] [--out benchmarks/results/geo_job.json]

109 districts, 28,892 cells, three covariates, negative binomial. A process of its own does the job once, from the start
of Python to the report; its processor time includes reading libraries and compilation. The R package `disaggregation`
0.4.1 needs 106 CPU seconds and 1.2 GB for preparing, fitting and predicting, without a report or a check.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from common import machine, write_json

R_PACKAGE = {"cpu_seconds": 106.0, "peak_gb": 1.2}
STAGES = ("check", "prepared", "models", "maps", "validation", "report")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--coarse", action="store_true", help="also the four rasters on another grid")
    parser.add_argument("--validation", action="store_true", help="also 5-fold validation")
    parser.add_argument("--out", default=None)
    options = parser.parse_args()
    data = Path(os.environ.get("VBAGG_DATA", "../shared/data")) / "madagascar_malaria"
    covariates = [data / f"{name}.tif" for name in ("EVI", "Elevation", "LSTmean")]
    if options.coarse:
        covariates += sorted((data / "coarse").glob("*.tif"))
    command = [sys.executable, "-c", "import sys; from vbagg.cli import main; sys.exit(main())", "run"]
    command += ["--polygons", data / "districts.gpkg", "--id", "ID_2", "--response", "cases"]
    command += ["--population", data / "population.tif"]
    command += [part for path in covariates for part in ("--covariate", path)]
    command += [] if options.validation else ["--skip-validation"]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([*map(str, command), "--out", folder], check=True, stdout=subprocess.DEVNULL)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        stages = {name: json.loads((Path(folder) / name / "stage.json").read_text()) for name in STAGES}
        size = sum(file.stat().st_size for file in Path(folder).rglob("*.html"))
    kept = ("seconds", "cpu_seconds", "peak_gb")
    result = {
        "whole": {"cpu_seconds": used.ru_utime + used.ru_stime, "peak_gb": used.ru_maxrss * 1024 / 1e9},
        "r_package": R_PACKAGE,
        "stages": {name: {key: facts[key] for key in kept} for name, facts in stages.items()},
        "report_mb": size / 1e6,
    }
    for name, facts in (("whole", result["whole"]), *result["stages"].items(), ("R package", R_PACKAGE)):
        print(f"{name:12s} {facts['cpu_seconds']:7.1f} CPU s   {facts['peak_gb']:5.2f} GB")
    if options.out:
        write_json(
            options.out,
            {"options": {"coarse": options.coarse, "validation": options.validation}, **result, "machine": machine()},
        )


if __name__ == "__main__":
    main()
