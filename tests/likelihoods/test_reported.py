"""Outputs that are reported in part, of people whose number is uncertain: densities, expectations, information."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

from vbagg.likelihoods import (
    Binomial,
    Exponential,
    NegativeBinomial,
    Normal,
    Poisson,
    Reported,
    ZeroInflatedPoisson,
)
from vbagg.likelihoods.base import Lemma1
from vbagg.likelihoods.censored import censored
from vbagg.likelihoods.reported import reported
from vbagg.links import get_link

pytestmark = pytest.mark.usefixtures("x64")
Y = np.array([3.0, 1.0, 9.0, 2.0, 24.0])
T = np.array([5.3, 4.0, 7.8, 3.1, 55.0])
C = np.array([0.7, 0.35, 0.92, 0.5, 0.81])
RHO = np.array([0.04, 0.16, 0.3, 0.09, 0.02])
SPREAD = np.array([0.05, 0.3, 0.8, 0.02, 0.2])
LABELS = np.array(list("abcde"), object)
TOLD = {"completeness": C, "exposure_spread": RHO}
LEARNT = {
    "poisson": (Poisson(), {}, "exp"),
    "negative_binomial": (NegativeBinomial(), {"dispersion": np.log(0.4)}, "exp"),
    "zero_inflated_poisson": (ZeroInflatedPoisson(), {"zero_odds": np.log(0.3)}, "exp"),
    "normal": (Normal(), {"tau": np.log(0.7)}, "identity"),
    "exponential": (Exponential(), {}, "exp"),
}
OWN = {"normal": {"tau_factor": np.array([1.5, 2.0, 3.0, 7.0, 1.0])}}


def case(name, told=TOLD):
    likelihood, p, link = LEARNT[name]
    facts = OWN.get(name, {})
    return likelihood, reported(likelihood, told), p, facts, facts | told, get_link(link)


def moments(made, a, facts, p, T, spread=0.0):
    """Mean and variance of an output by its density."""
    own = {key: values[a] for key, values in facts.items()}
    density = lambda y: np.exp(np.asarray(made.log_prob(y, T, own, p, spread)))  # noqa: E731
    if made.counts:
        y = np.arange(20_000.0)
        mass = density(y)
        assert mass.sum() == pytest.approx(1.0, abs=1e-8)
        mean = mass @ y
        return mean, mass @ (y - mean) ** 2
    least = 0.0 if made.name == "exponential" else -np.inf
    m0, m1, m2 = (
        integrate.quad(lambda y, k=k: float(density(y)) * y**k, least, np.inf, limit=400)[0] for k in range(3)
    )
    assert m0 == pytest.approx(1.0, abs=1e-7)
    return m1, m2 - m1**2


@pytest.mark.parametrize("name", LEARNT)
def test_moments_of_outputs_are_those_of_the_total_times_share_and_error(name):
    likelihood, made, p, facts, known, _ = case(name)
    found = np.asarray(made.mean(T, known, p)), np.asarray(made.variance(T, known, p))
    for a in range(len(T)):
        own = {key: values[a] for key, values in facts.items()}
        # by nodes of E, whatever its distribution: only two moments matter
        error = stats.gamma(1 / RHO[a], scale=RHO[a])
        nodes = error.ppf((np.arange(40_000) + 0.5) / 40_000)
        means = np.asarray(likelihood.mean(C[a] * nodes * T[a], own, p))
        variances = np.asarray(likelihood.variance(C[a] * nodes * T[a], own, p))
        expected = means.mean(), np.mean(variances) + means.var()
        by_density = moments(made, a, known, p, T[a])
        assert found[0][a] == pytest.approx(expected[0], rel=1e-4)
        assert found[1][a] == pytest.approx(expected[1], rel=1e-3)
        assert by_density == pytest.approx((found[0][a], found[1][a]), rel=1e-5)


@pytest.mark.parametrize("name", LEARNT)
def test_spread_and_error_multiply(name):
    """The total given the weights varies by the spread; then by the error."""
    likelihood, made, p, facts, known, _ = case(name)
    for a in (0, 2):
        mean, variance = moments(made, a, known, p, T[a], SPREAD[a])
        varied = T[a] ** 2 * SPREAD[a] if name != "normal" else SPREAD[a]
        whole = C[a] ** 2 * (varied * (1 + RHO[a]) + RHO[a] * T[a] ** 2)
        own = {key: values[a] for key, values in facts.items()}
        # variance at the mean, its curvature times that of the total, and the slope of the mean
        none, once, twice = (float(likelihood.variance(k * C[a] * T[a], own, p)) for k in (0.0, 1.0, 2.0))
        bent = (twice - 2 * once + none) / 2 / (C[a] * T[a]) ** 2
        slope = float(likelihood.mean(C[a] * T[a], own, p)) / (C[a] * T[a])
        assert mean == pytest.approx(slope * C[a] * T[a], rel=1e-6)
        assert variance == pytest.approx(once + bent * whole + slope**2 * whole, rel=1e-5)


def test_a_thinned_poisson_among_uncertain_people_is_a_negative_binomial():
    _, made, p, _, known, _ = case("poisson")
    found = np.asarray(made.log_prob(Y, T, known, p))
    for a in range(len(T)):
        error = stats.gamma(1 / RHO[a], scale=RHO[a])
        density = lambda e, a=a, error=error: stats.poisson.pmf(Y[a], C[a] * T[a] * e) * error.pdf(e)  # noqa: E731
        assert np.exp(found[a]) == pytest.approx(integrate.quad(density, 0, np.inf)[0], rel=1e-7)


@pytest.mark.parametrize("told", [TOLD, {"completeness": C}, {"exposure_spread": RHO}])
@pytest.mark.parametrize("name", LEARNT)
def test_expectations_against_averages_of_the_density(name, told):
    _, made, p, _, known, link = case(name, told)
    V = (0.3 * T) ** 2
    found = np.asarray(made.matched(Y, T, V, link.matched, known, p, SPREAD))
    law = link.total_law.from_moments(T, V)
    draws = law.quantile((np.arange(4000) + 0.5) / 4000)
    values = np.asarray(jax.vmap(lambda T: made.log_prob(Y, T, known, p, SPREAD))(draws))
    np.testing.assert_allclose(found, values.mean(axis=0), rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("name", LEARNT)
def test_information_is_squared_slope_over_variance(name):
    _, made, p, _, known, _ = case(name)
    found = np.asarray(made.fisher(T, known, p, SPREAD))
    for a in range(len(T)):
        _, variance = moments(made, a, known, p, T[a], SPREAD[a])
        slope = float(made.mean(T[a], {key: values[a] for key, values in known.items()}, p)) / T[a]
        # the variance on average over the spread is a little more than that at the mean
        assert 1.0 - 1e-9 <= found[a] * variance / slope**2 < (1 + SPREAD[a]) * (1 + RHO[a])


@pytest.mark.parametrize("name", LEARNT)
def test_slopes_by_finite_differences(name):
    _, made, p, _, known, link = case(name)
    term = lambda T: jnp.sum(made.matched(Y, T, 0.1 * T**2, link.matched, known, p, SPREAD))  # noqa: E731
    slopes = jax.grad(term)(T)
    for a in range(len(T)):
        step = np.eye(len(T))[a] * 1e-5
        assert slopes[a] == pytest.approx(float(term(T + step) - term(T - step)) / 2e-5, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("name", ["poisson", "exponential"])
def test_bounds_are_those_of_totals_times_the_share(name):
    likelihood, made, p, facts, known, _ = case(name, {"completeness": C})
    lower = Lemma1(log_total=np.log(T) - 0.1, reciprocal=1.1 / T)
    shrunk = Lemma1(log_total=np.log(C * T) - 0.1, reciprocal=1.1 / (C * T))
    np.testing.assert_allclose(
        made.bound(Y, T, lower, known, p), likelihood.bound(Y, C * T, shrunk, facts, p), rtol=1e-12
    )
    assert made.bounds == likelihood.bounds


@pytest.mark.parametrize("name", ["poisson", "negative_binomial", "zero_inflated_poisson"])
def test_intervals_of_what_is_reported_are_sums_of_its_density(name):
    _, made, p, _, known, link = case(name)
    lower, upper = np.array([0.0, 1.0, 3.0, 2.0, 20.0]), np.array([4.0, 1.0, 9.0, np.inf, 60.0])
    within, bounds = censored(made, lower, upper, LABELS, known)
    both = known | bounds
    found = np.asarray(within.log_prob(lower, T, both, p, SPREAD))
    for a in range(len(T)):
        own = {key: values[a] for key, values in known.items()}
        y = np.arange(lower[a], min(upper[a], 6000.0) + 1)
        mass = np.exp(np.asarray(made.log_prob(y, T[a], own, p, SPREAD[a])))
        assert found[a] == pytest.approx(np.log(mass.sum()), rel=1e-6)
    assert (np.asarray(within.fisher(T, both, p)) <= np.asarray(made.fisher(T, known, p)) + 1e-12).all()
    assert np.isfinite(within.matched(lower, T, 0.1 * T**2, link.matched, both, p, SPREAD)).all()
    assert within.without_effect({"dispersion": 0.4}).of.uncertain


@pytest.mark.parametrize("name", ["normal", "exponential"])
def test_intervals_of_values_are_integrals_of_the_density(name):
    _, made, p, _, known, _ = case(name)
    lower, upper = np.array([0.5, 1.0, 3.0, 2.0, 20.0]), np.array([4.0, 1.7, 9.0, np.inf, 60.0])
    within, bounds = censored(made, lower, upper, LABELS, known)
    found = np.asarray(within.log_prob(lower, T, known | bounds, p, SPREAD))
    for a in range(len(T)):
        own = {key: values[a] for key, values in known.items()}
        density = lambda y, own=own, a=a: float(np.exp(made.log_prob(y, T[a], own, p, SPREAD[a])))  # noqa: E731
        assert np.exp(found[a]) == pytest.approx(integrate.quad(density, lower[a], upper[a])[0], rel=1e-6)


@pytest.mark.parametrize("name", LEARNT)
def test_simulated_outputs_and_predictive_laws_have_the_same_moments(name):
    _, made, p, _, known, link = case(name)
    learnt = {key: float(np.exp(value)) for key, value in p.items()}
    total = link.total_law.from_moments(T, (0.25 * T) ** 2)
    law = made.predictive(total, known, learnt)
    rng = np.random.default_rng(3)
    n = 4_000 if name == "zero_inflated_poisson" else 200_000
    drawn = made.simulate(total.sample(n, 5), known, learnt, rng)
    error = drawn.std(axis=0) / np.sqrt(n)
    assert (np.abs(drawn.mean(axis=0) - law.mean) < 4 * error).all()
    np.testing.assert_allclose(drawn.std(axis=0), law.std, rtol=0.1 if n < 10_000 else 0.02)
    np.testing.assert_allclose(law.mean, C * made.of.mean(T, known, p), rtol=1e-6)
    assert (np.diff(law.quantile([0.05, 0.5, 0.95]), axis=0) > 0).all()


def test_predictive_laws_of_counts_are_averages_of_their_density():
    _, made, p, _, known, link = case("negative_binomial")
    total = link.total_law.from_moments(T, (0.25 * T) ** 2)
    law, y = made.predictive(total, known, {"dispersion": 0.4}), np.array([0.0, 4.0, 11.0, 2.0, 60.0])
    draws = total.quantile((np.arange(20_000) + 0.5) / 20_000)
    density = np.exp(np.asarray(jax.vmap(lambda T: made.log_prob(y, T, known, p))(draws))).mean(axis=0)
    np.testing.assert_allclose(np.exp(law.log_prob(y)), density, rtol=1e-4)


def test_shares_alone_leave_the_law_of_the_outputs_what_it_is():
    likelihood, made, _, _, known, link = case("negative_binomial", {"completeness": C})
    found = made.predictive(link.total_law.from_moments(T, 0.2 * T**2), known, {"dispersion": 0.4})
    own = likelihood.predictive(link.total_law.from_moments(C * T, 0.2 * (C * T) ** 2), {}, {"dispersion": 0.4})
    assert type(found) is type(own)
    np.testing.assert_allclose(found.log_prob(Y), own.log_prob(Y), rtol=1e-12)


def test_bags_of_which_nothing_is_told_are_as_they_were():
    likelihood, p, _ = LEARNT["negative_binomial"]
    made = Reported(likelihood, True)
    one, none = {"completeness": np.ones(5), "exposure_spread": np.zeros(5)}, {}
    for facts in (one, none):
        np.testing.assert_array_equal(made.log_prob(Y, T, facts, p, SPREAD), likelihood.log_prob(Y, T, {}, p, SPREAD))
        np.testing.assert_allclose(made.fisher(T, facts, p, SPREAD), likelihood.fisher(T, {}, p, SPREAD), rtol=1e-14)
    assert reported(likelihood, {}) is likelihood


def test_all_else_is_that_of_the_outputs():
    likelihood, made, _, _, known, _ = case("negative_binomial")
    for name in ("name", "links", "counts", "outputs", "individual_effect", "relative_spread"):
        assert getattr(made, name) == getattr(likelihood, name)
    assert made.priors() == likelihood.priors()
    assert made.effect_spread({"dispersion": 0.4}) == 0.4
    assert made.without_effect({}) == Reported(Poisson(), True)
    assert hash(made) == hash(reported(NegativeBinomial(), TOLD))
    again = pickle.loads(pickle.dumps(made))
    assert (again, again.counts, again.exact) == (made, True, False)
    assert reported(Normal(), {"completeness": C}).exact
    assert not reported(Normal(), TOLD).exact
    within, _ = censored(reported(likelihood, {"completeness": C}), Y, Y + 2, LABELS, known)
    assert reported(within, TOLD).of == Reported(likelihood, True)


def test_what_cannot_be_is_refused():
    for told, reason in (({"completeness": C}, "positives among those"), ({"exposure_spread": RHO}, "the number")):
        with pytest.raises(ValueError, match=rf"does not go with likelihood 'binomial': {reason}.* Leave it out\."):
            reported(Binomial(), told)
    with pytest.raises(ValueError, match=r"'bound' does not go with `weight_sd`: .* Use 'match"):
        reported(Poisson(), TOLD).check_approximation("bound")
    reported(Poisson(), {"completeness": C}).check_approximation("bound")
