"""Every formula of the likelihoods against scipy, quadrature over the mixing law, or draws."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.special import expit, gammaln

from vbagg import laws, likelihoods
from vbagg.bags import Bags
from vbagg.errors import DataWarning
from vbagg.kernels import Prior
from vbagg.likelihoods import (
    BetaBinomial,
    Binomial,
    Exponential,
    Likelihood,
    NegativeBinomial,
    Normal,
    Poisson,
    ZeroInflatedPoisson,
    get_likelihood,
    likelihood_classes,
)
from vbagg.likelihoods.base import Lemma1
from vbagg.likelihoods.estimate import estimate_noise
from vbagg.likelihoods.numerical import log_density
from vbagg.links import LINKS, get_link

pytestmark = pytest.mark.usefixtures("x64")

DISPERSION, TAU, ODDS, ZERO_ODDS = 0.7, 1.6, 0.15, 0.4
CASES = {
    "poisson": (Poisson(), {}),
    "normal": (Normal(), {"tau": np.log(TAU)}),
    "exponential": (Exponential(), {}),
    "negative_binomial": (NegativeBinomial(), {"dispersion": np.log(DISPERSION)}),
    "binomial": (Binomial(), {}),
    "beta_binomial": (BetaBinomial(), {"correlation_odds": np.log(ODDS)}),
    "zero_inflated_poisson": (ZeroInflatedPoisson(), {"zero_odds": np.log(ZERO_ODDS)}),
}
TRIALS = np.array([9.0, 6.0, 12.0])
PROBABILITIES = np.array([0.03, 0.4, 0.75])
TOTALS = {name: np.array([0.4, 3.0, 17.0]) for name in CASES} | {
    "normal": np.array([-1.5, 0.2, 6.0]),
    "binomial": PROBABILITIES,
    "beta_binomial": PROBABILITIES,
}
FACTS = {name: {} for name in CASES} | {
    "normal": {"tau_factor": np.array([0.5, 2.0, 9.0])},
    "binomial": {"trials": TRIALS},
    "beta_binomial": {"trials": TRIALS},
}
OUTPUTS = np.array([2.0, 0.0, 11.0])
each_likelihood = pytest.mark.parametrize("name", CASES)


class ZeroInflated:
    """What of scipy's frozen laws the tests use."""

    def __init__(self, counted, share):
        self.counted, self.share = counted, share

    def pmf(self, y):
        return self.share * self.counted.pmf(y) + (1 - self.share) * (y == 0)

    def logpmf(self, y):
        return np.log(self.pmf(y))

    def stats(self, moments):
        mean, variance = self.counted.stats("mv")
        return self.share * mean, self.share * variance + self.share * (1 - self.share) * mean**2


def reference(name, T, facts):
    """The output's law in scipy."""
    return {
        "poisson": lambda: stats.poisson(T),
        "normal": lambda: stats.norm(T, np.sqrt(TAU * facts["tau_factor"])),
        "exponential": lambda: stats.expon(scale=T),
        "negative_binomial": lambda: stats.nbinom(1 / DISPERSION, 1 / (1 + DISPERSION * T)),
        "binomial": lambda: stats.binom(facts["trials"].astype(int), T),
        "beta_binomial": lambda: stats.betabinom(facts["trials"].astype(int), T / ODDS, (1 - T) / ODDS),
        "zero_inflated_poisson": lambda: ZeroInflated(stats.poisson(T), 1 / (1 + ZERO_ODDS)),
    }[name]()


def is_mass(law):
    return isinstance(law, ZeroInflated) or hasattr(law.dist, "pmf")


def log_mass(law, y):
    return law.logpmf(y) if is_mass(law) else law.logpdf(y)


def one_of(facts, a):
    return {name: values[a : a + 1] for name, values in facts.items()}


@each_likelihood
@pytest.mark.parametrize("y", [[0.0, 0.0, 0.0], [1.0, 4.0, 11.0]])
def test_log_prob_is_scipys(name, y):
    likelihood, p = CASES[name]
    T, facts, y = TOTALS[name], FACTS[name], np.array(y)
    expected = log_mass(reference(name, T, facts), y)
    np.testing.assert_allclose(likelihood.log_prob(y, T, facts, p), expected, rtol=1e-9)


def mixing_law(name, T, variance):
    """Distribution of a total of this mean and variance that MATH (12) mixes over."""
    if name == "normal":
        return stats.norm(T, np.sqrt(variance))
    if name == "exponential":
        return stats.invgamma(2 + T**2 / variance, scale=(1 + T**2 / variance) * T)
    if "binomial" in name and name != "negative_binomial":
        size = T * (1 - T) / variance - 1
        return stats.beta(T * size, (1 - T) * size)
    return stats.gamma(T**2 / variance, scale=variance / T)


@each_likelihood
@pytest.mark.parametrize("spread", [0.02, 0.3, 0.8])
def test_log_prob_with_a_spread_is_the_density_averaged_over_the_mixing_law(name, spread):
    likelihood, p = CASES[name]
    T, facts = TOTALS[name], FACTS[name]
    unit = np.broadcast_to(likelihood.unit_variance(T), T.shape)
    found = likelihood.log_prob(OUTPUTS, T, facts, p, spread)
    if name == "negative_binomial":
        # with both effects gamma, the product is taken as gamma of the same variance
        dispersion = (1 + DISPERSION) * (1 + spread) - 1
        expected = stats.nbinom(1 / dispersion, 1 / (1 + dispersion * T)).logpmf(OUTPUTS)
        np.testing.assert_allclose(found, expected, rtol=1e-9)
        return
    if name == "beta_binomial":
        # likewise: correlations of trials, 1 - c = (1 - c1)(1 - c2)
        odds = 1 / ((1 - ODDS / (1 + ODDS)) * (1 - spread)) - 1
        expected = stats.betabinom(TRIALS.astype(int), T / odds, (1 - T) / odds).logpmf(OUTPUTS)
        np.testing.assert_allclose(found, expected, rtol=1e-9)
        return
    expected = []
    for a in range(3):
        mixing = mixing_law(name, T[a], spread * unit[a])
        assert mixing.mean() == pytest.approx(T[a])
        assert mixing.var() == pytest.approx(spread * unit[a])
        levels = (np.arange(200_000) + 0.5) / 200_000
        totals = mixing.ppf(levels)
        own = {key: np.full(len(totals), values[a]) for key, values in facts.items()}
        expected.append(np.log(np.mean(np.exp(log_mass(reference(name, totals, own), OUTPUTS[a])))))
    np.testing.assert_allclose(found, expected, rtol=3e-5)


@each_likelihood
def test_log_prob_of_a_spread_has_the_whole_mass_and_the_variance_of_both(name):
    """`Var y = E Var(y | T) + Var E(y | T)`, also where two effects are merged into one."""
    likelihood, p = CASES[name]
    T, facts, spread = TOTALS[name], FACTS[name], 0.2
    mean, variance = reference(name, T, facts).stats("mv")
    total_variance = spread * likelihood.unit_variance(T)
    if name in ("binomial", "beta_binomial"):
        # E T (1 - T) loses the variance of T
        variance = variance * (1 - spread) + TRIALS**2 * total_variance
    elif name == "negative_binomial":
        variance = variance + (1 + DISPERSION) * total_variance
    elif name == "zero_inflated_poisson":
        share = 1 / (1 + ZERO_ODDS)
        variance = variance + share * total_variance
    elif name == "exponential":
        variance = variance + 2 * total_variance
    else:
        variance = variance + total_variance
    if likelihood.counts:
        y, width = np.arange(4000.0)[:, None], 1.0
        y = np.minimum(y, TRIALS) if likelihood.needs_trials else np.tile(y, (1, 3))
        inside = np.arange(4000)[:, None] <= (TRIALS if likelihood.needs_trials else np.inf)
    elif name == "exponential":
        u = np.linspace(-14, 14, 20_001)[:, None]
        y, inside = np.exp(u) * T, True
        width = y * (u[1] - u[0])
    else:
        y = mean + np.sqrt(variance) * np.linspace(-12, 12, 4001)[:, None]
        inside, width = True, y[1] - y[0]
    mass = np.where(inside, np.exp(likelihood.log_prob(y, T, facts, p, spread)) * width, 0.0)
    np.testing.assert_allclose(mass.sum(axis=0), 1.0, rtol=1e-6)
    np.testing.assert_allclose((mass * y).sum(axis=0), mean, rtol=1e-6)
    np.testing.assert_allclose((mass * (y - mean) ** 2).sum(axis=0), variance, rtol=1e-5)


@each_likelihood
@pytest.mark.parametrize("spread", [0.0, 1e-30, 1e-13, 1e-9])
def test_a_spread_that_vanishes_leaves_the_density(name, spread):
    likelihood, p = CASES[name]
    T, facts = TOTALS[name], FACTS[name]
    expected = log_mass(reference(name, T, facts), OUTPUTS)
    np.testing.assert_allclose(likelihood.log_prob(OUTPUTS, T, facts, p, spread), expected, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("name", ["binomial", "beta_binomial"])
def test_a_probability_that_rounds_to_zero_or_one_is_next_to_it(name):
    """Latent values of 40 make `T` one: certain positives are no surprise, and nothing is not a number."""
    likelihood, p = CASES[name]
    facts, T, all_or_none = {"trials": np.array([6.0, 6.0])}, np.array([1.0, 0.0]), np.array([6.0, 0.0])
    np.testing.assert_allclose(likelihood.log_prob(all_or_none, T, facts, p), 0.0, atol=1e-12)
    assert (likelihood.log_prob(6 - all_or_none, T, facts, p) < -30).all()
    slope = jax.grad(lambda T: likelihood.log_prob(all_or_none, T, facts, p).sum())(T)
    assert np.isfinite(slope).all()


@each_likelihood
def test_gradients_are_finite_without_and_with_a_spread(name):
    likelihood, p = CASES[name]
    T, facts = TOTALS[name], FACTS[name]

    def total(T, spread):
        return jnp.sum(likelihood.log_prob(OUTPUTS, T, facts, p, spread))

    slopes = jax.jit(jax.grad(total, argnums=(0, 1)))
    for spread in (np.zeros(3), np.array([1e-14, 0.01, 0.9])):
        assert all(np.isfinite(slope).all() for slope in slopes(T, spread))
    step, spread = 1e-6 * T, np.array([0.05, 0.01, 0.6])
    by_total, by_spread = (np.asarray(slope) for slope in slopes(T, spread))
    for a in range(3):
        e = np.eye(3)[a]
        expected = float(total(T + e * step, spread) - total(T - e * step, spread)) / (2 * step[a])
        assert by_total[a] == pytest.approx(expected, rel=1e-5, abs=1e-7)
        expected = float(total(T, spread + 1e-6 * e) - total(T, spread - 1e-6 * e)) / 2e-6
        assert by_spread[a] == pytest.approx(expected, rel=1e-5, abs=1e-7)


def test_large_counts_keep_their_digits():
    """A Poisson is a negative binomial of size 1e12, whose gamma functions are of the order 1e13."""
    y, T = np.array([3.0, 1e5, 2e6]), np.array([2.2, 1.003e5, 1.9999e6])
    np.testing.assert_allclose(Poisson().log_prob(y, T, {}, {}), stats.poisson(T).logpmf(y), rtol=3e-7)
    for dispersion in (1e-9, 1e-5, 0.02):
        # the product form, exact for integers: prod (1 + j phi), j < y
        small = np.array([0.0, 7.0, 400.0])
        rising = np.array([np.log1p(dispersion * np.arange(k)).sum() for k in small])
        mean = np.array([0.5, 9.0, 380.0])
        expected = rising - gammaln(small + 1) + small * np.log(mean)
        expected -= (small + 1 / dispersion) * np.log1p(dispersion * mean)
        found = NegativeBinomial(dispersion).log_prob(small, mean, {}, {})
        np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_known_parameters_replace_learnt_ones():
    y, T = np.array([1.0, 4.0]), np.array([2.0, 5.0])
    learnt = NegativeBinomial().log_prob(y, T, {}, {"dispersion": np.log(0.2)})
    np.testing.assert_allclose(NegativeBinomial(0.2).log_prob(y, T, {}, {}), learnt, rtol=1e-12)
    assert NegativeBinomial(0.2).priors() == Normal(tau=3.0).priors() == {}
    noise = {"noise": np.array([0.5, 2.0])}
    np.testing.assert_allclose(
        Normal(tau=3.0).log_prob(y, T, noise, {}), stats.norm(T, np.sqrt(noise["noise"])).logpdf(y)
    )


def test_normal_is_told_the_squares_of_the_weights():
    bags = Bags(np.zeros((5, 1)), ["u", "v", "u", "w", "v"], [1.0, 2.0, 0.5, 3.0, 0.0])
    squares = np.array([1.25, 4.0, 9.0])
    np.testing.assert_allclose(Normal().facts(bags, None)["tau_factor"], squares)
    # rates are divided by the scale, so weights are multiplied by it
    np.testing.assert_allclose(Normal().facts(bags, None, 3.0)["tau_factor"], 9 * squares)
    np.testing.assert_allclose(Normal(tau=[2.0, 0.5, 1.0]).facts(bags, None, 3.0)["noise"], [2.5, 2.0, 9.0])
    assert Normal().in_users_units({"tau": np.log(0.2)}, 3.0) == {"tau": pytest.approx(1.8)}
    with pytest.raises(ValueError, match=r"`tau` must be positive; got -1 for bag 'v'"):
        Normal(tau=[2.0, -1.0, 1.0]).facts(bags, None)


def test_trials_are_facts_of_those_that_need_them():
    bags = Bags(np.zeros((3, 1)), ["u", "v", "u"])
    trials = np.array([7.0, 4.0])
    for name, kind in likelihood_classes().items():
        facts = kind().facts(bags, trials if kind.needs_trials else None)
        assert facts.get("trials") is (trials if "binomial" in name and name != "negative_binomial" else None)
        exposure = kind().exposure(bags, trials if kind.needs_trials else None)
        np.testing.assert_array_equal(exposure, trials if kind.needs_trials else [2.0, 1.0])


@pytest.mark.parametrize("name", ["poisson", "normal", "exponential", "negative_binomial", "binomial"])
def test_fisher_is_minus_the_expected_curvature(name):
    likelihood, p = CASES[name]
    T, facts = TOTALS[name], FACTS[name]
    law = reference(name, T, facts)
    if is_mass(law):
        y = np.tile(np.arange(600.0)[:, None], (1, 3))
        if likelihood.needs_trials:
            y = np.minimum(y, TRIALS)
        mass = np.where(np.arange(600)[:, None] <= facts.get("trials", np.inf), law.pmf(y), 0.0)
    else:
        nodes, weights = np.polynomial.legendre.leggauss(200)
        low, high = law.ppf(1e-14), law.isf(1e-14)
        y = low + (nodes[:, None] + 1) * (high - low) / 2
        mass = weights[:, None] * (high - low) / 2 * law.pdf(y)
    slope = jax.grad(lambda T: likelihood.log_prob(y, T, facts, p).sum())
    curvature = jax.jit(lambda T: jax.jvp(slope, (T,), (np.ones_like(y),))[1])(np.tile(T, (len(y), 1)))
    np.testing.assert_allclose(likelihood.fisher(T, facts, p), -(mass * curvature).sum(axis=0), rtol=1e-6)


@each_likelihood
@pytest.mark.parametrize("spread", [0.0, 0.3])
def test_fisher_is_squared_slope_over_variance(name, spread):
    likelihood, p = CASES[name]
    T, facts = TOTALS[name], FACTS[name]
    mean, variance = reference(name, T, facts).stats("mv")
    slope = {"binomial": TRIALS, "beta_binomial": TRIALS, "zero_inflated_poisson": 1 / (1 + ZERO_ODDS)}.get(name, 1.0)
    np.testing.assert_allclose(likelihood.mean(T, facts, p), mean, rtol=1e-12)
    np.testing.assert_allclose(likelihood.variance(T, facts, p), variance, rtol=1e-12)
    unit = {"normal": 1.0, "binomial": T * (1 - T), "beta_binomial": T * (1 - T)}.get(name, T**2)
    expected = slope**2 / (variance + slope**2 * spread * unit)
    np.testing.assert_allclose(likelihood.fisher(T, facts, p, spread), expected, rtol=1e-12)


def matched_law(link, M, V):
    """The matched law with mean M and variance V in scipy."""
    if link == "exp":
        spread = np.log1p(V / M**2)
        return stats.lognorm(np.sqrt(spread), scale=M * np.exp(-spread / 2))
    if link == "square":
        return stats.gamma(M**2 / V, scale=V / M)
    if link == "logistic":
        size = M * (1 - M) / V - 1
        return stats.beta(M * size, (1 - M) * size)
    return stats.norm(M, np.sqrt(V))


def expectation(function, link, law):
    """Trapezoid rule over the whole line, in log T, logit T or T itself."""
    if link == "identity":
        u = T = law.mean() + law.std() * np.linspace(-12, 12, 2001)
        jacobian = np.ones_like(T)
    elif link == "logistic":
        u = np.linspace(-250, 36, 40_001)
        T, jacobian = expit(u), expit(u) * expit(-u)
    else:
        u = np.linspace(-90, 12, 20_001)
        T = jacobian = np.exp(u)
    return np.sum(np.asarray(function(T)) * law.pdf(T) * jacobian) * (u[1] - u[0])


COMBINATIONS = [(name, link) for name, (likelihood, _) in CASES.items() for link in likelihood.links]


@pytest.mark.parametrize("spread", [0.0, 0.25])
@pytest.mark.parametrize("relative_spread", [0.05, 0.5, 1.3])
@pytest.mark.parametrize(("name", "link"), COMBINATIONS)
def test_matched_expectation_is_the_quadrature_of_its_law(name, link, relative_spread, spread):
    likelihood, p = CASES[name]
    M, facts = TOTALS[name], FACTS[name]
    V = relative_spread**2 * (0.1 * M * (1 - M) if likelihood.needs_trials else M**2)
    expected = [
        expectation(
            lambda T, a=a: likelihood.log_prob(OUTPUTS[a], T, one_of(facts, a), p, spread),
            link,
            matched_law(link, M[a], V[a]),
        )
        for a in range(3)
    ]
    found = likelihood.matched(OUTPUTS, M, V, get_link(link).matched, facts, p, spread)
    # nodes of the default, and functions in closed form
    closed = {"poisson", "negative_binomial", "normal", "binomial"}
    np.testing.assert_allclose(found, expected, rtol=1e-6 if name in closed else 1e-5)


@pytest.mark.parametrize(("name", "link"), COMBINATIONS)
def test_matched_takes_a_spread_for_each_bag(name, link):
    likelihood, p = CASES[name]
    M, facts, spread = TOTALS[name], FACTS[name], np.array([0.1, 0.0, 0.5])
    V = 0.04 * (M * (1 - M) if likelihood.needs_trials else M**2)
    law = get_link(link).matched
    expected = [
        likelihood.matched(OUTPUTS[[a]], M[[a]], V[[a]], law, one_of(facts, a), p, spread[a])[0] for a in range(3)
    ]
    np.testing.assert_allclose(likelihood.matched(OUTPUTS, M, V, law, facts, p, spread), expected, rtol=1e-10)


def test_matched_beta_stays_finite_where_the_variance_is_too_large():
    """First order may give a variance above `M (1 - M)`, which no law on the unit interval has."""
    law, facts = get_link("logistic").matched, {"trials": np.array([4.0])}
    for likelihood, p in (CASES["binomial"], CASES["beta_binomial"]):
        value = likelihood.matched(np.array([1.0]), np.array([0.3]), np.array([0.5]), law, facts, p, 1.7)
        assert np.isfinite(value).all()


@pytest.mark.parametrize("spread", [0.0, 0.3])
@pytest.mark.parametrize(("name", "link"), COMBINATIONS)
def test_matched_tends_to_the_log_density_without_variance(name, link, spread):
    likelihood, p = CASES[name]
    M, facts = TOTALS[name], FACTS[name]
    value = likelihood.matched(OUTPUTS, M, 1e-10 * M**2, get_link(link).matched, facts, p, spread)
    np.testing.assert_allclose(value, likelihood.log_prob(OUTPUTS, M, facts, p, spread), rtol=1e-6)


@pytest.mark.parametrize("name", ["poisson", "negative_binomial", "binomial", "exponential"])
def test_bounds_are_the_densities_where_nothing_is_uncertain(name):
    likelihood, p = CASES[name]
    T, facts = TOTALS[name], FACTS[name]
    lower = Lemma1(np.log(T), np.log1p(-T) if likelihood.needs_trials else None, 1 / T)
    found = likelihood.bound(OUTPUTS, T, lower, facts, p)
    np.testing.assert_allclose(found, likelihood.log_prob(OUTPUTS, T, facts, p), rtol=1e-9)


@pytest.mark.parametrize("name", ["normal", "beta_binomial", "zero_inflated_poisson"])
def test_a_bound_that_is_not_known_is_refused(name):
    likelihood, p = CASES[name]
    assert likelihood.bounds == ()
    with pytest.raises(NotImplementedError, match=f"'bound' is not known for likelihood '{name}'; use 'matched'"):
        likelihood.bound(OUTPUTS, TOTALS[name], Lemma1(), FACTS[name], p)


@each_likelihood
def test_simulated_outputs_have_the_likelihoods_moments(name, rng):
    likelihood, p = CASES[name]
    T, facts = TOTALS[name], FACTS[name]
    learnt = {key: float(np.exp(value)) for key, value in p.items()}
    y = likelihood.simulate(np.tile(T, (40_000, 1)), facts, learnt, rng)
    mean, variance = reference(name, T, facts).stats("mv")
    assert (np.abs(y.mean(axis=0) - mean) < 5 * np.sqrt(variance / len(y))).all()
    np.testing.assert_allclose(y.var(axis=0), variance, rtol=0.12)


@pytest.mark.parametrize(("name", "link"), COMBINATIONS)
def test_predictive_law_is_that_of_simulated_outputs(name, link, rng):
    """MATH section 6, with totals drawn from the matched law."""
    likelihood, p = CASES[name]
    M, facts = TOTALS[name], FACTS[name]
    V = 0.15 * M * (1 - M) if likelihood.needs_trials else 0.5 * M**2
    learnt = {key: float(np.exp(value)) for key, value in p.items()}
    law = likelihood.predictive(get_link(link).total_law.from_moments(M, V), facts, learnt)
    T = np.stack([matched_law(link, *pair).rvs(40_000, random_state=rng) for pair in zip(M, V, strict=True)])
    y = likelihood.simulate(T.T, facts, learnt, rng)
    assert (np.abs(y.mean(axis=0) - law.mean) < 5 * law.std / np.sqrt(len(y))).all()
    np.testing.assert_allclose(y.std(axis=0), law.std, rtol=0.08)
    for level in ([0.0, 1.0, 9.0], [2.0, 4.0, 20.0]):
        np.testing.assert_allclose(law.cdf(np.array(level)), (y <= level).mean(axis=0), atol=0.012)


@pytest.mark.parametrize(("name", "spread", "without"), [
    ("negative_binomial", DISPERSION, "poisson"),
    ("beta_binomial", ODDS / (1 + ODDS), "binomial"),
    ("poisson", 0.0, "poisson"),
    ("normal", 0.0, "normal"),
    ("zero_inflated_poisson", 0.0, "zero_inflated_poisson"),
])  # fmt: skip
def test_the_bags_own_effect_is_a_spread_of_the_likelihood_without_it(name, spread, without):
    likelihood, p = CASES[name]
    learnt = {key: float(np.exp(value)) for key, value in p.items()}
    assert likelihood.effect_spread(learnt) == pytest.approx(spread)
    rest = likelihood.without_effect(learnt)
    assert rest.name == without
    T, facts = TOTALS[name], FACTS[name]
    found = rest.log_prob(OUTPUTS, T, facts, p, likelihood.effect_spread(learnt))
    np.testing.assert_allclose(found, likelihood.log_prob(OUTPUTS, T, facts, p), rtol=1e-9)


@pytest.mark.parametrize("name", ["negative_binomial", "beta_binomial", "zero_inflated_poisson", "normal"])
def test_noise_is_estimated_from_outputs_with_known_totals(name, rng):
    """The likeliest value beats its neighbours and is near the truth; the Normal's counts degrees of freedom."""
    likelihood, p = CASES[name]
    n = 3000
    T = rng.choice(TOTALS[name], n) * (1.0 if likelihood.needs_trials else 1.3)
    T = np.clip(T, None, 0.9) if likelihood.needs_trials else T
    facts = {key: rng.choice(values, n) for key, values in FACTS[name].items()}
    learnt = {key: float(np.exp(value)) for key, value in p.items()}
    y = likelihood.simulate(T[None], facts, learnt, rng)[0]
    found = estimate_noise(likelihood, y, T, facts, spent=5.0)
    ((key, value),) = found.items()
    assert value == pytest.approx(learnt[key], rel=0.2)

    def log_density(value):
        return float(jnp.sum(likelihood.log_prob(y, T, facts, {key: np.log(value)})))

    if name == "normal":
        assert value == pytest.approx(np.sum((y - T) ** 2 / facts["tau_factor"]) / (n - 5), rel=1e-12)
    else:
        assert log_density(value) >= max(log_density(0.97 * value), log_density(1.03 * value))
    assert estimate_noise(Poisson(), y, T, {}) == {}
    assert estimate_noise(Normal(tau=2.0), y, T, {"noise": np.ones(n)}) == {}


@dataclass(frozen=True)
class OnlyDensity(Likelihood):
    """A gamma of known shape: nothing but a log density and two moments."""

    name = "only_density"
    links = ("exp",)
    shape: float = 3.5

    def log_prob(self, y, T, facts, p, spread=0.0):
        k = self.shape
        return (k - 1) * jnp.log(y) - k * y / T + k * jnp.log(k / T) - gammaln(k)

    def variance(self, T, facts, p):
        return T**2 / self.shape

    def support(self, facts):
        return 0.0, np.inf


@dataclass(frozen=True)
class OnlyMass(Likelihood):
    """A Poisson of which nothing but a log mass and two moments are known."""

    name = "only_mass"
    links = ("exp", "square")
    counts = True

    def log_prob(self, y, T, facts, p, spread=0.0):
        return y * jnp.log(T) - T - jax.scipy.special.gammaln(y + 1)

    def variance(self, T, facts, p):
        return T


def test_defaults_of_a_density_agree_with_closed_forms(rng):
    toy, k = OnlyDensity(), OnlyDensity.shape
    y, M = np.array([0.7, 2.0, 30.0]), np.array([0.4, 3.0, 17.0])
    V = 0.3 * M**2
    # log-normal T: E log T and E 1/T
    log_T, reciprocal = np.log(M) - 0.5 * np.log(1.3), 1.3 / M
    expected = (k - 1) * np.log(y) - k * y * reciprocal + k * (np.log(k) - log_T) - gammaln(k)
    np.testing.assert_allclose(toy.matched(y, M, V, get_link("exp").matched, {}, {}), expected, rtol=1e-9)
    np.testing.assert_allclose(toy.fisher(M, {}, {}), k / M**2, rtol=1e-12)
    law = toy.predictive(laws.LogNormal.from_moments(M, V), {}, {})
    np.testing.assert_allclose(law.mean, M, rtol=1e-6)
    np.testing.assert_allclose(law.std, M * np.sqrt(1.3 * (1 + 1 / k) - 1), rtol=1e-5)
    T = np.stack([matched_law("exp", *pair).ppf((np.arange(20_000) + 0.5) / 20_000) for pair in zip(M, V, strict=True)])
    given = stats.gamma(k, scale=T / k)
    np.testing.assert_allclose(law.cdf(y), given.cdf(y[:, None]).mean(axis=1), atol=1e-5)
    np.testing.assert_allclose(law.log_prob(y), np.log(given.pdf(y[:, None]).mean(axis=1)), atol=1e-4)
    np.testing.assert_allclose(law.cdf(law.quantile(0.3)), 0.3, atol=1e-6)
    drawn = toy.simulate(np.tile(M, (500, 1)), {}, {}, rng)
    for a in range(3):
        assert stats.kstest(drawn[:, a], stats.gamma(k, scale=M[a] / k).cdf).pvalue > 1e-4


@pytest.mark.parametrize("link", ["exp", "square"])
def test_defaults_of_a_mass_agree_with_the_poissons_own(link, rng):
    toy = OnlyMass()
    M = np.array([0.4, 3.0, 17.0])
    V = 0.3 * M**2
    law = get_link(link).matched
    own = Poisson().matched(OUTPUTS, M, V, law, {}, {})
    np.testing.assert_allclose(toy.matched(OUTPUTS, M, V, law, {}, {}), own, rtol=1e-6)
    total = get_link(link).total_law.from_moments(M, V)
    found, known = toy.predictive(total, {}, {}), Poisson().predictive(total, {}, {})
    np.testing.assert_allclose(found.mean, known.mean, rtol=1e-6)
    np.testing.assert_allclose(found.std, known.std, rtol=1e-5)
    for y in (np.zeros(3), OUTPUTS, np.array([3.0, 9.0, 40.0])):
        np.testing.assert_allclose(found.log_prob(y), known.log_prob(y), atol=1e-4)
        np.testing.assert_allclose(found.cdf(y), known.cdf(y), atol=1e-5)
    for level in (0.05, 0.5, 0.9):
        np.testing.assert_array_equal(found.quantile(level), known.quantile(level))
    drawn = toy.simulate(np.tile(M, (600, 1)), {}, {}, rng)
    assert (drawn == np.round(drawn)).all()
    assert (np.abs(drawn.mean(axis=0) - M) < 5 * np.sqrt(M / 600)).all()
    np.testing.assert_allclose(drawn.var(axis=0), M, rtol=0.35)


def test_a_likelihood_without_a_density_says_so():
    with pytest.raises(NotImplementedError):
        Likelihood().log_prob(OUTPUTS, OUTPUTS, {}, {})
    with pytest.raises(NotImplementedError):
        Likelihood().variance(OUTPUTS, {}, {})


def test_starts_are_medians_of_priors():
    assert {name: kind().priors() for name, kind in likelihood_classes().items() if kind().priors()} == {
        "normal": {"tau": Prior(1.0, 3.0)},
        "negative_binomial": {"dispersion": Prior(0.3, 1.5)},
        "beta_binomial": {"correlation_odds": Prior(0.05, 1.5)},
        "zero_inflated_poisson": {"zero_odds": Prior(0.1, 1.5)},
    }


@pytest.mark.parametrize(
    ("likelihood", "link", "reason"),
    [
        ("exponential", "square", r"E\[1/f\^2\] is infinite"),
        ("exponential", "identity", "cannot be negative"),
        ("exponential", "logistic", "not bounded by one"),
        ("poisson", "identity", "cannot be negative"),
        ("negative_binomial", "logistic", "not bounded by one"),
        ("zero_inflated_poisson", "identity", "cannot be negative"),
        ("binomial", "exp", "lies between zero and one"),
        ("binomial", "square", "lies between zero and one"),
        ("beta_binomial", "identity", "lies between zero and one"),
        ("normal", "exp", "it works with 'identity'"),
    ],
)
def test_link_that_does_not_go_with_the_likelihood_is_refused_with_the_reason(likelihood, link, reason):
    with pytest.raises(ValueError, match=f"`link`='{link}' does not go with likelihood '{likelihood}': .*{reason}"):
        get_likelihood(likelihood).check_link(link)


COUNTS = {"exp", "square"}
ACCEPTED = {
    "poisson": COUNTS,
    "negative_binomial": COUNTS,
    "zero_inflated_poisson": COUNTS,
    "binomial": {"logistic"},
    "beta_binomial": {"logistic"},
    "normal": {"identity"},
    "exponential": {"exp"},
}


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("likelihood", ACCEPTED)
def test_every_other_combination_is_accepted(likelihood, link):
    assert set(ACCEPTED) == set(likelihood_classes())
    if link in ACCEPTED[likelihood]:
        get_likelihood(likelihood).check_link(link)
    else:
        with pytest.raises(ValueError, match=f"`link`='{link}' does not go with likelihood '{likelihood}'"):
            get_likelihood(likelihood).check_link(link)


def test_outputs_are_checked():
    labels = np.array(["D1", "D2", "D3"], dtype=object)
    with pytest.raises(ValueError, match=r"a count \(poisson\) must not be negative; got -2 for bag 'D2'"):
        Poisson().check_outputs(np.array([1.0, -2.0, 3.0]), labels, None)
    with pytest.raises(ValueError, match=r"a count \(zero_inflated_poisson\) must not be negative; got -2"):
        ZeroInflatedPoisson().check_outputs(np.array([1.0, -2.0, 3.0]), labels, None)
    with pytest.warns(DataWarning, match=r"1 of 3 counts .*first: 2.5 for bag 'D3'"):
        Poisson().check_outputs(np.array([1.0, 2.0, 2.5]), labels, None)
    with pytest.raises(ValueError, match="an exponential output must not be negative"):
        Exponential().check_outputs(np.array([1.0, -2.0, 3.0]), labels, None)
    for kind in (Binomial, BetaBinomial):
        with pytest.raises(ValueError, match=f"likelihood '{kind.name}' needs `trials`"):
            kind().check_outputs(np.ones(3), labels, None)
        with pytest.raises(ValueError, match=r"got y=3, trials=2 for bag 'D3'"):
            kind().check_outputs(np.array([1.0, 2.0, 3.0]), labels, np.array([4.0, 2.0, 2.0]))
        with pytest.raises(ValueError, match=r"must be whole numbers; got 4.5 for bag 'D1'. Round them"):
            kind().check_outputs(np.array([1.0, 2.0, 2.0]), labels, np.array([4.5, 2.0, 2.0]))
    with pytest.raises(ValueError, match=r"`trials` goes with likelihood 'binomial'; got it with 'poisson'"):
        Poisson().check_trials(np.ones(3))
    Normal().check_outputs(np.array([-1.5, 0.0, 2.0]), labels, None)


def test_parameters_are_checked():
    with pytest.raises(ValueError, match="`dispersion` must be positive; got 0"):
        NegativeBinomial(dispersion=0.0)
    with pytest.raises(ValueError, match=r"`likelihood` must be one of 'poisson', .*'beta_binomial'.*; got 'gamma'"):
        get_likelihood("gamma")
    instance = NegativeBinomial(0.4)
    assert get_likelihood(instance) is instance
    with pytest.raises(AttributeError, match="has no attribute 'Gamma'"):
        likelihoods.Gamma  # noqa: B018


@pytest.mark.parametrize("shape", [(1,), (3, 5), (2, 1, 300)])
def test_log_densities_of_any_shape_are_those_of_the_likelihood(rng, shape):
    """Blocks and padding leave no trace; facts and totals are broadcast."""
    T, trials = rng.uniform(0.1, 0.9, shape), rng.integers(5, 40, shape[-1]).astype(float)
    y = np.floor(trials * rng.uniform(size=shape))
    likelihood = get_likelihood("beta_binomial")
    p = dict.fromkeys(likelihood.priors(), np.log(0.2))
    got = log_density(likelihood, y, T, {"trials": trials}, p)
    with jax.enable_x64(True):
        np.testing.assert_allclose(got, likelihood.log_prob(y, T, {"trials": trials}, p), rtol=1e-12)
    several = log_density(get_likelihood("poisson"), np.arange(4.0)[:, None], np.array([0.5, 2.0]), {}, {})
    np.testing.assert_allclose(several, stats.poisson.logpmf(np.arange(4)[:, None], [0.5, 2.0]), rtol=1e-9)


def test_log_densities_are_cut_into_blocks(monkeypatch):
    monkeypatch.setattr("vbagg.likelihoods.numerical.SMALLEST_BLOCK", 4)
    monkeypatch.setattr("vbagg.likelihoods.numerical.LARGEST_BLOCK", 8)
    y = np.arange(21.0)
    got = log_density(get_likelihood("poisson"), y, y + 0.5, {}, {})
    np.testing.assert_allclose(got, stats.poisson.logpmf(y, y + 0.5), rtol=1e-9)
