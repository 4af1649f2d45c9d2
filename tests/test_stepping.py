"""Lengths of steps."""

from __future__ import annotations

import numpy as np
import pytest

from vbagg.stepping import backtrack


def quadratic(length: float) -> tuple[float, str]:
    """Rises by 3 at first, falls from 0.3 on."""
    return 3 * length - 5 * length**2, f"{length:.3g}"


def test_a_step_goes_to_the_peak_of_the_parabola():
    assert backtrack(quadratic, 3.0) == (pytest.approx(0.3), "0.3")


def test_a_whole_step_is_taken_where_it_gains_enough():
    assert backtrack(lambda length: (length, "there"), 3.0) == (1.0, "there")
    assert backtrack(lambda length: (0.1 * length, "there"), 3.0, least=0.1, tries=3) is None
    assert backtrack(lambda length: (-0.01, "there"), 1e-9, noise=0.02) == (1.0, "there")


def test_lengths_may_shrink_by_a_fixed_share():
    assert backtrack(quadratic, 3.0, shrink=0.75, tries=9) == (pytest.approx(0.75**2), "0.562")


def test_what_is_not_a_number_is_no_gain():
    tried = []

    def broken(length: float) -> tuple[float, float]:
        tried.append(length)
        return (np.nan if length > 2e-3 else length), length

    found = backtrack(broken, 1.0)
    assert found == (pytest.approx(1e-3), pytest.approx(1e-3))
    assert tried == pytest.approx([1.0, 0.1, 0.01, 0.001])
    assert backtrack(broken, 1.0, tries=2) is None
