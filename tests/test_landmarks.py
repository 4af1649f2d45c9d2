"""Landmark choice: what it must not depend on, and what it must find."""

import math

import jax
import numpy as np
import pytest
from scipy.spatial.distance import cdist

from vbagg.kernels import RBF, Linear, Matern32
from vbagg.landmarks import (
    Landmarks,
    check_landmarks,
    choose_landmarks,
    default_number,
    merge_rows,
    representatives,
    thin_rows,
)

RNG = np.random.default_rng(3)
X = RNG.normal(size=(120, 2)) * [1.0, 0.4] + [0.5, -2.0]
WEIGHT = RNG.lognormal(sigma=2.0, size=120)
BAG = RNG.integers(9, size=120)
KERNEL = Matern32(["x", "y"]).resolve(("rain", "x", "y"))
LOG_PARAMS = {"variance": np.log(1.3), "lengthscale": np.log(0.8)}
METHODS = ["kmeans", "kmeans++", "variance", "per-bag"]


def choose(X, weight, bag, method, number=12, random_state=0):
    return choose_landmarks(X, weight, number, method, random_state, bag, KERNEL, LOG_PARAMS)


@pytest.mark.parametrize("method", METHODS)
def test_row_order_zero_weights_and_split_rows_change_nothing(method):
    chosen = choose(X, WEIGHT, BAG, method)
    order = np.random.default_rng(1).permutation(len(X))
    np.testing.assert_array_equal(choose(X[order], WEIGHT[order], BAG[order], method), chosen)

    extra = np.random.default_rng(2).normal(size=(30, 2)) * 5
    padded = np.vstack([extra, X]), np.r_[np.zeros(30), WEIGHT], np.r_[np.full(30, 99), BAG]
    np.testing.assert_array_equal(choose(*padded, method), chosen)

    half = WEIGHT.copy()
    half[40:60] /= 2
    split = np.vstack([X, X[40:60]]), np.r_[half, half[40:60]], np.r_[BAG, BAG[40:60]]
    np.testing.assert_array_equal(choose(*split, method), chosen)

    assert chosen.shape == ((9 if method == "per-bag" else 12), 2)
    assert len(np.unique(chosen, axis=0)) == len(chosen)


@pytest.mark.parametrize("method", ["kmeans", "kmeans++"])
def test_random_state_decides(method):
    np.testing.assert_array_equal(
        choose(X, WEIGHT, BAG, method, random_state=7), choose(X, WEIGHT, BAG, method, random_state=7)
    )
    assert not np.array_equal(
        choose(X, WEIGHT, BAG, method, random_state=7), choose(X, WEIGHT, BAG, method, random_state=8)
    )


@pytest.mark.parametrize("method", ["kmeans++", "variance", "per-bag"])
def test_landmarks_are_rows_of_the_data(method):
    rows = {tuple(row) for row in X}
    assert all(tuple(row) in rows for row in choose(X, WEIGHT, BAG, method))


def test_many_equal_rows_in_any_order_have_one_exact_weight():
    weight = np.random.default_rng(0).lognormal(sigma=8.0, size=3000)
    place = np.random.default_rng(1).integers(4, size=3000)
    points = np.array([[1.0, 2.0], [1.0, -2.0], [0.0, 5.0], [-0.0, 4.0]])
    rows, total = merge_rows(points[place], weight)
    np.testing.assert_array_equal(rows, [[0, 4], [0, 5], [1, -2], [1, 2]])
    np.testing.assert_array_equal(total, [math.fsum(weight[place == k]) for k in (3, 2, 1, 0)])
    order = np.random.default_rng(2).permutation(3000)
    np.testing.assert_array_equal(merge_rows(points[place][order], weight[order])[1], total)


def test_negative_zero_is_zero():
    rows, total = merge_rows(np.array([[0.0, 1.0], [-0.0, 1.0]]), np.array([2.0, 3.0]))
    np.testing.assert_array_equal(rows, [[0.0, 1.0]])
    np.testing.assert_array_equal(total, [5.0])


def test_kmeans_centres_are_means_in_which_every_bag_counts_once():
    centres = choose(X, WEIGHT, BAG, "kmeans", number=6)
    nearest = cdist(X, centres).argmin(axis=1)

    def distance_to_means(weight):
        means = [np.average(X[nearest == k], axis=0, weights=weight[nearest == k]) for k in range(6)]
        return np.abs(centres - means).max()

    share = WEIGHT / np.bincount(BAG, WEIGHT)[BAG]
    assert distance_to_means(share) < 0.01  # the iteration stops at a relative tolerance
    assert distance_to_means(WEIGHT) > 0.1
    assert distance_to_means(np.ones(120)) > 0.1


def test_one_city_does_not_take_all_landmarks():
    rng = np.random.default_rng(5)
    country = rng.uniform(-3, 3, size=(900, 2))
    city = rng.normal(size=(100, 2)) * 0.05 + [2.0, 1.0]
    weight = np.r_[np.ones(900), np.full(100, 1e4)]  # 99.9% of the people
    district = np.r_[np.digitize(country[:, 0], [-2, -1, 0, 1, 2]), np.full(100, 6)]
    for method in ("kmeans", "kmeans++"):
        chosen = choose_landmarks(np.vstack([country, city]), weight, 30, method, bag=district)
        in_city = np.linalg.norm(chosen - [2.0, 1.0], axis=1) < 0.3
        assert 1 <= in_city.sum() <= 15
        gaps = cdist(country, chosen).min(axis=1)
        assert gaps.max() < 2.5


@pytest.mark.parametrize("kernel", [KERNEL, (RBF("x") + Linear("y")).resolve(("rain", "x", "y"))])
def test_greedy_variance_takes_the_largest_conditional_variance_each_time(kernel):
    log_params = kernel.initial_log_parameters()
    chosen = choose_landmarks(X, WEIGHT, 5, "variance", kernel=kernel, log_params=log_params)
    with jax.enable_x64(True):
        full = np.column_stack([np.zeros(len(X)), X])
        K = np.asarray(kernel.matrix(log_params, full, full))
    order = np.lexsort(X.T[::-1])
    picked: list[int] = []
    for _ in range(5):
        explained = K[:, picked] @ np.linalg.solve(K[np.ix_(picked, picked)], K[picked]) if picked else 0 * K
        residual = np.diag(K - explained)[order]
        picked.append(int(order[np.argmax(np.round(residual, 12))]))
    np.testing.assert_array_equal(chosen, np.unique(X[picked], axis=0))


def test_greedy_variance_stops_when_nothing_is_left_to_explain():
    kernel = Linear(["x", "y"]).resolve(("rain", "x", "y"))
    chosen = choose_landmarks(X, WEIGHT, 12, "variance", kernel=kernel, log_params=kernel.initial_log_parameters())
    assert chosen.shape == (2, 2)


def test_per_bag_takes_the_weighted_medoid_and_ignores_the_number():
    labels = np.array([f"D{b:02d}" for b in BAG])
    chosen = choose_landmarks(X, WEIGHT, None, "per-bag", bag=labels)
    medoids = []
    for b in range(9):
        rows, weight = X[b == BAG], WEIGHT[b == BAG]
        medoids.append(rows[np.argmin(cdist(rows, rows, "sqeuclidean") @ weight)])
    np.testing.assert_array_equal(chosen, np.unique(medoids, axis=0))


def test_bags_with_the_same_representative_give_it_once():
    rows = np.array([[0.0], [1.0], [0.0], [5.0], [9.0]])
    chosen = representatives(rows, np.array([3.0, 1.0, 2.0, 1.0, 1.0]), np.array([0, 0, 1, 2, 2]))
    np.testing.assert_array_equal(chosen, [[0.0], [5.0]])


def test_thinned_weights_are_unbiased_and_keep_heavy_rows():
    rows = np.arange(400.0)[:, None]
    weight = np.random.default_rng(0).lognormal(sigma=1.5, size=400)
    value = np.sin(rows[:, 0] / 30) + 1.5
    sums = []
    for seed in range(2000):
        kept, kept_weight = thin_rows(rows, weight, 60, np.random.default_rng(seed))
        sums.append(kept_weight @ value[kept[:, 0].astype(int)])
    assert len(kept) == 60
    assert np.mean(sums) == pytest.approx(weight @ value, abs=4 * np.std(sums) / math.sqrt(2000))
    assert weight.argmax() in kept[:, 0]
    assert thin_rows(rows, weight, 400, np.random.default_rng(0))[0] is rows


@pytest.mark.parametrize("method", ["kmeans", "kmeans++", "variance"])
def test_large_data_are_thinned_whatever_their_order(method, monkeypatch):
    monkeypatch.setattr("vbagg.landmarks.MAX_ROWS", 50)
    chosen = choose(X, WEIGHT, BAG, method)
    order = np.random.default_rng(1).permutation(len(X))
    np.testing.assert_array_equal(choose(X[order], WEIGHT[order], BAG[order], method), chosen)
    assert len(chosen) == 12


@pytest.mark.parametrize("method", ["kmeans", "kmeans++", "variance"])
def test_as_many_landmarks_as_distinct_rows_are_these_rows(method):
    few = X[[4, 8, 15, 8, 16, 4]]
    chosen = choose(few, np.ones(6), np.zeros(6), method, number=4)
    np.testing.assert_array_equal(chosen, np.unique(few, axis=0))


def test_default_number():
    assert default_number(10_000, 2, 60) == 120
    assert default_number(10_000, 2, 110) == 220
    assert default_number(10_000, 2, 200) == 300
    assert default_number(10_000, 5, 40) == 80
    assert default_number(10_000, 5, 400) == 100
    assert default_number(10_000, 2, 10) == 50
    assert default_number(10_000, 1, 500) == 50
    assert default_number(17, 3, 500) == 17
    assert len(choose(X, WEIGHT, BAG, "kmeans++", number=None)) == 50
    assert len(choose(X, WEIGHT, np.arange(120) // 4, "kmeans++", number=None)) == 60


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: choose(X[:7], WEIGHT[:7], BAG[:7], "kmeans"), "got 12 landmarks for 7 distinct rows"),
        (lambda: choose(X, WEIGHT, BAG, "grid"), r"one of \['kmeans', .*got 'grid'"),
        (lambda: choose(X, WEIGHT, BAG, "kmeans", number=0), "positive integer; got 0"),
        (lambda: choose(X, 0 * WEIGHT, BAG, "kmeans"), "all 120 rows have weight zero"),
        (lambda: choose(X, -WEIGHT, BAG, "kmeans"), r"non-negative; got .* at row 0"),
        (lambda: choose(X * [1, np.nan], WEIGHT, BAG, "kmeans"), "finite.* at row 0"),
        (lambda: choose(X, WEIGHT[1:], BAG, "kmeans"), r"shapes \(120, 2\) and \(119,\)"),
        (lambda: choose_landmarks(X, WEIGHT, 5, "per-bag"), "need `bag`"),
        (lambda: choose_landmarks(X, WEIGHT, 5, "variance"), "need `kernel`"),
        (
            lambda: Landmarks(method="medoids"),
            r"\['kmeans', 'kmeans\+\+', 'variance', 'per-bag'\]; got 'medoids'",
        ),
        (lambda: Landmarks(number=-3), "positive integer; got -3"),
        (lambda: Landmarks(number=2.5), "positive integer; got 2.5"),
        (lambda: Landmarks(number=True), "positive integer; got True"),
        (lambda: check_landmarks(X, 3), r"shape \(m, 3\).*got \(120, 2\)"),
        (lambda: check_landmarks(X[:, 0], 2), r"got \(120,\)"),
        (lambda: check_landmarks(X[:0], 2), r"got \(0, 2\)"),
        (lambda: check_landmarks([[0, 1], [np.inf, 2]], 2), r"finite; got \[inf, 2.0\] at row 1"),
        (lambda: check_landmarks(X[[3, 5, 9, 5, 3]], 2), "2 repeated, rows 3 = 1, 4 = 0"),
    ],
)
def test_errors_say_what_is_wrong(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_landmarks_option_is_a_hashable_value():
    assert Landmarks() == Landmarks(None, "kmeans", False, False)
    assert hash(Landmarks(40, joint=True)) == hash(Landmarks(40, joint=True))
    with pytest.raises(AttributeError):
        Landmarks().number = 3
    with pytest.raises(TypeError, match="`learn` of Landmarks must be True or False; got 'yes'"):
        Landmarks(learn="yes")


def test_user_landmarks_come_back_as_float64():
    Z = check_landmarks([[1, 2], [3, 4]], 2)
    assert Z.dtype == np.float64
    np.testing.assert_array_equal(Z, [[1.0, 2.0], [3.0, 4.0]])
