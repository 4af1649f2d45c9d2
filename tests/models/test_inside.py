"""Draws of what varies inside bags, against correlations written down."""

import numpy as np
import pytest

from vbagg.bags import Bags
from vbagg.models.inside import APART, VariedInside
from vbagg.models.predicted import REACH, Plan

DRAWS = 4000


def plan(coordinates, step=1.0):
    rng = np.random.default_rng(4)
    label = np.repeat(["q", "a", "m"], [7, 1, 4])
    X = np.column_stack([rng.normal(size=12), *(step * rng.uniform(0, 50, (2, 12)))])
    bags = Bags(X, label, rng.gamma(2.0, 3.0, 12), coordinates=coordinates)
    return Plan(bags, np.zeros(12), {})


@pytest.mark.parametrize("coordinates", [(1, 2), ()])
def test_draws_vary_about_the_mean_of_their_bag_as_correlations_say(coordinates):
    made = plan(coordinates)
    drawn = np.stack(list(VariedInside(made).draws(DRAWS, np.random.default_rng(0))))
    assert drawn.shape == (DRAWS, 12)
    bags, share = made.ready, made.share
    for bag in range(len(bags)):
        rows = np.flatnonzero(bags.bag == bag)
        if len(rows) == 1:
            continue
        n = len(rows)
        correlation = np.eye(n)
        if coordinates:
            apart = made.places[rows][:, None] - made.places[rows][None]
            correlation = np.exp(-np.sqrt((apart**2).sum(axis=-1)) / REACH)
        about = np.eye(n) - np.ones((n, 1)) @ share[rows][None]
        covariance = about @ correlation @ about.T
        sd = np.sqrt(np.diag(covariance))
        np.testing.assert_allclose(np.cov(drawn[:, rows].T), covariance / np.outer(sd, sd), atol=0.12)


def test_rows_of_a_square_have_the_same_draw():
    """All of a bag that lies in few squares; bags are told apart."""
    rng = np.random.default_rng(4)
    corners = np.repeat([[0.0, 0.0], [30.0, 0.0], [0.0, 40.0]], 5, axis=0)
    places = np.vstack([corners + rng.uniform(0, APART / 10, (15, 2))] * 2)
    bags = Bags(np.column_stack([np.ones(30), places]), np.repeat(["b", "a"], 15), coordinates=(1, 2))
    drawn = np.stack(list(VariedInside(Plan(bags, np.zeros(30), {})).draws(20, rng)))
    np.testing.assert_allclose(drawn.reshape(20, 6, 5), drawn.reshape(20, 6, 5)[:, :, :1].repeat(5, axis=2))
    assert np.unique(drawn[0].round(6)).size == 6
