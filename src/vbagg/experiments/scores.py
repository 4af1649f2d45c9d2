"""Scores of a fitted method: training individuals against the truth, unseen bags against their outputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from vbagg import metrics
from vbagg.bags import Bags
from vbagg.errors import NoUncertaintyError
from vbagg.experiments.base import Scores
from vbagg.experiments.splits import Observed, Truth
from vbagg.likelihoods import get_likelihood
from vbagg.likelihoods.numerical import log_density
from vbagg.models.base import BagModel
from vbagg.models.constant import Constant
from vbagg.models.vbagg import VBAgg

INTERVAL_LEVEL = 0.9


def training_rates(model: BagModel, bags: Bags, given_totals: bool = True) -> Any:
    """Posterior of the individuals of the training bags, given their totals where the model can take them.

    Effects of bags are no part of the true rates. The constant model gives individuals the rates of their bags.
    """
    if isinstance(model, Constant):
        return model.posterior(bags.X, bag=bags.labels[bags.bag])
    if given_totals and isinstance(model, VBAgg):
        return model.posterior(bags, bag_effect="reporting")
    return model.posterior(bags.X)


def plug_in_nll(model: BagModel, observed: Observed) -> float:
    """Mean negative log likelihood of bag outputs at the expected totals."""
    expected = model.predict(observed.bags)
    return _plug_in_nll(model, observed.bags, observed.y, expected)


def bag_scores(model: BagModel, test: Observed) -> Scores:
    """Scores on unseen bags: at the expected totals as in the paper, and of the predictive distribution."""
    expected = model.predict(test.bags)
    scores: Scores = {
        "bag_nll": plug_in_nll(model, test),
        "bag_mse": metrics.mse(test.y, expected),
        "bag_log_density": model.score(test.bags, test.y),
    }
    if np.all(test.y >= 0) and np.all(expected > 0):
        positive = test.y > 0
        scores["bag_log_mse"] = metrics.mse(np.log(test.y[positive]), np.log(expected[positive]))
    return scores


def individual_scores(model: BagModel, train: Observed, truth: Truth) -> Scores:
    """Scores on training individuals, whose outputs no method has seen."""
    # outputs of individuals are predicted as those of new bags are
    posterior = training_rates(model, train.bags, given_totals=truth.rate is not None)
    weight, scores = train.bags.weight, Scores()
    if truth.individual_y is not None:
        alone = _individuals_as_bags(train.bags)
        scores["individual_nll"] = _plug_in_nll(model, alone, truth.individual_y, weight * posterior.mean)
    target = truth.rate if truth.rate is not None else truth.individual_y
    assert target is not None
    expected = posterior.mean if truth.rate is not None else weight * posterior.mean
    scores["individual_mse"] = metrics.mse(target, expected)
    law = posterior if truth.rate is not None else _outputs_of_individuals(model, train.bags)
    try:
        covered = metrics.calibration(target, law)
    except NoUncertaintyError:
        return scores
    for level, share in zip(metrics.LEVELS, covered, strict=True):
        scores[f"coverage_{round(100 * level)}"] = float(share)
    scores["coverage_error"] = float(np.mean(np.abs(covered - metrics.LEVELS)))
    lower, upper = law.interval(INTERVAL_LEVEL)
    scores["interval_score_90"] = metrics.interval_score(target, lower, upper, INTERVAL_LEVEL)
    return scores


def _outputs_of_individuals(model: BagModel, bags: Bags) -> Any:
    """Distribution of the output of each individual, noise included, where no true rate is known to be covered."""
    posterior = model.posterior(bags.X[:1])
    if not hasattr(posterior, "std"):
        return posterior
    return model.predictive_bags(_individuals_as_bags(bags))


def _individuals_as_bags(bags: Bags) -> Bags:
    table = bags.X if not bags.named else _named(bags)
    return Bags(table, np.arange(bags.n_individuals), bags.weight, coordinates=bags.coordinates)


def _named(bags: Bags) -> Any:
    import pandas as pd

    return pd.DataFrame(bags.X, columns=list(bags.feature_names))


def _plug_in_nll(model: BagModel, bags: Bags, y: np.ndarray, expected: np.ndarray) -> float:
    """Mean negative log density of outputs whose totals are the expected ones."""
    likelihood = get_likelihood(model.get_params()["likelihood"])
    p = likelihood.logs(model.likelihood_parameters_)
    return -float(np.mean(log_density(likelihood, y, expected, likelihood.facts(bags, None), p)))
