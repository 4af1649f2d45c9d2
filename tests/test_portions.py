"""What is found of data in portions is what is found of all of them together."""

from itertools import pairwise

import numpy as np
import pytest

from vbagg import chunks, portions
from vbagg.bags import Bags
from vbagg.held import Division, Here
from vbagg.portions import Portion, Portions, outline_of
from vbagg.scaling import Scaler


@pytest.fixture
def bags(rng):
    sizes = rng.integers(2, 30, 17)
    X = np.column_stack([rng.normal(3.0, 2.0, sizes.sum()), rng.gamma(2.0, 9.0, sizes.sum())])
    return Bags(X, np.repeat(np.arange(17), sizes), rng.gamma(2.0, 1.0, sizes.sum()))


def divided(bags, cuts):
    """The same bags in several portions."""
    whole = Portions.of(bags, np.zeros(bags.n_individuals))
    spans = list(pairwise([0, *cuts, len(bags)]))
    parts = [
        Portion(bags[i:j], np.zeros(bags.starts[j] - bags.starts[i]), tuple(chunks.block_edges(whole.block[i:j])))
        for i, j in spans
    ]
    return whole, Portions(Here(parts), Division(tuple(np.arange(i, j) for i, j in spans)), whole.outline, whole.block)


def block_edges(block, number):
    return [int(np.searchsorted(block, i)) for i in np.linspace(0, block.max() + 1, number + 1)[1:-1].round()]


def test_outline_says_what_bags_say(bags):
    outline = outline_of(Portion(bags, np.zeros(bags.n_individuals), (0, 5, 12, 17)))
    assert len(outline) == 17
    assert (outline.n_features, outline.n_individuals) == (2, bags.n_individuals)
    for name in ("totals", "weight_squares", "effective_sizes"):
        np.testing.assert_array_equal(getattr(outline, name)(), getattr(bags, name)())
    y = np.arange(17.0)
    np.testing.assert_array_equal(outline.align(y), y)
    with pytest.raises(ValueError, match="`y` must"):
        outline.align(y[:-1])


def test_units_are_the_same_to_the_last_bit(bags, monkeypatch):
    monkeypatch.setattr(chunks, "BLOCK", 40)
    block = chunks.block_numbers(bags.sizes)
    assert block.max() > 3
    for number in (2, 3):
        whole, parts = divided(bags, block_edges(block, number))
        one, other = Scaler.fit(whole), Scaler.fit(parts)
        np.testing.assert_array_equal(one.centre, other.centre)
        np.testing.assert_array_equal(one.scale, other.scale)
    share = bags.weight / bags.totals()[bags.bag] / 17
    np.testing.assert_allclose(one.centre, share @ bags.X, rtol=1e-12)
    np.testing.assert_allclose(one.scale**2, share @ (bags.X - one.centre) ** 2, rtol=1e-12)


@pytest.mark.parametrize("size", [60, 10_000])
def test_samples_are_the_same_however_the_data_are_divided(bags, monkeypatch, size):
    monkeypatch.setattr(portions, "SAMPLE", size)
    whole, parts = divided(bags, [4, 11])
    one, other = whole.sample(5), parts.sample(5)
    orders = [np.lexsort(sample.X.T) for sample in (one, other)]
    for name in ("X", "share"):
        np.testing.assert_array_equal(*(getattr(s, name)[o] for s, o in zip((one, other), orders, strict=True)))
    assert len(one.X) == min(size, bags.n_individuals)
    assert one.n_bags == 17


def test_samples_are_unbiased(bags, monkeypatch):
    """Of any sum over individuals that weighs bags alike."""
    monkeypatch.setattr(portions, "SAMPLE", 40)
    whole, _ = divided(bags, [])
    share = bags.weight / bags.totals()[bags.bag]
    for function in (lambda X: np.ones(len(X)), lambda X: X[:, 0] ** 2):
        sums = [float(sample.share @ function(sample.X)) for sample in map(whole.sample, range(400))]
        expected = float(share @ function(bags.X))
        assert np.mean(sums) == pytest.approx(expected, abs=4 * np.std(sums) / 20)
        assert np.std(sums) > 0


def test_divisions_put_numbers_back_in_order():
    division = Division((np.array([3, 0]), np.array([2, 1, 4])))
    values = np.array([10.0, 11.0, 12.0, 13.0, 14.0])
    parts = division.split(values)
    assert [part.tolist() for part in parts] == [[13.0, 10.0], [12.0, 11.0, 14.0]]
    np.testing.assert_array_equal(division.join(parts), values)
    np.testing.assert_array_equal(division.join(division.split(np.eye(5))), np.eye(5))
