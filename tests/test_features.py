import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vbagg import triangular
from vbagg.chunks import Groups
from vbagg.features import (
    FeatureMap,
    carry_weights,
    combine_features,
    feature_count,
    features,
    known_features,
    leave_residual,
    make_basis,
    needed_jitter,
    own_residual,
    residual_block,
    residual_diagonal,
    residual_kernel,
)
from vbagg.kernels import RBF, Linear, Matern32, White

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


def test_known_features_have_the_slopes_of_those_worked_out(x64, additive, rng, monkeypatch):
    """Through all that the basis is made of; values may be in single precision."""
    monkeypatch.setattr(triangular, "COLUMNS", 3)
    feature_map, landmarks, _, moved = additive
    X, weight = rng.normal(size=(11, 3)), rng.normal(size=(11, feature_count(landmarks, feature_map)))
    values = np.asarray(features(feature_map, make_basis(feature_map, moved, landmarks, JITTER), X), np.float32)

    def slopes(of):
        def total(params, landmarks):
            return jnp.sum(weight * jnp.sin(of(make_basis(feature_map, params, landmarks, JITTER))))

        return jax.tree.leaves(jax.grad(total, argnums=(0, 1))(moved, landmarks))

    known = slopes(lambda basis: known_features(feature_map, basis, X, values))
    for own, expected in zip(known, slopes(lambda basis: features(feature_map, basis, X)), strict=True):
        assert np.abs(expected).max() > 1e-2
        np.testing.assert_allclose(own, expected, rtol=1e-4, atol=1e-5)


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


@pytest.fixture
def mixed(rng):
    """All kinds of components: exact features, landmarks, an individual effect first and a local kernel in between."""
    components = (White(), Linear((0, 2)), RBF((1, 0)), RBF((0,), local=True, lengthscale=0.3), Matern32((2,)))
    landmarks = (None, None, rng.normal(size=(5, 2)), None, rng.normal(size=(4, 1)))
    feature_map = FeatureMap(components, 1.7)
    start = tuple(component.initial_log_parameters() for component in components)
    params = tuple({name: value + rng.normal(0, 0.4, np.shape(value)) for name, value in p.items()} for p in start)
    return feature_map, params, make_basis(feature_map, params, landmarks, (1e-8,) * 5)


def covariances(params, X1, X2, same):
    """Prior covariance of the components that leave a residual, in NumPy; `same` individuals have their own effect."""
    white, _, smooth, local, rough = ({name: np.exp(v) for name, v in p.items()} for p in params)

    def distance(columns, scale):
        return np.sqrt((((X1[:, None, columns] - X2[None][:, :, columns]) / scale) ** 2).sum(axis=-1))

    r = np.sqrt(3) * distance([2], rough["lengthscale"])
    return {
        "white": white["variance"] * np.eye(len(X1)) if same else np.zeros((len(X1), len(X2))),
        "smooth": smooth["variance"] * np.exp(-(distance([0, 1], smooth["lengthscale"]) ** 2) / 2),
        "local": local["variance"] * np.exp(-(distance([0], local["lengthscale"]) ** 2) / 2),
        "rough": rough["variance"] * (1 + r) * np.exp(-r),
    }


def test_local_components_have_no_columns_and_are_residual_alone(x64, mixed, rng):
    feature_map, params, basis = mixed
    assert feature_count(basis.landmarks, feature_map) == 1 + 2 + 5 + 4
    X, X2 = rng.normal(size=(6, 3)), rng.normal(size=(4, 3))
    A, A2 = (features(feature_map, basis, rows) for rows in (X, X2))
    assert A.shape == (6, 12)
    own, other = np.asarray(A)[:, 3:], np.asarray(A2)[:, 3:]
    expected = sum(covariances(params, X, X, True).values()) - own @ own.T
    np.testing.assert_allclose(residual_block(feature_map, basis, X, A), expected, atol=1e-7)
    np.testing.assert_allclose(residual_diagonal(feature_map, basis, X, A), np.diag(expected), atol=1e-7)
    between = sum(covariances(params, X, X2, False).values()) - own @ other.T
    columns, columns2 = (np.asarray(part) * leave_residual(feature_map, basis) for part in (A, A2))
    found = residual_kernel(feature_map, basis, X, X2) - columns @ columns2.T
    np.testing.assert_allclose(found, between, atol=1e-7)
    # the same covariates are not the same individual
    twin = residual_kernel(feature_map, basis, X, X) - columns @ columns.T
    white = np.exp(params[0]["variance"])
    np.testing.assert_allclose(np.diag(expected) - np.diag(twin), white, rtol=1e-6)


def test_weights_pass_by_local_components(x64, mixed, rng):
    feature_map, params, basis = mixed
    X, v = rng.normal(size=(7, 3)), rng.normal(size=12)
    np.testing.assert_allclose(
        combine_features(feature_map, basis, X, v), features(feature_map, basis, X) @ v, rtol=1e-9
    )
    moved = tuple({name: value + 0.3 for name, value in p.items()} for p in params)
    new = make_basis(feature_map, moved, basis.landmarks, (1e-8,) * 5)
    carried = carry_weights(feature_map, basis, new, v)
    assert carried.shape == (12,)
    back = carry_weights(feature_map, new, basis, carried)
    np.testing.assert_allclose(back, v, rtol=1e-4, atol=1e-5)
    assert needed_jitter(feature_map, params, basis.landmarks) == (1e-8,) * 5


def test_residual_of_a_group_is_averaged_over_its_pairs(x64, mixed, rng):
    """Rows that stand for clouds of 200 individuals with unequal weights, against all pairs of those."""
    feature_map, params, basis = mixed
    centres, deviation = rng.normal(size=(3, 3)), np.array([0.05, 0.3, 0.1])
    clouds = [centre + deviation * rng.standard_normal((200, 3)) for centre in centres]
    weights = rng.exponential(size=(3, 200))
    weights /= weights.sum(axis=1, keepdims=True)
    X = np.stack([w @ cloud for w, cloud in zip(weights, clouds, strict=True)])
    spread = [np.sqrt(w @ (cloud - x) ** 2) for w, cloud, x in zip(weights, clouds, X, strict=True)]
    groups = Groups((weights**2).sum(axis=1), np.stack(spread))
    A = features(feature_map, basis, X)
    found = np.asarray(own_residual(feature_map, basis, X, A, groups))
    exact = []
    for w, cloud in zip(weights, clouds, strict=True):
        own = np.asarray(features(feature_map, basis, cloud))[:, 3:]
        R = sum(covariances(params, cloud, cloud, True).values()) - own @ own.T
        exact.append(w @ R @ w)
    np.testing.assert_allclose(found, exact, rtol=0.1)
    assert (found < 0.95 * residual_diagonal(feature_map, basis, X, A)).all()


def test_a_row_that_stands_for_itself_has_its_own_residual(x64, mixed, rng):
    feature_map, _, basis = mixed
    X = rng.normal(size=(5, 3))
    A = features(feature_map, basis, X)
    single = Groups(np.ones(5), np.zeros((5, 3)))
    expected = residual_diagonal(feature_map, basis, X, A)
    np.testing.assert_allclose(own_residual(feature_map, basis, X, A, single), expected, rtol=1e-9)
    # of twins only the individual effect is averaged away
    pairs = Groups(np.full(5, 0.5), np.zeros((5, 3)))
    white = np.exp(basis.kernel[0]["variance"])
    np.testing.assert_allclose(own_residual(feature_map, basis, X, A, pairs), expected - white / 2, rtol=1e-7)
