"""Bags without an output: the fit is that of the others, and they are predicted as new bags."""

import numpy as np
import pandas as pd
import pytest
from uneven_bags import toy

import vbagg
from vbagg import kernels
from vbagg.models.outputs import aligned_outputs, given_outputs

ADAM = vbagg.Adam(epochs=4)
KERNEL = kernels.RBF() + kernels.White()
MODELS = {
    "vbagg": vbagg.VBAgg("negative_binomial", kernel=KERNEL, landmarks=6, inference=vbagg.Newton(starts=1)),
    "adam": vbagg.VBAgg("poisson", kernel=KERNEL, landmarks=6, inference=ADAM),
    "nystrom": vbagg.Nystrom(landmarks=5, inference=ADAM),
    "network": vbagg.ManifoldNN(hidden=3, inference=ADAM),
    "bagpixel": vbagg.BagPixel(landmarks=5, inference=ADAM),
    "glm": vbagg.BagGLM("negative_binomial"),
    "constant": vbagg.Constant("negative_binomial"),
}
MISSING = [1, 4, 7]


def gaps():
    bags, y, offset = toy()
    y[MISSING] = np.nan
    seen = np.isfinite(y)
    offset_there = offset[bags.rows][seen[bags.bag]]
    return bags, y, offset, seen, offset_there


def fit(model, bags, y, offset):
    from sklearn.base import clone

    takes = {} if isinstance(model, vbagg.Constant) else {"offset": offset}
    return clone(model).fit(bags, y, **takes)


@pytest.mark.filterwarnings("ignore::vbagg.errors.ConvergenceWarning")
@pytest.mark.parametrize("name", MODELS)
def test_a_fit_with_gaps_is_that_of_the_observed_bags(name):
    bags, y, offset, seen, there = gaps()
    model, other = fit(MODELS[name], bags, y, offset), fit(MODELS[name], bags[seen], y[seen], there)
    takes = {} if name == "constant" else {"offset": offset}
    ours, theirs = model.predictive_bags(bags, **takes), other.predictive_bags(bags, **takes)
    np.testing.assert_array_equal(ours.mean, theirs.mean)
    np.testing.assert_array_equal(ours.quantile([0.05, 0.8]), theirs.quantile([0.05, 0.8]))
    np.testing.assert_array_equal(model.posterior(bags, **takes).mean, other.posterior(bags, **takes).mean)
    assert model.likelihood_parameters_ == other.likelihood_parameters_
    assert model.score(bags, y, **takes) == np.mean(ours.log_prob(y)[seen])
    (note,) = [text for text in model.status_.notes if "no output" in text]
    assert note.startswith("3 of 10 bags have no output (bags ")
    assert all(repr(label) in note for label in bags.labels[MISSING])
    assert not [text for text in other.status_.notes if "no output" in text]


def test_a_saved_model_keeps_the_note(tmp_path):
    bags, y, _, _, _ = gaps()
    for model in (vbagg.Constant().fit(bags, y), vbagg.BagGLM().fit(bags, y)):
        model.save(tmp_path / "model")
        assert vbagg.load(tmp_path / "model").status_.notes == model.status_.notes


def test_cells_of_observed_bags_are_conditioned_and_those_of_others_are_not():
    bags, y, offset, seen, _ = gaps()
    model = fit(MODELS["vbagg"], bags, y, offset)
    inside, outside = seen[bags.bag], ~seen[bags.bag]
    of_bags = model.posterior(bags, offset=offset)
    new = model.posterior(bags.X, offset=offset[bags.rows])
    np.testing.assert_allclose(of_bags.mean[outside], new.mean[outside], rtol=1e-6)
    np.testing.assert_allclose(of_bags.std[outside], new.std[outside], rtol=1e-6)
    assert np.abs(of_bags.mean / new.mean - 1)[inside].max() > 0.01
    totals = model.posterior_bags(bags, offset=offset)
    sd = totals.std / totals.mean
    assert np.median(sd[~seen]) > 1.5 * np.median(sd[seen])


@pytest.mark.parametrize(
    "given",
    [
        lambda y, labels: y.tolist(),
        lambda y, labels: pd.Series(y, index=labels).astype("Int64").sample(frac=1, random_state=2),
        lambda y, labels: pd.Series(y, index=labels).astype("Float64"),
        lambda y, labels: np.ma.masked_invalid(y),
        lambda y, labels: [None if np.isnan(value) else value for value in y],
    ],
)
def test_every_way_to_say_that_an_output_is_missing(given):
    bags, y, _, seen, _ = gaps()
    outputs = aligned_outputs(bags, given(y, bags.labels.tolist()), None)
    np.testing.assert_array_equal(outputs.y, y)
    np.testing.assert_array_equal(outputs.seen, seen)
    np.testing.assert_array_equal(outputs.observed().y, y[seen])
    np.testing.assert_array_equal(outputs.observed().labels, bags.labels[seen])


def test_a_series_that_lacks_a_bag_is_still_refused():
    bags, y, _, seen, _ = gaps()
    with pytest.raises(ValueError, match=r"so its index must be the labels of the bags; it lacks bags"):
        aligned_outputs(bags, pd.Series(y[seen], index=bags.labels[seen].tolist()), None)


def test_trials_may_be_missing_where_outputs_are():
    bags, y, _, seen, _ = gaps()
    trials = np.where(seen, y + 3, np.nan)
    model = vbagg.BagGLM("binomial")
    some = model.fit(bags, y, trials=trials).predictive_bags(bags, trials=np.full(10, 9.0)).mean
    with_all = model.fit(bags, y, trials=np.nan_to_num(trials, nan=5.0))
    np.testing.assert_array_equal(with_all.predictive_bags(bags, trials=np.full(10, 9.0)).mean, some)
    assert with_all.score(bags, y, trials=trials) == with_all.score(bags[seen], y[seen], trials=trials[seen])
    trials[0] = np.nan
    with pytest.raises(
        ValueError, match=rf"`trials` must be finite; got nan for bag {bags.labels[0]!r}, whose outputs"
    ):
        model.fit(bags, y, trials=trials)


def test_outputs_that_are_there_are_checked():
    bags, y, _, _, _ = gaps()
    y[2] = -1.0
    with pytest.raises(ValueError, match=rf"must not be negative; got -1 for bag {bags.labels[2]!r}"):
        given_outputs(bags, y, None, vbagg.likelihoods.Poisson())


def test_known_variances_by_label_where_outputs_are_missing():
    bags, y, _, _, _ = gaps()
    tau = pd.Series(np.linspace(0.5, 2.0, 10), index=bags.labels.tolist())
    model = vbagg.VBAgg(
        vbagg.likelihoods.Normal(tau), kernel=kernels.RBF(), landmarks=4, inference=vbagg.Newton(starts=1)
    )
    assert np.isfinite(model.fit(bags, y).predictive_bags(bags).std).all()
    model.set_params(likelihood=vbagg.likelihoods.Normal(tau.to_numpy()))
    with pytest.raises(
        ValueError, match=r"`tau` must hold one number per bag, 7 in all; got shape \(10,\)\. Give a Ser"
    ):
        model.fit(bags, y)


def test_gaps_of_held_out_bags_do_not_count():
    bags, y, _, seen, _ = gaps()
    known = np.where(seen, y, 3.0)
    for held_out in ("validation", "early_stop"):
        options = {held_out: (bags, y)}, {held_out: (bags[seen], y[seen])}
        found = [vbagg.Nystrom(landmarks=4, inference=vbagg.Adam(epochs=8, first_stop=2, patience=2)) for _ in options]
        ours, theirs = (model.fit(bags, known, **one) for model, one in zip(found, options, strict=True))
        np.testing.assert_array_equal(ours.posterior(bags).mean, theirs.posterior(bags).mean)
        assert ours.status_.starts == theirs.status_.starts


def test_covariates_of_bags_follow_the_bags():
    bags, y, _, seen, _ = gaps()
    covariates = np.random.default_rng(3).normal(size=(10, 2))
    model = vbagg.Nystrom(landmarks=4, inference=ADAM, manifold=vbagg.Manifold(strength=0.1, bag_strength=0.5))
    ours = model.fit(bags, y, bag_covariates=covariates).posterior(bags).mean
    theirs = model.fit(bags[seen], y[seen], bag_covariates=covariates[seen]).posterior(bags).mean
    np.testing.assert_array_equal(ours, theirs)
