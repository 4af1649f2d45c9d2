"""Fit coarse, score fine: totals of large areas teach the model, counts of small areas inside them are then scored.

    python benchmarks/nested.py [--case all|name,...] [--hyper point|average] [--model '{"landmarks": 90}']
                                [--out benchmarks/results/nested.json]

London's recorded crime from 982 MSOAs or 32 boroughs to 4,829 LSOAs, malaria from 22 regions of Madagascar to 109
districts (pixels are the individuals), elevators from bags to individuals; needs the data folder. Fine outputs are
never seen in a fit. Each way to predict them is scored from draws of outputs, rates per 1000 (elevators: as they are):

- `predictive`: `predictive_bags` of the fine areas, each with a new bag effect
- `rescaled`: joint draws of the same, multiplied so that they add up to the coarse totals
- `conditioned`: joint draws of the individuals given the totals of their own bags, added up, plus the noise of counts
  (where the model offers `posterior(bags)`)
- `constant`: the rate of the coarse area everywhere in it, plus the noise of counts

A row is written when it is done, and a row that is there is not computed again.
"""

from __future__ import annotations

import argparse
import json
import os
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from common import machine, timed, write_json

import vbagg
from vbagg import metrics

LEVELS = (0.5, 0.8, 0.9, 0.95)
DRAWS = 1000
AGES = ["pct_16_29", "pct_30_44", "pct_45_64", "pct_65plus"]
CRIMES, COARSE = ("burglary", "theft", "vehicle", "violence"), {"msoa": "MSOA11CD", "borough": "LAD11CD"}
CASES = [f"london-{crime}-{level}" for crime in CRIMES for level in COARSE] + ["madagascar", "elevators"]


@dataclass(frozen=True)
class Nested:
    """Coarse bags with their totals; the same rows as fine bags; fine outputs in the order of `fine.labels`."""

    likelihood: str
    link: str
    coarse: vbagg.Bags
    y: np.ndarray
    fine: vbagg.Bags
    fine_y: np.ndarray
    fine_of_row: np.ndarray
    """Position among `fine.labels` of each stored row of `coarse`."""
    per: float = 1000.0

    @property
    def coarse_of_fine(self) -> np.ndarray:
        """Position of the coarse bag that holds each fine one."""
        found = np.empty(len(self.fine), dtype=int)
        found[self.fine_of_row] = self.coarse.bag
        return found


def nested(
    X: pd.DataFrame, coarse: Any, fine: Any, weight: Any, fine_y: pd.Series, choices: tuple[str, str], per: float = 1e3
) -> Nested:
    """Both kinds of bags from rows with a label of each kind and the outputs of fine areas by label."""
    order = np.argsort(np.asarray(coarse).astype(str), kind="stable")
    X, coarse, fine, weight = (
        X.iloc[order],
        np.asarray(coarse)[order],
        np.asarray(fine)[order],
        np.asarray(weight)[order],
    )
    X = X.reset_index(drop=True)
    large, small = vbagg.Bags(X, coarse, weight), vbagg.Bags(X, fine, weight)
    outputs = fine_y.loc[list(small.labels)].to_numpy(dtype=float)
    place = pd.Series(np.arange(len(small)), index=list(small.labels))
    row = place.loc[fine].to_numpy()
    problem = Nested(*choices, large, np.zeros(len(large)), small, outputs, row, per)
    y = np.bincount(problem.coarse_of_fine, outputs, len(large))
    return Nested(*choices, large, y, small, outputs, row, per)


def folder(name: str) -> Path:
    """Data folder, as `vbagg.datasets` finds it."""
    here = Path(__file__).resolve().parents[1] / "../shared/data"
    roots = [Path(os.environ["VBAGG_DATA"])] if "VBAGG_DATA" in os.environ else []
    for root in (*roots, Path.cwd() / "../shared/data", here):
        if (root / name).is_dir():
            return root / name
    raise FileNotFoundError(f"Data set {name!r} was not found; set VBAGG_DATA to the folder that contains {name}/.")


def london(crime: str, level: str) -> Nested:
    """Crimes of five years; LSOAs are the individuals."""
    data = pd.read_csv(folder("london_lsoa") / "data.csv")
    X = data[AGES].assign(
        log_density=np.log(data["density_per_ha"]),
        log_income=np.log(data["HHI_median_2012"]),
        NO2=data["NO2_mean"],
        PM25=data["PM25_mean"],
        log_electricity=np.log(data["elec_median_kwh"]),
        gas=data["gas_median_kwh"],
        x=data["x"] / 1000,
        y=data["y"] / 1000,
    )
    counts = data.set_index("LSOA11CD")[f"{crime}_2015_19"]
    choices = ("negative_binomial", "exp")
    return nested(X, data[COARSE[level]], data["LSOA11CD"], 5 * data["population"], counts, choices)


def madagascar() -> Nested:
    """22 regions of pixels, 109 districts."""
    data = vbagg.datasets.madagascar()
    districts = pd.read_csv(folder("madagascar_malaria") / "districts.csv").set_index("ID_2")
    bags = data.bags.drop_zero_weight()
    X = pd.DataFrame(bags.X, columns=bags.feature_names)
    district = np.array([bags.labels[a] for a in bags.bag])
    region = districts.loc[district, "ID_1"].to_numpy()
    cases = pd.Series(data.cases, index=list(data.bags.labels))
    return nested(X, region, district, bags.weight, cases, ("negative_binomial", "exp"))


def elevators() -> Nested:
    """Training bags of the paper's experiment with 225 bags, and their individuals."""
    train = vbagg.datasets.elevators_parts(0, 50, 25)["train"]
    bags, rows = train.bags, np.arange(train.bags.n_individuals)
    X = pd.DataFrame(bags.X, columns=bags.feature_names)
    outputs = pd.Series(train.individual_y, index=rows)
    return nested(X, [f"{a:04d}" for a in bags.bag], rows, bags.weight, outputs, ("normal", "identity"), 1.0)


def load(case: str) -> Nested:
    """Problem by name."""
    if case.startswith("london"):
        return london(*case.split("-")[1:])
    return {"madagascar": madagascar, "elevators": elevators}[case]()


def scores(problem: Nested, draws: np.ndarray, mean: np.ndarray) -> dict[str, Any]:
    """Scores of predictive draws (s, fine) of outputs and their expectation, all per unit of weight."""
    unit = problem.per / problem.fine.totals()
    truth, draws, mean = problem.fine_y * unit, draws * unit, mean * unit
    ends = np.quantile(draws, [0.5 + sign * level / 2 for level in LEVELS for sign in (-1, 1)], axis=0)
    positive = (truth > 0) & (mean > 0)
    return {
        "r2": 1 - metrics.mse(truth, mean) / float(np.var(truth)),
        "mae": metrics.mae(truth, mean),
        "mae_median": metrics.mae(truth, np.median(draws, axis=0)),
        "log_correlation": float(np.corrcoef(np.log(truth[positive]), np.log(mean[positive]))[0, 1]),
        "crps": metrics.crps(truth, draws),
        "coverage": [metrics.coverage(truth, *ends[2 * k : 2 * k + 2]) for k in range(len(LEVELS))],
        "interval_score_90": metrics.interval_score(truth, *ends[4:6], 0.9),
        "interval_score_95": metrics.interval_score(truth, *ends[6:8], 0.95),
    }


def with_noise(problem: Nested, totals: np.ndarray, tau: float, seed: int = 0) -> np.ndarray:
    """Outputs drawn for expected totals (s, fine), without a bag effect."""
    rng = np.random.default_rng(seed)
    if problem.likelihood == "normal":
        return rng.normal(totals, np.sqrt(tau * problem.fine.weight_squares()))
    return rng.poisson(totals).astype(float)


def rescaled(problem: Nested, draws: np.ndarray) -> np.ndarray:
    """Draws (s, fine) multiplied so that they add up to the coarse totals."""
    group = problem.coarse_of_fine
    sums = np.stack([np.bincount(group, row, len(problem.coarse)) for row in draws])
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = np.where(sums != 0, problem.y / sums, 1.0)
    return draws * factor[:, group]


def constant(problem: Nested) -> np.ndarray:
    """Expected output of each fine area at the rate of its coarse one."""
    rate = problem.y / problem.coarse.totals()
    return rate[problem.coarse_of_fine] * problem.fine.totals()


def conditioned(model: vbagg.VBAgg, problem: Nested) -> np.ndarray | None:
    """Joint draws (s, fine) of totals given the coarse totals; None if the model has no such posterior."""
    try:
        posterior = model.posterior(problem.coarse)
    except (TypeError, ValueError):
        return None
    cells = posterior.sample(DRAWS) * problem.coarse.weight
    return np.array([np.bincount(problem.fine_of_row, row, len(problem.fine)) for row in cells])


def one_row(case: str, hyper: str, options: dict[str, Any]) -> dict[str, Any]:
    problem = load(case)
    model = vbagg.VBAgg(problem.likelihood, problem.link, hyper=hyper, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with timed() as fit:
            model.fit(problem.coarse, problem.y)
        tau = model.likelihood_parameters_.get("tau", 0.0)
        with timed() as prediction:
            law, expected = model.predictive_bags(problem.fine), model.posterior_bags(problem.fine).mean
            joint = rescaled(problem, law.sample(DRAWS))
            ways = {"predictive": scores(problem, law.law.sample(2 * DRAWS, 0), expected)}
            ways["rescaled"] = scores(problem, joint, joint.mean(axis=0))
            given = conditioned(model, problem)
        if given is not None:
            ways["conditioned"] = scores(problem, with_noise(problem, given, tau), given.mean(axis=0))
    flat = np.broadcast_to(constant(problem), (2 * DRAWS, len(problem.fine)))
    ways["constant"] = scores(problem, with_noise(problem, flat, tau), flat[0])
    row = {"case": case, "hyper": hyper, "model": options, "ways": ways, "fit": vars(fit)}
    row["prediction"], row["learnt"] = vars(prediction), model.likelihood_parameters_
    row["kernel"] = model.parameters_[["part", "parameter", "value"]].to_dict("records")
    row["sizes"] = {"coarse": len(problem.coarse), "fine": len(problem.fine), "rows": problem.coarse.n_individuals}
    return {**row, "converged": bool(model.status_.converged), "elbo": float(model.elbo_)}


def table(rows: list[dict[str, Any]]) -> str:
    """One line per case and way."""
    lines = [f"{'case':26s} {'hyper':8s}{'way':12s}   R2    MAE  log r   CRPS   50 80 90 95        IS 90   fit CPU s"]
    for row in rows:
        for way, s in row["ways"].items():
            inside = " ".join(f"{100 * c:.0f}" for c in s["coverage"])
            lines.append(
                f"{row['case']:26s} {row['hyper']:8s}{way:12s} {s['r2']:6.3f} {s['mae']:6.3g}"
                f" {s['log_correlation']:6.3f} {s['crps']:6.3g}   {inside:14s} {s['interval_score_90']:8.3g}"
                f" {row['fit']['cpu']:8.1f}"
            )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", default="all", help=f"all, or among {', '.join(CASES)}")
    parser.add_argument("--hyper", default="point", choices=("point", "average"))
    parser.add_argument("--model", default="{}", type=json.loads, help="further arguments of VBAgg, as JSON")
    parser.add_argument("--out", default="benchmarks/results/nested.json")
    options = parser.parse_args()
    path = Path(options.out)
    rows = json.loads(path.read_text())["rows"] if path.exists() else []
    done = {(row["case"], row["hyper"], json.dumps(row["model"])) for row in rows}
    print(vbagg.__version__, flush=True)
    for case in CASES if options.case == "all" else options.case.split(","):
        if case not in CASES:
            raise SystemExit(f"--case must be all or among {', '.join(CASES)}; got {case}.")
        if (case, options.hyper, json.dumps(options.model)) in done:
            continue
        rows.append(one_row(case, options.hyper, options.model))
        write_json(path, {"levels": LEVELS, "vbagg": vbagg.__version__, "machine": machine(), "rows": rows})
        print(table(rows[-1:]), flush=True)
    print(table(rows))


if __name__ == "__main__":
    main()
