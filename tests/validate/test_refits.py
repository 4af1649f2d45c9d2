"""Recovery: refits to outputs of known truths, beside closed forms, plain loops, and what must not change."""

import json
from dataclasses import replace

import jax
import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.base import clone

import vbagg
from vbagg.bags import Bags
from vbagg.inference import Newton
from vbagg.likelihoods import Normal
from vbagg.models.outputs import GivenOutputs
from vbagg.validate import Recovery, Refit, recovery
from vbagg.validate.bag_scores import LEVELS
from vbagg.validate.recovered import MEASURES
from vbagg.validate.refits import hidden_alike, some_of

TAU = 0.09


def made_bags(seed, n=12, largest=7, scale=1.0):
    rng = np.random.default_rng(seed)
    label = rng.permutation(np.repeat([f"b{k}" for k in range(n)], rng.integers(2, largest, n)))
    X = pd.DataFrame({"wet": rng.normal(2.0, 1.5, len(label)), "height": rng.normal(-30.0, 8.0, len(label))})
    return Bags(X, label, rng.gamma(2.0, 0.5 * scale, len(label))), rng


@pytest.fixture(scope="module")
def normal():
    """A Normal model with nothing to learn but the function, each individual a landmark."""
    bags, rng = made_bags(0)
    f = np.sin(1.3 * bags.X[:, 0]) + (bags.X[:, 1] + 30) / 8
    y = bags.sum_by_bag(bags.weight * (2 + f)) + rng.normal(0, 0.3, len(bags)) * np.sqrt(bags.weight_squares())
    fixed = {"variance": 1.2, "fixed": ("variance", "lengthscale")}
    kernel = vbagg.kernels.RBF(lengthscale=0.8, **fixed) + vbagg.kernels.White(variance=0.1, fixed="variance")
    model = vbagg.VBAgg(Normal(tau=TAU), "identity", kernel=kernel, landmarks=bags.X, hyper="point", priors=None)
    return model.fit(bags, y), bags, y


class Known:
    """Prior and posterior of the individuals of the Normal model, by dense matrices in the user's units."""

    def __init__(self, model, bags, y):
        frame, (member,) = model._fitted.frame, model._fitted.members
        scale, n = frame.rate_scale, bags.n_individuals
        with jax.enable_x64(True):
            X, feature_map = frame.scaler.forward(bags.X), member.spec.feature_map
            parts = zip(feature_map.components, member.parameters.kernel, strict=True)
            K = feature_map.mean_sd**2 + sum(np.asarray(c.within(p, X)) for c, p in parts)
        self.U = (np.arange(len(bags))[:, None] == bags.bag) * bags.weight
        self.noise = TAU * np.diag(bags.weight_squares())
        self.prior = np.full(n, scale * frame.base)
        K = scale**2 * K
        self.gain = np.linalg.solve(self.U @ K @ self.U.T + self.noise, self.U @ K).T
        self.mean = self.prior + self.gain @ (y - self.U @ self.prior)
        self.C = K - self.gain @ self.U @ K


def test_closed_forms_of_a_normal_model(normal):
    """Truths from the posterior, estimates from the prior and new outputs: both are Gaussian, and so is their distance.

    An estimate is off by `-(I - G U) (f - prior) + G e`, the bag's own rate by `(U f + e) / w - f`.
    """
    model, bags, y = normal
    known, n = Known(model, bags, y), bags.n_individuals
    left, noise, w = np.eye(n) - known.gain @ known.U, known.noise, bags.weight
    shift = -left @ (known.mean - known.prior)
    variance = np.diag(left @ known.C @ left.T + known.gain @ noise @ known.gain.T)
    own = (known.U / known.U.sum(axis=1, keepdims=True))[bags.bag] - np.eye(n)
    second = known.C + np.outer(known.mean, known.mean)
    per_weight = np.diag(noise) / bags.totals() ** 2
    by_output = np.diag(own @ second @ own.T) + per_weight[bags.bag]
    by_mean = np.diag(own @ second @ own.T)
    found = recovery(model, bags, y, refits=60, progress=False)
    assert not found.failures
    table = found.table()
    assert len(table) == 60 * len(bags)
    sums = table[["unexplained", "of_outputs", "of_means"]].groupby(table["refit"]).sum()
    for column, expected in zip(sums, (w @ (shift**2 + variance), w @ by_output, w @ by_mean), strict=True):
        error = sums[column].std() / np.sqrt(60)
        assert abs(sums[column].mean() - expected) < 4 * error
        assert error < 0.12 * expected
    share = 1 - w @ (shift**2 + variance) / (w @ by_output)
    assert 0.3 < share < 0.9
    pooled = 1 - sums["unexplained"].sum() / sums["of_outputs"].sum()
    assert pooled == pytest.approx(share, abs=0.06)
    assert found.r2_within == pytest.approx(share, abs=0.1)
    sd, spread = np.sqrt(np.diag(known.C)), np.sqrt(variance)
    summary = found.summary()
    for level in LEVELS:
        reach = norm.ppf((1 + level) / 2) * sd
        inside = norm.cdf((reach - shift) / spread) - norm.cdf((-reach - shift) / spread)
        mean, error = summary.loc[f"coverage_{round(100 * level)}", ["mean", "std_error"]]
        assert abs(mean - np.average(inside, weights=w)) < 4 * error
        assert error < 0.03


@pytest.fixture(scope="module")
def counts():
    """A negative binomial model with offsets, incomplete reports and people counted with errors."""
    bags, rng = made_bags(4, n=30, scale=20.0)
    f = 0.4 * (bags.X[:, 0] - 2) + np.sin(bags.X[:, 1] / 8)
    offset = rng.normal(0, 0.3, bags.n_individuals)
    told = {"completeness": rng.uniform(0.4, 1, 30), "weight_sd": rng.uniform(0.05, 0.2, 30)}
    stored = offset[bags.rows]
    mean = told["completeness"] * bags.sum_by_bag(bags.weight * np.exp(f + stored)) * rng.gamma(10, 0.1, 30)
    y = rng.poisson(mean).astype(float)
    y[[2, 11]] = np.nan
    given = {"offset": offset, **told}
    model = vbagg.VBAgg("negative_binomial", landmarks=12).fit(bags, y, **given)
    return model, bags, y, given


def test_columns_are_sums_over_the_individuals_of_each_bag(counts):
    """Of one refit, done again by hand: its truth, its outputs, its model."""
    model, bags, y, given = counts
    found = recovery(model, bags, y, refits=1, seed=3, progress=False, **given)
    assert not found.failures
    (refit,) = found.refits
    seed = int(np.random.default_rng([3, 1]).integers(2**31))
    (rates,), (drawn,) = model.simulate(bags, seed=seed, **given)
    drawn = np.where(np.isnan(y), np.nan, drawn)
    fresh = clone(model).set_params(inference=Newton(rough=True, max_iterations=12))
    fresh.fit(bags, drawn, start=model, progress=False, **given)
    law = fresh.posterior(bags, given["offset"])
    low, high = law.interval(0.8)
    rows = refit.table.set_index("bag")
    assert sorted(rows.index) == sorted(bags.labels[~np.isnan(y)])
    for a, label in enumerate(bags.labels):
        if np.isnan(y[a]):
            continue
        squares, mean = np.zeros(2), 0.0
        inside = score = 0.0
        at = np.flatnonzero(bags.bag == a)
        w = bags.weight[at]
        told = np.array([np.mean(np.sqrt([law.quantile(q)[i] for q in (np.arange(40) + 0.5) / 40])) for i in at])
        true = np.sqrt(rates[at])
        apart = [values - np.average(values, weights=w) for values in (true - told, true)]
        own = drawn[a] / given["completeness"][a] / w.sum()
        for i, weight in zip(at, w, strict=True):
            squares += weight * (np.array([law.mean[i], own]) - rates[i]) ** 2
            mean += weight * (rates[i] - np.average(rates[at], weights=w)) ** 2
            miss = max(low[i] - rates[i], 0) + max(rates[i] - high[i], 0)
            inside += weight * (miss == 0) / w.sum()
            score += weight * (high[i] - low[i] + 10 * miss) / w.sum()
        expected = {"weight": w.sum(), "unexplained": squares[0], "of_outputs": squares[1], "of_means": mean}
        expected |= {"coverage_80": inside, "interval_score_80": score}
        expected |= {"differences_left": w @ apart[0] ** 2, "differences": w @ apart[1] ** 2}
        for name, value in expected.items():
            assert rows.at[label, name] == pytest.approx(value, rel=1e-6), name
    measures = found.summary()["mean"]
    assert measures["r2_within"] == pytest.approx(1 - rows["unexplained"].sum() / rows["of_outputs"].sum())
    assert measures["r2_of_means"] == pytest.approx(1 - rows["unexplained"].sum() / rows["of_means"].sum())
    assert found.skill == pytest.approx(1 - rows["differences_left"].sum() / rows["differences"].sum())
    assert measures["coverage_80"] == pytest.approx(np.average(rows["coverage_80"], weights=rows["weight"]))
    assert measures["r2_within"] > 0.2
    assert "2 bags without an output" in found.notes[0]


def test_finished_refits_are_not_made_again_and_do_not_depend_on_their_number(counts, tmp_path):
    model, bags, y, given = counts
    told = []
    two = recovery(model, bags, y, refits=2, keep=tmp_path, progress=told.append, **given)
    three = recovery(model, bags, y, refits=3, keep=tmp_path, progress=told.append, **given)
    ended = [(entry["finished"], entry.get("kept", False)) for entry in told if "finished" in entry]
    assert ended == [(1, False), (2, False), (1, True), (2, True), (3, False)]
    assert [entry["refit"] for entry in told if "refit" in entry] == [1, 2, 3]
    for before, after in zip(two.refits, three.refits, strict=False):
        pd.testing.assert_frame_equal(before.table, after.table, check_exact=True)
    assert not three.refits[0].table.equals(three.refits[1].table)
    told.clear()
    recovery(model, bags, y, refits=1, seed=1, keep=tmp_path, progress=told.append, **given)
    recovery(model, bags, y, refits=1, seed=0, keep=tmp_path, progress=told.append, **given | {"weight_sd": 0.1})
    assert not any("kept" in entry for entry in told)


def test_a_refit_that_fails_is_told_and_not_kept(counts, tmp_path, monkeypatch):
    model, bags, y, given = counts
    simulate = type(model).simulate

    def unlucky(self, *arguments, **options):
        if unlucky.calls == 0:
            unlucky.calls += 1
            raise MemoryError("no memory")
        return simulate(self, *arguments, **options)

    unlucky.calls = 0
    monkeypatch.setattr(type(model), "simulate", unlucky)
    found = recovery(model, bags, y, refits=2, keep=tmp_path, progress=False, **given)
    assert found.failures == {1: "MemoryError: no memory"}
    assert list(found.summary().columns) == ["mean", "std_error", "refit_2"]
    assert np.isnan(found.summary()["std_error"]).all()
    assert len(list(tmp_path.glob("refit-*.json"))) == 1
    assert "1 of 2 refits failed: MemoryError: no memory" in str(found)


@pytest.mark.slow
def test_binomial_rates_are_those_of_the_examined():
    bags, rng = made_bags(6, n=25)
    p = 1 / (1 + np.exp(-0.6 * (bags.X[:, 0] - 2)))
    trials = rng.integers(20, 90, 25).astype(float)
    y = rng.binomial(trials.astype(int), bags.sum_by_bag(bags.weight * p) / bags.totals()).astype(float)
    y[4], trials[4] = np.nan, np.nan
    model = vbagg.VBAgg("binomial", landmarks=10, hyper="point").fit(bags, y, trials)
    found = recovery(model, bags, y, trials, refits=2, progress=False)
    assert not found.failures
    drawn = model.simulate(bags, np.where(np.isnan(trials), 1, trials), seed=9)
    own = (drawn.outputs[0] / trials)[bags.bag]
    error = np.nansum(bags.weight * (own - drawn.rates[0]) ** 2)
    ratio = found.table().groupby("refit")["of_outputs"].sum() / error
    assert ratio.between(0.4, 2.5).all()
    assert 0.5 < found.coverage(0.9) <= 1


def given_outputs(y, upper):
    y, upper = np.array(y, float), np.array(upper, float)
    return GivenOutputs(np.arange(len(y)), y, np.where(np.isnan(upper), y, upper), None)


def test_outputs_are_hidden_by_the_bounds_of_their_own_bag():
    """Where they differ: the first is hidden by 1 to 4, the second by 0 to 9; what was told stays told."""
    given = given_outputs([1, 0, 3, np.nan, 7], [4, 9, np.nan, np.nan, np.nan])
    found = hidden_alike(np.array([4.0, 10.0, 2.0, 3.0, 0.0]), given)
    np.testing.assert_array_equal(found.y, [1, 10, 2, np.nan, 0])
    np.testing.assert_array_equal(found.hidden, [True, False, False, False, False])
    assert found.upper[0] == 4


def test_bounds_that_all_hidden_outputs_have_are_a_rule():
    given = given_outputs([1, 1, 30, np.nan, 7], [4, 4, np.nan, np.nan, np.nan])
    found = hidden_alike(np.array([5.0, 2.0, 4.0, 3.0, 0.0]), given)
    np.testing.assert_array_equal(found.y, [5, 1, 1, np.nan, 0])
    np.testing.assert_array_equal(found.upper, [5, 4, 4, np.nan, 0])
    np.testing.assert_array_equal(given.y[:3], [1, 1, 30])


@pytest.mark.slow
def test_suppressed_counts_are_refitted_as_such_and_not_scored():
    bags, rng = made_bags(7, n=30)
    y = rng.poisson(3 * bags.sum_by_bag(bags.weight * np.exp(0.4 * (bags.X[:, 0] - 2)))).astype(float)
    upper = np.where((y >= 1) & (y <= 4), 4.0, np.nan)
    y = np.where(np.isnan(upper), y, 1.0)
    assert 3 < np.isfinite(upper).sum() < 15
    model = vbagg.VBAgg("poisson", landmarks=8, hyper="point").fit(bags, y, upper=upper)
    found = recovery(model, bags, y, upper=upper, refits=2, progress=False)
    assert not found.failures
    for refit in found.refits:
        (drawn,) = model.simulate(bags, seed=int(np.random.default_rng([0, refit.number]).integers(2**31))).outputs
        shown = bags.labels[(drawn < 1) | (drawn > 4)]
        assert list(refit.table["bag"]) == list(shown)
    assert any("hidden" in note for note in found.notes)


def test_bags_of_all_sizes_are_scored_where_there_are_too_many_rows(monkeypatch):
    sizes = np.random.default_rng(0).permutation(np.arange(1, 41))
    np.testing.assert_array_equal(some_of(sizes), np.arange(40))
    monkeypatch.setattr("vbagg.validate.refits.MOST_ROWS", 300)
    chosen = some_of(sizes)
    np.testing.assert_array_equal(np.sort(sizes[chosen]), [2, 5, 8, 11, 14, 17, 20, 23, 26, 29, 32, 35, 38])
    assert (np.diff(chosen) > 0).all()
    np.testing.assert_array_equal(some_of(np.array([5000])), [0])


def test_some_bags_alone_are_scored(counts, monkeypatch):
    model, bags, y, given = counts
    whole = recovery(model, bags, y, refits=1, progress=False, **given).table().set_index("bag")
    monkeypatch.setattr("vbagg.validate.refits.MOST_ROWS", 40)
    some = recovery(model, bags, y, refits=1, progress=False, **given)
    table = some.table().set_index("bag")
    assert 3 < len(table) < 12
    pd.testing.assert_frame_equal(table, whole.loc[table.index], rtol=1e-4)
    assert any(f"{len(table)} of 28 bags" in note for note in some.notes)


def refit(number, unexplained, weight=(1.0, 3.0), failure=""):
    columns = {name: [0.5, 0.9] for name in MEASURES[3:]}
    columns |= {"differences_left": [1.0, number], "differences": [3.0, 2.0]}
    table = pd.DataFrame({"bag": ["a", "b"], "weight": weight, "unexplained": unexplained})
    return Refit(number, table.assign(of_outputs=[4.0, 6.0], of_means=[2.0, 6.0], **columns), 1.5, failure)


def test_summary_is_the_mean_over_refits_with_its_error():
    found = Recovery((refit(1, [1.0, 2.0]), refit(2, [3.0, 4.0])), per=100.0)
    summary = found.summary()
    np.testing.assert_allclose(summary.loc["r2_within", ["refit_1", "refit_2"]].astype(float), [0.7, 0.3])
    assert found.r2_within == pytest.approx(0.5)
    assert summary.at["r2_within", "std_error"] == pytest.approx(np.std([0.7, 0.3], ddof=1) / np.sqrt(2))
    assert summary.at["r2_of_means", "mean"] == pytest.approx(1 - 5 / 8)
    assert found.skill == pytest.approx(1 - 2.5 / 5)
    assert found.coverage(0.9) == pytest.approx((0.5 + 3 * 0.9) / 4)
    assert summary.at["interval_score_90", "mean"] == pytest.approx(100 * 0.8)
    by_bag = found.by_bag().set_index("bag")
    assert by_bag.at["a", "r2_within"] == pytest.approx(1 - 4 / 8)
    assert by_bag.at["b", "r2_of_means"] == pytest.approx(1 - 6 / 12)
    assert by_bag.at["b", "interval_score_50"] == pytest.approx(90)
    assert by_bag.at["a", "refits"] == 2
    assert found.seconds == 3.0
    with pytest.raises(ValueError, match="`level` must be one of"):
        found.coverage(0.7)


def test_results_come_back_from_their_text():
    found = Recovery((refit(1, [1.0, 2.0]), refit(2, [3.0, 4.0])), 1000.0, ("A note.",))
    text = found.to_json()
    again = Recovery.from_json(text)
    pd.testing.assert_frame_equal(again.table(), found.table())
    assert (again.per, again.notes, again.seconds) == (found.per, found.notes, found.seconds)
    told = json.loads(text)["summary"]["r2_within"]
    assert told == {"mean": pytest.approx(0.5), "std_error": pytest.approx(0.2)}
    alone = Recovery((refit(1, [1.0, 2.0]),))
    assert json.loads(alone.to_json(), parse_constant=pytest.fail)["summary"]["r2_within"]["std_error"] is None
    damaged = json.loads(text)
    damaged["refits"][0]["table"]["weight"] = ["much", "more"]
    with pytest.raises(ValueError, match="'weight' of a refit must hold numbers"):
        Recovery.from_json(json.dumps(damaged))
    labelled = replace(refit(1, [1.0, 2.0]), table=refit(1, [1.0, 2.0]).table.assign(bag=[object(), object()]))
    with pytest.raises(ValueError, match="Labels of bags must be text or numbers"):
        labelled.to_json()


def test_sentences_say_what_is_recovered_and_what_is_not():
    good = Recovery((refit(1, [1.0, 2.0]), refit(2, [3.0, 4.0])), notes=("A note.",))
    first, second, third, note = good.sentences("districts", "cells")
    assert first.startswith("If the model is right, its map recovers 50% of what one rate for each of the districts")
    assert "(standard error 20.0%)" in first
    assert second == "90% intervals of cells hold 80% of the true rates."
    assert "2 refits" in third
    assert note == "A note."
    bad = Recovery((refit(1, [6.0, 7.0]),))
    assert "no nearer to the rates inside bags than one rate for each" in str(bad)
    assert "\u221230%, standard error unknown" in str(bad)
    assert Recovery((Refit(1, pd.DataFrame(), 0.1, "no"),)).sentences() == ["1 of 1 refits failed: no"]


def test_what_is_refused(counts):
    model, bags, y, given = counts
    with pytest.raises(TypeError, match=r"`model` must be a fitted vbagg\.VBAgg; got Constant"):
        recovery(vbagg.Constant("poisson"), bags, y)
    with pytest.raises(ValueError, match="`refits` must be a whole number of at least 1; got 0"):
        recovery(model, bags, y, refits=0, **given)
    other, _ = made_bags(5, n=30)
    with (
        pytest.raises(ValueError, match="`bags` must be those that the model was fitted to"),
        pytest.warns(vbagg.errors.DataWarning, match="other individuals"),
    ):
        recovery(model, other, np.ones(30), completeness=1.0, weight_sd=0.0)
    with pytest.raises(ValueError, match="must hold one result"):
        Recovery(())
    with pytest.raises(ValueError, match="`per` must be positive"):
        Recovery((refit(1, [1.0, 2.0]),), per=0)
