"""Scores of `peers.py`, all from rates of individuals, and what makes these rates add up to known totals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from peers_data import Task

from vbagg import metrics

BOOTSTRAPS = 4000


@dataclass(frozen=True, eq=False)
class Prediction:
    """Expected rate of each individual; of a method that is not sure, medians and draws (s, n) of what is scored."""

    rate: np.ndarray
    draws: np.ndarray | None = None
    median: np.ndarray | None = None

    @property
    def middle(self) -> np.ndarray:
        """The rate for absolute errors and those of logarithms: the median, where there is one."""
        return self.rate if self.median is None else self.median

    def changed(self, change: Callable[[np.ndarray], np.ndarray]) -> Prediction:
        """All of it by the same function of rates."""
        draws, median = (None if values is None else change(values) for values in (self.draws, self.median))
        return Prediction(change(self.rate), draws, median)


def rescaled(task: Task, prediction: Prediction) -> Prediction:
    """The same, adding up to the totals of bags: counts by a factor of each bag, other outputs by a shift.

    A bag whose rates add up to nothing gets its own observed rate.
    """
    bags = task.bags
    sums = bags.sum_by_bag(bags.weight * prediction.rate)
    if not task.counts:
        shift = ((task.y - sums) / bags.totals())[bags.bag]
        return prediction.changed(lambda values: values + shift)
    factor = np.divide(task.y, sums, out=np.ones_like(sums), where=sums > 0)[bags.bag]
    own, empty = task.bag_rate[bags.bag], (sums <= 0)[bags.bag]
    return prediction.changed(lambda values: np.where(empty, own, factor * values))


def scores(task: Task, prediction: Prediction) -> dict[str, Any]:
    """R2 of the expected rate, errors of the median, CRPS (of a point: absolute error), coverage of 90% intervals."""
    truth, given = task.per * task.truth, prediction.changed(lambda values: task.per * values)
    middle = given.middle
    positive = (truth > 0) & (middle > 0)
    found: dict[str, Any] = {
        "r2": 1 - metrics.mse(truth, given.rate) / float(np.var(truth)),
        "mae": metrics.mae(truth, middle),
        "log_rmse": _rms(np.log(truth[positive]) - np.log(middle[positive])) if task.counts else None,
        "crps": metrics.mae(truth, middle),
        "coverage_90": None,
    }
    if given.draws is not None:
        ends = np.quantile(given.draws, [0.05, 0.95], axis=0)
        found |= {"crps": metrics.crps(truth, given.draws), "coverage_90": metrics.coverage(truth, *ends)}
    return found


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2)))


def bag_errors(task: Task, prediction: Prediction) -> dict[str, list[float]]:
    """Sums over the individuals of each bag: of absolute errors, and of squared ones as a share of the truth's."""
    spread = np.sum((task.truth - task.truth.mean()) ** 2)
    absolute = task.per * np.abs(task.truth - prediction.middle)
    squared = (task.truth - prediction.rate) ** 2 / spread
    return {"absolute": task.bags.sum_by_bag(absolute).tolist(), "squared": task.bags.sum_by_bag(squared).tolist()}


def paired(peer: np.ndarray, ours: np.ndarray, size: float, seed: int = 0) -> tuple[float, float, float]:
    """Difference of two errors, sums over bags divided by `size`, with a 95% interval by resampling bags."""
    difference = np.asarray(peer) - np.asarray(ours)
    n = len(difference)
    picked = np.random.default_rng(seed).integers(n, size=(BOOTSTRAPS, n))
    low, high = np.quantile(difference[picked].sum(axis=1) / size, [0.025, 0.975])
    return float(difference.sum() / size), float(low), float(high)
