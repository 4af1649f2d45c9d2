"""Is the verdict right? Eight data sets on which a fine map is known to help, or known not to.

    python benchmarks/verdicts.py [--seeds 0:20] [--data all|name,...] [--out benchmarks/results/verdicts.json]

Expected to be "no": `constant`, a covariate that is constant inside polygons, whose cells vary; `independent`, rates
of polygons that have nothing to do with covariates or places; `few`, 12 polygons; `shuffled`, Madagascar's districts
and counts, its covariates shuffled among cells. Expected to be "yes": `elevators`, bags of 30; `london`, burglary in
the MSOAs of twelve boroughs; `demo`, the country of the demonstration; `semi-simulated`, Madagascar's cells and
people with made-up rates. A seed draws the data, or for real ones a part of them, and that of the model. Default
settings throughout.

A row is written when it is done, and a row that is there is not computed again. Needs the data folder.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import jax
import nested as nested_data
import numpy as np
import pandas as pd
import peers_data
from common import machine, timed, write_json
from sklearn.base import clone

import vbagg
from vbagg.validate.verdict import judge

Problem = tuple[vbagg.Bags, np.ndarray, str]
EXPECTED = dict.fromkeys(("constant", "independent", "few", "shuffled"), "no") | dict.fromkeys(
    ("elevators", "london", "demo", "semi-simulated"), "yes"
)


def grid(rng: np.random.Generator, polygons: int, cells: int = 36) -> pd.DataFrame:
    """Cells of square polygons on a map, and people."""
    side, wide = int(cells**0.5), int(np.ceil(polygons**0.5))
    polygon, cell = np.divmod(np.arange(polygons * side * side), side * side)
    x = polygon % wide + (cell % side + 0.5) / side
    y = polygon // wide + (cell // side + 0.5) / side
    people = np.exp(rng.normal(4, 0.8, len(x)))
    return pd.DataFrame({"polygon": polygon, "x": x, "y": y, "people": people})


def counted(rng: np.random.Generator, frame: pd.DataFrame, rate: np.ndarray, columns: list[str]) -> Problem:
    """Bags and negative binomial counts."""
    bags = vbagg.Bags(frame[columns], frame["polygon"], frame["people"])
    expected = bags.sum_by_bag(bags.weight * rate[bags.rows])
    effect = rng.gamma(50, 1 / 50, len(expected))
    return bags, rng.poisson(expected * effect).astype(float), "negative_binomial"


def constant(seed: int) -> Problem:
    """A covariate that is the same everywhere in a polygon, and no places."""
    rng = np.random.default_rng([seed, 1])
    frame = grid(rng, 60)
    frame["a"] = rng.normal(size=60)[frame["polygon"]]
    return counted(rng, frame, 0.1 * np.exp(frame["a"].to_numpy() + rng.normal(0, 0.6, len(frame))), ["a"])


def independent(seed: int) -> Problem:
    """Two covariates that vary inside polygons, and rates of polygons that do not depend on them or on places."""
    rng = np.random.default_rng([seed, 2])
    frame = grid(rng, 80)
    for name in ("a", "b"):
        frame[name] = (
            np.sin(frame["x"] * rng.uniform(1, 3))
            + np.cos(frame["y"] * rng.uniform(1, 3))
            + rng.normal(0, 0.5, len(frame))
        )
    rate = 0.05 * np.exp(rng.normal(0, 0.7, 80))[frame["polygon"]]
    return counted(rng, frame, rate, ["x", "y", "a", "b"])


def few(seed: int) -> Problem:
    """Twelve polygons, a strong covariate."""
    rng = np.random.default_rng([seed, 3])
    frame = grid(rng, 12)
    frame["a"] = rng.normal(size=len(frame)) + rng.normal(size=12)[frame["polygon"]]
    return counted(rng, frame, 0.1 * np.exp(frame["a"].to_numpy()), ["x", "y", "a"])


def shuffled(seed: int) -> Problem:
    """Madagascar with each cell's covariates taken from another cell."""
    data = vbagg.datasets.madagascar()
    bags = data.bags.drop_zero_weight()
    X, rng = bags.X.copy(), np.random.default_rng([seed, 4])
    others = [at for at in range(X.shape[1]) if at not in bags.coordinates]
    X[:, others] = X[rng.permutation(len(X))][:, others]
    return bags.with_arrays(X), data.cases, "negative_binomial"


def elevators(seed: int) -> Problem:
    """Training bags of one division."""
    train = vbagg.datasets.elevators_parts(seed)["train"]
    return train.bags, train.y, "normal"


def london(seed: int) -> Problem:
    """MSOAs of twelve boroughs; LSOAs are the individuals."""
    problem = nested_data.london("burglary", "msoa")
    borough = pd.read_csv(nested_data.folder("london_lsoa") / "data.csv").groupby("MSOA11CD")["LAD11CD"].first()
    chosen = np.random.default_rng([seed, 5]).choice(np.unique(borough), 12, replace=False)
    own = np.flatnonzero(borough.loc[list(problem.coarse.labels)].isin(chosen))
    return problem.coarse[own], problem.y[own], problem.likelihood


def demo(seed: int) -> Problem:
    """A country like that of the demonstration."""
    country = vbagg.datasets.simulated_country(0.01, seed=seed, n_districts=80, dispersion=0.05)
    return country.bags, country.y, "negative_binomial"


def semi_simulated(seed: int) -> Problem:
    """Madagascar with made-up rates, many cases."""
    task = peers_data.madagascar("high", seed)
    return task.bags, task.y, "negative_binomial"


DATA = {
    **{"constant": constant, "independent": independent, "few": few, "shuffled": shuffled},
    **{"elevators": elevators, "london": london, "demo": demo, "semi-simulated": semi_simulated},
}


def one_row(name: str, seed: int) -> dict[str, Any]:
    """The verdict on a data set."""
    bags, y, likelihood = DATA[name](seed)
    with warnings.catch_warnings(), timed() as spent:
        warnings.simplefilter("ignore")
        model = vbagg.VBAgg(likelihood, random_state=seed).fit(bags, y, progress=False)
        recovery = vbagg.validate.recovery(model, bags, y, progress=False)
        try:
            found = vbagg.validate.nested(clone(model), bags, y, fitted=model, progress=False)
        except ValueError:  # too few for groups
            found = None
        validation = None if found else vbagg.validate.cross_validate(vbagg.Constant(likelihood), bags, y, 3)
        verdict = judge(found, validation, recovery=recovery)
    scales = [] if found is None else found.scales().to_dict("records")
    skill = {} if found is None else vars(found.cells(recovery).skill)
    return {
        "data": name,
        "seed": seed,
        "expected": EXPECTED[name],
        "word": verdict.word,
        "reasons": verdict.reasons,
        "p": None if found is None else found.p_value(),
        "skill": skill,
        "scales": scales,
        "spent": vars(spent),
    }


def told(rows: list[dict[str, Any]]) -> str:
    """How often each word was said."""
    lines = []
    for name, expected in EXPECTED.items():
        words = Counter(row["word"] for row in rows if row["data"] == name)
        if words:
            said = ", ".join(f"{word} {times}" for word, times in words.most_common())
            lines.append(f"{name:16s} expected {expected:4s} said {said}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0:20", help="first and one past the last")
    parser.add_argument("--data", default="all", help=f"all, or among {', '.join(DATA)}")
    parser.add_argument("--out", default="benchmarks/results/verdicts.json")
    options = parser.parse_args()
    path, (first, last) = Path(options.out), map(int, options.seeds.split(":"))
    rows = json.loads(path.read_text())["rows"] if path.exists() else []
    done = {(row["data"], row["seed"]) for row in rows}
    for seed in range(first, last):
        for name in DATA if options.data == "all" else options.data.split(","):
            if (name, seed) not in done:
                rows.append(one_row(name, seed))
                jax.clear_caches()  # compiled functions of fixed parameters pile up
                write_json(path, {"vbagg": vbagg.__version__, "machine": machine(), "rows": rows})
                print(name, seed, rows[-1]["word"], rows[-1]["p"], rows[-1]["skill"], flush=True)
    print(told(rows))


if __name__ == "__main__":
    main()
