"""Latent functions of many rows."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from vbagg import kernels
from vbagg.elbo import Parameters
from vbagg.features import FeatureMap
from vbagg.models import functions
from vbagg.models.functions import LandmarkFunction

NAMES = ("rain", "height", "x", "y")


@pytest.mark.parametrize("rows", [11, 12])
def test_pieces_give_the_values_and_slopes_of_the_whole(x64, monkeypatch, rows):
    rng = np.random.default_rng(5)
    parts = (kernels.RBF(NAMES[:2], ard=True), kernels.Matern32(NAMES[2:]))
    function = LandmarkFunction(FeatureMap(tuple(part.resolve(NAMES) for part in parts), 0.7))
    kernel = (
        {"variance": np.log(0.6), "lengthscale": np.log([0.8, 1.9])},
        {"variance": np.log(1.4), "lengthscale": np.log([0.5])},
    )
    start = Parameters(kernel, {}, (rng.normal(size=(3, 2)), rng.normal(size=(5, 2))))
    X, weights = rng.normal(size=(rows, 4)), {"beta": rng.normal(size=9).astype(np.float32)}

    def summed(kernel, weights):
        f = function.apply(weights, Parameters(kernel, {}, start.landmarks), X)
        return (f * np.arange(1.0, rows + 1)).sum()

    whole = jax.value_and_grad(summed, (0, 1))(kernel, weights)
    monkeypatch.setattr(functions, "ENTRIES", 20)
    monkeypatch.setattr(functions, "ROWS_PER_PIECE", 4)
    pieces = jax.value_and_grad(summed, (0, 1))(kernel, weights)
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, rtol=2e-5), pieces, whole)
    assert function.apply(weights, start, X).shape == (rows,)
