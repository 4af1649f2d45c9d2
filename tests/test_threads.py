"""Threads of NumPy's products, and of blocks of rows."""

import jax.numpy as jnp
import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from vbagg import VBAgg, datasets
from vbagg.models import fitted
from vbagg.threads import in_threads, one_blas_thread


def blas_threads() -> set[int]:
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def test_products_have_one_thread_inside_and_as_many_as_before_outside():
    with threadpool_limits(2, user_api="blas"):
        with one_blas_thread():
            assert blas_threads() == {1}
        assert blas_threads() == {2}


@pytest.mark.parametrize("method", ["posterior", "posterior_bags", "predictive_bags"])
def test_predictions_and_their_draws_multiply_with_one_thread(monkeypatch, method):
    swiss = datasets.swiss_roll(n_bags=12, mean_size=6, std_size=3)
    model = VBAgg("poisson", "exp", landmarks=5, hyper="point").fit(swiss.bags, swiss.y)
    seen = []
    original = fitted.Member.state.fget
    watched = property(lambda member: seen.append(blas_threads()) or original(member))
    monkeypatch.setattr(fitted.Member, "state", watched)
    with threadpool_limits(2, user_api="blas"):
        getattr(model, method)(swiss.bags).sample(3)
    assert seen
    assert all(threads == {1} for threads in seen)


def test_results_keep_their_order_and_double_precision():
    found = list(in_threads(lambda k: jnp.asarray(k / 3), range(50)))
    np.testing.assert_array_equal([float(value) for value in found], np.arange(50) / 3)
    assert {value.dtype for value in found} == {np.dtype(np.float64)}


def test_the_first_of_each_kind_comes_alone():
    began, running = [], []

    def one(item):
        running.append(item)
        began.append((item, len(running)))
        running.remove(item)
        return 2 * item

    items = [3, 8, 5, 2, 11, 4, 6]
    assert list(in_threads(one, items, kind=lambda item: item % 2)) == [2 * item for item in items]
    assert began[0] == (3, 1)
    assert list(in_threads(one, [])) == []
