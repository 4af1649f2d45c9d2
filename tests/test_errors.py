"""Wrong input is refused before any work, and the message says what was wanted, what was got, where, and what to do."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import vbagg
from vbagg import kernels, likelihoods
from vbagg.errors import DataWarning

FIXED = kernels.RBF(variance=1.0, lengthscale=1.5, fixed=("variance", "lengthscale"))
LABELS = [f"D{a:02d}" for a in range(12)]


class Unreachable(vbagg.Newton):
    """An inference that must not be reached."""

    def run(self, *args, **kwargs):
        raise AssertionError("the data were not refused before the fit")


def arrays():
    rng = np.random.default_rng(11)
    X = pd.DataFrame({"rain": rng.normal(size=60), "height": rng.gamma(2.0, 300.0, 60)})
    return X, np.repeat(LABELS, 5), rng.uniform(0.5, 2.0, 60)


@pytest.fixture
def bags():
    return vbagg.Bags(*arrays())


@pytest.fixture
def y():
    return np.random.default_rng(1).integers(1, 20, 12).astype(float)


def refused(bags, y, match, error=ValueError, fit=None, **options):
    """Assert that a fit is refused without reaching the inference."""
    known = {"likelihood": "poisson", "kernel": FIXED, "landmarks": 6, "inference": Unreachable()}
    model = vbagg.VBAgg(**(known | options))
    with pytest.raises(error, match=match):
        model.fit(bags, y, **(fit or {}))


@pytest.fixture(scope="module")
def model():
    X, labels, weight = arrays()
    bags = vbagg.Bags(X, labels, weight)
    y = np.random.default_rng(1).normal(size=12)
    return vbagg.VBAgg("normal", "identity", kernel=FIXED, landmarks=6, inference=vbagg.Newton(starts=1)).fit(bags, y)


# Individuals


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_features_must_be_finite(bad):
    X, labels, weight = arrays()
    X.loc[17, "height"] = bad
    with pytest.raises(
        ValueError,
        match=rf"`X` must be finite; got {bad} at column 'height', row 17 \(bag 'D03'\)\. Drop or fill",
    ):
        vbagg.Bags(X, labels, weight)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_weights_must_be_finite(bad):
    X, labels, weight = arrays()
    weight[8] = bad
    with pytest.raises(ValueError, match=rf"`weight` must be finite; got {bad} at row 8 \(bag 'D01'\)\. Drop"):
        vbagg.Bags(X, labels, weight)


def test_weights_must_not_be_negative():
    X, labels, weight = arrays()
    weight[17] = -0.3
    with pytest.raises(
        ValueError, match=r"must be non-negative; got -0\.3 at row 17 \(bag 'D03'\)\. Drop nodata pixels first\."
    ):
        vbagg.Bags(X, labels, weight)


def test_bags_must_have_weight():
    X, labels, weight = arrays()
    weight[20:30] = 0.0
    with pytest.raises(ValueError, match=r"all weights are 0 in bags 'D04', 'D05'\. Leave these bags out"):
        vbagg.Bags(X, labels, weight)


def test_columns_must_vary():
    X, labels, weight = arrays()
    X["height"] = 7.0
    bags = vbagg.Bags(X, labels, weight)
    refused(bags, np.ones(12), r"Every column must vary; column 'height' is constant \(7\).*Drop it")


def test_one_bag_is_not_enough(bags):
    refused(bags[:1], [3.0], r"`bags` must hold at least 2 bags; got 1\. One total says nothing of variation")


def test_bags_must_be_bags(bags, y):
    refused(bags.X, y, r"`bags` must be a vbagg\.Bags; got ndarray\. Use vbagg\.Bags\(X, bag", TypeError)


# Outputs


@pytest.mark.parametrize("bad", [np.inf, -np.inf])
def test_outputs_must_be_finite(bags, y, bad):
    y[[2, 9]] = bad
    refused(bags, y, rf"`y` must be finite or missing; got {bad} for bags 'D02', 'D09'\. Give NaN for bags without")


@pytest.mark.parametrize(("number", "got"), [(0, "none"), (1, "1")])
def test_two_outputs_at_least_must_be_there(bags, y, number, got):
    y[number:] = np.nan
    message = rf"`y` must hold the outputs of at least 2 bags; got {got} for 12 bags, the others are missing\. Give"
    refused(bags, y, message)


def test_missing_outputs_of_a_series_are_named(bags, y):
    series = pd.Series(y, index=LABELS).drop(["D03", "D07"])
    refused(bags, series, r"it lacks bags 'D03', 'D07'")
    series = pd.Series(y, index=LABELS).rename({"D05": "D99"})
    refused(bags, series, r"it lacks bag 'D05'; it holds the unknown bag 'D99'\. Index it by label")


def test_there_must_be_one_output_per_bag(bags, y):
    refused(bags, y[:-1], r"`y` must hold one number per bag, 12 in all; got 11\.")


@pytest.mark.parametrize("likelihood", ["poisson", "negative_binomial"])
def test_counts_must_not_be_negative(bags, y, likelihood):
    y[4] = -2
    refused(bags, y, r"must not be negative; got -2 for bag 'D04' \(1 such bags\)", likelihood=likelihood, link="exp")


def test_exponential_outputs_must_not_be_negative(bags, y):
    y[[4, 6]] = -2
    refused(bags, y, r"must not be negative; got -2 for bag 'D04'", likelihood="exponential", link="exp")


def test_fractional_counts_are_taken_with_a_warning(bags, y):
    y[3] = 4.5
    with (
        pytest.warns(DataWarning, match=r"1 of 12 counts \(poisson\) are not whole .*first: 4\.5 for bag 'D03'"),
        pytest.raises(AssertionError, match="not refused"),
    ):
        vbagg.VBAgg("poisson", kernel=FIXED, landmarks=6, inference=Unreachable()).fit(bags, y)


# Choices


@pytest.mark.parametrize(
    ("parameter", "known"),
    [
        ("likelihood", ", ".join(map(repr, vbagg.likelihoods.REGISTERED))),
        ("link", "'identity', 'exp', 'square', 'logistic'"),
        ("approximation", "'matched', 'taylor', 'bound', 'montecarlo'"),
        ("residual", "'auto', 'exact', 'diagonal', 'subset'"),
        ("inference", "'newton', 'adam'"),
        ("hyper", "'point', 'average'"),
    ],
)
def test_unknown_names_list_the_known_ones(bags, y, parameter, known):
    refused(bags, y, rf"`{parameter}` must be one of {known}; got 'wrong'\.", **{parameter: "wrong"})


@pytest.mark.parametrize(
    ("likelihood", "link", "reason"),
    [
        ("poisson", "identity", r"a Poisson mean cannot be negative; use 'square' or 'exp'"),
        ("poisson", "logistic", r"a rate is not bounded by one; use 'square' or 'exp'"),
        ("negative_binomial", "identity", r"a .*mean cannot be negative; use 'square' or 'exp'"),
        ("exponential", "square", r"E\[1/f\^2\] is infinite .* use 'exp'"),
        ("exponential", "identity", r"an exponential mean cannot be negative; use 'exp'"),
        ("normal", "exp", r"it works with 'identity'"),
        ("normal", "square", r"it works with 'identity'"),
        ("binomial", "exp", r"a probability lies between zero and one; use 'logistic'"),
    ],
)
def test_links_that_do_not_go_with_a_likelihood(bags, y, likelihood, link, reason):
    match = rf"`link`='{link}' does not go with likelihood '{likelihood}': {reason}"
    refused(bags, y, match, likelihood=likelihood, link=link)


def test_kernels_on_unknown_columns(bags, y):
    kernel = kernels.RBF("rain") + kernels.Matern32("hieght")
    refused(bags, y, r"among the features \['rain', 'height'\]; got 'hieght'", kernel=kernel)
    refused(bags, y, r"column number must be from 0 to 1; got 2\. The features are", kernel=kernels.RBF(2))


def test_priors_by_unknown_names(bags, y):
    refused(bags, y, r"`priors` must have names among variance, .*; got range", priors={"range": vbagg.Prior(1, 1)})
    refused(bags, y, r"`priors` must be 'default', None or a mapping .*; got 'weak'", priors="weak")


def test_parameters_of_likelihoods_must_be_positive(bags, y):
    with pytest.raises(ValueError, match=r"`dispersion` must be positive; got 0\. Use 'poisson' for zero"):
        likelihoods.NegativeBinomial(dispersion=0)
    tau = np.ones(12)
    tau[5] = 0.0
    refused(
        bags,
        y,
        r"`tau` must be positive; got 0 for bag 'D05'",
        likelihood=likelihoods.Normal(tau),
        link="identity",
    )


@pytest.mark.parametrize("kernel", ["rbf", kernels.RBF])
def test_kernels_must_be_kernels(bags, y, kernel):
    refused(bags, y, "`kernel` must be a kernel", (TypeError, ValueError), kernel=kernel)


def test_priors_must_be_priors(bags, y):
    refused(bags, y, "must be a .*Prior.*; got 3", (TypeError, ValueError), priors={"variance": 3.0})


@pytest.mark.parametrize("memory", ["2GB", -1.0, 0, True])
def test_memory_is_a_number_of_bytes(bags, y, memory):
    refused(
        bags, y, f"`memory` must be a positive number of bytes, such as 2e9, or None; got {memory!r}", memory=memory
    )


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (vbagg.Newton, {"starts": 0}),
        (vbagg.Newton, {"representatives": 0}),
        (vbagg.Adam, {"epochs": 0}),
        (vbagg.Adam, {"batch_size": -3}),
    ],
)
def test_options_of_the_inference(kind, options):
    ((name, value),) = options.items()
    with pytest.raises(ValueError, match=rf"`{name}` .*must be .*; got {value}"):
        kind(**options)


# Landmarks


def test_landmarks_cannot_outnumber_the_rows(bags, y):
    refused(bags, y, r"must not exceed the distinct rows .*; got 61 landmarks for 60 distinct rows\. Ask", landmarks=61)


def test_landmarks_of_each_component(bags, y):
    kernel = kernels.Linear() + kernels.RBF("rain") + kernels.Matern32("height")
    match = r"`landmarks` must have one entry per additive component that needs them \(2\); got 4"
    refused(bags, y, match, kernel=kernel, landmarks=[3, 3, 3, 3])
    refused(bags, y, match.replace("got 4", "got 1"), kernel=kernel, landmarks=[3])


@pytest.mark.parametrize(
    ("landmarks", "message"),
    [
        (np.zeros((3, 1)), r"must have shape \(m, 2\), with the component's columns; got \(3, 1\)"),
        (np.array([[1.0, np.nan]]), r"must be finite; got \[1\.0, nan\] at row 0"),
        (np.zeros((3, 2)), r"must be distinct; got 2 repeated, rows 1 = 0, 2 = 0\. Drop them"),
        (0, r"must be a positive integer; got 0"),
        (2.5, r"must be a positive integer; got 2\.5"),
    ],
)
def test_landmarks_of_the_user(bags, y, landmarks, message):
    refused(bags, y, message, landmarks=landmarks)


# Trials, offsets, validation


def test_trials_go_with_the_binomial(bags, y):
    binomial = {"likelihood": "binomial", "link": "logistic"}
    refused(bags, y, r"'binomial' needs `trials`: the number examined in each bag", **binomial)
    trials = y + 3
    trials[7] = y[7] - 1
    refused(
        bags,
        y,
        rf"`y` must not exceed `trials`; got y={y[7]:g}, trials={y[7] - 1:g} for bag 'D07' \(1 such bags\)",
        fit={"trials": trials},
        **binomial,
    )
    refused(bags, y, r"`trials` goes with likelihood 'binomial'; got it with 'poisson'", fit={"trials": y + 3})
    trials = y + 3.0
    trials[5] += 0.5
    refused(
        bags, y, rf"`trials` must be whole numbers; got {trials[5]:g} for bag 'D05'", fit={"trials": trials}, **binomial
    )
    trials = y + 3.0
    trials[2] = np.nan
    refused(
        bags,
        y,
        r"`trials` must be finite; got nan for bag 'D02', whose outputs are known\.",
        fit={"trials": trials},
        **binomial,
    )


def test_offsets_of_a_fit(bags, y):
    refused(bags, y, r"`offset` must hold one number per row, 60 in all; got 12", fit={"offset": np.zeros(12)})
    X, _, weight = arrays()
    in_turn = vbagg.Bags(X, np.tile(LABELS, 5), weight)
    offset = np.zeros(60)
    offset[[31, 33]] = np.nan
    refused(in_turn, y, r"`offset` must be finite; got nan at row 31 \(bag 'D07'\)", fit={"offset": offset})


def test_early_stopping_needs_a_validation_set(bags, y):
    model = vbagg.VBAgg(kernel=FIXED, landmarks=6, inference=vbagg.Adam(early_stopping=True))
    with pytest.raises(ValueError, match=r"Adam\(early_stopping=True\) needs `early_stop=\(bags, y\)`"):
        model.fit(bags, y)


def test_outputs_of_a_validation_set_must_be_finite(bags, y):
    wrong = y.copy()
    wrong[1] = np.inf
    refused(bags, y, r"must be finite or missing; got inf for bag 'D01'", fit={"validation": (bags, wrong)})
    wrong[:] = np.nan
    refused(bags, y, r"the output of at least one bag; got none for 12 bags", fit={"validation": (bags, wrong)})


@pytest.mark.parametrize(
    ("validation", "message", "error"),
    [
        (lambda bags, y: (vbagg.Bags(bags.X[:, :1], bags.bag), y), r"2 columns .*; got 1", ValueError),
        (lambda bags, y: (bags, -y), "must not be negative; got -", ValueError),
        (lambda bags, y: bags, r"`validation` must be .*\(bags, y\)", (TypeError, ValueError)),
    ],
)
def test_a_validation_set_is_checked_before_the_fit(bags, y, validation, message, error):
    refused(bags, y, message, error, fit={"validation": validation(bags, y)})


def test_validation_of_the_binomial_is_refused_before_the_fit(bags, y):
    fit = {"trials": y + 3, "validation": (bags, y)}
    refused(bags, y, "trials", fit=fit, likelihood="binomial", link="logistic")


# Prediction


def test_columns_of_a_prediction(model, bags):
    X, labels, weight = arrays()
    number = r"The model was fitted with 2 columns \(rain, height\); got 1\."
    names = r"The model was fitted with columns \['rain', 'height'\]; got \['height', 'rain'\]\. Reorder or rename"
    with pytest.raises(ValueError, match=number):
        model.posterior(X[["rain"]])
    with pytest.raises(ValueError, match=names):
        model.posterior(X[["height", "rain"]])
    with pytest.raises(ValueError, match=number):
        model.predict(vbagg.Bags(X[["rain"]], labels, weight))
    with pytest.raises(ValueError, match=names):
        model.score(vbagg.Bags(X[["height", "rain"]], labels, weight), np.zeros(12))
    np.testing.assert_array_equal(model.posterior(X.to_numpy()).mean, model.posterior(X).mean)


def test_bags_of_a_prediction_must_be_bags(model):
    with pytest.raises(TypeError, match=r"`bags` must be a vbagg\.Bags; got DataFrame"):
        model.predict(arrays()[0])


def test_rows_of_a_prediction_must_be_finite(model):
    X, _, _ = arrays()
    X.loc[5, "rain"] = np.nan
    with pytest.raises(ValueError, match=r"`X` must be finite; got nan at column 'rain', row 5"):
        model.posterior(X)


def test_offsets_of_a_prediction(model, bags):
    X, _, _ = arrays()
    with pytest.raises(ValueError, match=r"`offset` must hold 60 numbers, one per row; got shape \(12,\)"):
        model.posterior(X, offset=np.zeros(12))
    with pytest.raises(ValueError, match=r"`offset` must be finite; got nan at row 0"):
        model.posterior(X, offset=np.full(60, np.nan))
    with pytest.raises(ValueError, match=r"`offset` must hold one number per row, 60 in all; got 12"):
        model.posterior_bags(bags, offset=np.zeros(12))


def test_a_bad_value_of_an_offset_is_shown(model):
    X, _, _ = arrays()
    offset = np.zeros(60)
    offset[33] = np.nan
    with pytest.raises(ValueError, match=r"nan at row 33"):
        model.posterior(X, offset=offset)


def test_trials_of_a_prediction(model, bags):
    with pytest.raises(ValueError, match=r"`trials` goes with likelihood 'binomial'; got it with 'normal'"):
        model.predictive_bags(bags, trials=np.full(12, 5.0))


def test_scores_of_outputs_that_cannot_be(model, bags):
    with pytest.raises(ValueError, match=r"the output of at least one bag; got none for 12 bags"):
        model.score(bags, np.full(12, np.nan))
    with pytest.raises(ValueError, match=r"`y` must hold one number per bag, 12 in all; got 3"):
        model.score(bags, [1.0, 2.0, 3.0])


def test_levels_of_an_interval(model):
    post = model.posterior(arrays()[0])
    with pytest.raises(ValueError, match=r"`level` must lie strictly between 0 and 1; got 90\. Give 0\.9"):
        post.interval(90)
    with pytest.raises(ValueError, match=r"`q` must lie strictly between 0 and 1; got 1 at position 1"):
        post.quantile([0.5, 1.0])
