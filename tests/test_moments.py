"""Bag moments against float64 NumPy loops. `Example` is the reference that other test files build on."""

from dataclasses import dataclass, replace
from functools import cached_property, partial

import jax
import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss
from scipy.special import expit, logsumexp

from vbagg import chunks, moments
from vbagg.bags import Bags
from vbagg.chunks import SUBSET_SIZE, Chunk, gather, make_chunks
from vbagg.elbo import Parameters
from vbagg.features import FeatureMap, make_basis
from vbagg.kernels import RBF, Linear, Matern32
from vbagg.links import get_link
from vbagg.moments import stage_collapsed, stage_pixels
from vbagg.staging import stage_for_prediction

compiled = partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
pixel_moments = compiled(moments.pixel_moments, static_argnames="link")
collapsed_moments = compiled(moments.collapsed_moments)
moments_given_weights = compiled(moments.moments_given_weights, static_argnames="link")
jacobian = compiled(moments.jacobian, static_argnames="link")
bag_directions = compiled(moments.bag_directions, static_argnames="link")

SIZES = (3, 6, 1, 4, 2)
FEATURE_MAP = FeatureMap((Linear((1,)), RBF((0, 1), ard=True), Matern32((2,))), mean_sd=0.8)
LOG_PARAMETERS = (
    {"variance": np.log([0.3])},
    {"variance": np.log(0.9), "lengthscale": np.log([0.8, 1.7])},
    {"variance": np.log(0.4), "lengthscale": np.log(0.6)},
)
JITTER = 1e-8
staged_once = compiled(partial(stage_for_prediction, FEATURE_MAP), static_argnames="cross")
NODES, NODE_WEIGHTS = hermegauss(80)
NODE_WEIGHTS = NODE_WEIGHTS / NODE_WEIGHTS.sum()


def distances(X1, X2, lengthscale):
    return np.sqrt((((X1[:, None] - X2[None]) / lengthscale) ** 2).sum(axis=-1))


@dataclass
class Example:
    """Bags, a posterior of the weights, and the latent moments that follow, written out in NumPy."""

    bags: Bags
    y: np.ndarray
    known: np.ndarray
    landmarks: tuple
    mu: np.ndarray
    factor: np.ndarray
    kernel: tuple = LOG_PARAMETERS
    max_elements: float = 4e6

    @property
    def parameters(self):
        return Parameters(self.kernel, {}, self.landmarks)

    def own_kernel(self, component, X1, X2):
        """Covariance of one component between rows that hold its own columns."""
        numbers = {name: np.exp(value) for name, value in self.kernel[component].items()}
        if component == 0:
            return numbers["variance"] * X1 @ X2.T
        r = distances(X1, X2, numbers["lengthscale"])
        correlation = np.exp(-(r**2) / 2) if component == 1 else (1 + np.sqrt(3) * r) * np.exp(-np.sqrt(3) * r)
        return numbers["variance"] * correlation

    def landmark_parts(self, X):
        """Features and covariance (n, n) of each component with landmarks."""
        for component, columns in ((1, [0, 1]), (2, [2])):
            Z = self.landmarks[component]
            K = self.own_kernel(component, Z, Z)
            L = np.linalg.cholesky(K + JITTER * np.diag(K).mean() * np.eye(len(Z)))
            A = np.linalg.solve(L, self.own_kernel(component, Z, X[:, columns])).T
            yield A, self.own_kernel(component, X[:, columns], X[:, columns])

    def features(self, X):
        linear = X[:, [1]] * np.sqrt(np.exp(self.kernel[0]["variance"]))
        constant = np.full((len(X), 1), FEATURE_MAP.mean_sd)
        return np.hstack([constant, linear, *(A for A, _ in self.landmark_parts(X))])

    def residual(self, X):
        return sum(K - A @ A.T for A, K in self.landmark_parts(X))

    @cached_property
    def latent(self):
        """Of each bag: weights, mean and covariance of `f`, the landmarks' share of it, and features."""
        found = []
        for start, stop in zip(self.bags.starts, self.bags.starts[1:], strict=False):
            X, known = self.bags.X[start:stop], self.known[start:stop]
            A, F = self.features(X), self.features(X) @ self.factor
            covariance = self.residual(X) + F @ F.T
            found.append((self.bags.weight[start:stop], known + A @ self.mu, covariance, F @ F.T, A))
        return found

    @cached_property
    def basis(self):
        return make_basis(FEATURE_MAP, self.kernel, self.landmarks, (JITTER,) * 3)

    def chunks(self, residual="exact", random_state=0, facts=None):
        facts = {} if facts is None else facts
        return make_chunks(self.bags, self.y, facts, self.known, residual, self.max_elements, random_state)

    def staged(self, chunk, collapse=None):
        """Staged pixels, or bag sums of the link `collapse`."""
        return stage(self.kernel, self.landmarks, chunk, collapse)


@partial(compiled, static_argnames="collapse")
def stage(kernel, landmarks, chunk, collapse):
    basis = make_basis(FEATURE_MAP, kernel, landmarks, (JITTER,) * 3)
    if collapse is None:
        return stage_pixels(FEATURE_MAP, basis, chunk)
    return stage_collapsed(FEATURE_MAP, basis, chunk, quadratic=collapse == "square")


def make_example(sizes=SIZES, seed=7, spread=1.0):
    """Bags of unequal size with a few zero weights; `spread` scales the uncertainty of the weights."""
    rng = np.random.default_rng(seed)
    n = sum(sizes)
    weight = rng.exponential(1.5, size=n)
    weight[[1, n - 4]] = 0.0
    bags = Bags(rng.normal(0.3, 1.0, size=(n, 3)), np.repeat(np.arange(len(sizes)), sizes), weight)
    landmarks = (None, rng.normal(size=(3, 2)), rng.normal(size=(2, 1)))
    m = 7
    factor = np.tril(rng.normal(0.0, 0.25, size=(m, m)), -1) + np.diag(rng.uniform(0.2, 0.6, m))
    known = rng.normal(0.4, 0.3, size=n)
    y = rng.poisson(4.0, size=len(sizes)).astype(float)
    return Example(bags, y, known, landmarks, rng.normal(0.2, 0.5, m), spread * factor)


@pytest.fixture(scope="module")
def example():
    return make_example()


@pytest.fixture(params=["whole", "tiles"])
def tiled(request, monkeypatch):
    """Bags as they are, or cut into tiles of two individuals."""
    if request.param == "tiles":
        monkeypatch.setattr(chunks, "TILE", 2)
    return request.param == "tiles"


def logistic_slope(m, s):
    f = m + np.sqrt(s) * NODES
    return NODE_WEIGHTS @ (expit(f) * expit(-f))


def rate_mean(link, m, s):
    if link == "logistic":
        return NODE_WEIGHTS @ expit(m + np.sqrt(s) * NODES)
    return {"identity": m, "square": m**2 + s, "exp": np.exp(m + s / 2)}[link]


def rate_slope(link, m, s):
    if link == "logistic":
        return logistic_slope(m, s)
    return {"identity": 1.0, "square": 2 * m, "exp": np.exp(m + s / 2)}[link]


def rate_covariance(link, i, j, m, S, share):
    """Covariance of two rates by MATH (6)-(8) if their latent covariance is `share`; marginals from `S`."""
    di, dj = (rate_slope(link, m[k], S[k, k]) for k in (i, j))
    if link == "exp":
        return di * dj * (np.exp(share) - 1)
    return di * dj * share + (2 * share**2 if link == "square" else 0.0)


def first_order(link, i, j, m, S, share):
    """What the cheap residual modes use between two individuals."""
    return rate_slope(link, m[i], S[i, i]) * rate_slope(link, m[j], S[j, j]) * share


def naive_moments(link, latent, residual="exact", drawn=None):
    """Mean of one bag, its variance under the weights alone and the residual's, by loops over individuals and pairs."""
    w, m, S, low, _ = latent
    n = len(w)
    M = sum(w[i] * rate_mean(link, m[i], S[i, i]) for i in range(n))
    V_q = s = 0.0
    chosen = None if drawn is None else np.bincount(drawn, minlength=n)
    for i in range(n):
        for j in range(n):
            if residual == "exact" or i == j:
                pair = w[i] * w[j]
            elif residual == "subset":
                pair = w.sum() ** 2 * chosen[i] * chosen[j] / (SUBSET_SIZE * (SUBSET_SIZE - 1))
            else:
                pair = 0.0
            cheap, by_weights, full = (
                first_order(link, i, j, m, S, low[i, j]),
                rate_covariance(link, i, j, m, S, low[i, j]),
                rate_covariance(link, i, j, m, S, S[i, j]),
            )
            V_q += w[i] * w[j] * cheap + pair * (by_weights - cheap)
            s += pair * (full - by_weights)
    return M, V_q, s


def naive_by_bag(example, link, chunk):
    """The three numbers of all bags, (3, b), NaN for those that are not in the chunk."""
    expected = [(np.nan, np.nan, np.nan)] * len(example.bags)
    for slot, position in enumerate(chunk.position):
        if position >= 0:
            drawn = None if chunk.drawn is None else chunk.drawn[slot]
            expected[position] = naive_moments(link, example.latent[position], chunk.residual, drawn)
    return np.array(expected).T


def by_bag(values, chunk):
    """Values in the order of all bags, NaN for those that are not in the chunk."""
    position, inside = np.asarray(chunk.position), np.asarray(chunk.position) >= 0
    out = np.full((len(SIZES), *np.shape(values)[1:]), np.nan)
    out[position[inside]] = np.asarray(values)[inside]
    return out


def moments_of(example, link, chunk):
    """Means, variances under the weights and those of the residual from staged pixels, (3, b)."""
    found = pixel_moments(get_link(link), example.staged(chunk), example.mu, example.factor)
    return np.array([by_bag(part, chunk) for part in found])


@pytest.mark.parametrize("residual", ["exact", "diagonal", "subset"])
@pytest.mark.parametrize("link", ["identity", "exp", "square", "logistic"])
def test_pixel_moments_match_loops(x64, example, link, residual, tiled):
    parts = example.chunks(residual)
    assert any(part.tiles is not None for part in parts) == (tiled and residual != "exact")
    expected, found = (
        np.sum([np.nan_to_num(one(example, link, part)) for part in parts], axis=0)
        for one in (naive_by_bag, moments_of)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * expected.max())
    np.testing.assert_allclose(found[:2], expected[:2], rtol=1e-4)
    # unless its estimate from few draws is negative
    assert (found[2] > 0).sum() >= 4


@pytest.mark.parametrize(
    ("link", "residual"),
    [("identity", "exact"), ("identity", "diagonal"), ("identity", "subset"), ("square", "exact")],
)
def test_collapsed_moments_match_loops(x64, example, link, residual, tiled):
    for chunk in example.chunks(residual):
        found = collapsed_moments(example.staged(chunk, collapse=link), example.mu, example.factor)
        expected = naive_by_bag(example, link, chunk)
        np.testing.assert_allclose([by_bag(part, chunk) for part in found], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("link", ["identity", "exp", "square"])
def test_exact_moments_match_monte_carlo(x64, link):
    """Draws of the weights, then of the residual: `V_q` is the variance of the mean given the weights, `s` the rest."""
    example = make_example(spread=0.5)
    (chunk,) = example.chunks("exact")
    M, V_q, s = moments_of(example, link, chunk)
    function = {"identity": lambda f: f, "exp": np.exp, "square": np.square}[link]
    rng, n_draws = np.random.default_rng(0), 200_000
    for a, (w, m, S, low, A) in enumerate(example.latent):
        R = S - low
        values, vectors = np.linalg.eigh(R)
        half = vectors * np.sqrt(np.maximum(values, 0.0))
        f = m + rng.standard_normal((n_draws, len(example.mu))) @ (A @ example.factor).T
        T = function(f + rng.standard_normal((n_draws, len(m))) @ half.T) @ w
        given = np.stack([rate_mean(link, f[:, i], R[i, i]) for i in range(len(w))], axis=1) @ w
        assert abs(T.mean() - M[a]) < 5 * T.std() / np.sqrt(n_draws)
        for draws, variance in ((T, V_q[a] + s[a]), (given, V_q[a])):
            centred = (draws - draws.mean()) ** 2
            assert abs(centred.mean() - variance) < 5 * centred.std() / np.sqrt(n_draws)


@pytest.mark.parametrize("link", ["exp", "square"])
def test_subset_variance_is_unbiased(x64, example, link):
    """Over many draws of pairs it averages to the exact variance."""
    chunks = [example.chunks("subset", random_state=seed)[0] for seed in range(150)]
    found = np.array([moments_of(example, link, chunk)[1:] for chunk in chunks])
    exact = np.array([naive_moments(link, latent)[1:] for latent in example.latent]).T
    several = np.array(SIZES) > 1
    error = found.std(axis=0) / np.sqrt(len(found))
    assert (error[:, several] > 0).all()
    assert (np.abs(found.mean(axis=0) - exact) < 4.5 * error + 1e-4 * exact.sum(axis=0)).all()


@pytest.mark.parametrize("link", ["identity", "exp", "square"])
def test_diagonal_residual_loses_variance_when_landmarks_are_few(x64, example, link):
    far = (None, np.array([[9.0, -5.0], [8.0, 7.0], [-9.0, 6.0]]), np.array([[6.0], [-7.0]]))
    poor = replace(example, landmarks=far, known=np.ones_like(example.known), factor=0.1 * np.eye(7))
    exact, diagonal = (moments_of(poor, link, *poor.chunks(mode))[1:].sum(axis=0) for mode in ("exact", "diagonal"))
    several = np.array([np.count_nonzero(w) > 1 for w, *_ in poor.latent])
    ratio = diagonal / exact
    assert (ratio[several] < 0.995).all()
    assert np.sort(ratio)[2] < 0.7
    np.testing.assert_allclose(ratio[~several], 1.0, rtol=1e-4)


def test_first_order_of_the_exp_link_understates_the_variance(x64, example):
    """Without any residual `diagonal` differs from `exact` by the terms `exp(S_ij) - 1 - S_ij` alone."""
    exact, cheap = (example.staged(*example.chunks(mode)) for mode in ("exact", "diagonal"))
    nothing = np.zeros_like(exact.residual_diagonal)
    none = {"residual_diagonal": nothing, "own_residual": nothing}
    exact = replace(exact, **none, block_residual=np.zeros_like(exact.block_residual))
    cheap = replace(cheap, **none)
    (v_exact, none_exact), (v_cheap, none_cheap) = (
        pixel_moments(get_link("exp"), staged, example.mu, 1.5 * example.factor)[1:] for staged in (exact, cheap)
    )
    assert not none_exact.any()
    assert not none_cheap.any()
    several = np.count_nonzero(exact.weight, axis=1) > 1
    assert (v_cheap[several] < 0.97 * v_exact[several]).all()


@pytest.mark.parametrize(
    ("link", "collapse"),
    [
        ("identity", False),
        ("identity", True),
        ("square", False),
        ("square", True),
        ("exp", False),
        ("logistic", False),
    ],
)
def test_moments_given_weights_and_their_slopes_match_loops(x64, example, link, collapse):
    (chunk,) = example.chunks("exact")
    staged = example.staged(chunk, link if collapse else None)
    v = example.mu + np.linspace(-0.3, 0.4, len(example.mu))
    T, s = moments_given_weights(get_link(link), staged, v)

    def totals(v):
        found = []
        for w, m, S, low, A in example.latent:
            f, R = m + A @ (v - example.mu), S - low
            mean = sum(w[i] * rate_mean(link, f[i], R[i, i]) for i in range(len(w)))
            pairs = [(i, j) for i in range(len(w)) for j in range(len(w))]
            found.append((mean, sum(w[i] * w[j] * rate_covariance(link, i, j, f, R, R[i, j]) for i, j in pairs)))
        return np.array(found).T

    np.testing.assert_allclose(by_bag(T, chunk), totals(v)[0], rtol=1e-5)
    np.testing.assert_allclose(by_bag(s, chunk), totals(v)[1], rtol=1e-4)
    step = 1e-5 * np.eye(len(v))
    slopes = [(totals(v + e)[0] - totals(v - e)[0]) / 2e-5 for e in step]
    J = jacobian(get_link(link), staged, v)
    np.testing.assert_allclose(by_bag(J, chunk), np.array(slopes).T, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("residual", ["diagonal", "subset"])
@pytest.mark.parametrize("link", ["identity", "exp", "square", "logistic"])
def test_moments_given_weights_are_those_of_certain_weights(x64, example, link, residual, tiled):
    """What `q` makes of them when its covariance vanishes: `V_q = 0`, the rest as it is."""
    for chunk in example.chunks(residual):
        staged = example.staged(chunk)
        T, s = moments_given_weights(get_link(link), staged, example.mu)
        M, V_q, certain = pixel_moments(get_link(link), staged, example.mu, 1e-6 * example.factor)
        np.testing.assert_allclose(T, M, rtol=1e-5)
        np.testing.assert_allclose(s, certain, rtol=1e-4, atol=1e-6)
        assert (V_q < 1e-6 * (s + 1)).all()


def naive_residual_with_total(example, chunk, influence):
    """`sum_j u_j R_ij` of every row (n), from the drawn individuals for a subset."""
    found = np.full(example.bags.n_individuals, np.nan)
    for slot, position in enumerate(chunk.position):
        if position < 0:
            continue
        start, stop = example.bags.starts[position], example.bags.starts[position + 1]
        w, _, S, low, _ = example.latent[position]
        R, u = S - low, influence[start:stop]
        for i in range(len(w)):
            others = [j for j in range(len(w)) if j != i]
            if chunk.residual == "exact":
                rest = sum(u[j] * R[i, j] for j in others)
            elif chunk.residual == "diagonal":
                rest = 0.0
            else:
                chosen = np.bincount(chunk.drawn[slot], minlength=len(w))
                rest = sum(chosen[j] * u[j] / w[j] * R[i, j] for j in others if w[j] > 0) * w.sum() / SUBSET_SIZE
            found[start + i] = u[i] * R[i, i] + rest
    return found


residual_with_total = compiled(moments.residual_with_total)


def covariances_with_total(example, residual, influence, random_state=0):
    """What the source and what the loops find, (2, n)."""
    found, expected = [], np.full(example.bags.n_individuals, np.nan)
    parts = example.chunks(residual, random_state)
    for chunk in parts:
        own = np.where(chunk.rows >= 0, influence[chunk.rows], 0.0).astype(np.float32)
        staged, with_drawn = staged_once(example.basis, chunk, example.mu, example.factor, cross=True)
        found.append(np.asarray(residual_with_total(staged, own, with_drawn)))
        naive = naive_residual_with_total(example, chunk, influence)
        expected = np.where(np.isnan(naive), expected, naive)
    return chunks.gather_rows(found, parts), expected


@pytest.mark.parametrize("residual", ["exact", "diagonal", "subset"])
def test_covariance_of_residuals_with_a_sum_over_the_bag_matches_loops(x64, example, residual, tiled, rng):
    """MATH (14). Influences differ from weights, and are zero where those are."""
    influence = example.bags.weight * rng.uniform(0.4, 2.0, example.bags.n_individuals)
    found, expected = covariances_with_total(example, residual, influence)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_covariance_of_residuals_with_a_sum_over_a_subset_is_unbiased(x64, example, rng):
    influence = example.bags.weight * rng.uniform(0.4, 2.0, example.bags.n_individuals)
    exact = covariances_with_total(example, "exact", influence)[1]
    draws = np.array([covariances_with_total(example, "subset", influence, seed)[0] for seed in range(100)])
    error = draws.std(axis=0) / np.sqrt(len(draws))
    assert (np.abs(draws.mean(axis=0) - exact) < 4.5 * error + 1e-4).all()
    assert (error > 0).sum() > 10


def test_logarithms_of_sums_over_tiles_match_whole_bags(x64, rng):
    """Weights of zero do not count, however large their values; gradients are shares of the sum."""
    values, weight = rng.normal(0, 30, (4, 3)), rng.exponential(1.0, (4, 3))
    weight[1, 2], values[1, 2] = 0.0, 900.0
    tiles = chunks.Tiles(np.array([0, 0, 0, 1]), np.array([0, 3]))
    bags = [(values[:3].ravel(), weight[:3].ravel()), (values[3], weight[3])]
    expected = [logsumexp(v, b=w) for v, w in bags]
    np.testing.assert_allclose(moments.logsumexp_bags(tiles, values, weight), expected, rtol=1e-12)
    slopes = jax.grad(lambda values: moments.logsumexp_bags(tiles, values, weight).sum())(values)
    shares = [w * np.exp(np.minimum(v, 500) - total) for (v, w), total in zip(bags, expected, strict=True)]
    np.testing.assert_allclose(np.ravel(slopes), np.concatenate(shares), atol=1e-12)


@pytest.mark.parametrize("link", ["exp", "square", "logistic"])
def test_bag_directions_match_loops(x64, example, link, tiled):
    parts = example.chunks("diagonal")
    found = [bag_directions(get_link(link), example.staged(part), example.mu, example.factor) for part in parts]
    directions = gather([np.asarray(one) for one in found], parts)
    expected = [
        sum(w[i] * rate_slope(link, m[i], S[i, i]) * A[i] for i in range(len(w))) for w, m, S, _, A in example.latent
    ]
    np.testing.assert_allclose(directions, expected, rtol=1e-4, atol=1e-5)


def test_identity_covariance_between_bags_from_directions(x64, example):
    """Between bags only the weights are shared, so `b Sigma b^T` is exact for the identity link."""
    (chunk,) = example.chunks("exact")
    found = bag_directions(get_link("identity"), example.staged(chunk), example.mu, example.factor)
    b = by_bag(found, chunk)
    (w0, _, _, _, A0), (w3, _, _, _, A3) = example.latent[0], example.latent[3]
    expected = w0 @ A0 @ example.factor @ example.factor.T @ A3.T @ w3
    np.testing.assert_allclose(b[0] @ example.factor @ example.factor.T @ b[3], expected, rtol=1e-5)


@pytest.mark.parametrize("residual", ["exact", "diagonal", "subset"])
def test_moments_scale_with_the_weights(x64, example, residual):
    """`T` is linear in the weights: doubling them doubles `M` and quadruples both variances."""
    (chunk,) = example.chunks(residual)
    double = Chunk(**{**vars(chunk), "weight": 2 * chunk.weight})
    link = get_link("square")
    M, V, s = pixel_moments(link, example.staged(chunk), example.mu, example.factor)
    M2, V2, s2 = pixel_moments(link, example.staged(double), example.mu, example.factor)
    np.testing.assert_allclose(M2, 2 * M, rtol=1e-6)
    np.testing.assert_allclose(V2, 4 * V, rtol=1e-5)
    np.testing.assert_allclose(s2, 4 * s, rtol=1e-4)


def test_square_mean_carries_the_weight_of_both_terms(x64, example):
    """`M = sum w_i (m_i^2 + S_ii)`; the paper prints `m_i^2 + S_ii / 2` without weights (MATH section 3)."""
    (chunk,) = example.chunks("exact")
    M = pixel_moments(get_link("square"), example.staged(chunk), example.mu, example.factor)[0]
    printed = [np.sum(m**2 + np.diag(S) / 2) for w, m, S, _, _ in example.latent]
    right = [np.sum(w * (m**2 + np.diag(S))) for w, m, S, _, _ in example.latent]
    np.testing.assert_allclose(by_bag(M, chunk), right, rtol=1e-5)
    assert (np.abs(np.array(printed) / right - 1) > 0.05).all()


@pytest.mark.parametrize("residual", ["exact", "diagonal", "subset"])
@pytest.mark.parametrize("cross", [True, False])
def test_staging_in_blocks_gives_what_one_function_does(x64, example, residual, cross, tiled, monkeypatch):
    """Blocks that the rows and bags do not fill; latent values and moments of totals follow from them."""
    monkeypatch.setattr("vbagg.staging.ROWS", 5)
    monkeypatch.setattr("vbagg.staging.PAIRS", 3 * (2 * SUBSET_SIZE if residual == "subset" else 36))
    anew = compiled(partial(stage_for_prediction, FEATURE_MAP), static_argnames="cross")
    for chunk in example.chunks(residual):
        expected, (found, _) = (
            example.staged(chunk),
            anew(example.basis, chunk, example.mu, example.factor, cross=cross),
        )
        inside, bags = chunk.rows >= 0, chunk.position >= 0
        for name in ("A", "residual_diagonal", "own_residual"):
            theirs, ours = getattr(expected, name)[inside], getattr(found, name)[inside]
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6, err_msg=name)
        for ours, theirs in zip(
            moments.marginals(found, 0.0, 0.0), moments.marginals(expected, example.mu, example.factor), strict=True
        ):
            np.testing.assert_allclose(ours[inside], theirs[inside], rtol=1e-5, atol=1e-6)
        if residual == "exact":
            both = (inside[:, :, None] & inside[:, None, :])[bags]
            np.testing.assert_allclose(found.block_residual[bags][both], expected.block_residual[bags][both], atol=1e-6)
        elif residual == "subset":
            np.testing.assert_allclose(found.block_residual[bags], expected.block_residual[bags], atol=1e-6)
        of_bags = [pixel_moments(get_link("exp"), one, example.mu, example.factor) for one in (found, expected)]
        for ours, theirs in zip(*of_bags, strict=True):
            np.testing.assert_allclose(ours[bags], theirs[bags], rtol=1e-4, atol=1e-5)
