"""Gradient boosting of individuals' rates with the loss of bag totals, which scikit-learn does not have."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from peers_data import Task
from peers_scores import Prediction

STEP = 0.1
ROWS_PER_TREE = 2000
STAGES = (30, 100, 300)


def aggregate_boosting(known: Task, asked: Task, settings: dict[str, Any]) -> Prediction:
    """Trees of individuals' features, each fitted to what the totals of bags lack."""
    return stages(known, asked, settings["depth"])[settings["trees"]]


@lru_cache(maxsize=4)
def stages(known: Task, asked: Task, depth: int) -> dict[int, Prediction]:
    """Predictions after each number of trees of `STAGES`.

    Counts: rate `exp(f)`, total `T`. The gradient of the Poisson loss in `f_i` is the share of `i` in `T` times
    `y - T`; bags are weighted as if their rates varied by 30% beside the noise of counts. Others: rate `f`, squared
    error of bag rates. A tree takes half of the bags, and at most `ROWS_PER_TREE` of their individuals.
    """
    from sklearn.tree import DecisionTreeRegressor

    bags, bag, rng = known.bags, known.bags.bag, np.random.default_rng(0)
    level = known.y.sum() / bags.totals().sum()
    f, answer = np.zeros(bags.n_individuals), np.zeros(asked.bags.n_individuals)
    trust = 1 / (0.1 + 1 / (known.y + 0.5)) if known.counts else np.ones(len(bags))
    found = {}
    for tree_number in range(1, STAGES[-1] + 1):
        part = bags.weight * level * np.exp(f) if known.counts else bags.weight * (level + f)
        total = bags.sum_by_bag(part)
        if known.counts:
            lack, share = np.clip((known.y + 0.5) / (total + 0.5) - 1, None, 3), part / total[bag]
        else:
            lack, share = (known.y - total) / bags.totals(), bags.weight / bags.totals()[bag]
        inside = rng.permutation(len(bags)) < max(2, len(bags) // 2)
        rows = np.flatnonzero(inside[bag])
        rows = rng.choice(rows, min(len(rows), ROWS_PER_TREE), replace=False)
        tree = DecisionTreeRegressor(max_depth=depth, min_samples_leaf=10, random_state=0)
        tree.fit(bags.X[rows], lack[bag[rows]], sample_weight=(trust[bag] * share)[rows])
        f += STEP * tree.predict(bags.X)
        answer += STEP * tree.predict(asked.bags.X)
        if tree_number in STAGES:
            found[tree_number] = Prediction(level * np.exp(answer) if known.counts else level + answer)
    return found
