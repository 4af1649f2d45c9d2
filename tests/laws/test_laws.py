"""Every law against scipy.stats, brute-force integration or Monte Carlo, extreme parameters included."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats
from scipy.special import expit, gammaln, logsumexp

from vbagg.laws import (
    Beta,
    BetaBinomial,
    ExponentialLogNormal,
    Gamma,
    Law,
    LogitNormal,
    LogNormal,
    Mixture,
    NegativeBinomial,
    NegativeBinomialMixture,
    Normal,
    NumericalLaw,
    PoissonLogNormal,
    SquaredNormal,
)

pytestmark = pytest.mark.filterwarnings("error")

LEVELS = np.array([1e-6, 0.03, 0.4, 0.9, 1 - 1e-6])


def _bumps(y, rows):
    """Log density of two normals, 40 apart."""
    weight, centre = np.array([0.35, 0.5, 0.8])[rows], np.array([-1.0, 5.0, 70.0])[rows]
    return logsumexp(
        [np.log(weight) + stats.norm.logpdf(y, centre, 0.2), np.log1p(-weight) + stats.norm.logpdf(y, centre + 40, 3)],
        axis=0,
    )


def _spiked(y, rows):
    """Log mass of a Poisson count with additional zeros."""
    extra, mean = np.array([0.3, 0.05, 0.6])[rows], np.array([500.0, 2.0, 9.0])[rows]
    zero = np.log(extra + (1 - extra) * np.exp(-mean))
    return np.where(y == 0, zero, np.log1p(-extra) + stats.poisson.logpmf(np.floor(y), mean))


LAWS = {
    "normal": Normal([-1.0, 0.5, 3.0], [0.3, 1.0, 2.0], scale=2.0),
    "log_normal": LogNormal([-1.0, 0.5, 3.0], [0.3, 1.0, 2.0], scale=[1.0, 3.0, 0.1]),
    "logit_normal": LogitNormal([-4.0, 0.5, 3.0], [0.3, 1.0, 2.0], scale=100.0),
    "squared": SquaredNormal([-1.0, 0.0, 3.0], [0.3, 1.0, 2.0], scale=[1.0, 3.0, 0.1]),
    "gamma": Gamma([2.0, 30.0, 0.1], [0.4, 7.0, 500.0]),
    "beta": Beta([0.2, 0.5, 0.97], [0.9, 7.0, 500.0]),
    "negative_binomial": NegativeBinomial([2.5, 40.0, 1000.0], [0.4, 7.0, np.inf]),
    "beta_binomial": BetaBinomial([3, 50, 4000], [0.4, 7.0, 30.0], [0.9, 2.0, 4000.0]),
    "poisson_log_normal": PoissonLogNormal([0.5, 2.0, 6.0], [1.5, 0.2, 0.05]),
    "exponential_log_normal": ExponentialLogNormal([-1.0, 0.5, 3.0], [0.3, 1.0, 2.0]),
    "mixed_negative_binomial": NegativeBinomialMixture(LogNormal([0.5, 2.0, 6.0], [1.5, 0.2, 0.05]), [0.3, 0.0, 4.0]),
    "gamma_negative_binomial": NegativeBinomialMixture(Gamma([2.5, 40.0, 1e3], [0.4, 7.0, np.inf]), [1.3, 0.01, 0.4]),
    "numerical_density": NumericalLaw(_bumps, [25.0, 25.0, 78.0], [19.2, 20.1, 16.1], discrete=False),
    "numerical_count": NumericalLaw(_spiked, [350.0, 1.9, 3.6], [229.8, 1.45, 4.8], discrete=True, lower=0.0),
    "mixture": Mixture([Normal([0.0, 1.0, 2.0], 0.5), LogNormal([0.0, 1.0, 3.0], [0.1, 0.2, 1.0])], weights=[0.6, 1.4]),
    "count_mixture": Mixture(
        [NegativeBinomial([3.0, 40.0, 1000.0], 5.0), PoissonLogNormal([0.5, 2.0, 6.0], 0.7)],
        weights=[0.3, 0.7],
    ),
}


@pytest.fixture(params=LAWS, name="law")
def _law(request) -> Law:
    return LAWS[request.param]


class TestInterface:
    def test_shapes(self, law):
        assert len(law) == 3
        assert law.mean.shape == law.std.shape == law.quantile(0.3).shape == (3,)
        assert law.quantile([0.1, 0.3]).shape == (2, 3)
        assert law.quantile([0.3]).shape == (1, 3)
        assert law.sample(7, np.random.default_rng(0)).shape == (7, 3)
        for method in (law.cdf, law.exceedance, law.log_prob):
            assert method(2.0).shape == method([1.0, 2.0, 3.0]).shape == (3,)
            assert method([[1.0], [2.0]]).shape == method(np.ones((2, 3))).shape == (2, 3)

    def test_broadcast_values_match_row_by_row_calls(self, law):
        x = law.quantile([0.2, 0.7]) + 0.25
        for method in (law.cdf, law.exceedance, law.log_prob):
            together = method(x)
            for position in np.ndindex(x.shape):
                np.testing.assert_allclose(together[position], method(x[position])[position[1]], rtol=1e-12)

    def test_vector_quantiles_match_scalar_ones(self, law):
        for level, row in zip([0.7, 0.2], law.quantile([0.7, 0.2]), strict=True):
            np.testing.assert_array_equal(row, law.quantile(level))

    def test_quantile_is_the_first_value_whose_cdf_reaches_the_level(self, law):
        for level, value in zip(LEVELS, law.quantile(LEVELS), strict=True):
            if law.discrete:
                np.testing.assert_array_equal(value, np.floor(value))
                assert np.all(law.cdf(value) >= level)
                assert np.all(law.cdf(value - 1) < level)
            else:
                np.testing.assert_allclose(law.cdf(value), level, rtol=1e-8)

    def test_interval_is_central(self, law):
        lower, upper = law.interval(0.8)
        np.testing.assert_allclose(lower, law.quantile(0.1), rtol=1e-12)
        np.testing.assert_allclose(upper, law.quantile(0.9), rtol=1e-12)

    def test_exceedance_complements_cdf(self, law):
        x = np.concatenate([law.quantile(LEVELS), [[-1.0] * 3, [np.inf] * 3]])
        np.testing.assert_allclose(law.cdf(x) + law.exceedance(x), 1.0, atol=1e-12)

    def test_sample_follows_the_cdf(self, law):
        draws = law.sample(40_000, np.random.default_rng(3))
        for level in (0.15, 0.5, 0.9):
            x = law.quantile(level)
            np.testing.assert_allclose((draws <= x).mean(axis=0), law.cdf(x), atol=0.012)

    def test_sample_is_reproducible(self, law):
        np.testing.assert_array_equal(law.sample(5, 11), law.sample(5, np.random.default_rng(11)))

    def test_rows_can_be_picked(self, law):
        law.mean.sum()  # fills caches
        for rows in ([2, 0], np.array([True, False, True]), slice(1, None)):
            rows = np.asarray(rows) if isinstance(rows, list) else rows
            part = law[rows]
            assert len(part) == 2
            np.testing.assert_array_equal(part.mean, law.mean[rows])
            np.testing.assert_allclose(part.quantile(0.3), law.quantile(0.3)[rows], rtol=1e-12)
            np.testing.assert_allclose(part.log_prob(1.0), law.log_prob(1.0)[rows], rtol=1e-12)

    def test_nan_in_nan_out(self, law):
        for method in (law.cdf, law.exceedance, law.log_prob):
            np.testing.assert_array_equal(np.isnan(method([1.0, np.nan, 1.0])), [False, True, False])

    @pytest.mark.parametrize("q", [0.0, 1.0, -0.1, 90, np.nan])
    def test_levels_outside_the_unit_interval_are_refused(self, law, q):
        with pytest.raises(ValueError, match=r"`q` must lie strictly between 0 and 1; got .* at position 1"):
            law.quantile([0.5, q])
        with pytest.raises(ValueError, match="`level` must lie strictly between 0 and 1"):
            law.interval(q)


def test_rows_are_drawn_independently():
    for name, law in LAWS.items():
        if "mixture" not in name:
            ranks = stats.rankdata(law.sample(20_000, 5), axis=0)
            assert np.abs(np.corrcoef(ranks.T)[np.triu_indices(3, 1)]).max() < 0.03, name


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Normal([0.0, 1.0], [0.1, -0.3]), r"`std` must be non-negative.*got -0.3 at row 1"),
        (lambda: LogNormal(0.0, np.nan), r"`log_std` .* got nan at row 0"),
        (lambda: SquaredNormal([1.0, np.nan], 1.0), r"`mean` must be finite; got nan at row 1"),
        (lambda: LogitNormal(0.0, 1.0, scale=[1.0, 0.0]), r"`scale` must be positive; got 0 at row 1"),
        (lambda: Gamma.from_moments([1.0, -2.0], 1.0), r"`mean` must be non-negative.*got -2 at row 1"),
        (lambda: Gamma.from_moments(1.0, [1.0, -2.0]), r"`variance` must be non-negative.*got -2 at row 1"),
        (lambda: Beta.from_moments([0.5, 1.2], 0.1), r"`mean` must be a proportion.*got 1.2 at row 1"),
        (lambda: NegativeBinomial(1.0, [3.0, 0.0]), r"`size` must be positive; got 0 at row 1"),
        (lambda: BetaBinomial([3, 2.5], 1.0, 1.0), r"`trials` must be a whole number.*got 2.5 at row 1"),
        (lambda: Normal([0.0, 1.0], [1.0, 1.0, 1.0]), r"one length; got shapes .*\(2,\).*\(3,\)"),
        (lambda: Normal(np.zeros((2, 2)), 1.0), r"one-dimensional; got shapes"),
        (lambda: Mixture([Normal(0.0, 1.0)], [0.5, 0.5]), r"one number per law"),
        (lambda: Mixture([Normal(0.0, 1.0)], [-1.0]), r"`weights` must be non-negative"),
        (lambda: Mixture([Normal(0.0, 1.0), Normal([0.0, 1.0], 1.0)], [1, 1]), r"lengths \[1, 2\]"),
        (
            lambda: Mixture([Normal(0.0, 1.0), NegativeBinomial(1.0, 1.0)], [1, 1]),
            r"all continuous or all disc",
        ),
    ],
)
def test_bad_parameters_are_named(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def assert_matches_scipy(law: Law, frozen, x):
    np.testing.assert_allclose(law.mean, frozen.mean(), rtol=1e-12)
    np.testing.assert_allclose(law.std, frozen.std(), rtol=1e-12)
    np.testing.assert_allclose(law.cdf(x), frozen.cdf(x), rtol=1e-9, atol=1e-300)
    np.testing.assert_allclose(law.exceedance(x), frozen.sf(x), rtol=1e-9, atol=1e-300)
    log_prob = (frozen.logpmf if law.discrete else frozen.logpdf)(x)
    np.testing.assert_allclose(law.log_prob(x), log_prob, rtol=1e-9, atol=1e-9)
    for level in LEVELS:
        np.testing.assert_allclose(law.quantile(level), frozen.ppf(level), rtol=1e-8)


class TestGaussianFamily:
    def test_normal(self):
        law = Normal([-1.0, 2.0], [0.5, 3.0], scale=2.0)
        assert_matches_scipy(law, stats.norm([-2.0, 4.0], [1.0, 6.0]), np.array([-7.0, 0.3]))

    def test_log_normal(self):
        law = LogNormal([-1.0, 2.0], [0.5, 1.3], scale=[2.0, 0.1])
        frozen = stats.lognorm([0.5, 1.3], scale=[2 * np.exp(-1), 0.1 * np.exp(2)])
        assert_matches_scipy(law, frozen, np.array([0.02, 9.0]))
        np.testing.assert_array_equal(law.log_prob([0.0, -1.0]), -np.inf)
        np.testing.assert_array_equal(law.cdf([0.0, -1.0]), 0.0)

    @pytest.mark.parametrize("std", [1e-6, 0.3, 1.4, 1.6, 5.0, 40.0])
    def test_logit_normal_moments(self, std):
        mean = np.array([-14.0, -3.0, 0.0, 0.7, 9.0])
        law = LogitNormal(mean, std, scale=3.0)
        z, step = np.linspace(-12, 25, 200_001, retstep=True)
        density = stats.norm.pdf(z) * step
        for row, centre in enumerate(mean):
            # of the rarer outcome, so that the comparison is relative
            value = expit(-abs(centre) + std * z)
            first = density @ value
            spread = np.sqrt(density @ (value - first) ** 2)
            rarer = law.mean[row] / 3 if centre <= 0 else 1 - law.mean[row] / 3
            np.testing.assert_allclose(rarer, first, rtol=1e-6)
            np.testing.assert_allclose(law.std[row] / 3, spread, rtol=1e-6)

    def test_logit_normal_density_integrates_to_the_cdf(self):
        law = LogitNormal([-2.0, 1.0], [0.8, 2.5], scale=[4.0, 0.5])
        for row, (low, high) in enumerate([(0.3, 1.9), (0.21, 0.48)]):
            mass, _ = integrate.quad(lambda x, row=row: np.exp(law.log_prob(x)[row]), low, high)
            np.testing.assert_allclose(law.cdf(high)[row] - law.cdf(low)[row], mass, rtol=1e-8)
        np.testing.assert_array_equal(law.cdf([-1.0, 0.6]), [0.0, 1.0])
        np.testing.assert_array_equal(law.log_prob([-1.0, 0.6]), -np.inf)

    def test_log_normal_from_moments(self):
        mean, variance = np.array([3.0, 1e-3, 5.0, 0.0]), np.array([2.0, 1e-4, 0.0, 0.0])
        law = LogNormal.from_moments(mean, variance)
        np.testing.assert_allclose(law.mean, mean, rtol=1e-12)
        np.testing.assert_allclose(law.std**2, variance, rtol=1e-12)
        np.testing.assert_allclose(law.quantile(0.9)[2:], [5.0, 0.0], rtol=1e-12)
        np.testing.assert_array_equal(law.cdf(-1e-9)[3:], 0.0)
        np.testing.assert_array_equal(law.cdf(0.0), [0.0, 0.0, 0.0, 1.0])
        np.testing.assert_array_equal(law.exceedance(0.0), [1.0, 1.0, 1.0, 0.0])

    def test_normal_from_moments(self):
        law = Normal.from_moments([-3.0, 2.0], [4.0, 0.0])
        np.testing.assert_array_equal(law.std, [2.0, 0.0])
        np.testing.assert_array_equal(law.quantile([0.1, 0.9])[:, 1], 2.0)
        np.testing.assert_array_equal(law.cdf([[1.999], [2.0]])[:, 1], [0.0, 1.0])
        np.testing.assert_array_equal(law.log_prob([[1.999], [2.0]])[:, 1], [-np.inf, np.inf])


class TestSquaredNormal:
    def test_matches_non_central_chi_square(self):
        mean, std, scale = np.array([-1.0, 0.4, 3.0]), np.array([0.7, 2.0, 1.1]), 2.5
        law = SquaredNormal(mean, std, scale=scale)
        frozen = stats.ncx2(1, (mean / std) ** 2, scale=scale * std**2)
        assert_matches_scipy(law, frozen, np.array([0.01, 5.0, 100.0]))

    def test_matches_chi_square_when_central(self):
        law = SquaredNormal(0.0, [0.5, 3.0])
        frozen = stats.chi2(1, scale=np.array([0.25, 9.0]))
        assert_matches_scipy(law, frozen, np.array([1e-20, 4.0]))
        for level in (1e-14, 1 - 1e-12):
            np.testing.assert_allclose(law.quantile(level), frozen.ppf(level), rtol=1e-8)

    def test_tiny_probabilities_do_not_cancel(self):
        # P(f^2 <= x) ~ 2 sqrt(x) phi(mean / std) / std
        law = SquaredNormal([0.5, -3.0, 6.0], [1.0, 0.8, 1.0])
        slope = 2 * stats.norm.pdf([0.5, 3 / 0.8, 6.0]) / [1.0, 0.8, 1.0]
        np.testing.assert_allclose(law.cdf(1e-26), 1e-13 * slope, rtol=1e-12)
        level = 1e-15
        np.testing.assert_allclose(law.quantile(level)[:2], (level / slope[:2]) ** 2, rtol=1e-8)

    def test_tiny_quantiles_of_many_locations(self):
        location = np.linspace(0, 3, 500)
        expected = (0.5e-12 / stats.norm.pdf(location)) ** 2
        np.testing.assert_allclose(SquaredNormal(location, 1.0).quantile(1e-12), expected, rtol=1e-8)

    def test_no_spread_is_a_point_mass(self):
        law = SquaredNormal([-2.0, 0.0, 1.0], [0.0, 0.0, 1e-200], scale=3.0)
        np.testing.assert_allclose(law.quantile([1e-6, 0.9]), [[12.0, 0.0, 3.0]] * 2, rtol=1e-14)
        np.testing.assert_array_equal(law.cdf([[-1.0], [0.0], [11.9], [12.1]])[:, 0], [0, 0, 0, 1])
        np.testing.assert_array_equal(law.cdf([[-1.0], [0.0]])[:, 1], [0, 1])
        np.testing.assert_array_equal(law.exceedance([[-1.0], [0.0]])[:, 1], [1, 0])
        np.testing.assert_array_equal(law.std[:2], 0.0)

    def test_small_spread_tends_to_the_normal(self):
        law = SquaredNormal(7.0, [1e-3, 1e-7])
        root = 7.0 + law.spread * stats.norm.ppf(0.99)
        np.testing.assert_allclose(law.quantile(0.99), root**2, rtol=1e-14)

    @settings(max_examples=300, deadline=None)
    @given(
        location=st.floats(-1e3, 1e3),
        log_spread=st.floats(-12, 6),
        log_tail=st.floats(-30, -0.7),
        upper=st.booleans(),
    )
    def test_quantile_inverts_the_tail(self, location, log_spread, log_tail, upper):
        tail, spread = np.exp(log_tail), np.exp(log_spread)
        level = 1 - tail if upper else tail
        law = SquaredNormal(location, spread)
        root = np.sqrt(law.quantile(level)[0])
        # Phi((r - |m|) / s) -+ Phi((-r - |m|) / s) at a root 1e-8 lower and higher
        below, above = root * (1 - 1e-8), root * (1 + 1e-8)
        if upper:
            assert law.exceedance(below**2)[0] >= 1 - level >= law.exceedance(above**2)[0]
        else:
            assert law.cdf(below**2)[0] <= level <= law.cdf(above**2)[0]

    def test_many_rows_agree_with_few(self):
        rng = np.random.default_rng(4)
        law = SquaredNormal(rng.normal(size=40_000), rng.uniform(0.01, 2, 40_000))
        picked = np.array([0, 16_383, 16_384, 39_999])
        np.testing.assert_allclose(law.quantile(0.05)[picked], law[picked].quantile(0.05), rtol=1e-11)


class TestMatchedTotals:
    def test_gamma(self):
        mean, variance = np.array([3.0, 0.2]), np.array([20.0, 0.001])
        frozen = stats.gamma(mean**2 / variance, scale=variance / mean)
        assert_matches_scipy(Gamma.from_moments(mean, variance), frozen, np.array([0.4, 0.3]))

    def test_beta(self):
        mean, variance = np.array([0.3, 0.9]), np.array([0.15, 1e-3])
        total = mean * (1 - mean) / variance - 1
        frozen = stats.beta(mean * total, (1 - mean) * total)
        assert_matches_scipy(Beta.from_moments(mean, variance), frozen, np.array([1e-18, 0.93]))

    def test_density_at_the_edges(self):
        np.testing.assert_allclose(Gamma(3.0, [0.5, 1.0, 2.0]).log_prob(0.0), [np.inf, -np.log(3), -np.inf])
        beta = Beta([0.5, 0.25, 0.5], [1.0, 4.0, 8.0])
        np.testing.assert_allclose(beta.log_prob(0.0), [np.inf, np.log(3), -np.inf])
        np.testing.assert_array_equal(beta.log_prob(-0.1), -np.inf)

    def test_no_variance_is_a_point_mass(self):
        for law, place in (
            (Gamma.from_moments([4.0, 0.0], 0.0), np.array([4.0, 0.0])),
            (Beta.from_moments([0.3, 0.0, 1.0], 0.0), np.array([0.3, 0.0, 1.0])),
            (Beta.from_moments([0.3, 0.0], 1e-30), np.array([0.3, 0.0])),
        ):
            np.testing.assert_array_equal(law.quantile([0.1, 0.9]), [place, place])
            np.testing.assert_array_equal(law.cdf(place), 1.0)
            np.testing.assert_array_equal(law.exceedance(place), 0.0)
            np.testing.assert_array_equal(law.exceedance(place - 1e-6), 1.0)
            np.testing.assert_array_equal(law.log_prob(place), np.inf)
            np.testing.assert_array_equal(law.sample(2, 0), [place, place])
            np.testing.assert_allclose(law.std, 0.0, atol=1e-14)

    def test_tiny_variance_tends_to_the_normal(self):
        for law in (Gamma.from_moments(5.0, 1e-10), Beta.from_moments(0.3, 1e-10)):
            z = np.array([[-2.0], [0.5]])
            normal = stats.norm(law.mean, law.std)
            x = law.mean + z * 1e-5
            np.testing.assert_allclose(law.log_prob(x), normal.logpdf(x), atol=1e-4)
            np.testing.assert_allclose(law.cdf(x), normal.cdf(x), atol=1e-5)
            np.testing.assert_allclose(law.quantile(0.9), normal.ppf(0.9), rtol=1e-9)

    @pytest.mark.parametrize("shape", [2.9e4, 3.1e4, 1e6, 1e10])
    def test_gamma_tails_of_large_shape(self, shape):
        law = Gamma(shape, shape)
        for z in (-5.5, 5.5):
            x, step = np.linspace(shape + z * law.std, shape + 3 * z * law.std, 4001, retstep=True)
            tail = integrate.simpson(np.exp(law.log_prob(x)), dx=np.abs(step), axis=0)
            probability = law.cdf(x[0]) if z < 0 else law.exceedance(x[0])
            np.testing.assert_allclose(probability, tail, rtol=1e-7)
        for level in (1e-9, 0.2, 1 - 1e-9):
            np.testing.assert_allclose(law.cdf(law.quantile(level)), level, rtol=1e-8)
        np.testing.assert_array_equal(law.cdf([[0.0], [np.inf]])[:, 0], [0.0, 1.0])

    def test_impossible_beta_variance_is_capped(self):
        law = Beta.from_moments([0.3, 0.7], [0.21, 5.0])
        np.testing.assert_allclose(law.std**2, 0.999 * 0.21, rtol=1e-9)
        np.testing.assert_allclose(law.mean, [0.3, 0.7])


class TestNegativeBinomial:
    def test_matches_scipy(self):
        mean, size = np.array([0.02, 7.0, 300.0, 5e4]), np.array([0.3, 2.0, 0.05, 40.0])
        frozen = stats.nbinom(size, size / (size + mean))
        assert_matches_scipy(NegativeBinomial(mean, size), frozen, np.array([1.0, 3.0, 2000.0, 48_000.0]))

    def test_huge_size_is_poisson(self):
        k = np.arange(40.0)[:, None]
        for size in (1e15, 1e30, np.inf):
            law = NegativeBinomial([0.5, 12.0], size)
            frozen = stats.poisson([0.5, 12.0])
            np.testing.assert_allclose(law.log_prob(k), frozen.logpmf(k), rtol=1e-10, atol=1e-12)
            np.testing.assert_allclose(law.cdf(k), frozen.cdf(k), rtol=1e-10)
            np.testing.assert_array_equal(law.quantile(LEVELS), frozen.ppf(LEVELS[:, None]))
            np.testing.assert_allclose(law.std, np.sqrt([0.5, 12.0]))

    def test_small_dispersion_is_kept(self):
        law, k = NegativeBinomial([3.0, 40.0], [2e7, 3e8]), np.arange(60.0)[:, None]
        np.testing.assert_allclose(law.cdf(k), np.cumsum(np.exp(law.log_prob(k)), axis=0), rtol=2e-9)

    def test_large_counts_of_large_dispersion(self):
        # count / mean tends to the gamma law of the effect, with a correction of half a count
        mean, size = np.array([3e11, 2e9]), np.array([0.1, 1.7])
        law = NegativeBinomial(mean, size)
        effect = stats.gamma(size, scale=1 / size)
        np.testing.assert_allclose(law.cdf(1e8), effect.cdf((1e8 + 0.5) / mean), rtol=2e-8)
        np.testing.assert_allclose(law.exceedance(1e8), effect.sf((1e8 + 0.5) / mean), rtol=2e-8)

    def test_real_values_go_through_log_gamma(self):
        y, mean, size = np.array([0.3, 2.7, 55.5]), np.array([1.0, 9.0, 30.0]), np.array([0.2, 3.0, 100.0])
        expected = gammaln(y + size) - gammaln(size) - gammaln(y + 1)
        expected += size * np.log(size / (size + mean)) + y * np.log(mean / (size + mean))
        np.testing.assert_allclose(NegativeBinomial(mean, size).log_prob(y), expected, rtol=1e-11)

    def test_large_counts_keep_their_digits(self):
        # at y = mean + z std the mass is the normal density up to the skewness term z (z^2 - 3) / 6 / std
        law = NegativeBinomial(1e12, np.inf)
        z = 1.5
        expected = stats.norm.logpdf(z) - np.log(1e6) + z * (z**2 - 3) / 6e6
        np.testing.assert_allclose(law.log_prob(1e12 + z * 1e6), expected, atol=1e-9)

    def test_mean_zero_is_a_point_mass(self):
        law = NegativeBinomial.from_moments([0.0, 3.0], [0.0, 0.0])
        np.testing.assert_array_equal(law.log_prob([[0.0], [2.0]])[:, 0], [0.0, -np.inf])
        np.testing.assert_array_equal(law.quantile(0.999), [0.0, stats.poisson.ppf(0.999, 3.0)])
        np.testing.assert_array_equal(law.cdf([-0.5, -0.5]), 0.0)
        np.testing.assert_array_equal(law.log_prob([-1.0, -1.0]), -np.inf)

    def test_from_moments_adds_poisson_noise_to_a_gamma_rate(self):
        law = NegativeBinomial.from_moments(6.0, 9.0)
        np.testing.assert_allclose(law.std**2, 6.0 + 9.0)
        rate = stats.gamma(4.0, scale=1.5)
        mass, _ = integrate.quad(lambda t: rate.pdf(t) * stats.poisson.pmf(5, t), 0, 60)
        np.testing.assert_allclose(law.log_prob(5.0), np.log(mass), rtol=1e-8)

    def test_cdf_ignores_fractions(self):
        law = NegativeBinomial(4.0, 2.0)
        np.testing.assert_array_equal(law.cdf(3.9), law.cdf(3.0))
        np.testing.assert_array_equal(law.exceedance(3.9), law.exceedance(3.0))


class TestBetaBinomial:
    @pytest.mark.parametrize(
        ("alpha", "beta"),
        [(0.3, 0.6), (2.0, 5.0), (0.01, 3.0), (50.0, 0.2), (1e3, 4e3), (0.01, 0.02), (0.7, 1e6)],
    )
    def test_matches_the_sum_of_masses(self, alpha, beta):
        for trials in (1, 9, 700):
            k = np.arange(trials + 1.0)
            law = BetaBinomial(trials, alpha, beta)
            log_mass = law.log_prob(k[:, None])[:, 0]
            np.testing.assert_allclose(log_mass, stats.betabinom.logpmf(k, trials, alpha, beta), atol=2e-8)
            np.testing.assert_allclose(law.cdf(k[:, None])[:, 0], np.cumsum(np.exp(log_mass)), atol=3e-8)
            assert law.mean[0] == pytest.approx(np.exp(log_mass) @ k)
            assert law.std[0] == pytest.approx(np.sqrt(np.exp(log_mass) @ (k - law.mean) ** 2))

    def test_quantiles_match_scipy(self):
        trials, alpha, beta = np.array([5, 60, 900]), np.array([0.5, 3.0, 40.0]), np.array([2.0, 1.0, 500.0])
        law = BetaBinomial(trials, alpha, beta)
        for level in LEVELS:
            expected = [stats.betabinom.ppf(level, *row) for row in zip(trials, alpha, beta, strict=True)]
            np.testing.assert_array_equal(law.quantile(level), expected)

    def test_many_trials(self):
        law = BetaBinomial(10**6, 3.0, 47.0)
        k = np.arange(80_001.0)[:, None]
        np.testing.assert_allclose(law.cdf(80_000.0), np.exp(logsumexp(law.log_prob(k), axis=0)), rtol=1e-8)

    def test_no_variance_is_binomial(self):
        law = BetaBinomial.from_moments([30, 100_000], [0.2, 0.7], 0.0)
        frozen = stats.binom([30, 100_000], [0.2, 0.7])
        x = np.array([4.0, 70_100.0])
        np.testing.assert_allclose(law.cdf(x), frozen.cdf(x), rtol=1e-7)
        np.testing.assert_allclose(law.log_prob(x), frozen.logpmf(x), rtol=1e-9)
        np.testing.assert_array_equal(law.quantile(0.9), frozen.ppf(0.9))

    def test_certain_outcomes(self):
        law = BetaBinomial.from_moments([5, 5, 0], [0.0, 1.0, 0.4], [0.0, 0.0, 0.1])
        np.testing.assert_allclose(law.log_prob([0.0, 5.0, 0.0]), 0.0, atol=1e-12)
        np.testing.assert_array_equal(law.quantile([0.001, 0.999]), [[0, 5, 0]] * 2)
        np.testing.assert_array_equal(law.sample(3, 0), [[0, 5, 0]] * 3)
        np.testing.assert_array_equal(law.log_prob([6.0, 6.0, 1.0]), -np.inf)

    def test_from_moments(self):
        law = BetaBinomial.from_moments(40, 0.3, 0.02)
        total = 0.21 / 0.02 - 1
        frozen = stats.betabinom(40, 0.3 * total, 0.7 * total)
        np.testing.assert_allclose(law.log_prob(11.0), frozen.logpmf(11.0), rtol=1e-10)


def brute_poisson_log_normal(y: float, log_mean: float, log_std: float) -> float:
    """Log mass by a dense sum over log T, around log y where the Poisson factor is narrow."""
    if y > 1000:
        grid, step = np.linspace(-25 / np.sqrt(y), 25 / np.sqrt(y), 200_001, retstep=True)
        grid = grid + np.log(y)
    else:
        grid, step = np.linspace(log_mean - 14 * log_std - 3, log_mean + 14 * log_std + 9, 200_001, retstep=True)
    log_poisson = y * grid - np.exp(grid) - gammaln(y + 1)
    return logsumexp(log_poisson + stats.norm.logpdf(grid, log_mean, log_std)) + np.log(step)


class TestPoissonLogNormal:
    @pytest.mark.parametrize("log_std", [0.01, 0.3, 1.0, 3.0])
    @pytest.mark.parametrize("log_mean", [-4.0, 0.6, 5.0])
    def test_log_prob(self, log_mean, log_std):
        for y in (0.0, 1.0, 2.5, 30.0, 800.0):
            if y > 100 and log_std * log_std < 0.05:
                continue  # the mass is then astronomically small
            expected = brute_poisson_log_normal(y, log_mean, log_std)
            np.testing.assert_allclose(PoissonLogNormal(log_mean, log_std).log_prob(y), expected, atol=1e-8)

    @pytest.mark.parametrize(("log_mean", "log_std"), [(16.1, 0.02), (16.0, 0.3), (10.0, 3.0), (0.0, 3.0)])
    def test_huge_count(self, log_mean, log_std):
        expected = brute_poisson_log_normal(1e7, log_mean, log_std)
        np.testing.assert_allclose(PoissonLogNormal(log_mean, log_std).log_prob(1e7), expected, atol=1e-6)

    def test_counts_of_a_million_million_keep_their_digits(self):
        # Poisson and rate then have standard deviation 1e6 each, and skewness about 1e-6
        law = PoissonLogNormal(np.log(1e12), 1e-6)
        y = 1e12 + np.array([[-1e6], [2e6]])
        np.testing.assert_allclose(law.log_prob(y), stats.norm.logpdf(y, 1e12, np.sqrt(2e12)), atol=1e-5)

    @pytest.mark.parametrize("log_std", [0.0, 0.01, 0.4, 1.0, 3.0, 5.0])
    def test_cdf_is_the_sum_of_masses(self, log_std):
        law = PoissonLogNormal([-3.0, 0.5, 5.0], log_std)
        k = np.arange(1500.0)[:, None]
        mass = np.exp(law.log_prob(k))
        np.testing.assert_allclose(law.cdf(k), np.cumsum(mass, axis=0), atol=1e-9)

    @pytest.mark.parametrize("log_std", [0.0005, 0.02, 0.5, 3.0])
    def test_cdf_at_huge_counts(self, log_std):
        k = 9_990_000.0
        normal = stats.norm(16.118, log_std)

        def integrand(log_rate):
            return normal.pdf(log_rate) * stats.poisson.cdf(k, np.exp(log_rate))

        points = np.log(k) + np.linspace(-8, 8, 9) / np.sqrt(k)
        low, high = normal.mean() - 9 * log_std, normal.mean() + 9 * log_std
        inside = points[(points > low) & (points < high)]
        expected, _ = integrate.quad(integrand, low, high, points=inside, limit=500, epsabs=1e-10)
        np.testing.assert_allclose(PoissonLogNormal(16.118, log_std).cdf(k), expected, atol=1e-7)

    def test_quantiles_of_huge_counts_are_exact(self):
        law = PoissonLogNormal([16.0, 4.0, 3.0], [0.1, 3.0, 2.0])
        for level in LEVELS:
            value = law.quantile(level)
            assert np.all(law.cdf(value) >= level)
            assert np.all(law.cdf(value - 1) < level)

    def test_no_spread_is_poisson(self):
        law = PoissonLogNormal.from_moments([3.0, 200.0], 0.0)
        assert_matches_scipy(law, stats.poisson([3.0, 200.0]), np.array([5.0, 180.0]))

    def test_moments(self):
        law = PoissonLogNormal.from_moments([4.0, 50.0], [9.0, 30.0])
        np.testing.assert_allclose(law.mean, [4.0, 50.0])
        np.testing.assert_allclose(law.std**2, [13.0, 80.0])
        k = np.arange(20_000.0)[:, None]
        np.testing.assert_allclose((np.exp(law.log_prob(k)) * k).sum(axis=0), law.mean, rtol=1e-6)

    def test_total_zero(self):
        law = PoissonLogNormal.from_moments([0.0, 2.0], 0.0)
        np.testing.assert_allclose(law.log_prob(0.0), [0.0, -2.0])
        assert law.log_prob(1.0)[0] < -600
        assert law.quantile(0.999)[0] == 0


class TestExponentialLogNormal:
    @pytest.mark.parametrize("log_std", [0.05, 0.6, 1.2, 3.0])
    def test_against_brute_force(self, log_std):
        law = ExponentialLogNormal(0.7, log_std)
        z, step = np.linspace(-13, 13, 200_001, retstep=True)
        rate = np.exp(-0.7 - log_std * z)
        weight = stats.norm.pdf(z) * step
        for y in (1e-5, 0.3, 2.0, 40.0):
            np.testing.assert_allclose(law.cdf(y), weight @ -np.expm1(-y * rate), rtol=1e-9)
            np.testing.assert_allclose(law.exceedance(y), weight @ np.exp(-y * rate), rtol=1e-7)
            np.testing.assert_allclose(law.log_prob(y), np.log(weight @ (rate * np.exp(-y * rate))), atol=1e-8)
        np.testing.assert_allclose(law.log_prob(0.0), np.log(weight @ rate), atol=1e-8)
        np.testing.assert_array_equal(law.log_prob(-1.0), -np.inf)

    def test_no_spread_is_exponential(self):
        law = ExponentialLogNormal.from_moments([2.0, 50.0], 0.0)
        assert_matches_scipy(law, stats.expon(scale=[2.0, 50.0]), np.array([0.1, 200.0]))

    def test_moments(self):
        law = ExponentialLogNormal.from_moments([2.0, 5.0], [3.0, 0.5])
        np.testing.assert_allclose(law.mean, [2.0, 5.0])
        # Var y = E T^2 + Var T
        np.testing.assert_allclose(law.std**2, [(4 + 3) + 3, (25 + 0.5) + 0.5])

    def test_total_zero(self):
        law = ExponentialLogNormal.from_moments([0.0, 1.0], 0.0)
        assert law.quantile(0.9)[0] < 1e-300
        assert law.cdf(1e-9)[0] == 1.0


class TestMixture:
    def test_by_hand(self):
        parts = [Normal([0.0, 2.0], [1.0, 0.5]), Normal([3.0, -1.0], [0.2, 2.0])]
        law = Mixture(parts, [1.0, 3.0])
        np.testing.assert_allclose(law.mean, 0.25 * parts[0].mean + 0.75 * parts[1].mean)
        second_moment = sum(w * (p.std**2 + p.mean**2) for w, p in zip((0.25, 0.75), parts, strict=True))
        np.testing.assert_allclose(law.std, np.sqrt(second_moment - law.mean**2))
        x = np.array([2.5, 0.1])
        np.testing.assert_allclose(law.cdf(x), 0.25 * parts[0].cdf(x) + 0.75 * parts[1].cdf(x))
        density = 0.25 * np.exp(parts[0].log_prob(x)) + 0.75 * np.exp(parts[1].log_prob(x))
        np.testing.assert_allclose(law.log_prob(x), np.log(density))

    def test_equal_parts_change_nothing(self):
        part = SquaredNormal([0.5, 2.0], [1.0, 0.1])
        law = Mixture([part, part], [0.2, 0.8])
        np.testing.assert_allclose(law.quantile(LEVELS), part.quantile(LEVELS), rtol=1e-9)

    def test_quantiles_of_scales_far_apart(self):
        law = Mixture([LogNormal([-18.0, 3.0], 0.3), LogNormal([7.0, 3.1], 0.3)], [0.5, 0.5])
        for level in (0.01, 0.3, 0.7):
            np.testing.assert_allclose(law.cdf(law.quantile(level)), level, rtol=1e-8)

    def test_point_masses(self):
        law = Mixture([Gamma.from_moments([0.0, 1.0], 0.0), Gamma.from_moments([1.0, 2.0], 0.0)], [0.4, 0.6])
        expected = [[0.0, 1.0], [0.0, 1.0], [1.0, 2.0]]
        np.testing.assert_allclose(law.quantile([0.1, 0.39, 0.5]), expected, rtol=1e-10)

    def test_zero_weight_drops_a_law(self):
        part = Normal(1.0, 2.0)
        law = Mixture([part, Normal(50.0, 0.0)], [1.0, 0.0])
        np.testing.assert_allclose(law.log_prob(0.3), part.log_prob(0.3))
        np.testing.assert_allclose(law.quantile(0.9), part.quantile(0.9))

    def test_a_draw_uses_one_component_for_all_rows(self):
        law = Mixture([Normal([0.0, 100.0], 1.0), Normal([50.0, -300.0], 1.0)], [0.3, 0.7])
        draws = law.sample(4000, 6)
        second = draws[:, 0] > 25
        np.testing.assert_array_equal(second, draws[:, 1] < -100)
        assert second.mean() == pytest.approx(0.7, abs=0.03)
