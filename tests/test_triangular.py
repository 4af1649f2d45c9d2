"""Products that leave out a half of the work against the plain ones."""

import numpy as np
import pytest

from vbagg import triangular
from vbagg.triangular import (
    compiled_squares_lower,
    compiled_times_lower,
    compiled_times_upper,
    lower_product,
    times_lower,
    weighted_gram,
)


@pytest.fixture
def small_blocks(monkeypatch):
    for name, size in (("COLUMNS", 4), ("ROWS", 5), ("NARROW", 4), ("GRAM_ROWS", 3)):
        monkeypatch.setattr(triangular, name, size)


@pytest.mark.parametrize("shape", [(13, 11), (5, 4), (2, 9), (1, 1), (0, 3)])
def test_rows_times_a_triangle(small_blocks, rng, shape):
    rows, triangle = rng.normal(size=shape), np.tril(rng.normal(size=(shape[1], shape[1])))
    np.testing.assert_allclose(times_lower(rows, triangle), rows @ triangle, atol=1e-13)
    assert times_lower(rows.astype(np.float32), triangle).dtype == np.float32


@pytest.mark.parametrize("signs", ["both", "positive", "negative", "none"])
def test_weighted_products_of_columns(small_blocks, rng, signs):
    rows, weight = rng.normal(size=(17, 6)), rng.normal(size=17)
    weight[4] = 0.0
    weight = {"both": weight, "positive": abs(weight), "negative": -abs(weight), "none": 0 * weight}[signs]
    np.testing.assert_allclose(weighted_gram(rows, weight), (rows.T * weight) @ rows, atol=1e-13)


@pytest.mark.parametrize("shape", [(13, 11), (5, 4), (2, 9), (1, 1)])
def test_compiled_products(small_blocks, x64, rng, shape):
    rows, triangle = rng.normal(size=shape), np.tril(rng.normal(size=(shape[1], shape[1])))
    np.testing.assert_allclose(compiled_times_upper(rows, triangle.T), rows @ triangle.T, atol=1e-13)
    np.testing.assert_allclose(compiled_times_lower(rows, triangle), rows @ triangle, atol=1e-13)
    np.testing.assert_allclose(compiled_squares_lower(rows, triangle), np.sum((rows @ triangle) ** 2, 1), rtol=1e-12)


@pytest.mark.parametrize("m", [1, 4, 11])
def test_lower_triangle_of_a_product(small_blocks, rng, m):
    whole, triangle = rng.normal(size=(m, m)), np.tril(rng.normal(size=(m, m)))
    np.testing.assert_allclose(np.tril(lower_product(whole, triangle)), np.tril(whole @ triangle), atol=1e-13)
    np.testing.assert_allclose(lower_product(np.tril(whole), triangle), np.tril(whole) @ triangle, atol=1e-13)
