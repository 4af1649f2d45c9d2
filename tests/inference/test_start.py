"""Fits that begin at a model of like data, with `vbagg.inference.Newton`: where the others end, in few steps."""

import numpy as np
import pandas as pd
import pytest

import vbagg
from vbagg.bags import Bags
from vbagg.inference import Newton
from vbagg.inference.search import TYPICAL_VARIANCE, curvature_of


@pytest.fixture(scope="module")
def bags():
    rng = np.random.default_rng(8)
    label = np.repeat(np.arange(50), rng.integers(3, 30, 50))
    place = rng.uniform(0, 7, (50, 2))[label] + rng.normal(0, 0.4, (len(label), 2))
    frame = pd.DataFrame({"x": place[:, 0], "y": place[:, 1], "wet": rng.normal(2, 1.5, len(label))})
    return Bags(frame, label, rng.gamma(2.0, 20.0, len(label)), coordinates=["x", "y"])


def outputs(bags, seed):
    f = 0.5 * (bags.X[:, 2] - 2) + np.sin(bags.X[:, 0]) - 1
    rng = np.random.default_rng(seed)
    return rng.poisson(bags.sum_by_bag(bags.weight * np.exp(f)) * rng.gamma(10, 0.1, len(bags))).astype(float)


def model(**options):
    return vbagg.VBAgg("negative_binomial", landmarks=25, **options)


@pytest.fixture(scope="module")
def first(bags):
    return model().fit(bags, outputs(bags, 0))


@pytest.mark.parametrize("rough", [False, True])
def test_it_ends_where_others_end(bags, first, rough):
    """At other outputs of the same bags: objective and rates of a search from scratch, in half the steps.

    A rough fit holds no more than representatives: 8 of bags of up to 29 individuals.
    """
    y = outputs(bags, 1)
    cold = model().fit(bags, y)
    search = Newton(representatives=8, rough=True) if rough else Newton()
    warm = model(inference=search).fit(bags, y, start=first)
    assert warm.status_.converged
    assert len(warm.history_) <= len(cold.history_) / 2
    assert len(warm.status_.starts) == 1
    (sums,) = warm._training.problem.sums.objects
    weights = [np.asarray(chunk.weight)[np.asarray(chunk.valid) > 0] for chunk in sums.chunks]
    number = np.minimum(bags.sizes, 8) if rough else bags.sizes
    assert sum((weight > 0).sum() for weight in weights) == number.sum()
    assert warm.elbo_ == pytest.approx(cold.elbo_, abs=3.0 if rough else 0.5)
    own, other = (found.posterior(bags) for found in (warm, cold))
    assert np.quantile(np.abs(own.mean / other.mean - 1), 0.95) < (0.1 if rough else 0.03)
    assert np.abs(own.mean / first.posterior(bags).mean - 1).max() > 0.5


def test_units_and_landmarks_are_those_of_the_start(bags, first):
    warm = model().fit(bags, 3 * outputs(bags, 1), start=first)
    assert warm.rate_scale_ == first.rate_scale_
    for own, other in zip(warm.landmarks_, first.landmarks_, strict=True):
        np.testing.assert_array_equal(own, other)
    assert warm.predict(bags).sum() == pytest.approx(3 * outputs(bags, 1).sum(), rel=0.1)


def test_members_differ_from_the_best_as_those_of_the_start(bags, first):
    warm = model().fit(bags, outputs(bags, 1), start=first)

    def numbers(one):
        lengths = [member.parameters.kernel[1]["lengthscale"] for member in one._fitted.members]
        return np.array(lengths) - one._fitted.optimum.parameters.kernel[1]["lengthscale"]

    assert len(numbers(first)) > 3
    np.testing.assert_allclose(numbers(warm), numbers(first), atol=1e-9)
    weights = [[member.weight for member in one._fitted.members] for one in (warm, first)]
    np.testing.assert_allclose(*weights, rtol=1e-9)


def test_a_point_begins_a_point(bags, first):
    alone = model(hyper="point").fit(bags, outputs(bags, 1), start=first)
    assert len(alone._fitted.members) == 1


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("kernel", {"kernel": vbagg.kernels.RBF()}),
        ("likelihood", {"likelihood": "poisson"}),
        ("link", {"link": "square"}),
    ],
)
def test_other_models_are_no_start(bags, first, name, options):
    other = model().set_params(**options)
    with pytest.raises(ValueError, match=f"`start` must be a model with the same `{name}`"):
        other.fit(bags, outputs(bags, 1), start=first)


def test_curvature_is_the_covariance_of_points_and_typical_across():
    rng = np.random.default_rng(4)
    axes, _ = np.linalg.qr(rng.normal(size=(5, 5)))
    points = 3 + rng.normal(size=(6, 2)) @ np.diag([2.0, 0.3]) @ axes[:2]
    weights = rng.uniform(0.5, 2, 6)
    found = curvature_of(points, weights)
    covariance = np.cov(points.T, aweights=weights, ddof=0)
    np.testing.assert_allclose(axes[:2] @ found @ axes[:2].T, axes[:2] @ covariance @ axes[:2].T, atol=1e-9)
    np.testing.assert_allclose(found @ axes[2:].T, TYPICAL_VARIANCE * axes[2:].T, atol=1e-9)
    np.testing.assert_allclose(curvature_of(points[:1], weights[:1]), TYPICAL_VARIANCE * np.eye(5), atol=1e-9)
