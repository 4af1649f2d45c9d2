"""Information about what varies inside bags: dense Gaussians, joint draws, and cases with nothing to learn."""

import jax
import numpy as np
import pandas as pd
import pytest

import vbagg
from vbagg.bags import Bags
from vbagg.information import Information, Shares

SIZES = (3, 6, 2, 5, 4, 1, 6, 2, 3, 5, 4, 6)


def share_of(bags):
    return bags.weight / bags.totals()[bags.bag]


def apart_from_bags(values, bags):
    """What rows of draws (n, rows) are above the weighted means of their bags."""
    share = share_of(bags)
    means = np.stack([np.bincount(bags.bag, share * row) for row in values])
    return values - means[:, bags.bag]


@pytest.fixture(scope="module")
def normal():
    """Bags with rows in mixed order, one of zero weight, one of a single row."""
    rng = np.random.default_rng(0)
    label = rng.permutation(np.repeat(list("kbdaicgfhejl"), SIZES))
    weight = rng.gamma(2.0, 0.5, len(label))
    weight[np.flatnonzero(label == "b")[1]] = 0.0
    bags = Bags(rng.normal([2.0, -30.0], [1.5, 8.0], (len(label), 2)), label, weight)
    f = np.sin(1.3 * bags.X[:, 0]) + (bags.X[:, 1] + 30) / 8
    y = bags.sum_by_bag(bags.weight * (2 + f)) + np.random.default_rng(1).normal(0, 0.3, len(bags))
    kernel = vbagg.kernels.Linear((0,)) + vbagg.kernels.RBF() + vbagg.kernels.White()
    return vbagg.VBAgg("normal", "identity", kernel=kernel, landmarks=bags.X).fit(bags, y), bags, y


def exact_variances(model, bags, y):
    """Prior and posterior variances inside bags, by dense matrices, averaged over sets of parameters."""
    frame, n = model._fitted.frame, bags.n_individuals
    U = (np.arange(len(bags))[:, None] == bags.bag) * bags.weight
    D = np.eye(n) - (U / U.sum(axis=1, keepdims=True))[bags.bag]
    prior, posterior, means, weights = [], [], [], []
    for member in model._fitted.members:
        with jax.enable_x64(True):
            X, feature_map = frame.scaler.forward(bags.X), member.spec.feature_map
            parts = zip(feature_map.components, member.parameters.kernel, strict=True)
            K = feature_map.mean_sd**2 + sum(np.asarray(c.within(p, X)) for c, p in parts)
        noise = member.learnt(frame.rate_scale)["tau"] / frame.rate_scale**2 * bags.weight_squares()
        gain = np.linalg.solve(U @ K @ U.T + np.diag(noise), U @ K).T
        prior.append(np.diag(D @ K @ D.T))
        posterior.append(np.diag(D @ (K - gain @ U @ K) @ D.T))
        means.append(D @ gain @ (y / frame.rate_scale - U @ np.full(n, frame.base)))
        weights.append(member.weight)
    between = np.array(means) - np.average(means, axis=0, weights=weights)
    left = np.average(posterior + between**2, axis=0, weights=weights)
    return np.average(prior, axis=0, weights=weights), left


def test_variances_are_those_of_the_exact_process(normal):
    model, bags, y = normal
    assert len(model._fitted.members) > 3
    prior, posterior = exact_variances(model, bags, y)
    found = model.information(bags)
    many = bags.sizes[bags.bag] > 1
    np.testing.assert_allclose(found.prior[many], prior[many], rtol=1e-5)
    np.testing.assert_allclose(found.posterior[many], posterior[many], rtol=1e-5)
    expected = 1 - posterior[many] / prior[many]
    assert np.ptp(expected) > 0.5
    np.testing.assert_allclose(found.individuals[many], np.clip(expected, 0, 1), atol=1e-5)
    assert np.isnan(found.individuals[~many]).all()
    assert (~many).sum() == 1
    for a in range(len(bags)):
        rows, w = bags.bag == a, bags.weight[bags.bag == a]
        if rows.sum() > 1:
            assert found.bags[a] == pytest.approx(1 - w @ posterior[rows] / (w @ prior[rows]), abs=1e-5)
    assert np.isnan(found.bags[bags.sizes == 1]).all()
    w = bags.weight * many
    assert found.overall == pytest.approx(1 - w @ posterior / (w @ prior), abs=1e-5)


def test_rows_without_weight_change_nothing_for_the_others(normal):
    model, bags, _ = normal
    found, fewer = model.information(bags), model.information(bags.drop_zero_weight())
    np.testing.assert_allclose(fewer.individuals, found.individuals[bags.weight > 0], atol=1e-6)
    assert np.isfinite(found.individuals[bags.weight == 0]).all()


def spread_bags(seed, n=40):
    rng = np.random.default_rng(seed)
    label = np.repeat(np.arange(n), rng.integers(2, 9, n))
    place = rng.uniform(0, 6, (n, 2))[label] + rng.normal(0, 0.4, (len(label), 2))
    frame = pd.DataFrame({"x": place[:, 0], "y": place[:, 1], "wet": rng.normal(2, 1.5, len(label))})
    bags = Bags(frame, label, rng.gamma(2.0, 20.0, len(label)), coordinates=["x", "y"])
    return bags, 0.5 * (bags.X[:, 2] - 2) + np.sin(bags.X[:, 0]) - 1, rng


CASES = {
    "poisson, exp": ("poisson", "exp", np.log),
    "negative binomial, exp": ("negative_binomial", "exp", np.log),
    "poisson, square": ("poisson", "square", np.sqrt),
    "binomial": ("binomial", "logistic", lambda p: np.log(p / (1 - p))),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name.startswith("negative") else pytest.mark.slow) for name in CASES]
)
def test_variances_left_are_those_of_joint_draws(name):
    """Draws whose totals are those of the posterior; of bags without an output effects vary inside too."""
    likelihood, link, inverse = CASES[name]
    bags, f, rng = spread_bags(3)
    trials = np.full(len(bags), 60.0) if likelihood == "binomial" else None
    rate = 1 / (1 + np.exp(-f)) if likelihood == "binomial" else (3 + f) ** 2 / 9 if link == "square" else np.exp(f)
    total = bags.sum_by_bag(bags.weight * rate) * (0.2 if trials is None else 1 / bags.totals())
    if likelihood == "negative_binomial":
        total = total * rng.gamma(1 / 0.15, 0.15, len(total))
    y = (rng.poisson(total) if trials is None else rng.binomial(60, total)).astype(float)
    y[[3, 8]] = np.nan
    model = vbagg.VBAgg(likelihood, link, landmarks=20).fit(bags, y, trials=trials)
    found = model.information(bags)
    draws = model.posterior(bags).sample(3000, seed=1)
    left = apart_from_bags(inverse(draws / model.rate_scale_), bags).var(axis=0)
    seen = ~np.isin(bags.bag, [3, 8])
    ratio = found.posterior / left
    assert abs(np.median(ratio[seen]) - 1) < 0.06
    assert ((ratio[seen] > 0.75) & (ratio[seen] < 1.3)).mean() > 0.95
    assert np.corrcoef(np.log(found.posterior), np.log(left))[0, 1] > 0.98
    assert np.ptp(found.bags) > 0.3
    if likelihood == "negative_binomial":
        assert (ratio[~seen] > 1.2).all()
    else:
        np.testing.assert_allclose(ratio[~seen], 1, atol=0.15)


@pytest.mark.parametrize("own", [False, True])
def test_nothing_is_learnt_where_bags_are_uniform(own):
    """A covariate that is the same all over a bag, no place; individual effects of equal weights: exactly nothing."""
    rng = np.random.default_rng(2)
    label = np.repeat(np.arange(30), rng.integers(2, 7, 30))
    wet = rng.normal(0, 2, 30)
    bags = Bags(pd.DataFrame({"wet": wet[label]}), label, np.full(len(label), 30.0))
    y = rng.poisson(bags.totals() * np.exp(0.4 * wet))
    kernel = vbagg.kernels.Linear() + vbagg.kernels.RBF()
    model = vbagg.VBAgg("poisson", kernel=kernel + vbagg.kernels.White() if own else kernel, hyper="point")
    found = model.fit(bags, y).information(bags)
    np.testing.assert_allclose(found.individuals, 0, atol=1e-5)
    np.testing.assert_allclose(found.bags, 0, atol=1e-5)
    assert found.overall == pytest.approx(0, abs=1e-5)
    assert (found.prior > found.nothing).all() == own


@pytest.mark.slow
def test_drawn_pairs_tell_about_what_all_pairs_do():
    """Bags of up to 220 individuals, cut into tiles, with a rough spatial effect that few landmarks explain."""
    rng = np.random.default_rng(5)
    label = np.repeat(np.arange(14), rng.integers(130, 220, 14))
    place = rng.uniform(0, 4, (14, 2))[label] + rng.uniform(-0.5, 0.5, (len(label), 2))
    frame = pd.DataFrame({"x": place[:, 0], "y": place[:, 1]})
    bags = Bags(frame, label, rng.gamma(2.0, 1.0, len(label)), coordinates=["x", "y"])
    y = rng.poisson(bags.sum_by_bag(bags.weight * np.exp(np.sin(2 * bags.X[:, 0]))))
    kernel = vbagg.kernels.Matern32(lengthscale=0.4, fixed="lengthscale")
    options = {"kernel": kernel, "landmarks": 15, "hyper": "point"}
    found = {mode: vbagg.VBAgg("poisson", residual=mode, **options).fit(bags, y) for mode in ("exact", "subset")}
    exact, drawn = (model.information(bags) for model in found.values())
    assert exact.overall > 0.02
    assert drawn.overall == pytest.approx(exact.overall, abs=0.03)
    by_bag = [np.bincount(bags.bag, bags.weight * own.prior) / bags.totals() for own in (exact, drawn)]
    np.testing.assert_allclose(by_bag[1], by_bag[0], rtol=0.2)


def test_effects_vary_about_the_mean_of_a_bag_as_independent_draws():
    weight, bag = np.array([1, 8, 0.5, 2, 1, 1, 3.0]), np.array([0, 0, 0, 1, 1, 1, 2])
    share = weight / np.bincount(bag, weight)[bag]
    e = np.random.default_rng(0).standard_normal((100_000, 7))
    mean = (share * e) @ (bag[:, None] == bag)
    z = np.where(share < 1, (e - mean) / np.maximum(np.std(e - mean, axis=0), 1e-9), 0.0)
    d = z - (share * z) @ (bag[:, None] == bag)
    np.testing.assert_allclose(Shares(bag, share, 3).varied, d.var(axis=0), rtol=0.02, atol=1e-9)


def test_shares_stay_between_nothing_and_all():
    """Less certain than before counts as nothing; a bag's share is of sums, so that one cell's loss is another's."""
    labels, bag = np.array(["a", "b"], dtype=object), np.array([0, 0, 1])
    prior, posterior = np.array([2.0, 1.0, 0.0]), np.array([0.5, 1.5, 0.0])
    found = Information(labels, bag, np.array([1.0, 3.0, 2.0]), prior, posterior, 1e-9)
    np.testing.assert_allclose(found.individuals, [0.75, 0.0, np.nan])
    np.testing.assert_allclose(found.bags, [0.0, np.nan])
    assert found.overall == 0.0
    better = Information(labels, bag, np.array([3.0, 1.0, 2.0]), prior, posterior, 1e-9)
    np.testing.assert_allclose(better.bags, [1 - 3 / 7, np.nan])
    assert better.overall == pytest.approx(1 - 3 / 7)
    assert "57%" in repr(better)
