"""Outputs of which only bounds are known: probabilities of intervals, their expectations, slopes and information."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import logsumexp

from vbagg.likelihoods import (
    BetaBinomial,
    Binomial,
    Exponential,
    NegativeBinomial,
    Normal,
    Poisson,
    ZeroInflatedPoisson,
)
from vbagg.likelihoods.base import Likelihood
from vbagg.likelihoods.censored import Censored, censored
from vbagg.likelihoods.within import Terms
from vbagg.links import get_link

pytestmark = pytest.mark.usefixtures("x64")
LOWER = np.array([0.0, 1.0, 3.0, 7.0, 2.0, 40.0])
UPPER = np.array([4.0, 1.0, 9.0, np.inf, np.inf, 75.0])
T = np.array([2.3, 4.0, 0.8, 3.1, 6.0, 55.0])
TRIALS = np.array([9.0, 30.0, 12.0, 40.0, 25.0, 90.0])
SPREAD = np.array([0.05, 0.3, 0.8, 0.02, 0.2, 0.01])
LEARNT = {
    "poisson": (Poisson(), {}, "exp"),
    "negative_binomial": (NegativeBinomial(), {"dispersion": np.log(0.4)}, "exp"),
    "zero_inflated_poisson": (ZeroInflatedPoisson(), {"zero_odds": np.log(0.3)}, "exp"),
    "binomial": (Binomial(), {}, "logistic"),
    "beta_binomial": (BetaBinomial(), {"correlation_odds": np.log(0.1)}, "logistic"),
    "normal": (Normal(), {"tau": np.log(0.7)}, "identity"),
    "exponential": (Exponential(), {}, "exp"),
}
COUNTS = [name for name, (likelihood, _, _) in LEARNT.items() if likelihood.counts]
LABELS = np.array(list("abcdef"), object)


def case(name):
    """Likelihood, its parameters and facts, totals, and the censored likelihood with its facts."""
    likelihood, p, _ = LEARNT[name]
    facts = {"normal": {"tau_factor": np.array([1.5, 2.0, 3.0, 7.0, 1.0, 4.0])}}.get(name, {})
    facts = {"trials": TRIALS} if likelihood.needs_trials else facts
    totals = T / 100 + 0.05 if likelihood.needs_trials else T
    made, bounds = censored(likelihood, LOWER, UPPER, LABELS, facts)
    return likelihood, p, facts, totals, made, facts | bounds


def log_prob(made, totals, facts, p):
    return np.asarray(jax.jit(lambda T: made.log_prob(LOWER, T, facts, p, SPREAD))(totals))


def scipy_law(name, p, facts, T, spread):
    """Distribution of an output as SciPy writes it."""
    if name == "normal":
        return stats.norm(T, np.sqrt(facts["tau_factor"] * np.exp(p["tau"]) + spread))
    if name == "exponential":
        a = 2 + 1 / np.maximum(spread, 1e-12)
        return stats.lomax(a, scale=(a - 1) * T)
    if "binomial" in name and name != "negative_binomial":
        own = 1 / (1 + np.exp(-p["correlation_odds"])) if p else 0.0
        size = 1 / np.clip(own + spread - own * spread, 1e-7, 1.0) - 1
        return stats.betabinom(facts["trials"].astype(int), T * size, (1 - T) * size)
    phi = np.exp(p["dispersion"]) if "dispersion" in p else 0.0
    size = 1 / np.maximum(phi + spread + phi * spread, 1e-9)
    return stats.nbinom(size, size / (size + T))


@pytest.mark.parametrize("name", LEARNT)
def test_probabilities_of_intervals_against_scipy(name):
    likelihood, p, facts, totals, made, with_bounds = case(name)
    found = log_prob(made, totals, with_bounds, p)
    law = scipy_law(name, p, facts, totals, SPREAD)
    below = law.cdf(np.ceil(LOWER) - 1 if likelihood.counts else LOWER)
    inside = law.cdf(np.minimum(UPPER, 1e9)) - below
    tail = law.sf(np.ceil(LOWER) - 1 if likelihood.counts else LOWER)
    exact = UPPER == LOWER
    expected = np.log(np.where(np.isinf(UPPER), tail, np.where(exact, 1.0, inside)))
    if name == "zero_inflated_poisson":
        share = 1 / (1 + np.exp(p["zero_odds"]))
        expected = np.log(share * np.exp(expected) + (1 - share) * (LOWER == 0))
    expected[exact] = np.asarray(likelihood.log_prob(LOWER, totals, facts, p, SPREAD))[exact]
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-15)


@pytest.mark.parametrize("name", COUNTS)
def test_probabilities_of_intervals_against_brute_force(name):
    likelihood, p, facts, totals, made, with_bounds = case(name)
    found = log_prob(made, totals, with_bounds, p)
    for a in range(len(T)):
        last = TRIALS[a] if likelihood.needs_trials else 4000.0
        y = np.arange(LOWER[a], min(UPPER[a], last) + 1)
        own = {key: values[a] for key, values in facts.items()}
        terms = np.asarray(likelihood.log_prob(y, totals[a], own, p, SPREAD[a]))
        assert found[a] == pytest.approx(logsumexp(terms), rel=1e-8, abs=1e-9), LABELS[a]


@pytest.mark.parametrize("dispersion", [1e-9, 0.02, 0.5, 3.0])
def test_upper_tails_far_from_the_total(dispersion):
    likelihood = NegativeBinomial(dispersion)
    lower, totals = (a.ravel() for a in np.meshgrid([1.0, 3.0, 20.0, 150.0, 500.0], [1e-3, 0.4, 3.0, 60.0, 2e3, 1e5]))
    made, facts = censored(likelihood, lower, np.full(lower.shape, np.inf), lower, {})
    found, slope = jax.vmap(jax.value_and_grad(lambda T, f: made.log_prob(1.0, T, f, {})), (0, 0))(totals, facts)
    size = 1 / dispersion
    expected = stats.nbinom.logsf(lower - 1, size, size / (size + totals))
    reliable = expected > -600
    np.testing.assert_allclose(np.asarray(found)[reliable], expected[reliable], rtol=3e-3, atol=1e-8)
    assert np.isfinite(found).all()
    assert np.isfinite(slope).all()
    assert (np.asarray(slope) >= 0).all()


def test_a_total_of_zero_has_no_cases():
    lower, upper = np.array([0.0, 2.0, 1.0]), np.array([4.0, 5.0, np.inf])
    made, facts = censored(Poisson(), lower, upper, LABELS, {})
    found = np.asarray(made.log_prob(lower, np.zeros(3), facts, {}))
    assert found[0] == 0.0
    assert (found[1:] < -1e20).all()


def test_a_narrow_interval_of_a_normal_is_its_density():
    likelihood, p, facts, _, _, _ = case("normal")
    width = 1e-4
    lower = np.array([-9.0, 2.0, 30.0, 1.0, 5.0, 300.0])
    found = np.asarray(likelihood.log_interval(lower, lower + width, T, facts, p, SPREAD, Terms())) - np.log(width)
    middle = np.asarray(likelihood.log_prob(lower + width / 2, T, facts, p, SPREAD))
    np.testing.assert_allclose(found, middle, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", LEARNT)
def test_slopes_by_finite_differences(name):
    _, p, _, totals, made, facts = case(name)

    @jax.jit
    def total(T, spread, p):
        return jnp.sum(made.log_prob(LOWER, T, facts, p, spread))

    spread = SPREAD + 0.02
    of_T, of_spread, of_p = jax.grad(total, argnums=(0, 1, 2))(totals, spread, p)
    for a in range(len(T)):
        step = np.eye(len(T))[a] * 1e-6
        by_T = float(total(totals + step, spread, p) - total(totals - step, spread, p)) / 2e-6
        by_spread = float(total(totals, spread + step, p) - total(totals, spread - step, p)) / 2e-6
        assert of_T[a] == pytest.approx(by_T, rel=1e-5, abs=1e-6)
        assert of_spread[a] == pytest.approx(by_spread, rel=1e-4, abs=1e-5)
    for key, value in p.items():
        up, down = ({**p, key: value + sign * 1e-6} for sign in (1, -1))
        by_p = float(total(totals, spread, up) - total(totals, spread, down)) / 2e-6
        assert of_p[key] == pytest.approx(by_p, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("name", LEARNT)
def test_expectations_against_monte_carlo(name):
    likelihood, p, _, totals, made, facts = case(name)
    link = get_link(LEARNT[name][2])
    V = (totals * (1 - totals) * 0.05) if likelihood.needs_trials else (0.3 * totals) ** 2
    spread = np.full(len(T), 0.05)
    found = np.asarray(made.matched(LOWER, totals, V, link.matched, facts, p, spread))
    draws = link.total_law.from_moments(totals, V).sample(4000, 3)
    values = np.asarray(jax.jit(jax.vmap(lambda T: made.log_prob(LOWER, T, facts, p, spread)))(draws))
    error = values.std(axis=0) / np.sqrt(len(values))
    assert (np.abs(found - values.mean(axis=0)) < 4 * error + 1e-6).all()
    exact = UPPER == LOWER
    bare = {key: value for key, value in facts.items() if key not in ("lower", "upper")}
    of_exact = np.asarray(likelihood.matched(LOWER, totals, V, link.matched, bare, p, spread))
    np.testing.assert_array_equal(found[exact], of_exact[exact])


@pytest.mark.parametrize("name", ["negative_binomial", "normal"])
def test_bags_one_after_another_have_the_same_expectations(name, monkeypatch):
    _, p, _, totals, made, facts = case(name)
    law = get_link(LEARNT[name][2]).matched
    term = lambda M: jnp.sum(made.matched(LOWER, M, 0.1 * M**2, law, facts, p, SPREAD) * jnp.arange(1.0, 7.0))  # noqa: E731
    together = jax.value_and_grad(term)(totals)
    monkeypatch.setattr("vbagg.likelihoods.censored.ROOM", 4000)
    for one, other in zip(jax.value_and_grad(term)(totals), together, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


@pytest.mark.parametrize("name", LEARNT)
def test_information_is_that_of_the_output_less_that_of_its_place_inside(name):
    likelihood, p, facts, totals, made, with_bounds = case(name)
    found = np.asarray(made.fisher(totals, with_bounds, p))
    full = np.asarray(likelihood.fisher(totals, facts, p))
    assert (found >= 0).all()
    assert (found <= full).all()
    np.testing.assert_array_equal(found[UPPER == LOWER], full[UPPER == LOWER])
    if name in ("zero_inflated_poisson", "beta_binomial"):  # whose score is not that of a mean
        return
    for a in np.flatnonzero(UPPER > LOWER):
        own = {key: values[a] for key, values in facts.items()}
        lost = inside_variance(likelihood, own, p, totals[a], LOWER[a], UPPER[a])
        variance = float(likelihood.variance(totals[a], own, p))
        expected = full[a] * max(0.0, 1 - lost / variance)
        assert found[a] == pytest.approx(expected, rel=1e-3, abs=2e-4 * full[a]), LABELS[a]


def test_information_under_a_posterior_is_the_curvature_that_is_expected_there():
    """Of counts below a bound far above the mean: little there, much farther out; Poisson with an exp link is exact."""
    made, bounds = censored(Poisson(), np.array([0.0, 2.0]), np.array([4.0, 2.0]), LABELS[:2], {})
    mean, sd = np.log([0.4, 1.7]), np.array([1.3, 0.6])
    M = np.exp(mean + sd**2 / 2)
    V = M**2 * np.expm1(sd**2)
    near = np.exp(mean)
    found = np.asarray(made.information(near, M, V, get_link("exp"), bounds, {})) * near**2

    def log_of_interval(h):
        return logsumexp(stats.poisson.logpmf(np.arange(5.0), np.exp(h)))

    def curvature(h, step=1e-3):
        return -(log_of_interval(h + step) - 2 * log_of_interval(h) + log_of_interval(h - step)) / step**2

    expected = integrate.quad(lambda u: stats.norm.pdf(u) * curvature(mean[0] + sd[0] * u), -6, 6)[0]
    assert found[0] == pytest.approx(expected, rel=2e-3)
    assert found[0] > 100 * float(made.fisher(near, bounds, {})[0] * near[0] ** 2)
    assert found[1] == pytest.approx(near[1], rel=1e-12)


@pytest.mark.parametrize("name", LEARNT)
def test_information_under_a_narrow_posterior_is_that_at_its_mean(name):
    _, p, _, totals, made, facts = case(name)
    link = get_link(LEARNT[name][2])
    found = made.information(totals, totals, (1e-4 * totals) ** 2, link, facts, p, SPREAD)
    np.testing.assert_allclose(found, made.fisher(totals, facts, p, SPREAD), rtol=1e-3, atol=1e-6)


def inside_variance(likelihood, own, p, T, lower, upper):
    """Variance of an output that lies inside."""
    if likelihood.counts:
        y = np.arange(lower, min(upper, own.get("trials", 3000.0)) + 1)
        mass = np.exp(np.asarray(likelihood.log_prob(y, T, own, p)))
        mean = mass @ y / mass.sum()
        return mass @ (y - mean) ** 2 / mass.sum()
    end = min(upper, T + 60 * np.sqrt(float(likelihood.variance(T, own, p))))
    density = lambda y: float(np.exp(likelihood.log_prob(y, T, own, p)))  # noqa: E731
    m0, m1, m2 = (integrate.quad(lambda y, k=k: density(y) * y**k, lower, end)[0] for k in range(3))
    return m2 / m0 - (m1 / m0) ** 2


def test_an_interval_of_all_outputs_says_nothing():
    likelihood = NegativeBinomial()
    facts = {"lower": np.zeros(3), "upper": np.full(3, np.inf)}
    made, totals, p = Censored(likelihood, Terms(64, 4)), np.array([0.1, 4.0, 900.0]), {"dispersion": np.log(0.4)}
    law = get_link("exp").matched
    term = lambda M, V: made.matched(facts["lower"], M, V, law, facts, p, 0.1)  # noqa: E731
    np.testing.assert_allclose(term(totals, totals), 0.0, atol=1e-12)
    for slopes in jax.grad(lambda *moments: jnp.sum(term(*moments)), argnums=(0, 1))(totals, totals):
        np.testing.assert_allclose(slopes, 0.0, atol=1e-12)
    np.testing.assert_allclose(made.fisher(totals, facts, p, 0.1), 0.0, atol=1e-10)


def test_outputs_that_are_all_known_need_no_intervals():
    likelihood, _, facts, _, _, _ = case("negative_binomial")
    assert censored(likelihood, LOWER, LOWER, LABELS, facts) == (likelihood, {})


class Levels(Likelihood):
    """A likelihood of values that knows of no intervals."""

    name = "levels"
    links = ("identity",)

    def log_prob(self, y, T, facts, p, spread=0.0):
        return -jnp.abs(y - T)

    def variance(self, T, facts, p):
        return 2.0


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match=r"`upper` does not go with likelihood 'levels', whose probability"):
        censored(Levels(), LOWER, UPPER, LABELS, {})
    upper = UPPER.copy()
    upper[2] = 900.0
    with pytest.raises(ValueError, match=r"512 at most; got 898 of them for bag 'c': 3 to 900\. Narrow it"):
        censored(Poisson(), LOWER, upper, LABELS, {})
    with pytest.raises(ValueError, match=r"512 at most; got 2000 of them for bag 'd': 2000 to inf\."):
        censored(Poisson(), np.where(np.arange(6) == 3, 2000.0, LOWER), UPPER, LABELS, {})
    made = censored(Poisson(), LOWER, UPPER, LABELS, {})[0]
    for name in ("taylor", "bound"):
        with pytest.raises(ValueError, match=rf"`approximation`='{name}' does not go with `upper`: .* Use 'matched'"):
            made.check_approximation(name)


def test_all_else_is_that_of_the_outputs():
    likelihood, _, facts, _, made, with_bounds = case("negative_binomial")
    for name in ("name", "links", "counts", "outputs", "needs_trials", "individual_effect"):
        assert getattr(made, name) == getattr(likelihood, name)
    assert made.priors() == likelihood.priors()
    assert made.effect_spread({"dispersion": 0.4}) == 0.4
    assert made.without_effect({}) == Censored(Poisson(), made.terms)
    assert made.facts(None, None) == {}
    assert hash(made) == hash(censored(likelihood, LOWER, UPPER, LABELS, facts)[0])
    assert made == censored(NegativeBinomial(), LOWER, UPPER, LABELS, facts)[0]
    assert made.terms == Terms(64, 7)
    np.testing.assert_array_equal(with_bounds["upper"], UPPER)
    again = pickle.loads(pickle.dumps(made))
    assert (again, again.counts, again.name) == (made, True, "negative_binomial")
