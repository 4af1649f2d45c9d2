"""Data sets drawn from the model's own prior class, for `calibration.py` and `nuts.py`.

`f` = linear + ARD RBF on two covariates + Matern 3/2 on coordinates, its parameters drawn from the default priors,
which are written out here so that data sets stay the same when vbagg changes (`check_priors` tells when they differ).
Columns are in the standard units of the training bags, and `f` is drawn by a dense Cholesky factor over all
individuals, training and new. The constant of `f` is set by the case's level.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from inspect import signature
from typing import Any

import numpy as np
import pandas as pd

import vbagg

COVARIATES, COORDINATES = slice(0, 2), slice(2, 4)
TYPICAL_VARIANCE = {"exp": 0.3, "square": 0.1, "logistic": 1.0, "identity": 1.0}
LIKELIHOOD_PRIORS = {"dispersion": (0.3, 1.5), "tau": (1.0, 3.0)}
CELL_SD = 0.3
PREVALENCE = 0.2
NORMAL_UNIT, NORMAL_MEAN = 2.0, 5.0
Parameters = dict[str, np.ndarray]


@dataclass(frozen=True)
class Case:
    """A likelihood, a link and how much the totals say.

    `level` is the mean expected total of a training bag; of the binomial the mean number of trials; of the Normal the
    inverse noise variance of a typical bag mean, in squared units of the spread of bag means. `effect` gives each bag
    of the negative binomial its gamma effect, `cells` each individual a white-noise term of f.
    """

    likelihood: str
    link: str
    level: float
    effect: bool = False
    cells: bool = False

    @property
    def name(self) -> str:
        """Likelihood, link, level, and what is unusual."""
        short = {"negative_binomial": "nb"}.get(self.likelihood, self.likelihood)
        odd = "-no-effect" if self.likelihood == "negative_binomial" and not self.effect else ""
        power = f"1e{np.log10(self.level):.0f}"
        return f"{short}-{self.link}-{power}{odd}{'-cells' if self.cells else ''}"


def _cases() -> dict[str, Case]:
    levels = (1e2, 1e4, 1e5)
    pairs = (("poisson", "exp"), ("poisson", "square"), ("negative_binomial", "exp"))
    others = (("normal", "identity"), ("binomial", "logistic"))
    cases = [Case(a, b, level, a == "negative_binomial") for level in levels for a, b in (*pairs, *others)]
    cases.append(Case("exponential", "exp", 1e2))  # its level is a unit only
    for level in levels[:2]:
        cases.append(Case("negative_binomial", "exp", level, effect=False))
        cases += [
            Case(a, b, level, a == "negative_binomial", cells=True) for a, b in (*pairs, ("binomial", "logistic"))
        ]
    return {case.name: case for case in cases}


CASES = _cases()


@dataclass(frozen=True)
class DataSet:
    """Training bags and new bags of one draw, and the truth about them; `trials` is None but for the binomial."""

    case: Case
    bags: vbagg.Bags
    y: np.ndarray
    trials: np.ndarray | None
    rate: np.ndarray
    latent: np.ndarray
    effect: np.ndarray
    new_bags: vbagg.Bags
    new_y: np.ndarray
    new_trials: np.ndarray | None
    new_rate: np.ndarray
    parameters: Parameters
    unit: float
    """What one unit of `f` is in the data's units: of the rate (identity), of its root (square), else 1."""
    likelihood_parameters: dict[str, float] = field(default_factory=dict)

    def fit(self, model: vbagg.VBAgg) -> vbagg.VBAgg:
        """Fit to the training bags."""
        return model.fit(self.bags, self.y, **({} if self.trials is None else {"trials": self.trials}))

    def totals(self) -> np.ndarray:
        """Expected totals of the training bags, mean probabilities for the binomial."""
        return totals(self.bags, self.rate, self.case.link)

    def in_units_of(self, rate_scale: float) -> tuple[Parameters, dict[str, float]]:
        """True parameters in the units of a model with this `rate_scale_`; `tau` in those of the data."""
        own = {"identity": rate_scale, "square": np.sqrt(rate_scale)}.get(self.case.link, 1.0)
        ratio = (self.unit / own) ** 2
        scaled = {k: v * ratio if "variance" in k or k == "linear" else v for k, v in self.parameters.items()}
        if self.case.cells:
            scaled["white_variance"] = np.array([CELL_SD**2 * ratio])
        return scaled, self.likelihood_parameters


def priors(link: str) -> dict[str, tuple[float, float, int]]:
    """Median, sd of the logarithm and number of values of each kernel parameter, two columns per component."""
    typical = TYPICAL_VARIANCE[link]
    return {
        "linear": (typical / 3, 1.5, 2),
        "rbf_variance": (typical, 1.0, 1),
        "rbf_lengthscale": (2.0, 1.0, 2),  # sqrt(2 d) standardised columns
        "matern_variance": (typical, 1.0, 1),
        "matern_lengthscale": (0.6, 1.0, 1),
    }


def priors_of_vbagg(case: Case) -> dict[str, Any]:
    """The default priors of the vbagg at hand."""
    from vbagg.priors import default_priors

    asked = len(signature(default_priors).parameters)
    return default_priors(case.link) if asked == 1 else default_priors(case.likelihood, case.link)


def check_priors(case: Case) -> list[str]:
    """Names of vbagg's default priors that are no longer those of this file."""
    now, typical = priors_of_vbagg(case), TYPICAL_VARIANCE[case.link]
    here = {"variance": (typical, 1.0), "linear": (typical / 3, 1.5), "lengthscale": (1.0, 1.0)}
    here |= {name: prior for name, prior in LIKELIHOOD_PRIORS.items() if name in now}
    return [name for name, prior in here.items() if name not in now or (now[name].median, now[name].log_sd) != prior]


def log_prior(case: Case, parameters: dict[str, Any]) -> float:
    """Log density of the logarithms of kernel and likelihood parameters, `tau` in squared units of bag means."""
    table: dict[str, tuple] = {**priors(case.link), **LIKELIHOOD_PRIORS}
    if (white := priors_of_vbagg(case).get("white")) is not None:
        table["white_variance"] = (white.median, white.log_sd)
    total = 0.0
    for name, value in parameters.items():
        median, sd = table[name][:2]
        z = np.log(np.asarray(value) / median) / sd
        total += float(np.sum(-0.5 * z**2 - np.log(sd * np.sqrt(2 * np.pi))))
    return total


def covariance(p: dict[str, Any], X: Any, xp: Any = np) -> Any:
    """Kernel matrix of rows in standard units; `xp` is numpy or jax.numpy."""
    C, S = X[:, COVARIATES], X[:, COORDINATES]

    def squares(Z: Any) -> Any:
        return xp.sum((Z[:, None, :] - Z[None, :, :]) ** 2, axis=-1)

    near = xp.exp(-0.5 * squares(C / p["rbf_lengthscale"]))
    a = np.sqrt(3.0) * xp.sqrt(squares(S) + 1e-18) / p["matern_lengthscale"]
    return (C * p["linear"]) @ C.T + p["rbf_variance"] * near + p["matern_variance"] * (1 + a) * xp.exp(-a)


def kernel(p: Parameters) -> vbagg.kernels.Kernel:
    """The same as a kernel of vbagg, fixed at these parameters."""
    k, columns = vbagg.kernels, ("height", "wealth")
    fixed = ("variance", "lengthscale")
    smooth = (
        k.Linear(columns, variance=tuple(p["linear"]), fixed=("variance",))
        + k.RBF(
            columns,
            ard=True,
            variance=float(p["rbf_variance"][0]),
            lengthscale=tuple(p["rbf_lengthscale"]),
            fixed=fixed,
        )
        + k.Matern32(
            ("x", "y"),
            variance=float(p["matern_variance"][0]),
            lengthscale=float(p["matern_lengthscale"][0]),
            fixed=fixed,
        )
    )
    if "white_variance" not in p:
        return smooth
    return smooth + k.White(variance=float(p["white_variance"][0]), fixed=("variance",))


def simulate(case: Case, seed: int, n_bags: int = 60, size: int = 10, n_new: int = 30) -> DataSet:
    """One data set; the same seed gives the same individuals and kernel parameters in every case of a link."""
    rng = np.random.default_rng(seed)
    bags, new_bags = (_design(rng, n, size, label) for n, label in ((n_bags, "bag"), (n_new, "new")))
    X = standard_units(bags, np.vstack([bags.X, new_bags.X]))
    while True:
        parameters = {name: _draw(rng, *prior) for name, prior in priors(case.link).items()}
        K = covariance(parameters, X)
        g = np.linalg.cholesky(K + 1e-8 * np.mean(np.diag(K)) * np.eye(len(K))) @ rng.standard_normal(len(K))
        if case.cells:
            g += CELL_SD * rng.standard_normal(len(g))
        found = _rates(case, bags, g)
        if found is not None:
            break
    rate, latent, unit = found
    old, new = slice(0, bags.n_individuals), slice(bags.n_individuals, None)
    learnt = {}
    if case.effect:
        learnt["dispersion"] = float(_draw(rng, *LIKELIHOOD_PRIORS["dispersion"], 1)[0])
    if case.likelihood == "normal":
        n_eff = np.mean(bags.totals() ** 2 / bags.weight_squares())
        learnt["tau"] = float(n_eff / case.level * unit**2)
    y, trials, effect = _outputs(rng, case, bags, rate[old], learnt)
    new_y, new_trials, _ = _outputs(rng, case, new_bags, rate[new], learnt)
    return DataSet(
        case,
        bags,
        y,
        trials,
        rate[old],
        latent[old],
        effect,
        new_bags,
        new_y,
        new_trials,
        rate[new],
        parameters,
        unit,
        learnt,
    )


def standard_units(bags: vbagg.Bags, X: np.ndarray) -> np.ndarray:
    """Rows in the units of the training bags: each bag counts once, coordinates share a scale."""
    share = bags.weight / bags.totals()[bags.bag] / len(bags)
    centre = share @ bags.X
    spread = share @ (bags.X - centre) ** 2
    spread[COORDINATES] = spread[COORDINATES].mean()
    return (X - centre) / np.sqrt(spread)


def totals(bags: vbagg.Bags, rate: np.ndarray, link: str) -> np.ndarray:
    """Weighted sums over bags, weighted means for the logistic link."""
    sums = bags.sum_by_bag(bags.weight * rate)
    return sums / bags.totals() if link == "logistic" else sums


def _design(rng: np.random.Generator, n_bags: int, size: int, label: str) -> vbagg.Bags:
    """Patches of a 30 x 20 plane; covariates vary within and between bags; unequal weights."""
    bag = np.repeat(np.arange(n_bags), size)
    place = rng.uniform((0, 0), (30, 20), (n_bags, 2))[bag] + rng.normal(0, 1.2, (len(bag), 2))
    height = 0.6 * rng.standard_normal(n_bags)[bag] + 0.8 * rng.standard_normal(len(bag))
    wealth = 3 + 2 * (0.5 * np.sin(place[:, 0] / 5) + 0.85 * rng.standard_normal(len(bag)))
    X = pd.DataFrame({"height": height, "wealth": wealth, "x": place[:, 0], "y": place[:, 1]})
    return vbagg.Bags(X, [f"{label} {i:03d}" for i in bag], 50 * np.exp(0.6 * rng.standard_normal(len(bag))))


def _draw(rng: np.random.Generator, median: float, log_sd: float, n: int) -> np.ndarray:
    return median * np.exp(log_sd * rng.standard_normal(n))


def _rates(case: Case, bags: vbagg.Bags, g: np.ndarray) -> tuple[np.ndarray, np.ndarray, float] | None:
    """Rates, `f` and its unit such that the overall rate of the training bags is that of the case.

    None where that is impossible (square), or (identity) where bag means vary by another unit than the priors mean.
    """
    own, weight = g[: bags.n_individuals], bags.weight / bags.weight.sum()
    scale = case.level * len(bags) / bags.weight.sum()
    if case.link == "exp":
        f = g - np.log(weight @ np.exp(own))
        return scale * np.exp(f), f, 1.0
    if case.link == "square":
        left = 1 - (weight @ own**2 - (weight @ own) ** 2)
        if left < 0.05:
            return None
        f = g - weight @ own + np.sqrt(left)
        return scale * f**2, f, float(np.sqrt(scale))
    if case.link == "logistic":
        low, high = -20.0, 20.0
        for _ in range(60):
            c = (low + high) / 2
            p = totals(bags, 1 / (1 + np.exp(-(c + own))), case.link).mean()
            low, high = (c, high) if p < PREVALENCE else (low, c)
        return 1 / (1 + np.exp(-(c + g))), c + g, 1.0
    means = bags.sum_by_bag(bags.weight * own) / bags.totals()
    if not 2 / 3 < means.std() < 3 / 2:
        return None
    f = g - weight @ own
    return NORMAL_MEAN + NORMAL_UNIT * f, f, NORMAL_UNIT


def _outputs(
    rng: np.random.Generator, case: Case, bags: vbagg.Bags, rate: np.ndarray, learnt: dict[str, float]
) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
    """Outputs, trials and bag effects."""
    T, effect = totals(bags, rate, case.link), np.ones(len(bags))
    if case.likelihood == "normal":
        return rng.normal(T, np.sqrt(learnt["tau"] * bags.weight_squares())), None, effect
    if case.likelihood == "exponential":
        return rng.exponential(T), None, effect
    if case.likelihood == "binomial":
        trials = np.maximum(np.round(case.level * np.exp(0.4 * rng.standard_normal(len(bags)) - 0.08)), 1)
        return rng.binomial(trials.astype(int), T).astype(float), trials, effect
    if case.effect:
        effect = rng.gamma(1 / learnt["dispersion"], learnt["dispersion"], len(bags))
    return rng.poisson(T * effect).astype(float), None, effect
