"""Fits to unions: what they need, keep and say."""

import numpy as np
import pandas as pd
import pytest

import vbagg
from vbagg.validate import cross_validate, nested


def places(n_bags=24, each=8, effect=1.3, seed=0, missing=()):
    """Bags on a line of places, whose individuals differ by a covariate."""
    rng = np.random.default_rng(seed)
    bag = np.repeat(np.arange(n_bags), each)
    X = pd.DataFrame(
        {"a": rng.normal(size=len(bag)), "x": bag % 6 + rng.random(len(bag)), "y": bag // 6 + rng.random(len(bag))}
    )
    bags = vbagg.Bags(X, [f"B{a:02d}" for a in bag], rng.uniform(50, 150, len(bag)))
    y = rng.poisson(bags.sum_by_bag(bags.weight * np.exp(effect * bags.X[:, 0] - 1))).astype(float)
    y[list(missing)] = np.nan
    return bags, y


def quick():
    return vbagg.VBAgg("poisson", kernel=vbagg.kernels.Linear(("a",)), hyper="point")


def test_what_covariates_say_is_seen_at_each_scale(tmp_path):
    bags, y = places(missing=(3, 17))
    seen = []
    found = nested(quick(), bags, y, sizes=(2, 4), keep=tmp_path / "kept", progress=seen.append)
    scales = found.scales()
    assert scales["scale"].tolist() == ["2", "4"]
    assert scales["bags"].tolist() == [22, 22]
    assert (scales["skill"] > 0.8).all()
    assert found.cells().skill.value > 0.8
    assert [entry.get("scale") for entry in seen[:-1]] == ["2", "4", "cells"]
    table = found.table("2")
    assert set(table["bag"]) == set(bags.labels[np.isfinite(y)])
    # the second time nothing is fitted
    again = nested(Refusing("poisson", kernel=vbagg.kernels.Linear(("a",)), hyper="point"), bags, y, sizes=(2, 4),
                   keep=tmp_path / "kept", progress=False)  # fmt: skip
    pd.testing.assert_frame_equal(again.table("4"), found.table("4"))


class Refusing(vbagg.VBAgg):
    """A model that must not be fitted."""

    def fit(self, *args, **kwargs):
        raise AssertionError("fitted again")


def test_unions_may_be_named():
    bags, y = places()
    region = pd.Series([f"R{a // 3}" for a in range(24)], index=[f"B{a:02d}" for a in range(24)])
    found = nested(quick(), bags, y, region.iloc[::-1], progress=False)
    table = found.table("group")
    assert found.scales()["unions"].tolist() == [8]
    together = table.groupby("union")["bag"].apply(lambda own: {region[label] for label in own})
    assert all(len(own) == 1 for own in together)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"group": ["a"] * 24}, "Unions must be 4 at least"),
        ({"group": ["a", "b"]}, "group"),
        ({"group": [None, *"abcdefghijklabcdefghijk"]}, "missing"),
        ({"y": [1.0, *[np.nan] * 23]}, "at least 2"),
        ({"model": vbagg.Constant()}, "must be a vbagg.VBAgg"),
    ],
)
def test_wrong_input_is_refused(change, message):
    bags, y = places()
    with pytest.raises((ValueError, TypeError), match=message):
        nested(change.get("model", quick()), bags, change.get("y", y), change.get("group"), progress=False)


def test_a_validation_looks_inside_when_it_is_asked_for_a_verdict():
    bags, y = places()
    validation = cross_validate(quick(), bags, y, 3, progress=False)
    assert validation.nested is None
    verdict = validation.verdict("places")
    assert verdict.word == "yes"
    assert validation.nested.scales()["unions"].tolist() == [12, 6]
    assert validation.verdict("places") == verdict


@pytest.mark.slow
def test_a_covariate_that_is_constant_inside_bags_says_nothing_of_them():
    rng = np.random.default_rng(8)
    bag = np.repeat(np.arange(32), 6)
    a = rng.normal(size=32)
    bags = vbagg.Bags(pd.DataFrame({"a": a[bag]}), bag, rng.uniform(50, 150, len(bag)))
    y = rng.poisson(bags.sum_by_bag(bags.weight * np.exp(a[bag] + rng.normal(0, 0.5, len(bag))))).astype(float)
    verdict = cross_validate(vbagg.VBAgg(), bags, y, 3, progress=False).verdict()
    assert verdict.word == "no"
    assert "next to nothing" in verdict.reasons[1]
