"""The manifold penalty against sums over all pairs, and its features against the kernels they stand for."""

from __future__ import annotations

from itertools import product

import jax
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vbagg import kernels
from vbagg.bags import Bags
from vbagg.manifold import (
    Manifold,
    bag_kernel,
    bag_laplacian_form,
    check_bag_covariates,
    laplacian_form,
    similarity_features,
)

SIZES = (3, 1, 5, 2, 4)
NAMES = ("rain", "height", "slope")


def toy():
    """Uneven bags of three unequal columns, with one row that stands twice."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(sum(SIZES), 3)) * [1.0, 0.6, 1.7] + [0.5, -1.0, 0.2]
    X[4] = X[11]
    return Bags(pd.DataFrame(X, columns=NAMES), np.repeat(list("DACEB"), SIZES), rng.exponential(2.0, len(X)))


def sum_over_pairs(f, K):
    """`1/2 sum_ij K_ij (f_i - f_j)^2`."""
    return 0.5 * sum(K[i, j] * (f[i] - f[j]) ** 2 for i, j in product(range(len(f)), repeat=2))


# The penalty


@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 2, 5]))
def test_penalty_is_the_sum_over_pairs(seed, n):
    rng = np.random.default_rng(seed)
    f, F = rng.normal(2.0, 3.0, n), rng.exponential(1.0, (n, 3))
    with jax.enable_x64(True):
        assert float(laplacian_form(f, F)) == pytest.approx(sum_over_pairs(f, F @ F.T), rel=1e-9, abs=1e-9)


@given(st.integers(0, 2**32 - 1))
def test_penalty_does_not_see_a_constant_nor_rows_without_features(seed):
    rng = np.random.default_rng(seed)
    f, F = rng.normal(0.0, 1.0, 5), rng.exponential(1.0, (5, 3))
    with jax.enable_x64(True):
        value = float(laplacian_form(f, F))
        assert value > 0
        assert float(laplacian_form(f + 4.0, F)) == pytest.approx(value, rel=1e-9)
        padded = np.insert(F, (2, 5), 0.0, axis=0)
        assert float(laplacian_form(np.insert(f, (2, 5), 99.0), padded)) == pytest.approx(value, rel=1e-12)


def test_penalty_with_negative_similarities_is_cut_off_at_zero():
    rough = np.array([1.0, -1.0])
    opposite = np.array([[1.0], [-1.0]])
    assert sum_over_pairs(rough, opposite @ opposite.T) == -4.0
    assert float(laplacian_form(rough, opposite)) == 0.0
    assert np.all(jax.grad(laplacian_form)(rough, opposite) == 0.0)
    f, F = np.array([0.3, 0.5, -1.0]), np.array([[1.0], [-0.2], [0.8]])
    expected = sum_over_pairs(f, F @ F.T)
    assert expected > 0
    assert float(laplacian_form(f, F)) == pytest.approx(expected, rel=1e-6)


def test_penalty_of_bags_is_the_sum_over_pairs():
    rng = np.random.default_rng(3)
    root = rng.exponential(1.0, (5, 5))
    f, K = rng.normal(1.0, 2.0, 5), root @ root.T + np.diag([4.0, 0.0, 1.0, 0.0, 2.0])
    expected = sum_over_pairs(f, K)
    assert expected > 1
    assert float(bag_laplacian_form(f, K)) == pytest.approx(expected, rel=1e-5)


# Features


def correlation(kind, r):
    """Textbook formulas in the distance `r` in length-scales."""
    a = {"Matern12": 1.0, "Matern32": np.sqrt(3.0), "Matern52": np.sqrt(5.0)}.get(kind, 0.0) * r
    return {
        "RBF": np.exp(-0.5 * r**2),
        "Matern12": np.exp(-a),
        "Matern32": (1 + a) * np.exp(-a),
        "Matern52": (1 + a + a**2 / 3) * np.exp(-a),
    }[kind]


def kernel_by_loops(X, kind, columns, variance, lengthscale):
    lengthscale = np.broadcast_to(lengthscale, len(columns))
    K = np.empty((len(X), len(X)))
    for i, j in product(range(len(X)), repeat=2):
        steps = [(X[i, c] - X[j, c]) / l for c, l in zip(columns, lengthscale, strict=True)]
        K[i, j] = variance * correlation(kind, np.sqrt(sum(step**2 for step in steps)))
    return K


def similarities(options, bags, seed=5):
    with jax.enable_x64(True):
        F = similarity_features(options, bags, seed).astype(float)
    return F @ F.T


LEAVES = [
    ("RBF", (0, 1, 2), 1.4, 1.3),
    ("Matern12", (2, 0), 0.8, 2.1),
    ("Matern32", (1,), 1.1, 0.5),
    ("Matern52", (2, 0), 0.9, (0.7, 2.5)),
]


@pytest.mark.parametrize(("kind", "columns", "variance", "lengthscale"), LEAVES)
def test_fourier_features_have_the_kernel_as_their_mean_product(kind, columns, variance, lengthscale):
    """A product of two features has sd below `variance sqrt(3/2)`: 200,000 of them leave 0.004."""
    bags = toy()
    kernel = getattr(kernels, kind)(
        [NAMES[c] for c in columns],
        ard=isinstance(lengthscale, tuple),
        variance=variance,
        lengthscale=lengthscale,
    )
    K = similarities(Manifold(kernel=kernel, number=200_000), bags)
    expected = kernel_by_loops(bags.X, kind, columns, variance, lengthscale)
    assert np.ptp(expected) > 0.4 * variance
    np.testing.assert_allclose(K, expected, atol=0.015)


def test_fourier_features_of_a_sum_share_their_number():
    bags = toy()
    (one, *first), (two, *second) = LEAVES[1], LEAVES[2]
    kernel = kernels.Matern12(["slope", "rain"], variance=0.8, lengthscale=2.1) + kernels.Matern32(
        "height", variance=1.1, lengthscale=0.5
    )
    expected = kernel_by_loops(bags.X, one, *first) + kernel_by_loops(bags.X, two, *second)
    np.testing.assert_allclose(similarities(Manifold(kernel=kernel, number=400_000), bags), expected, atol=0.02)
    assert similarity_features(Manifold(kernel=kernel, number=7), bags, 0).shape == (15, 6)
    assert similarity_features(Manifold(kernel=kernel, number=1), bags, 0).shape == (15, 2)


def test_kernel_without_values_starts_at_the_median_distance_and_variance_one():
    bags = toy()
    rows = np.unique(bags.X, axis=0)
    distances = [np.linalg.norm(rows[i] - rows[j]) for i in range(len(rows)) for j in range(i)]
    expected = kernel_by_loops(bags.X, "RBF", (0, 1, 2), 1.0, np.median(distances))
    np.testing.assert_allclose(similarities(Manifold(number=200_000), bags), expected, atol=0.015)
    two = similarities(Manifold(kernel=kernels.RBF("rain") + kernels.Matern52("slope"), number=200_000), bags)
    np.testing.assert_allclose(np.diag(two), 1.0, atol=0.02)


def test_features_depend_on_the_seed_alone():
    bags = toy()
    one, again, other = (similarity_features(Manifold(number=5), bags, seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(one, again)
    assert np.all(one != other)


def test_features_of_all_rows_as_landmarks_reproduce_any_kernel():
    bags = toy()
    kernel = (
        kernels.Matern12(["slope", "rain"], variance=0.8, lengthscale=0.9)
        + kernels.Linear("height", variance=0.7)
        + kernels.Matern32("rain", variance=0.5, lengthscale=0.2) * kernels.Periodic("slope", period=1.5)
    )
    K = similarities(Manifold(kernel=kernel, approximation="nystrom", number=1000), bags)
    X = bags.X
    sines = np.sin(np.pi * (X[:, None, 2] - X[None, :, 2]) / 1.5)
    expected = (
        kernel_by_loops(X, "Matern12", (2, 0), 0.8, 0.9)
        + 0.7 * np.outer(X[:, 1], X[:, 1])
        + kernel_by_loops(X, "Matern32", (0,), 0.5, 0.2) * np.exp(-2 * sines**2)
    )
    np.testing.assert_allclose(K, expected, atol=2e-4)


def test_features_of_few_landmarks_explain_less_than_the_kernel():
    bags = toy()
    kernel = kernels.Matern12(variance=1.2, lengthscale=1.0)
    K = similarities(Manifold(kernel=kernel, approximation="nystrom", number=4), bags)
    assert np.linalg.matrix_rank(K, tol=1e-4) == 4
    # K - F F^T is the covariance that the landmarks leave
    left = kernel_by_loops(bags.X, "Matern12", (0, 1, 2), 1.2, 1.0) - K
    assert np.linalg.eigvalsh(left).min() > -1e-4
    assert np.sum(np.diag(left) < 1e-4) in (4, 5)  # the rows that are landmarks, one of which may stand twice


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        (kernels.Linear("rain"), "Linear"),
        (kernels.RBF("rain") + kernels.Periodic("slope", period=2.0), "Periodic"),
        (kernels.RBF("rain") * kernels.Matern12("slope"), "Product"),
    ],
)
def test_kernels_without_frequencies_are_refused_with_the_remedy(kernel, name):
    message = (
        rf"'fourier' is for sums of RBF, Matern12, Matern32, Matern52; got {name}\. "
        r"Use Manifold\(approximation='nystrom'\)"
    )
    with pytest.raises(ValueError, match=message):
        similarity_features(Manifold(kernel=kernel), toy(), 0)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"strength": -0.1}, ValueError, r"`strength` of Manifold must be non-negative; got -0\.1\."),
        ({"bag_strength": float("nan")}, ValueError, r"`bag_strength` of Manifold must be non-negative; got nan\."),
        ({"approximation": "rff"}, ValueError, r"`approximation` must be one of 'fourier', 'nystrom'; got 'rff'\."),
        ({"number": 0}, ValueError, r"`number` of Manifold must be a whole number >= 1; got 0\."),
        ({"number": 2.5}, ValueError, r"`number` of Manifold must be a whole number >= 1; got 2\.5\."),
        ({"kernel": "rbf"}, TypeError, r"`kernel` of Manifold must be a kernel or None; got 'rbf'\."),
    ],
)
def test_impossible_options_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        Manifold(**options)


# Kernel of bags


def gaussian_by_loops(rows):
    """RBF of rows with their median distance as its length-scale."""
    pairs = [np.sum((rows[i] - rows[j]) ** 2) for i in range(len(rows)) for j in range(i)]
    scale = np.sqrt(np.median(pairs))
    K = np.empty((len(rows), len(rows)))
    for i, j in product(range(len(rows)), repeat=2):
        K[i, j] = np.exp(-np.sum(((rows[i] - rows[j]) / scale) ** 2) / 2)
    return K


def test_bags_are_alike_when_their_mean_embeddings_and_covariates_are():
    bags = toy()
    similar = np.random.default_rng(1).normal(0.5, 1.0, (15, 4))
    means = [sum(similar[i] for i in range(15) if bags.bag[i] == a) / SIZES[a] for a in range(5)]
    embedded = gaussian_by_loops(np.array(means))
    np.testing.assert_allclose(bag_kernel(similar, bags, None), embedded, rtol=1e-12)
    covariates = np.random.default_rng(2).gamma(2.0, [1.0, 300.0], (5, 2))
    scaled = (covariates - covariates.mean(axis=0)) / covariates.std(axis=0)
    expected = embedded * gaussian_by_loops(scaled)
    assert np.ptp(expected) > 0.5
    with_constant = np.insert(covariates, 1, 7.0, axis=1)
    for table in (covariates, with_constant):
        np.testing.assert_allclose(bag_kernel(similar, bags, table), expected, rtol=1e-12)


def test_bags_with_the_same_individuals_are_fully_alike():
    rows = toy().X[:3]
    bags = Bags(np.concatenate([rows, rows[::-1], rows]), np.repeat([2, 0, 1], 3), np.arange(1.0, 10.0))
    similar = similarity_features(Manifold(number=12), bags, 1)
    np.testing.assert_allclose(bag_kernel(similar, bags, np.full((3, 1), 5.0)), 1.0, rtol=1e-6)


def test_bag_covariates_are_one_finite_row_per_bag():
    bags = toy()
    assert check_bag_covariates(bags, None) is None
    one_column = check_bag_covariates(bags, [1, 2, 3, 4, 5])
    assert (one_column.shape, one_column.dtype) == ((5, 1), np.float64)
    np.testing.assert_array_equal(one_column[:, 0], [1.0, 2.0, 3.0, 4.0, 5.0])
    with pytest.raises(ValueError, match=r"one row for each of 5 bags; got shape \(4, 2\)"):
        check_bag_covariates(bags, np.zeros((4, 2)))
    wrong = np.zeros((5, 2))
    wrong[3, 1] = np.nan
    with pytest.raises(ValueError, match=r"must be finite; got \[0\.0, nan\] for bag 'E'"):
        check_bag_covariates(bags, wrong)
