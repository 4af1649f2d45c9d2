"""Outputs mixed over a random bag total: against quadrature, sums of masses, scipy.stats and Monte Carlo."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import betaln, digamma, gammaln, logsumexp

from vbagg.laws import (
    Beta,
    BetaBinomial,
    Gamma,
    LogNormal,
    NegativeBinomial,
    NegativeBinomialMixture,
    Normal,
    NumericalLaw,
    PoissonLogNormal,
    total_nodes,
)

pytestmark = pytest.mark.filterwarnings("error")

LEVELS = np.array([1e-5, 0.03, 0.4, 0.9, 1 - 1e-5])
GAUSS_NODES, GAUSS_WEIGHTS = np.polynomial.legendre.leggauss(16)


def negative_binomial_log_mass(y, mean, dispersion):
    """Written out; accurate for counts up to some thousands."""
    if dispersion == 0:
        return y * np.log(mean) - mean - gammaln(y + 1)
    size = 1 / dispersion
    log_mass = gammaln(y + size) - gammaln(size) - gammaln(y + 1)
    return log_mass - size * np.log1p(mean * dispersion) - y * np.log1p(size / mean)


def by_quadrature(kind, mean, relative_std, dispersion, k):
    """Log mass at k and P(count <= k), P(count > k) by Gauss-Legendre panels over log T, for one row."""
    if kind is LogNormal:
        log_std = np.sqrt(np.log1p(relative_std**2))
        total = stats.lognorm(log_std, scale=mean * np.exp(-0.5 * log_std**2))
        low, high = np.log(total.median()) - 13 * log_std, np.log(total.median()) + 13 * log_std
    else:
        shape = relative_std**-2
        total = stats.gamma(shape, scale=mean / shape)
        low, high = np.log(mean) - max(45 / shape, 15 / np.sqrt(shape)), np.log(total.isf(1e-40))
    place = np.log(k + 1) + np.concatenate([np.linspace(-12, 12, 100) / np.sqrt(k + 1), np.linspace(-12, 12, 100)])
    edges = np.concatenate([np.linspace(low, high, 300), place])
    edges = np.unique(edges[(edges >= low) & (edges <= high)])
    half = 0.5 * np.diff(edges)
    log_total = (edges[:-1] + half + np.multiply.outer(GAUSS_NODES, half)).ravel()
    t = np.exp(log_total)
    log_weight = total.logpdf(t) + log_total + np.log(np.multiply.outer(GAUSS_WEIGHTS, half).ravel())
    size = 1 / dispersion if dispersion else np.inf
    given = stats.nbinom(size, size / (size + t)) if dispersion else stats.poisson(t)
    log_mass = logsumexp(log_weight + negative_binomial_log_mass(k, t, dispersion))
    return log_mass, np.exp(log_weight) @ given.cdf(k), np.exp(log_weight) @ given.sf(k)


def draws_of(law: NegativeBinomialMixture, n: int, rng: np.random.Generator):
    """Counts by the definition: a total, a gamma effect of mean 1, a Poisson count."""
    total = law._rate.sample(n, rng)
    effect = np.ones((n, len(law)))
    for row, dispersion in enumerate(law.dispersion):
        if dispersion > 0:
            effect[:, row] = rng.gamma(1 / dispersion, dispersion, n)
    return rng.poisson(total * effect)


class TestNegativeBinomialMixture:
    @pytest.mark.parametrize("kind", [LogNormal, Gamma])
    @pytest.mark.parametrize("relative_std", [0.01, 0.17, 0.45, 0.9, 3.0])
    @pytest.mark.parametrize("dispersion", [0.0, 1e-3, 0.08, 0.6, 2.7, 10.0])
    def test_against_quadrature(self, kind, relative_std, dispersion):
        mean = np.array([1e-3, 0.8, 17.0, 2500.0])
        law = NegativeBinomialMixture(kind.from_moments(mean, (relative_std * mean) ** 2), dispersion)
        for k in law.quantile([1e-4, 0.3, 0.97]):
            expected = [by_quadrature(kind, m, relative_std, dispersion, y) for m, y in zip(mean, k, strict=True)]
            log_mass, cdf, exceedance = np.transpose(expected)
            np.testing.assert_allclose(law.log_prob(k), log_mass, atol=1e-8)
            np.testing.assert_allclose(law.cdf(k), cdf, rtol=1e-8, atol=1e-12)
            np.testing.assert_allclose(law.exceedance(k), exceedance, rtol=1e-8, atol=1e-12)

    @pytest.mark.parametrize("kind", [LogNormal, Gamma])
    @pytest.mark.parametrize("dispersion", [0.0, 1e-4, 0.3, 6.0])
    def test_cdf_is_the_sum_of_masses(self, kind, dispersion):
        mean, relative_std = np.array([0.05, 3.0, 60.0, 400.0]), np.array([3.0, 0.9, 0.3, 0.02])
        law = NegativeBinomialMixture(kind.from_moments(mean, (relative_std * mean) ** 2), dispersion)
        k = np.arange(2000.0)[:, None]
        np.testing.assert_allclose(law.cdf(k), np.cumsum(np.exp(law.log_prob(k)), axis=0), atol=1e-10)

    @pytest.mark.parametrize("kind", [LogNormal, Gamma])
    @pytest.mark.parametrize("dispersion", [1e-7, 0.02, 1.4, 9.0])
    def test_differences_of_the_cdf_at_large_counts(self, kind, dispersion):
        mean, relative_std = 1e7 * np.array([0.3, 1.0, 7.0]), np.array([0.001, 0.2, 2.5])
        law = NegativeBinomialMixture(kind.from_moments(mean, (relative_std * mean) ** 2), dispersion)
        for k in law.quantile([0.7, 0.95]):
            step = np.maximum(np.round(1e-3 * np.minimum(law.std, k)), 1.0)
            # Simpson's rule for the masses between
            masses = [np.exp(law.log_prob(k + 0.5 + share * step)) for share in (0.0, 0.5, 1.0)]
            between = step * (masses[0] + 4 * masses[1] + masses[2]) / 6
            np.testing.assert_allclose(law.cdf(k + step) - law.cdf(k), between, rtol=1e-6)

    @pytest.mark.parametrize("kind", [LogNormal, Gamma])
    def test_against_a_million_draws(self, kind):
        mean, relative_std = np.array([0.4, 6.0, 300.0, 5e4, 2e3]), np.array([0.9, 0.3, 1.2, 0.05, 0.9])
        dispersion = np.array([0.5, 0.0, 0.05, 3.0, 0.2])
        law = NegativeBinomialMixture(kind.from_moments(mean, (relative_std * mean) ** 2), dispersion)
        n = 1_000_000
        draws = draws_of(law, n, np.random.default_rng(8))
        own = law.sample(n // 5, 9)
        np.testing.assert_allclose(law.mean, draws.mean(axis=0), atol=5 * (law.std / np.sqrt(n)).max(), rtol=6e-3)
        np.testing.assert_allclose(law.std, draws.std(axis=0), rtol=0.03)
        for level in (0.05, 0.5, 0.95):
            value = law.quantile(level)
            # the share of draws below has standard deviation 5e-4 at most, and 1.1e-3 for the law's own
            np.testing.assert_allclose((draws <= value).mean(axis=0), law.cdf(value), atol=2e-3)
            np.testing.assert_allclose((own <= value).mean(axis=0), law.cdf(value), atol=5e-3)
            assert np.all((draws <= value).mean(axis=0) > level - 2e-3)
            assert np.all((draws < value).mean(axis=0) < level + 2e-3)

    def test_one_matched_negative_binomial_would_disagree(self):
        mean, variance, dispersion = 200.0, (0.9 * 200) ** 2, 0.2
        mixed = NegativeBinomialMixture(LogNormal.from_moments(mean, variance), dispersion)
        matched = NegativeBinomial(mean, mean**2 / (variance + dispersion * (variance + mean**2)))
        np.testing.assert_allclose(mixed.std, matched.std)
        assert matched.quantile(0.05)[0] < 0.8 * mixed.quantile(0.05)[0]

    @pytest.mark.parametrize("kind", [LogNormal, Gamma])
    def test_a_known_total_is_negative_binomial(self, kind):
        mean, dispersion = np.array([0.3, 7.0, 400.0, 3e6, 0.0]), np.array([2.0, 0.1, 0.0, 5.0, 0.7])
        law = NegativeBinomialMixture(kind.from_moments(mean, 0.0), dispersion)
        with np.errstate(divide="ignore"):
            expected = NegativeBinomial(mean, 1 / dispersion)
        np.testing.assert_allclose(law.std, expected.std, rtol=1e-12)
        y = np.array([1.0, 3.5, 410.0, 2e6, 0.0])
        np.testing.assert_allclose(law.log_prob(y), expected.log_prob(y), atol=1e-10)
        np.testing.assert_allclose(law.cdf(y), expected.cdf(y), rtol=1e-11)
        np.testing.assert_array_equal(law.quantile(LEVELS), expected.quantile(LEVELS))
        assert law.log_prob(1.0)[4] < -600

    def test_a_gamma_total_of_a_poisson_count_is_negative_binomial(self):
        mean, shape = np.array([0.3, 7.0, 400.0, 3e6]), np.array([0.2, 1.0, 30.0, 4.5])
        law, expected = NegativeBinomialMixture(Gamma(mean, shape), 0.0), NegativeBinomial(mean, shape)
        y = expected.quantile([0.2, 0.99])
        np.testing.assert_allclose(law.log_prob(y), expected.log_prob(y), atol=1e-10)
        np.testing.assert_allclose(law.cdf(y), expected.cdf(y), rtol=1e-12)

    def test_a_poisson_count_of_a_log_normal_total(self):
        total = LogNormal([0.5, 2.0, 6.0], [1.5, 0.2, 0.05])
        law, expected = NegativeBinomialMixture(total, 0.0), PoissonLogNormal([0.5, 2.0, 6.0], [1.5, 0.2, 0.05])
        np.testing.assert_array_equal(law.quantile(LEVELS), expected.quantile(LEVELS))
        # a vanishing dispersion makes no jump
        near = NegativeBinomialMixture(total, 1e-12)
        k = law.quantile(0.7)
        np.testing.assert_allclose(near.cdf(k), law.cdf(k), rtol=1e-7)
        np.testing.assert_allclose(near.log_prob(k), law.log_prob(k), rtol=1e-7)

    def test_gamma_total_and_effect_can_be_exchanged(self):
        mean, shape, size = np.array([2.0, 90.0, 3e5]), np.array([0.4, 12.0, 3.0]), np.array([5.0, 1.1, 0.3])
        law = NegativeBinomialMixture(Gamma(mean, shape), 1 / size)
        other = NegativeBinomialMixture(Gamma(mean, size), 1 / shape)
        np.testing.assert_allclose(law.std, other.std, rtol=1e-12)
        np.testing.assert_array_equal(law.quantile(LEVELS), other.quantile(LEVELS))

    @pytest.mark.parametrize("kind", [LogNormal, Gamma])
    def test_real_values_go_through_log_gamma(self, kind):
        law = NegativeBinomialMixture(kind.from_moments([2.0, 30.0], [3.0, 200.0]), [0.4, 1.7])
        for y in (0.3, 6.5):
            expected = [by_quadrature(kind, 2.0, np.sqrt(3) / 2, 0.4, y), by_quadrature(kind, 30.0, 2**0.5 / 3, 1.7, y)]
            np.testing.assert_allclose(law.log_prob(y), [row[0] for row in expected], atol=1e-8)

    @pytest.mark.parametrize("kind", [LogNormal, Gamma])
    def test_values_outside_the_counts(self, kind):
        law = NegativeBinomialMixture(kind.from_moments([2.0, 30.0], [3.0, 200.0]), [0.4, 1.7])
        np.testing.assert_array_equal(law.log_prob([[-1.0], [np.inf]]), -np.inf)
        np.testing.assert_array_equal(law.cdf([[-0.5], [np.inf]]), [[0.0, 0.0], [1.0, 1.0]])
        np.testing.assert_array_equal(law.cdf(3.9), law.cdf(3.0))

    @pytest.mark.parametrize("kind", [LogNormal, Gamma])
    def test_many_rows_agree_with_few(self, kind):
        rng = np.random.default_rng(3)
        mean, relative_std = rng.lognormal(3, 3, 20_000), rng.uniform(0, 1.5, 20_000)
        law = NegativeBinomialMixture(kind.from_moments(mean, (relative_std * mean) ** 2), rng.gamma(0.5, 1, 20_000))
        picked = rng.choice(20_000, 60, replace=False)
        k = law.quantile(0.6)
        np.testing.assert_array_equal(k[picked], law[picked].quantile(0.6))
        np.testing.assert_allclose(law.log_prob(k)[picked], law[picked].log_prob(k[picked]), rtol=1e-11)

    def test_bad_parameters_are_named(self):
        total = Gamma([1.0, 2.0, 3.0], 2.0)
        with pytest.raises(ValueError, match=r"`dispersion` must be non-negative.*got -0.1 at row 2"):
            NegativeBinomialMixture(total, [0.1, 0.0, -0.1])
        with pytest.raises(ValueError, match=r"one length; got shapes .*\(3,\).*\(2,\)"):
            NegativeBinomialMixture(total, [0.1, 0.2])
        with pytest.raises(ValueError, match=r"`dispersion` must have one number per row; got 2 for 1 totals"):
            NegativeBinomialMixture(Gamma(1.0, 2.0), [0.1, 0.2])
        with pytest.raises(TypeError, match=r"`total` must be a LogNormal or a Gamma law; got Normal"):
            NegativeBinomialMixture(Normal(1.0, 2.0), 0.1)


class TestTotalNodes:
    SHAPES = np.array([0.3, 0.45, 0.99, 1.0, 1.8, 6.0, 77.0, 1e4, 1e6])
    MEANS = np.array([0.02, 5.0, 1e4, 0.7, 2.0, 90.0, 1.3, 8.0, 3e5])

    def moments(self, total):
        t, log_weight = total_nodes(total)
        weight = np.exp(log_weight)
        np.testing.assert_allclose(weight.sum(axis=0), 1.0, rtol=1e-12)
        mean = (weight * t).sum(axis=0)
        return mean, (weight * (t - mean) ** 2).sum(axis=0), lambda f: (weight * f(t)).sum(axis=0)

    def test_gamma(self):
        mean, variance, average = self.moments(Gamma(self.MEANS, self.SHAPES))
        np.testing.assert_allclose(mean, self.MEANS, rtol=1e-8)
        np.testing.assert_allclose(variance, self.MEANS**2 / self.SHAPES, rtol=1e-8)
        log_mean = digamma(self.SHAPES) + np.log(self.MEANS / self.SHAPES)
        np.testing.assert_allclose(average(np.log), log_mean, rtol=1e-8, atol=1e-8)

    def test_log_normal(self):
        shapes = np.where(self.SHAPES == 0.99, 0.1, self.SHAPES)
        total = LogNormal.from_moments(self.MEANS, self.MEANS**2 / shapes)
        mean, variance, average = self.moments(total)
        np.testing.assert_allclose(mean, self.MEANS, rtol=1e-8)
        np.testing.assert_allclose(variance, self.MEANS**2 / shapes, rtol=1e-8)
        np.testing.assert_allclose(average(np.log), total.log_mean, rtol=1e-8, atol=1e-8)

    def test_normal(self):
        mean, variance, average = self.moments(Normal([-3.0, 40.0], [2.0, 0.01]))
        np.testing.assert_allclose(mean, [-3.0, 40.0], rtol=1e-8)
        np.testing.assert_allclose(variance, [4.0, 1e-4], rtol=1e-8)
        fourth = average(lambda t: (t - mean) ** 4)
        np.testing.assert_allclose(fourth, 3 * variance**2, rtol=1e-8)

    def test_beta(self):
        alpha, beta = np.array([0.3, 0.4, 5.0, 1e6, 30.0]), np.array([0.35, 50.0, 0.6, 1e5, 1e4])
        total = Beta(alpha / (alpha + beta), alpha + beta)
        mean, variance, average = self.moments(total)
        np.testing.assert_allclose(mean, total.mean, rtol=1e-8)
        np.testing.assert_allclose(variance, total.std**2, rtol=1e-8)
        np.testing.assert_allclose(average(np.log), digamma(alpha) - digamma(alpha + beta), rtol=1e-8)

    @pytest.mark.parametrize(
        "total",
        [
            LogNormal.from_moments([2.0, 0.0], 0.0),
            Gamma.from_moments([2.0, 0.0], 0.0),
            Normal([2.0, 0.0], 0.0),
            Beta.from_moments([0.4, 0.0], 0.0),
        ],
    )
    def test_without_variance_all_nodes_are_at_the_mean(self, total):
        t, log_weight = total_nodes(total, n=40)
        assert t.shape == log_weight.shape == (40, 2)
        np.testing.assert_allclose(t, np.broadcast_to(total.mean, (40, 2)), rtol=1e-14)
        np.testing.assert_allclose(np.exp(log_weight).sum(axis=0), 1.0, rtol=1e-12)

    def test_other_laws_are_refused(self):
        with pytest.raises(TypeError, match="`total` must be a LogNormal, Gamma, Normal or Beta law; got NegativeBin"):
            total_nodes(NegativeBinomial(1.0, 1.0))


def tabulated(family, discrete, parameters, **support):
    """Numerical law and the SciPy law it is made from; parameters are tuples of one number per row."""
    arrays = [np.asarray(values, dtype=float) for values in parameters]
    frozen = family(*arrays)

    def log_prob(y, rows):
        given = family(*(values[rows] for values in arrays))
        return given.logpmf(y) if discrete else given.logpdf(y)

    return NumericalLaw(log_prob, frozen.mean(), frozen.std(), discrete, **support), frozen


class TestNumericalLaw:
    @pytest.mark.parametrize(
        ("family", "discrete", "parameters", "support"),
        [
            (stats.norm, False, ([-5.0, 0.3, 1e4], [0.01, 3.0, 200.0]), {}),
            (stats.gamma, False, ([0.3, 2.0, 4e4], [0.0, 0.0, 0.0], [3.0, 0.1, 7.0]), {"lower": 0.0}),
            (stats.gamma, False, ([0.7, 2.0], [-4.0, 90.0], [3.0, 0.1]), {"lower": [-4.0, 90.0]}),
            (stats.beta, False, ([0.2, 20.0, 3.0], [0.9, 1.0, 900.0]), {"lower": 0.0, "upper": 1.0}),
            (stats.t, False, ([2.5, 4.0], [3.0, -700.0], [0.1, 9.0]), {}),
            (stats.poisson, True, ([0.01, 4.0, 1e5, 3e7],), {"lower": 0}),
            (stats.nbinom, True, ([0.3, 2.0, 50.0, 1e3], [0.2, 2e-5, 5e-4, 0.99]), {"lower": 0}),
            (stats.binom, True, ([7, 400, 10**6], [0.9, 0.999, 0.3]), {"lower": 0, "upper": [7, 400, 10**6]}),
            (stats.skellam, True, ([3.0, 50.0, 9e4], [9.0, 50.0, 4e4]), {}),
        ],
    )
    def test_against_scipy(self, family, discrete, parameters, support):
        law, frozen = tabulated(family, discrete, parameters, **support)
        for level in LEVELS:
            x = frozen.ppf(level)
            np.testing.assert_allclose(law.cdf(x), frozen.cdf(x), atol=1e-8)
            np.testing.assert_allclose(law.exceedance(x), frozen.sf(x), atol=1e-8)
            if discrete:
                np.testing.assert_array_equal(law.quantile(level), x)
            else:
                np.testing.assert_allclose(frozen.cdf(law.quantile(level)), level, atol=1e-8)
        np.testing.assert_allclose(law.log_prob(x), (frozen.logpmf if discrete else frozen.logpdf)(x))

    def test_beta_binomial_with_peaks_at_both_ends(self):
        trials, alpha, beta = np.array([6, 300, 90_000]), np.array([0.5, 0.2, 0.05]), np.array([0.2, 0.3, 0.6])
        expected = BetaBinomial(trials, alpha, beta)

        def log_prob(y, rows):
            n, a, b = trials[rows], alpha[rows], beta[rows]
            return betaln(y + a, n - y + b) - betaln(a, b) - betaln(y + 1, n - y + 1) - np.log(n + 1)

        law = NumericalLaw(log_prob, expected.mean, expected.std, True, lower=0, upper=trials)
        k = np.floor(np.array([[0.0], [0.1], [0.5], [0.999]]) * trials)
        np.testing.assert_allclose(law.cdf(k), expected.cdf(k), atol=1e-7)
        np.testing.assert_array_equal(law.quantile([0.01, 0.5, 0.999]), expected.quantile([0.01, 0.5, 0.999]))
        np.testing.assert_allclose(law.cdf(trials), 1.0, rtol=1e-12)

    @pytest.mark.parametrize("total", [1e4, 3e7, 1e13])
    def test_zero_inflated_count_keeps_its_spike(self, total):
        extra, mean = np.array([0.3, 1e-3, 0.97]), total * np.array([1.0, 0.4, 1.3])
        poisson = NegativeBinomial(mean, np.inf)

        def log_prob(y, rows):
            zero = np.log(extra[rows] + (1 - extra[rows]) * np.exp(-mean[rows]))
            return np.where(y == 0, zero, np.log1p(-extra[rows]) + poisson[rows].log_prob(y))

        std = np.sqrt((1 - extra) * (mean + extra * mean**2))
        law = NumericalLaw(log_prob, (1 - extra) * mean, std, True, lower=0)
        np.testing.assert_allclose(law.cdf([[0.0], [0.9 * total * 0.4]]), [extra, extra], atol=1e-8)
        for score in (-2.0, 0.0, 3.0):
            k = np.floor(mean + score * np.sqrt(mean))
            np.testing.assert_allclose(law.cdf(k), extra + (1 - extra) * poisson.cdf(k), atol=1e-8)
        draws = law.sample(20_000, 1)
        np.testing.assert_allclose((draws == 0).mean(axis=0), extra, atol=0.015)
        assert np.all((draws == 0) | (np.abs(draws - mean) < 7 * np.sqrt(mean)))

    def test_narrow_peak_far_from_the_mean(self):
        weight = np.array([0.3, 0.02])

        def parts(method, x, rows=slice(None)):
            return method(x, -100.0, 0.01), method(x, 50.0, np.array([1.0, 6.0])[rows])

        def log_prob(y, rows):
            narrow, wide = parts(stats.norm.logpdf, y, rows)
            return np.logaddexp(np.log(weight[rows]) + narrow, np.log1p(-weight[rows]) + wide)

        mean = 50 - 150 * weight
        std = np.sqrt(150**2 * weight * (1 - weight) + (1 - weight) * np.array([1.0, 36.0]))
        law = NumericalLaw(log_prob, mean, std, False)
        x = np.array([[-100.01], [-99.0], [51.0]])
        narrow, wide = parts(stats.norm.cdf, x)
        np.testing.assert_allclose(law.cdf(x), weight * narrow + (1 - weight) * wide, atol=1e-8)

    @pytest.mark.parametrize("kind", [LogNormal, Gamma])
    def test_mixed_over_nodes_it_is_the_exact_mixture(self, kind):
        mean, dispersion = np.array([0.6, 8.0, 30.0]), np.array([0.2, 1.5, 0.05])
        total = kind.from_moments(mean, (np.array([1.1, 0.5, 0.3]) * mean) ** 2)
        expected = NegativeBinomialMixture(total, dispersion)
        t, log_weight = total_nodes(total)

        def log_prob(y, rows):
            size = 1 / dispersion[rows]
            given = stats.nbinom.logpmf(y, size, size / (size + t[:, None, rows]))
            return logsumexp(log_weight[:, None, rows] + given, axis=0)

        law = NumericalLaw(log_prob, expected.mean, expected.std, True, lower=0)
        k = np.arange(0.0, 200.0, 7.0)[:, None]
        np.testing.assert_allclose(np.exp(law.log_prob(k)), np.exp(expected.log_prob(k)), rtol=1e-6, atol=1e-10)
        np.testing.assert_allclose(law.cdf(k), expected.cdf(k), atol=1e-8)
        np.testing.assert_array_equal(law.quantile(LEVELS), expected.quantile(LEVELS))

    @pytest.mark.parametrize("discrete", [False, True])
    def test_many_rows_agree_with_few(self, discrete):
        mean = np.random.default_rng(2).lognormal(3, 1, 700)
        parameters = (mean,) if discrete else (mean, 0.3 * mean)
        law, frozen = tabulated(stats.poisson if discrete else stats.norm, discrete, parameters)
        np.testing.assert_allclose(law.quantile(0.8), frozen.ppf(0.8), rtol=1e-9)
        picked = np.array([600, 3, 255, 256])
        np.testing.assert_allclose(law[picked].quantile([0.1, 0.8]), law.quantile([0.1, 0.8])[:, picked], rtol=1e-11)
        np.testing.assert_allclose(law[picked][1:].cdf(9.0), law.cdf(9.0)[picked[1:]], atol=1e-12)

    def test_no_spread_is_a_point_mass(self):
        law = NumericalLaw(lambda y, rows: np.where(y == 4, 0.0, -np.inf), [4.0], [0.0], True, lower=0)
        np.testing.assert_array_equal(law.quantile([0.01, 0.99]), [[4.0], [4.0]])
        np.testing.assert_allclose(law.cdf([[3.0], [4.0]]), [[0.0], [1.0]], atol=1e-12)

    def test_bad_parameters_are_named(self):
        def log_prob(y, rows):
            return stats.norm.logpdf(y)

        with pytest.raises(ValueError, match=r"`std` must be positive; got 0 at row 1"):
            NumericalLaw(log_prob, [0.0, 1.0], [1.0, 0.0], False)
        with pytest.raises(ValueError, match=r"`mean` must be between `lower` and `upper`; got -1 at row 1"):
            NumericalLaw(log_prob, [0.0, -1.0], 1.0, False, lower=[-1.0, 0.0])
        with pytest.raises(ValueError, match=r"`sum of probabilities` must be 1; got 0.9 at row 1.*normalised"):
            NumericalLaw(lambda y, rows: log_prob(y, rows) + np.log([1.0, 0.9])[rows], [0.0, 0.0], 1.0, False).cdf(0.0)
