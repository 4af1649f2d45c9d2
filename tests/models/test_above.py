"""Joint draws of the weight above thresholds, against laws, plain loops over draws, and one piece against several."""

import numpy as np
import pandas as pd
import pytest

import vbagg
from vbagg.bags import Bags
from vbagg.links import LINKS
from vbagg.models.above import Bins, Draws, edges_of

DRAWS = 4000
SIZES = np.random.default_rng(8).integers(2, 9, 20)
LABELS = np.array([f"b{k}" for k in range(20)])


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(1)
    label = rng.permutation(np.repeat(LABELS, SIZES))
    n = len(label)
    X = pd.DataFrame({"wet": rng.normal(2.0, 1.5, n), "x": rng.uniform(0, 40, n), "y": rng.uniform(90, 110, n)})
    bags = Bags(X, label, rng.gamma(2.0, 8.0, n))
    return bags, 0.4 * (bags.X[:, 0] - 2), rng


def fitted(data, likelihood, link, hyper="point"):
    bags, f, rng = data
    trials = None
    rates = {"exp": np.exp(f), "square": (1 + 0.3 * f) ** 2, "identity": f + 0.7, "logistic": 1 / (1 + np.exp(1 - f))}
    T = bags.sum_by_bag(bags.weight * rates[link])
    if likelihood == "binomial":
        trials = rng.integers(20, 90, 20)
        y = rng.binomial(trials, T / bags.totals()).astype(float)
    elif likelihood == "normal":
        y = T + rng.normal(0, 8.0, 20)
    else:
        y = rng.poisson(T * rng.gamma(5, 0.2, 20)).astype(float)
    y[7] = np.nan
    search = vbagg.Newton(max_iterations=4, starts=1)
    return vbagg.VBAgg(likelihood, link, landmarks=6, hyper=hyper, inference=search).fit(bags, y, trials)


@pytest.fixture(scope="module")
def counts(data):
    return fitted(data, "negative_binomial", "exp", hyper="average")


def thresholds_of(model, bags):
    """Out of order, and beyond all rates on both sides."""
    middle = model.posterior(bags).quantile(0.5)
    return np.append(np.quantile(middle, [0.9, 0.05, 0.3, 0.6]), [-0.5, 1e6])


@pytest.mark.filterwarnings("ignore::vbagg.errors.ConvergenceWarning")
@pytest.mark.parametrize(
    ("likelihood", "link"),
    [
        ("negative_binomial", "exp"),
        pytest.param("poisson", "square", marks=pytest.mark.slow),
        pytest.param("normal", "identity", marks=pytest.mark.slow),
        pytest.param("binomial", "logistic", marks=pytest.mark.slow),
    ],
)
def test_the_mean_is_the_weight_times_the_probability_of_exceedance(data, counts, likelihood, link):
    bags = data[0]
    model = counts if link == "exp" else fitted(data, likelihood, link)
    thresholds = thresholds_of(model, bags)
    drawn = model.weight_above(bags, thresholds, DRAWS, seed=3)
    assert drawn.shape == (DRAWS, len(thresholds))
    posterior = model.posterior(bags)
    for above, threshold in zip(drawn.T, thresholds, strict=True):
        expected = sum(w * p for w, p in zip(bags.weight, posterior.exceedance(threshold), strict=True))
        assert above.mean() == pytest.approx(
            expected, abs=4.5 * above.std() / np.sqrt(DRAWS) + 2e-3 * bags.weight.sum()
        )
    if link != "identity":
        np.testing.assert_allclose(drawn[:, 4], bags.weight.sum())
    np.testing.assert_array_equal(drawn[:, 5], 0.0)


def test_small_totals_leave_much_open(data):
    """Most of what is not known of these bags is how large their totals are."""
    bags, f, _ = data
    rng = np.random.default_rng(3)
    few = bags.with_arrays(bags.X, 0.03 * bags.weight)
    y = rng.poisson(few.sum_by_bag(few.weight * np.exp(f)) * rng.gamma(1, 1.0, 20)).astype(float)
    search = vbagg.Newton(max_iterations=2, starts=1)
    model = vbagg.VBAgg("negative_binomial", landmarks=4, hyper="point", inference=search)
    with pytest.warns(vbagg.errors.ConvergenceWarning):
        model.fit(few, y)
    posterior = model.posterior(few)
    thresholds = posterior.quantile(np.array([0.05, 0.95])).mean(axis=1)
    drawn = model.weight_above(few, thresholds, DRAWS, seed=3)
    for above, threshold in zip(drawn.T, thresholds, strict=True):
        expected = few.weight @ posterior.exceedance(threshold)
        assert above.mean() == pytest.approx(expected, abs=4.5 * above.std() / np.sqrt(DRAWS))


def test_draws_are_as_wide_as_those_of_a_loop_over_joint_draws(data, counts):
    """Those of `sample` are moved once more until totals are met, which makes them narrower by little."""
    bags = data[0]
    thresholds = thresholds_of(counts, bags)[:4]
    drawn = counts.weight_above(bags, thresholds, DRAWS, seed=3)
    loop = np.zeros_like(drawn)
    for number, rates in enumerate(counts.posterior(bags).sample(DRAWS, seed=5)):
        for at, threshold in enumerate(thresholds):
            loop[number, at] = sum(w for w, rate in zip(bags.weight, rates, strict=True) if rate > threshold)
    scale = bags.weight.sum()
    np.testing.assert_allclose(drawn.mean(axis=0), loop.mean(axis=0), atol=0.03 * scale)
    np.testing.assert_allclose(drawn.std(axis=0), loop.std(axis=0), rtol=0.2)
    ends = np.quantile(drawn, [0.05, 0.95], axis=0), np.quantile(loop, [0.05, 0.95], axis=0)
    np.testing.assert_allclose(*ends, atol=0.06 * scale)


def test_draws_of_parts_go_together(data, counts):
    """Added up they vary as those of all bags at once do, and by more than if parts were drawn by themselves."""
    bags = data[0]
    threshold = np.quantile(counts.posterior(bags).quantile(0.5), [0.3])
    halves = [bags[list(range(0, 20, 2))], bags[list(range(1, 20, 2))]]
    whole = counts.weight_above(bags, threshold, DRAWS, seed=3)[:, 0]
    one, other = (counts.weight_above(half, threshold, DRAWS, 3, part)[:, 0] for part, half in enumerate(halves))
    alone = counts.weight_above(halves[1], threshold, DRAWS, seed=4, part=1)[:, 0]
    assert (one + other).mean() == pytest.approx(whole.mean(), rel=0.02)
    assert (one + other).std() == pytest.approx(whole.std(), rel=0.06)
    assert (one + alone).std() < 0.93 * whole.std()


def test_draws_of_a_seed_are_the_same_again_and_parts_differ(data, counts):
    bags, thresholds = data[0], [0.8, 1.4]
    first = counts.weight_above(bags, thresholds, 50, seed=3)
    np.testing.assert_array_equal(first, counts.weight_above(bags, thresholds, 50, seed=3))
    assert (first != counts.weight_above(bags, thresholds, 50, seed=4)).any()
    # with other residuals, by the same weights
    other = counts.weight_above(bags, thresholds, 50, seed=3, part=1)
    assert (first != other).any()
    assert np.corrcoef(first[:, 0], other[:, 0])[0, 1] > 0.2


def test_members_have_draws_in_proportion_to_their_weights():
    class One:
        def __init__(self, weight):
            self.weight = weight

    assert Draws(10, 0, 0).counts([One(0.5), One(0.3), One(0.2)]) == [5, 3, 2]
    assert Draws(200, 0, 0).counts([One(2.0)]) == [200]
    counts = Draws(7, 0, 0).counts([One(0.31), One(0.02), One(0.67)])
    assert sum(counts) == 7
    np.testing.assert_allclose(counts, [2.17, 0.14, 4.69], atol=1)


@pytest.mark.parametrize("edges", [[-3.0, -1.5, 0.25, 0.26, 4.0], [0.0, 1e-9, 5.0], [2.0], [1.0, 1.0, 3.0]])
@pytest.mark.parametrize("ends", [[], [-np.inf], [np.inf]])
def test_numbers_are_counted_between_edges(edges, ends):
    every = np.sort(np.array([*edges, *ends]))
    rng = np.random.default_rng(2)
    values = np.concatenate([rng.normal(0, 3, 300), np.array(edges) + 1e-3, [-50.0, 80.0]]).astype(np.float32)
    weight = rng.exponential(2.0, len(values))
    loop = [sum(w for w, value in zip(weight, values, strict=True) if value > np.float32(edge)) for edge in every]
    np.testing.assert_allclose(Bins(every).weight_above(values, weight), loop)


@pytest.mark.parametrize("name", ["identity", "exp", "square", "logistic"])
def test_edges_are_latent_values_of_rates(name):
    link = LINKS[name]
    rates = np.array([-0.5, 0.0, 0.2, 0.7, 3.0])
    f = np.linspace(0, 4, 4001) if name == "square" else np.linspace(-4, 4, 4001)
    for rate, edge in zip(rates, edges_of(link, rates), strict=True):
        np.testing.assert_array_equal(link.rate_and_slope(f)[0] > rate, f > edge)


@pytest.mark.parametrize("wrong", [{"n": 0}, {"thresholds": [1.0, np.nan]}])
def test_draws_and_thresholds_must_be_numbers(data, counts, wrong):
    with pytest.raises(ValueError, match="must be at least 1 and `thresholds` finite"):
        counts.weight_above(data[0], **{"thresholds": [1.0], **wrong})
