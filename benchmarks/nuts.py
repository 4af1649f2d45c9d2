"""Full Bayes beside the variational posterior: NUTS on small problems of the calibration classes.

    python benchmarks/nuts.py [--cases name,...] [--seeds 1] [--bags 25] [--size 5] [--draws 1000] [--warmup 700]
                              [--again] [--out benchmarks/results/nuts.json]

Needs numpyro (`pip install numpyro`). The exact model: a dense f over all individuals, the individual effect included,
kernel parameters with vbagg's default priors, the likelihood of bag totals as it is; two chains. Beside it `VBAgg` with
its defaults and with landmarks at all individuals, parameters at their best and averaged. Compared are draws of the
latent value of each individual (logarithm, logit or root of its rate): difference of means in sds of NUTS, ratio of sds
(VBAgg / NUTS), and how often central intervals hold the truth. Means and sds of NUTS are kept; a row that is there is
not computed again, or with `--again` only its fits of VBAgg are.
"""

from __future__ import annotations

import argparse
import json
import warnings
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from calibration import LEVELS, learnt, of_individuals
from common import machine, timed, write_json
from numpyro.diagnostics import summary
from numpyro.infer import MCMC, NUTS, init_to_median
from prior_class import CASES, LIKELIHOOD_PRIORS, DataSet, covariance, priors, priors_of_vbagg, simulate, standard_units

import vbagg

MAIN = "poisson-exp-1e2,poisson-square-1e2,nb-exp-1e2,normal-identity-1e2,binomial-logistic-1e2"
MEAN_SD = {"identity": 3.0, "exp": 3.0, "square": 1.0, "logistic": 3.0}
LATENT = {"exp": np.log, "square": np.sqrt, "identity": np.asarray, "logistic": lambda p: np.log(p / (1 - p))}
RATE = {"exp": jnp.exp, "square": jnp.square, "identity": lambda f: f, "logistic": jax.nn.sigmoid}
JITTER = 1e-6


def units(data: DataSet) -> tuple[float, float]:
    """Overall rate and the known part of the mean of f, as vbagg takes them."""
    total, y = data.bags.totals(), data.y
    if data.case.link == "logistic":
        assert data.trials is not None
        p = (y.sum() + 0.5) / (data.trials.sum() + 1)
        return 1.0, float(np.log(p / (1 - p)))
    if data.case.link == "identity":
        rate = total @ y / (total @ total)
        scale = float(np.sqrt(np.mean((y / total - rate) ** 2)))
        return scale, float(rate / scale)
    return float(y.sum() / total.sum()), 1.0 if data.case.link == "square" else 0.0


@dataclass(frozen=True, eq=False)
class Exact:
    """The model that NUTS samples: parameters and f over all individuals."""

    data: DataSet

    @cached_property
    def arrays(self) -> dict[str, Any]:
        """Rows in standard units, a matrix that adds up bags, outputs and what is known of each bag."""
        bags, (scale, base) = self.data.bags, units(self.data)
        weight = bags.weight / bags.totals()[bags.bag] if self.data.case.link == "logistic" else bags.weight
        found = {
            "X": standard_units(bags, bags.X),
            "collect": np.eye(len(bags))[bags.bag].T * weight,
            "squares": bags.weight_squares(),
            "trials": np.ones(len(bags)) if self.data.trials is None else self.data.trials,
            "y": self.data.y,
        }
        return {"scale": scale, "base": base, **{name: jnp.asarray(value) for name, value in found.items()}}

    @property
    def names(self) -> dict[str, tuple[float, float, int]]:
        """Prior of each parameter: median, sd of the logarithm, number of values."""
        case, found = self.data.case, priors(self.data.case.link)
        if vbagg.likelihoods.get_likelihood(case.likelihood).individual_effect:
            white = priors_of_vbagg(case)["white"]
            found |= {"white_variance": (white.median, white.log_sd, 1)}
        own = {"negative_binomial": "dispersion", "normal": "tau"}.get(case.likelihood)
        return found | ({} if own is None else {own: (*LIKELIHOOD_PRIORS[own], 1)})

    def covariance(self, p: dict[str, Any]) -> Any:
        """Covariance of f, its unknown constant included."""
        K = covariance(p, self.arrays["X"], jnp)
        if "white_variance" in p:
            K = K + p["white_variance"][0] * jnp.eye(len(K))
        return K + JITTER * jnp.mean(jnp.diag(K)) * jnp.eye(len(K)) + MEAN_SD[self.data.case.link] ** 2

    def rate(self, f: Any) -> Any:
        """Rates in the data's units."""
        return self.arrays["scale"] * RATE[self.data.case.link](f)

    def variance(self, T: Any, p: dict[str, Any]) -> Any:
        """Variance of an output, of a share for the binomial."""
        arrays = self.arrays
        return {
            "poisson": lambda: T,
            "negative_binomial": lambda: T + p["dispersion"][0] * T**2,
            "normal": lambda: arrays["scale"] ** 2 * p["tau"][0] * arrays["squares"],
            "binomial": lambda: T * (1 - T) / arrays["trials"],
            "exponential": lambda: T**2,
        }[self.data.case.likelihood]()

    def law(self, T: Any, p: dict[str, Any]) -> Any:
        """Law of the outputs."""
        return {
            "poisson": lambda: dist.Poisson(T),
            "negative_binomial": lambda: dist.NegativeBinomial2(T, 1 / p["dispersion"][0]),
            "normal": lambda: dist.Normal(T, jnp.sqrt(self.variance(T, p))),
            "binomial": lambda: dist.BinomialProbs(T, self.arrays["trials"].astype(int)),
            "exponential": lambda: dist.Exponential(1 / T),
        }[self.data.case.likelihood]()

    def linearised(self, p: dict[str, np.ndarray]) -> tuple[Any, Any, Any]:
        """Gaussian outputs `t = J f + noise` that stand for the real ones near the mode at these parameters."""
        K, n = self.covariance({name: jnp.asarray(value) for name, value in p.items()}), len(self.arrays["X"])
        y = self.arrays["y"] / (self.arrays["trials"] if self.data.case.likelihood == "binomial" else 1.0)

        def totals(f: Any) -> Any:
            return self.arrays["collect"] @ self.rate(f)

        jacobian, base = jax.jit(jax.jacfwd(totals)), self.arrays["base"]
        f = jnp.full(n, base)
        for _ in range(60):
            T, J = totals(f), jacobian(f)
            t, noise = y - T + J @ f, self.variance(T, p)
            gain = jnp.linalg.solve(J @ K @ J.T + jnp.diag(noise), t - J @ jnp.full(n, base))
            f = f + 0.3 * (base + K @ J.T @ gain - f)
        return t, J, noise

    def model(self, t: Any, J: Any, noise: Any) -> Any:
        """The numpyro model in coordinates that are nearly standard Normal.

        `f` is drawn given `t` (a prior draw, corrected); the factors `p(t | parameters) / p(t | f)` make the joint
        density that of the exact model, whatever `t` is.
        """
        base = self.arrays["base"]

        def tell() -> None:
            p = {}
            for name, (median, log_sd, n) in self.names.items():
                z = numpyro.sample(f"z_{name}", dist.Normal(jnp.zeros(n), 1.0).to_event(1))
                p[name] = numpyro.deterministic(name, median * jnp.exp(log_sd * z))
            z = numpyro.sample("z", dist.Normal(jnp.zeros(J.shape[1]), 1.0).to_event(1))
            own = numpyro.sample("z_noise", dist.Normal(jnp.zeros(len(t)), 1.0).to_event(1))
            K = self.covariance(p)
            f = base + jnp.linalg.cholesky(K) @ z
            L = jnp.linalg.cholesky(J @ K @ J.T + jnp.diag(noise))
            error = t - J @ f - jnp.sqrt(noise) * own
            f = f + K @ (J.T @ jax.scipy.linalg.cho_solve((L, True), error))
            start = jnp.full(J.shape[1], base)
            numpyro.factor("evidence", dist.MultivariateNormal(J @ start, scale_tril=L).log_prob(t))
            numpyro.factor("correction", -dist.Normal(J @ f, jnp.sqrt(noise)).log_prob(t).sum())
            rate = numpyro.deterministic("rate", self.rate(f))
            numpyro.sample("y", self.law(self.arrays["collect"] @ rate, p), obs=self.arrays["y"])

        return tell


def describe(draws: np.ndarray, truth: np.ndarray) -> dict[str, Any]:
    """Mean, sd and coverage of draws (s, n) of latent values."""
    tails = [0.5 + sign * level / 2 for level in LEVELS for sign in (-1, 1)]
    ends = np.quantile(draws, tails, axis=0).reshape(len(LEVELS), 2, -1)
    inside = ((ends[:, 0] <= truth) & (truth <= ends[:, 1])).mean(axis=1)
    return {"mean": draws.mean(axis=0), "sd": draws.std(axis=0), "coverage": inside.tolist()}


def sampled(data: DataSet, draws: int, warmup: int, truth: np.ndarray) -> tuple[dict[str, Any], dict[str, Any]]:
    """Latent values by NUTS, and what to tell of the run.

    Its coordinates come from the outputs linearised at the parameters that VBAgg finds.
    """
    exact, guess = Exact(data), vbagg.VBAgg(data.case.likelihood, data.case.link)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data.fit(guess)
    around = {name: value for name, value in learnt(guess)[0].items() if name in exact.names}
    model = exact.model(*exact.linearised(around))
    kernel = NUTS(model, target_accept_prob=0.9, init_strategy=init_to_median)
    chains = MCMC(
        kernel, num_warmup=warmup, num_samples=draws, num_chains=2, chain_method="sequential", progress_bar=False
    )
    with timed() as clock:
        chains.run(jax.random.PRNGKey(0), extra_fields=("num_steps", "diverging"))
        found = {name: np.asarray(value) for name, value in chains.get_samples(group_by_chain=True).items()}
    rate = found["rate"].clip(1e-300) if data.case.link != "identity" else found["rate"]
    latent = LATENT[data.case.link](rate)
    health, extra = summary({"f": latent}, group_by_chain=True)["f"], chains.get_extra_fields()
    values = describe(latent.reshape(-1, latent.shape[-1]), truth)
    logs = {name: np.log(found[name]).reshape(-1, found[name].shape[-1]) for name in exact.names}
    return values, {
        "seconds": vars(clock),
        "ess_f_10_50": np.quantile(health["n_eff"], [0.1, 0.5]).tolist(),
        "share_of_f_with_ess_400": float(np.mean(health["n_eff"] > 400)),
        "r_hat_f_max": float(health["r_hat"].max()),
        "divergences": int(extra["diverging"].sum()),
        "steps_per_draw": float(extra["num_steps"].mean()),
        "log_parameters": {k: [v.mean(axis=0).tolist(), v.std(axis=0).tolist()] for k, v in logs.items()},
        "coverage": values["coverage"],
        "mean_sd": float(values["sd"].mean()),
        "rmse": float(np.sqrt(np.mean((values["mean"] - truth) ** 2))),
    }


def compared(data: DataSet, options: dict[str, Any], exact: dict[str, Any], truth: np.ndarray) -> dict[str, Any]:
    """A fit of VBAgg beside NUTS."""
    model = vbagg.VBAgg(data.case.likelihood, data.case.link, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with timed() as clock:
            data.fit(model)
        posterior, asked = of_individuals(model, data.bags)
        draws = LATENT[data.case.link](posterior.sample(4000))
    own = describe(draws, truth)
    shift, ratio = (own["mean"] - exact["mean"]) / exact["sd"], own["sd"] / exact["sd"]
    return {
        "asked_by": asked,
        "coverage": own["coverage"],
        "shift_median_abs": float(np.median(np.abs(shift))),
        "shift_90_abs": float(np.quantile(np.abs(shift), 0.9)),
        "shift_mean": float(shift.mean()),
        "sd_ratio_10_50_90": np.quantile(ratio, [0.1, 0.5, 0.9]).tolist(),
        "mean_sd": float(own["sd"].mean()),
        "rmse": float(np.sqrt(np.mean((own["mean"] - truth) ** 2))),
        "log_parameters": {name: np.log(value).tolist() for name, value in learnt(model)[0].items()},
        "fit": vars(clock),
    }


def one_row(case: str, seed: int, options: argparse.Namespace, before: dict[str, Any] | None) -> dict[str, Any]:
    """A problem; where it was sampled `before`, only the fits of VBAgg are made."""
    data = simulate(CASES[case], seed, options.bags, options.size, 2)
    truth = LATENT[data.case.link](data.rate)
    if before is None:
        exact, told = sampled(data, options.draws, options.warmup, truth)
        told |= {name: exact[name].tolist() for name in ("mean", "sd")}
    else:
        told = before["nuts"]
        exact = {name: np.array(told[name]) for name in ("mean", "sd")}
    all_rows = [data.bags.X[:, 0:2], data.bags.X[:, 2:4]]
    row = {"case": case, "seed": seed, "bags": options.bags, "size": options.size, "nuts": told, "vbagg": {}}
    for name, landmarks in (("default", None), ("all", all_rows)):
        for hyper in ("point", "average"):
            chosen = {"landmarks": landmarks, "hyper": hyper}
            row["vbagg"][f"{name} {hyper}"] = compared(data, chosen, exact, truth)
    return row


def table(rows: list[dict[str, Any]]) -> str:
    """One line per problem and method."""
    lines = [f"{'case':24s} seed {'method':16s} |shift| med 90%  sd ratio 10 50 90    50 80 90 95    rmse"]
    for row in rows:
        for name, s in {"nuts": row["nuts"], **row["vbagg"]}.items():
            inside = " ".join(f"{100 * c:.0f}" for c in s["coverage"])
            beside = " " * 34
            if name != "nuts":
                ratio = " ".join(f"{r:.2f}" for r in s["sd_ratio_10_50_90"])
                beside = f"{s['shift_median_abs']:9.2f} {s['shift_90_abs']:5.2f}     {ratio:14s}"
            lines.append(f"{row['case']:24s} {row['seed']:4d} {name:16s}{beside}  {inside:14s} {s['rmse']:.3f}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default=MAIN)
    parser.add_argument("--seeds", default="1")
    parser.add_argument("--bags", type=int, default=25)
    parser.add_argument("--size", type=int, default=5)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--warmup", type=int, default=700)
    parser.add_argument("--again", action="store_true", help="fit VBAgg again beside draws that are there")
    parser.add_argument("--out", default="benchmarks/results/nuts.json")
    options = parser.parse_args()
    numpyro.enable_x64()
    path = Path(options.out)
    rows = json.loads(path.read_text())["rows"] if path.exists() else []
    done = {(row["case"], row["seed"], row["bags"], row["size"]): at for at, row in enumerate(rows)}
    print(vbagg.__version__, flush=True)
    for case in options.cases.split(","):
        for seed in map(int, options.seeds.split(",")):
            at = done.get((case, seed, options.bags, options.size))
            if at is not None and not options.again:
                continue
            row = one_row(case, seed, options, None if at is None else rows[at])
            if at is None:
                rows.append(row)
            else:
                rows[at] = row
            content = {
                "levels": LEVELS,
                "vbagg": vbagg.__version__,
                "numpyro": numpyro.__version__,
                "machine": machine(),
            }
            write_json(path, {**content, "rows": rows})
            told = {k: v for k, v in row["nuts"].items() if k not in ("log_parameters", "coverage", "mean", "sd")}
            print(case, seed, told, flush=True)
    print(table(rows))


if __name__ == "__main__":
    main()
