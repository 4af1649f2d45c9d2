"""Sums in twice the usual precision."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from vbagg.exact import Exact, summed, total


def test_parts_and_order_make_no_difference(rng):
    terms = [
        {"a": rng.normal(size=(3, 2)) * 10.0 ** rng.integers(-9, 9, (3, 2)), "b": rng.normal() * 1e12} for _ in range(9)
    ]
    every = total([summed(terms)])
    for cuts in itertools.combinations(range(1, 9), 2):
        parts = [terms[i:j] for i, j in itertools.pairwise([0, *cuts, 9])]
        found = total([summed(part) for part in rng.permutation(np.array(parts, dtype=object))])
        np.testing.assert_array_equal(found["a"], every["a"])
        assert found["b"] == every["b"]
    for at in np.ndindex(3, 2):
        assert every["a"][at] == float(sum(Fraction(float(term["a"][at])) for term in terms))


def test_what_rounding_left_out_is_kept():
    part = summed([np.array([1e16]), np.array([1.0]), np.array([-1e16])])
    assert isinstance(part, Exact)
    assert total([part]).tolist() == [1.0]


def test_single_precision_is_added_up_in_double():
    found = total([summed([np.float32(1.0), np.float32(1e-9)])])
    assert found.dtype == np.float64
    assert found == pytest.approx(1 + 1e-9, rel=1e-15)


def test_what_is_not_finite_stays_so():
    assert total([summed([np.array([-np.inf, 1.0]), np.array([2.0, np.nan])])])[0] == -np.inf
    assert np.isnan(total([summed([np.array([1.0]), np.array([np.nan])])])[0])


def test_scalars_join_arrays():
    np.testing.assert_array_equal(total([summed([0.0, np.ones((2, 2))]), summed([0.0])]), np.ones((2, 2)))
