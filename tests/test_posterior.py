"""Posteriors of individuals and bags against an independent NumPy model, Monte Carlo and identities.

The posterior of the weights is made up, so that every entry of `mu` and `Sigma` counts and no fit is needed.
"""

from __future__ import annotations

import jax
import numpy as np
import pytest
from scipy import integrate

import vbagg
from vbagg import kernels
from vbagg.chunks import make_chunks
from vbagg.inference import Fit, Gaussian, Inference, Status
from vbagg.links import get_link
from vbagg.models import fitted

CASES = {
    "square": "poisson",
    "exp": "poisson",
    "identity": "normal",
    "logistic": "binomial",
}
EVERY_TRIAL = ("binomial", "beta_binomial")
OUTPUTS = [
    ("poisson", "square"),
    ("poisson", "exp"),
    ("negative_binomial", "square"),
    ("negative_binomial", "exp"),
    ("normal", "identity"),
    ("exponential", "exp"),
    ("binomial", "logistic"),
    ("beta_binomial", "logistic"),
    ("zero_inflated_poisson", "exp"),
    ("zero_inflated_poisson", "square"),
]
LENGTHSCALE = 1.5
FIXED = kernels.RBF(variance=1.0, lengthscale=LENGTHSCALE, fixed=("variance", "lengthscale"))
N_BAGS, SIZE = 12, 5
TRIALS = np.arange(N_BAGS) + 4.0


class Arbitrary(Inference):
    """The start with a made-up posterior of the weights."""

    def run(self, task):
        start = jax.tree.map(np.asarray, task.starts[0])
        q = Gaussian(*made_up_weights(task.problem.n_features))
        jitter, status = (1e-8,) * len(start.kernel), Status(True, "Not a fit.", 0, 0)
        return Fit(parameters=start, q=q, posterior=q, elbo=0.0, objective=0.0, jitter=jitter, status=status)


def made_up_weights(m):
    """Mean and factor of the covariance of `m` weights."""
    rng = np.random.default_rng(5)
    factor = np.tril(rng.normal(0.0, 0.1, (m, m)), -1) + np.diag(np.linspace(0.3, 0.6, m))
    factor[0, 0] = 0.1
    return rng.normal(0.0, 0.4, m) * np.linspace(0.2, 1.0, m), factor


def toy(first_label=500):
    """Rows, weights, bags of them, and outputs; the bags are those of training if their labels begin at 100."""
    rng = np.random.default_rng(11)
    X = rng.normal(size=(N_BAGS * SIZE, 2)) * [1.0, 40.0] + [3.0, -200.0]
    weight = rng.uniform(0.5, 2.0, len(X))
    bags = vbagg.Bags(X, np.repeat(np.arange(N_BAGS) + first_label, SIZE), weight)
    y = np.random.default_rng(12).poisson(2.5 * bags.totals()).astype(float)
    return X, weight, bags, y


def made_up(likelihood, link, **options):
    _, _, bags, y = toy(first_label=100)
    trials = y + TRIALS if likelihood in EVERY_TRIAL else None
    options = {"kernel": FIXED, "landmarks": 6, "inference": Arbitrary(), "hyper": "point"} | options
    return vbagg.VBAgg(likelihood, link, **options).fit(bags, y, trials=trials)


@pytest.fixture(scope="module", params=CASES)
def link_model(request):
    """A model for each link."""
    return made_up(CASES[request.param], request.param)


@pytest.fixture(scope="module", params=OUTPUTS, ids="-".join)
def model(request):
    """A model for each likelihood and link."""
    return made_up(*request.param)


class Reference:
    """The sparse posterior of MATH (2), (3) in plain NumPy, in the units of the rate."""

    def __init__(self, model):
        X, weight, _, y = toy()
        total = weight.reshape(N_BAGS, SIZE).sum(axis=1)
        share = (weight / np.repeat(total, SIZE)) / N_BAGS
        self.centre = share @ X
        self.scale = np.sqrt(share @ (X - self.centre) ** 2)
        self.link, self.mean_sd = model.link, get_link(model.link).mean_sd
        self.Z = (model.landmarks_[0] - self.centre) / self.scale
        self.mu, self.factor = made_up_weights(1 + len(self.Z))
        if self.link == "identity":
            rate = total @ y / (total @ total)
            self.unit = np.sqrt(np.mean((y / total - rate) ** 2))
            self.base = rate / self.unit
        elif self.link == "logistic":
            p = (y.sum() + 0.5) / ((y + TRIALS).sum() + 1)
            self.unit, self.base = 1.0, np.log(p / (1 - p))
        else:
            self.unit = y.sum() / total.sum()
            self.base = 1.0 if self.link == "square" else 0.0

    def residual(self, X):
        """`R` of MATH (2) and the features `A`."""
        X = (X - self.centre) / self.scale
        L = np.linalg.cholesky(_rbf(self.Z, self.Z) + 1e-8 * np.eye(len(self.Z)))
        A = np.linalg.solve(L, _rbf(self.Z, X)).T
        return _rbf(X, X) - A @ A.T, np.column_stack([np.full(len(X), self.mean_sd), A])

    def latent(self, X):
        """Mean and covariance of `f` at the rows."""
        R, A = self.residual(X)
        return self.base + A @ self.mu, R + A @ self.factor @ self.factor.T @ A.T

    def rate(self, f):
        psi = {
            "square": np.square,
            "exp": np.exp,
            "identity": np.copy,
            "logistic": lambda f: 1 / (1 + np.exp(-f)),
        }
        return self.unit * psi[self.link](f)

    def moments(self, X, offset=0.0):
        """Mean and standard deviation of the rate of each row, by quadrature."""
        mean, S = self.latent(X)
        nodes, weights = np.polynomial.hermite_e.hermegauss(80)
        rates = self.rate((mean + offset)[:, None] + np.sqrt(np.diag(S))[:, None] * nodes)
        weights = weights / weights.sum()
        first = rates @ weights
        return first, np.sqrt((rates - first[:, None]) ** 2 @ weights)


def _rbf(X1, X2):
    return np.exp(-0.5 * np.sum((X1[:, None] - X2) ** 2, axis=-1) / LENGTHSCALE**2)


def new_rows():
    """Rows in pairs of near neighbours, some far from the data."""
    rows = np.array([[2.8, -210.0], [2.9, -205.0], [5.5, -120.0], [5.6, -118.0], [0.5, -300.0], [9.0, 0.0]])
    return rows


def assert_moments(draws, mean, std, slack=0.0):
    """Mean and sd of draws (n, rows) within five standard errors, plus a relative slack for the sd."""
    n = len(draws)
    error = draws.std(axis=0) / np.sqrt(n)
    assert np.all(np.abs(draws.mean(axis=0) - mean) < 5 * error + 1e-5 * np.abs(mean))
    centred = draws - draws.mean(axis=0)
    variance = np.mean(centred**2, axis=0)
    error = np.sqrt((np.mean(centred**4, axis=0) - variance**2) / n)
    assert np.all(np.abs(variance - std**2) < 5 * error + (1e-4 + 2 * slack) * std**2)


# Individuals


def test_moments_of_a_rate(link_model):
    X = new_rows()
    mean, std = Reference(link_model).moments(X)
    post = link_model.posterior(X)
    np.testing.assert_allclose(post.mean, mean, rtol=1e-6)
    np.testing.assert_allclose(post.std, std, rtol=1e-5)
    assert len(post) == len(X)


def test_law_of_a_rate_against_its_draws(link_model):
    X, n = new_rows(), 40_000
    post = link_model.posterior(X)
    draws = post.sample(n, seed=3)
    assert draws.shape == (n, len(X))
    assert_moments(draws, post.mean, post.std)
    levels = np.array([0.05, 0.3, 0.5, 0.9, 0.99])
    quantiles = post.quantile(levels)
    assert quantiles.shape == (len(levels), len(X))
    np.testing.assert_array_equal(post.quantile(0.3), quantiles[1])
    below = np.mean(draws[:, None] <= quantiles, axis=0)
    assert np.all(np.abs(below - levels[:, None]) < 5 * np.sqrt(levels * (1 - levels) / n)[:, None])
    lower, upper = post.interval(0.8)
    inside = np.mean((draws >= lower) & (draws <= upper), axis=0)
    np.testing.assert_allclose(inside, 0.8, atol=5 * np.sqrt(0.8 * 0.2 / n))
    threshold = 1.1 * post.mean
    above = post.exceedance(threshold)
    np.testing.assert_allclose(above, np.mean(draws > threshold, axis=0), atol=5 * 0.5 / np.sqrt(n))
    np.testing.assert_allclose(post.cdf(threshold), 1 - above, atol=1e-9)
    np.testing.assert_allclose(post.exceedance(np.median(draws)), np.mean(draws > np.median(draws), axis=0), atol=0.02)


@pytest.mark.parametrize("link", ["identity", "exp"])
def test_joint_draws_have_the_covariance_of_the_latent_function(link):
    model, n = made_up(CASES[link], link), 40_000
    reference, X = Reference(model), new_rows()
    mean, S = reference.latent(X)
    draws = model.posterior(X).sample(n, seed=8) / reference.unit
    f = draws if link == "identity" else np.log(draws)
    error = np.sqrt((np.outer(np.diag(S), np.diag(S)) + S**2) / n)
    assert np.all(np.abs(np.cov(f.T) - S) < 5 * error)
    assert np.all(np.abs(f.mean(axis=0) - mean) < 5 * np.sqrt(np.diag(S) / n))
    # the residual's share matters here: independent residuals would miss by far
    R, _ = reference.residual(X)
    assert np.abs(R[4, 5]) < 0.2
    assert R[2, 3] > 20 * error[2, 3]


@pytest.mark.parametrize("joint", [1, 2, 4])
def test_joint_draws_of_few_rows_at_a_time(joint):
    model, n = made_up("normal", "identity"), 40_000
    reference, X = Reference(model), new_rows()[:7]
    mean, S = reference.latent(X)
    R, _ = reference.residual(X)
    block = np.arange(len(X)) // joint
    S = S - np.where(block[:, None] == block, 0.0, R)
    f = model.posterior(X).sample(n, seed=8, joint=joint) / reference.unit
    error = np.sqrt((np.outer(np.diag(S), np.diag(S)) + S**2) / n)
    assert np.all(np.abs(np.cov(f.T) - S) < 5 * error)
    assert np.all(np.abs(f.mean(axis=0) - mean) < 5 * np.sqrt(np.diag(S) / n))
    if joint == 2:  # rows that belong together, and one that is in the next block
        assert R[2, 3] > 20 * error[2, 3]
        assert np.abs(R[1, 2]) > 10 * error[1, 2]


def test_as_many_rows_at_a_time_as_there_are_change_nothing():
    post = made_up("poisson", "exp").posterior(new_rows())
    np.testing.assert_allclose(post.sample(5, seed=1, joint=len(post)), post.sample(5, seed=1), rtol=1e-10)
    for joint in (0, 1025):
        with pytest.raises(ValueError, match=f"`joint` must be from 1 to 1024 rows; got {joint}"):
            post.sample(5, joint=joint)


def test_draws_follow_their_seed():
    model, X = made_up("normal", "identity"), new_rows()
    post = model.posterior(X)
    np.testing.assert_array_equal(post.sample(7, seed=2), post.sample(7, seed=2))
    assert np.all(post.sample(7, seed=2) != post.sample(7, seed=3))
    bag_post = model.posterior_bags(toy()[2])
    np.testing.assert_array_equal(bag_post.sample(7, seed=2), bag_post.sample(7, seed=2))
    assert np.all(bag_post.sample(7, seed=2) != bag_post.sample(7, seed=3))
    many = bag_post.sample(150, seed=2)
    np.testing.assert_array_equal(many[:7], bag_post.sample(7, seed=2))
    assert len(np.unique(many[:, 0])) == 150
    with pytest.raises(ValueError, match=r"`n` must be at least 1; got 0\."):
        post.sample(0)


def test_chunks_of_rows_do_not_show():
    model = made_up("poisson", "exp")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(10_003, 2)) * [1.5, 60.0] + [3.0, -200.0]
    offset = rng.normal(size=len(X))
    post = model.posterior(X, offset)
    for row in (0, 1, 4097, 8191, 8192, 10_002):
        alone = model.posterior(X[[row]], offset[[row]])
        np.testing.assert_allclose(post.mean[row], alone.mean[0], rtol=1e-12)
        np.testing.assert_allclose(post.std[row], alone.std[0], rtol=1e-10)
    draws = model.posterior(X[:1030], offset[:1030]).sample(400, seed=1)
    picked = [0, 1023, 1024, 1029]
    assert_moments(draws[:, picked], post.mean[picked], post.std[picked])


# Bags


def aggregated(model, n=20_000):
    """Draws of individuals, added up by weight: of all bags at once (n, b)."""
    X, weight, _, _ = toy()
    if model.link == "logistic":
        weight = weight / np.repeat(weight.reshape(N_BAGS, SIZE).sum(axis=1), SIZE)
    draws = model.posterior(X).sample(n, seed=4)
    return (draws * weight).reshape(n, N_BAGS, SIZE).sum(axis=2)


def test_bag_totals_are_weighted_sums_of_individuals(link_model):
    post = link_model.posterior_bags(toy()[2])
    # the logistic link's variance is of first order
    assert_moments(aggregated(link_model), post.mean, post.std, slack=0.03 * (link_model.link == "logistic"))


def test_law_of_a_total_against_draws_of_totals(link_model):
    n = 20_000
    post = link_model.posterior_bags(toy()[2])
    draws = post.sample(n, seed=6)
    assert draws.shape == (n, N_BAGS)
    assert_moments(draws, post.mean, post.std, slack=0.03 * (link_model.link == "logistic"))
    levels = np.array([0.05, 0.5, 0.95])
    assert post.quantile(levels).shape == (3, N_BAGS)
    below = np.mean(draws[:, None] <= post.quantile(levels), axis=0)
    # the matched law is an approximation except for the identity link
    slack = 0.0 if link_model.link == "identity" else 0.02
    assert np.all(np.abs(below - levels[:, None]) < 5 * np.sqrt(levels * (1 - levels) / n)[:, None] + slack)


def bag_reference(model):
    """Moments of the totals of the identity link: means, and covariances with and without the residual."""
    X, weight, _, _ = toy()
    reference = Reference(model)
    mean, S = reference.latent(X)
    R, _ = reference.residual(X)
    W = np.zeros((N_BAGS, len(X)))
    W[np.repeat(np.arange(N_BAGS), SIZE), np.arange(len(X))] = weight * reference.unit
    return W @ mean, W @ S @ W.T, W @ R @ W.T


def test_covariance_of_bags_is_exact_for_the_identity_but_for_residuals_between_bags():
    model = made_up("normal", "identity")
    mean, full, residual = bag_reference(model)
    post = model.posterior_bags(toy()[2])
    expected = full - residual + np.diag(np.diag(residual))
    np.testing.assert_allclose(post.mean, mean, rtol=1e-5)
    np.testing.assert_allclose(post.covariance(), expected, rtol=2e-4, atol=2e-5 * expected.max())
    np.testing.assert_allclose(np.sqrt(np.diag(post.covariance())), post.std, rtol=1e-12)


@pytest.mark.parametrize("one_by_one", [False, True])
def test_draws_of_bags_share_the_weights_and_nothing_else(one_by_one, monkeypatch):
    """Whatever the number of chunks: here one, or one for each bag."""
    n = 20_000
    model = made_up("normal", "identity")
    if one_by_one:
        split = lambda *args, **options: make_chunks(*args, **options | {"max_elements": 1.0})  # noqa: E731
        monkeypatch.setattr(vbagg.models.predicted, "make_chunks", split)
    post = model.posterior_bags(toy()[2])
    expected = post.covariance()
    error = np.sqrt((np.outer(np.diag(expected), np.diag(expected)) + expected**2) / n)
    assert np.all(np.abs(np.cov(post.sample(n, seed=2).T) - expected) < 5 * error)


@pytest.mark.parametrize(("link", "off"), [("exp", 0.07), ("square", 0.12)])
def test_covariance_of_bags_is_near_that_of_joint_draws(link, off):
    """Totals whose sd is half their mean; as correlations."""
    model = made_up("poisson", link)
    post = model.posterior_bags(toy()[2])
    sampled = np.cov(post.sample(20_000, seed=2).T)
    scale = np.sqrt(np.outer(np.diag(sampled), np.diag(sampled)))
    np.testing.assert_allclose(post.covariance() / scale, sampled / scale, atol=off)
    assert np.abs((sampled / scale)[~np.eye(N_BAGS, dtype=bool)]).max() > 0.3


def test_a_merged_bag_has_the_variance_of_its_parts():
    X, weight, bags, _ = toy()
    merged = vbagg.Bags(X, np.repeat(np.arange(N_BAGS) // 2, SIZE), weight)
    pairs = np.repeat(np.eye(N_BAGS // 2), 2, axis=1)
    dense = made_up("normal", "identity", landmarks=X)
    covariance = dense.posterior_bags(bags).covariance()
    together = dense.posterior_bags(merged)
    np.testing.assert_allclose(together.std**2, np.diag(pairs @ covariance @ pairs.T), rtol=1e-3)
    np.testing.assert_allclose(together.mean, pairs @ dense.posterior_bags(bags).mean, rtol=1e-6)
    # with few landmarks the difference is the residual between the parts
    sparse = made_up("normal", "identity")
    covariance = sparse.posterior_bags(bags).covariance()
    _, _, residual = bag_reference(sparse)
    missing = np.diag(pairs @ (residual - np.diag(np.diag(residual))) @ pairs.T)
    gap = sparse.posterior_bags(merged).std ** 2 - np.diag(pairs @ covariance @ pairs.T)
    np.testing.assert_allclose(gap, missing, atol=1e-4 * covariance.max())


def test_zero_weights_and_row_order_do_not_matter(link_model):
    X, weight, bags, _ = toy()
    order = np.random.default_rng(1).permutation(len(X))
    extra = vbagg.Bags(
        np.vstack([X[order], new_rows()]),
        np.concatenate([np.repeat(np.arange(N_BAGS), SIZE)[order], np.arange(6)]),
        np.concatenate([weight[order], np.zeros(6)]),
    )
    position = [list(extra.labels).index(a) for a in range(N_BAGS)]
    post, other = link_model.posterior_bags(bags), link_model.posterior_bags(extra)
    np.testing.assert_allclose(other.mean[position], post.mean, rtol=1e-5)
    np.testing.assert_allclose(other.std[position], post.std, rtol=1e-4)


def test_an_average_over_parameters_is_a_mixture():
    n = 20_000
    _, _, bags, y = toy()
    model = made_up("normal", "identity", inference=vbagg.Newton(starts=1), hyper="average")
    point = made_up("normal", "identity", inference=vbagg.Newton(starts=1))
    post = model.posterior(new_rows())
    draws = post.sample(n, seed=3)
    assert_moments(draws, post.mean, post.std)
    below = np.mean(draws <= post.quantile(0.95), axis=0)
    np.testing.assert_allclose(below, 0.95, atol=5 * np.sqrt(0.95 * 0.05 / n))
    totals = model.posterior_bags(bags)
    np.testing.assert_allclose(np.diag(totals.covariance()), totals.std**2, rtol=1e-9)
    assert np.all(model.predictive_bags(bags).std > point.predictive_bags(bags).std)
    assert model.score(bags, y) != point.score(bags, y)


# New outputs


NUMERICAL = ("beta_binomial", "zero_inflated_poisson")
"""Likelihoods whose predictive law is a sum over nodes of the total."""


def trials_of(model):
    return TRIALS if model.likelihood in EVERY_TRIAL else None


def noise(model, M, V):
    """Variance that the likelihood adds to that of the total."""
    _, weight, _, _ = toy()
    learnt = model.likelihood_parameters_
    if model.likelihood == "poisson":
        return M
    if model.likelihood == "negative_binomial":
        return M + learnt["dispersion"] * (V + M**2)
    if model.likelihood == "zero_inflated_poisson":
        share = 1 / (1 + learnt["zero_odds"])
        return share * M + share * (1 - share) * (V + M**2) - (1 - share**2) * V
    if model.likelihood == "normal":
        return learnt["tau"] * (weight**2).reshape(N_BAGS, SIZE).sum(axis=1)
    return V + M**2  # exponential: E T^2


def test_a_new_output_adds_noise_to_the_total(model):
    bags = toy()[2]
    total, new = model.posterior_bags(bags), model.predictive_bags(bags, trials_of(model))
    M, V = total.mean, total.std**2
    exact, near = (1e-9, 1e-6) if model.likelihood not in NUMERICAL else (1e-5, 1e-4)
    if model.likelihood in EVERY_TRIAL:
        odds = model.likelihood_parameters_.get("correlation_odds", 0.0)
        clumped = 1 + (TRIALS - 1) * odds / (1 + odds)
        np.testing.assert_allclose(new.mean, TRIALS * M, rtol=exact)
        np.testing.assert_allclose(new.std**2, TRIALS**2 * V + clumped * TRIALS * (M - M**2 - V), rtol=near)
    else:
        share = 1 / (1 + model.likelihood_parameters_.get("zero_odds", 0.0))
        np.testing.assert_allclose(new.mean, share * M, rtol=exact)
        np.testing.assert_allclose(new.std**2, V + noise(model, M, V), rtol=near)


def test_learnt_noise_is_that_of_the_objective():
    """`tau` is in the user's units: variance of an output per squared weight."""
    model = made_up("normal", "identity")
    reference = Reference(model)
    tau = reference.unit**2  # it starts at 1 in units of the overall rate
    assert model.likelihood_parameters_["tau"] == pytest.approx(tau)
    _, weight, bags, _ = toy()
    squares = (weight**2).reshape(N_BAGS, SIZE).sum(axis=1)
    noise = model.predictive_bags(bags).std ** 2 - model.posterior_bags(bags).std ** 2
    np.testing.assert_allclose(noise, tau * squares, rtol=1e-6)


def test_units_of_the_output_do_not_matter():
    _, _, bags, y = toy()
    options = {"kernel": FIXED, "landmarks": 6, "inference": vbagg.Newton(starts=1), "hyper": "point"}
    one, other = (vbagg.VBAgg("normal", "identity", **options).fit(bags, unit * y) for unit in (1.0, 1e3))
    new = other.predictive_bags(bags)
    np.testing.assert_allclose(new.mean, 1e3 * one.predictive_bags(bags).mean, rtol=1e-4)
    np.testing.assert_allclose(new.std, 1e3 * one.predictive_bags(bags).std, rtol=1e-3)
    assert other.score(bags, 1e3 * y) == pytest.approx(one.score(bags, y) - np.log(1e3), abs=1e-3)
    # outputs scatter about their means as the law says
    z = (1e3 * y - new.mean) / new.std
    assert 0.3 < np.std(z) < 1.5


def test_density_of_a_new_output_sums_to_one(model):
    bags = toy()[2]
    new = model.predictive_bags(bags, trials_of(model))
    if new.law.discrete:
        y = np.arange(4000.0)[:, None]
        np.testing.assert_allclose(np.exp(new.log_prob(y)).sum(axis=0), 1.0, atol=2e-3)
        return
    for a in (0, 7):
        law = new.law[np.array([a])]
        start = 0.0 if model.likelihood == "exponential" else law.mean[0] - 12 * law.std[0]
        points = law.quantile([0.1, 0.5, 0.9, 0.999])[:, 0]
        stop = law.quantile(1 - 1e-6)[0] + 5 * law.std[0]
        mass = integrate.quad(lambda y, law=law: np.exp(law.log_prob(y))[0], start, stop, points=points, limit=200)[0]
        assert mass == pytest.approx(1.0, abs=1e-4)


def test_draws_of_new_outputs_match_their_law(model):
    bags, n = toy()[2], 20_000
    new = model.predictive_bags(bags, trials_of(model))
    draws = new.sample(n, seed=9)
    assert draws.shape == (n, N_BAGS)
    if new.law.discrete:
        np.testing.assert_array_equal(draws, np.round(draws))
        assert draws.min() >= 0
    assert_moments(draws, new.mean, new.std, slack=0.03 * (model.likelihood in EVERY_TRIAL))
    median = new.quantile(0.5)
    expected = new.cdf(median)
    np.testing.assert_allclose(np.mean(draws <= median, axis=0), expected, atol=5 * 0.5 / np.sqrt(n) + 0.01)


def test_predict_and_score(model):
    _, _, bags, y = toy()
    trials = trials_of(model)
    y = y if trials is None else np.minimum(y, trials)
    new = model.predictive_bags(bags, trials)
    if model.likelihood in EVERY_TRIAL:
        expected = trials * model.posterior_bags(bags).mean
        with pytest.raises(ValueError, match="needs `trials`"):
            model.predict(bags)
    else:
        expected = model.posterior_bags(bags).mean / (1 + model.likelihood_parameters_.get("zero_odds", 0.0))
    exact = 1e-9 if model.likelihood not in NUMERICAL else 1e-5
    np.testing.assert_allclose(model.predict(bags, trials), expected, rtol=exact)
    assert model.score(bags, y, trials) == pytest.approx(np.mean(new.log_prob(y)), rel=1e-12)


# Offsets


def test_an_offset_multiplies_the_rates_of_the_exp_link():
    model = made_up("poisson", "exp")
    X, weight, bags, _ = toy()
    offset = np.random.default_rng(3).normal(0.0, 0.5, len(X))
    one, other = model.posterior(X), model.posterior(X, offset=offset)
    np.testing.assert_allclose(other.mean, one.mean * np.exp(offset), rtol=1e-10)
    np.testing.assert_allclose(other.std, one.std * np.exp(offset), rtol=1e-10)
    np.testing.assert_allclose(other.sample(5, 1), one.sample(5, 1) * np.exp(offset), rtol=1e-10)
    labels = np.repeat(np.arange(N_BAGS), SIZE)
    heavier = vbagg.Bags(X, labels, weight * np.exp(offset))
    shifted, weighted = model.posterior_bags(bags, offset=offset), model.posterior_bags(heavier)
    np.testing.assert_allclose(shifted.mean, weighted.mean, rtol=1e-5)
    np.testing.assert_allclose(shifted.std, weighted.std, rtol=1e-4)
    np.testing.assert_allclose(model.predict(bags, offset=offset), weighted.mean, rtol=1e-5)
    y = np.arange(N_BAGS) + 5.0
    assert model.score(bags, y, offset=offset) == pytest.approx(model.score(heavier, y), rel=1e-4)


def test_an_offset_shifts_the_latent_function(link_model):
    reference, X = Reference(link_model), new_rows()
    offset = np.linspace(-0.4, 0.6, len(X))
    in_unit = offset / {"identity": reference.unit, "square": np.sqrt(reference.unit)}.get(link_model.link, 1.0)
    mean, std = reference.moments(X, in_unit)
    post = link_model.posterior(X, offset=offset)
    np.testing.assert_allclose(post.mean, mean, rtol=1e-6)
    np.testing.assert_allclose(post.std, std, rtol=1e-5)


def test_an_offset_follows_rows_in_any_order():
    model = made_up("poisson", "exp")
    X, weight, bags, _ = toy()
    offset = np.random.default_rng(3).normal(0.0, 0.5, len(X))
    order = np.random.default_rng(4).permutation(len(X))
    labels = np.repeat(bags.labels, SIZE)
    shuffled = vbagg.Bags(X[order], labels[order], weight[order])
    expected = dict(zip(bags.labels, model.predict(bags, offset=offset), strict=True))
    for label, value in zip(shuffled.labels, model.predict(shuffled, offset=offset[order]), strict=True):
        assert value == pytest.approx(expected[label], rel=1e-5)


def test_draws_of_rows_do_without_their_marginals(link_model, monkeypatch):
    asked = []
    original = fitted.row_marginals
    monkeypatch.setattr(fitted, "row_marginals", lambda *given: asked.append(given) or original(*given))
    posterior = link_model.posterior(toy()[0][:5])
    posterior.sample(3)
    assert not asked
    assert (posterior.std > 0).all()
    assert len(posterior.mean) == len(posterior)
    assert len(asked) == 1
