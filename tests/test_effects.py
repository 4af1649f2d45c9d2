"""Effects of bags against importance sampling of the exact posterior, and how odd outputs are told."""

import warnings

import jax
import numpy as np
import pandas as pd
import pytest
from scipy import stats

import vbagg
from vbagg.effects import Tails, stand_out
from vbagg.features import features, residual_block
from vbagg.laws import Mixture, NegativeBinomial, Normal
from vbagg.likelihoods import NegativeBinomial as WithEffect

N = 10
NODES, NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(60)
NODE_WEIGHTS = NODE_WEIGHTS / NODE_WEIGHTS.sum()


def one_each(kind, seed=3):
    """Bags of one individual, so that a total is `w Psi(f)`, and their outputs."""
    rng = np.random.default_rng(seed)
    x, weight = np.sort(rng.uniform(0, 6, N)), rng.uniform(3, 9, N)
    f = np.sin(x) + rng.normal(0, 0.4, N)
    if kind == "binomial":
        trials = rng.integers(6, 30, N).astype(float)
        y = rng.binomial(trials.astype(int), 1 / (1 + np.exp(0.5 - f))).astype(float)
        y[4] = trials[4]
        return vbagg.Bags(x[:, None], np.arange(N), weight), y, {"trials": trials}
    y = rng.poisson(weight * np.exp(f)).astype(float)
    y[4] = 3 * y[4]
    return vbagg.Bags(x[:, None], np.arange(N), weight), y, {}


def exact_effects(model, bags, y, link, log_prob, given=None, n=20_000):
    """Mean and sd of each total over its mean given the weights, the weights sampled and each residual by quadrature.

    `given` are mean and second moment of the bag's own factor, given its total without it and the output.
    """
    member, frame = model._fitted.members[0], model._fitted.frame
    rate = {"exp": np.exp, "logistic": lambda f: 1 / (1 + np.exp(-f)), "square": np.square}[link]
    with jax.enable_x64(True):
        X = frame.scaler.forward(bags.X)
        A = np.asarray(features(member.spec.feature_map, member.basis, X))
        own = [float(residual_block(member.spec.feature_map, member.basis, X[[a]], A[[a]])[0, 0]) for a in range(N)]
    q, rng = member.q, np.random.default_rng(5)
    z = rng.standard_t(6, (n, len(q.mu)))
    v = q.mu + 1.2 * z @ q.factor.T
    log_weight = -0.5 * np.sum(v**2, axis=1) - stats.t.logpdf(z, 6).sum(axis=1)
    moments = []
    for a in range(N):
        scale = 1.0 if link == "logistic" else bags.weight[a] * frame.rate_scale
        f = (frame.base + A[a] @ v.T)[:, None] + np.sqrt(own[a]) * NODES
        T = scale * rate(f)
        likely = np.exp(log_prob(y[a], T, a)) * NODE_WEIGHTS
        total = likely.sum(axis=1)
        log_weight = log_weight + np.log(total)
        one, two = (np.ones_like(T), np.ones_like(T)) if given is None else given(y[a], T)
        ratio = T / (T @ NODE_WEIGHTS)[:, None]
        moments.append([(likely * ratio * one).sum(axis=1) / total, (likely * ratio**2 * two).sum(axis=1) / total])
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    assert 1 / np.sum(weight**2) > 300
    first, second = np.array(moments).transpose(1, 0, 2) @ weight
    return first, np.sqrt(second - first**2)


KERNEL = vbagg.kernels.RBF(lengthscale=0.8, fixed="lengthscale") + vbagg.kernels.White(variance=0.15, fixed="variance")


@pytest.mark.parametrize(("kind", "link"), [("poisson", "exp"), ("poisson", "square"), ("binomial", "logistic")])
def test_effects_match_importance_sampling(kind, link):
    bags, y, also = one_each(kind)
    model = vbagg.VBAgg(kind, link, kernel=KERNEL, landmarks=4, hyper="point").fit(bags, y, **also)
    densities = {
        "poisson": lambda y, T, a: stats.poisson.logpmf(y, T),
        "binomial": lambda y, T, a: stats.binom.logpmf(y, int(also["trials"][a]), T),
    }
    mean, sd = exact_effects(model, bags, y, link, densities[kind])
    found = model.bag_effects(bags, **also).effect
    assert (np.abs(mean - 1) / sd).max() > 0.6
    np.testing.assert_array_less(np.abs(found.mean - mean), 0.25 * sd)
    np.testing.assert_allclose(found.std, sd, rtol=0.2)


def test_the_gamma_effect_of_counts_matches_importance_sampling():
    """Given its total `T` and the output it is gamma with shape `1/phi + y` and rate `1/phi + T`."""
    phi = 0.15
    bags, y, _ = one_each("poisson")
    model = vbagg.VBAgg(WithEffect(phi), "exp", kernel=KERNEL, landmarks=4, hyper="point").fit(bags, y)

    def given(y, T):
        shape, rate = 1 / phi + y, 1 / phi + T
        return shape / rate, shape * (shape + 1) / rate**2

    density = lambda y, T, a: stats.nbinom.logpmf(y, 1 / phi, 1 / (1 + phi * T))  # noqa: E731
    mean, sd = exact_effects(model, bags, y, "exp", density, given)
    found = model.bag_effects(bags).effect
    assert mean.max() > 1.4
    # a gamma effect taken as log-normal
    np.testing.assert_array_less(np.abs(found.mean - mean), 0.3 * sd)
    np.testing.assert_allclose(found.std, sd, rtol=0.2)


def test_effects_of_normal_outputs_are_differences():
    """The residual of a Gaussian process, by dense matrices."""
    bags, _, _ = one_each("poisson")
    y = bags.weight * (2 + np.sin(bags.X[:, 0])) + np.random.default_rng(1).normal(0, 2, N)
    model = vbagg.VBAgg("normal", "identity", kernel=KERNEL, landmarks=4, hyper="point").fit(bags, y)
    member, frame, w = model._fitted.members[0], model._fitted.frame, bags.weight
    with jax.enable_x64(True):
        A = np.asarray(features(member.spec.feature_map, member.basis, frame.scaler.forward(bags.X)))
        X = frame.scaler.forward(bags.X)
        R = np.array(
            [float(residual_block(member.spec.feature_map, member.basis, X[[a]], A[[a]])[0, 0]) for a in range(N)]
        )
    scale = w * frame.rate_scale
    noise = model.likelihood_parameters_["tau"] * w**2
    S = np.outer(scale, scale) * (A @ A.T + np.diag(R)) + np.diag(noise)
    own = np.diag(scale**2 * R)
    mean = own @ np.linalg.solve(S, y - scale * frame.base)
    sd = np.sqrt(np.diag(own - own @ np.linalg.solve(S, own)))
    found = model.bag_effects(bags)
    assert found.no_effect == 0.0
    np.testing.assert_allclose(found.effect.mean, mean, atol=1e-4 * np.abs(mean).max())
    np.testing.assert_allclose(found.effect.std, sd, rtol=1e-3)
    # leave one out of a Gaussian process
    inverse = np.linalg.inv(S)
    np.testing.assert_allclose(
        found.from_others.mean, y - (inverse @ (y - scale * frame.base)) / np.diag(inverse), rtol=1e-4
    )
    np.testing.assert_allclose(found.from_others.std, 1 / np.sqrt(np.diag(inverse)), rtol=1e-3)
    z = np.abs(y - found.from_others.mean) / found.from_others.std
    np.testing.assert_allclose(found.chance, 2 * stats.norm.sf(z), rtol=1e-6)


@pytest.fixture(scope="module")
def faulty():
    """Sixty bags with effects, three of which report five times too much and one a tenth; two say nothing."""
    rng = np.random.default_rng(8)
    label = np.repeat([f"b{i:02}" for i in range(60)], rng.integers(3, 12, 60))
    centre = dict(zip(dict.fromkeys(label), rng.uniform(0, 10, (60, 2)), strict=True))
    X = np.array([centre[one] for one in label]) + rng.normal(0, 0.3, (len(label), 2))
    bags = vbagg.Bags(pd.DataFrame(X, columns=["x", "y"]), label, rng.gamma(2, 8, len(label)), coordinates=["x", "y"])
    T = bags.sum_by_bag(bags.weight * np.exp(0.6 * np.sin(0.7 * bags.X[:, 0]) + 0.4 * np.cos(0.6 * bags.X[:, 1])))
    y = rng.poisson(T * rng.gamma(1 / 0.06, 0.06, 60)).astype(float)
    y[[11, 30, 52]], y[41] = 5 * y[[11, 30, 52]], y[41] // 10
    y[[5, 6]] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return vbagg.VBAgg("negative_binomial", landmarks=25).fit(bags, y), bags, y


def test_planted_faults_stand_out(faulty):
    model, bags, y = faulty
    found = model.bag_effects(bags)
    assert len(model._fitted.members) > 1
    assert set(bags.labels[found.stands_out()]) == {"b11", "b30", "b41", "b52"}
    table = found.table(0.9)
    odd = table.loc[["b11", "b30", "b52"]]
    assert (odd["effect"] > 2).all()
    assert (odd["effect_above"] > 0.99).all()
    assert (table.loc["b41", ["effect", "effect_above"]] < [0.5, 0.01]).all()
    assert (odd["from_others_upper"] < y[[11, 30, 52]]).all()
    others = table.drop(["b11", "b30", "b41", "b52", "b05", "b06"])
    assert (others["chance"] > 0.01).all()
    assert (np.abs(np.log(others["effect"])) < np.log(2)).mean() > 0.9


def test_of_bags_without_an_output_there_is_no_effect(faulty):
    model, bags, _ = faulty
    found = model.bag_effects(bags)
    table = found.table()
    gaps = table.loc[["b05", "b06"]]
    assert gaps[["effect", "effect_lower", "effect_upper", "effect_above", "chance"]].isna().all().all()
    assert not gaps["stands_out"].any()
    new = model.predictive_bags(bags).quantile([0.5, 0.025, 0.975])[:, [5, 6]]
    np.testing.assert_allclose(gaps.filter(like="from_others").to_numpy().T, new)
    np.testing.assert_allclose(found.effect.mean[[5, 6]], 1.0, rtol=1e-6)
    assert table.drop(["b05", "b06"]).notna().all().all()


def test_members_that_agree_on_a_quantile_leave_nothing_to_seek():
    """Numerical laws of small counts whose quantiles are the same."""
    rng = np.random.default_rng(0)
    bags = vbagg.Bags(rng.normal(size=(40, 1)), np.repeat(np.arange(10), 4), rng.uniform(0.2, 0.5, 40))
    y = rng.poisson(0.5, 10).astype(float)
    model = vbagg.VBAgg("zero_inflated_poisson", "exp", landmarks=4).fit(bags, y)
    assert len(model._fitted.members) > 1
    assert (model.bag_effects(bags).from_others.quantile(0.01) == 0).all()


def test_some_of_the_bags_are_enough(faulty):
    model, bags, _ = faulty
    whole = model.bag_effects(bags).table()
    part = model.bag_effects(bags[[30, 5, 7]]).table()
    columns = whole.columns.drop(["chance", "stands_out"])
    pd.testing.assert_frame_equal(part[columns], whole.loc[part.index, columns], rtol=1e-5)


def test_members_that_an_output_favours_count_less_without_it(faulty):
    model, bags, y = faulty
    law = model.bag_effects(bags).from_others
    weights = np.array([member.weight for member in model._fitted.members])
    assert law.weights.shape == (len(weights), len(bags))
    np.testing.assert_allclose(law.weights.sum(axis=0), 1.0)
    np.testing.assert_allclose(law.weights[:, 5], weights / weights.sum())
    a = 30
    likely = np.array([float(np.exp(own.log_prob(y)[a])) for own in law.laws])
    by_hand = weights / likely
    np.testing.assert_allclose(law.weights[:, a], by_hand / by_hand.sum(), rtol=1e-9)
    assert np.ptp(law.weights[:, a] / law.weights[:, 5]) > 0.5


def test_suppressed_counts_are_as_odd_as_the_likeliest_of_them(faulty):
    _, bags, y = faulty
    lower, upper = y.copy(), np.full(60, np.nan)
    upper[[2, 20, 41]] = 2 * y[2], y[20] + 40, y[41] + 5
    lower[41] = 0
    model = vbagg.VBAgg(WithEffect(0.06), landmarks=20, hyper="point").fit(bags, lower, upper=upper)
    found = model.bag_effects(bags)
    law = found.from_others
    for a in (2, 20, 41):
        assert found.tails.at_most[a] == law.cdf(upper)[a]
        assert found.tails.at_least[a] == law.exceedance(lower - 1)[a]
    # all that it may be is odd, what others may be is not
    assert found.chance[41] < 0.01
    assert (found.chance[[2, 20]] > 0.1).all()
    assert found.effect.mean[41] < 0.5


def test_tails_of_counts_and_numbers():
    counts = NegativeBinomial([4.0, 4.0, 4.0, 4.0], 3.0)
    y = np.array([0.0, 17.0, 17.4, np.nan])
    mass = stats.nbinom(3.0, 3 / 7.0)
    found = Tails.of(counts, y, y)
    np.testing.assert_allclose(found.at_least, [1, mass.sf(16), mass.sf(16), np.nan], rtol=1e-6)
    np.testing.assert_allclose(found.at_most, [mass.cdf(0), mass.cdf(17), mass.cdf(18), np.nan], rtol=1e-6)
    np.testing.assert_allclose(found.chance, [2 * mass.cdf(0), 2 * mass.sf(16), 2 * mass.sf(16), np.nan], rtol=1e-6)
    # no more than half of the counts are on either side of some
    assert Tails.of(counts, np.full(4, 3.0), np.full(4, 3.0)).chance[0] == 1.0
    between = Tails.of(counts, np.array([8.0, 0, 0, 9.0]), np.array([20.0, 2.0, 40.0, np.inf]))
    np.testing.assert_allclose(between.chance, [2 * mass.sf(7), 2 * mass.cdf(2), 1.0, 2 * mass.sf(8)], rtol=1e-6)
    ends = np.array([6.0, 0.0])
    found = Tails.of(Normal([1.0, 1.0], 2.0), ends, ends)
    np.testing.assert_allclose(found.chance, 2 * stats.norm.sf([2.5, 0.5]))


@pytest.mark.parametrize("spread", [0.6, 1.0, 1.4])
def test_the_bulk_of_outputs_tells_how_much_they_vary(spread):
    """Scores of this sd, a few of them far out; what is expected is one."""
    z = np.random.default_rng(3).normal(0, spread, 4000)
    z[:40] = 6
    found = Tails(stats.norm.cdf(z), stats.norm.sf(z))
    assert found.spread == pytest.approx(spread, rel=0.04)
    bulk = found.chance[40:]
    for level in (0.01, 0.05, 0.3):
        assert (bulk < level).mean() == pytest.approx(level, abs=4 * np.sqrt(level / 4000))
    # too few to tell
    few = Tails(found.at_most[40:59], found.at_least[40:59])
    assert few.spread == 1.0
    np.testing.assert_allclose(few.chance, 2 * stats.norm.sf(np.abs(z[40:59])))


def test_the_bulk_of_small_counts_is_judged_by_what_they_can_be():
    """Steps of counts are no sign of less variation."""
    law = NegativeBinomial(np.full(4000, 1.1), 1.4)
    y = np.random.default_rng(0).negative_binomial(1.4, 1.4 / 2.5, 4000).astype(float)
    assert Tails.of(law, y, y).spread == pytest.approx(1.0, abs=0.05)


def test_chance_of_the_counts_that_a_law_gives_is_seldom_small():
    law = NegativeBinomial(np.full(4000, 2.5), 1.4)
    y = np.random.default_rng(0).negative_binomial(1.4, 1.4 / 3.9, 4000).astype(float)
    chance = Tails.of(law, y, y).chance
    for level in (0.01, 0.05, 0.2):
        assert (chance <= level).mean() < level + 3 * np.sqrt(level / 4000)
    assert (chance <= 0.2).mean() > 0.05


def test_stand_out_is_benjamini_and_hochbergs():
    chance = np.array([0.9, 0.001, 0.04, np.nan, 0.013, 0.03, 0.2, np.nan, 0.5])
    # of seven, 0.1 k / 7 for k = 1, 2, ...: 0.014, 0.029, 0.043, 0.057
    assert np.flatnonzero(stand_out(chance)).tolist() == [1, 2, 4, 5]
    assert np.flatnonzero(stand_out(chance, 0.05)).tolist() == [1, 4]
    reference = stats.false_discovery_control(chance[np.isfinite(chance)]) <= 0.1
    assert reference.sum() == 4
    assert not stand_out(np.array([0.2, np.nan, 0.4])).any()
    assert not stand_out(np.full(2, np.nan)).any()


def test_a_share_of_false_alarms_is_a_share():
    for wrong in (0.0, 1.0, 10):
        with pytest.raises(ValueError, match=r"`false_alarms` must lie strictly between 0 and 1; got .* Give 0.1"):
            stand_out(np.array([0.2]), wrong)


def test_mixtures_may_have_weights_for_each_row():
    laws = [Normal([0.0, 5.0, 2.0], 1.0), Normal([3.0, 1.0, -2.0], 0.5)]
    weights = np.array([[2.0, 0.0, 1.0], [1.0, 4.0, 3.0]])
    mixed = Mixture(laws, weights)
    x = np.array([0.4, 1.2, -1.0])
    for row in range(3):
        own = Mixture([law[[row]] for law in laws], weights[:, row])
        for name in ("mean", "std"):
            np.testing.assert_allclose(getattr(mixed, name)[row], getattr(own, name)[0])
        for name in ("cdf", "exceedance", "log_prob"):
            np.testing.assert_allclose(getattr(mixed, name)(x)[row], getattr(own, name)(x[[row]])[0])
        np.testing.assert_allclose(mixed.quantile([0.1, 0.7])[:, row], own.quantile([0.1, 0.7])[:, 0], rtol=1e-6)
    draws = mixed.sample(20_000, 4)
    assert (
        stats.kstest(draws[:, 0], lambda x: Mixture([l[[0]] for l in laws], weights[:, 0]).cdf(x[:, None])[:, 0]).pvalue
    ) > 1e-4
    np.testing.assert_allclose(draws.mean(axis=0), mixed.mean, atol=0.06)
    assert np.abs(draws[:, 1] - 1.0).max() < 4
    np.testing.assert_allclose(mixed[[2, 0]].mean, mixed.mean[[2, 0]])
    assert len(mixed[np.array([], dtype=int)].mean) == 0
    with pytest.raises(ValueError, match=r"one number per law"):
        Mixture(laws, np.ones((2, 2)))
    with pytest.raises(ValueError, match=r"not all zero"):
        Mixture(laws, np.array([[0.0, 1.0, 1.0], [0.0, 1.0, 1.0]]))
