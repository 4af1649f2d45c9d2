"""Models without uncertainty: their optima in closed form, when they stop, and what they share with `VBAgg`."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace

import jax
import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, nbinom
from uneven_bags import SIZES, landmark_features, toy

import vbagg
from vbagg import kernels, likelihoods, metrics
from vbagg.datasets import swiss_roll
from vbagg.errors import NotFittedError, NoUncertaintyError
from vbagg.links import get_link
from vbagg.manifold import Manifold
from vbagg.models import setup
from vbagg.models.bagloss import BagLoss
from vbagg.models.bagpixel import bag_means
from vbagg.posterior import UNCERTAIN, PointEstimate
from vbagg.priors import make_log_prior

WHOLE = vbagg.Adam(learning_rates=(0.03,), epochs=25, batch_size=len(SIZES), record_every=50)
FIXED = {"variance": 0.8, "lengthscale": 1.1, "fixed": ("variance", "lengthscale")}
CENTRES = np.array([[-1.0, 100.0], [1.5, 400.0], [3.0, 900.0], [0.0, 1500.0]])
COVARIATES = np.linspace(3.0, 8.0, 10) ** 2


def held_out():
    bags, y, _ = toy((2, 5, 1, 4, 3, 3), tuple("PQRSTU"), seed=8)
    return bags, y


def nystrom(**changes):
    options = {"likelihood": "poisson", "link": "exp", "kernel": kernels.RBF(), "inference": WHOLE}
    options["landmarks"] = CENTRES
    return vbagg.Nystrom(**(options | changes))


def network(**changes):
    manifold = Manifold(0.7, bag_strength=0.4, number=12)
    options = {"likelihood": "normal", "link": "identity", "hidden": 4, "manifold": manifold, "inference": WHOLE}
    return vbagg.ManifoldNN(**(options | changes))


@pytest.fixture(scope="module")
def counts():
    bags, y, offset = toy()
    return nystrom(landmarks=4).fit(bags, y, offset=offset)


@pytest.fixture(scope="module")
def normals():
    bags, y, offset = toy()
    return network().fit(bags, y, offset=offset, bag_covariates=COVARIATES)


def standard_units(bags, X):
    """Columns by their mean and sd over individuals, each bag counting once."""
    share = np.array([w / bags.totals()[a] / len(bags) for w, a in zip(bags.weight, bags.bag, strict=True)])
    centre = share @ bags.X
    return (X - centre) / np.sqrt(share @ (bags.X - centre) ** 2)


# Nystrom


def test_nystrom_with_normal_outputs_is_ridge_regression():
    bags, y, offset = toy()
    tau, total = np.linspace(20.0, 60.0, 10), bags.totals()
    rate = total @ y / (total @ total)
    unit = np.sqrt(np.mean((y / total - rate) ** 2))

    def features(X):
        return unit * landmark_features(standard_units(bags, X), standard_units(bags, CENTRES), 0.8, 1.1, 3.0)

    variance = tau * bags.weight_squares()
    G = bags.sum_by_bag(bags.weight[:, None] * features(bags.X))
    rest = y - bags.sum_by_bag(bags.weight * (rate + offset[bags.rows]))
    X, more = held_out()[0].X, np.linspace(-1.0, 2.0, 18)
    spreads = []
    for penalty in (0.3, 20.0):
        beta = np.linalg.solve(G.T @ (G / variance[:, None]) + penalty * np.eye(5), G.T @ (rest / variance))
        expected = rate + features(X) @ beta
        model = nystrom(
            likelihood=likelihoods.Normal(tau=tau),
            link="identity",
            kernel=kernels.RBF(**FIXED),
            penalty=penalty,
            priors=None,
            inference=replace(WHOLE, learning_rates=(0.02,), epochs=1000, record_every=5000),
        ).fit(bags, y, offset=offset)
        np.testing.assert_allclose(model.posterior(X, offset=more).mean, expected + more, atol=2e-3 * np.ptp(expected))
        spreads.append(np.ptp(expected))
    assert spreads[1] < 0.2 * spreads[0]


def test_nystrom_with_joint_landmarks_has_one_set_for_all_components():
    bags, y, _ = toy()
    kernel = kernels.RBF("rain") + kernels.Matern32("height") + kernels.Linear()
    data = setup.training_data(bags, y, None, None, likelihoods.Poisson(), get_link("exp"))
    for joint, shapes in ((True, [None, (4, 2)]), (False, [(4, 1), (4, 1), None])):
        model = nystrom(kernel=kernel, landmarks=vbagg.Landmarks(4, joint=joint))
        function, start, _, _ = model._structure(data, likelihoods.Poisson())
        assert [None if Z is None else Z.shape for Z in start.landmarks] == shapes
        assert len(function.feature_map.components) == len(shapes)


# BagPixel


def test_a_bag_becomes_its_weighted_mean():
    bags = toy()[0]
    means = bag_means(bags)
    assert (means.feature_names, means.named, means.coordinates) == (("rain", "height"), True, ())
    assert list(means.labels) == list(bags.labels)
    assert means.sizes.tolist() == [1] * 10
    for a in range(10):
        rows = np.flatnonzero(bags.bag == a)
        weight = sum(bags.weight[row] for row in rows)
        mean = sum(bags.weight[row] * bags.X[row] for row in rows) / weight
        np.testing.assert_allclose(means.X[a], mean, rtol=1e-12)
        assert means.weight[a] == pytest.approx(weight, rel=1e-12)


def test_bags_that_share_a_label_and_coordinates_are_kept():
    X = pd.DataFrame({"lon": [1.0, 2.0, 4.0], "lat": [5.0, 6.0, 9.0]})
    bags = vbagg.Bags(X, ["b", "a", "a"], [1.0, 3.0, 1.0])[[1, 0, 1]]
    means = bag_means(bags)
    assert list(means.labels) == ["a", "b", "a"]
    assert means.coordinates == (0, 1)
    np.testing.assert_allclose(means.X, [[2.5, 6.75], [1.0, 5.0], [2.5, 6.75]])


def bag_pixel_options(epochs):
    return {
        "likelihood": "normal",
        "link": "identity",
        "kernel": kernels.RBF(**FIXED),
        "landmarks": CENTRES,
        "priors": None,
        "inference": replace(WHOLE, epochs=epochs, record_every=5000),
    }


def test_bag_pixel_of_single_individuals_is_nystrom():
    bags, y, offset = toy((1,) * 10)
    models = [kind(**bag_pixel_options(50)).fit(bags, y, offset=offset) for kind in (vbagg.Nystrom, vbagg.BagPixel)]
    X = held_out()[0].X
    one, two = (model.posterior(X).mean for model in models)
    np.testing.assert_array_equal(one, two)
    assert np.ptp(one) > 0.1 * one.mean()


def test_noise_of_bag_pixel_grows_with_the_squared_total_weight():
    """At the optimum the learnt `tau` is the mean of `(y - T)^2 / (sum w)^2`; early stopping sees that noise too."""
    bags, y, offset = toy()
    model = vbagg.BagPixel(**bag_pixel_options(800)).fit(bags, y, offset=offset)
    means, total = bag_means(bags), bags.totals()
    mean_offset = bags.sum_by_bag(bags.weight * offset[bags.rows]) / total
    residual = y - total * model.posterior(means.X, offset=mean_offset).mean
    tau = model.likelihood_parameters_["tau"]
    assert tau == pytest.approx(np.mean((residual / total) ** 2), rel=1e-3)
    assert tau < 0.7 * np.mean(residual**2 / bags.weight_squares())
    others, outputs = held_out()
    fitted, total = model._fitted, others.totals()
    log_prior = make_log_prior((), None, fitted.likelihood, fitted.frame.link)
    objective = BagLoss(fitted.function, fitted.likelihood, fitted.frame.link, log_prior, False)
    with jax.enable_x64(True):
        score = model._stopper(objective, fitted.frame, (others, outputs))(
            {"weights": fitted.weights, "parameters": fitted.parameters}
        )
    T = total * model.posterior(bag_means(others).X).mean
    assert score == pytest.approx(-metrics.nll(outputs, T, "normal", variance=tau * total**2), rel=1e-5)


def test_bag_pixel_takes_known_variances_by_label():
    bags = vbagg.Bags(toy()[0].X, np.repeat([4, 0, 3, 1, 2], (5, 9, 6, 7, 9)), np.arange(1.0, 37.0))
    known = likelihoods.Normal(tau=pd.Series([10.0, 11.0, 12.0, 13.0, 14.0], index=range(5)))
    expected = bags.totals() ** 2 * [14.0, 10.0, 13.0, 11.0, 12.0]
    np.testing.assert_allclose(known.facts(bag_means(bags), None)["noise"], expected)


# ManifoldNN


def test_network_is_one_hidden_layer_of_rectified_units(normals):
    bags, y, _ = toy()
    weights = {name: value.astype(float) for name, value in normals._fitted.weights.items()}
    assert weights["inner"].shape == (2, 4)
    X, offset = held_out()[0].X, np.linspace(-1.0, 2.0, 18)
    hidden = np.maximum(standard_units(bags, X) @ weights["inner"] + weights["bias"], 0.0)
    f = hidden @ weights["outer"] + weights["constant"]
    total = bags.totals()
    rate = total @ y / (total @ total)
    unit = np.sqrt(np.mean((y / total - rate) ** 2))
    np.testing.assert_allclose(normals.posterior(X, offset=offset).mean, rate + unit * f + offset, rtol=1e-5)
    assert np.ptp(f) > 0.1


def test_manifold_terms_flatten_the_network():
    bags, y, _ = toy()
    longer = replace(WHOLE, epochs=150)

    def spread(strength, bag_strength):
        options = Manifold(strength, bag_strength=bag_strength, number=12)
        model = network(manifold=options, inference=longer, penalty=1e-3).fit(bags, y, bag_covariates=COVARIATES)
        f = model.posterior(bags.X).mean
        means = bags.sum_by_bag(f) / bags.sizes
        return np.std(f) / model.rate_scale_, np.std(means) / model.rate_scale_

    free, individuals, groups = spread(1e-9, 1e-9), spread(10.0, 1e-9), spread(1e-9, 100.0)
    assert individuals[0] < 0.2 * free[0]
    assert groups[1] < 0.2 * free[1]


def test_bag_covariates_change_the_fit():
    bags, y, _ = toy()
    one, two = (network().fit(bags, y, bag_covariates=s).posterior(bags.X).mean for s in (COVARIATES, COVARIATES[::-1]))
    assert np.abs(one - two).max() > 1e-6
    with pytest.raises(ValueError, match=r"one row for each of 10 bags; got shape \(9, 1\)"):
        network().fit(bags, y, bag_covariates=COVARIATES[1:])


def test_network_starts_from_its_seed():
    bags, y, _ = toy()
    still = replace(WHOLE, learning_rates=(1e-12,), epochs=1)

    def start(seed, random_state=0):
        model = network(inference=replace(still, seeds=(seed,)), random_state=random_state).fit(bags, y)
        return model._fitted.weights["inner"]

    first = start(3)
    np.testing.assert_array_equal(start(3), first)
    np.testing.assert_array_equal(start(1, random_state=2), first)
    assert np.all(start(4) != first)
    assert np.all(start(3, random_state=1) != first)


def test_network_learns_more_than_constant_rates_on_the_swiss_roll():
    data = swiss_roll(20, 20, 7, seed=1)
    constant = vbagg.Constant().fit(data.bags, data.y)
    in_bags = constant.posterior(data.bags.X, bag=data.bags.labels[data.bags.bag]).mean
    inference = vbagg.Adam(learning_rates=(0.01,), epochs=150, batch_size=5, record_every=500)
    errors = [
        metrics.mse(
            data.rate,
            vbagg.ManifoldNN(hidden=20, manifold=Manifold(strength), inference=inference)
            .fit(data.bags, data.y)
            .posterior(data.bags.X)
            .mean,
        )
        for strength in (10.0, 1e-9)
    ]
    assert errors[0] < 0.5 * metrics.mse(data.rate, in_bags)
    assert errors[0] < 0.5 * errors[1]


# Constant


def example():
    """Three bags of total weights 3, 4 and 5."""
    X = np.arange(7.0)
    bags = vbagg.Bags(X, ["b", "b", "a", "a", "a", "c", "c"], [1.0, 2.0, 3.0, 1.0, 0.0, 0.5, 4.5])
    return bags, np.array([6.0, 2.0, 1.0])


def test_constant_is_the_rate_of_each_bag_and_overall():
    bags, y = example()
    model = vbagg.Constant().fit(bags, y)
    np.testing.assert_allclose(model.bag_rates_, [2.0, 0.5, 0.2])
    assert model.rate_scale_ == pytest.approx(0.75)
    np.testing.assert_allclose(model.posterior(np.zeros((2, 1))).mean, [0.75, 0.75])
    np.testing.assert_allclose(model.posterior(np.zeros(4), bag=["a", "c", "b", "a"]).mean, [0.5, 0.2, 2.0, 0.5])
    for bag in (pd.Series(["a", "c"]), np.array(["a", "c"])):
        np.testing.assert_allclose(model.posterior(np.zeros(2), bag=bag).mean, [0.5, 0.2])
    np.testing.assert_allclose(model.predict(bags), [2.25, 3.0, 3.75])
    new = vbagg.Bags([1.0, 2.0], ["a", "z"], [2.0, 8.0])
    np.testing.assert_allclose(model.posterior_bags(new).mean, [1.5, 6.0])
    assert model.likelihood_parameters_ == {}
    assert model.score(bags, y) == pytest.approx(-metrics.nll(y, np.array([2.25, 3.0, 3.75])))
    draws = model.predictive_bags(bags).sample(2000, 1)
    np.testing.assert_allclose(draws.mean(axis=0), [2.25, 3.0, 3.75], rtol=0.05)


def test_constant_learns_the_noise_of_normal_outputs():
    bags, y = example()
    model = vbagg.Constant("normal").fit(bags, y)
    T = 0.75 * np.array([3.0, 4.0, 5.0])
    squares = np.array([5.0, 10.0, 20.5])
    tau = np.mean((y - T) ** 2 / squares)
    assert model.likelihood_parameters_["tau"] == pytest.approx(tau, rel=1e-6)
    assert model.score(bags, y) == pytest.approx(-metrics.nll(y, T, "normal", variance=tau * squares), rel=1e-6)
    known = vbagg.Constant(likelihoods.Normal(tau=[0.5, 1.0, 2.0])).fit(bags, y)
    variance = squares * [0.5, 1.0, 2.0]
    assert known.score(bags, y) == pytest.approx(-metrics.nll(y, T, "normal", variance=variance))


def test_constant_learns_the_dispersion_of_counts():
    bags, y, _ = toy()
    model = vbagg.Constant("negative_binomial").fit(bags, y)
    T = y.sum() / bags.totals().sum() * bags.totals()
    grid = np.exp(np.linspace(-8.0, 4.0, 4001))
    sizes = 1 / grid[:, None]
    best = grid[np.argmax(nbinom(sizes, sizes / (sizes + T)).logpmf(y).sum(axis=1))]
    assert 2 * grid[0] < best < grid[-1] / 2
    assert model.likelihood_parameters_["dispersion"] == pytest.approx(best, rel=5e-3)
    assert vbagg.Constant(likelihoods.NegativeBinomial(0.4)).fit(bags, y).likelihood_parameters_ == {}


def test_constant_proportions_are_those_of_all_trials():
    bags, y = example()
    trials = np.array([8.0, 10.0, 2.0])
    model = vbagg.Constant("binomial").fit(bags, y, trials=trials)
    np.testing.assert_allclose(model.bag_rates_, [0.75, 0.2, 0.5])
    np.testing.assert_allclose(model.posterior_bags(bags).mean, 0.45)
    np.testing.assert_allclose(model.predict(bags, trials=trials), 0.45 * trials)
    expected = binom(trials, 0.45).logpmf(y).mean()
    assert model.score(bags, y, trials=trials) == pytest.approx(expected, rel=1e-9)
    with pytest.raises(ValueError, match="needs `trials`"):
        model.predict(bags)


def test_a_bag_without_trials_has_the_overall_proportion():
    bags, _ = example()
    model = vbagg.Constant("binomial").fit(bags, np.array([6.0, 0.0, 0.0]), trials=np.array([8.0, 0.0, 2.0]))
    np.testing.assert_allclose(model.bag_rates_, [0.75, 0.6, 0.0])


def test_constant_refuses_what_it_cannot_use():
    bags, y = example()
    with pytest.raises(NotFittedError):
        _ = vbagg.Constant().bag_rates_
    with pytest.raises(TypeError, match=r"`bags` must be a vbagg\.Bags; got ndarray"):
        vbagg.Constant().fit(bags.X, y)
    with pytest.raises(ValueError, match=r"`y` must be finite or missing; got inf for bag 'a'"):
        vbagg.Constant().fit(bags, [1.0, np.inf, 2.0])
    with pytest.raises(ValueError, match=r"`y` must hold the output of at least one bag; got none for 3 bags"):
        vbagg.Constant().fit(bags, np.full(3, np.nan))
    model = vbagg.Constant().fit(bags, y)
    with pytest.raises(ValueError, match=r"labels of training bags; got the unknown bags 'z', 'y'\."):
        model.posterior(np.zeros(4), bag=["a", "z", "y", "z"])
    with pytest.raises(ValueError, match=r"one label for each of 3 rows; got 2\."):
        model.posterior(np.zeros(3), bag=["a", "b"])
    calls = [
        lambda: model.posterior(np.zeros(2), offset=np.zeros(2)),
        lambda: model.posterior(np.zeros(2), offset=np.zeros(2), bag=["a", "b"]),
        lambda: model.posterior_bags(bags, offset=np.zeros(7)),
        lambda: model.score(bags, y, offset=np.zeros(7)),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="`offset` does not go with a constant rate"):
            call()


# Stopping early and choosing between runs


@pytest.fixture(scope="module")
def path():
    """Weights and score on the held-out bags after each number of epochs."""
    bags, y, _ = toy()
    found = {}
    for epochs in range(1, 26):
        model = nystrom(inference=replace(WHOLE, learning_rates=(0.1,), epochs=epochs)).fit(bags, y)
        found[epochs] = model._fitted.weights["beta"], model.score(*held_out())
    return found


def stopping(**changes):
    return replace(WHOLE, **({"learning_rates": (0.1,), "epochs": 25, "first_stop": 7, "patience": 4} | changes))


@pytest.mark.parametrize(("first_stop", "patience"), [(7, 4), (0, 9)])
def test_early_stopping_keeps_the_best_scored_epoch(path, first_stop, patience):
    bags, y, _ = toy()
    best = since = 0
    for epochs in range(first_stop + 1, 26):
        if not best or path[epochs][1] > path[best][1]:
            best, since = epochs, 0
        else:
            since += 1
        if since == patience:
            break
    assert first_stop + 1 < best < 25 - patience
    seen = []
    options = stopping(first_stop=first_stop, patience=patience, record_every=1)
    model = nystrom(inference=options).fit(bags, y, early_stop=held_out(), progress=seen.append)
    assert model.status_.iterations == best
    assert f"Ran {best} epochs" in model.status_.message
    assert len(seen) == len(model.history_) == epochs
    assert set(seen[0]) == {"epoch", "learning_rate", "seed", "log_prob"}
    np.testing.assert_allclose(model._fitted.weights["beta"], path[best][0], rtol=1e-4, atol=1e-6)


def test_early_stopping_on_validation_bags_alone(path):
    bags, y, _ = toy()
    with_validation = nystrom(inference=stopping(early_stopping=True)).fit(bags, y, validation=held_out())
    with_early_stop = nystrom(inference=stopping()).fit(bags, y, early_stop=held_out())
    best = with_early_stop.status_.iterations
    assert best < 25
    assert with_validation.status_.iterations == best
    assert with_validation.status_.starts[0] == pytest.approx(path[best][1], rel=1e-5)
    without = nystrom(inference=stopping()).fit(bags, y, validation=held_out())
    assert without.status_.iterations == 25


def test_epochs_up_to_the_first_stop_are_not_scored(path):
    bags, y, _ = toy()
    best = max(path, key=lambda epochs: path[epochs][1])
    expected = max(range(best + 1, 26), key=lambda epochs: path[epochs][1])
    model = nystrom(inference=stopping(first_stop=best, patience=25)).fit(bags, y, early_stop=held_out())
    assert model.status_.iterations == expected
    np.testing.assert_allclose(model._fitted.weights["beta"], path[expected][0], rtol=1e-4, atol=1e-6)
    model = nystrom(inference=stopping(first_stop=25)).fit(bags, y, early_stop=held_out())
    assert model.status_.iterations == 25
    np.testing.assert_allclose(model._fitted.weights["beta"], path[25][0], rtol=1e-4, atol=1e-6)


def test_early_stopping_needs_bags_and_adam():
    bags, y, _ = toy()
    with pytest.raises(ValueError, match="needs `early_stop="):
        nystrom(inference=stopping(early_stopping=True)).fit(bags, y)
    with pytest.raises(ValueError, match="`early_stop` goes with inference 'adam'; 'newton' runs until it converges"):
        vbagg.VBAgg().fit(bags, y, early_stop=held_out())
    with pytest.raises(TypeError, match=r"`early_stop` must be a pair \(bags, y\); got Bags"):
        nystrom().fit(bags, y, early_stop=held_out()[0])
    with pytest.raises(ValueError, match=r"fitted with 2 columns \(rain, height\); got 1"):
        nystrom().fit(bags, y, validation=(vbagg.Bags(np.zeros(2), [0, 1]), [1.0, 2.0]))


def test_the_run_with_the_best_score_is_kept():
    bags, y, _ = toy()
    combinations = [(rate, seed) for rate in (0.001, 0.02, 0.1) for seed in (0, 3)]
    models = [
        nystrom(inference=replace(WHOLE, learning_rates=(rate,), seeds=(seed,))).fit(bags, y)
        for rate, seed in combinations
    ]
    many = replace(WHOLE, learning_rates=(0.001, 0.02, 0.1), seeds=(0, 3))
    bests = []
    for scored, held in (((bags, y), {}), (held_out(), {"validation": held_out()})):
        scores = [model.score(*scored) for model in models]
        best = int(np.argmax(scores))
        kept = nystrom(inference=many).fit(bags, y, **held)
        np.testing.assert_allclose(kept.status_.starts, scores, rtol=1e-5)
        np.testing.assert_array_equal(kept.predict(bags), models[best].predict(bags))
        assert (kept.history_[0]["learning_rate"], kept.history_[0]["seed"]) == combinations[best]
        bests.append(best)
    assert bests[0] != bests[1]


@pytest.mark.parametrize("held", [{}, {"validation": held_out()}, {"early_stop": held_out()}])
def test_runs_that_overflow_are_ignored(held):
    bags, y, _ = toy()
    alone = nystrom().fit(bags, y)
    model = nystrom(inference=replace(WHOLE, learning_rates=(1e6, 0.03))).fit(bags, y, **held)
    assert np.isnan(model.status_.starts[0])
    np.testing.assert_array_equal(model.predict(bags), alone.predict(bags))
    with pytest.raises(FloatingPointError, match=r"No run stayed finite; try smaller `learning_rates` of Adam"):
        nystrom(inference=replace(WHOLE, learning_rates=(1e6,))).fit(bags, y, **held)


# Predictions


def test_there_is_no_uncertainty_to_ask_for(counts, normals):
    bags, y, _ = toy()
    constant = vbagg.Constant().fit(bags, y)
    for model in (counts, normals, constant):
        for estimate in (model.posterior(bags.X), model.posterior_bags(bags)):
            assert {"std", "quantile", "interval", "exceedance", "cdf", "log_prob", "sample"} <= set(UNCERTAIN)
            for name in UNCERTAIN:
                assert not hasattr(estimate, name)
                message = rf"`{name}` needs a posterior distribution.* Use vbagg\.VBAgg, or `predictive_bags`"
                with pytest.raises(NoUncertaintyError, match=message):
                    getattr(estimate, name)
    with pytest.raises(AttributeError, match="PointEstimate has no attribute 'median'") as caught:
        _ = PointEstimate(y).median
    assert type(caught.value) is AttributeError


def test_point_estimates_are_copied_and_pickled():
    estimate = PointEstimate(np.array([1.5, 2.5]))
    assert repr(estimate) == "PointEstimate(2 rows)"
    for twin in (copy.copy(estimate), copy.deepcopy(estimate), pickle.loads(pickle.dumps(estimate))):
        assert type(twin) is PointEstimate
        assert len(twin) == 2
        np.testing.assert_array_equal(twin.mean, estimate.mean)
        assert not hasattr(twin, "std")


def test_score_is_minus_the_plug_in_density(counts, normals):
    bags, y, offset = toy()
    others, outputs = held_out()
    for own, values, known in ((bags, y, offset), (others, outputs, None)):
        T = counts.predict(own, offset=known)
        assert counts.score(own, values, offset=known) == pytest.approx(-metrics.nll(values, T), rel=1e-9)
        T = normals.predict(own, offset=known)
        variance = normals.likelihood_parameters_["tau"] * own.weight_squares()
        expected = -metrics.nll(values, T, "normal", variance=variance)
        assert normals.score(own, values, offset=known) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("name", ["counts", "normals"])
def test_totals_are_weighted_sums_of_rates(name, request):
    model = request.getfixturevalue(name)
    bags = held_out()[0]
    offset = np.linspace(-0.5, 0.9, 18)
    for given, stored in ((None, None), (offset, offset[bags.rows])):
        rates = model.posterior(bags.X, offset=stored).mean
        totals = [sum(bags.weight[i] * rates[i] for i in np.flatnonzero(bags.bag == a)) for a in range(6)]
        np.testing.assert_allclose(model.posterior_bags(bags, offset=given).mean, totals, rtol=1e-6)
        np.testing.assert_allclose(model.predict(bags, offset=given), totals, rtol=1e-6)
        np.testing.assert_allclose(model.predictive_bags(bags, offset=given).mean, totals, rtol=1e-6)
    table = pd.DataFrame(bags.X, columns=["rain", "height"])
    np.testing.assert_array_equal(model.posterior(table).mean, model.posterior(bags.X).mean)
    with pytest.raises(ValueError, match="Reorder or rename them"):
        model.posterior(table[["height", "rain"]])


@pytest.mark.parametrize("name", ["counts", "normals"])
def test_order_and_zero_weights_change_nothing(name, request):
    model = request.getfixturevalue(name)
    bags, y, offset = toy()
    X = held_out()[0].X
    expected = model.posterior(X).mean
    assert np.ptp(expected) > 0.1 * np.abs(expected).mean()
    outputs, covariates = (pd.Series(values, index=bags.labels) for values in (y, COVARIATES))
    table = pd.DataFrame(bags.X, columns=["rain", "height"])
    table["bag"], table["weight"], table["offset"] = bags.labels[bags.bag], bags.weight, offset[bags.rows]
    with_inert = table.copy()
    with_inert.loc[len(table)] = [900.0, -5e5, "F", 0.0, 77.0]
    mixed = table.sample(frac=1.0, random_state=0)
    for rows, tolerance in ((with_inert, 1e-12), (mixed, 1e-3)):
        own = vbagg.Bags(rows[["rain", "height"]], rows["bag"], rows["weight"])
        more = {"bag_covariates": covariates.loc[list(own.labels)]} if name == "normals" else {}
        again = type(model)(**model.get_params()).fit(own, outputs, offset=rows["offset"], **more)
        np.testing.assert_allclose(again.posterior(X).mean, expected, rtol=tolerance)
    assert list(own.labels) != list(bags.labels)


# Bad input


@pytest.mark.parametrize(
    ("model", "error", "message"),
    [
        (
            nystrom(inference="newton"),
            ValueError,
            r"`inference` of Nystrom must be 'adam' or a vbagg\.Adam; got Newton",
        ),
        (vbagg.BagPixel(inference=vbagg.Newton()), ValueError, r"`inference` of BagPixel must be 'adam'"),
        (network(inference="sgd"), ValueError, r"`inference` must be one of 'newton', 'adam'; got 'sgd'"),
        (nystrom(penalty=-1.0), ValueError, r"`penalty` must be non-negative; got -1\.0\."),
        (network(penalty=float("nan")), ValueError, r"`penalty` must be non-negative; got nan\."),
        (network(hidden=0), ValueError, r"`hidden` must be a whole number >= 1; got 0\."),
        (network(hidden=2.5), ValueError, r"`hidden` must be a whole number >= 1; got 2\.5\."),
        (network(manifold="x"), TypeError, r"`manifold` must be a vbagg\.Manifold or None; got 'x'\."),
        (nystrom(link="identity"), ValueError, r"`link`='identity' does not go with likelihood 'poisson'"),
        (network(link="exp"), ValueError, r"`link`='exp' does not go with likelihood 'normal'"),
        (nystrom(link="log"), ValueError, r"`link` must be one of .*; got 'log'"),
        (nystrom(likelihood="gamma"), ValueError, r"`likelihood` must be one of .*; got 'gamma'"),
        (vbagg.Constant("gamma"), ValueError, r"`likelihood` must be one of .*; got 'gamma'"),
        (nystrom(kernel="rbf"), TypeError, r"`kernel` must be a kernel such as .*; got 'rbf'"),
        (nystrom(priors="flat"), ValueError, r"`priors` must be 'default', None or a mapping"),
        (nystrom(landmarks=1000), ValueError, r"got 1000 landmarks for 36 distinct rows"),
    ],
)
def test_impossible_options_are_refused(model, error, message):
    bags, y, _ = toy()
    with pytest.raises(error, match=message):
        model.fit(bags, y)
    with pytest.raises(NotFittedError, match=rf"This {type(model).__name__} is not fitted yet"):
        model.predict(bags)


@pytest.mark.parametrize("model", [nystrom(), vbagg.BagPixel(), network()])
def test_impossible_data_are_refused(model):
    bags, y, offset = toy()
    with pytest.raises(ValueError, match=r"`bags` must hold at least 2 bags; got 1"):
        model.fit(bags[:1], y[:1])
    with pytest.raises(ValueError, match=r"`y` must be finite or missing; got inf for bag"):
        model.fit(bags, np.where(np.arange(10) == 3, np.inf, y))
    with pytest.raises(ValueError, match=r"`offset` must be finite; got nan at row 3"):
        model.fit(bags, y, offset=np.where(np.arange(36) == 3, np.nan, offset))
    with pytest.raises(TypeError, match=r"`bags` must be a vbagg\.Bags; got ndarray"):
        model.fit(bags.X, y)
    with pytest.raises(ValueError, match=r"`trials` goes with likelihood 'binomial'"):
        model.fit(bags, y, trials=y + 1)


def test_predictions_refuse_what_does_not_fit(counts):
    bags, _, _ = toy()
    with pytest.raises(ValueError, match="nan"):
        counts.posterior(np.where(np.arange(36)[:, None] == 3, np.nan, bags.X))
    with pytest.raises(ValueError, match=r"`offset` must hold 36 numbers, one per row; got shape \(5,\)"):
        counts.posterior(bags.X, offset=np.zeros(5))
    with pytest.raises(ValueError, match="got 1"):
        counts.posterior(bags.X[:, :1])
