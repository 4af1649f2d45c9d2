import base64
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vbagg.report.encoding import Coding, decode, encode, pack_codes, unpack_codes


def bound(values: np.ndarray, coding: Coding) -> np.ndarray:
    """Half a unit of the last digit, from the text of each number."""
    exponents = np.array([int(f"{abs(value):e}".split("e")[1]) if value else -999 for value in values.ravel()])
    return 0.5 * 10.0 ** (np.maximum(exponents, coding.lowest) - coding.digits + 1.0).reshape(values.shape)


@pytest.mark.parametrize("digits", [2, 3, 4])
@pytest.mark.parametrize("decades", [0.5, 3.0, 12.0])
@pytest.mark.parametrize("signed", [False, True])
def test_error_is_half_a_unit_of_the_last_digit(
    rng: np.random.Generator, digits: int, decades: float, signed: bool
) -> None:
    values = 37.0 * 10.0 ** (-decades * rng.random((23, 31)))
    values *= rng.choice([-1.0, 1.0], values.shape) if signed else 1.0
    codes, coding = encode(values, digits)
    error = np.abs(decode(codes, coding) - values)
    assert np.all(error <= bound(values, coding) * (1 + 1e-9))
    assert np.any(error > 0.5 * bound(values, coding))


@pytest.mark.parametrize("digits", [2, 3, 4])
def test_values_are_those_that_python_prints(rng: np.random.Generator, digits: int) -> None:
    values = np.exp(rng.normal(size=(40, 25)))
    printed = np.vectorize(lambda value: float(f"{value:.{digits}g}"))(values)
    np.testing.assert_array_equal(decode(*encode(values, digits)), printed)


def test_codes_by_hand() -> None:
    values = np.array([[0.0, np.nan, 0.10, 0.994], [0.995, 1.0, 99.9, 0.996]])
    codes, coding = encode(values, 2)
    assert coding == Coding(digits=2, lowest=-1, zero=1)
    # 0.10 is number 10, each decade has 90 numbers: 1.0 is 100, 10 is 190, 100 is 280.
    np.testing.assert_array_equal(codes, [[1, 0, 11, 1 + 99], [1 + 100, 1 + 100, 1 + 280, 1 + 100]])
    np.testing.assert_array_equal(decode(codes, coding), [[0, np.nan, 0.1, 0.99], [1, 1, 100, 1]])


def test_codes_ascend_with_values(rng: np.random.Generator) -> None:
    values = np.sort(rng.normal(size=400) ** 3).reshape(1, -1)
    codes, _ = encode(values, 3)
    assert np.all(np.diff(codes.astype(int)) >= 0)


def test_layers_without_values_or_with_zeros_alone() -> None:
    for values in (np.full((2, 3), np.nan), np.zeros((2, 3)), np.array([[0.0, -0.0, np.nan], [1e-300, 0.0, 0.0]])):
        codes, coding = encode(values, 3)
        np.testing.assert_array_equal(decode(codes, coding), np.where(np.isnan(values), np.nan, 0.0))


def test_huge_range_keeps_the_large_values() -> None:
    values = np.array([[-3.217e4, 5.0e-12, 8.6543e9, 1.0e-3, 4.444]])
    codes, coding = encode(values, 4)
    decoded = decode(codes, coding)
    assert decoded[0, 2] == pytest.approx(8.654e9)
    assert np.all(np.abs(decoded - values) <= bound(values, coding))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_single_precision_is_enough(rng: np.random.Generator, dtype: type) -> None:
    values: np.ndarray = rng.random((9, 4)).astype(dtype)
    np.testing.assert_allclose(decode(*encode(values, 3)), values, rtol=5.1e-3)


def test_row_blocks_do_not_show(monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    values = rng.normal(size=(11, 7))
    whole, coding = encode(values, 3)
    monkeypatch.setattr("vbagg.report.encoding.BLOCK", 15)
    blocks, block_coding = encode(values, 3)
    assert block_coding == coding
    np.testing.assert_array_equal(blocks, whole)


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_text_holds_the_codes(height: int, width: int, seed: int) -> None:
    codes = np.random.default_rng(seed).integers(0, 2**16, (height, width), dtype=np.uint16)
    np.testing.assert_array_equal(unpack_codes(pack_codes(codes), (height, width)), codes)


def test_text_by_hand() -> None:
    codes = np.array([[5, 4, 4], [5, 1029, 4]], dtype=np.uint16)
    # Errors of left + upper - upper left: 5, -1, 0 / 0, 1025, -1025; folded: 10, 1, 0 / 0, 2050, 2049.
    content = zlib.decompress(base64.b64decode(pack_codes(codes)))
    assert list(content) == [10, 1, 0, 0, 2, 1, 0, 0, 0, 0, 8, 8]
