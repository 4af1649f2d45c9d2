"""Constant: the paper's baseline of one rate in each bag."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from vbagg.bags import Bags
from vbagg.inference import Status
from vbagg.inputs import some_bags
from vbagg.likelihoods import get_likelihood
from vbagg.likelihoods.base import Likelihood
from vbagg.likelihoods.censored import censored
from vbagg.likelihoods.estimate import estimate_noise, estimate_rate
from vbagg.likelihoods.reported import COMPLETENESS, reported
from vbagg.links import get_link
from vbagg.models import setup
from vbagg.models.base import BagModel
from vbagg.models.frame import check_is_bags
from vbagg.models.outputs import given_outputs
from vbagg.models.point import noise_alone
from vbagg.models.reporting import told_of
from vbagg.posterior import PointEstimate, Posterior


@dataclass(frozen=True)
class ConstantFitted:
    """The overall rate, that of each training bag, and the learnt parameters of the noise."""

    likelihood: Likelihood
    rate_scale: float
    labels: list[Any]
    bag_rates: np.ndarray
    noise: dict[str, float]
    n_features: int

    def learnt(self) -> dict[str, float]:
        """Likelihood parameters."""
        return self.noise

    def posterior(self, X: Any, offset: Any) -> PointEstimate:
        """The overall rate for every individual."""
        _no_offset(offset)
        return PointEstimate(np.full(self.n_rows(X), self.rate_scale))

    def n_rows(self, X: Any) -> int:
        """Number of individuals, after a check of their features, which make no difference."""
        rows = Bags(X, np.zeros(len(X), dtype=int))
        if rows.n_features != self.n_features:
            raise ValueError(f"The model was fitted with {self.n_features} columns; got {rows.n_features}.")
        return rows.n_individuals

    def posterior_bags(self, bags: Bags, offset: Any) -> PointEstimate:
        """Totals of bags taken as new ones."""
        _no_offset(offset)
        check_is_bags(bags)
        share = np.ones(len(bags)) if self.likelihood.needs_trials else bags.totals()
        return PointEstimate(self.rate_scale * share)

    def predictive_bags(
        self, bags: Bags, trials: Any, offset: Any, completeness: Any = None, weight_sd: Any = None
    ) -> Posterior:
        """Noise of the outputs of new bags."""
        totals = self.posterior_bags(bags, offset).mean
        likelihood, facts = setup.to_predict(bags, self.likelihood, trials, completeness, weight_sd)
        return noise_alone(likelihood, totals, get_link(self.likelihood.links[0]), facts, self.noise)


class Constant(BagModel):
    """`y_a / w_a` for every individual of a bag with a known output, `sum y / sum w` for all others.

    Where outputs are reported in part, `w_a` is multiplied by the completeness.

    Bags given to `predict`, `score` and the posteriors of bags count as new, whatever their labels; rates of training
    bags are in `bag_rates_`, and `posterior(X, bag=labels)` gives them to individuals.

    Parameters
    ----------
    likelihood
        As for `VBAgg`. What it learns (`tau`, `dispersion`) is fitted to the training bags around the overall rate.
    """

    _fitted: ConstantFitted

    def __init__(self, likelihood: str | Likelihood = "poisson") -> None:
        self.likelihood = likelihood

    def fit(
        self,
        bags: Bags,
        y: Any,
        trials: Any = None,
        progress: Any = None,
        upper: Any = None,
        completeness: Any = None,
        weight_sd: Any = None,
    ) -> Self:
        """Take the rates of bags.

        Where outputs are known within bounds only (`upper`, as for `VBAgg`), the overall rate is the likeliest one, and
        the rate of such a bag is the nearest to it within its bounds. `completeness` and `weight_sd` are those of
        `VBAgg`; errors of weights are noise.
        """
        likelihood = get_likelihood(self.likelihood)
        check_is_bags(bags)
        outputs = given_outputs(bags, y, trials, likelihood, upper)
        outputs.require(1)
        seen, known = outputs.seen, outputs.observed()
        told = told_of(bags, completeness, weight_sd, seen)
        exposure = likelihood.exposure(bags, outputs.trials)
        share = exposure[seen] if known.trials is None else np.ones(len(known.y))
        exposure = exposure * told.get(COMPLETENESS, 1.0)
        facts = likelihood.facts(bags if seen.all() else bags[seen], known.trials)
        facts |= {name: values[seen] for name, values in told.items()}
        of_data = reported(likelihood, told)
        rate = float(known.typical.sum() / exposure[seen].sum())
        if known.hidden.any():
            of_data, bounds = censored(of_data, known.y, known.upper, known.labels, facts)
            rate, noise = estimate_rate(of_data, known.typical, share, facts | bounds, rate)
        else:
            noise = estimate_noise(of_data, known.y, rate * share, facts)
        values = np.clip(rate * exposure, outputs.y, outputs.upper)
        # a bag without trials, or without an output, has the overall rate
        rates = np.divide(values, exposure, out=np.full(len(bags), rate), where=seen & (exposure > 0))
        self.status_ = Status(True, "There is one rate for all.", 0, 0, notes=outputs.notes)
        self._fitted = ConstantFitted(likelihood, rate, bags.labels.tolist(), rates, noise, bags.n_features)
        return self

    def posterior(self, X: Any, offset: Any = None, bag: Any = None) -> PointEstimate:
        """Rate of individuals: the overall one, or that of the training bags whose labels `bag` are given."""
        fitted = self._checked()
        if isinstance(X, Bags):
            known = set(fitted.labels)
            rates = PointEstimate(np.full(X.n_individuals, fitted.rate_scale))
            inside = np.array([label in known for label in X.labels])[X.bag]
            if inside.any():
                own = self.posterior(X.X[inside], offset, X.labels[X.bag][inside])
                rates.mean[inside] = own.mean
            return rates
        if bag is None:
            return fitted.posterior(X, offset)
        _no_offset(offset)
        position = {label: at for at, label in enumerate(fitted.labels)}
        labels = list(bag)
        unknown = list(dict.fromkeys(label for label in labels if label not in position))
        if unknown:
            raise ValueError(f"`bag` must hold labels of training bags; got the unknown {some_bags(unknown)}.")
        if len(labels) != fitted.n_rows(X):
            raise ValueError(f"`bag` must hold one label for each of {len(X)} rows; got {len(labels)}.")
        return PointEstimate(fitted.bag_rates[[position[label] for label in labels]])

    @property
    def bag_rates_(self) -> np.ndarray:
        """Rate of each training bag, in label order."""
        return self._checked().bag_rates


def _no_offset(offset: Any) -> None:
    if offset is not None:
        raise ValueError("`offset` does not go with a constant rate.")
