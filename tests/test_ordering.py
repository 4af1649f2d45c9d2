import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vbagg.ordering import lexicographic_order, sorted_rows


@given(st.integers(0, 10**6), st.integers(0, 40), st.integers(1, 4), st.integers(1, 5))
def test_order_is_that_of_lexsort(seed, n, d, n_values):
    X = np.random.default_rng(seed).integers(n_values, size=(n, d)).astype(float)
    np.testing.assert_array_equal(lexicographic_order(*X.T), np.lexsort(X.T[::-1]))


@given(st.integers(0, 10**6), st.integers(0, 40), st.integers(1, 3))
def test_first_of_their_kind_are_the_distinct_rows(seed, n, d):
    X = np.random.default_rng(seed).integers(3, size=(n, d)).astype(float)
    order, first = sorted_rows(X)
    np.testing.assert_array_equal(X[order][first], np.unique(X, axis=0))


@pytest.mark.parametrize("dtype", [float, int])
def test_ties_of_the_first_key_are_broken_by_the_last(dtype):
    keys = [np.array(values, dtype) for values in ([2, 1, 2, 1, 2], [0, 0, 0, 0, 0], [3, 9, 1, 8, 2])]
    assert lexicographic_order(*keys).tolist() == [3, 1, 2, 4, 0]
