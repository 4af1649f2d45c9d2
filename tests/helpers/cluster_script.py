"""Fits on workers beside the fit of one process; run as a process of its own, with one thread.

    python cluster_script.py KILLS

Prints the largest relative difference of objective, means and sds, for each way. Compiled functions depend on the
number of threads, so that fits of processes with more threads than workers have differ from theirs by 1e-5 or so.
"""

import json
import os
import signal
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import vbagg
import vbagg.chunks
from vbagg.cluster import local_cluster


def data() -> tuple[pd.DataFrame, pd.Series]:
    """Rows of bags of very different sizes, some of weight zero, and outputs by bag."""
    rng = np.random.default_rng(11)
    sizes = rng.integers(3, 60, 40)
    sizes[[4, 17, 30]] = 300, 170, 1
    n = sizes.sum()
    frame = pd.DataFrame(
        {
            "x": rng.normal(size=n),
            "y": rng.normal(size=n),
            "rain": rng.gamma(2.0, 1.0, n),
            "weight": rng.gamma(2.0, 3.0, n) * (rng.random(n) > 0.1),
            "bag": np.repeat([f"district {i}" for i in rng.permutation(40)], sizes),
        }
    )
    frame.loc[frame["bag"].drop_duplicates().index, "weight"] = 2.0
    mean = (frame["weight"] * np.exp(np.sin(2 * frame["x"]) + 0.3 * frame["rain"])).groupby(frame["bag"]).sum()
    return frame, pd.Series(rng.poisson(mean).astype(float), index=mean.index)


def model() -> vbagg.VBAgg:
    """Averaged over parameters, with an effect of individuals."""
    return vbagg.VBAgg(kernel=vbagg.kernels.RBF() + vbagg.kernels.White(), landmarks=12)


def numbers(fitted: vbagg.VBAgg, frame: pd.DataFrame) -> np.ndarray:
    """Objective, and means and sds of some individuals."""
    rates = fitted.posterior(frame[["x", "y", "rain"]].to_numpy()[::9])
    return np.concatenate([[fitted.elbo_], rates.mean, rates.std])


def main(kills: int) -> None:
    """Compare."""
    warnings.simplefilter("ignore")
    vbagg.chunks.BLOCK = 150
    frame, y = data()
    bags = vbagg.Bags(frame[["x", "y", "rain"]], frame["bag"], frame["weight"])
    expected = numbers(model().fit(bags, y), frame)
    rng = np.random.default_rng(3)

    def kill(client: Any) -> None:
        if len(killed) < kills and (kills == 1 or rng.random() < 0.4):
            workers = list(client.run(os.getpid, on_error="ignore").values())
            if len(workers) == 2:
                killed.append(int(rng.choice(workers)))
                os.kill(killed[-1], signal.SIGKILL)

    def difference(fitted: vbagg.VBAgg) -> float:
        return float(np.abs(numbers(fitted, frame) / expected - 1).max())

    found: dict[str, float] = {}
    killed: list[int] = []
    with tempfile.TemporaryDirectory() as folder:
        frame.to_parquet(Path(folder) / "pixels.parquet", index=False, row_group_size=170)
        stored = vbagg.Bags.from_parquet(Path(folder) / "pixels.parquet")
        with local_cluster(2) as client:
            found["from memory"] = difference(model().fit(bags, y, client=client))
            found["from files"] = difference(model().fit(stored, y, client=client))
        while len(killed) < kills and len(found) < 2 + kills:
            # new workers: Dask does not replace one that dies while it starts
            with local_cluster(2) as client:
                found[f"fit {len(found)}"] = difference(
                    model().fit(
                        stored if len(found) % 2 else bags,
                        y,
                        client=client,
                        progress=lambda entry, client=client: kill(client),
                    )
                )
    found["kills"] = len(killed)
    print(json.dumps(found))


if __name__ == "__main__":
    main(int(sys.argv[1]))
