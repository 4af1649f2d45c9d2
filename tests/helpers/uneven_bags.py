"""Counts of uneven bags, and the features of an RBF kernel by loops."""

import numpy as np
import pandas as pd

import vbagg

SIZES = (3, 6, 1, 4, 2, 5, 6, 3, 2, 4)
LABELS = tuple("FBJAHCIDGE")


def toy(sizes=SIZES, labels=LABELS, seed=5):
    """Rows of uneven bags mixed up, uneven weights, counts, and an offset for each row."""
    rng = np.random.default_rng(seed)
    n = sum(sizes)
    X = pd.DataFrame({"rain": rng.normal(1.0, 2.0, n), "height": rng.gamma(2.0, 300.0, n)})
    offset = rng.normal(0.3, 0.4, n)
    bags = vbagg.Bags(X, np.repeat(labels, sizes)[rng.permutation(n)], rng.exponential(2.0, n) + 0.1)
    f = 0.5 * np.tanh(bags.X[:, 0] - 1.0) + offset[bags.rows]
    y = rng.poisson(3.0 * bags.sum_by_bag(bags.weight * np.exp(f))).astype(float)
    return bags, y, offset


def landmark_features(X, Z, variance, lengthscale, mean_sd):
    """A constant and `K_xZ L^-T` of an RBF kernel, rows in standard units."""

    def matrix(P, Q):
        return np.array([[variance * np.exp(-np.sum((p - q) ** 2) / (2 * lengthscale**2)) for q in Q] for p in P])

    K = matrix(Z, Z)
    L = np.linalg.cholesky(K + 1e-6 * np.mean(np.diag(K)) * np.eye(len(Z)))
    return np.column_stack([np.full(len(X), mean_sd), np.linalg.solve(L, matrix(X, Z).T).T])
