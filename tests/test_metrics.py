"""Scores against scipy densities, double loops, quadrature and hand-made cases."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import ndtr

from vbagg import metrics


class ScipyLaw:
    """A law over rows made from a frozen scipy distribution with vector parameters."""

    def __init__(self, frozen, discrete=False):
        self.frozen, self.discrete = frozen, discrete
        self.cdf = frozen.cdf

    def quantile(self, q):
        return self.frozen.ppf(np.asarray(q)[:, None])

    def interval(self, level):
        lower, upper = self.quantile([(1 - level) / 2, (1 + level) / 2])
        return lower, upper

    def log_prob(self, y):
        return self.frozen.logpmf(y) if self.discrete else self.frozen.logpdf(y)


MEAN = np.array([0.3, -1.2, 4.0, 2.5])
STD = np.array([0.5, 2.0, 1.1, 0.05])
Y = np.array([0.9, -1.0, 1.5, 2.51])


def normal_law():
    return ScipyLaw(stats.norm(MEAN, STD))


def log_normal_crps(y, mu, sigma):
    w = (np.log(y) - mu) / sigma
    tail = ndtr(w - sigma) + ndtr(sigma / np.sqrt(2)) - 1
    return y * (2 * ndtr(w) - 1) - 2 * np.exp(mu + sigma**2 / 2) * tail


# Point predictions


def test_point_scores_by_hand():
    y, rate = [1.0, 2.0, 4.0], [2.0, 2.0, 1.0]
    assert metrics.mse(y, rate) == pytest.approx(10 / 3)
    assert metrics.rmse(y, rate) == pytest.approx(np.sqrt(10 / 3))
    assert metrics.mae(y, rate) == pytest.approx(4 / 3)
    assert metrics.log_mse(y, rate) == pytest.approx(np.log(2) ** 2 * (1 + 4) / 3)
    assert metrics.mae(y, 2.0) == pytest.approx(1.0)


def test_log_mse_needs_an_offset_for_zeros():
    with pytest.raises(ValueError, match=r"`y` must be greater than 0 .* got 0 at row 1\. Pass `offset=`"):
        metrics.log_mse([1.0, 0.0], [1.0, 1.0])
    with pytest.raises(ValueError, match="`rate` must be greater than 0"):
        metrics.log_mse([1.0, 1.0], [1.0, -2.0])
    assert metrics.log_mse([3.0, 0.0], [1.0, 1.0], offset=1.0) == pytest.approx(np.log(2) ** 2)


# Densities

COUNTS = np.array([0.0, 3.0, 7.0, 1.0])
RATES = np.array([0.4, 2.5, 11.0, 1.0])
TRIALS = np.array([2.0, 3.0, 12.0, 10.0])


@pytest.mark.parametrize(
    ("likelihood", "parameters", "y", "rate", "log_density"),
    [
        ("poisson", {}, COUNTS, RATES, stats.poisson(RATES).logpmf(COUNTS)),
        ("normal", {"variance": STD**2}, Y, MEAN, stats.norm(MEAN, STD).logpdf(Y)),
        ("normal", {"variance": 0.7}, Y, MEAN, stats.norm(MEAN, np.sqrt(0.7)).logpdf(Y)),
        ("exponential", {}, COUNTS, RATES, stats.expon(scale=RATES).logpdf(COUNTS)),
        (
            "negative_binomial",
            {"dispersion": 0.3},
            COUNTS,
            RATES,
            stats.nbinom(1 / 0.3, 1 / (1 + 0.3 * RATES)).logpmf(COUNTS),
        ),
        (
            "binomial",
            {"trials": TRIALS},
            COUNTS,
            RATES / 12,
            stats.binom(TRIALS, RATES / 12).logpmf(COUNTS),
        ),
    ],
)
def test_nll_is_the_density(likelihood, parameters, y, rate, log_density):
    got = metrics.nll(y, rate, likelihood, **parameters)
    assert got == pytest.approx(-log_density.mean(), rel=1e-12)


def test_negative_binomial_has_the_promised_variance():
    rate, dispersion = 2.7, 0.6
    counts = np.arange(400.0)
    mass = np.exp([-metrics.nll([y], rate, "negative_binomial", dispersion=dispersion) for y in counts])
    assert mass.sum() == pytest.approx(1)
    assert mass @ (counts - rate) ** 2 == pytest.approx(rate + dispersion * rate**2)


@pytest.mark.parametrize("dispersion", [1e-7, 1e-10, 1e-13])
def test_negative_binomial_tends_to_poisson(dispersion):
    got = metrics.nll(COUNTS, RATES, "negative_binomial", dispersion=dispersion)
    assert got == pytest.approx(metrics.nll(COUNTS, RATES), abs=20 * dispersion + 1e-11)


def test_nll_of_real_valued_counts_uses_the_gamma_function():
    gamma_4_5 = 11.631728396567448
    assert metrics.nll([3.5], 2.0) == pytest.approx(2 - 3.5 * np.log(2) + np.log(gamma_4_5))


def test_nll_at_the_edge_of_the_support():
    assert metrics.nll([0.0, 0.0], [0.0, 1.0]) == pytest.approx(0.5)
    assert metrics.nll([1.0], 0.0) == np.inf
    assert metrics.nll([4.0, 0.0], [1.0, 0.0], "binomial", trials=4) == pytest.approx(0)


@pytest.mark.parametrize(
    ("arguments", "parameters", "error", "message"),
    [
        (([1.0], [1.0], "gamma"), {}, ValueError, "`likelihood` must be one of 'poisson'.*got 'gamma'"),
        (([1.0], [1.0], "normal"), {}, TypeError, "'normal' takes `variance=`; got none"),
        (([1.0], [1.0]), {"variance": 1.0}, TypeError, "'poisson' takes no parameters; got variance"),
        (([1.0, 2.0], [1.0]), {}, ValueError, r"`rate` must have shape \(2,\) to match `y`; got \(1,\)"),
        (([[1.0], [2.0]], [1.0, 1.0]), {}, ValueError, r"`y` must be a vector .* got shape \(2, 1\)"),
        (([], []), {}, ValueError, "at least one row"),
        (([1.0, np.nan], [1.0, 1.0]), {}, ValueError, "`y` must be finite; got nan at row 1"),
        (([1.0, -2.0], [1.0, 1.0]), {}, ValueError, "`y` must be non-negative .* got -2 at row 1"),
        (([1.0, 2.0], [-0.5, 1.0]), {}, ValueError, "`rate` must be non-negative .* got -0.5 at row 0"),
        (([1.0], [0.0], "exponential"), {}, ValueError, "`rate` must be positive"),
        (([1.0], [1.0], "normal"), {"variance": 0.0}, ValueError, "`variance` must be positive"),
        (([1.0], [1.0], "negative_binomial"), {"dispersion": 0.0}, ValueError, "use 'poisson'"),
        (([5.0], [0.5], "binomial"), {"trials": 4}, ValueError, "between 0 and `trials`; got 5"),
        (([3.0], [1.5], "binomial"), {"trials": 4}, ValueError, "`rate` must be a probability"),
        (([3.0, 1.0], [0.5, 0.5], "binomial"), {"trials": [4]}, ValueError, "`trials` must have shape"),
    ],
)
def test_nll_refuses(arguments, parameters, error, message):
    with pytest.raises(error, match=message):
        metrics.nll(*arguments, **parameters)


def test_predictive_nll_of_densities_and_of_a_law():
    expected = -stats.norm(MEAN, STD).logpdf(Y).mean()
    assert metrics.predictive_nll(stats.norm(MEAN, STD).logpdf(Y)) == pytest.approx(expected)
    assert metrics.predictive_nll(normal_law(), Y) == pytest.approx(expected)
    assert metrics.predictive_nll([-1.0, -np.inf]) == np.inf


def test_predictive_nll_refuses():
    with pytest.raises(TypeError, match=r"predictive_nll\(law, y\)"):
        metrics.predictive_nll(normal_law())
    with pytest.raises(ValueError, match="got nan at row 1"):
        metrics.predictive_nll([-1.0, np.nan])
    with pytest.raises(ValueError, match=r"`law.log_prob\(y\)` must have shape \(1,\)"):
        metrics.predictive_nll(normal_law(), Y[:1])


# CRPS


def test_crps_normal_is_the_integral_of_squared_cdf_error():
    def one(y, mean, std):
        def squared_error(x):
            return (ndtr((x - mean) / std) - (x >= y)) ** 2

        ends = mean - 12 * std, mean + 12 * std
        return integrate.quad(squared_error, *ends, points=[y], epsabs=1e-11)[0]

    expected = np.mean([one(*row) for row in zip(Y, MEAN, STD, strict=True)])
    assert metrics.crps_normal(Y, MEAN, STD) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("z", np.linspace(-3, 3, 13))
def test_crps_from_quantiles_keeps_its_documented_error(z):
    law = ScipyLaw(stats.norm([1.5], 0.4))
    y = [1.5 + 0.4 * z]
    assert metrics.crps(y, law) == pytest.approx(metrics.crps_normal(y, 1.5, 0.4), rel=2e-5)
    for sigma, error in ((0.5, 4e-5), (1.0, 4e-5), (2.0, 1e-4)):
        law = ScipyLaw(stats.lognorm([sigma], scale=np.exp(0.7)))
        y = np.exp([0.7 + sigma * z])
        assert metrics.crps(y, law) == pytest.approx(log_normal_crps(y, 0.7, sigma)[0], rel=error)


def test_crps_with_few_levels_equals_the_loop():
    total = 0.0
    for level in (0.1, 0.3, 0.5, 0.7, 0.9):
        for y, quantile in zip(Y, stats.norm(MEAN, STD).ppf(level), strict=True):
            total += level * (y - quantile) if y >= quantile else (1 - level) * (quantile - y)
    assert metrics.crps(Y, normal_law(), n_levels=5) == pytest.approx(2 * total / 20, rel=1e-12)


def test_crps_of_a_discrete_law_is_the_sum_of_squared_cdf_errors():
    rate, y = np.array([1.3, 6.0]), np.array([4.0, 5.0])
    grid = np.arange(60)[:, None]
    expected = np.sum((stats.poisson(rate).cdf(grid) - (grid >= y)) ** 2, axis=0).mean()
    assert metrics.crps(y, ScipyLaw(stats.poisson(rate)), n_levels=9999) == pytest.approx(expected, rel=1e-3)


def test_crps_does_not_depend_on_the_blocks_of_levels(monkeypatch):
    whole = metrics.crps(Y, normal_law())
    monkeypatch.setattr(metrics, "_BLOCK", 10)
    assert metrics.crps(Y, normal_law()) == pytest.approx(whole, rel=1e-12)


def test_crps_from_samples_equals_the_double_loop():
    samples = np.random.default_rng(3).gamma(1.5, size=(7, 4)) + MEAN
    n = len(samples)
    scores = []
    for column, y in zip(samples.T, Y, strict=True):
        pairs = sum(abs(a - b) for a in column for b in column) / (n * (n - 1))
        scores.append(sum(abs(a - y) for a in column) / n - pairs / 2)
    assert metrics.crps(Y, samples) == pytest.approx(np.mean(scores), rel=1e-12)


def test_crps_from_samples_is_unbiased():
    draws = np.random.default_rng(5).normal(size=(3, 200_000))
    y = np.full(draws.shape[1], 0.8)
    assert metrics.crps(y, draws) == pytest.approx(metrics.crps_normal([0.8], 0, 1), abs=0.006)


def test_crps_refuses():
    with pytest.raises(ValueError, match=r"`samples` must have shape \(n, 4\) .* got \(1, 4\)"):
        metrics.crps(Y, np.zeros((1, 4)))
    with pytest.raises(ValueError, match=r"got \(4, 3\)"):
        metrics.crps(Y, np.zeros((4, 3)))
    with pytest.raises(ValueError, match="`samples` must be finite"):
        metrics.crps(Y, np.full((3, 4), np.nan))
    with pytest.raises(ValueError, match=r"`law.quantile\(q\)` must have shape"):
        metrics.crps(Y[:3], normal_law())
    with pytest.raises(ValueError, match="`n_levels` must be at least 1; got 0"):
        metrics.crps(Y, normal_law(), n_levels=0)
    with pytest.raises(ValueError, match="`std` must be positive; got 0 at row 0"):
        metrics.crps_normal(Y, MEAN, 0.0)


# Intervals and calibration


def test_interval_score_and_coverage_by_hand():
    y, lower, upper = [1.0, 5.0, -2.0], [0.0, 1.0, -1.0], [2.0, 4.5, 1.0]
    assert metrics.interval_score(y, lower, upper, 0.8) == pytest.approx((2 + 3.5 + 5 + 2 + 10) / 3)
    assert metrics.coverage(y, lower, upper) == pytest.approx(1 / 3)
    assert metrics.coverage([0.0, 2.0], 0.0, 2.0) == 1  # ends belong to the interval


def test_interval_score_is_best_at_the_central_interval():
    y = np.random.default_rng(0).normal(size=20_000)
    z = stats.norm.ppf(0.9)
    right = metrics.interval_score(y, -z, z, 0.8)
    for lower, upper in ((-1.4 * z, 1.4 * z), (-0.7 * z, 0.7 * z), (-z - 0.4, z - 0.4)):
        assert right < metrics.interval_score(y, lower, upper, 0.8) - 0.02


def test_calibration_of_a_law_too_narrow():
    rng = np.random.default_rng(1)
    mean, std = rng.normal(size=20_000), rng.uniform(0.5, 2, size=20_000)
    y = rng.normal(mean, std)
    levels = np.array(metrics.LEVELS)
    right, narrow = ScipyLaw(stats.norm(mean, std)), ScipyLaw(stats.norm(mean, std / 2))
    assert metrics.calibration(y, right) == pytest.approx(levels, abs=0.012)
    half = 2 * stats.norm.cdf(stats.norm.ppf((1 + levels) / 2) / 2) - 1
    assert metrics.calibration(y, narrow) == pytest.approx(half, abs=0.012)
    assert metrics.coverage_error(y, narrow) == pytest.approx(np.mean(levels - half), abs=0.012)
    assert metrics.calibration(y, right, levels=[0.5]).shape == (1,)


def test_intervals_refuse():
    with pytest.raises(ValueError, match="`lower` must be at most `upper`; got 3 at row 1"):
        metrics.coverage([1.0, 1.0], [0.0, 3.0], [2.0, 2.0])
    with pytest.raises(ValueError, match="strictly between 0 and 1; got 90"):
        metrics.interval_score([1.0], [0.0], [2.0], 90)
    with pytest.raises(ValueError, match="strictly between 0 and 1; got 1"):
        metrics.coverage_error(Y, normal_law(), levels=(0.5, 1))
    with pytest.raises(ValueError, match="`upper` must be finite"):
        metrics.coverage([1.0], [0.0], [np.inf])


# PIT


def test_pit_of_a_continuous_law_is_its_cdf():
    np.testing.assert_allclose(metrics.pit(Y, normal_law()), stats.norm.cdf((Y - MEAN) / STD))


def test_pit_of_a_discrete_law_is_uniform_only_when_randomised():
    rate = np.random.default_rng(2).uniform(0.2, 3, size=4000)
    y = np.random.default_rng(7).poisson(rate)
    law = ScipyLaw(stats.poisson(rate), discrete=True)
    assert stats.kstest(metrics.pit(y, law, rng=11), "uniform").pvalue > 0.01
    assert stats.kstest(law.cdf(y), "uniform").pvalue < 1e-6
    np.testing.assert_array_equal(metrics.pit(y, law, rng=11), metrics.pit(y, law, rng=11))


def test_pit_refuses_another_number_of_rows():
    with pytest.raises(ValueError, match=r"`law.cdf\(y\)` must have shape \(1,\)"):
        metrics.pit(Y[:1], normal_law())
