"""Further outputs in one fit: survey points, say, that share the latent function of bags."""

import re

import jax
import numpy as np
import pandas as pd
import pytest
from scipy import special, stats

import vbagg
from vbagg import kernels
from vbagg.inference import Gaussian
from vbagg.inference.result import FlatParameters
from vbagg.models.layout import Layout
from vbagg.models.learning import Learning
from vbagg.models.observations import check_also
from vbagg.models.setup import training_data

COLUMNS = ["u", "v"]
LANDMARKS = np.array([[-1.2, 0.3], [0.4, -0.9], [1.3, 1.1], [0.1, 0.6], [-0.5, -1.4]])


def truth(X):
    return 0.9 * np.sin(1.3 * X[:, 0]) + 0.5 * X[:, 1]


def country(seed=4, sizes=(3, 5, 1, 4, 2, 6, 3, 4, 2, 5, 7, 3)):
    """Uneven bags with counts."""
    rng = np.random.default_rng(seed)
    n = sum(sizes)
    X = rng.normal([0.2, -0.1], [1.0, 1.3], (n, 2))
    labels = np.repeat([f"D{a:02d}" for a in range(len(sizes))], sizes)
    bags = vbagg.Bags(pd.DataFrame(X, columns=COLUMNS), labels, rng.gamma(3.0, 4.0, n))
    return bags, rng.poisson(bags.sum_by_bag(bags.weight * 0.7 * np.exp(truth(bags.X)))).astype(float)


def points(n=9, seed=5):
    """Places, each a bag of its own, with numbers examined and positive."""
    rng = np.random.default_rng(seed)
    X = rng.normal([0.1, 0.2], 1.1, (n, 2))
    bags = vbagg.Bags(pd.DataFrame(X, columns=COLUMNS), [f"P{a}" for a in range(n)], rng.gamma(4.0, 0.5, n))
    trials = rng.integers(20, 90, n).astype(float)
    return bags, rng.binomial(trials.astype(int), stats.logistic.cdf(-0.8 + 1.5 * truth(X))).astype(float), trials


def model(likelihood="poisson", **options):
    known = {"kernel": kernels.RBF(), "landmarks": LANDMARKS, "hyper": "point", "inference": vbagg.Newton(starts=1)}
    return vbagg.VBAgg(likelihood, **(known | options))


def problem_of(also, own=None, **options):
    """The fitting problem with its start, as `fit` makes it."""
    bags, y = country()
    own = own or model(**options)
    choices = own._choices()
    data = training_data(bags, y, None, None, choices.likelihood, choices.link)
    learning = Learning(choices, data, check_also(also))
    kinds = [(learning.spec, learning.data), *((kind.spec, kind.data) for kind in learning.kinds)]
    return learning, learning.layout.problem(kinds)


def some_q(m, seed=0):
    rng = np.random.default_rng(seed)
    return Gaussian(0.2 * rng.normal(size=m), np.tril(0.05 * rng.normal(size=(m, m)) + 0.15 * np.eye(m)))


def rbf(log_params, X, Z):
    variance, lengthscale = np.exp(log_params["variance"]), np.exp(log_params["lengthscale"])
    return variance * np.exp(-0.5 * np.sum((X[:, None] - Z[None]) ** 2, axis=-1) / lengthscale**2)


def log_nb(y, T, phi):
    """Negative binomial of mean T and variance T + phi T^2."""
    size = 1 / phi
    whole = special.gammaln(y + size) - special.gammaln(size) - special.gammaln(y + 1)
    return whole + y * (np.log(phi * T) - np.log1p(phi * T)) - size * np.log1p(phi * T)


# the objective


def test_the_term_of_a_point_is_its_integral(x64):
    """Negative binomial points with mean, slope and residual of their own, MATH (12), (21), by quadrature."""
    bags, positive, _ = points()
    also = [vbagg.Observations(bags, positive, "negative_binomial", slope=1.7, name="survey")]
    learning, problem = problem_of(also)
    start, kind = learning.start, learning.kinds[0]
    q = some_q(problem.n_features)
    staged = problem.at(start)
    terms = staged.evaluate(q).terms[-len(bags) :]

    frame, (p,), (Z,) = kind.data.frame, start.kernel, start.landmarks
    X, Z = frame.scaler.forward(bags.X), np.asarray(Z)
    L = np.linalg.cholesky(rbf(p, Z, Z) + staged.jitter[0] * np.exp(p["variance"]) * np.eye(len(Z)))
    A = np.linalg.solve(L, rbf(p, X, Z).T).T
    residual = np.exp(p["variance"]) - np.sum(A**2, axis=1)
    assert residual.max() > 0.05  # landmarks leave something
    columns = np.column_stack([1.7 * np.full(len(X), 3.0), 1.7 * A, np.full(len(X), 3.0)])
    rate_scale = positive.sum() / bags.weight.sum()
    dispersion = np.exp(start.likelihood["survey.dispersion"])
    node, weight = np.polynomial.hermite_e.hermegauss(60)
    for a, x in enumerate(columns):
        f = x @ q.mu + np.linalg.norm(x @ q.factor) * node
        T = bags.weight[a] * rate_scale * np.exp(f + 1.7**2 * residual[a] / 2)
        rho = np.exp(1.7**2 * residual[a]) - 1
        phi = dispersion + rho + dispersion * rho
        expected = weight @ log_nb(positive[a], T, phi) / weight.sum()
        assert terms[a] == pytest.approx(expected, abs=2e-4)


def test_slopes_of_all_parameters_are_those_of_the_objective(x64):
    bags, positive, trials = points()
    also = [
        vbagg.Observations(bags, positive, "beta_binomial", trials=trials, slope="learnt", name="survey"),
        vbagg.Observations(bags[2:7], positive[2:7] + 3, name="same"),
    ]
    learning, problem = problem_of(also, likelihood="negative_binomial", kernel=kernels.RBF() + kernels.White())
    flat = FlatParameters(learning.start, learning.trainable)
    q, x = some_q(problem.n_features), flat.ravel(learning.start) + 0.1
    jitter = problem.at(flat.unravel(x)).jitter
    slopes = flat.ravel(problem.at(flat.unravel(x), jitter).parameter_slopes(q))
    names = {"dispersion", "survey.correlation_odds", "survey.slope"}
    assert set(learning.start.likelihood) == names
    for at in range(len(x)):
        step = 1e-3 * np.eye(len(x))[at]
        above, below = (problem.at(flat.unravel(x + sign * step), jitter).elbo(q) for sign in (1, -1))
        assert slopes[at] == pytest.approx((above - below) / 2e-3, rel=2e-2, abs=2e-2)
    assert np.abs(slopes[-3:]).min() > 0.05  # none is nothing


def test_outputs_of_the_models_own_kind_are_as_if_they_were_among_its_bags():
    """The same bags once more with other counts: units are the same, since these have the same sum."""
    bags, y = country()
    other = y[np.random.default_rng(3).permutation(len(y))]
    again = vbagg.Bags(pd.DataFrame(bags.X, columns=COLUMNS), [f"again {a}" for a in bags.bag], bags.weight)
    rows = pd.DataFrame(np.concatenate([bags.X, again.X]), columns=COLUMNS)
    labels = [*bags.labels[bags.bag], *again.labels[again.bag]]
    joined = vbagg.Bags(rows, labels, np.concatenate([bags.weight, again.weight]))
    whole = model("negative_binomial").fit(joined, np.concatenate([y, other]))
    apart = model("negative_binomial").fit(bags, y, also=[vbagg.Observations(again, other)])
    assert apart.elbo_ == pytest.approx(whole.elbo_, abs=2e-3)
    assert apart.elbo_mc_ == pytest.approx(whole.elbo_mc_, abs=2e-3)
    assert apart.likelihood_parameters_["dispersion"] == pytest.approx(whole.likelihood_parameters_["dispersion"], 0.01)
    new = rows.iloc[:5] + 0.3
    np.testing.assert_allclose(apart.posterior(new).mean, whole.posterior(new).mean, rtol=2e-3)
    np.testing.assert_allclose(apart.posterior(new).std, whole.posterior(new).std, rtol=5e-3)
    (own,) = apart.observations_
    assert (own.likelihood, own.intercept, own.slope) == ("negative_binomial", None, 1.0)


def test_normal_outputs_of_two_kinds_have_the_exact_posterior():
    """Landmarks at all individuals: the joint Gaussian with an intercept and a slope for the second kind."""
    rng = np.random.default_rng(12)
    bags, _ = country(sizes=(3, 2, 4, 3, 2))
    own = rng.normal(2.0, 3.0, len(bags)) + bags.sum_by_bag(bags.weight * truth(bags.X))
    places, _, _ = points(4)
    measured = 5.0 + 0.6 * places.weight * truth(places.X) + rng.normal(0, 0.1, 4)
    # its own landmarks leave residuals, which would be independent between kinds
    X = np.concatenate([bags.X, places.X])
    fitted = vbagg.VBAgg(vbagg.likelihoods.Normal(tau=0.3), kernel=kernels.RBF(), landmarks=X, hyper="point")
    also = vbagg.Observations(places, measured, vbagg.likelihoods.Normal(tau=0.02), slope=0.6)
    fitted.fit(bags, own, also=also)

    frame, best = fitted._fitted.frame, fitted._fitted.optimum
    scale = frame.scaler
    sum_w = np.zeros((len(bags), bags.n_individuals))
    sum_w[bags.bag, np.arange(bags.n_individuals)] = bags.weight
    new = np.array([[0.3, 0.1], [1.5, -0.7], [-2.0, 0.4]])
    all_rows = scale.forward(np.concatenate([X, new]))
    K = rbf(best.parameters.kernel[0], all_rows, all_rows) + 9.0
    # the user's units: the second kind's function is in units of its own spread
    unit, unit_own = frame.rate_scale, None
    rate_own = places.weight @ measured / (places.weight @ places.weight)
    unit_own = np.sqrt(np.mean((measured / places.weight - rate_own) ** 2))
    n, k = bags.n_individuals, len(places)
    H = np.zeros((len(bags) + k, len(all_rows) + 1))
    H[: len(bags), :n] = unit * sum_w
    H[len(bags) :, n : n + k] = np.diag(places.weight) * unit_own * 0.6
    H[len(bags) :, -1] = places.weight * unit_own
    prior = np.zeros((len(all_rows) + 1,) * 2)
    prior[:-1, :-1], prior[-1, -1] = K, 9.0
    base = np.concatenate([sum_w.sum(1) * unit * frame.base, places.weight * rate_own])
    noise = np.concatenate([0.3 * bags.weight_squares(), 0.02 * places.weight**2])
    gain = np.linalg.solve(H @ prior @ H.T + np.diag(noise), H @ prior).T
    mean = gain @ (np.concatenate([own, measured]) - base)
    covariance = prior - gain @ H @ prior
    found = fitted.posterior(pd.DataFrame(new, columns=COLUMNS))
    at = slice(n + k, n + k + len(new))
    np.testing.assert_allclose(found.mean, unit * (frame.base + mean[at]), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(found.std, unit * np.sqrt(np.diag(covariance)[at]), rtol=1e-3)
    (learnt,) = fitted.observations_
    assert learnt.intercept == pytest.approx(rate_own + unit_own * mean[-1], rel=1e-3)
    assert learnt.intercept_sd == pytest.approx(unit_own * np.sqrt(covariance[-1, -1]), rel=1e-3)


def test_outputs_that_hardly_depend_on_the_function_change_little_but_their_own_mean():
    (bags, y), (places, positive, trials) = country(), points()
    alone = model().fit(bags, y)
    also = vbagg.Observations(places, positive, "binomial", trials=trials, slope=1e-6)
    beside = model().fit(bags, y, also=also)
    np.testing.assert_allclose(beside.posterior(bags).mean, alone.posterior(bags).mean, rtol=1e-3)
    np.testing.assert_allclose(beside.posterior(bags).std, alone.posterior(bags).std, rtol=1e-2)
    share = positive.sum() / trials.sum()
    assert beside.observations_[0].intercept == pytest.approx(np.log(share / (1 - share)), abs=0.02)


def test_kinds_come_in_any_order():
    (bags, y), (places, positive, trials) = country(), points()
    first = vbagg.Observations(places, positive, "binomial", trials=trials, slope="learnt", name="surveys")
    second = vbagg.Observations(places[3:8], positive[3:8], "poisson", name="clinics")
    one, other = (model().fit(bags, y, also=also) for also in ([first, second], [second, first]))
    assert one.elbo_ == pytest.approx(other.elbo_, abs=1e-3)
    by_name = {own.name: own for own in other.observations_}
    for own in one.observations_:
        assert by_name[own.name].intercept == pytest.approx(own.intercept, abs=5e-3)
        assert by_name[own.name].slope == pytest.approx(own.slope, abs=5e-3)


def test_large_bags_of_a_further_kind_are_represented_too():
    rng = np.random.default_rng(8)
    X = pd.DataFrame(rng.normal(size=(900, 2)), columns=COLUMNS)
    large = vbagg.Bags(X, np.repeat(np.arange(6), 150), rng.gamma(2.0, 1.0, 900))
    y = rng.poisson(large.sum_by_bag(large.weight * 0.2 * np.exp(truth(large.X))))
    bags, counts = country()
    also = vbagg.Observations(large, y, "negative_binomial")
    few = model(inference=vbagg.Newton(starts=1, representatives=16)).fit(bags, counts, also=also)
    every = model(inference=vbagg.Newton(starts=1, representatives=None)).fit(bags, counts, also=also)
    assert few.elbo_ == pytest.approx(every.elbo_, abs=0.5)
    np.testing.assert_allclose(few.posterior(bags).mean, every.posterior(bags).mean, rtol=0.05)


@pytest.mark.slow
def test_surveys_bring_cells_nearer_to_the_truth():
    bags, y = country(sizes=(12,) * 10)
    places, positive, trials = points(60)
    new = pd.DataFrame(np.random.default_rng(2).normal(0.1, 1.0, (300, 2)), columns=COLUMNS)
    true = np.log(0.7) + truth(new.to_numpy())
    also = vbagg.Observations(places, positive, "binomial", trials=trials, slope="learnt")
    rival = {"kernel": None, "landmarks": None, "hyper": "average"}
    alone, beside = (model(**rival).fit(bags, y, also=own).posterior(new) for own in (None, also))
    error = [float(np.sqrt(np.mean((np.log(own.mean) - true) ** 2))) for own in (alone, beside)]
    assert error[1] < 0.8 * error[0]
    low, high = np.log(beside.interval(0.9))
    assert np.mean((low < true) & (true < high)) > 0.8
    assert np.mean(high - low) < np.mean(np.diff(np.log(alone.interval(0.9)), axis=0))


# what is told and kept


@pytest.fixture(scope="module")
def surveyed():
    (bags, y), (places, positive, trials) = country(), points()
    also = vbagg.Observations(places, positive, "binomial", trials=trials, slope="learnt", name="surveys")
    return model("negative_binomial", hyper="average").fit(bags, y, also=also)


def test_what_was_learnt_is_told(surveyed):
    (own,) = surveyed.observations_
    assert (own.name, own.n_bags, own.likelihood, own.link) == ("surveys", 9, "binomial", "logistic")
    assert own.intercept_sd > 0
    assert own.slope > 0
    assert surveyed.likelihood_parameters_.keys() == {"dispersion"}
    assert any("Learnt also from 'surveys': 9 outputs, binomial" in note for note in surveyed.status_.notes)
    assert "also surveys: 9 outputs, binomial, intercept" in repr(surveyed)


def test_a_saved_model_is_the_same(surveyed, tmp_path):
    surveyed.save(tmp_path / "model.vbagg")
    again = vbagg.load(tmp_path / "model.vbagg")
    bags, _ = country()
    assert again.observations_ == surveyed.observations_
    np.testing.assert_array_equal(again.posterior(bags).mean, surveyed.posterior(bags).mean)
    np.testing.assert_array_equal(again.posterior(bags).sample(3), surveyed.posterior(bags).sample(3))


def test_a_later_fit_forgets_them(surveyed):
    bags, y = country()
    again = model().fit(bags, y, also=vbagg.Observations(bags[:3], y[:3]))
    assert len(again.observations_) == 1
    assert again.fit(bags, y).observations_ == ()


def test_missing_and_suppressed_outputs_of_points(surveyed):
    (bags, y), (places, positive, _) = country(), points()
    gaps = positive.copy()
    gaps[4] = np.nan
    left_out = np.delete(np.arange(len(places)), 4)
    with_gap = model().fit(bags, y, also=vbagg.Observations(places, gaps, "poisson", name="clinics"))
    without = model().fit(bags, y, also=vbagg.Observations(places[left_out], positive[left_out], "poisson"))
    assert with_gap.elbo_ == without.elbo_
    assert any("Observations 'clinics': 1 of 9 bags has no output" in note for note in with_gap.status_.notes)
    exact = vbagg.Observations(places, positive, "poisson")
    same = vbagg.Observations(places, positive, "poisson", upper=positive)
    assert model().fit(bags, y, also=same).elbo_ == model().fit(bags, y, also=exact).elbo_
    small = np.where(positive < 20, 0.0, positive)
    upper = np.where(positive < 20, 19.0, np.nan)
    hidden = model().fit(bags, y, also=vbagg.Observations(places, small, "poisson", upper=upper))
    assert any("9 bags only bounds are known" in note for note in hidden.status_.notes)


# what is refused


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"slope": 0.0}, "`slope` of Observations must be a positive number or 'learnt'; got 0.0"),
        ({"slope": "free"}, "`slope` of Observations must be a positive number or 'learnt'; got 'free'"),
        ({"slope": 2.0}, "`link` and `slope` of Observations go with a `likelihood` of their own"),
        ({"link": "exp"}, "`link` and `slope` of Observations go with a `likelihood` of their own"),
        ({"name": ""}, "`name` of Observations must be some text; got ''"),
    ],
)
def test_options_that_make_no_sense(options, message):
    places, positive, _ = points()
    with pytest.raises(ValueError, match=re.escape(message)):
        vbagg.Observations(places, positive, **options)


@pytest.mark.parametrize(
    ("also", "message"),
    [
        ({"likelihood": "binomial"}, "Observations 'observations 1': likelihood 'binomial' needs `trials`"),
        ({"likelihood": "poisson", "link": "logistic"}, "`link`='logistic' does not go with likelihood 'poisson'"),
        ({"y": -np.ones(9), "likelihood": "poisson", "name": "clinics"}, "Observations 'clinics': "),
        ({"likelihood": "poisson", "link": "square"}, "`link`='square' of Observations does not go with the model's"),
        ({"y": np.full(9, np.nan)}, "must hold the output of at least one bag"),
    ],
)
def test_outputs_that_cannot_be(also, message):
    (bags, y), (places, positive, _) = country(), points()
    with pytest.raises(ValueError, match=re.escape(message)):
        model().fit(bags, y, also=vbagg.Observations(**({"bags": places, "y": positive} | also)))


def test_fits_that_take_no_others():
    (bags, y), (places, positive, _) = country(), points()
    own = vbagg.Observations(places, positive)
    with pytest.raises(ValueError, match="`also` goes with inference 'newton'"):
        model(inference="adam").fit(bags, y, also=own)
    with pytest.raises(ValueError, match="`also` goes with a fit in one process"):
        model().fit(bags, y, also=own, client=object())
    with pytest.raises(TypeError, match=r"`also` must be a list of vbagg.Observations; got Bags in it"):
        model().fit(bags, y, also=[places])
    with pytest.raises(TypeError, match=r"`bags` must be a vbagg.Bags; got DataFrame"):
        vbagg.Observations(pd.DataFrame(places.X), positive)
    twice = [vbagg.Observations(places, positive, name="a"), vbagg.Observations(places, positive, name="a")]
    with pytest.raises(ValueError, match="`name` of Observations must differ from those of others; got 'a'"):
        model().fit(bags, y, also=twice)
    other = vbagg.Bags(pd.DataFrame(places.X, columns=["u", "w"]), np.arange(len(places)))
    with pytest.raises(ValueError, match=r"Observations 'observations 1': The model was fitted with columns"):
        model().fit(bags, y, also=vbagg.Observations(other, positive))


def test_layout_of_one_kind_is_that_of_its_own():
    """Nothing changes for fits without further outputs: no column, one part."""
    learning, problem = problem_of(())
    assert learning.spec.feature_map.own_means == 0
    assert len(problem.sums) == 1
    assert isinstance(learning.layout, Layout)
    assert problem.n_features == 1 + len(LANDMARKS)
    assert jax.tree.leaves(learning.trainable)
