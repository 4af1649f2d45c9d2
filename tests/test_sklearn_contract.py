"""A bag is scikit-learn's sample: cloning, tuning, cross-validation, and a fit that leaves all else alone."""

from __future__ import annotations

import subprocess
import sys
from copy import deepcopy

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError as SklearnNotFittedError
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score
from sklearn.utils.validation import check_is_fitted

import vbagg
from vbagg import kernels, likelihoods
from vbagg.errors import NotFittedError

FIXED = kernels.RBF(variance=1.0, lengthscale=1.5, fixed=("variance", "lengthscale"))
FOLDS = KFold(3, shuffle=True, random_state=0)


def toy(seed=11, n_bags=12):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(5 * n_bags, 2))
    bags = vbagg.Bags(X, np.repeat([f"D{a:02d}" for a in range(n_bags)], 5), rng.uniform(0.5, 2.0, len(X)))
    return bags, rng.poisson(3.0 * bags.sum_by_bag(bags.weight * np.exp(0.5 * bags.X[:, 0]))).astype(float)


def estimator(**changes):
    options = {
        "likelihood": "normal",
        "link": "identity",
        "kernel": FIXED,
        "landmarks": 6,
        "inference": vbagg.Newton(starts=1),
        "hyper": "point",
    }
    return vbagg.VBAgg(**(options | changes))


@pytest.fixture(scope="module")
def fitted():
    bags, y = toy()
    return estimator().fit(bags, y)


def predictions(model, bags):
    return model.posterior_bags(bags).quantile([0.1, 0.7])


# Parameters


def test_parameters_are_those_of_the_constructor():
    model = vbagg.VBAgg(link="exp", landmarks=9)
    params = model.get_params()
    assert list(params) == [
        "likelihood",
        "link",
        "approximation",
        "kernel",
        "landmarks",
        "residual",
        "inference",
        "priors",
        "hyper",
        "memory",
        "random_state",
    ]
    assert (params["link"], params["landmarks"], params["likelihood"]) == ("exp", 9, "negative_binomial")
    assert model.set_params(link="square", random_state=3) is model
    assert (model.link, model.random_state, model.landmarks) == ("square", 3, 9)
    with pytest.raises(ValueError, match=r"VBAgg has no parameter 'lnik'; it has likelihood, link, "):
        model.set_params(lnik="exp")
    assert repr(vbagg.VBAgg(link="exp", landmarks=9)) == "VBAgg(link='exp', landmarks=9)"


def test_clone_copies_parameters_and_forgets_the_fit(fitted):
    tau = np.linspace(0.5, 2.0, 12)
    model = estimator(
        likelihood=likelihoods.Normal(tau), landmarks=[np.zeros((1, 2))], priors={"variance": vbagg.Prior(2.0, 1.0)}
    )
    twin = clone(model)
    assert twin is not model
    assert twin.get_params()["kernel"] == FIXED
    assert twin.priors == model.priors
    np.testing.assert_array_equal(twin.likelihood.tau, tau)
    np.testing.assert_array_equal(twin.landmarks[0], np.zeros((1, 2)))
    with pytest.raises(NotFittedError):
        clone(fitted).posterior(np.zeros((1, 2)))


def test_fit_changes_no_parameter():
    bags, y = toy()
    model = estimator(landmarks=[bags.X[::10].copy()], priors={"variance": vbagg.Prior(2.0, 1.0)})
    before = deepcopy(model.get_params())
    original = model.get_params()
    assert model.fit(bags, y) is model
    after = model.get_params()
    assert all(after[name] is original[name] for name in original)
    np.testing.assert_array_equal(before.pop("landmarks")[0], after.pop("landmarks")[0])
    assert before == after


# State


def test_a_model_is_fitted_only_after_fit(fitted):
    bags, y = toy()
    model = estimator()
    with pytest.raises(SklearnNotFittedError):
        check_is_fitted(model)
    check_is_fitted(fitted)
    calls = [
        lambda: model.posterior(bags.X),
        lambda: model.posterior_bags(bags),
        lambda: model.predictive_bags(bags),
        lambda: model.predict(bags),
        lambda: model.score(bags, y),
        lambda: model.elbo_mc_,
        lambda: model.parameters_,
    ]
    for call in calls:
        with pytest.raises(NotFittedError, match=r"This VBAgg is not fitted yet; call `fit\(bags, y\)` first"):
            call()


def test_fitting_twice_is_fitting_once(fitted):
    bags, y = toy()
    twice = estimator().fit(bags, y).fit(bags, y)
    assert twice.elbo_ == fitted.elbo_
    assert twice.history_ == fitted.history_
    np.testing.assert_array_equal(predictions(twice, bags), predictions(fitted, bags))


def test_a_new_fit_forgets_the_old_data(fitted):
    bags, y = toy()
    other, other_y = toy(seed=5)
    shifted = vbagg.Bags(other.X * [3.0, 0.1] + 7.0, other.bag, other.weight)
    model = estimator().fit(shifted, 50 * other_y)
    _ = model.elbo_mc_
    again = model.fit(bags, y)
    assert again.elbo_ == fitted.elbo_
    assert again.elbo_mc_ == fitted.elbo_mc_
    assert again.rate_scale_ == fitted.rate_scale_
    assert again.likelihood_parameters_ == fitted.likelihood_parameters_
    np.testing.assert_array_equal(again.landmarks_[0], fitted.landmarks_[0])
    np.testing.assert_array_equal(predictions(again, bags), predictions(fitted, bags))


def test_a_failed_fit_leaves_no_half_made_model():
    bags, y = toy()
    fresh = estimator(landmarks=1000)
    with pytest.raises(ValueError, match="1000"):
        fresh.fit(bags, y)
    with pytest.raises(NotFittedError):
        fresh.posterior(bags.X)
    model = estimator().fit(bags, y)
    before = predictions(model, bags)
    shifted = vbagg.Bags(bags.X * 100.0, bags.bag, bags.weight)
    with pytest.raises(ValueError, match="1000"):
        model.set_params(landmarks=1000).fit(shifted, y)
    np.testing.assert_array_equal(predictions(model, bags), before)


# Selection of bags


def test_cross_validation_is_a_loop_over_bags():
    bags, y = toy()
    expected = []
    for train, test in FOLDS.split(y):
        model = estimator().fit(bags[train], y[train])
        expected.append(model.score(bags[test], y[test]))
    scores = cross_val_score(estimator(), bags, y, cv=FOLDS)
    np.testing.assert_array_equal(scores, expected)
    assert len(set(scores)) == 3


def test_cross_validation_with_known_variances_by_label():
    bags, y = toy()
    tau = pd.Series(np.linspace(0.5, 2.0, 12), index=bags.labels)
    scores = cross_val_score(estimator(likelihood=likelihoods.Normal(tau)), bags, y, cv=FOLDS, error_score="raise")
    assert np.all(np.isfinite(scores))


def test_cross_validated_predictions_come_back_in_order():
    bags, y = toy()
    expected = np.empty(12)
    for train, test in FOLDS.split(y):
        expected[test] = estimator().fit(bags[train], y[train]).predict(bags[test])
    np.testing.assert_array_equal(cross_val_predict(estimator(), bags, y, cv=FOLDS), expected)


def test_grid_search_over_landmarks():
    bags, y = toy()
    numbers = [3, 6]
    expected = [cross_val_score(estimator(landmarks=m), bags, y, cv=FOLDS).mean() for m in numbers]
    search = GridSearchCV(estimator(), {"landmarks": numbers}, cv=FOLDS).fit(bags, y)
    np.testing.assert_array_equal(search.cv_results_["mean_test_score"], expected)
    best = numbers[int(np.argmax(expected))]
    assert search.best_params_ == {"landmarks": best}
    np.testing.assert_array_equal(search.predict(bags), estimator(landmarks=best).fit(bags, y).predict(bags))


def test_grid_search_over_links():
    bags, y = toy(n_bags=24)
    folds = KFold(2)
    base = estimator(likelihood="poisson", kernel=kernels.RBF())
    expected = []
    for link in ("square", "exp"):
        model = clone(base).set_params(link=link)
        scores = [model.fit(bags[a], y[a]).score(bags[b], y[b]) for a, b in folds.split(y)]
        expected.append(np.mean(scores))
    search = GridSearchCV(base, {"link": ["square", "exp"]}, cv=folds, refit=False).fit(bags, y)
    np.testing.assert_array_equal(search.cv_results_["mean_test_score"], expected)


def test_bags_look_like_one_axis_of_samples():
    bags, _ = toy()
    assert bags.shape == (12,)
    assert len(bags) == 12
    selected = bags[np.array([5, 2])]
    assert list(selected.labels) == ["D05", "D02"]
    np.testing.assert_array_equal(selected.X[:5], bags.X[25:30])


def test_outputs_by_label_in_any_order(fitted):
    bags, y = toy()
    order = np.random.default_rng(0).permutation(12)
    series = pd.Series(y, index=bags.labels).iloc[order]
    model = estimator().fit(bags, series)
    np.testing.assert_array_equal(predictions(model, bags), predictions(fitted, bags))
    assert model.score(bags, series) == fitted.score(bags, y)
    assert np.any(order != np.arange(12))


# Models without uncertainty

FEW = vbagg.Adam(learning_rates=(0.05,), epochs=3, batch_size=2)
BASELINES = {
    "Constant": {"likelihood": "normal"},
    "BagPixel": {"likelihood": "normal", "link": "identity", "kernel": FIXED, "landmarks": 4, "inference": FEW},
    "Nystrom": {"link": "square", "kernel": FIXED, "landmarks": 4, "inference": FEW, "random_state": 2},
    "ManifoldNN": {"hidden": 3, "manifold": vbagg.Manifold(0.5, bag_strength=0.1, number=8), "inference": FEW},
}
each_baseline = pytest.mark.parametrize("name", BASELINES)


def baseline(name):
    return getattr(vbagg, name)(**BASELINES[name])


@each_baseline
def test_parameters_of_baselines_are_those_of_the_constructor(name):
    model = baseline(name)
    params = model.get_params()
    assert BASELINES[name].items() <= params.items()
    twin = clone(model)
    assert twin is not model
    assert twin.get_params() == params
    assert twin.set_params(likelihood="negative_binomial") is twin
    assert (twin.likelihood, model.likelihood) == ("negative_binomial", params["likelihood"])
    with pytest.raises(ValueError, match=rf"{name} has no parameter 'depth'; it has likelihood"):
        twin.set_params(depth=2)
    assert repr(model).startswith(f"{name}(")


@each_baseline
def test_baselines_keep_their_parameters_and_forget_earlier_fits(name):
    bags, y = toy(n_bags=8)
    model = baseline(name)
    with pytest.raises(SklearnNotFittedError):
        check_is_fitted(model)
    with pytest.raises(NotFittedError, match=rf"This {name} is not fitted yet; call `fit\(bags, y\)` first"):
        model.predict(bags)
    original = model.get_params()
    before = deepcopy(original)
    assert model.fit(bags, y) is model
    check_is_fitted(model)
    after = model.get_params()
    assert all(after[key] is original[key] for key in original)
    assert before == after
    other, other_y = toy(5, n_bags=8)
    shifted = vbagg.Bags(other.X * [3.0, 0.1] + 7.0, other.bag, other.weight)
    twice = baseline(name).fit(shifted, 50 * other_y).fit(bags, y)
    np.testing.assert_array_equal(twice.posterior(bags.X).mean, model.posterior(bags.X).mean)
    assert twice.score(bags, y) == model.score(bags, y)
    with pytest.raises(NotFittedError):
        clone(model).predict(bags)


@each_baseline
def test_cross_validation_of_baselines_is_a_loop_over_bags(name):
    bags, y = toy()
    expected = [baseline(name).fit(bags[a], y[a]).score(bags[b], y[b]) for a, b in FOLDS.split(y)]
    np.testing.assert_array_equal(cross_val_score(baseline(name), bags, y, cv=FOLDS), expected)
    assert len(set(expected)) == 3
    assert not jax.config.jax_enable_x64


# The host program


def test_precision_setting_of_the_host_is_left_alone(fitted):
    bags, y = toy()
    assert not jax.config.jax_enable_x64
    before = jnp.ones(3) / 3
    estimator().fit(bags, y)
    fitted.posterior(bags.X).sample(3)
    fitted.predictive_bags(bags).sample(3)
    with pytest.raises(ValueError, match="landmarks"):
        estimator(landmarks=1000).fit(bags, y)
    assert not jax.config.jax_enable_x64
    after = jnp.ones(3) / 3
    assert before.dtype == after.dtype == jnp.float32
    assert (before + after).dtype == jnp.float32


def test_importing_the_package_imports_nothing_heavy():
    program = (
        "import sys, vbagg, vbagg.bags, vbagg.models.vbagg, vbagg.io, vbagg.metrics, vbagg.datasets\n"
        "import vbagg.models.constant, vbagg.models.bagpixel, vbagg.models.network\n"
        "print([name for name in ('pandas', 'sklearn', 'matplotlib', 'optax', 'rich') if name in sys.modules])"
    )
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert printed.stdout.strip() == "[]"
    program = "import sys, vbagg; print('jax' in sys.modules, 'scipy' in sys.modules)"
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert printed.stdout.strip() == "False False"


def test_a_fitted_model_says_what_it_is(fitted):
    text = repr(fitted)
    assert text.startswith(repr(estimator()) + ", fitted:")
    for words in (fitted._fitted.likelihood.name, "link: ", "kernel: ", "status: Converged."):
        assert words in text
    html = fitted._repr_html_()
    assert "<td>Converged." in html
    assert "not fitted" in vbagg.VBAgg("poisson<b>")._repr_html_()
    assert "<b>" not in vbagg.VBAgg("poisson<b>")._repr_html_()


def test_parameters_are_a_table(fitted):
    table = fitted.parameters_
    assert list(table.columns[:4]) == ["component", "part", "parameter", "columns"]
    of_kernel = table[table["part"] != "likelihood"]
    assert (table["value"] > 0).all()
    assert of_kernel["component"].notna().all()
    assert dict(zip(table["parameter"], table["value"], strict=True))["lengthscale"] > 0


def test_a_pickle_leaves_the_training_data_out(fitted):
    import pickle

    again = pickle.loads(pickle.dumps(fitted))
    assert again._training is None
    assert fitted._training is not None
    np.testing.assert_array_equal(predictions(again, toy()[0]), predictions(fitted, toy()[0]))
