import warnings

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vbagg
from vbagg import representatives
from vbagg.bags import Bags
from vbagg.inference.sums import Sums
from vbagg.representatives import Numbers, first_representatives, group_means, representative_bags, total_error


@pytest.fixture
def bags(rng):
    """Bags of 3 to 90 individuals in elongated clouds."""
    sizes = np.array([40, 3, 90, 17])
    X = rng.normal(size=(sizes.sum(), 2)) * [3.0, 0.5] + np.repeat(rng.normal(size=(4, 2)), sizes, axis=0)
    return Bags(X, np.repeat(list("abcd"), sizes), rng.exponential(size=len(X)))


def test_totals_of_linear_functions_are_kept(bags, rng):
    known = rng.normal(size=bags.n_individuals)
    made = representative_bags(bags, known, np.full(4, 8))
    fewer, fewer_known = made.bags, made.known
    assert fewer.sizes.tolist() == [8, 3, 8, 8]
    linear = 0.3 + bags.X @ [1.0, -2.0] + 0.5 * known
    of_fewer = 0.3 + fewer.X @ [1.0, -2.0] + 0.5 * fewer_known
    expected = bags.sum_by_bag(bags.weight * linear)
    np.testing.assert_allclose(fewer.sum_by_bag(fewer.weight * of_fewer), expected, rtol=1e-12)


@pytest.mark.parametrize("together", [1, 41, 60, 150])
def test_it_makes_no_difference_how_many_bags_are_split_at_the_same_time(bags, rng, monkeypatch, together):
    known = rng.normal(size=bags.n_individuals)
    arguments = bags, known, np.array([8, 8, 16, 8]), np.array([4, 8, 4, 8]), 0.3
    expected = representative_bags(*arguments)
    monkeypatch.setattr(representatives, "TOGETHER", together)
    spans = representatives._spans(bags.starts)
    assert len(spans) == {1: 4, 41: 3, 60: 2, 150: 1}[together]
    assert [bag for first, last in spans for bag in range(first, last)] == [0, 1, 2, 3]
    found = representative_bags(*arguments)
    for name in ("X", "weight", "bag"):
        np.testing.assert_array_equal(getattr(found.bags, name), getattr(expected.bags, name))
    np.testing.assert_array_equal(found.known, expected.known)
    np.testing.assert_array_equal(found.groups.share, expected.groups.share)
    np.testing.assert_array_equal(found.groups.deviation, expected.groups.deviation)


def test_small_bags_stay_as_they_are(bags):
    made = representative_bags(bags, np.arange(bags.n_individuals, dtype=float), np.full(4, 20))
    fewer, known = made.bags, made.known
    for position in (1, 3):
        rows = slice(bags.starts[position], bags.starts[position + 1])
        own = slice(fewer.starts[position], fewer.starts[position + 1])
        np.testing.assert_array_equal(fewer.X[own], bags.X[rows])
        np.testing.assert_array_equal(fewer.weight[own], bags.weight[rows])
        np.testing.assert_array_equal(known[own], np.arange(rows.start, rows.stop))
        assert (made.groups.share[own] == 1).all()
        assert not made.groups.deviation[own].any()


def test_more_representatives_give_better_totals_of_a_curved_function(bags):
    def totals(bags):
        return bags.sum_by_bag(bags.weight * np.exp(np.sin(bags.X[:, 0]) + bags.X[:, 1]))

    errors = [
        np.abs(
            totals(representative_bags(bags, np.zeros(bags.n_individuals), np.full(4, number)).bags) / totals(bags) - 1
        ).max()
        for number in (2, 8, 32)
    ]
    assert errors[0] > 4 * errors[1] > 16 * errors[2]
    assert errors[2] < 0.01


def groups(rows, weight, bag, number):
    """Groups of bags that all may have the same number."""
    numbers = np.full(bag.max() + 1, number)
    return group_means(rows, weight, bag, numbers, numbers, 0.0)


@given(st.integers(0, 10**6), st.integers(1, 12))
def test_groups_do_not_depend_on_the_order_of_rows(seed, number):
    rng = np.random.default_rng(seed)
    rows = rng.integers(-2, 3, size=(12, 2)).astype(float)
    weight = rng.exponential(size=12)
    order = rng.permutation(12)
    bag = rng.integers(3, size=12) * 5
    means, totals, of_bag, spread = groups(rows, weight, bag, number)
    again = groups(rows[order], weight[order], bag[order], number)
    np.testing.assert_array_equal(again[0], means)
    np.testing.assert_array_equal(again[1], totals)
    np.testing.assert_array_equal(again[2], of_bag)
    np.testing.assert_array_equal(again[3].share, spread.share)
    np.testing.assert_array_equal(again[3].deviation, spread.deviation)
    for label in np.unique(bag):
        assert np.sum(of_bag == label) <= min(number, len(np.unique(rows[bag == label], axis=0)))
        assert totals[of_bag == label].sum() == pytest.approx(weight[bag == label].sum())


def test_identical_rows_are_one_group():
    means, totals, _, spread = groups(np.full((9, 2), 0.1), np.arange(1.0, 10.0), np.zeros(9, int), 4)
    np.testing.assert_allclose(means, [[0.1, 0.1]])
    assert totals == pytest.approx([45.0])
    assert spread.share == pytest.approx([285 / 45**2])
    np.testing.assert_allclose(spread.deviation, 0.0, atol=1e-15)


def test_the_group_with_the_largest_spread_is_split_first():
    rows = np.array([[0.0], [0.1], [5.0], [9.0]])
    means, totals, _, _ = groups(rows, np.ones(4), np.zeros(4, int), 3)
    np.testing.assert_allclose(np.sort(means[:, 0]), [0.05, 5.0, 9.0])
    assert sorted(totals) == [1.0, 1.0, 2.0]


def test_groups_know_their_effective_number_and_spread():
    """Weights 1, 3 at 0 and 4 in the first column; 2, 2, 1 far from them, the last with another `known`."""
    X = np.array([[0.0, 5.0], [4.0, 5.0], [100.0, 1.0], [100.0, 3.0], [100.0, 2.0]])
    bags = Bags(X, ["u"] * 5, [1.0, 3.0, 2.0, 2.0, 1.0])
    made = representative_bags(bags, np.array([0.0, 0.0, 0.0, 0.0, 30.0]), np.array([3]))
    order = np.argsort(made.bags.weight)
    np.testing.assert_allclose(made.bags.weight[order], [1.0, 4.0, 4.0])
    first = int(np.flatnonzero(made.bags.X[:, 0] == 3.0)[0])
    alone = int(np.flatnonzero(made.bags.weight == 1.0)[0])
    (pair,) = set(range(3)) - {first, alone}
    # sum of w^2 over the squared sum, and root mean squared distances from the mean by column
    np.testing.assert_allclose(made.groups.share[[first, pair, alone]], [10 / 16, 8 / 16, 1.0])
    expected = [[np.sqrt((9 + 3) / 4), 0.0], [0.0, 1.0], [0.0, 0.0]]
    np.testing.assert_allclose(made.groups.deviation[[first, pair, alone]], expected, atol=1e-12)
    assert made.known[alone] == 30


def test_groups_stay_with_their_rows(bags, rng):
    """The sum of squared weights of a bag is that of its individuals."""
    made = representative_bags(bags, rng.normal(size=bags.n_individuals), np.array([6, 8, 5, 30]))
    assert len(made.groups.share) == made.bags.n_individuals == len(made.groups.deviation)
    squares = made.bags.sum_by_bag(made.groups.share * made.bags.weight**2)
    np.testing.assert_allclose(squares, bags.weight_squares(), rtol=1e-12)
    # total variance = between groups + within
    for column in (0, 1):
        mean = made.bags.sum_by_bag(made.bags.weight * made.bags.X[:, column]) / made.bags.totals()
        parts = (made.bags.X[:, column] - mean[made.bags.bag]) ** 2 + made.groups.deviation[:, column] ** 2
        whole = bags.sum_by_bag(bags.weight * (bags.X[:, column] - mean[bags.bag]) ** 2)
        np.testing.assert_allclose(made.bags.sum_by_bag(made.bags.weight * parts), whole, rtol=1e-10)


def test_bags_do_not_influence_each_other(bags):
    together = representative_bags(bags, np.zeros(bags.n_individuals), np.full(4, 6)).bags
    for position in range(len(bags)):
        alone = bags[[position]]
        apart = representative_bags(alone, np.zeros(alone.n_individuals), np.array([6])).bags
        np.testing.assert_allclose(together[[position]].X, apart.X, rtol=1e-12)
        np.testing.assert_allclose(together[[position]].weight, apart.weight, rtol=1e-12)


def test_numbers_of_representatives_follow_the_variation_within_bags(rng):
    """Not its place: the first and the last bag are far apart and even."""
    spread = np.array([0.1, 1.0, 0.1])
    X = np.repeat([[-8.0], [0.0], [5.0]], 60, axis=0) + np.repeat(spread, 60)[:, None] * rng.normal(size=(180, 3))
    bags = Bags(X, np.repeat(list("abc"), 60), rng.exponential(size=180))
    found = first_representatives(bags, np.zeros(180)).bags.sizes
    assert found.tolist() == [8, 32, 8]
    assert Numbers.needed(bags.sizes, found).number.tolist() == [8, 32, 8]


def test_bags_that_are_off_get_more_representatives(rng):
    sizes = np.array([200, 100, 20, 4, 76])

    def numbers(*errors):
        """What each step says, and the numbers after it."""
        chosen, last, found = Numbers.needed(sizes, np.minimum(sizes, 8)), np.inf, []
        for error, gap in errors:
            found.append((chosen.refine(np.array(error), gap, last), chosen.number.tolist()))
            last = total_error(np.array(error))
        return found

    large, left = [-0.3, 0.005, -0.3, 0.0, 0.0], [-0.1, 0.0, -0.1, 0.0, 0.0]
    assert numbers((large, 0.04)) == [(False, [8] * 5)]
    assert numbers((large, -0.5), (left, -0.02)) == [(True, [32, 8, 32, 8, 8]), (False, [32, 8, 32, 8, 8])]
    assert numbers((large, -0.5), (left, 0.2))[1] == (True, [128, 8, 32, 8, 8])
    # more of them did not help
    assert numbers((large, -0.5), (large, -0.5))[1] == (False, [32, 8, 32, 8, 8])
    assert not Numbers(sizes, np.full(5, 2), fixed=True).refine(np.array(large), -0.5)
    # terms that are not finite
    lost = [np.nan, 0.0, -np.inf, 0.0, 0.0]
    assert numbers((lost, np.nan), (lost, np.nan))[1] == (True, [128, 8, 32, 8, 8])


@pytest.mark.parametrize("link", ["square", "exp"])
def test_parameters_found_with_representatives_are_as_good(link):
    data = vbagg.datasets.swiss_roll(n_bags=20, mean_size=40, std_size=15, seed=3)
    few, all_of_them = (
        vbagg.VBAgg(
            "poisson",
            link,
            kernel=vbagg.kernels.RBF(),
            landmarks=15,
            inference=vbagg.Newton(representatives=number),
            hyper="point",
        ).fit(data.bags, data.y)
        for number in (12, None)
    )
    assert 0 < abs(few.status_.representation_gap) < 0.2
    assert all_of_them.status_.representation_gap == 0
    assert few.elbo_ == pytest.approx(all_of_them.elbo_, abs=0.1)
    assert few.elbo_ != all_of_them.elbo_
    X = data.bags.X[::50]
    np.testing.assert_allclose(few.posterior(X).mean, all_of_them.posterior(X).mean, rtol=0.05)


def swiss_roll_model(inference):
    options = {"kernel": vbagg.kernels.RBF(), "landmarks": 15, "hyper": "point"}
    return vbagg.VBAgg("poisson", "square", inference=inference, **options)


def test_too_few_representatives_are_reported():
    data = vbagg.datasets.swiss_roll(n_bags=20, mean_size=40, std_size=15, seed=3)
    inference = vbagg.Newton(representatives=1)
    model = swiss_roll_model(inference).fit(data.bags, data.y)
    assert abs(model.status_.representation_gap) > 0.2
    assert f"change the ELBO by {-model.status_.representation_gap:+.1f} nats" in model.status_.message


def test_the_search_goes_on_with_more_representatives_where_there_were_too_few(monkeypatch):
    data = vbagg.datasets.swiss_roll(n_bags=20, mean_size=40, std_size=15, seed=3)

    def fitted(numbers, wanted="auto"):
        monkeypatch.setattr(representatives, "NUMBERS", numbers)
        inference = vbagg.Newton(representatives=wanted)
        return swiss_roll_model(inference).fit(data.bags, data.y)

    refined, fine, coarse = fitted((1, 2, 32)), fitted((32, 32, 32)), fitted((1, 2, 32), 2)
    assert "change the ELBO" not in refined.status_.message
    assert 0 < abs(refined.status_.representation_gap) < 0.2 < abs(coarse.status_.representation_gap)
    assert refined.elbo_ == pytest.approx(fine.elbo_, abs=0.2)


def test_representatives_can_have_the_residual_variance_of_all_individuals(rng):
    """Means of groups are not individuals: the residual variance of totals is off unless it is restored."""
    import vbagg.models.layout as module

    problems, build = [], module.Problem

    class Kept(build):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            problems.append(self)

    sizes = rng.integers(60, 140, 9)
    X = rng.normal(size=(sizes.sum(), 3)) * [1.0, 0.6, 1.7]
    bags = vbagg.Bags(X, np.repeat(np.arange(9), sizes), rng.gamma(2.0, 0.7, sizes.sum()))
    y = rng.poisson(bags.sum_by_bag(bags.weight * np.exp(np.sin(3 * X[:, 0])))).astype(float)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "Problem", Kept)
        options = {"inference": vbagg.Newton(max_iterations=3, representatives=6), "hyper": "point", "landmarks": 12}
        kernel = vbagg.kernels.RBF(lengthscale=0.8, fixed="lengthscale")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = vbagg.VBAgg("poisson", kernel=kernel, **options).fit(bags, y)
    whole, member = problems[0], model._fitted.optimum
    whole.rough.sums = whole.rough.sums.made(Sums.with_residual_scales, np.ones(9))
    with jax.enable_x64(True):
        staged = whole.at(member.parameters, member.jitter)
        every, _ = staged.spreads(member.q)
        before, _ = whole.rough.at(member.parameters, member.jitter).spreads(member.q)
        whole.scale_residuals(staged, member.q)
        after, _ = whole.rough.at(member.parameters, member.jitter).spreads(member.q)
        precision, (_, _, expected) = staged.precision(member.q.mu), staged.gauss_newton(member.q.mu)
    np.testing.assert_allclose(precision, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())
    np.testing.assert_allclose(model.status_.residual_sd, every, rtol=1e-5)
    assert np.abs(np.log(before / every)).max() > 0.1
    np.testing.assert_allclose(after, every, rtol=0.02)
