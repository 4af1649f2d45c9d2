"""How many people live above thresholds in simulated countries: the truth, the interval, and the map of mean rates.

    python benchmarks/people_above.py [--seeds 3,4,5,6,7,8] [--folder FOLDER]
                                      [--out benchmarks/results/people_above.json]

Each country is written and mapped in `--folder`, where what is there is taken. At all thresholds above which between
5% and 95% of the people live: the share of them at which the 90% interval holds the true number, its width, and the
error of the number and of the people of cells whose mean rate is above, all relative to all people.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
from common import machine, write_json

from vbagg import geo
from vbagg.geo.country_files import write_country

LEVEL, SOME, MOST = 0.9, 0.05, 0.95
PER = 1000.0


def band(path: Path) -> np.ndarray:
    with rasterio.open(path) as file:
        return file.read(1).astype(float).ravel()


def one(folder: Path, seed: int) -> dict[str, Any]:
    """A country."""
    files = write_country(folder / "data", overwrite=True, seed=seed)
    run = geo.run(
        folder / "out",
        polygons=files.districts,
        id="id",
        response="cases",
        population=files.population,
        covariate=list(files.covariates.values()),
        skip_validation=True,
        level=LEVEL,
        orientation=False,
        progress=False,
    )
    table = run.people_above()
    everybody = table["all"].iloc[0]

    def shares(rates: np.ndarray, people: np.ndarray) -> np.ndarray:
        known = np.isfinite(rates) & (people > 0)
        above = [people[known][rates[known] > threshold].sum() for threshold in table["threshold"]]
        return np.array(above) / people[known].sum()

    true = shares(PER * band(files.truth), band(files.population))
    of_means = shares(band(run.maps() / "rate_mean.tif"), band(run.maps() / "population.tif"))
    number, low, high = (table[name].to_numpy() / everybody for name in ("above", "above_lower", "above_upper"))
    use = (number > SOME) & (number < MOST)
    return {
        "seed": seed,
        "thresholds": int(use.sum()),
        "held": float(np.mean((low <= true)[use] & (true <= high)[use])),
        "width": float(np.mean((high - low)[use])),
        "error": float(np.mean(np.abs(number - true)[use])),
        "error_of_mean_rates": float(np.mean(np.abs(of_means - true)[use])),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="3,4,5,6,7,8")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--out", type=Path)
    told = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        for seed in map(int, told.seeds.split(",")):
            rows.append(one((told.folder or Path(scratch)) / f"c{seed}", seed))
            print(rows[-1], flush=True)
    mean = {name: float(np.mean([row[name] for row in rows])) for name in rows[0] if name not in ("seed", "thresholds")}
    print(mean)
    if told.out:
        write_json(told.out, {"machine": machine(), "level": LEVEL, "mean": mean, "rows": rows})


if __name__ == "__main__":
    main()
