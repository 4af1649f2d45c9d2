"""The search over parameters: numbers of one kind together first."""

from types import SimpleNamespace

import numpy as np
import pytest

import vbagg
from vbagg.elbo import Parameters
from vbagg.inference.newton import _louder
from vbagg.inference.result import FlatParameters
from vbagg.inference.search import TYPICAL_VARIANCE, maximise_along


def parameters(learn_landmarks):
    start = Parameters(
        ({"variance": np.array(0.3), "lengthscale": np.array([0.1, -0.7, 1.9])}, {"variance": np.array([2.0, 3.0])}),
        {"tau": np.array(-1.5)},
        (np.arange(12.0).reshape(4, 3), None),
    )
    trainable = Parameters(
        ({"variance": True, "lengthscale": True}, {"variance": True}), {"tau": True}, (learn_landmarks, None)
    )
    return start, FlatParameters(start, trainable)


@pytest.mark.parametrize("learn_landmarks", [False, True])
def test_numbers_of_one_array_move_together_and_landmarks_stay(learn_landmarks):
    start, flat = parameters(learn_landmarks)
    axes = flat.together()
    assert axes.shape == (19 if learn_landmarks else 7, 4)
    steps = np.array([0.5, -0.25, 3.0, 0.125])
    moved = flat.unravel(flat.ravel(start) + axes @ steps)
    changes = [
        np.unique(moved.kernel[0]["lengthscale"] - start.kernel[0]["lengthscale"]),
        np.unique(moved.kernel[0]["variance"] - start.kernel[0]["variance"]),
        np.unique(moved.kernel[1]["variance"] - start.kernel[1]["variance"]),
        np.unique(moved.likelihood["tau"] - start.likelihood["tau"]),
    ]
    np.testing.assert_allclose(np.sort(np.concatenate(changes)), np.sort(steps), rtol=1e-12)
    np.testing.assert_array_equal(moved.landmarks[0], start.landmarks[0])


def test_search_along_axes_finds_the_best_point_on_them():
    rng = np.random.default_rng(4)
    root = rng.standard_normal((5, 5))
    curvature, centre = root @ root.T + np.eye(5), rng.standard_normal(5)
    axes = np.array([[1, 1, 0, 0, 0], [0, 0, 1, 1, 1]], dtype=float).T
    x = np.array([0.4, -1.0, 2.0, 0.3, -0.6])

    def objective(at, needed, stake):
        return -0.5 * float((at - centre) @ curvature @ (at - centre)), curvature @ (centre - at)

    seen = []
    found = maximise_along(
        objective, x, axes, lambda at, value, promise: bool(seen.append(at)), tolerance=1e-10, noise=1e-12
    )
    inner = axes.T @ curvature @ axes
    best = x + axes @ np.linalg.solve(inner, axes.T @ curvature @ (centre - x))
    np.testing.assert_allclose(found.x, best, atol=1e-4)
    assert found.value == pytest.approx(objective(best, 0, 0)[0], abs=1e-6)
    # points that may stop the search are points of the whole space
    np.testing.assert_allclose(seen[-1], found.x)
    # along the axes as learnt, across them as unexplored
    np.testing.assert_allclose(
        axes.T @ found.curvature @ axes, axes.T @ axes @ np.linalg.inv(inner) @ axes.T @ axes, rtol=0.05
    )
    across = np.array([1.0, -1.0, 0.0, 0.0, 0.0])
    np.testing.assert_allclose(found.curvature @ across, TYPICAL_VARIANCE * across, atol=1e-12)


@pytest.mark.parametrize(("best", "steps"), [(0.4, 0), (2.7, 3), (2.3, 2)])
def test_a_start_is_as_loud_as_raises_the_objective(best, steps):
    step, start = np.array([0.0, 2.0, 1.0]), np.array([0.3, -1.0, 0.5])
    evaluated = []

    def profile(x, precision, slope):
        evaluated.append(x)
        return SimpleNamespace(x=x, value=-abs((x[1] - start[1]) / 2 - best))

    found = _louder(profile, profile(start, 2.0, False), step)
    np.testing.assert_allclose(found.x, start + steps * step)
    assert len(evaluated) == steps + 2
    nothing = profile(start, 2.0, False)
    assert _louder(profile, nothing, 0 * step) is nothing


@pytest.mark.slow
def test_noise_is_not_taken_for_a_function_that_varies_quickly(data_folder):
    """Each length-scale on its own from the start ended at -38.3, and all of them from little variance at -72.1."""
    for repetition, least in ((12, -5), (5, -25)):
        train = vbagg.datasets.elevators_parts(repetition, 30, 15, data_folder / "elevators")["train"]
        model = vbagg.VBAgg("normal", "identity", kernel=vbagg.kernels.RBF(ard=True), hyper="point")
        model.fit(train.bags, train.y)
        assert max(model.status_.starts) > least
        assert 5e-4 < model.likelihood_parameters_["tau"] < 2e-3
