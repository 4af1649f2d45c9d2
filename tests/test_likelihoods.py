import jax
import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

from vbagg import likelihoods
from vbagg.errors import DataWarning
from vbagg.likelihoods import (
    MATCHED_LAW,
    Binomial,
    Exponential,
    NegativeBinomial,
    Normal,
    Poisson,
    get_likelihood,
)

pytestmark = pytest.mark.usefixtures("x64")

DISPERSION, TAU = 0.7, 1.6
CASES = {
    "poisson": (Poisson(), {}),
    "normal": (Normal(), {"tau": np.log(TAU)}),
    "exponential": (Exponential(), {}),
    "negative_binomial": (NegativeBinomial(), {"dispersion": np.log(DISPERSION)}),
    "binomial": (Binomial(), {}),
}
TOTALS = {name: np.array([0.4, 3.0, 17.0]) for name in CASES} | {
    "normal": np.array([-1.5, 0.2, 6.0]),
    "binomial": np.array([0.03, 0.4, 0.75]),
}
AUX = {name: np.ones(3) for name in CASES} | {
    "normal": np.array([0.5, 2.0, 9.0]),
    "binomial": np.array([9.0, 6.0, 12.0]),
}
each_likelihood = pytest.mark.parametrize("name", CASES)


def reference(name, T, aux):
    """The output's law in scipy."""
    return {
        "poisson": lambda: stats.poisson(T),
        "normal": lambda: stats.norm(T, np.sqrt(TAU * aux)),
        "exponential": lambda: stats.expon(scale=T),
        "negative_binomial": lambda: stats.nbinom(1 / DISPERSION, 1 / (1 + DISPERSION * T)),
        "binomial": lambda: stats.binom(aux.astype(int), T),
    }[name]()


def log_mass(law, y):
    return law.logpmf(y) if hasattr(law.dist, "pmf") else law.logpdf(y)


@each_likelihood
@pytest.mark.parametrize("y", [[0.0, 0.0, 0.0], [1.0, 4.0, 11.0]])
def test_log_prob_is_scipys(name, y):
    likelihood, p = CASES[name]
    T, aux, y = TOTALS[name], AUX[name], np.array(y)
    expected = log_mass(reference(name, T, aux), y)
    np.testing.assert_allclose(likelihood.log_prob(y, T, aux, p), expected, rtol=1e-9)


def test_known_parameters_replace_learnt_ones():
    y, T, aux = np.array([1.0, 4.0]), np.array([2.0, 5.0]), np.array([0.5, 2.0])
    learnt = NegativeBinomial().log_prob(y, T, aux, {"dispersion": np.log(0.2)})
    np.testing.assert_allclose(NegativeBinomial(0.2).log_prob(y, T, aux, {}), learnt, rtol=1e-12)
    assert NegativeBinomial(0.2).start() == Normal(tau=3.0).start() == {}
    # the model multiplies a known tau into aux
    np.testing.assert_allclose(Normal(tau=3.0).log_prob(y, T, aux, {}), stats.norm(T, np.sqrt(aux)).logpdf(y))


@each_likelihood
def test_fisher_is_minus_the_expected_curvature(name):
    likelihood, p = CASES[name]
    T, aux = TOTALS[name], AUX[name]
    law = reference(name, T, aux)
    if hasattr(law.dist, "pmf"):
        y = np.tile(np.arange(600.0)[:, None], (1, 3))
        mass = law.pmf(y)
    else:
        nodes, weights = np.polynomial.legendre.leggauss(200)
        low, high = law.ppf(1e-14), law.isf(1e-14)
        y = low + (nodes[:, None] + 1) * (high - low) / 2
        mass = weights[:, None] * (high - low) / 2 * law.pdf(y)
    slope = jax.grad(lambda T: likelihood.log_prob(y, T, aux, p).sum())
    curvature = jax.jit(lambda T: jax.jvp(slope, (T,), (np.ones_like(y),))[1])(np.tile(T, (len(y), 1)))
    np.testing.assert_allclose(likelihood.fisher(T, aux, p), -(mass * curvature).sum(axis=0), rtol=1e-6)


def matched_law(kind, M, V):
    """The matched law with mean M and variance V in scipy."""
    if kind == "lognormal":
        spread = np.log1p(V / M**2)
        return stats.lognorm(np.sqrt(spread), scale=M * np.exp(-spread / 2))
    if kind == "gamma":
        return stats.gamma(M**2 / V, scale=V / M)
    if kind == "beta":
        size = M * (1 - M) / V - 1
        return stats.beta(M * size, (1 - M) * size)
    return stats.norm(M, np.sqrt(V))


def expectation(function, kind, law):
    """Trapezoid rule over the whole line, in log T, logit T or T itself."""
    if kind == "normal":
        u = T = law.mean() + law.std() * np.linspace(-12, 12, 2001)
        jacobian = np.ones_like(T)
    elif kind == "beta":
        u = np.linspace(-250, 36, 40_001)
        T, jacobian = expit(u), expit(u) * expit(-u)
    else:
        u = np.linspace(-90, 12, 20_001)
        T = jacobian = np.exp(u)
    return np.sum(np.asarray(function(T)) * law.pdf(T) * jacobian) * (u[1] - u[0])


@pytest.mark.parametrize("relative_spread", [0.05, 0.5, 1.3])
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("poisson", "gamma"),
        ("poisson", "lognormal"),
        ("negative_binomial", "gamma"),
        ("negative_binomial", "lognormal"),
        ("exponential", "lognormal"),
        ("normal", "normal"),
        ("binomial", "beta"),
    ],
)
def test_matched_expectation_is_the_quadrature_of_its_law(name, kind, relative_spread):
    likelihood, p = CASES[name]
    M, y, aux = TOTALS[name], np.array([2.0, 0.0, 11.0]), AUX[name]
    V = relative_spread**2 * (0.1 * M * (1 - M) if name == "binomial" else M**2)
    expected = [
        expectation(lambda T, a=a: likelihood.log_prob(y[a], T, aux[a], p), kind, matched_law(kind, M[a], V[a]))
        for a in range(3)
    ]
    np.testing.assert_allclose(likelihood.matched(y, M, V, kind, aux, p), expected, rtol=1e-6)


def test_matched_beta_stays_finite_where_the_variance_is_too_large():
    """First order may give a variance above `M (1 - M)`, which no law on the unit interval has."""
    value = Binomial().matched(np.array([1.0]), np.array([0.3]), np.array([0.5]), "beta", np.array([4.0]), {})
    assert np.isfinite(value).all()


@pytest.mark.parametrize("name", ["poisson", "negative_binomial", "exponential", "binomial"])
def test_matched_tends_to_the_log_density_without_variance(name):
    likelihood, p = CASES[name]
    M, y, aux = TOTALS[name], np.array([2.0, 0.0, 11.0]), AUX[name]
    for link in likelihood.links:
        value = likelihood.matched(y, M, 1e-10 * M**2, MATCHED_LAW[link], aux, p)
        np.testing.assert_allclose(value, likelihood.log_prob(y, M, aux, p), rtol=1e-6)


@each_likelihood
def test_simulated_outputs_have_the_likelihoods_moments(name, rng):
    likelihood, p = CASES[name]
    T, aux = TOTALS[name], AUX[name]
    learnt = {key: float(np.exp(value)) for key, value in p.items()}
    y = likelihood.simulate(np.tile(T, (40_000, 1)), aux, learnt, rng)
    mean, variance = reference(name, T, aux).stats("mv")
    assert (np.abs(y.mean(axis=0) - mean) < 5 * np.sqrt(variance / len(y))).all()
    np.testing.assert_allclose(y.var(axis=0), variance, rtol=0.12)


@pytest.mark.parametrize("name", ["poisson", "negative_binomial", "exponential", "normal", "binomial"])
def test_predictive_law_has_the_moments_of_simulated_outputs(name, rng):
    """MATH section 6, with totals drawn from the matched law."""
    likelihood, p = CASES[name]
    M, aux = TOTALS[name], AUX[name]
    V = 0.15 * M * (1 - M) if name == "binomial" else 0.5 * M**2
    learnt = {key: float(np.exp(value)) for key, value in p.items()}
    link = likelihood.links[0]
    law = likelihood.predictive(M, V, link, aux, learnt)
    T = np.stack(
        [matched_law(MATCHED_LAW[link], *pair).rvs(40_000, random_state=rng) for pair in zip(M, V, strict=True)]
    )
    y = likelihood.simulate(T.T, aux, learnt, rng)
    assert (np.abs(y.mean(axis=0) - law.mean) < 5 * law.std / np.sqrt(len(y))).all()
    np.testing.assert_allclose(y.std(axis=0), law.std, rtol=0.08)


@pytest.mark.parametrize(
    ("likelihood", "link", "reason"),
    [
        ("exponential", "square", r"E\[1/f\^2\] is infinite"),
        ("exponential", "identity", "cannot be negative"),
        ("exponential", "logistic", "not bounded by one"),
        ("poisson", "identity", "cannot be negative"),
        ("negative_binomial", "logistic", "not bounded by one"),
        ("binomial", "exp", "lies between zero and one"),
        ("binomial", "square", "lies between zero and one"),
        ("normal", "exp", "it works with 'identity'"),
    ],
)
def test_link_that_does_not_go_with_the_likelihood_is_refused_with_the_reason(likelihood, link, reason):
    with pytest.raises(ValueError, match=f"`link`='{link}' does not go with likelihood '{likelihood}': .*{reason}"):
        get_likelihood(likelihood).check_link(link)


def test_every_other_combination_is_accepted():
    for kind in likelihoods.LIKELIHOODS.values():
        for link in kind.links:
            kind().check_link(link)


def test_outputs_are_checked():
    labels = np.array(["D1", "D2", "D3"], dtype=object)
    with pytest.raises(ValueError, match=r"a count \(poisson\) must not be negative; got -2 for bag 'D2'"):
        Poisson().check_outputs(np.array([1.0, -2.0, 3.0]), labels, None)
    with pytest.warns(DataWarning, match=r"1 of 3 counts .*first: 2.5 for bag 'D3'"):
        Poisson().check_outputs(np.array([1.0, 2.0, 2.5]), labels, None)
    with pytest.raises(ValueError, match="an exponential output must not be negative"):
        Exponential().check_outputs(np.array([1.0, -2.0, 3.0]), labels, None)
    with pytest.raises(ValueError, match="needs `trials`"):
        Binomial().check_outputs(np.ones(3), labels, None)
    with pytest.raises(ValueError, match=r"got y=3, trials=2 for bag 'D3'"):
        Binomial().check_outputs(np.array([1.0, 2.0, 3.0]), labels, np.array([4.0, 2.0, 2.0]))
    Normal().check_outputs(np.array([-1.5, 0.0, 2.0]), labels, None)


def test_parameters_are_checked():
    with pytest.raises(ValueError, match="`dispersion` must be positive; got 0"):
        NegativeBinomial(dispersion=0.0)
    with pytest.raises(ValueError, match=r"`likelihood` must be one of 'poisson', .*; got 'gamma'"):
        get_likelihood("gamma")
    instance = NegativeBinomial(0.4)
    assert get_likelihood(instance) is instance
