"""Do intervals hold what they say? Truth drawn from the model's own prior class.

    python benchmarks/calibration.py [--cases all|main|name,...] [--sets 30] [--truth 10] [--quick]
                                     [--hyper point|average] [--model '{"landmarks": 90, "inside": 0.8}']
                                     [--out benchmarks/results/calibration.json]

60 bags of 10 individuals for training and 30 new bags, see `prior_class.py`. A row of the result is one data set; rows
are written one by one, and those that are there are not computed again. Rates, their errors and interval scores are in
units of the mean rate. Where bags have effects of their own, scores are against rates without them, and under
`..._with_bag_effect` against rates times effects.

`objective_gap` is the profile objective (ELBO at its best q + log prior) at the true parameters minus that of the fit,
from a second fit with all parameters fixed at the truth and the same landmarks; minus half the number of parameters is
ideal. `laplace_gap` is the same with Laplace's approximation of the evidence in place of the ELBO, which lies the
further below the evidence the less Gaussian the posterior of the weights is. `true_parameters` are the scores of that
second fit, which is made for the first `--truth` sets of a case only: fixed values are compiled into the functions of a
fit, so that each takes seconds. `inside` is the share of the residual's variance that the likelihood integrates (power
EP's alpha); it is no argument of VBAgg.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any

import jax
import numpy as np
from common import machine, timed, write_json
from prior_class import CASES, Case, DataSet, check_priors, kernel, log_prior, simulate

import vbagg
from vbagg import metrics
from vbagg.inference.mode import laplace_start
from vbagg.inference.problem import Problem

LEVELS = (0.5, 0.8, 0.9, 0.95)
MAIN = [f"{pair}-{level}" for level in ("1e2", "1e4") for pair in
        ("poisson-exp", "poisson-square", "nb-exp", "normal-identity", "binomial-logistic")]  # fmt: skip
QUICK = {"n_bags": 15, "size": 5, "n_new": 6}
KERNEL_NAMES = {"RBF": "rbf", "Matern32": "matern", "White": "white"}
SHOWN = {
    "individuals.coverage": "ind 50 80 90 95",
    "bags.coverage.3": "bag 95",
    "new_outputs.coverage.3": "new bag 95",
    "new_individuals.coverage.3": "new ind 95",
    "true_parameters.individuals.coverage.3": "ind 95 true",
    "individuals.interval_score_95": "IS 95",
    "individuals.rmse": "rmse",
    "individuals.log_rmse": "log rmse",
    "objective_gap": "gap",
    "laplace_gap": "Laplace gap",
    "fit.cpu": "fit CPU s",
    "prediction.cpu": "pred CPU s",
}


def scores(truth: np.ndarray, law: Any, unit: float) -> dict[str, Any]:
    """Coverage at `LEVELS`, interval scores and errors of the mean, in units of `unit`."""
    ends = {level: law.interval(level) for level in LEVELS}
    found: dict[str, Any] = {
        "coverage": [metrics.coverage(truth, *ends[level]) for level in LEVELS],
        "interval_score_90": metrics.interval_score(truth, *ends[0.9], 0.9) / unit,
        "interval_score_95": metrics.interval_score(truth, *ends[0.95], 0.95) / unit,
        "rmse": metrics.rmse(truth, law.mean) / unit,
        "mean_sd": float(np.mean(law.std)) / unit,
    }
    if (truth > 0).all() and (law.mean > 0).all():
        found["log_rmse"] = float(np.sqrt(metrics.log_mse(truth, law.mean)))
    return found


def of_individuals(model: vbagg.VBAgg, bags: vbagg.Bags, bag_effect: str = "reporting") -> tuple[Any, str]:
    """Posterior of the individuals of training bags: given their own bags' totals, if the model can do that.

    `bag_effect` says whether a bag's own effect belongs to its individuals ("risk") where the model has that choice.
    """
    choice = {"bag_effect": bag_effect} if "bag_effect" in signature(model.posterior).parameters else {}
    try:
        return model.posterior(bags, **choice), "bags"
    except (TypeError, ValueError):
        return model.posterior(bags.X), "X"


def all_scores(model: vbagg.VBAgg, data: DataSet) -> dict[str, Any]:
    """Scores of individuals, bags, new individuals and new outputs."""
    unit = float(np.mean(np.abs(data.rate)))
    own, asked = of_individuals(model, data.bags)
    pit = np.clip(own.cdf(data.rate), 0, 1)
    trials = {} if data.new_trials is None else {"trials": data.new_trials}
    expected, totals = data.totals(), model.posterior_bags(data.bags)
    size = float(np.mean(np.abs(expected)))
    found = {
        "individuals": scores(data.rate, own, unit),
        "pit": np.histogram(pit, bins=10, range=(0, 1))[0].tolist(),
        "asked_by": asked,
        "bags": scores(expected, totals, size),
        "new_individuals": scores(data.new_rate, model.posterior(data.new_bags.X), unit),
        "new_outputs": scores(
            data.new_y, model.predictive_bags(data.new_bags, **trials), float(np.mean(np.abs(data.new_y)))
        ),
    }
    if data.case.effect:
        with_effect, _ = of_individuals(model, data.bags, "risk")
        found["individuals_with_bag_effect"] = scores(data.rate * data.effect[data.bags.bag], with_effect, unit)
        found["bags_with_bag_effect"] = scores(expected * data.effect, totals, size)
    return found


def learnt(model: vbagg.VBAgg) -> tuple[dict[str, np.ndarray], list[str]]:
    """Parameters of a fit by the names of `prior_class`, `tau` in the model's units, and names it does not know."""
    values: dict[str, list[float]] = {}
    unknown = []
    for row in model.parameters_.to_dict("records"):
        if row["part"] == "likelihood" and row["parameter"] in ("tau", "dispersion"):
            scale = model.rate_scale_**2 if row["parameter"] == "tau" else 1.0
            name, value = row["parameter"], row["value"] / scale
        elif row["part"] == "Linear":
            name, value = "linear", row["value"]
        elif row["part"] in KERNEL_NAMES:
            name, value = f"{KERNEL_NAMES[row['part']]}_{row['parameter']}", row["value"]
        else:
            unknown.append(f"{row['part']} {row['parameter']}")
            continue
        values.setdefault(name, []).append(value)
    return {name: np.array(value) for name, value in values.items()}, unknown


def laplace_evidence(model: vbagg.VBAgg) -> float:
    """Log density of the outputs at the parameters of a fit: mode of the weights and Gauss-Newton curvature there."""
    assert model._training is not None
    fit, chunks = model._training.fit, model._training.problem.chunks
    with jax.enable_x64(True):
        staged = Problem.here(model._fitted.spec, chunks, fit.parameters.landmarks, 2e9).at(fit.parameters, fit.jitter)
        value, _, precision = staged.gauss_newton(laplace_start(staged, [fit.q.mu]).mu)
    return value - 0.5 * float(np.linalg.slogdet(precision)[1])


def at_truth(
    model: vbagg.VBAgg, data: DataSet, options: dict[str, Any]
) -> tuple[vbagg.VBAgg, dict[str, float], list[str]]:
    """A fit with all parameters at the truth, its objectives minus those of `model`, and priors left out of that."""
    case, (parameters, likelihood) = data.case, data.in_units_of(model.rate_scale_)
    of_likelihood = {k: v / model.rate_scale_**2 if k == "tau" else v for k, v in likelihood.items()}
    kinds = {"negative_binomial": vbagg.likelihoods.NegativeBinomial, "normal": vbagg.likelihoods.Normal}
    known = kinds[case.likelihood](**likelihood) if likelihood else case.likelihood
    landmarks = [Z for Z in model.landmarks_ if Z is not None]
    other = vbagg.VBAgg(known, case.link, **{**options, "kernel": kernel(parameters), "landmarks": landmarks})
    data.fit(other)
    found, unknown = learnt(model)
    true = {**parameters, **of_likelihood}
    unmatched = [name for name in {**found, **true} if not (name in found and name in true)]
    own, best = ({k: v for k, v in values.items() if k not in unmatched} for values in (true, found))
    prior_gap = log_prior(case, own) - log_prior(case, best)
    gaps = {
        "objective_gap": other.elbo_ - model.elbo_ + prior_gap,
        "laplace_gap": laplace_evidence(other) - laplace_evidence(model) + prior_gap,
    }
    return other, gaps, unknown + unmatched


def inside_class(case: Case) -> bool:
    """Whether a kernel and a likelihood of vbagg can be fixed at the truth."""
    effects = case.effect or case.likelihood != "negative_binomial"
    return effects and (not case.cells or hasattr(vbagg.kernels, "White"))


@contextmanager
def residual_inside(share: float) -> Iterator[None]:
    """Let fits integrate a share of the residual inside the likelihood and keep the rest at its prior (power EP)."""
    from vbagg.models import setup

    make = setup.make_spec
    setup.make_spec = lambda *arguments: replace(make(*arguments), inside=share)  # type: ignore[assignment]
    try:
        yield
    finally:
        setup.make_spec = make  # type: ignore[assignment]


def one_row(case: Case, seed: int, hyper: str, quick: bool, options: dict[str, Any], truth: bool) -> dict[str, Any]:
    data = simulate(case, seed, **(QUICK if quick else {}))
    inside = options.get("inside", 1.0)
    options = {name: value for name, value in options.items() if name != "inside"}
    model = vbagg.VBAgg(case.likelihood, case.link, hyper=hyper, **options)
    with residual_inside(inside), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with timed() as fit:
            data.fit(model)
        with timed() as prediction:
            found = all_scores(model, data)
        asked = options | ({"inside": inside} if inside != 1.0 else {})
        row = {"case": case.name, "seed": seed, "hyper": hyper, "quick": quick, "model": asked, **found}
        row["fit"], row["prediction"] = vars(fit), vars(prediction)
        row["converged"], row["elbo"] = bool(model.status_.converged), float(model.elbo_)
        row["learnt"] = {name: value.tolist() for name, value in learnt(model)[0].items()}
        row["truth"] = {
            name: np.ravel(value).tolist() for name, value in data.in_units_of(model.rate_scale_)[0].items()
        }
        row["truth"] |= data.likelihood_parameters
        if truth and inside_class(case):
            other, gaps, unknown = at_truth(model, data, options)
            row |= gaps
            row["true_parameters"] = all_scores(other, data)
            if unknown:
                row["priors_left_out_of_gap"] = unknown
    return row


def flat(row: Any, name: str = "") -> dict[str, float]:
    """Numbers of a nested row by dotted names."""
    if isinstance(row, dict):
        items = row.items()
    elif isinstance(row, list):
        items = enumerate(row)
    else:
        return {name: float(row)} if isinstance(row, int | float) else {}
    return {k: v for key, value in items for k, v in flat(value, f"{name}.{key}" if name else str(key)).items()}


def summarise(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Mean, standard error and number of each score, by case, hyper and model."""
    groups: dict[str, list[dict[str, float]]] = {}
    for row in rows:
        name = " ".join([row["case"], row["hyper"], *(["quick"] if row["quick"] else [])])
        name += f" {json.dumps(row['model'])}" if row["model"] else ""
        groups.setdefault(name, []).append(flat(row))
    summary: dict[str, Any] = {}
    for name, members in groups.items():
        keys = [k for k in dict.fromkeys(k for m in members for k in m) if k not in ("seed", "quick")]
        summary[name] = {"sets": len(members)}
        for key in keys:
            values = np.array([m[key] for m in members if key in m])
            error = float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None
            summary[name][key] = [float(values.mean()), error]
    return summary


def table(summary: dict[str, Any]) -> str:
    """One line per case; coverage in percent, standard errors after the 95% ones."""
    lines = [f"{'case':34s} sets | " + " | ".join(SHOWN.values())]
    for name, values in summary.items():
        cells = []
        for key in SHOWN:
            if key == "individuals.coverage":
                means = [values[f"{key}.{k}"] for k in range(len(LEVELS))]
                cells.append(" ".join(f"{100 * m:.1f}" for m, _ in means) + f" ({100 * (means[-1][1] or 0):.1f})")
            elif key not in values:
                cells.append("-")
            elif ".coverage" in key:
                cells.append(f"{100 * values[key][0]:.1f} ({100 * (values[key][1] or 0):.1f})")
            else:
                cells.append(f"{values[key][0]:.3g} ({values[key][1] or 0:.2g})")
        lines.append(f"{name:34s} {values['sets']:4d} | " + " | ".join(cells))
    return "\n".join(lines)


def chosen_cases(asked: str) -> list[Case]:
    names = {"all": list(CASES), "main": MAIN}.get(asked) or asked.split(",")
    unknown = [name for name in names if name not in CASES]
    if unknown:
        raise SystemExit(f"--cases must be all, main or among {', '.join(CASES)}; got {', '.join(unknown)}.")
    return [CASES[name] for name in names]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default="main", help="all, main, or names after commas")
    parser.add_argument("--sets", type=int, default=30)
    parser.add_argument("--truth", type=int, default=10, help="sets of a case that are also fitted at true parameters")
    parser.add_argument("--hyper", default="point", choices=("point", "average"))
    parser.add_argument("--quick", action="store_true", help="2 sets of 15 bags of 5")
    parser.add_argument(
        "--model", default="{}", type=json.loads, help="further arguments of VBAgg, and `inside`, as JSON"
    )
    parser.add_argument("--out", default="benchmarks/results/calibration.json")
    options = parser.parse_args()
    path = Path(options.out)
    rows = json.loads(path.read_text())["rows"] if path.exists() else []
    done = {(r["case"], r["seed"], r["hyper"], r["quick"], json.dumps(r["model"])) for r in rows}
    print(vbagg.__version__, flush=True)
    cases = chosen_cases(options.cases)
    for case in cases:
        if changed := check_priors(case):
            print(f"{case.name}: the default priors of vbagg differ from those of the data sets: {', '.join(changed)}")
    for case in cases:
        jax.clear_caches()  # compiled functions of fixed parameters pile up
        for seed in range(2 if options.quick else options.sets):
            if (case.name, seed, options.hyper, options.quick, json.dumps(options.model)) in done:
                continue
            rows.append(one_row(case, seed, options.hyper, options.quick, options.model, seed < options.truth))
            row = rows[-1]
            content = {"levels": LEVELS, "vbagg": vbagg.__version__, "machine": machine(), "summary": summarise(rows)}
            write_json(path, {**content, "rows": rows})
            inside = " ".join(f"{100 * c:.0f}" for c in row["individuals"]["coverage"])
            print(
                f"{case.name} {seed}: individuals {inside}, fit {row['fit']['cpu']:.1f} CPU s,"
                f" gap {row.get('objective_gap', np.nan):.1f}{'' if row['converged'] else ', not converged'}",
                flush=True,
            )
    print(table(summarise(rows)))


if __name__ == "__main__":
    main()
