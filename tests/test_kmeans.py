"""Seeds and centres against those of scikit-learn, and against what defines them."""

import numpy as np
import pytest
from sklearn.cluster import KMeans, kmeans_plusplus

from vbagg import kmeans
from vbagg.kmeans import kmeans_centres, kmeans_seeds


def some(seed, n=400, d=3):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, d)) * [1.0, 3.0, 0.2][:d] + 5 * rng.integers(0, 4, (n, 1))
    return rows, rng.exponential(size=n)


@pytest.mark.parametrize("number", [1, 2, 17, 100])
def test_seeds_are_those_of_scikit_learn(number):
    for seed in range(3):
        rows, weight = some(seed)
        _, expected = kmeans_plusplus(rows, number, sample_weight=weight, random_state=seed)
        np.testing.assert_array_equal(kmeans_seeds(rows, weight, number, seed), expected)


@pytest.mark.parametrize("number", [1, 2, 17, 100])
def test_centres_are_those_of_scikit_learn(number, monkeypatch):
    monkeypatch.setattr(kmeans, "TOGETHER", 37)
    for seed in range(3):
        rows, weight = some(seed)
        seeds = rows[kmeans_seeds(rows, weight, number, seed)]
        expected = KMeans(number, init=seeds, n_init=1).fit(rows, sample_weight=weight).cluster_centers_
        np.testing.assert_allclose(kmeans_centres(rows, weight, seeds), expected, rtol=1e-10)


def test_a_centre_without_rows_takes_the_one_that_is_farthest_from_its_own():
    rows, weight = np.array([[0.0], [1.0], [2.0], [9.0]]), np.array([1.0, 2.0, 1.0, 5.0])
    found = kmeans_centres(rows, weight, np.array([[1.0], [50.0]]))
    np.testing.assert_allclose(np.sort(found.ravel()), [1.0, 9.0])
