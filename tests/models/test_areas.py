"""Totals of areas made of parts of bags, given the outputs of the bags."""

import numpy as np
import pytest
from test_conditioning import Pitc, counts, data, normal, squares  # noqa: F401

import vbagg
from vbagg.models.areas import AreaSums
from vbagg.models.vbagg import VBAgg


def random_areas(bags, rng, n=5):
    """Rows of several bags in each area, some rows in two of them, with weights of their own; the last is one bag."""
    row = np.concatenate([rng.permutation(bags.n_individuals), rng.choice(bags.n_individuals, 9, replace=False)])
    area = rng.integers(0, n, len(row))
    weight = bags.weight[row] * rng.uniform(0.2, 1.0, len(row))
    whole = np.arange(bags.starts[4], bags.starts[5])
    return (
        np.concatenate([row, whole]),
        np.concatenate([area, np.full(len(whole), n)]),
        np.concatenate([weight, bags.weight[whole]]),
    )


def test_areas_of_a_normal_model_have_the_exact_posterior(data, normal):  # noqa: F811
    bags, _, _ = data
    model, y = normal
    row, area, weight = random_areas(bags, np.random.default_rng(3))
    mean, covariance = Pitc(model, bags, y).posterior()
    W = np.zeros((area.max() + 1, bags.n_individuals))
    np.add.at(W, (area, row), weight)
    found = model.posterior_areas(bags, row, area, weight)
    np.testing.assert_allclose(found.mean, W @ mean, rtol=1e-4)
    np.testing.assert_allclose(found.std, np.sqrt(np.diag(W @ covariance @ W.T)), rtol=2e-3)
    # a bag is an area, with its own weights by default
    np.testing.assert_allclose(found.std[-1], model.posterior_bags(bags).std[4], rtol=2e-3)
    own = model.posterior_areas(bags, np.arange(bags.n_individuals), bags.bag)
    np.testing.assert_allclose(own.mean, model.posterior_bags(bags).mean, rtol=1e-4)


@pytest.mark.parametrize("name", ["poisson", "negative_binomial"])
def test_areas_of_counts_agree_with_draws_of_their_cells(data, counts, name):  # noqa: F811
    bags, _, _ = data
    model = counts[name]
    row, area, weight = random_areas(bags, np.random.default_rng(3))
    found = model.posterior_areas(bags, row, area, weight)
    cells = model.posterior(bags).sample(6000, seed=7)
    drawn = np.stack([np.bincount(area, weight * rates[row]) for rates in cells])
    np.testing.assert_allclose(found.mean, drawn.mean(axis=0), rtol=0.06)
    np.testing.assert_allclose(found.std, drawn.std(axis=0), rtol=0.2 if name == "poisson" else 0.35)
    np.testing.assert_allclose(found.sample(6000, seed=7).mean(axis=0), drawn.mean(axis=0), rtol=0.03)
    whole = model.posterior_bags(bags)
    np.testing.assert_allclose([found.mean[-1], found.std[-1]], [whole.mean[4], whole.std[4]], rtol=0.06)


def test_parts_of_a_bag_vary_about_its_effect_and_add_up(squares):  # noqa: F811
    model, bags = squares["map"]
    row = np.arange(64)
    quarter = (row // 8 >= 4) * 2 + (row % 8 >= 4)
    quarters, whole = model.posterior_areas(bags, row, quarter), model.posterior_bags(bags)
    np.testing.assert_allclose(quarters.mean.sum(), whole.mean[0], rtol=0.03)
    relative = quarters.std / quarters.mean
    np.testing.assert_allclose(relative, np.sqrt(np.log1p(0.4)), rtol=0.25)
    assert whole.std[0] / whole.mean[0] < 0.1
    drawn = quarters.sample(3000)
    np.testing.assert_allclose(drawn.std(axis=0), quarters.std, rtol=0.3)


def test_areas_that_are_shares_of_a_mean():
    """Where totals are averages, areas have averages too."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(90, 1))
    bags = vbagg.Bags(X, np.repeat(np.arange(15), 6), rng.gamma(2.0, 1.0, 90))
    rate = 1 / (1 + np.exp(-X[:, 0]))
    trials = rng.integers(40, 90, 15)
    y = rng.binomial(trials, bags.sum_by_bag(bags.weight * rate) / bags.totals())
    model = VBAgg("binomial", kernel=vbagg.kernels.RBF(), hyper="point").fit(bags, y, trials=trials)
    area = np.arange(90) // 9
    found, cells = model.posterior_areas(bags, np.arange(90), area), model.posterior(bags).mean
    expected = np.bincount(area, bags.weight * cells) / np.bincount(area, bags.weight)
    np.testing.assert_allclose(found.mean, expected, rtol=1e-6)
    np.testing.assert_allclose(found.sample(4000).std(axis=0), found.std, rtol=0.15)
    added = sums_of_halves(model, bags, np.arange(90), area, bags.weight)
    np.testing.assert_allclose([added.mean, added.std], [found.mean, found.std], rtol=1e-5)


@pytest.mark.parametrize(
    ("row", "area", "weight", "words"),
    [
        ([], [], None, "at least 1"),
        ([0, 1], [0], None, "same length"),
        ([0, 1], [0, 2], None, "area 1 has none"),
        ([0, 1], [0, -1], None, "numbered from 0"),
        ([0, 1], [0, 1], [1.0, 0.0], "area 1 has none"),
        ([0, 1], [0, 1], [1.0, np.nan], "positive weight"),
    ],
)
def test_wrong_areas_are_refused(data, counts, row, area, weight, words):  # noqa: F811
    with pytest.raises(ValueError, match=words):
        counts["poisson"].posterior_areas(data[0], row, area, weight)


def sums_of_halves(model, bags, row, area, weight):
    """The law of areas from sums over two sets of bags."""
    whole, parts = np.bincount(area, weight), []
    for first, last in ((0, 3), (3, len(bags))):
        inside = (bags.bag[row] >= first) & (bags.bag[row] < last)
        own, number = np.unique(area[inside], return_inverse=True)
        rows = row[inside] - bags.starts[first]
        sums = model.area_sums(bags[first:last], rows, number, weight[inside], whole[own])
        parts.append(AreaSums.packed(sums, own))
    return model.area_law(AreaSums.added(parts, np.arange(area.max() + 1)))


def test_sums_over_some_bags_add_up(data, counts):  # noqa: F811
    bags, _, _ = data
    row, area, weight = random_areas(bags, np.random.default_rng(3))
    for model in counts.values():
        found, expected = sums_of_halves(model, bags, row, area, weight), model.posterior_areas(bags, row, area, weight)
        np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-6)
        np.testing.assert_allclose(found.std, expected.std, rtol=1e-5)
        np.testing.assert_allclose(found.interval(0.9), expected.interval(0.9), rtol=1e-5)
