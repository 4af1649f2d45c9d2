"""The objective's parts: approximations of `E log p(y | T)` against brute force, Lemma 1, draws and KL."""

from dataclasses import dataclass, replace
from functools import partial
from itertools import product

import jax
import numpy as np
import pytest
from scipy import stats
from scipy.special import digamma, expit, logsumexp
from test_moments import FEATURE_MAP, by_bag, compiled, make_example, moments_of

from vbagg import chunks, draws, elbo
from vbagg.elbo import Spec, Staged, kl_divergence, lemma1
from vbagg.features import make_basis
from vbagg.inference import Gaussian
from vbagg.likelihoods import Binomial, Exponential, NegativeBinomial, Normal, Poisson, expected_log_total
from vbagg.links import get_link
from vbagg.moments import Pixels
from vbagg.posterior import draw_bags, gather

pytestmark = pytest.mark.usefixtures("x64")

RATES = {"exp": np.exp, "square": np.square, "logistic": expit}
DISPERSED = {"dispersion": np.log(0.5)}
COMBINATIONS = [
    (Poisson(), "exp", {}),
    (Poisson(), "square", {}),
    (NegativeBinomial(), "exp", DISPERSED),
    (NegativeBinomial(), "square", DISPERSED),
    (Exponential(), "exp", {}),
    (Binomial(), "logistic", {}),
]
NAMES = [f"{likelihood.name}-{link}" for likelihood, link, _ in COMBINATIONS]
each_combination = pytest.mark.parametrize(("likelihood", "link", "p"), COMBINATIONS, ids=NAMES)
SHAPES = np.array(list(product((1, 5, 50), (0.0, 0.5, 0.99), (0.1, 2.0))))
N_DRAWS = 40_000

draw_totals = compiled(draws.draw_totals, static_argnames=("link", "n_draws", "antithetic"))


@partial(compiled, static_argnames="spec")
def expected_log_prob(spec, p, staged, mu, factor):
    return elbo.expected_log_prob(spec, p, staged, mu, factor)


@dataclass
class Grid:
    """Bags of 1, 5 and 50 individuals with latent variance `s` and one correlation, in a padded chunk."""

    mean: np.ndarray
    weight: np.ndarray
    totals: dict
    """Brute-force draws (s, b) of the totals, antithetic: the second half mirrors the first."""
    y: float = 3.0
    trials: float = 7.0

    @property
    def staged(self):
        n_max = self.mean.shape[1]
        _, rho, s = SHAPES.T[:, :, None]
        own = np.broadcast_to((1 - rho) * s, self.mean.shape)
        shared = np.broadcast_to(np.sqrt(rho * s), self.mean.shape)[..., None]
        arrays = shared, self.mean, self.weight, own, own[..., None] * np.eye(n_max)
        pixels = Pixels(*(array.astype(np.float32) for array in arrays), None, None, None, "exact")
        b = len(SHAPES)
        return Staged(pixels, np.full(b, self.y), np.full(b, self.trials), np.ones(b))

    def approximate(self, likelihood, link, p, approximation, n_draws=512):
        spec = Spec(None, likelihood, get_link(link), approximation, n_draws)
        return np.asarray(expected_log_prob(spec, p, self.staged, np.zeros(1), np.eye(1)))

    def brute_force(self, likelihood, link, p):
        """`E log p(y | T)` of each bag, its standard error, and the standard error of 512 of our draws."""
        T = self.totals[link]
        M = np.sum(self.weight * np.asarray(get_link(link).mean(self.mean, SHAPES[:, 2:])), axis=1)
        values = np.asarray(likelihood.log_prob(self.y, T, self.trials, p))
        slope = np.mean((values - values.mean(axis=0)) * (T - M), axis=0) / np.mean((T - M) ** 2, axis=0)
        rest = values - slope * (T - M)
        pairs = (rest[: N_DRAWS // 2] + rest[N_DRAWS // 2 :]) / 2
        at_mean = jax.vmap(jax.grad(lambda T: likelihood.log_prob(self.y, T, self.trials, p)))(M)
        ours = (values - np.asarray(at_mean) * (T - M)).std(axis=0) / np.sqrt(512)
        return rest.mean(axis=0), pairs.std(axis=0) / np.sqrt(len(pairs)), ours


@pytest.fixture(scope="module")
def grid():
    rng = np.random.default_rng(5)
    b, n_max = len(SHAPES), 50
    mean, weight = rng.normal(1.0, 0.3, (b, n_max)), rng.exponential(1.0, (b, n_max))
    weight[np.arange(n_max) >= SHAPES[:, :1]] = 0.0
    weight /= weight.sum(axis=1, keepdims=True)
    totals: dict = {link: np.empty((N_DRAWS, b)) for link in RATES}
    for a, (n, rho, s) in enumerate(SHAPES):
        size = int(n)
        z = rng.standard_normal((N_DRAWS // 2, size + 1), dtype=np.float32)
        z = np.concatenate([z, -z])
        f = mean[a, :size] + np.sqrt(rho * s) * z[:, :1] + np.sqrt((1 - rho) * s) * z[:, 1:]
        for link, rate in RATES.items():
            totals[link][:, a] = rate(f) @ weight[a, :size]
    return Grid(mean, weight, totals)


TOLERANCES = {
    # nats at y = 3: matched and taylor, each for latent variance 0.1 and 2
    "poisson-exp": (0.01, 0.5, 0.02, 7.0),
    "poisson-square": (0.35, 0.75, 0.45, 1.2),
    "negative_binomial-exp": (0.01, 0.2, 0.02, 2.0),
    "negative_binomial-square": (0.35, 0.75, 0.45, 1.7),
    "exponential-exp": (0.01, 0.35, 0.02, 2.6),
    "binomial-logistic": (0.01, 0.15, 0.01, 0.7),
}


@each_combination
def test_matched_and_taylor_are_within_their_stated_errors(grid, likelihood, link, p):
    expected, error, _ = grid.brute_force(likelihood, link, p)
    small = SHAPES[:, 2] < 1
    matched_small, matched_large, taylor_small, taylor_large = TOLERANCES[f"{likelihood.name}-{link}"]
    found = {}
    for name, low, high in (
        ("matched", matched_small, matched_large),
        ("taylor", taylor_small, taylor_large),
    ):
        found[name] = np.abs(grid.approximate(likelihood, link, p, name) - expected)
        assert (found[name] < np.where(small, low, high) + 4 * error).all()
    assert found["matched"].max() < 0.8 * found["taylor"].max()


@each_combination
def test_monte_carlo_is_within_its_noise(grid, likelihood, link, p):
    expected, error, ours = grid.brute_force(likelihood, link, p)
    value = grid.approximate(likelihood, link, p, "montecarlo")
    assert (np.abs(value - expected) < 5 * np.hypot(error, ours) + 1e-3).all()


@each_combination
def test_bound_is_below_the_truth_and_strictly_where_individuals_differ(grid, likelihood, link, p):
    expected, error, ours = grid.brute_force(likelihood, link, p)
    bound = grid.approximate(likelihood, link, p, "bound")
    assert (bound < expected + 4 * error + 1e-5).all()
    assert (bound < grid.approximate(likelihood, link, p, "montecarlo") + 5 * ours + 1e-3).all()
    n, rho, s = SHAPES.T
    separated = (n == 50) & (rho < 0.9) & (s == 2)
    assert (bound[separated] < expected[separated] - 0.8).all()
    if likelihood.name in ("poisson", "binomial"):
        assert (np.abs(bound - expected)[n == 1] < 5 * error[n == 1]).all()


def test_matched_lognormal_is_exact_for_one_individual(grid):
    alone = SHAPES[:, 0] == 1
    expected, error, _ = grid.brute_force(Poisson(), "exp", {})
    gap = np.abs(grid.approximate(Poisson(), "exp", {}, "matched") - expected)
    assert (gap[alone] < 5 * error[alone]).all()
    assert gap.max() > 0.2


def test_errors_of_expected_log_total_in_the_standard_case(rng):
    """50 individuals, exp link, S = 2, correlation 0.5: the numbers of MATH section 4."""
    n, s = 50, 2.0
    z = rng.standard_normal((20_000, n + 1))
    T = np.exp(np.concatenate([z[:, :1] + z[:, 1:], -z[:, :1] - z[:, 1:]])).mean(axis=1)
    M = np.exp(s / 2)
    V = M**2 * (n * np.expm1(s) + n * (n - 1) * np.expm1(s / 2)) / n**2
    truth = np.mean(np.log(T / M) - 0.4 * (T / M - 1))
    assert np.asarray(expected_log_total(M, V, "lognormal")) - np.log(M) == pytest.approx(truth, abs=0.015)
    assert np.asarray(expected_log_total(M, V, "gamma")) - np.log(M) - truth == pytest.approx(-0.65, abs=0.05)
    assert -V / (2 * M**2) - truth == pytest.approx(-0.41, abs=0.05)


def test_gamma_is_exact_for_a_central_chi_square():
    """Independent individuals of zero mean and equal weight: `T` is a multiple of a chi-square."""
    s, n = 0.7, 4
    expected = digamma(n / 2) + np.log(2 * s)
    np.testing.assert_allclose(expected_log_total(n * s, 2 * n * s**2, "gamma"), expected, rtol=1e-10)


@pytest.fixture(scope="module")
def example():
    return make_example()


@pytest.mark.parametrize("collapse", [None, "square"])
@pytest.mark.parametrize(
    ("likelihood", "p"),
    [(Poisson(), {}), (NegativeBinomial(), DISPERSED)],
    ids=["poisson", "negative_binomial"],
)
def test_taylor_is_the_second_order_expansion(example, likelihood, p, collapse):
    (chunk,) = example.chunks("exact")
    staged = Staged(example.staged(chunk, collapse), chunk.y, chunk.aux, chunk.valid)
    spec = Spec(None, likelihood, get_link("square"), "taylor")
    found = by_bag(expected_log_prob(spec, p, staged, example.mu, example.factor), chunk)
    M, V = moments_of(example, "square", chunk)

    def log_prob(T):
        return np.asarray(likelihood.log_prob(example.y, T, 1.0, p))

    h = 1e-3 * M
    curvature = (log_prob(M + h) - 2 * log_prob(M) + log_prob(M - h)) / h**2
    np.testing.assert_allclose(found, log_prob(M) + V / 2 * curvature, rtol=1e-4)


@pytest.mark.parametrize("approximation", ["matched", "taylor"])
def test_normal_is_exact_under_either_expansion(example, approximation):
    (chunk,) = example.chunks("exact", aux=np.array([0.5, 2.0, 1.0, 0.7, 3.0]))
    staged = Staged(example.staged(chunk, "identity"), chunk.y, chunk.aux, chunk.valid)
    spec = Spec(None, Normal(), get_link("identity"), approximation)
    found = by_bag(expected_log_prob(spec, {"tau": np.log(1.3)}, staged, example.mu, example.factor), chunk)
    M, V = moments_of(example, "identity", chunk)
    s2 = 1.3 * by_bag(chunk.aux, chunk)
    np.testing.assert_allclose(found, stats.norm(M, np.sqrt(s2)).logpdf(example.y) - V / (2 * s2), rtol=1e-5)


@pytest.mark.parametrize("link", ["exp", "square"])
def test_lemma1_matches_loops(example, link):
    (chunk,) = example.chunks("diagonal")
    spec = Spec(None, Poisson(), get_link(link), "bound")
    found = compiled(lambda staged: lemma1(spec, staged, example.mu, example.factor)[1].log_total)
    expected = [logsumexp([xi(link, m[i], S[i, i]) for i in range(len(w))], b=w) for w, m, S, _, _ in example.latent]
    np.testing.assert_allclose(by_bag(found(example.staged(chunk)), chunk), expected, rtol=1e-5)


def xi(link, m, s):
    """`E log Psi(f)`; the square link's by MATH's Poisson mixture of digammas."""
    if link == "exp":
        return m
    j = np.arange(400)
    return np.log(2 * s) + stats.poisson(m**2 / (2 * s)).pmf(j) @ digamma(j + 0.5)


def test_exponential_bound_is_the_tight_one(example):
    """`E[1/T] <= 1 / sum(w / xi)`; the paper prints the looser `sum(w / xi) / sum((w / xi)^2)`."""
    (chunk,) = example.chunks("diagonal")
    spec = Spec(None, Exponential(), get_link("exp"), "bound")
    staged = Staged(example.staged(chunk), chunk.y, chunk.aux, chunk.valid)
    found = by_bag(expected_log_prob(spec, {}, staged, example.mu, example.factor), chunk)
    tight, printed = [], []
    for y, (w, m, S, _, _) in zip(example.y, example.latent, strict=True):
        ratio = w / np.exp(-m + np.diag(S) / 2)
        log_M = np.log(np.sum(w * np.exp(m + np.diag(S) / 2)))
        tight.append(-y / ratio.sum() - log_M)
        printed.append(-y * ratio.sum() / np.sum(ratio**2) - log_M)
    np.testing.assert_allclose(found, tight, rtol=1e-5)
    several = np.array([np.count_nonzero(w) > 1 for w, *_ in example.latent])
    assert (found[several] > np.array(printed)[several]).all()


def test_exp_likelihood_carries_the_weights(example):
    """The bound's `-M` is `-sum w exp(m + S/2)`; the paper's `L_1^e` drops the weight (MATH section 3)."""
    (chunk,) = example.chunks("diagonal")
    staged = Staged(example.staged(chunk), 0.0 * chunk.y, chunk.aux, chunk.valid)
    spec = Spec(None, Poisson(), get_link("exp"), "bound")
    found = by_bag(expected_log_prob(spec, {}, staged, example.mu, example.factor), chunk)
    expected = [-np.sum(w * np.exp(m + np.diag(S) / 2)) for w, m, S, _, _ in example.latent]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_kl_is_cross_entropy_minus_entropy(rng):
    mu = rng.normal(size=4)
    factor = np.tril(rng.normal(size=(4, 4)))
    factor[2, 2] = -abs(factor[2, 2])
    covariance = factor @ factor.T
    cross_entropy = 0.5 * (4 * np.log(2 * np.pi) + np.trace(covariance) + mu @ mu)
    expected = cross_entropy - stats.multivariate_normal(mu, covariance).entropy()
    np.testing.assert_allclose(kl_divergence(mu, factor), expected, rtol=1e-10)
    np.testing.assert_allclose(Gaussian(mu, factor).kl(), expected, rtol=1e-10)
    assert Gaussian(np.zeros(3), np.eye(3)).kl() == 0


def estimates(grid, link, antithetic, n_seeds=60):
    """Over seeds: the mean of the Poisson log density over 64 draws, and that with the control variate."""
    staged = grid.staged

    def log_prob(T):
        return Poisson().log_prob(staged.y, T, staged.aux, {})

    @compiled
    def both(seed):
        M, T = draws.draw_totals(
            get_link(link), staged.moments, np.zeros(1), np.eye(1), seed, 64, antithetic=antithetic
        )
        return log_prob(T).mean(axis=0), elbo._with_control_variate(log_prob, M, T)

    return np.array([both(seed) for seed in range(n_seeds)]).transpose(1, 0, 2)


@pytest.mark.parametrize("link", ["exp", "square"])
def test_control_variate_reduces_the_noise_of_independent_draws(grid, link):
    """40 counts make the slope of the log density at the mean steep."""
    counts = replace(grid, y=40.0)
    plain, controlled = estimates(counts, link, antithetic=False)
    expected, error, _ = counts.brute_force(Poisson(), link, {})
    noise = controlled.std(axis=0)
    assert (np.abs(controlled.mean(axis=0) - expected) < 5 * np.hypot(noise / np.sqrt(60), error)).all()
    moderate = (SHAPES[:, 2] == 0.1) & (SHAPES[:, 0] > 1)
    assert (noise[moderate] < 0.5 * plain.std(axis=0)[moderate]).all()


def sampled_totals(example, link, residual, n_draws=20_000, seed=3):
    """Joint draws (s, b) from all chunks."""
    found = []
    chunks = example.chunks(residual)
    for chunk in chunks:
        staged = example.staged(chunk)
        T = draw_totals(get_link(link), staged, example.mu, example.factor, seed, n_draws, antithetic=False)[1]
        found.append(np.asarray(T).T)
    return gather(found, chunks).T


@pytest.mark.parametrize("residual", ["exact", "diagonal", "subset"])
@pytest.mark.parametrize("link", ["identity", "square", "exp"])
def test_draws_have_the_moments_of_the_totals(link, residual):
    example = make_example(spread=0.4)
    T = sampled_totals(example, link, residual)
    M, V = moments_of(example, link, *example.chunks(residual))
    assert (np.abs(T.mean(axis=0) - M) < 5 * np.sqrt(V / len(T))).all()
    np.testing.assert_allclose(T.var(axis=0), V, rtol=0.1)


@pytest.mark.parametrize("residual", ["diagonal", "subset"])
def test_draws_of_bags_in_tiles_have_the_moments_of_the_totals(residual, monkeypatch):
    monkeypatch.setattr(chunks, "TILE", 2)
    example = make_example(spread=0.4)
    T = sampled_totals(example, "exp", residual)
    parts = example.chunks(residual)
    (cut,) = (part for part in parts if part.tiles is not None)
    several = np.sort(cut.position[cut.position >= 0])
    assert len(several) == 3
    M, V = moments_of(example, "exp", cut)[:, several]
    assert (np.abs(T[:, several].mean(axis=0) - M) < 5 * np.sqrt(V / len(T))).all()
    np.testing.assert_allclose(T[:, several].var(axis=0), V, rtol=0.1)


def test_antithetic_draws_mirror_the_latent_function(example):
    """With the identity link each draw and its mirror average to the mean."""
    (chunk,) = example.chunks("exact")
    M, T = draw_totals(get_link("identity"), example.staged(chunk), example.mu, example.factor, 1, 32)
    np.testing.assert_allclose((T[:8] + T[8:16]) / 2, np.broadcast_to(M, (8, len(M))), rtol=1e-4, atol=1e-4)
    assert np.std(T[:8], axis=0).min() > 0


def test_correlation_of_bags_does_not_depend_on_chunks():
    """Bags share the weights and nothing else, in whatever chunk they are."""
    example = make_example(sizes=(6, 6, 6, 6, 6))
    spec = Spec(FEATURE_MAP, Poisson(), get_link("square"), "matched")
    basis = make_basis(FEATURE_MAP, example.kernel, example.landmarks, (1e-8,) * 3)

    def correlation(chunks):
        return np.corrcoef(draw_bags(spec, basis, example.mu, example.factor, chunks, 16_000, seed=3).T)

    apart = replace(example, max_elements=40).chunks("exact")
    assert len(apart) == 5
    assert np.abs(correlation(example.chunks("exact")) - correlation(apart)).max() < 0.06
