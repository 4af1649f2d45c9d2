"""What a user would pick instead of vbagg, and how its settings are chosen: by the totals of held-out bags alone.

A method learns from the bags and totals of one task and gives the rates of the individuals of another. Methods on bag
means take a bag for a point: mean covariates and coordinates, and its rate (its logarithm for counts); the relation is
then applied to individuals. With the aggregate loss the function is of individuals and its sums are fitted to totals.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from peers_boosting import STAGES, aggregate_boosting
from peers_data import Task
from peers_places import area_weighted, kriging, pycnophylactic
from peers_scores import Prediction

import vbagg

Settings = dict[str, Any]
DRAWS = 300
NETWORKS = 3


@dataclass(frozen=True)
class Method:
    """`predict(known, asked, settings)`: rates of the individuals of `asked`, learnt from the totals of `known`."""

    predict: Callable[[Task, Task, Settings], Prediction]
    grid: tuple[Settings, ...] = ({},)
    package: str | None = None
    needs_places: bool = False


def grid(**values: tuple[Any, ...]) -> tuple[Settings, ...]:
    """All combinations."""
    return tuple(dict(zip(values, combination, strict=True)) for combination in product(*values.values()))


def folds(n_bags: int) -> Iterator[np.ndarray]:
    """Masks of held-out bags: five parts of all, three of more than 300."""
    part = np.random.default_rng(0).permutation(n_bags) % (5 if n_bags <= 300 else 3)
    for k in range(part.max() + 1):
        yield part == k


def held_out_loss(task: Task, rate: np.ndarray) -> np.ndarray:
    """Squared error of the rate of each bag that individuals' rates add up to; of its logarithm for counts."""
    bags, total = task.bags, task.bags.sum_by_bag(task.bags.weight * rate)
    if task.counts:
        return (np.log(task.y + 0.5) - np.log(np.clip(total, 0, None) + 0.5)) ** 2
    return ((task.y - total) / bags.totals()) ** 2


def tuned(method: Method, task: Task) -> Settings:
    """Settings with the least mean loss over held-out bags."""
    if len(method.grid) == 1:
        return method.grid[0]
    losses = np.zeros(len(method.grid))
    for held_out in folds(len(task.bags)):
        known, asked = task.part(~held_out), task.part(held_out)
        for k, settings in enumerate(method.grid):
            losses[k] += held_out_loss(asked, method.predict(known, asked, settings).rate).sum()
    return method.grid[int(np.argmin(losses))]


def target(task: Task) -> tuple[np.ndarray, np.ndarray]:
    """Rate of each bag as it is regressed, its logarithm for counts, and the variance of the noise of counts in it."""
    if not task.counts:
        return task.bag_rate, np.zeros(len(task.y))
    return np.log((task.y + 0.5) / task.bags.totals()), 1 / (task.y + 0.5)


def back(task: Task, values: np.ndarray) -> np.ndarray:
    return np.exp(values) if task.counts else values


def standard(known: Task, asked: Task, coordinates: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Means of the known bags and rows of the asked individuals, in units of the spread between known bags."""
    used = [j for j in range(known.bags.n_features) if coordinates or j not in known.bags.coordinates]
    means = known.bag_means[:, used]
    centre, scale = means.mean(axis=0), means.std(axis=0)
    scale[scale == 0] = 1.0
    return (means - centre) / scale, (asked.bags.X[:, used] - centre) / scale


def constant(known: Task, asked: Task, settings: Settings) -> Prediction:
    """The overall rate; rescaled, the rate of the bag."""
    return Prediction(np.full(asked.bags.n_individuals, known.y.sum() / known.bags.totals().sum()))


def regression(known: Task, asked: Task, settings: Settings) -> Prediction:
    """Ridge regression of (log) rates, or a Poisson regression with exposure, on bag means."""
    from sklearn.linear_model import PoissonRegressor, Ridge

    X, rows = standard(known, asked, settings["coordinates"])
    value, noise = target(known)
    if settings["family"] == "poisson" and known.counts:
        exposure, overall = known.bags.totals(), known.y.sum() / known.bags.totals().sum()
        model = PoissonRegressor(alpha=settings["ridge"] / len(X), max_iter=1000)
        model.fit(X, known.bag_rate / overall, sample_weight=exposure / exposure.mean())
        return Prediction(overall * model.predict(np.clip(rows, -20, 20)))
    model = Ridge(alpha=settings["ridge"]).fit(X, value, sample_weight=1 / (1 + 10 * noise))
    return Prediction(back(known, model.predict(rows)))


def of_trees(make: Callable[[Settings], Any]) -> Callable[[Task, Task, Settings], Prediction]:
    """Trees of scikit-learn on bag means."""

    def predict(known: Task, asked: Task, settings: Settings) -> Prediction:
        X, rows = standard(known, asked)
        value, noise = target(known)
        model = make(settings).fit(X, value, sample_weight=1 / (1 + 10 * noise))
        return Prediction(back(known, model.predict(rows)))

    return predict


def forest(settings: Settings) -> Any:
    from sklearn.ensemble import RandomForestRegressor

    return RandomForestRegressor(200, random_state=0, n_jobs=1, **settings)


def boosting(settings: Settings) -> Any:
    from sklearn.ensemble import GradientBoostingRegressor

    return GradientBoostingRegressor(learning_rate=0.05, subsample=0.7, random_state=0, **settings)


def gaussian_process(known: Task, asked: Task, settings: Settings) -> Prediction:
    """Process on bag means, parameters by marginal likelihood; the noise of counts is known, other noise learnt."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, DotProduct, Matern, WhiteKernel
    from sklearn.gaussian_process.kernels import ConstantKernel as Size

    X, rows = standard(known, asked)
    value, noise = target(known)
    centre, scale = value.mean(), value.std()
    many = np.full(X.shape[1], 2.0) if settings["ard"] else 2.0
    shape = RBF(many, (0.1, 1e3)) if settings["shape"] == "rbf" else Matern(many, (0.1, 1e3), nu=1.5)
    kernel = Size(1.0, (1e-3, 1e3)) * shape + WhiteKernel(0.1, (1e-4, 10))
    if settings["linear"]:
        kernel += Size(0.1, (1e-4, 1e2)) * DotProduct(1.0, "fixed")
    model = GaussianProcessRegressor(kernel, alpha=1e-8 + noise / scale**2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, (value - centre) / scale)
    mean, sd = model.predict(rows, return_std=True)
    normal = np.random.default_rng(0).standard_normal((DRAWS, len(rows)))
    draws = back(known, centre + scale * (mean + sd * normal))
    return Prediction(back(known, centre + scale * mean), asked.observed(draws))


def network(known: Task, asked: Task, settings: Settings) -> Prediction:
    """One hidden layer with the aggregate loss, stopped by a tenth of the bags; the mean of a few such networks.

    A single one depends on its start: from 32 boroughs its R2 of burglary varies by 0.1 between seeds.
    """
    link = "exp" if known.counts else "identity"
    adam = vbagg.Adam(learning_rates=(0.01,), epochs=300)
    found = []
    for seed in range(NETWORKS):
        stop = np.random.default_rng([1, seed]).permutation(len(known.bags)) < max(3, len(known.bags) // 10)
        learn, stopping = known.part(~stop), known.part(stop)
        model = vbagg.ManifoldNN(known.likelihood, link, manifold=None, inference=adam, random_state=seed, **settings)
        model.fit(learn.bags, learn.y, early_stop=(stopping.bags, stopping.y), progress=False)
        rate = model.posterior(asked.bags.X).mean
        found.append(np.log(rate) if known.counts else rate)
    return Prediction(back(known, np.mean(found, axis=0)))


def ours(known: Task, asked: Task, settings: Settings) -> Prediction:
    """Rates by vbagg's default: those of individuals given the totals of their own bags."""
    model = vbagg.VBAgg() if known.counts else vbagg.VBAgg("normal")
    model.fit(known.bags, known.y, progress=False)
    posterior = model.posterior(asked.bags)
    draws = posterior.law.sample(DRAWS, 0)
    if not known.counts:
        tau = model.likelihood_parameters_["tau"]
        draws = draws + np.sqrt(tau) * np.random.default_rng(0).standard_normal(draws.shape)
    return Prediction(posterior.mean, asked.observed(draws), posterior.quantile(0.5))


METHODS = {
    "vbagg": Method(ours),
    "constant": Method(constant),
    "regression": Method(
        regression, grid(family=("ridge", "poisson"), coordinates=(False, True), ridge=(0.01, 0.1, 1.0, 10.0, 100.0))
    ),
    "forest": Method(of_trees(forest), grid(max_features=(0.33, 1.0), min_samples_leaf=(1, 4))),
    "boosting": Method(of_trees(boosting), grid(max_depth=(1, 2, 4), n_estimators=(50, 150, 400))),
    "process": Method(
        gaussian_process,
        (
            {"shape": "rbf", "ard": True, "linear": False},
            {"shape": "matern", "ard": True, "linear": True},
            {"shape": "matern", "ard": False, "linear": True},
        ),
    ),
    "aggregate boosting": Method(aggregate_boosting, grid(depth=(2, 4), trees=STAGES)),
    "aggregate network": Method(network, grid(penalty=(0.1, 1.0, 10.0, 100.0))),
    "tobler area": Method(area_weighted, package="tobler", needs_places=True),
    "tobler pycno": Method(pycnophylactic, package="tobler", needs_places=True),
    "kriging": Method(kriging, package="pyinterpolate", needs_places=True),
}
