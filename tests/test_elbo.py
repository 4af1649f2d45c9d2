"""The objective's parts: approximations of `E_q log p(y | v)` against brute force, Lemma 1, draws and KL.

Brute force knows two expectations: of MATH (13), where the residual is averaged over inside the logarithm, and of
MATH (5), where it stays outside. `matched` and `montecarlo` stand for the first, those of the paper for the second.
"""

from dataclasses import dataclass, replace
from functools import partial
from itertools import product

import jax
import numpy as np
import pytest
from scipy import stats
from scipy.special import digamma, expit, logsumexp
from test_moments import by_bag, compiled, make_example, moments_of

from vbagg import chunks, draws, elbo
from vbagg.chunks import gather
from vbagg.elbo import Spec, Staged, kl_divergence, lemma1
from vbagg.inference import Gaussian
from vbagg.likelihoods import (
    BetaBinomial,
    Binomial,
    Exponential,
    NegativeBinomial,
    Normal,
    Poisson,
    ZeroInflatedPoisson,
)
from vbagg.links import get_link
from vbagg.moments import Pixels

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
BEYOND = [
    (BetaBinomial(), "logistic", {"correlation_odds": np.log(0.1)}),
    (ZeroInflatedPoisson(), "exp", {"zero_odds": np.log(0.3)}),
    (ZeroInflatedPoisson(), "square", {"zero_odds": np.log(0.3)}),
]
each_combination = pytest.mark.parametrize(("likelihood", "link", "p"), COMBINATIONS, ids=NAMES)
each_likelihood = pytest.mark.parametrize(
    ("likelihood", "link", "p"),
    COMBINATIONS + BEYOND,
    ids=NAMES + [f"{likelihood.name}-{link}" for likelihood, link, _ in BEYOND],
)
SHAPES = np.array(list(product((1, 5, 50), (0.0, 0.5, 0.99), (0.1, 2.0))))
N_DRAWS = 40_000

# standard normal, close enough for the singularity of log f^2
NODES = np.linspace(-5.5, 5.5, 81)
NODE_WEIGHTS = stats.norm.pdf(NODES) / stats.norm.pdf(NODES).sum()

draw_means = compiled(draws.draw_means, static_argnames=("link", "n_draws"))


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
    nested: dict
    """Draws (b, z, s) of the totals over the residual, for each node of the weights."""
    y: float = 3.0
    trials: float = 7.0

    @property
    def staged(self):
        n_max = self.mean.shape[1]
        _, rho, s = SHAPES.T[:, :, None]
        own = np.broadcast_to((1 - rho) * s, self.mean.shape)
        shared = np.broadcast_to(np.sqrt(rho * s), self.mean.shape)[..., None]
        arrays = shared, self.mean, self.weight, own, own, own[..., None] * np.eye(n_max)
        pixels = Pixels(*(array.astype(np.float32) for array in arrays), None, None, None, "exact")
        b = len(SHAPES)
        return Staged(pixels, np.full(b, self.y), {"trials": np.full(b, self.trials)}, np.ones(b), np.ones(b))

    @property
    def facts(self):
        return {"trials": self.trials}

    def approximate(self, likelihood, link, p, approximation, n_draws=512, inside=1.0):
        spec = Spec(None, likelihood, get_link(link), approximation, inside, n_draws)
        return np.asarray(expected_log_prob(spec, p, self.staged, np.zeros(1), np.eye(1)))

    def brute_force(self, likelihood, link, p):
        """`E log p(y | T)` of each bag and its standard error: MATH (5)."""
        T = self.totals[link]
        M = np.sum(self.weight * np.asarray(get_link(link).mean(self.mean, SHAPES[:, 2:])), axis=1)
        values = np.asarray(likelihood.log_prob(self.y, T, self.facts, p))
        slope = np.mean((values - values.mean(axis=0)) * (T - M), axis=0) / np.mean((T - M) ** 2, axis=0)
        rest = values - slope * (T - M)
        pairs = (rest[: N_DRAWS // 2] + rest[N_DRAWS // 2 :]) / 2
        return rest.mean(axis=0), pairs.std(axis=0) / np.sqrt(len(pairs))

    def brute_force_inside(self, likelihood, link, p):
        """`E_z log E_r p(y | T(z, r))` of each bag: MATH (13), and its standard error by parts of the draws."""
        logs = np.asarray(likelihood.log_prob(self.y, self.nested[link], self.facts, p))
        parts = [logsumexp(part, axis=2) - np.log(part.shape[2]) for part in (logs, *np.array_split(logs, 8, axis=2))]
        whole, *values = (part @ NODE_WEIGHTS for part in parts)
        return whole, np.std(values, axis=0) / np.sqrt(8)

    def given_weights(self, likelihood, link, p):
        """`E_z log p(y | M(z))`, the residual's spread that at `q`, and the noise of 512 antithetic draws."""
        chosen = get_link(link)
        _, rho, s = SHAPES.T[:, :, None]
        own = np.broadcast_to((1 - rho) * s, self.mean.shape)
        f = self.mean[:, None] + (np.sqrt(rho * s) * NODES)[..., None]
        M = np.sum(self.weight[:, None] * chosen.mean(f, np.broadcast_to(own[:, None], f.shape)), axis=-1)
        centre = M @ NODE_WEIGHTS
        slope = chosen.slope(self.mean, np.broadcast_to(s, self.mean.shape))
        # residuals of different individuals are independent: they add variances only
        added = np.sum(self.weight**2 * chosen.added_covariance(slope, slope, rho * s, own), axis=1)
        spread = np.asarray(added / likelihood.unit_variance(centre, M**2 @ NODE_WEIGHTS - centre**2))
        values = np.asarray(likelihood.log_prob(self.y, M, self.facts, p, spread[:, None]))
        at_mean = jax.grad(lambda T: likelihood.log_prob(self.y, T, self.facts, p, spread).sum())(centre)
        rest = values - np.asarray(at_mean)[:, None] * np.asarray(M - centre[:, None])
        expected = rest @ NODE_WEIGHTS
        mirrored = (rest + rest[:, ::-1]) / 2
        return expected, np.sqrt((mirrored - expected[:, None]) ** 2 @ NODE_WEIGHTS / 256)


@pytest.fixture(scope="module")
def grid():
    rng = np.random.default_rng(5)
    b, n_max = len(SHAPES), 50
    mean, weight = rng.normal(1.0, 0.3, (b, n_max)), rng.exponential(1.0, (b, n_max))
    weight[np.arange(n_max) >= SHAPES[:, :1]] = 0.0
    weight /= weight.sum(axis=1, keepdims=True)
    totals: dict = {link: np.empty((N_DRAWS, b)) for link in RATES}
    nested: dict = {link: np.empty((b, len(NODES), 1500)) for link in RATES}
    for a, (n, rho, s) in enumerate(SHAPES):
        size = int(n)
        z = rng.standard_normal((N_DRAWS // 2, size + 1), dtype=np.float32)
        z = np.concatenate([z, -z])
        f = mean[a, :size] + np.sqrt(rho * s) * z[:, :1] + np.sqrt((1 - rho) * s) * z[:, 1:]
        for link, rate in RATES.items():
            totals[link][:, a] = rate(f) @ weight[a, :size]
        own = np.sqrt((1 - rho) * s) * rng.standard_normal((1500, size), dtype=np.float32)
        for k, node in enumerate(NODES):
            f = mean[a, :size] + np.sqrt(rho * s) * node + own
            for link, rate in RATES.items():
                nested[link][a, k] = rate(f) @ weight[a, :size]
    return Grid(mean, weight, totals, nested)


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
    """With the residual outside, where `matched` may be compared with the paper's `taylor`."""
    expected, error = grid.brute_force(likelihood, link, p)
    small = SHAPES[:, 2] < 1
    matched_small, matched_large, taylor_small, taylor_large = TOLERANCES[f"{likelihood.name}-{link}"]
    found = {}
    for name, low, high in (
        ("matched", matched_small, matched_large),
        ("taylor", taylor_small, taylor_large),
    ):
        found[name] = np.abs(grid.approximate(likelihood, link, p, name, inside=0.0) - expected)
        assert (found[name] < np.where(small, low, high) + 4 * error).all()
    assert found["matched"].max() < 0.8 * found["taylor"].max()


INSIDE = {
    # nats for latent variance 0.1 and 2; the residual's gamma has lighter tails than the log-normal rates it stands for
    "poisson-exp": (0.01, 1.5),
    "poisson-square": (0.2, 1.05),
    "negative_binomial-exp": (0.025, 1.35),
    "negative_binomial-square": (0.2, 1.05),
    "exponential-exp": (0.01, 1.05),
    "binomial-logistic": (0.015, 0.16),
    "beta_binomial-logistic": (0.01, 0.1),
    "zero_inflated_poisson-exp": (0.01, 0.65),
    "zero_inflated_poisson-square": (0.01, 0.15),
}


def counts_of(grid, likelihood):
    """Bags with the output that tells most of the likelihood."""
    return replace(grid, y=0.0) if likelihood.name == "zero_inflated_poisson" else grid


@each_likelihood
def test_matched_with_the_residual_inside_is_within_its_stated_errors(grid, likelihood, link, p):
    grid = counts_of(grid, likelihood)
    expected, error = grid.brute_force_inside(likelihood, link, p)
    small = SHAPES[:, 2] < 1
    gap = np.abs(grid.approximate(likelihood, link, p, "matched") - expected)
    low, high = INSIDE[f"{likelihood.name}-{link}"]
    assert (gap < np.where(small, low, high) + 4 * error).all()


@each_likelihood
def test_residual_inside_gives_a_higher_objective(grid, likelihood, link, p):
    """Jensen: MATH (5) is below MATH (13), and the more of the residual is inside the higher it is."""
    grid = counts_of(grid, likelihood)
    outside, error = grid.brute_force(likelihood, link, p)
    inside, inside_error = grid.brute_force_inside(likelihood, link, p)
    assert (outside < inside + 4 * (error + inside_error)).all()
    some = (SHAPES[:, 0] > 1) & (SHAPES[:, 1] < 0.9)
    assert (inside - outside)[some & (SHAPES[:, 2] > 1)].max() > 0.01
    if likelihood.name == "negative_binomial":
        return  # the bag's effect and the residual are merged into one gamma, which is neither's mixture
    values = [grid.approximate(likelihood, link, p, "matched", inside=share) for share in (0.0, 0.5, 1.0)]
    moderate = some & (SHAPES[:, 2] < 1)
    assert (values[0][moderate] < values[1][moderate]).all()
    assert (values[1][moderate] < values[2][moderate]).all()


@each_likelihood
def test_monte_carlo_is_within_its_noise(grid, likelihood, link, p):
    expected, noise = grid.given_weights(likelihood, link, p)
    value = grid.approximate(likelihood, link, p, "montecarlo")
    assert (np.abs(value - expected) < 5 * noise + 1e-3).all()


@each_combination
def test_bound_is_below_the_truth_and_strictly_where_individuals_differ(grid, likelihood, link, p):
    expected, error = grid.brute_force(likelihood, link, p)
    noise = grid.given_weights(likelihood, link, p)[1]
    bound = grid.approximate(likelihood, link, p, "bound")
    assert (bound < expected + 4 * error + 1e-5).all()
    assert (bound < grid.approximate(likelihood, link, p, "montecarlo") + 5 * noise + 1e-3).all()
    n, rho, s = SHAPES.T
    separated = (n == 50) & (rho < 0.9) & (s == 2)
    assert (bound[separated] < expected[separated] - 0.8).all()
    if likelihood.name in ("poisson", "binomial"):
        assert (np.abs(bound - expected)[n == 1] < 5 * error[n == 1]).all()


def test_matched_lognormal_is_exact_for_one_individual(grid):
    alone = SHAPES[:, 0] == 1
    expected, error = grid.brute_force(Poisson(), "exp", {})
    gap = np.abs(grid.approximate(Poisson(), "exp", {}, "matched", inside=0.0) - expected)
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
    lognormal, gamma = (np.asarray(get_link(link).matched.expected_log(M, V)) - np.log(M) for link in ("exp", "square"))
    assert lognormal == pytest.approx(truth, abs=0.015)
    assert gamma - truth == pytest.approx(-0.65, abs=0.05)
    assert -V / (2 * M**2) - truth == pytest.approx(-0.41, abs=0.05)


def test_gamma_is_exact_for_a_central_chi_square():
    """Independent individuals of zero mean and equal weight: `T` is a multiple of a chi-square."""
    s, n = 0.7, 4
    expected = digamma(n / 2) + np.log(2 * s)
    found = get_link("square").matched.expected_log(n * s, 2 * n * s**2)
    np.testing.assert_allclose(found, expected, rtol=1e-10)


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
    staged = Staged(example.staged(chunk, collapse), chunk.y, chunk.facts, chunk.valid, chunk.residual_scale)
    spec = Spec(None, likelihood, get_link("square"), "taylor")
    found = by_bag(expected_log_prob(spec, p, staged, example.mu, example.factor), chunk)
    M, V_q, s = moments_of(example, "square", chunk)

    def log_prob(T):
        return np.asarray(likelihood.log_prob(example.y, T, {}, p))

    h = 1e-3 * M
    curvature = (log_prob(M + h) - 2 * log_prob(M) + log_prob(M - h)) / h**2
    np.testing.assert_allclose(found, log_prob(M) + (V_q + s) / 2 * curvature, rtol=1e-4)


@pytest.mark.parametrize(("approximation", "inside"), [("matched", 1.0), ("matched", 0.3), ("taylor", 1.0)])
def test_normal_is_exact_under_either_expansion(example, approximation, inside):
    """The residual's variance is noise where it is inside, and an expected square where it is not."""
    (chunk,) = example.chunks("exact", facts={"tau_factor": np.array([0.5, 2.0, 1.0, 0.7, 3.0])})
    staged = Staged(example.staged(chunk, "identity"), chunk.y, chunk.facts, chunk.valid, chunk.residual_scale)
    spec = Spec(None, Normal(), get_link("identity"), approximation, inside)
    found = by_bag(expected_log_prob(spec, {"tau": np.log(1.3)}, staged, example.mu, example.factor), chunk)
    M, V_q, s = moments_of(example, "identity", chunk)
    share = 0.0 if approximation == "taylor" else inside
    noise = 1.3 * by_bag(chunk.facts["tau_factor"], chunk) + share * s
    expected = stats.norm(M, np.sqrt(noise)).logpdf(example.y) - (V_q + (1 - share) * s) / (2 * noise)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


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
    staged = Staged(example.staged(chunk), chunk.y, chunk.facts, chunk.valid, chunk.residual_scale)
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
    staged = Staged(example.staged(chunk), 0.0 * chunk.y, chunk.facts, chunk.valid, chunk.residual_scale)
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


@pytest.mark.parametrize("link", ["exp", "square"])
def test_control_variate_reduces_the_noise_of_independent_draws(grid, link):
    """40 counts make the slope of the log density at the mean steep."""
    counts = replace(grid, y=40.0)
    M = np.sum(counts.weight * np.asarray(get_link(link).mean(counts.mean, SHAPES[:, 2:])), axis=1)
    batches = counts.totals[link][: 300 * 64].reshape(300, 64, len(SHAPES))

    def log_prob(T):
        return Poisson().log_prob(counts.y, T, {}, {})

    controlled = np.asarray(jax.lax.map(lambda T: elbo._with_control_variate(log_prob, M, T), batches))
    plain = np.asarray(log_prob(batches)).mean(axis=1)
    expected, error = counts.brute_force(Poisson(), link, {})
    noise = controlled.std(axis=0)
    assert (np.abs(controlled.mean(axis=0) - expected) < 5 * np.hypot(noise / np.sqrt(300), error)).all()
    moderate = (SHAPES[:, 2] == 0.1) & (SHAPES[:, 0] > 1)
    assert (noise[moderate] < 0.5 * plain.std(axis=0)[moderate]).all()


def sampled_means(example, link, residual, n_draws=20_000, seed=3):
    """Joint draws (s, b) of the totals' means given the weights, from all chunks."""
    parts = example.chunks(residual)
    found = [
        np.asarray(draw_means(get_link(link), example.staged(part), example.mu, example.factor, seed, n_draws)).T
        for part in parts
    ]
    return gather(found, parts).T


@pytest.mark.parametrize("residual", ["exact", "diagonal", "subset"])
@pytest.mark.parametrize("link", ["identity", "square", "exp"])
def test_draws_have_the_moments_of_the_totals_means(link, residual, monkeypatch):
    """Their variance is what the weights alone make, whatever is known of the residual; also for bags in tiles."""
    example = make_example(spread=0.4)
    T = sampled_means(example, link, residual)
    M, V_q, _ = moments_of(example, link, *example.chunks("exact"))
    assert (np.abs(T.mean(axis=0) - M) < 5 * np.sqrt(V_q / len(T)) + 1e-5 * np.abs(M)).all()
    np.testing.assert_allclose(T.var(axis=0), V_q, rtol=0.1)
    if residual != "exact":
        monkeypatch.setattr(chunks, "TILE", 2)
        assert any(part.tiles is not None for part in example.chunks(residual))
        np.testing.assert_allclose(sampled_means(example, link, residual), T, rtol=1e-4, atol=1e-4)


def test_antithetic_draws_mirror_the_latent_function(example):
    """With the identity link each draw and its mirror average to the mean."""
    (chunk,) = example.chunks("exact")
    T = draw_means(get_link("identity"), example.staged(chunk), example.mu, example.factor, 1, 32)
    M = example.staged(chunk)
    M = np.sum(M.weight * (M.known + M.A @ example.mu), axis=1)
    np.testing.assert_allclose((T[:8] + T[8:16]) / 2, np.broadcast_to(M, (8, len(M))), rtol=1e-4, atol=1e-4)
    assert np.std(T[:8], axis=0).min() > 0


def test_draws_of_bags_share_the_weights_in_whatever_chunk_they_are():
    example = make_example(sizes=(6, 6, 6, 6, 6))
    apart = replace(example, max_elements=40)
    assert len(apart.chunks("exact")) == 5
    joint, single = (sampled_means(one, "square", "exact", 200) for one in (example, apart))
    np.testing.assert_allclose(single, joint, rtol=1e-4, atol=1e-4)
    assert np.abs(np.corrcoef(joint.T) - np.eye(5)).max() > 0.3
