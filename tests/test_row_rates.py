"""Compiled rates of rows against marginals by plain matrices, quadrature and SciPy's root finder."""

from __future__ import annotations

from dataclasses import replace

import jax
import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

import vbagg
from vbagg import row_rates
from vbagg.features import features, residual_diagonal
from vbagg.inference import Gaussian
from vbagg.kernels import RBF, White
from vbagg.row_rates import Members, Mixing, row_marginals, row_summary, summary_of_rows

LIKELIHOODS = {"square": "poisson", "exp": "poisson", "identity": "normal", "logistic": "binomial"}
LEVELS, SCALE = np.array([0.001, 0.4, 0.975]), 0.3
RATES = {"square": np.square, "exp": np.exp, "identity": lambda f: f, "logistic": lambda f: 1 / (1 + np.exp(-f))}


@pytest.fixture(scope="module", params=LIKELIHOODS)
def fitted(request):
    """A fit of each link with three members that differ."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(40, 2)) * [1.0, 30.0] + [2.0, -100.0]
    bags = vbagg.Bags(X, np.repeat(np.arange(8), 5), rng.uniform(0.5, 2.0, len(X)))
    y = rng.poisson(2.5 * bags.totals()).astype(float)
    trials = {"trials": y + 4} if request.param == "logistic" else {}
    smooth = RBF(variance=1.0, lengthscale=1.5, fixed=("variance", "lengthscale"))
    kernel = smooth + White(variance=0.1, fixed=("variance",))
    model = vbagg.VBAgg(LIKELIHOODS[request.param], request.param, kernel=kernel, landmarks=6, hyper="point")
    fitted = model.fit(bags, y, **trials)._fitted
    members = []
    for weight, more in ((0.2, 0.0), (0.5, 0.3), (0.3, -0.4)):
        one = fitted.optimum
        kernel = jax.tree.map(lambda value, more=more: np.asarray(value) + more, one.parameters.kernel)
        q = Gaussian(one.q.mu + more, one.q.factor * (1 + more))
        members.append(replace(one, weight=weight, parameters=replace(one.parameters, kernel=kernel), q=q))
    return replace(fitted, members=tuple(members))


def rows(n=7):
    return np.random.default_rng(8).normal(size=(n, 2)) * [1.0, 30.0] + [2.0, -100.0]


def plain_marginals(fitted, X):
    """Mean and variance (k, n) of `f` with whole products, member by member."""
    found = []
    for member in fitted.members:
        spec, basis, mu, factor = member.state
        A = features(spec.feature_map, basis, X)
        own = residual_diagonal(spec.feature_map, basis, X, A)
        A, own = np.asarray(A), np.asarray(own)
        found.append((fitted.frame.known(np.zeros(len(X))) + A @ mu, own + np.sum((A @ factor) ** 2, axis=1)))
    return tuple(np.array(part) for part in zip(*found, strict=True))


def stacked(fitted):
    return Members.of([member.state[1:] for member in fitted.members])


def mixing(fitted):
    weight = np.array([member.weight for member in fitted.members])
    return Mixing(weight, np.zeros(len(weight)), np.float64(SCALE))


def test_marginals_of_all_members(fitted, x64, monkeypatch):
    X = fitted.frame.rows(rows(11))
    known = fitted.frame.known(np.zeros(len(X)))
    expected = plain_marginals(fitted, X)
    for size in (2048, 4):
        monkeypatch.setattr(row_rates, "ROWS", size)
        found = row_marginals(fitted.spec, stacked(fitted), X, known)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-10)


def test_summary_from_features(fitted, x64):
    X, link = fitted.frame.rows(rows()), fitted.spec.link.name
    known = fitted.frame.known(np.zeros(len(X)))
    mean, variance = plain_marginals(fitted, X)
    mix, sd, rate = mixing(fitted), np.sqrt(variance), RATES[link]
    thresholds = SCALE * np.array([0.5, 0.9, -0.1])
    found = row_summary(fitted.spec, stacked(fitted), mix, X, known, LEVELS, thresholds)

    nodes, weights = np.polynomial.hermite_e.hermegauss(150)
    values = SCALE * rate(mean[..., None] + sd[..., None] * nodes)
    weights = mix.weight[:, None, None] * weights / weights.sum()
    expected = np.sum(weights * values, axis=(0, 2))
    np.testing.assert_allclose(found.mean, expected, rtol=1e-8)
    deviation = np.sqrt(np.sum(weights * (values - expected[:, None]) ** 2, axis=(0, 2)))
    np.testing.assert_allclose(found.std, deviation, rtol=1e-6)

    def above(x, i):
        """P(rate > x) of a row, on the scale of the rate."""
        f = {"square": np.sqrt, "exp": np.log, "logistic": lambda p: np.log(p / (1 - p))}.get(link, lambda f: f)(x)
        upper = norm.sf(f, mean[:, i], sd[:, i])
        if link == "square":
            upper = upper + norm.cdf(-f, mean[:, i], sd[:, i])
        return mix.weight @ upper

    ends = {"square": (1e-12, 1e3), "exp": (1e-9, 1e6), "identity": (-1e3, 1e3), "logistic": (1e-9, 1 - 1e-9)}[link]
    for i in range(len(X)):
        for level, quantile in zip(LEVELS, found.quantiles[:, i], strict=True):
            root = brentq(lambda x, i=i, level=level: above(x, i) - (1 - level), *ends, xtol=1e-15, rtol=1e-13)
            assert quantile == pytest.approx(SCALE * root, rel=1e-6)
        np.testing.assert_allclose(found.exceedances[:2, i], [above(x, i) for x in (0.5, 0.9)], rtol=1e-9)
        below_zero = above(-0.1, i) if link == "identity" else 1.0
        assert found.exceedances[2, i] == pytest.approx(below_zero, rel=1e-9)


@pytest.mark.parametrize("smooth", [False, True])
def test_summaries_compiled_as_a_whole_are_those_of_the_law(fitted, monkeypatch, smooth):
    asked = []
    original = row_rates.row_summary
    monkeypatch.setattr("vbagg.models.fitted.row_summary", lambda *given: asked.append(1) or original(*given))
    typical = float(np.median(fitted.posterior(rows(), None, smooth).mean))
    by_law = fitted.posterior(rows(), None, smooth).summary(LEVELS, [typical])
    assert not asked
    monkeypatch.setattr(row_rates, "MANY", 1)
    compiled = fitted.posterior(rows(), None, smooth)
    found = compiled.summary(LEVELS, [typical])
    assert asked
    assert "law" not in vars(compiled)
    for name in ("mean", "std", "quantiles", "exceedances"):
        one, other = getattr(found, name), getattr(by_law, name)
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=1e-8)
    compiled.law  # noqa: B018
    np.testing.assert_array_equal(compiled.summary(LEVELS).quantiles, compiled.quantile(LEVELS))
    assert len(asked) == 1


def test_levels_are_checked(fitted):
    with pytest.raises(ValueError, match="`levels` must lie strictly between 0 and 1; got 90"):
        fitted.posterior(rows(), None).summary([90])


def test_nothing_goes_through_the_host(fitted, x64):
    """All inputs on the device: no transfer either way, no callback, also inside another compiled function."""
    X = fitted.frame.rows(rows(16))
    given = jax.device_put((stacked(fitted), mixing(fitted), X, np.zeros(len(X)), LEVELS, np.array([0.2])))
    whole = jax.jit(lambda *given: summary_of_rows(fitted.spec, False, *given))
    with jax.transfer_guard("disallow"):
        found = jax.block_until_ready(whole(*given))
    expected = row_summary(fitted.spec, *given[:2], X, np.zeros(len(X)), LEVELS, np.array([0.2]))
    np.testing.assert_allclose(found[2], expected.quantiles, rtol=1e-12)
    text = str(jax.make_jaxpr(whole)(*given))
    assert "callback" not in text
    assert "while" in text
    assert "callback" not in whole.lower(*given).as_text()


def test_features_may_be_given_up(fitted, x64):
    """Rows whose memory the compiled function may use."""
    X = fitted.frame.rows(rows(16))
    members, mix, levels = jax.device_put((stacked(fitted), mixing(fitted), LEVELS))

    def means(X, known):
        return summary_of_rows(fitted.spec, False, members, mix, X, known, levels, levels)[0]

    expected = means(X, np.zeros(len(X)))
    found = jax.jit(means, donate_argnums=1)(jax.device_put(X), jax.device_put(np.zeros(len(X))))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_no_rows(fitted, x64):
    mean, variance = row_marginals(fitted.spec, stacked(fitted), np.empty((0, 2)), np.empty(0))
    assert mean.shape == variance.shape == (3, 0)
