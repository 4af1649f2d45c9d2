import numpy as np
import pytest

from vbagg.features import FeatureMap, carry_weights, combine_features, feature_count, features, make_basis
from vbagg.kernels import RBF, Linear, Matern32

JITTER = (1e-8, 1e-8, 1e-8)


@pytest.fixture
def additive(rng):
    """Linear, RBF and Matern components on different columns, with landmarks and two sets of parameters."""
    components = (Linear((0, 2)), RBF((1, 0)), Matern32((2,)))
    landmarks = (None, rng.normal(size=(5, 2)), rng.normal(size=(4, 1)))
    feature_map = FeatureMap(components, 1.7)
    start = tuple(component.initial_log_parameters() for component in components)
    moved = tuple({name: value + rng.normal(0, 0.4, np.shape(value)) for name, value in p.items()} for p in start)
    return feature_map, landmarks, start, moved


def test_combined_features_are_the_product_with_the_weights(x64, additive, rng):
    feature_map, landmarks, start, _ = additive
    basis = make_basis(feature_map, start, landmarks, JITTER)
    X, v = rng.normal(size=(11, 3)), rng.normal(size=feature_count(landmarks, feature_map))
    np.testing.assert_allclose(
        combine_features(feature_map, basis, X, v), features(feature_map, basis, X) @ v, rtol=1e-9
    )


def test_carried_weights_keep_values_at_landmarks_and_slopes(x64, additive, rng):
    feature_map, landmarks, start, moved = additive
    old, new = (make_basis(feature_map, params, landmarks, JITTER) for params in (start, moved))
    v = rng.normal(size=feature_count(landmarks, feature_map))
    carried = carry_weights(feature_map, old, new, v)
    assert np.abs(carried - v).max() > 0.1
    assert carried[0] == v[0]
    X = np.eye(3)
    slopes = [feature_map.components[0].features(p[0], X) @ w[1:3] for p, w in ((start, v), (moved, carried))]
    np.testing.assert_allclose(slopes[1], slopes[0], rtol=1e-9)
    for i, at in ((1, slice(3, 8)), (2, slice(8, 12))):
        before, after = (
            component.matrix(params[i], landmarks[i], landmarks[i]) @ basis.inverse_factor[i].T @ w[at]
            for component, params, basis, w in (
                (feature_map.components[i]._compact(), start, old, v),
                (feature_map.components[i]._compact(), moved, new, carried),
            )
        )
        np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-7)
