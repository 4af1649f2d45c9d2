"""A search on fewer individuals, and a choice by all of them."""

from __future__ import annotations

import numpy as np
import pytest
from known_model import KnownModel

from vbagg import datasets
from vbagg.experiments import lighter, malaria, tuning
from vbagg.experiments.splits import separate
from vbagg.experiments.tuning import Grid, Method, tune


@pytest.fixture(autouse=True)
def no_earlier_splits(monkeypatch):
    monkeypatch.setattr(tuning, "_last", None)
    monkeypatch.setattr(lighter, "lighter", lighter.lighter.__wrapped__)


@pytest.fixture
def six(monkeypatch):
    monkeypatch.setattr(lighter, "INDIVIDUALS", 6)


@pytest.fixture(scope="module", params=["country", "roll"])
def split(request):
    if request.param == "country":
        split = malaria.divided(datasets.simulated_country(0.0005, seed=2, n_districts=14), 0)[0]
        assert split.train.bags.named
        return split
    return separate(datasets.swiss_roll_parts(12, 60, 20, seed=4, test_bags=7))[0]


@pytest.fixture
def roll():
    return separate(datasets.swiss_roll_parts(12, 60, 20, seed=4, test_bags=7))[0]


def test_bags_keep_their_totals_means_names_and_order(six, split):
    light = lighter.lighter(split)
    assert light is not None
    for name in ("train", "early_stop", "validation", "test"):
        own, few = getattr(split, name), getattr(light, name)
        assert few.y is own.y
        assert (few.bags.feature_names, few.bags.coordinates) == (own.bags.feature_names, own.bags.coordinates)
        np.testing.assert_array_equal(few.bags.sizes, np.minimum(own.bags.sizes, 6))
        np.testing.assert_allclose(few.bags.totals(), own.bags.totals(), rtol=1e-12)
        assert few.bags.named == own.bags.named
        means = [bags.sum_by_bag(bags.weight[:, None] * bags.X) for bags in (own.bags, few.bags)]
        np.testing.assert_allclose(*means, rtol=1e-9, atol=1e-9)


def test_small_bags_stay_as_they_are(monkeypatch, split):
    share = np.minimum(split.train.bags.sizes, 6).sum() / split.train.bags.n_individuals
    monkeypatch.setattr(lighter, "INDIVIDUALS", 6)
    for worthwhile, light in ((1.01 * share, True), (0.99 * share, False)):
        monkeypatch.setattr(lighter, "WORTHWHILE", worthwhile)
        assert (lighter.lighter(split) is not None) is light


def test_a_grid_is_searched_on_fewer_individuals_and_the_best_fitted_to_all(six, monkeypatch, roll):
    made = []

    def make(level):
        made.append(KnownModel(level))
        return made[-1]

    light = lighter.lighter(roll)
    monkeypatch.setattr(tuning, "lighter", lambda split: light if split is roll else None)
    best = roll.validation.y.sum() / KnownModel().predict(roll.validation.bags).sum()
    tuned = tune(Method(lambda quick: Grid({"level": (best / 3, best, 3 * best)}, make)), roll)
    assert [model.fits[0]["bags"] is light.train.bags for model in made] == [True, True, True, False]
    assert tuned.model is made[-1]
    assert tuned.model.fits[0]["bags"] is roll.train.bags
    assert (tuned.model.level, tuned.candidates) == (best, 3)
    one = tune(Method(lambda quick: Grid({"level": (best,)}, make)), roll)
    assert one.model is tuned.model, "a single candidate needs no search"


def test_a_combination_that_fails_with_all_individuals_gives_way_to_the_next(six, monkeypatch, roll):
    class Fragile(KnownModel):
        def fit(self, bags, y, **options):
            super().fit(bags, y, **options)
            if bags is roll.train.bags and self.level == best:
                raise FloatingPointError

    light = lighter.lighter(roll)
    monkeypatch.setattr(tuning, "lighter", lambda whole: light)
    best = roll.validation.y.sum() / KnownModel().predict(roll.validation.bags).sum()
    tuned = tune(Method(lambda quick: Grid({"level": (best / 9, best, 2 * best)}, Fragile)), roll)
    assert tuned.model.level == 2 * best
