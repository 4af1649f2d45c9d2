"""Where a search may begin."""

import jax
import numpy as np

from vbagg import kernels
from vbagg.elbo import Parameters
from vbagg.links import get_link
from vbagg.models.setup import LOUDER, louder


def test_a_louder_start_has_larger_variances_of_what_individuals_share():
    sum_of = kernels.Linear((0, 1)) + kernels.RBF((0, 1), ard=True) + kernels.Matern32((2,), local=True)
    components = ((sum_of + kernels.White()).resolve(("a", "b", "c"))).components()
    X = np.random.default_rng(3).normal(size=(9, 3))
    start = Parameters(
        tuple(component.initial_log_parameters(X, 0.4) for component in components),
        {"dispersion": np.array(-1.0)},
        (None, X[:4, :2], None, None),
    )
    step = louder(start, components, get_link("identity"))
    linear, smooth, local, white = step.kernel
    np.testing.assert_allclose(np.exp(linear["variance"]), [LOUDER, LOUDER])
    np.testing.assert_allclose(np.exp(smooth["variance"]), LOUDER)
    np.testing.assert_array_equal(smooth["lengthscale"], [0.0, 0.0])
    assert local["variance"] == white["variance"] == step.likelihood["dispersion"] == 0
    np.testing.assert_array_equal(step.landmarks[1], 0.0)
    assert not any(np.any(leaf) for leaf in jax.tree.leaves(louder(start, components, get_link("exp"))))
