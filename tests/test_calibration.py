"""A small part of `benchmarks/calibration.py`: truth drawn from the model's own prior class."""

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import cdist

import vbagg
from vbagg import metrics
from vbagg.kernels import RBF

SETS, BAGS, SIZE = 6, 40, 6


def drawn(seed):
    """Counts of 40 bags, the true rates of their individuals, and 15 bags more."""
    rng = np.random.default_rng(seed)
    n = (BAGS + 15) * SIZE
    X = rng.normal(size=(n, 2)) + np.repeat(rng.normal(size=(BAGS + 15, 2)), SIZE, axis=0)
    X = X / X.std(axis=0)
    weight = rng.gamma(3.0, 0.4, n)
    variance, lengthscale = 0.5 * np.exp(0.4 * rng.normal()), 1.2 * np.exp(0.4 * rng.normal())
    K = variance * np.exp(-0.5 * cdist(X, X, "sqeuclidean") / lengthscale**2)
    f = np.linalg.cholesky(K + 1e-8 * np.eye(n)) @ rng.standard_normal(n)
    bags = vbagg.Bags(pd.DataFrame(X, columns=["a", "b"]), np.repeat(np.arange(BAGS + 15), SIZE), weight)
    rate = 8.0 * np.exp(f)
    y = rng.poisson(bags.sum_by_bag(weight * rate)).astype(float)
    return bags[:BAGS], y[:BAGS], rate[: BAGS * SIZE], bags[BAGS:], y[BAGS:]


@pytest.mark.slow
def test_intervals_hold_their_share_of_a_right_model():
    """Individuals and new bags, with an interval score no worse than that of the point estimate."""
    held, held_new, scores = [], [], {"point": [], "average": []}
    for seed in range(SETS):
        bags, y, rate, new, y_new = drawn(seed)
        for hyper, found in scores.items():
            model = vbagg.VBAgg("poisson", kernel=RBF(), hyper=hyper).fit(bags, y)
            interval = model.posterior(bags).interval(0.95)
            found.append(metrics.interval_score(rate, *interval, 0.95))
        held.append(metrics.coverage(rate, *interval))
        held_new.append(metrics.coverage(y_new, *model.predictive_bags(new).interval(0.95)))
    # errors of neighbours go together: six sets of 240 individuals are worth some 150
    assert 0.90 < np.mean(held) < 0.99
    assert 0.88 < np.mean(held_new) <= 1.0
    assert np.mean(scores["average"]) < 1.05 * np.mean(scores["point"])
