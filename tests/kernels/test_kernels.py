"""Kernels against double loops, finite differences and the identities they must satisfy."""

import json
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from vbagg import kernels
from vbagg.kernels import RBF, Linear, Matern12, Matern32, Matern52, Periodic, Prior, Product, Sum, White
from vbagg.kernels.families import SHARE_OF_WHITE

NAMES = ("rain", "height", "x", "y", "month")
RNG = np.random.default_rng(5)
X1 = RNG.normal(size=(7, 5)) * [1.0, 2.0, 0.5, 1.5, 3.0] + [0.3, -1.0, 0.0, 2.0, 0.7]
X2 = np.vstack([X1[2], X1[5], RNG.normal(size=(4, 5)) + 0.4])  # two points coincide with rows of X1


def leaf_value(leaf, log_params, x, z):
    """Return one covariance, straight from the formulas in the docstrings."""
    own = list(leaf.columns)
    variance = np.exp(log_params["variance"])
    if isinstance(leaf, Linear):
        return sum(v * x[c] * z[c] for v, c in zip(np.broadcast_to(variance, len(own)), own, strict=True))
    lengthscale = np.broadcast_to(np.exp(log_params["lengthscale"]), len(own))
    if isinstance(leaf, Periodic):
        period = np.exp(log_params["period"])
        factors = [
            math.exp(-2 * math.sin(math.pi * abs(x[c] - z[c]) / period) ** 2 / l**2)
            for c, l in zip(own, lengthscale, strict=True)
        ]
        return variance * math.prod(factors)
    r = math.sqrt(sum(((x[c] - z[c]) / l) ** 2 for c, l in zip(own, lengthscale, strict=True)))
    shapes = {
        RBF: lambda r: math.exp(-(r**2) / 2),
        Matern12: lambda r: math.exp(-r),
        Matern32: lambda r: (1 + math.sqrt(3) * r) * math.exp(-math.sqrt(3) * r),
        Matern52: lambda r: (1 + math.sqrt(5) * r + 5 * r**2 / 3) * math.exp(-math.sqrt(5) * r),
    }
    return variance * shapes[type(leaf)](r)


def value(kernel, log_params, x, z):
    if isinstance(kernel, Sum | Product):
        values = [value(part, tree, x, z) for part, tree in zip(kernel.parts, log_params, strict=True)]
        return sum(values) if isinstance(kernel, Sum) else math.prod(values)
    return leaf_value(kernel, log_params, x, z)


def random_tree(kernel, seed=3):
    rng = np.random.default_rng(seed)
    tree = kernel.initial_log_parameters()
    return jax.tree.map(lambda start: np.asarray(start + 0.4 * rng.normal(size=np.shape(start))), tree)


STATIONARY = [RBF, Matern12, Matern32, Matern52]
LEAVES = [
    *(kind("x") for kind in STATIONARY),
    *(kind(["y", "rain"], ard=True) for kind in STATIONARY),
    *(kind(["month", "x", "rain"], ard=True) for kind in STATIONARY),
    Matern32(),
    Linear(["month", "height"]),
    Linear(None, ard=False),
    Periodic("month"),
    Periodic(["month", "rain"], ard=True),
]
COMPOSITES = [
    Linear("rain") + RBF(["height", "rain"], ard=True) + Matern32(["y", "x"]),
    Matern52(["x", "y"]) * Periodic("month"),
    (RBF("rain") + Linear("month")) * (Matern12("x") + Linear(["y", "height"])) + Periodic("month", period=2.0),
]
ALL = [kernel.resolve(NAMES) for kernel in LEAVES + COMPOSITES]
FEW = [*ALL[8:14], *ALL[-4:]]


def name_of(kernel):
    leaves = [f"{type(leaf).__name__}{list(leaf.columns)}{'*' * leaf.ard}" for leaf in kernel._leaves()]
    return "-".join([*(["sum"] if isinstance(kernel, Sum) else []), *leaves])


@pytest.mark.parametrize("kernel", ALL, ids=name_of)
def test_matrix_and_diag_equal_a_double_loop(kernel):
    log_params = random_tree(kernel)
    expected = [[value(kernel, log_params, x, z) for z in X2] for x in X1]
    with jax.enable_x64(True):
        np.testing.assert_allclose(kernel.matrix(log_params, X1, X2), expected, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(
            kernel.diag(log_params, X1), [value(kernel, log_params, x, x) for x in X1], rtol=1e-12
        )


@pytest.mark.parametrize("kernel", [ALL[13], *ALL[-3:]], ids=name_of)
def test_arrays_may_hold_only_the_columns_used(kernel):
    log_params = random_tree(kernel)
    own = list(kernel.columns_used)
    with jax.enable_x64(True):
        K = kernel.matrix(log_params, X1, X2)
        np.testing.assert_array_equal(kernel.matrix(log_params, X1, X2[:, own]), K)
        np.testing.assert_array_equal(kernel.matrix(log_params, X1[:, own], X2), K)
        np.testing.assert_array_equal(kernel.diag(log_params, X1[:, own]), kernel.diag(log_params, X1))


@pytest.mark.parametrize("kernel", FEW, ids=name_of)
def test_gradients_equal_finite_differences_of_the_double_loop(kernel):
    apart = X2 + 0.1  # at coincident points Matern 1/2 has no derivative
    mix = np.random.default_rng(8).normal(size=(len(X1), len(apart)))
    with jax.enable_x64(True):
        arguments = (random_tree(kernel), X1, apart)
        score = lambda *a: jnp.sum(mix * kernel.matrix(*a))  # noqa: E731
        gradient = jax.tree.map(np.asarray, jax.grad(score, argnums=(0, 1, 2))(*arguments))

    def looped(log_params, A, B):
        pairs = [(i, j) for i in range(len(A)) for j in range(len(B))]
        return sum(mix[i, j] * value(kernel, log_params, A[i], B[j]) for i, j in pairs)

    rng = np.random.default_rng(9)
    for moved in [(0,), (1,), (2,), (0, 1, 2)]:
        direction = tuple(
            jax.tree.map(lambda v, on=k in moved: on * rng.normal(size=v.shape), argument)
            for k, argument in enumerate(arguments)
        )
        up, down = (jax.tree.map(lambda v, t, h=h: v + h * t, arguments, direction) for h in (1e-6, -1e-6))
        slope = sum(jax.tree.leaves(jax.tree.map(lambda g, t: np.sum(g * t), gradient, direction)))
        np.testing.assert_allclose(slope, (looped(*up) - looped(*down)) / 2e-6, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("kernel", [ALL[5], *ALL[8:13]], ids=name_of)
def test_coincident_points_have_exactly_the_variance_when_compiled(kernel):
    log_params = random_tree(kernel)
    X = (np.random.default_rng(1).normal(size=(60, 5)) * 3 + 50).astype(np.float32)
    K = jax.jit(kernel.matrix)(log_params, X, X)
    np.testing.assert_array_equal(jnp.diagonal(K), kernel.diag(log_params, X))


@pytest.mark.parametrize("kernel", [ALL[5], *ALL[8:13]], ids=name_of)
def test_gradients_at_coincident_points_are_those_without_them(kernel):
    """The pair (i, i) is constant in the parameters' shape and in X; other pairs do not notice."""
    log_params = random_tree(kernel)
    others = np.random.default_rng(8).normal(size=(7, 7)) * (1 - np.eye(7))

    def score(log_params, X, weight):
        return jnp.sum(weight * kernel.matrix(log_params, X, X))

    with jax.enable_x64(True):
        plain, slope = jax.grad(score, argnums=(0, 1))(log_params, X1, others)
        with_diagonal, same_slope = jax.grad(score, argnums=(0, 1))(log_params, X1, others + 3 * np.eye(7))
    np.testing.assert_allclose(same_slope, slope, rtol=1e-12)
    np.testing.assert_allclose(with_diagonal["lengthscale"], plain["lengthscale"], rtol=1e-12)
    assert np.isfinite(slope).all()
    assert np.abs(slope).max() > 0.01
    trace = 3 * 7 * np.exp(log_params["variance"])
    np.testing.assert_allclose(with_diagonal["variance"] - plain["variance"], trace, rtol=1e-12)


@pytest.mark.parametrize("kernel", [ALL[4], *ALL[8:11], ALL[12], ALL[-2]], ids=name_of)
def test_float32_agrees_with_float64_far_from_the_origin(kernel):
    log_params = random_tree(kernel)
    A, B = ((X + 1000.0).astype(np.float32) for X in (X1, X2))
    single = kernel.matrix(log_params, A, B)
    assert single.dtype == jnp.float32
    with jax.enable_x64(True):
        double = kernel.matrix(log_params, A.astype(np.float64), B.astype(np.float64))
    # Matern 1/2 has a kink at zero, where rounding enters as a square root
    tolerance = 2e-3 if any(isinstance(leaf, Matern12) for leaf in kernel._leaves()) else 2e-5
    np.testing.assert_allclose(single, double, atol=tolerance)


def test_precision_follows_the_arrays_and_integers_become_floating():
    kernel = RBF(["x", "y"]).resolve(NAMES)
    log_params = kernel.initial_log_parameters()
    with jax.enable_x64(True):
        assert kernel.matrix(log_params, X1.astype(np.float32), X2.astype(np.float32)).dtype == jnp.float32
        assert kernel.diag(log_params, X1.astype(np.float32)).dtype == jnp.float32
        assert kernel.matrix(log_params, X1, X2).dtype == jnp.float64
        whole = X1.astype(int)
        np.testing.assert_allclose(
            kernel.matrix(log_params, whole, whole), kernel.matrix(log_params, whole * 1.0, whole * 1.0)
        )


@pytest.mark.parametrize("kernel", FEW, ids=name_of)
def test_matrix_is_positive_semidefinite_and_symmetric(kernel):
    X = np.random.default_rng(11).normal(size=(60, 5)) * 2.0
    with jax.enable_x64(True):
        K = np.asarray(kernel.matrix(random_tree(kernel), X, X))
    np.testing.assert_allclose(K, K.T, rtol=1e-12, atol=1e-13)
    assert np.linalg.eigvalsh(K).min() > -1e-10 * np.linalg.eigvalsh(K).max()


def test_batches_through_vmap_and_through_leading_axes():
    kernel = (RBF(["month", "x", "rain"], ard=True) + COMPOSITES[1] + Linear("rain")).resolve(NAMES)
    log_params = random_tree(kernel)
    X = np.random.default_rng(4).normal(size=(3, 6, 5))
    Z = X[1, :4] + 0.1

    @jax.jit
    def batched(X):
        mapped = jax.vmap(lambda block: kernel.matrix(log_params, block, block))(X)
        return (
            mapped,
            kernel.matrix(log_params, X, X),
            kernel.matrix(log_params, X, Z),
            kernel.diag(log_params, X),
        )

    with jax.enable_x64(True):
        mapped, within, to_shared, variances = batched(X)
    expected = [[[value(kernel, log_params, x, z) for z in block] for x in block] for block in X]
    np.testing.assert_allclose(mapped, expected, rtol=1e-11)
    np.testing.assert_allclose(within, expected, rtol=1e-11)
    np.testing.assert_allclose(variances, np.diagonal(expected, axis1=1, axis2=2), rtol=1e-11)
    expected = [[[value(kernel, log_params, x, z) for z in Z] for x in block] for block in X]
    np.testing.assert_allclose(to_shared, expected, rtol=1e-11)


def test_linear_features_multiply_to_the_kernel_in_the_order_of_its_columns():
    kernel = Linear(["month", "rain"]).resolve(NAMES)
    log_params = {"variance": np.log([0.5, 3.0])}
    with jax.enable_x64(True):
        A = kernel.features(log_params, X1)
        np.testing.assert_allclose(A, X1[:, [4, 0]] * np.sqrt([0.5, 3.0]), rtol=1e-14)
        np.testing.assert_allclose(A @ A.T, kernel.matrix(log_params, X1, X1), rtol=1e-12)
        np.testing.assert_array_equal(kernel.features(log_params, X1[:, [0, 4]]), A)
    assert kernel.exact_features
    assert not RBF().exact_features
    assert not (Linear() + Linear("x")).exact_features


def test_product_of_rbf_on_single_columns_is_one_rbf_with_ard():
    product = (RBF("x", variance=1.7) * RBF("y")).resolve(NAMES)
    joint = RBF(["x", "y"], ard=True).resolve(NAMES)
    tree = (
        {"variance": np.log(1.7), "lengthscale": np.log(0.6)},
        {"variance": 0.0, "lengthscale": np.log(2.5)},
    )
    with jax.enable_x64(True):
        expected = joint.matrix({"variance": np.log(1.7), "lengthscale": np.log([0.6, 2.5])}, X1, X2)
        np.testing.assert_allclose(product.matrix(tree, X1, X2), expected, rtol=1e-12)


def test_sums_and_products_flatten_and_components_are_the_terms():
    a, b, c = RBF("x"), Matern32("y"), Linear("rain")
    assert ((a + b) + c) == (a + (b + c)) == Sum((a, b, c))
    assert len(((a * b) * c).parts) == len((a * (b * c)).parts) == 3
    assert (a + b * c).components() == (a, b * c)
    assert (a * (b + c)).components() == (a * (b + c),)
    assert a.components() == (a,)
    with pytest.raises(TypeError):
        a + 1.0
    with pytest.raises(TypeError, match="must be kernels"):
        Sum((a, "x"))


def test_white_is_an_effect_of_each_individual_even_of_twins():
    kernel, tree = White().resolve(NAMES), {"variance": np.log(0.7)}
    twins = np.vstack([X1[0], X1[0], X1[1]])
    np.testing.assert_allclose(kernel.within(tree, twins), 0.7 * np.eye(3), rtol=1e-6)
    np.testing.assert_allclose(kernel.diag(tree, twins), 0.7, rtol=1e-6)
    # rows of two arrays are different individuals, whatever they hold
    assert not np.any(kernel.matrix(tree, twins, twins))
    assert kernel.matrix(tree, X1, X2).shape == (7, 6)
    assert not np.any(kernel.between(tree, jnp.asarray(X1), jnp.asarray(X1)))
    assert kernel.columns_used == ()


def test_white_in_a_sum_adds_to_the_variance_alone():
    kernel = (RBF("x") + White()).resolve(NAMES)
    tree = random_tree(kernel)
    with jax.enable_x64(True):
        alone = kernel.parts[0].matrix(tree[0], X1, X1)
        np.testing.assert_allclose(kernel.matrix(tree, X1, X1), alone, rtol=1e-12)
        expected = alone + np.exp(tree[1]["variance"]) * np.eye(7)
        np.testing.assert_allclose(kernel.within(tree, X1), expected, rtol=1e-12)
        np.testing.assert_allclose(kernel.diag(tree, X1), np.diag(expected), rtol=1e-12)


def test_local_kernels_have_no_landmarks_and_the_same_covariance():
    for kind in STATIONARY:
        kernel, ordinary = (kind("x", local=local).resolve(NAMES) for local in (True, False))
        tree = random_tree(kernel)
        assert (kernel.needs_landmarks, ordinary.needs_landmarks) == (False, True)
        assert kernel != ordinary
        np.testing.assert_array_equal(kernel.matrix(tree, X1, X2), ordinary.matrix(tree, X1, X2))
        np.testing.assert_array_equal(kernel.within(tree, X1), ordinary.matrix(tree, X1, X1))
    assert not White().needs_landmarks
    assert not Linear().needs_landmarks
    # a product is local if a factor is: its residual is not that of landmarks
    assert (RBF("x") * Matern12("y", local=True)).local
    assert not (RBF("x") * Matern12("y")).local
    with pytest.raises(TypeError, match="`local` of RBF must be True or False; got 'yes'"):
        RBF(local="yes")


def test_between_is_the_diagonal_of_the_matrix():
    kernel = ALL[-1]
    tree, other = random_tree(kernel), X1[::-1] + 0.1
    with jax.enable_x64(True):
        expected = np.diag(kernel.matrix(tree, X1, other))
        np.testing.assert_allclose(kernel.between(tree, X1, other), expected, rtol=1e-12)


def test_white_cannot_be_a_factor():
    for make in (lambda: RBF("x") * White(), lambda: White() * RBF("x"), lambda: RBF("x") * (Linear("y") + White())):
        with pytest.raises(ValueError, match=r"White\(\) adds an effect of each individual .* product; add it"):
            make()


def test_white_starts_small_beside_components_with_landmarks():
    kernel = (RBF("x") + Matern12("y") + White()).resolve(NAMES)
    start = kernel.initial_log_parameters(variance=0.8)
    assert [np.exp(part["variance"]) for part in start] == pytest.approx([0.4, 0.4, SHARE_OF_WHITE * 0.4])
    given = White(variance=0.05).initial_log_parameters()
    assert np.exp(given["variance"]) == pytest.approx(0.05)
    assert kernels.trainable_mask(White(0.1, fixed="variance")) == {"variance": False}
    with pytest.raises(ValueError, match="`variance` of White must be one positive number; got 0"):
        White(variance=0.0)
    with pytest.raises(ValueError, match=r"among \['variance'\]; got \['lengthscale'\]"):
        White(fixed="lengthscale")


def test_only_the_first_factor_of_a_product_has_a_variance():
    product = Linear("rain", variance=3.0) * (Matern12("x") + RBF("y")) * Periodic("month", fixed="period")
    mask = kernels.trainable_mask(product)
    assert mask[0] == {"variance": True}
    assert mask[1] == ({"variance": False, "lengthscale": True}, {"variance": True, "lengthscale": True})
    assert mask[2] == {"variance": False, "lengthscale": True, "period": False}
    start = product.resolve(NAMES).initial_log_parameters()
    assert np.exp(start[0]["variance"]) == pytest.approx([3.0])
    assert start[1][0]["variance"] == start[2]["variance"] == 0.0
    with pytest.raises(ValueError, match=r"variance=2\.0 on a later RBF.*first factor"):
        Matern12("x") * RBF("y", variance=2.0)


def test_mask_has_the_structure_of_the_parameters():
    for kernel in ALL:
        assert jax.tree.structure(kernels.trainable_mask(kernel)) == jax.tree.structure(kernel.initial_log_parameters())


def test_resolve_numbers_columns_in_the_user_s_order():
    kernel = (RBF(["month", "x"], ard=True) + Linear(1) + Matern32()).resolve(NAMES)
    assert [part.columns for part in kernel.parts] == [(4, 2), (1,), (0, 1, 2, 3, 4)]
    assert (RBF("y") * Linear([0, "height"])).resolve(NAMES).columns_used == (0, 1, 3)
    assert kernel.resolve(NAMES) == kernel


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (lambda: (RBF("x") + RBF("slope")).resolve(NAMES), r"among the features \['rain'.*got 'slope'"),
        (lambda: RBF([0, 5]).resolve(NAMES), r"from 0 to 4; got 5.*\['rain'"),
        (lambda: RBF(-1).resolve(NAMES), "from 0 to 4; got -1"),
        (lambda: RBF(["x", 2]).resolve(NAMES), "not repeat"),
        (lambda: RBF(["x", "x"]), "not repeat"),
        (
            lambda: RBF(["x", "y"], ard=True, lengthscale=(1, 2, 3)).resolve(NAMES),
            r"got 3 for .*\['x', 'y'\]",
        ),
        (lambda: RBF("x").columns_used, r"resolve\(feature_names\)"),
        (lambda: RBF().initial_log_parameters(), r"resolve\(feature_names\)"),
        (lambda: RBF(fixed="period"), r"among \['variance', 'lengthscale'\]; got \['period'\]"),
        (lambda: Linear(fixed=("variance", "scale")), r"\['variance'\]; got \['scale'\]"),
        (lambda: RBF(variance=-1.0), "`variance` of RBF must be one positive number; got -1.0"),
        (lambda: RBF(lengthscale=0.0), "`lengthscale` of RBF must be one positive"),
        (lambda: RBF(lengthscale=(1.0, 2.0)), "ard=True"),
        (lambda: RBF(ard=True, lengthscale=(1.0, float("nan"))), "positive"),
        (lambda: RBF(ard=True, variance=(1.0, 2.0)), "`variance` of RBF must be one positive number"),
        (lambda: Periodic(period=(1.0, 2.0)), "`period` of Periodic must be one positive number"),
        (lambda: RBF([6]).resolve(tuple("abcdefg")).diag({"variance": 0.0}, X1), r"columns \[6\].*got 5"),
        (lambda: kernels.from_dict({"kind": "Cosine"}), r"one of \['RBF'.*got 'Cosine'"),
        (lambda: Prior(0.0, 1.0), "`median` of a Prior must be positive"),
        (lambda: kernels.log_prior(RBF(), {}, {"scale": Prior(1, 1)}), r"\['variance'.*got \['scale'\]"),
    ],
)
def test_value_errors_say_what_is_wrong(kernel, message):
    with pytest.raises(ValueError, match=message):
        kernel()


@pytest.mark.parametrize("make", [lambda: RBF([]), lambda: RBF(1.5), lambda: RBF(True), lambda: RBF("x", "y")])
def test_type_errors(make):
    with pytest.raises(TypeError, match="must be"):
        make()


def test_kernels_are_hashable_static_arguments():
    one, same, other = (RBF(["x", "y"], ard=True), RBF(("x", "y"), ard=True), RBF(["y", "x"], ard=True))
    assert one == same
    assert hash(one) == hash(same)
    assert one != other
    assert RBF("x") != Matern12("x")
    assert RBF(fixed=["lengthscale", "variance"]) == RBF(fixed=("variance", "lengthscale"))
    assert RBF(np.int64(2)) == RBF(2)
    with pytest.raises(AttributeError):
        one.ard = False

    traces = []

    @jax.jit(static_argnums=0)
    def matrix(kernel, log_params, X):
        traces.append(kernel)
        return kernel.matrix(log_params, X, X)

    for kernel in (one, same, other):
        matrix(kernel.resolve(NAMES), kernel.resolve(NAMES).initial_log_parameters(), X1)
    assert len(traces) == 2


@pytest.mark.parametrize(
    "kernel",
    [
        *ALL,
        *COMPOSITES,
        White(0.4, fixed="variance"),
        Linear("rain") + Matern32(["x", "y"], local=True) + White(),
        RBF(["x", 2], ard=True, variance=2.0, lengthscale=(1.0, 2.5), fixed="variance"),
    ],
)
def test_json_round_trip(kernel):
    assert kernels.from_dict(json.loads(json.dumps(kernel.to_dict()))) == kernel


def test_starting_values():
    kernel = (
        Linear(["rain", "height"])
        + RBF(["rain", "height"], ard=True)
        + Matern32(["x", "y"], lengthscale=0.3)
        + Periodic("month", period=0.5, fixed="period")
        + RBF("x", ard=True, lengthscale=(0.7,))
    ).resolve(NAMES)
    start = jax.tree.map(np.exp, kernel.initial_log_parameters())
    np.testing.assert_allclose(start[0]["variance"], [0.1, 0.1])
    np.testing.assert_allclose(start[1]["lengthscale"], [2.0, 2.0])
    assert all(start[k]["variance"] == pytest.approx(0.25) for k in range(1, 5))
    assert start[2]["lengthscale"] == pytest.approx(0.3)
    assert (start[3]["period"], start[3]["lengthscale"]) == (pytest.approx(0.5), 1.0)
    np.testing.assert_allclose(start[4]["lengthscale"], [0.7])
    assert all(leaf.dtype == np.float64 for leaf in jax.tree.leaves(kernel.initial_log_parameters()))


def test_lengthscale_starts_at_its_share_of_the_median_distance():
    distances = [math.dist(X1[i, 2:4], X1[j, 2:4]) for i in range(7) for j in range(i)]
    rows = np.vstack([X1, X1[[3, 3, 1]]])  # repeated rows do not count
    start = Matern52(["x", "y"], ard=True).resolve(NAMES).initial_log_parameters(rows)
    np.testing.assert_allclose(np.exp(start["lengthscale"]), [0.3 * np.median(distances)] * 2, rtol=1e-12)
    smooth = RBF(["x", "y"]).resolve(NAMES).initial_log_parameters(rows)
    np.testing.assert_allclose(np.exp(smooth["lengthscale"]), np.median(distances), rtol=1e-12)
    constant = RBF("x").resolve(NAMES).initial_log_parameters(np.ones((9, 5)))
    assert constant["lengthscale"] == 0.0


def test_median_distance_of_many_rows_does_not_depend_on_their_order():
    X = np.random.default_rng(0).normal(size=(5000, 3)) * [1.0, 3.0, 0.2]
    shuffled = np.random.default_rng(1).permutation(X)
    assert kernels.median_distance(X) == kernels.median_distance(shuffled)
    i, j = np.random.default_rng(2).integers(5000, size=(2, 200_000))
    assert kernels.median_distance(X) == pytest.approx(np.median(np.linalg.norm(X[i] - X[j], axis=1)), rel=0.05)


def test_prior_density_is_the_lognormal_s_on_the_log_scale():
    prior = Prior(median=2.0, log_sd=0.7)
    for x in (0.4, 5.0):
        expected = stats.lognorm(s=0.7, scale=2.0).logpdf(x) + math.log(x)
        assert prior.log_density(math.log(x)) == pytest.approx(expected)


def test_log_prior_sums_over_trainable_parameters():
    kernel = (
        RBF(["x", "y"], ard=True, fixed="variance")
        + Linear(["rain", "height"])
        + Periodic(["month", "rain"], period=0.25) * Matern12("y")
        + White()
    ).resolve(NAMES)
    tree = random_tree(kernel)
    priors = {
        "variance": Prior(1.0, 1.5),
        "linear": Prior(0.1, 1.5),
        "white": Prior(0.2, 0.7),
        "lengthscale": Prior(1.0, 1.0),
        "period": Prior(1.0, 0.5),
    }
    assert tuple(priors) == kernels.PRIOR_NAMES
    rbf, linear, (periodic, matern), white = tree

    def normal(value, median, sd):
        return stats.norm(math.log(median), sd).logpdf(value).sum()

    expected = (
        normal(rbf["lengthscale"], 2.0, 1.0)
        + normal(linear["variance"], 0.1, 1.5)
        + normal(periodic["variance"], 1.0, 1.5)
        + normal(periodic["lengthscale"], math.sqrt(2), 1.0)
        + normal(periodic["period"], 0.25, 0.5)
        + normal(matern["lengthscale"], 0.3 * math.sqrt(2), 1.0)
        + normal(white["variance"], 0.2, 0.7)
    )
    with jax.enable_x64(True):
        assert kernels.log_prior(kernel, tree, priors) == pytest.approx(expected, rel=1e-12)
        only = kernels.log_prior(kernel, tree, {"linear": Prior(0.1, 1.5)})
        assert only == pytest.approx(normal(linear["variance"], 0.1, 1.5), rel=1e-12)
    assert kernels.log_prior(kernel, tree, None) == 0.0


def test_describe_in_standardised_and_user_units():
    kernel = Linear("rain") + RBF(["height", "rain"], ard=True, fixed="variance") + Matern32(["x", "y"]) * Periodic(4)
    tree = (
        {"variance": np.log([0.25])},
        {"variance": np.log(0.5), "lengthscale": np.log([2.0, 0.5])},
        (
            {"variance": np.log(1.5), "lengthscale": np.log(0.1)},
            {"variance": np.log(1.0), "lengthscale": np.log(0.8), "period": np.log(2.0)},
        ),
    )
    rows = kernels.describe(kernel, tree, NAMES, [10.0, 300.0, 50.0, 50.0, 6.0])
    table = [tuple(row.values()) for row in rows]
    expected = [
        (0, "Linear", "variance", ("rain",), 0.25, 0.05, 1.0, False),
        (1, "RBF", "variance", ("height", "rain"), 0.5, 0.5, None, True),
        (1, "RBF", "lengthscale", ("height",), 2.0, 600.0, 0.25, False),
        (1, "RBF", "lengthscale", ("rain",), 0.5, 5.0, 1.0, False),
        (2, "Matern32", "variance", ("x", "y"), 1.5, 1.5, None, False),
        (2, "Matern32", "lengthscale", ("x", "y"), 0.1, 5.0, None, False),
        (2, "Periodic", "variance", ("month",), 1.0, 1.0, None, True),
        (2, "Periodic", "lengthscale", ("month",), 0.8, 0.8, None, False),
        (2, "Periodic", "period", ("month",), 2.0, 12.0, None, False),
    ]
    assert list(rows[0]) == [
        "component", "kernel", "parameter", "columns", "value", "user_value", "relevance", "fixed"
    ]  # fmt: skip
    for row, wanted in zip(table, expected, strict=True):
        assert row[:4] == wanted[:4]
        assert row[4:] == pytest.approx(wanted[4:])
    (unshared,) = kernels.describe(RBF(["x", "month"]), {"variance": 0.0, "lengthscale": 0.0}, NAMES, range(1, 6))[1:]
    assert unshared["user_value"] is None
    assert json.dumps(rows)
