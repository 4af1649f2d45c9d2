"""Cross-validation over bags: folds, scores of single bags, tables by hand, and what the verdict says."""

from __future__ import annotations

import warnings
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtr
from scipy.stats import binom, nbinom, norm, wilcoxon

import vbagg
from vbagg import laws, metrics
from vbagg.errors import ConvergenceWarning, DataWarning
from vbagg.models.base import Estimator
from vbagg.models.glm import BagGLM
from vbagg.validate import (
    FoldResult,
    Validation,
    cross_validate,
    default_baselines,
    random_folds,
    spatial_folds,
    validate_fold,
)
from vbagg.validate.bag_scores import bag_scores, crps, point_scores
from vbagg.validate.folds import as_folds, fold_names
from vbagg.validate.tables import chance_band


def toy(n_bags=12, seed=4):
    """Bags of 1 to 3 individuals, counts that follow rain."""
    rng = np.random.default_rng(seed)
    sizes = 1 + np.arange(n_bags) % 3
    X = pd.DataFrame(rng.normal(size=(sizes.sum(), 3)), columns=["rain", "x", "y"])
    bags = vbagg.Bags(X, np.repeat([f"D{a:02d}" for a in range(n_bags)], sizes), rng.uniform(20, 90, len(X)))
    rate = bags.sum_by_bag(bags.weight * np.exp(0.8 * bags.X[:, 0]))
    return bags, rng.poisson(rate).astype(float)


def shuffled(bags, seed=1):
    """The same bags with rows, and so bags, in another order."""
    rows = np.random.default_rng(seed).permutation(bags.n_individuals)
    X = pd.DataFrame(bags.X[rows], columns=list(bags.feature_names))
    return vbagg.Bags(X, bags.labels[bags.bag[rows]], bags.weight[rows])


def by_label(bags, values):
    return dict(zip(bags.labels, values, strict=True))


class Known(Estimator):
    """Predicts a Normal around the mean of training rates, and remembers what it saw."""

    seen: list = []  # noqa: RUF012

    def __init__(self, sd=1.0, fail=None, warn=None):
        self.sd, self.fail, self.warn = sd, fail, warn

    def fit(self, bags, y):
        Known.seen.append((list(bags.labels), list(y)))
        if self.fail in bags.labels:
            raise ValueError(f"cannot bear {self.fail}")
        if self.warn is not None:
            warnings.warn("a remark", self.warn, stacklevel=1)
        self.mean_ = float(np.mean(y))
        return self

    def predict(self, bags):
        return np.full(len(bags), self.mean_)

    def predictive_bags(self, bags):
        return laws.Normal(self.predict(bags), np.full(len(bags), self.sd))


class Point(Known):
    predictive_bags = None

    def __getattribute__(self, name):
        if name == "predictive_bags":
            raise AttributeError(name)
        return super().__getattribute__(name)


class Squared(Known):
    link = "square"

    def fit(self, bags, y, offset=None):
        assert len(offset) == bags.n_individuals
        return super().fit(bags, y)

    def predictive_bags(self, bags, offset=None):
        return super().predictive_bags(bags)


# Folds


def test_random_folds_have_equal_sizes_and_differ_by_seed():
    folds = random_folds(23, 5, seed=2)
    assert sorted(np.bincount(folds)[1:]) == [4, 4, 5, 5, 5]
    np.testing.assert_array_equal(folds, random_folds(23, 5, seed=2))
    assert np.any(folds != random_folds(23, 5, seed=3))
    assert np.any(np.diff(folds) != 0)
    assert sorted(random_folds(4, 4)) == [1, 2, 3, 4]


def test_folds_do_not_depend_on_the_order_of_rows():
    bags, y = toy(30)
    other = shuffled(bags)
    assert other.labels.tolist() != bags.labels.tolist()
    rates = pd.Series(y / bags.totals(), index=bags.labels)
    for make in (
        lambda b: random_folds(b, 4, 7),
        lambda b: random_folds(b, 4, 7, by=rates),
        lambda b: spatial_folds(b, 4, 7),
    ):
        assert by_label(bags, make(bags)) == by_label(other, make(other))


def test_stratified_folds_take_one_of_each_run_of_ranks():
    values = np.random.default_rng(0).normal(size=22)
    folds = random_folds(22, 5, seed=1, by=values)
    ranked = folds[np.argsort(values)]
    for start in range(0, 20, 5):
        assert sorted(ranked[start : start + 5]) == [1, 2, 3, 4, 5]
    assert len(set(ranked[20:])) == 2
    assert any(list(ranked[0:5]) != list(ranked[start : start + 5]) for start in (5, 10, 15))


def test_spatial_folds_of_a_line_are_runs():
    line = np.array([[4.0], [0.0], [9.0], [2.0], [1.0], [7.0], [3.0]])
    folds = spatial_folds(line, 3)
    runs = folds[np.argsort(line[:, 0])]
    assert np.all(np.abs(np.diff(runs)) <= 1)
    assert len(np.flatnonzero(np.diff(runs))) == 2
    assert sorted(np.bincount(folds)[1:]) == [2, 2, 3]


def test_spatial_folds_of_four_towns_are_the_towns():
    rng = np.random.default_rng(3)
    towns = np.repeat([[0.0, 0.0], [90.0, 5.0], [10.0, 60.0], [100.0, 70.0]], 6, axis=0)
    for seed in range(3):
        folds = spatial_folds(towns + rng.normal(size=towns.shape), 4, seed).reshape(4, 6)
        assert np.all(folds == folds[:, :1])
        assert sorted(folds[:, 0]) == [1, 2, 3, 4]


def test_spatial_folds_are_balanced_compact_and_differ_by_seed():
    places = np.random.default_rng(5).uniform([0, 0], [300, 100], (61, 2))

    def spread(folds):
        return np.mean([places[folds == k].std(axis=0).mean() for k in np.unique(folds)])

    folds = spatial_folds(places, 7, seed=0)
    assert sorted(np.bincount(folds)[1:]) == [8, 8, 9, 9, 9, 9, 9]
    assert spread(folds) < 0.5 * spread(random_folds(61, 7))
    assert np.any(folds != spatial_folds(places, 7, seed=1))
    assert len(np.unique(spatial_folds(np.zeros((6, 2)), 3))) == 3


def test_centroids_of_bags_are_weighted():
    X = pd.DataFrame({"lon": [0.0, 10.0, 1.0, 2.0, 3.0], "lat": [0.0, 0.0, 0.0, 0.0, 0.0]})
    heavy_far = vbagg.Bags(X, ["a", "a", "b", "c", "d"], [1.0, 99.0, 1, 1, 1])
    heavy_near = vbagg.Bags(X, ["a", "a", "b", "c", "d"], [99.0, 1.0, 1, 1, 1])
    far, near = by_label(heavy_far, spatial_folds(heavy_far, 2)), by_label(heavy_near, spatial_folds(heavy_near, 2))
    assert far["a"] == far["d"] != far["b"] == far["c"]
    assert near["a"] == near["b"] != near["c"] == near["d"]


def test_user_folds_by_label_in_any_order():
    bags, _ = toy(5)
    series = pd.Series(["n", "s", "n", "s", "n"], index=["D04", "D03", "D02", "D01", "D00"])
    series = series.replace({"n": "s", "s": "n"}).where(series.index != "D00", "n")
    assert list(as_folds(series, bags)) == ["n", "n", "s", "n", "s"]
    assert list(as_folds(series.to_dict(), bags)) == ["n", "n", "s", "n", "s"]
    assert by_label(bags, as_folds(series, bags)) == series.to_dict()
    assert list(as_folds([3, 3, 1, 1, 1], bags)) == [3, 3, 1, 1, 1]
    assert fold_names(as_folds(np.array([3, 3, 10, 1, 1]), bags)) == [1, 3, 10]
    assert fold_names(as_folds(["b", 2, 2, "b", "b"], bags)) == ["b", 2]
    assert sorted(as_folds(2, bags)) == [1, 1, 1, 2, 2]


@pytest.mark.parametrize(
    ("folds", "message"),
    [
        (pd.Series([1, 2], index=["D00", "D01"]), r"`folds` .* lacks bags 'D02', 'D03', 'D04'"),
        (["n", None, "s", "s", "n"], r"`folds` must name a fold for every bag; it is missing for bag 'D01'"),
        ([1.0, 2.0, np.nan, 1.0, 2.0], r"missing for bag 'D02'\. Name one"),
        ([1, 2, 1], r"`folds` must hold one number per bag, 5 in all; got 3"),
        ([7] * 5, r"two folds at least; all 5 bags are in fold 7"),
        (["a", "a", "a", "a", "b"], r"fold 'a' leaves 1 of 5"),
        (6, r"`k` must not exceed the number of bags, 5; got 6"),
        (1, r"`k` must be at least 2 folds; got 1"),
    ],
)
def test_folds_that_cannot_be(folds, message):
    bags, y = toy(5)
    with pytest.raises(ValueError, match=message):
        cross_validate(Known(), bags, y, folds)


def test_places_that_cannot_be():
    bags = vbagg.Bags(np.ones((4, 2)), [1, 2, 3, 4])
    with pytest.raises(ValueError, match=r"Spatial folds need coordinate columns; the columns are 'column 0'"):
        spatial_folds(bags, 2)
    with pytest.raises(ValueError, match=r"Centroids must be a table \(bags, 2\)"):
        spatial_folds(np.ones(4), 2)
    with pytest.raises(ValueError, match=r"centroids must be finite; got nan at row 1, column 0"):
        spatial_folds([[0.0, 1.0], [np.nan, 2.0], [1.0, 1.0]], 2)
    with pytest.raises(ValueError, match=r"`by` must hold one number per bag, 4 in all"):
        random_folds(4, 2, by=[1.0, 2.0])


# Scores of single bags


@pytest.mark.parametrize(("mean", "size"), [(0.3, 1.0), (2.0, 0.5), (30.0, 2.0), (3000.0, 0.8)])
def test_crps_of_counts_is_a_sum(mean, size):
    law = laws.NegativeBinomial(np.full(5, mean), np.full(5, size))
    y = np.floor([0.0, mean / 2, mean, 3 * mean, mean + 4 * law.std[0]])
    y[2] += 0.25  # outputs need not be whole
    k = np.arange(int(60 * mean) + 100)
    F = nbinom.cdf(k, size, size / (size + mean))
    expected = []
    for value in y:
        whole, part = int(value), value % 1
        middle = part * F[whole] ** 2 + (1 - part) * (1 - F[whole]) ** 2
        expected.append(np.sum(F[:whole] ** 2) + middle + np.sum((1 - F[whole + 1 :]) ** 2))
    np.testing.assert_allclose(crps(law, y), expected, rtol=3e-4)


def test_crps_of_continuous_laws_against_closed_forms():
    y = np.array([-2.0, 0.0, 1.5, 40.0])
    expected = [metrics.crps_normal([value], 1.0, 2.0) for value in y]
    np.testing.assert_allclose(crps(laws.Normal(np.ones(4), np.full(4, 2.0)), y), expected, rtol=3e-4)
    s, y = 1.3, np.exp([-3.0, 0.0, 0.5, 4.0])
    z = np.log(y) / s
    expected = y * (2 * ndtr(z) - 1) - 2 * np.exp(s**2 / 2) * (ndtr(z - s) + ndtr(s / np.sqrt(2)) - 1)
    np.testing.assert_allclose(crps(laws.LogNormal(np.zeros(4), np.full(4, s)), y), expected, rtol=1e-3)


def test_scores_of_a_normal_law():
    mean, sd, y = np.array([1.0, -2.0]), np.array([2.0, 0.5]), np.array([4.0, -2.1])
    scores = bag_scores(laws.Normal(mean, sd), y)
    np.testing.assert_allclose(scores["q0.025"], mean - 1.959964 * sd, rtol=1e-6)
    np.testing.assert_allclose(scores["q0.9"], mean + 1.281552 * sd, rtol=1e-6)
    np.testing.assert_allclose(scores["median"], mean)
    np.testing.assert_allclose(scores["log_density"], norm.logpdf(y, mean, sd))
    np.testing.assert_allclose(scores["pit"], [norm.cdf(1.5), norm.cdf(-0.2)])
    np.testing.assert_array_equal(scores["pit_low"], scores["pit_high"])
    np.testing.assert_allclose(scores["absolute_error"], [3.0, 0.1])
    assert [scores[f"inside_{level}"].tolist() for level in (50, 80, 90, 95)] == [[0, 1], [0, 1], [1, 1], [1, 1]]
    np.testing.assert_allclose(scores["mass_80"], 0.8)


def test_scores_of_a_count():
    law, y = laws.NegativeBinomial([2.0], [1.0]), np.array([3.0])  # geometric with odds 2: P(Y <= k) = 1 - (2/3)^(k+1)
    scores = bag_scores(law, y)
    assert scores["pit_low"][0] == pytest.approx(1 - (2 / 3) ** 3)
    assert scores["pit_high"][0] == pytest.approx(1 - (2 / 3) ** 4)
    assert scores["log_density"][0] == pytest.approx(np.log((2 / 3) ** 3 / 3))
    assert (scores["q0.25"][0], scores["median"][0], scores["q0.75"][0]) == (0, 1, 3)
    assert scores["mass_50"][0] == pytest.approx(1 - (2 / 3) ** 4)  # 0 to 3, all below included
    assert scores["inside_50"][0] == 1


# Cross-validation


def test_every_bag_is_predicted_without_its_fold():
    bags, y = toy()
    folds = np.array([1, 2, 3] * 4)
    Known.seen.clear()
    result = cross_validate({"known": Known(sd=30.0)}, bags, y, folds, baselines=None)
    assert [labels for labels, _ in Known.seen] == [[*bags.labels[folds != k]] for k in (1, 2, 3)]
    assert [values for _, values in Known.seen] == [[*y[folds != k]] for k in (1, 2, 3)]
    table = result.table.set_index("bag").loc[list(bags.labels)]
    expected = np.array([y[folds != k].mean() for k in folds])
    np.testing.assert_allclose(table["mean"], expected)
    np.testing.assert_allclose(table["log_density"], norm.logpdf(y, expected, 30.0))
    np.testing.assert_array_equal(table["fold"], folds)
    np.testing.assert_array_equal(table["y"], y)
    np.testing.assert_allclose(table["exposure"], bags.totals())
    assert (result.models, result.n_bags, result.failures, result.notes) == (("known",), 12, [], [])


def test_bags_without_an_output_are_in_no_fold():
    bags, y = toy()
    folds = np.array([1, 2, 3] * 4)
    y[[0, 4, 7]] = np.nan
    seen = np.isfinite(y)
    named = pd.Series(folds, index=bags.labels.tolist()).astype(object).where(seen, None)
    of_seen = {"known": Known(sd=30.0)}, bags[seen], y[seen]
    expected = cross_validate(*of_seen, folds[seen], baselines=None).table
    for given in (folds, named):
        result = cross_validate({"known": Known(sd=30.0)}, bags, y, given, baselines=None)
        pd.testing.assert_frame_equal(result.table, expected)
        assert result.notes == ["3 of 12 bags have no output and are in no fold: bags 'D00', 'D04', 'D07'."]
        assert result.n_bags == 9
    at_random = cross_validate({"known": Known(sd=30.0)}, bags, y, 3, baselines=None)
    pd.testing.assert_frame_equal(at_random.table, cross_validate(*of_seen, 3, baselines=None).table)
    assert at_random.table.groupby("fold").size().tolist() == [3, 3, 3]
    with pytest.raises(ValueError, match=r"must hold the outputs of at least 2 bags; got none for 12 bags"):
        cross_validate({"known": Known(sd=30.0)}, bags, np.full(12, np.nan), folds, baselines=None)


def test_bounds_are_refused():
    bags, y = toy()
    with pytest.raises(ValueError, match=r"`upper` does not go with `cross_validate`, .* take `model\.score\("):
        cross_validate(BagGLM(), bags, y, 3, upper=y + 1)


def test_offsets_follow_the_bags_that_have_an_output():
    bags, y = toy()
    y[[0, 4, 7]] = np.nan
    seen, offset = np.isfinite(y), np.random.default_rng(2).normal(size=bags.n_individuals)
    ours = cross_validate(BagGLM(), bags, y, np.array([1, 2, 3] * 4), offset=offset).table
    there = offset[bags.rows][seen[bags.bag]]
    theirs = cross_validate(BagGLM(), bags[seen], y[seen], np.array([1, 2, 3] * 4)[seen], offset=there).table
    pd.testing.assert_frame_equal(ours, theirs)


def test_real_models_score_as_in_a_loop():
    bags, y = toy()
    folds = random_folds(bags, 3, seed=1)
    result = cross_validate(BagGLM(), bags, pd.Series(y, index=bags.labels).iloc[::-1], folds)
    assert result.models == ("bagglm", "constant")
    for name, make in (("bagglm", BagGLM), ("constant", vbagg.Constant)):
        table = result.table[result.table["model"] == name].set_index("bag").loc[list(bags.labels)]
        for k in (1, 2, 3):
            test = folds == k
            law = make().fit(bags[~test], y[~test]).predictive_bags(bags[test])
            np.testing.assert_allclose(table["log_density"][test], law.log_prob(y[test]))
            np.testing.assert_allclose(table["mean"][test], law.mean)
        assert table["crps"][test].mean() == pytest.approx(metrics.crps(y[test], law, 99), rel=5e-3)
    scores = result.scores()
    assert scores.loc["bagglm", "nll"] < scores.loc["constant", "nll"]


def test_results_do_not_depend_on_the_order_of_rows():
    bags, y = toy(15)
    series = pd.Series(y, index=bags.labels)
    one = cross_validate(BagGLM(), bags, series, random_folds(bags, 3), baselines=None)
    other_bags = shuffled(bags)
    two = cross_validate(BagGLM(), other_bags, series, random_folds(other_bags, 3), baselines=None)
    columns = ["mean", "crps", "pit", "log_density"]
    a, b = (result.table.set_index("bag")[columns].sort_index() for result in (one, two))
    pd.testing.assert_frame_equal(a, b, rtol=1e-6)


def test_folds_one_by_one_and_through_text():
    bags, y = toy()
    folds = ["n", "s", "w"] * 4
    whole = cross_validate(BagGLM(), bags, y, folds)
    texts = [validate_fold(BagGLM(), bags, y, folds, fold).to_json() for fold in ("n", "s", "w")]
    again = Validation(tuple(FoldResult.from_json(text) for text in texts))
    pd.testing.assert_frame_equal(again.table, whole.table)
    assert again.summary() == whole.summary()
    assert set(again.seconds) == {"bagglm", "constant"}
    with pytest.raises(ValueError, match=r"`fold` must be one of `folds`, 'n', 's', 'w'; got 'e'"):
        validate_fold(BagGLM(), bags, y, folds, "e")
    with pytest.raises(ValueError, match=r"Every bag must be in one fold; bag 'D00' is in several"):
        Validation((again.folds[0], again.folds[0]))
    with pytest.raises(ValueError, match="same models; fold 'n' has others"):
        Validation((again.folds[1], validate_fold(Known(), bags, y, folds, "n")))


def test_a_fold_that_fails_is_reported_and_the_rest_goes_on():
    bags, y = toy()
    folds = np.array([1, 2, 3] * 4)  # D01 is in fold 2, and so seen by the fits of folds 1 and 3
    result = cross_validate({"picky": Known(fail="D01"), "plain": Known()}, bags, y, folds)
    assert [(f["fold"], f["model"], f["bags"]) for f in result.failures] == [(1, "picky", 4), (3, "picky", 4)]
    assert result.failures[0]["reason"] == "ValueError: cannot bear D01"
    assert result.scores()["bags"].to_dict() == {"picky": 4, "plain": 12}
    assert "could not be fitted in 2 of 3 folds (ValueError: cannot bear D01): 8 bags have no" in result.summary()


def test_a_model_that_never_fits():
    bags, y = toy()
    result = cross_validate({"broken": Known(sd=-1.0), "plain": Known()}, bags, y, 3)
    assert len(result.failures) == 3
    assert "The model could not be fitted in any fold" in result.summary("districts")
    assert len(result.compare()) == 0
    alone = cross_validate(Known(sd=-1.0), bags, y, 3)
    assert alone.scores()["bags"].tolist() == [0]
    assert len(alone.coverage()) == 0
    assert "12 bags have no prediction by it" in alone.summary()


def test_models_without_a_law_get_scores_that_need_none():
    bags, y = toy()
    result = cross_validate({"point": Point(), "known": Known(sd=50.0)}, bags, y, 4)
    scores = result.scores()
    assert scores.loc["point", "mae"] == pytest.approx(scores.loc["known", "mae"])
    assert scores.loc["point", ["crps", "nll", "coverage_95", "interval_score_50"]].isna().all()
    assert scores.loc["known"].notna().all()
    assert set(result.coverage()["model"]) == {"known"}
    text = result.summary("districts")
    assert "It gives no intervals." in text
    assert "mean error" in text
    with pytest.raises(ValueError, match="Calibration needs predictive laws; 'point' has none"):
        result.pit_histogram()
    assert point_scores(np.array([3.0]), np.array([1.0]))["absolute_error"] == [2.0]


def test_warnings_become_notes_and_foreign_ones_are_issued():
    bags, y = toy()
    result = cross_validate(Known(warn=ConvergenceWarning), bags, y, [1, 2] * 6)
    assert result.notes == ["known, fold 1: a remark", "known, fold 2: a remark"]
    with pytest.warns(RuntimeWarning, match="a remark"):
        cross_validate(Known(warn=RuntimeWarning), bags, y, 2)
    fractional = cross_validate(BagGLM(), bags, y + 0.5, 2)
    assert len(fractional.notes) == 1
    assert "12 of 12 counts (poisson) are not whole numbers" in fractional.notes[0]
    assert issubclass(DataWarning, UserWarning)


def test_trials_go_along_and_make_the_exposure():
    bags, _ = toy(14)
    rng = np.random.default_rng(0)
    trials = pd.Series(rng.integers(5, 60, 14).astype(float), index=bags.labels)
    y = rng.binomial(trials.astype(int), 0.3).astype(float)
    result = cross_validate(BagGLM("binomial"), bags, y, 2, trials=trials.iloc[::-1])
    assert result.unit == 100
    table = result.rates()[lambda t: t["model"] == "constant"].set_index("bag").loc[list(bags.labels)]
    np.testing.assert_allclose(table["y"], 100 * y / trials)
    np.testing.assert_array_equal(table["exposure"], trials)
    assert result.scores()["mae"].between(0, 30).all()
    with pytest.raises(ValueError, match="needs `trials`"):
        cross_validate(BagGLM("binomial"), bags, y, 4)
    with pytest.raises(ValueError, match="goes with likelihood 'binomial'"):
        cross_validate(BagGLM("poisson"), bags, y, 4, trials=trials)


def test_bags_without_trials_have_no_rate():
    bags, _ = toy(10)
    trials = np.array([0.0, *[20.0] * 9])
    result = cross_validate(vbagg.Constant("binomial"), bags, trials / 4, 2, trials=trials, baselines=None)
    assert result.scores()["bags"].tolist() == [9]
    assert len(result.table) == 10


def test_an_offset_goes_to_those_that_take_it():
    bags, _ = toy(30)
    rng = np.random.default_rng(1)
    offset = rng.normal(0, 1.5, bags.n_individuals)
    y = rng.poisson(bags.sum_by_bag(bags.weight * np.exp(offset))).astype(float)
    folds = random_folds(bags, 3)
    result = cross_validate(BagGLM(), bags, y, folds, offset=offset)
    assert result.notes == ["constant has no offset: it takes none, or has another link."]
    table = result.table[result.table["model"] == "bagglm"].set_index("bag").loc[list(bags.labels)]
    rows = offset[(folds == 2)[bags.bag]]
    train = offset[(folds != 2)[bags.bag]]
    model = BagGLM().fit(bags[folds != 2], y[folds != 2], offset=train)
    np.testing.assert_allclose(table["mean"][folds == 2], model.predict(bags[folds == 2], offset=rows), rtol=1e-9)
    scores = result.scores()
    assert scores.loc["bagglm", "crps"] < 0.3 * scores.loc["constant", "crps"]
    squared = cross_validate({"squared": Squared(), "glm": BagGLM()}, bags, y, folds, offset=offset)
    assert squared.notes == ["glm has no offset: it takes none, or has another link."]
    plain = squared.table[squared.table["model"] == "glm"]["mean"]
    np.testing.assert_allclose(
        plain[plain.index[:3]], BagGLM().fit(bags[folds != 1], y[folds != 1]).predict(bags[folds == 1])[:3]
    )


def test_default_baselines_share_the_likelihood():
    likelihood = vbagg.likelihoods.NegativeBinomial(dispersion=0.4)
    baselines = default_baselines(vbagg.VBAgg(likelihood, "exp"))
    assert list(baselines) == ["constant", "glm"]
    assert all(model.likelihood is likelihood for model in baselines.values())
    assert list(default_baselines(BagGLM())) == ["constant"]
    assert default_baselines(Known()) == {}


def test_progress_counts_fits():
    bags, y = toy()
    seen = []
    cross_validate(BagGLM(), bags, y, 2, progress=seen.append)
    fits = [entry for entry in seen if "model" in entry]
    assert [(entry["done"], entry["of"]) for entry in fits] == [(0, 4), (1, 4), (2, 4), (3, 4)]
    assert [entry["model"] for entry in fits] == ["bagglm", "constant"] * 2
    folds = [entry for entry in seen if "finished" in entry]
    assert [(entry["done"], entry["of"]) for entry in folds] == [(2, 4), (4, 4)]
    assert all(entry["seconds"] > 0 for entry in folds)


def test_vbagg_is_validated_like_any_model():
    bags, y = toy(14)
    kernel = vbagg.kernels.RBF(("rain",), variance=1.0, lengthscale=1.0, fixed=("variance", "lengthscale"))
    model = vbagg.VBAgg("normal", "identity", kernel=kernel, landmarks=4, inference=vbagg.Newton(starts=1))
    result = cross_validate(model, bags, y, [1, 2] * 7)
    assert result.models == ("vbagg", "constant", "glm")
    assert result.scores()["bags"].tolist() == [14, 14, 14]
    assert np.isfinite(result.scores().to_numpy()).all()


def test_what_is_refused_before_any_fit():
    bags, y = toy()
    with pytest.raises(TypeError, match=r"`bags` must be a vbagg\.Bags"):
        cross_validate(Known(), bags.X, y)
    with pytest.raises(TypeError, match=r"models such as vbagg\.VBAgg\(\); got 3 for 'three'"):
        cross_validate({"three": 3}, bags, y)
    with pytest.raises(ValueError, match="one model at least"):
        cross_validate({}, bags, y)
    with pytest.raises(ValueError, match=r"`baselines` must be 'default', None or models by name; got 'all'"):
        cross_validate(Known(), bags, y, baselines="all")
    with pytest.raises(ValueError, match="distinct labels"):
        cross_validate(Known(), bags[[0, 0, 1, 2]], y[[0, 0, 1, 2]], 2)
    with pytest.raises(ValueError, match="must not be negative"):
        cross_validate(BagGLM(), bags, -1 - y)
    with pytest.raises(ValueError, match=r"`y` must be finite or missing; got inf for bag 'D03'"):
        cross_validate(Known(), bags, np.where(np.arange(12) == 3, np.inf, y))
    with pytest.raises(ValueError, match=r"`per` must be positive; got 0"):
        cross_validate(Known(), bags, y, 2, per=0)


# Tables


def made(y, exposure=None, likelihood="normal", per=None, n_folds=1, **predicted):
    """A validation of normal predictions (mean, sd), or of points, by model."""
    y = np.asarray(y, dtype=float)
    exposure = np.ones(len(y)) if exposure is None else np.asarray(exposure, dtype=float)
    fold = np.arange(len(y)) % n_folds
    results = []
    for k in range(n_folds):
        at, tables = fold == k, []
        for name, (mean, sd) in predicted.items():
            own = np.broadcast_to(np.asarray(mean, dtype=float), y.shape)[at]
            law = laws.Normal(own, np.broadcast_to(np.asarray(sd, dtype=float), y.shape)[at])
            known = {"bag": np.flatnonzero(at), "y": y[at], "exposure": exposure[at]}
            tables.append(pd.DataFrame({"model": name, "fold": k, **known, **bag_scores(law, y[at])}))
        results.append(FoldResult(k, tuple(predicted), likelihood, int(at.sum()), pd.concat(tables)))
    return Validation(tuple(results), per)


def test_scores_by_hand():
    y, w = np.array([2.0, 6.0, 16.0]), np.array([1.0, 2.0, 4.0])
    mean, sd = np.array([3.0, 4.0, 14.0]), np.array([1.0, 2.0, 4.0])
    scores = made(y, w, model=(mean, sd)).with_unit(10.0).scores().loc["model"]
    assert scores["mae"] == pytest.approx(10 * (1 + 1 + 0.5) / 3)
    assert scores["rmse"] == pytest.approx(10 * np.sqrt((1 + 1 + 0.25) / 3))
    assert scores["log_rmse"] == pytest.approx(np.sqrt(np.mean(np.log(y / mean) ** 2)))
    assert scores["nll"] == pytest.approx(-norm.logpdf(y, mean, sd).mean())
    crps_by_hand = [metrics.crps_normal([value], m, s) for value, m, s in zip(y, mean, sd, strict=True)]
    assert scores["crps"] == pytest.approx(np.mean(10 * np.array(crps_by_hand) / w), rel=3e-4)
    assert scores["correlation"] == pytest.approx(np.corrcoef(y / w, mean / w)[0, 1])
    assert scores["rank_correlation"] == pytest.approx(0.5)  # ranks 1, 2, 3 against 2, 1, 3
    half = 0.67449 * sd
    misses = np.maximum(np.abs(y - mean) - half, 0)
    assert scores["coverage_50"] == pytest.approx(np.mean(misses == 0))
    assert scores["interval_score_50"] == pytest.approx(np.mean(10 / w * (2 * half + 4 * misses)), rel=1e-5)


def test_log_errors_add_half_a_case_to_counts_alone():
    y, mean = np.array([0.0, 9.0]), np.array([1.5, 4.5])
    counts = made(y, likelihood="poisson", model=(mean, 1.0)).scores()
    assert counts.loc["model", "log_rmse"] == pytest.approx(np.sqrt((np.log(4) ** 2 + np.log(1.9) ** 2) / 2))
    assert np.isnan(made(y, model=(mean, 1.0)).scores().loc["model", "log_rmse"])


def test_units_of_rates():
    for rate, unit in ((3.0, 1), (0.05, 1e3), (2e-5, 1e5), (2e-6, 1e6), (1e-9, 1e6)):
        y = rate * np.array([1e9, 3e9])
        assert made(y, [1e9, 3e9], "poisson", model=(y, 1.0)).unit == unit
    assert made([0.001, 0.002], model=([0.0, 0.0], 1.0)).unit == 1
    assert made([0.0, 0.0], likelihood="poisson", model=([1.0, 1.0], 1.0)).unit == 1
    assert made([1.0], per=7.0, model=([0.0], 1.0)).unit == 7


def test_chance_band():
    for n, p in ((109, 0.95), (40, 0.5), (7, 0.8)):
        expected = binom.ppf([0.025, 0.975], n, p) / n
        np.testing.assert_allclose(chance_band(np.full(n, p)), expected)
    p, law = np.array([0.2, 0.9, 0.55, 0.7]), np.zeros(5)
    for outcome in product((0, 1), repeat=4):
        law[sum(outcome)] += np.prod([q if hit else 1 - q for q, hit in zip(p, outcome, strict=True)])
    below = np.cumsum(law)
    expected = [next(k for k in range(5) if below[k] >= q) / 4 for q in (0.025, 0.975)]
    np.testing.assert_allclose(chance_band(p), expected)


def test_coverage_is_judged_against_chance():
    y = norm.ppf((np.arange(200) + 0.5) / 200)
    table = made(y, right=(0.0, 1.0), narrow=(0.0, 0.5), wide=(0.0, 2.0)).coverage().set_index(["model", "level"])
    assert table.loc[("right", 0.8), "coverage"] == pytest.approx(0.8, abs=0.006)
    assert table.loc[("narrow", 0.95), "coverage"] == pytest.approx(2 * norm.cdf(0.98) - 1, abs=0.006)
    assert set(table.loc["right", "judgement"]) == {"as expected"}
    assert set(table.loc["narrow", "judgement"]) == {"too narrow"}
    assert set(table.loc["wide", "judgement"]) == {"too wide"}
    np.testing.assert_allclose(table.loc[("right", 0.9), ["low", "high"]], binom.ppf([0.025, 0.975], 200, 0.9) / 200)


def test_comparison_bag_by_bag():
    y = np.array([1.0, 5.0, 2.0, 8.0, 3.0, 9.0, 4.0])
    shift = np.array([0.1, -0.4, 0.2, 0.9, -1.4, 0.3, 0.6])
    result = made(y, model=(y + shift, 1.0), other=(y + 1.0, 1.0), same=(y + shift, 1.0))
    own, other = (np.array([metrics.crps_normal([0.0], m, 1.0) for m in means]) for means in (shift, np.ones(7)))
    row = result.compare().loc["other"]
    difference = own - other
    assert row["mean_difference"] == pytest.approx(difference.mean(), rel=1e-3)
    assert row["std_error"] == pytest.approx(difference.std(ddof=1) / np.sqrt(7), rel=1e-3)
    assert (row["pairs"], row["better"]) == (7, 6)
    assert row["p_better"] == pytest.approx(wilcoxon(difference, alternative="less").pvalue)
    assert row["p_worse"] == pytest.approx(wilcoxon(difference, alternative="greater").pvalue)
    reverse = result.compare("absolute_error", reference="other").loc["model"]
    assert (reverse["better"], reverse["score"]) == (1, pytest.approx(1.0))
    assert reverse["other_score"] == pytest.approx(np.abs(shift).mean())
    equal = result.compare("nll").loc["same"]
    assert (equal["mean_difference"], equal["better"], equal["p_better"]) == (0, 0, 1)
    with pytest.raises(ValueError, match=r"`score` must be one of 'crps', 'nll', 'absolute_error'; got 'r2'"):
        result.compare("r2")
    with pytest.raises(ValueError, match=r"`model` must be one of 'model', 'other', 'same'; got 'mine'"):
        result.compare(reference="mine")


def test_comparison_takes_bags_that_both_predict():
    y = np.arange(8.0)
    result = made(y, model=(y, 1.0), other=(y + 1, 1.0))
    table = result.folds[0].table
    part = FoldResult(0, ("model", "other"), "normal", 8, table[(table["model"] == "model") | (table["bag"] > 1)])
    row = Validation((part,)).compare().loc["other"]
    assert (row["pairs"], row["better"]) == (6, 6)


def test_pit_histogram_spreads_counts_over_their_jump():
    table = pd.DataFrame({"model": "model", "fold": 0, "bag": ["a", "b"], "y": 1.0, "exposure": 1.0, "crps": 1.0})
    table = table.assign(log_density=0.0, mean=1.0, median=1.0, pit_low=[0.1, 0.75], pit_high=[0.5, 0.75])
    result = Validation((FoldResult(0, ("model",), "poisson", 2, table),))
    histogram = result.pit_histogram(bins=4)
    # bag a: 0.15/0.4 below a quarter and the rest below a half; bag b: all at 0.75
    np.testing.assert_allclose(histogram["share"], [0.1875, 0.3125, 0.5, 0.0])
    np.testing.assert_allclose(histogram[["left", "right", "expected"]].iloc[1], [0.25, 0.5, 0.25])
    curve = result.reliability().set_index("level")["coverage"]
    np.testing.assert_allclose(curve.iloc[[9, 11]], [(0.25 / 0.4 + 1) / 2, (0.3 / 0.4 + 1) / 2])
    with pytest.raises(ValueError, match="`bins` must be at least 1; got 0"):
        result.pit_histogram(bins=0)


def test_reliability_agrees_with_coverage_of_continuous_laws():
    y = np.random.default_rng(2).normal(size=60)
    result = made(y, model=(0.2, 1.5), other=(0.0, 1.0))
    curve = result.reliability("model").set_index("level")
    table = result.coverage().set_index(["model", "level"])
    for level in (0.5, 0.8, 0.9, 0.95):
        row = curve.iloc[round(20 * level) - 1]
        np.testing.assert_allclose(row, table.loc[("model", level), ["coverage", "low", "high"]].astype(float))


# The verdict


def outputs(n=60, seed=0):
    return np.random.default_rng(seed).normal(50, 10, n)


def test_verdict_on_a_good_model():
    y = outputs()
    noise = np.random.default_rng(1).normal(0, 3, 60)
    result = made(y, n_folds=5, model=(y + noise, 3.0), constant=(50.0, 10.0), glm=(y + 2 * noise, 6.0))
    text = result.summary("districts", unit="per km")
    row = result.compare().loc["constant"]
    start = (
        "Each of 60 districts was predicted without its data, in 5 folds. The model predicts unseen districts better"
    )
    assert text.startswith(f"{start} than one constant rate (CRPS {row['score']:.3g} against {row['other_score']:.3g} ")
    assert f"per km, better in {row['better']:.0f} of 60 districts, p < 0.001)." in text
    assert "better than a regression on averages over districts (CRPS" in text
    share = result.coverage().set_index(["model", "level"]).loc[("model", 0.95), "coverage"]
    assert f"Its 95% intervals held {share:.0%} of the values of unseen districts (chance allows " in text
    assert "That is what such intervals should hold, as far as 60 districts can show." in text
    assert "NOT" not in text
    assert "correlate at 0.9" in text


def test_verdict_on_models_that_are_not_better():
    y, noise = outputs(), np.random.default_rng(1).normal(0, 8, 60)
    same = made(y, model=(y + noise, 8.0), glm=(y - noise + 0.01, 8.0)).summary("districts")
    assert "The model is NOT" in same
    assert "better than a regression on averages over districts" in same
    worse = made(y, model=(y + 20, 8.0), constant=(50.0, 10.0)).summary("districts")
    assert "The model predicts unseen districts worse than one constant rate (CRPS " in worse
    assert "p < 0.001 that it is worse)" in worse
    error = np.where(np.arange(60) < 5, 300.0, 1.0)
    few_far_off = made(y, model=(y + error, 8.0), constant=(y + 15.0, 8.0)).summary()
    assert "NOT better than one constant rate on average, though in most bags: a few are far off" in few_far_off
    few_close = made(y, model=(y + 15.0, 8.0), constant=(y + error, 8.0)).summary()
    assert "NOT better than one constant rate in most bags, though on average" in few_close


def test_verdict_on_intervals():
    y = outputs(200)
    errors = 4 * norm.ppf((np.arange(200) + 0.5) / 200)
    narrow, wide, right = (made(y, model=(y + errors, sd)).summary(outputs="rates") for sd in (1.5, 9.0, 4.0))
    assert "The 95% and 50% intervals are too narrow, beyond chance: the uncertainty is larger than they say." in narrow
    assert "The 95% and 50% intervals are too wide, beyond chance: the uncertainty is smaller than they say." in wide
    assert "Its 95% intervals held 95% of the rates of unseen bags (chance allows 92% to 98%)" in right
    assert "and its 50% intervals held 50% of the rates of unseen bags (chance allows 43% to 57%)" in right
    heavy = made(y, model=(y + np.where(np.abs(errors) > 5, 10 * errors, errors / 20), 4.0)).summary()
    assert "The 95% intervals are too narrow" in heavy
    assert "The 50% intervals are too wide" in heavy


def test_verdict_on_too_few_bags():
    y = outputs(8)
    text = made(y, model=(y, 1.0), constant=(50.0, 10.0)).summary("districts")
    assert "8 districts are too few to tell whether a model is good" in text
    assert "Whether the model predicts unseen districts better than one constant rate cannot be told (CRPS" in text
    assert "should hold" not in text
    assert "too wide" not in text
    tiny = made(y[:3], model=(y[:3], 1.0), constant=(50.0, 10.0)).summary()
    assert "better in 3 of 3 bags)." in tiny
    y = outputs(20)
    assert "With only 20 bags the figures are rough." in made(y, model=(y, 1.0)).summary()


# Real data


def test_madagascar():
    try:
        data = vbagg.datasets.madagascar()
    except FileNotFoundError as error:
        pytest.skip(str(error))
    result = cross_validate(BagGLM("negative_binomial"), data.bags, data.cases, data.folds)
    scores = result.scores()
    assert result.unit == 1000
    assert scores.loc["constant", "crps"] == pytest.approx(42.61, abs=0.05)
    assert scores.loc["bagglm", "crps"] == pytest.approx(34.76, abs=0.05)
    assert scores.loc["bagglm", "coverage_95"] == pytest.approx(101 / 109)
    text = result.summary("districts")
    assert "predicts unseen districts better than one constant rate (CRPS 34.8 against 42.6, better in" in text
    assert len(result.notes) == 1
