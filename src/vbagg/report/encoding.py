"""Layers as text: rounded to the digits that are shown, coded in 16 bits, differenced, deflated, base64.

A value is stored as the decimal number that the reader sees, so the page never shows another digit than the array has.
With ``d`` digits and ``base = 10^(d-1)``, the magnitude number ``m`` of a value stands for

    m < base:   m * 10^(lowest-d+1)                                      values below 10^lowest, down to zero
    otherwise:  (base + (m - base) mod 9 base) * 10^(lowest+decade-d+1)  with decade = (m - base) div 9 base

and the code is ``zero + m``, or ``zero - m`` for a negative value; code 0 is a missing value. Codes ascend with values.
The error is at most half a unit of the last digit: ``0.5 * 10^(max(exponent, lowest)-d+1)``.
"""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass

import numpy as np

MISSING = 0
HIGHEST_CODE = 2**16 - 1
DECADES = 8
"""Values below 10^-8 of the largest lose digits; sooner when 16 bits do not suffice."""
TINY = 1e-280
"""Magnitudes below are stored as zero."""
BLOCK = 2**20
"""Values coded at a time."""


@dataclass(frozen=True)
class Coding:
    """How codes of one layer stand for values."""

    digits: int
    lowest: int
    zero: int

    @property
    def base(self) -> int:
        """Smallest mantissa with all digits."""
        return 10 ** (self.digits - 1)


def encode(values: np.ndarray, digits: int) -> tuple[np.ndarray, Coding]:
    """Codes (H, W) of finite values or NaN, and what they mean."""
    coding = _coding(values, digits)
    rows = max(1, BLOCK // values.shape[1])
    blocks = (values[start : start + rows] for start in range(0, values.shape[0], rows))
    return np.concatenate([_codes(np.asarray(block, dtype=np.float64), coding) for block in blocks]), coding


def decode(codes: np.ndarray, coding: Coding) -> np.ndarray:
    """Values of codes, as the page shows them."""
    number = np.abs(codes.astype(np.int64) - coding.zero)
    decade = np.where(number < coding.base, 0, (number - coding.base) // (9 * coding.base))
    mantissa = number - decade * 9 * coding.base
    power = coding.lowest + decade - coding.digits + 1
    magnitude = np.where(power < 0, mantissa / 10.0 ** np.maximum(-power, 0), mantissa * 10.0 ** np.maximum(power, 0))
    values = np.where(codes < coding.zero, -magnitude, magnitude)
    return np.where(codes == MISSING, np.nan, values)


def pack_codes(codes: np.ndarray) -> str:
    """Text of codes: the error of the plane through the left and upper neighbours, low bytes first, then high bytes."""
    padded = np.pad(codes, ((1, 0), (1, 0)))
    error = codes - padded[1:, :-1] - padded[:-1, 1:] + padded[:-1, :-1]
    signed = error.view(np.int16)
    # Small errors of either sign become small numbers: 0, -1, 1, -2 ... are stored as 0, 1, 2, 3 ...
    folded = ((signed << 1) ^ (signed >> 15)).view(np.uint16)
    return pack_bytes((folded & 255).astype(np.uint8).tobytes() + (folded >> 8).astype(np.uint8).tobytes())


def unpack_codes(text: str, shape: tuple[int, int]) -> np.ndarray:
    """Codes from their text, as the page reads them."""
    low, high = np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype=np.uint8).reshape(2, *shape)
    folded = low.astype(np.uint16) | (high.astype(np.uint16) << 8)
    error = (folded >> 1) ^ np.where(folded & 1, np.uint16(HIGHEST_CODE), np.uint16(0))
    return error.cumsum(axis=0, dtype=np.uint16).cumsum(axis=1, dtype=np.uint16)


def pack_bytes(content: bytes) -> str:
    """Deflated (zlib) and base64, for the page to inflate."""
    return base64.b64encode(zlib.compress(content, 9)).decode("ascii")


def _coding(values: np.ndarray, digits: int) -> Coding:
    """The finest coding of these values that fits into 16 bits."""
    magnitude = np.abs(values[np.abs(values) >= TINY]).astype(np.float64)
    if magnitude.size == 0:
        return Coding(digits, lowest=0, zero=1)
    smallest, largest = _exponents(np.array([magnitude.min(), magnitude.max()]), digits)
    extremes = np.array([max(0.0, -np.nanmin(values)), max(0.0, np.nanmax(values))])
    lowest = int(max(smallest, largest - DECADES))
    while True:
        below, above = _magnitude_numbers(extremes, Coding(digits, lowest, 0))
        if 1 + below + above <= HIGHEST_CODE:
            return Coding(digits, lowest, int(1 + below))
        lowest += 1


def _codes(values: np.ndarray, coding: Coding) -> np.ndarray:
    missing = np.isnan(values)
    numbers = _magnitude_numbers(np.where(missing, 0.0, np.abs(values)), coding)
    return np.where(missing, MISSING, coding.zero + np.where(values < 0, -numbers, numbers)).astype(np.uint16)


def _magnitude_numbers(magnitude: np.ndarray, coding: Coding) -> np.ndarray:
    """The number `m` of each non-negative value."""
    decade = np.maximum(_exponents(magnitude, coding.digits) - coding.lowest, 0)
    mantissa = _mantissa(magnitude, coding.lowest + decade - coding.digits + 1)
    return mantissa + decade * 9 * coding.base


def _exponents(magnitude: np.ndarray, digits: int) -> np.ndarray:
    """Decimal exponents after rounding to `digits`; those of zero and its like are very low."""
    exponent = np.floor(np.log10(np.maximum(magnitude, TINY))).astype(np.int64)
    # Rounding can reach the next decade, and so can the rounding error of log10.
    mantissa = _mantissa(magnitude, exponent - digits + 1)
    return exponent + (mantissa >= 10**digits) - (mantissa < 10 ** (digits - 1)) * (magnitude > 0)


def _mantissa(magnitude: np.ndarray, power: np.ndarray) -> np.ndarray:
    """Whole multiples of `10^power`, exactly rounded where that power is a floating-point number."""
    scaled = np.where(power > 0, magnitude / 10.0 ** np.maximum(power, 0), magnitude * 10.0 ** np.maximum(-power, 0))
    return np.rint(scaled).astype(np.int64)
