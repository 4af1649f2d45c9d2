"""Graph kernels inside a model."""

from __future__ import annotations

import pickle
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import vbagg
from vbagg import kernels


def strip(n_bags: int, size: int, seed: int) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Rows of a rolled strip sorted across its turns into bags, and a mean that is linear along the strip."""
    rng = np.random.default_rng(seed)
    turn = rng.uniform(1.5 * np.pi, 4.5 * np.pi, n_bags * size)
    X = np.column_stack([turn * np.cos(turn), turn * np.sin(turn), rng.uniform(0, 4, len(turn))])
    order = np.argsort(X[:, 1])
    bag = np.array([f"b{at}" for at in np.arange(len(turn)) // size])
    frame = pd.DataFrame(X[order], columns=["east", "up", "wide"])
    return frame, bag, 3.0 + 0.5 * turn[order]


@cache
def fitted() -> tuple[vbagg.VBAgg, vbagg.Bags, np.ndarray, np.ndarray]:
    X, bag, mean = strip(60, 20, seed=1)
    bags = vbagg.Bags(X, bag)
    y = bags.sum_by_bag(mean) + np.random.default_rng(2).normal(size=60)
    model = vbagg.VBAgg("normal", kernel=kernels.Graph(neighbours=6), hyper="point").fit(bags, y)
    return model, bags, y, mean


def test_it_follows_the_strip_where_straight_distances_do_not() -> None:
    model, bags, y, mean = fitted()
    straight = vbagg.VBAgg("normal", kernel=kernels.RBF(), hyper="point").fit(bags, y)
    new, _, new_mean = strip(20, 12, seed=3)

    def error(of: vbagg.VBAgg, X: pd.DataFrame, truth: np.ndarray) -> float:
        return float(np.mean((of.posterior(X).mean - truth) ** 2))

    rows = pd.DataFrame(bags.X, columns=["east", "up", "wide"])
    assert error(model, rows, mean) < 0.4 * error(straight, rows, mean)
    assert error(model, new, new_mean) < 0.4 * error(straight, new, new_mean)


def test_it_is_an_rbf_of_its_coordinates() -> None:
    model, bags, y, _ = fitted()
    scaler = model._fitted.frame.scaler
    placed = scaler.forward(bags.X)[:, 3:]
    assert placed.shape[1] == scaler.charts[0].dimensions
    labels = np.asarray(bags.labels)[bags.bag]
    as_columns = vbagg.Bags(placed, labels, coordinates=range(placed.shape[1]))
    direct = vbagg.VBAgg("normal", kernel=kernels.RBF(), hyper="point").fit(as_columns, y)
    assert model.elbo_ == pytest.approx(direct.elbo_, abs=0.05)
    difference = model.posterior(bags.X).mean - direct.posterior(placed).mean
    assert np.abs(difference).max() < 0.05 * direct.posterior(placed).std.mean()


def test_stored_models_predict_the_same(tmp_path: Path) -> None:
    model, bags, _, _ = fitted()
    before = model.posterior(bags)
    model.save(tmp_path / "model.vbagg")
    for copy in (vbagg.load(tmp_path / "model.vbagg"), pickle.loads(pickle.dumps(model))):
        after = copy.posterior(bags)
        np.testing.assert_array_equal(before.mean, after.mean)
        np.testing.assert_array_equal(before.std, after.std)


def test_parameters_name_the_coordinates_and_the_fitted_kernel_can_be_fitted_again() -> None:
    model, bags, y, _ = fitted()
    table = model.parameters_
    assert table["columns"][0].startswith("geodesic 1")
    assert "Graph(geodesic 1" in repr(model)
    assert model.landmarks_[0].shape[1] == model._fitted.frame.scaler.charts[0].dimensions
    again = vbagg.VBAgg("normal", kernel=model.kernel_, hyper="point").fit(bags, y)
    assert again.elbo_ == pytest.approx(model.elbo_, abs=0.1)


def test_it_joins_other_kernels_on_columns_of_their_own() -> None:
    _, bags, y, _ = fitted()
    kernel = kernels.Linear("wide") + kernels.Graph(["up", "east"], neighbours=7, ard=True, dimensions=1)
    model = vbagg.VBAgg("normal", kernel=kernel, hyper="point").fit(bags, y)
    linear, graph = model.kernel_.parts
    assert linear.columns == (2,)
    assert (graph.of, graph.columns) == ((1, 0), (3,))
    assert model._fitted.frame.scaler.charts[0].neighbours == 7


def test_it_survives_its_description() -> None:
    kernel = kernels.Graph([1, 4], neighbours=5, dimensions=2, lengthscale=0.3, fixed="lengthscale")
    placed = kernel.on_coordinates(range(6, 8))
    for one in (kernel, placed, kernels.Linear([0]) + placed):
        assert kernels.from_dict(one.to_dict()) == one
    assert placed.source == kernel.source == (1, 4)
    assert placed == replace(kernel, columns=(6, 7), of=(1, 4))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"neighbours": 1}, "`neighbours` of Graph must be a whole number of at least 2; got 1"),
        ({"neighbours": 2.5}, "`neighbours` of Graph must be a whole number of at least 2; got 2.5"),
        ({"dimensions": 0}, "`dimensions` of Graph must be a whole number of at least 1; got 0"),
        ({"dimensions": True}, "`dimensions` of Graph must be a whole number of at least 1; got True"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        kernels.Graph(**arguments)


def test_wrong_numbers_of_length_scales_and_other_models_are_refused() -> None:
    _, bags, y, _ = fitted()
    kernel = kernels.Graph(ard=True, lengthscale=(1.0, 2.0, 3.0), dimensions=2)
    with pytest.raises(ValueError, match="one value per geodesic coordinate; got 3 for 2"):
        vbagg.VBAgg("normal", kernel=kernel).fit(bags, y)
    with pytest.raises(ValueError, match="no coordinates before it is fitted, which VBAgg does alone"):
        vbagg.Nystrom("normal", "identity", kernels.Graph()).fit(bags, y)
