"""Bags merged into larger ones."""

import numpy as np
import pandas as pd
import pytest

import vbagg
from vbagg.validate.unions import compact_group, group_of, unions


def bags_of_places(places, names=("x", "y"), seed=0):
    """Two or three individuals around each place, bags in an order of their own."""
    rng = np.random.default_rng(seed)
    bag = np.repeat(np.arange(len(places)), rng.integers(2, 4, len(places)))
    X = np.asarray(places, dtype=float)[bag] + 0.01 * rng.standard_normal((len(bag), len(places[0])))
    order = rng.permutation(len(bag))
    labels = np.array([f"B{a}" for a in bag], dtype=object)
    return vbagg.Bags(pd.DataFrame(X, columns=names).iloc[order], labels[order], 1 + rng.random(len(bag))[order])


def test_rows_of_a_union_are_those_of_its_bags():
    bags = bags_of_places([(0, 0), (5, 1), (1, 9), (7, 7)])
    region = {"B0": "n", "B1": "s", "B2": "n", "B3": "s"}
    one = unions(bags, [region[label] for label in bags.labels], "region")
    assert sorted(one.coarse.labels) == ["n", "s"]
    for row in range(bags.n_individuals):
        label = bags.labels[one.part[row]]
        assert region[label] == one.coarse.labels[one.coarse.bag[row]]
        assert one.coarse.X[row].tolist() in bags.X[bags.bag == one.part[row]].tolist()
    assert one.sum(bags.totals()) == pytest.approx(one.coarse.totals())
    assert one.coarse.coordinates == bags.coordinates


def test_a_bag_by_itself_is_not_inside_a_union():
    bags = bags_of_places([(0, 0), (5, 1), (1, 9)])
    group = pd.Series({"B2": 7, "B0": 7, "B1": 3})
    one = unions(bags, group_of(bags, group), "g")
    assert one.inside.tolist() == [label != "B1" for label in bags.labels]


def test_neighbours_are_merged():
    # pairs that are near to each other, far from the others
    places = [(10 * i + 0.5 * side, 3 * i) for i in range(6) for side in (0, 1)]
    bags = bags_of_places(places)
    group = dict(zip(bags.labels, compact_group(bags, 2), strict=True))
    for i in range(6):
        assert group[f"B{2 * i}"] == group[f"B{2 * i + 1}"]
    assert len(set(group.values())) == 6


def test_without_coordinates_bags_with_like_individuals_are_merged():
    rng = np.random.default_rng(4)
    bag = np.repeat(np.arange(10), rng.integers(30, 50, 10))
    # bags differ by "b", individuals of a bag by the others
    X = pd.DataFrame(
        {"a": 9 * rng.standard_normal(len(bag)), "b": 10 * (bag // 2) + bag % 2, "c": rng.random(len(bag))}
    )
    bags = vbagg.Bags(X, [f"B{a}" for a in bag])
    group = dict(zip(bags.labels, compact_group(bags, 2), strict=True))
    assert all(group[f"B{2 * i}"] == group[f"B{2 * i + 1}"] for i in range(5))


def test_the_order_of_rows_does_not_matter():
    places = np.random.default_rng(1).uniform(0, 9, (11, 2)).tolist()
    bags = bags_of_places(places)
    other = vbagg.Bags(pd.DataFrame(bags.X[::-1], columns=["x", "y"]), bags.labels[bags.bag][::-1], bags.weight[::-1])
    first = pd.Series(compact_group(bags, 3), index=list(bags.labels))
    second = pd.Series(compact_group(other, 3), index=list(other.labels)).loc[first.index]
    assert first.tolist() == second.tolist()
