import math

import numpy as np
import pytest

from vbagg import numerals
from vbagg.language import LANGUAGES, written_in

NAN, INF = math.nan, math.inf


def read(text: str) -> float:
    """The number that a reader takes from a text."""
    digits = "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"
    text = text.replace(",", "").replace("\u2212", "-")
    sign = -1 if text.startswith("-") else 1
    mantissa, _, power = text.lstrip("-").rpartition("10") if any(c in digits for c in text) else (text, "", "")
    exponent = int("".join("-0123456789"[digits.index(c)] for c in power)) if power else 0
    mantissa = mantissa.replace("\u00d7", "").strip() or "1"
    return sign * float(mantissa.lstrip("-")) * 10.0**exponent


@pytest.mark.parametrize(
    ("write", "value", "text"),
    [
        (numerals.count, 235_000.0, "235,000"),
        (numerals.count, 1237810.6, "1,237,811"),
        (numerals.count, 7.0, "7"),
        (numerals.count, 7.26, "7.3"),
        (numerals.count, 72.6, "73"),
        (numerals.count, -1204.0, "\u22121,204"),
        (numerals.rate, 57.83, "57.8"),
        (numerals.rate, 20.0, "20"),
        (numerals.rate, 999.7, "1,000"),
        (numerals.rate, 4321.6, "4,322"),
        (numerals.rate, 0.0207, "0.0207"),
        (numerals.rate, 0.0000207, "2.07 \u00d7 10⁻⁵"),
        (numerals.rate, 1e-5, "10⁻⁵"),
        (numerals.rate, 0.00009999, "0.0001"),
        (numerals.rate, -0.0, "0"),
        (numerals.rate, NAN, "\u2013"),
        (numerals.rate, -INF, "\u2212\u221e"),
        (numerals.ratio, 2.34, "2.3"),
        (numerals.share, 0.5149, "51%"),
        (numerals.share, 0.0456, "4.6%"),
        (numerals.share, 0.05, "5%"),
        (numerals.share, 0.00005, "under 0.01%"),
        (numerals.share, 0.9971, "99.7%"),
        (numerals.share, 0.99999, "over 99.9%"),
        (numerals.share, 0.0, "0%"),
        (numerals.share, 1.0, "100%"),
        (numerals.share, 1.36, "136%"),
        (numerals.share, NAN, "\u2013"),
        (numerals.level, 0.95, "95%"),
        (numerals.level, 0.999, "99.9%"),
        (numerals.probability, 0.0004, "< 0.001"),
        (numerals.probability, 0.0312, "= 0.031"),
        (numerals.given, 1000.0, "1000"),
        (numerals.given, 100_000.0, "100,000"),
        (numerals.given, 0.25, "0.25"),
        (numerals.given, 1827.16, "1827.16"),
        (numerals.coordinate, 8_123_456.0, "8123456"),
        (numerals.coordinate, -18.123456, "-18.1235"),
        (numerals.tick, 5000.0, "5,000"),
        (numerals.tick, 0.30000000000000004, "0.3"),
        (numerals.correlation, -0.0793, "\u22120.08"),
        (numerals.correlation, -0.001, "0.00"),
    ],
)  # fmt: skip
def test_numbers_are_written_as_people_do(write, value, text):
    assert write(value) == text


def test_numbers_beside_each_other_keep_their_zeros():
    assert [numerals.padded(value, 3) for value in (6.7, 24.2, 0.5, 1234.0)] == ["6.70", "24.2", "0.500", "1,234"]


def test_digits_are_those_of_the_number():
    rng = np.random.default_rng(0)
    for value in (rng.choice([-1, 1], 400) * 10.0 ** rng.uniform(-9, 17, 400)).tolist():
        for digits in (2, 3, 6):
            text = numerals.significant(value, digits)
            assert "e" not in text
            assert read(text) == pytest.approx(value, rel=0.5001 * 10.0 ** (1 - digits))


@pytest.mark.parametrize("text", ["235,000", "\u22123.2", "2.07 \u00d7 10⁻⁵", "under 0.01%", "96 %", "\u2265 5", "1.5"])
def test_numbers_are_recognised(text):
    assert numerals.is_one(text)


@pytest.mark.parametrize("text", ["", "A12", "5 (4 to 6)", "10 to 12", "12 km", "n/a", "under"])
def test_other_texts_are_no_numbers(text):
    assert not numerals.is_one(text)


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (numerals.span(10.2, 1234.0, numerals.rate), "10.2 to 1,234"),
        (numerals.span(5.0, INF, numerals.count), "5 or more"),
        (numerals.with_span(1200.0, 310.4, 3500.0, numerals.count), "1,200 (310 to 3,500)"),
        (numerals.between(80.0, 90.0), "between 80 and 90"),
        (numerals.between(80.01, 80.04), "80"),
        (numerals.between(80.0, INF), "at least 80"),
    ],
)
def test_intervals(found, text):
    assert found == text


@pytest.mark.parametrize(
    ("write", "value", "texts"),
    [
        (numerals.count, 1234.0, ("1,234", "1\u202f234", "1234", "1\u202f234")),
        (numerals.count, -1_234_567.0, ("\u22121,234,567", *["\u22121\u202f234\u202f567"] * 3)),
        (numerals.rate, 12.34, ("12.3", "12,3", "12,3", "12,3")),
        (numerals.rate, 0.0000207, ("2.07 \u00d7 10⁻⁵", *["2,07 \u00d7 10⁻⁵"] * 3)),
        (numerals.rate, 5.0, ("5", "5", "5", "5")),
        (numerals.given, 1000.0, ("1000", "1\u202f000", "1000", "1\u202f000")),
        (numerals.given, 100_000.5, ("100,000.5", *["100\u202f000,5"] * 3)),
        (numerals.share, 0.0456, ("4.6%", "4,6\u00a0%", "4,6\u00a0%", "4,6%")),
        (numerals.share, 0.00001, ("under 0.01%", "moins de 0,01\u00a0%", "menos del 0,01\u00a0%", "menos de 0,01%")),
        (numerals.level, 0.999, ("99.9%", "99,9\u00a0%", "99,9\u00a0%", "99,9%")),
        (numerals.percent, -0.3, ("\u221230%", "\u221230\u00a0%", "\u221230\u00a0%", "\u221230%")),
        (numerals.probability, 0.0004, ("< 0.001", *["< 0,001"] * 3)),
        (numerals.correlation, -0.001, ("0.00", "0,00", "0,00", "0,00")),
        (numerals.coordinate, -18.5, ("-18.5",) * 4),
    ],
)
def test_numbers_are_written_as_the_language_does(write, value, texts):
    for language, text in zip(("en", "fr", "es", "pt"), texts, strict=True):
        with written_in(language):
            assert write(value) == text
            assert numerals.is_one(text)


def test_intervals_are_written_as_the_language_does():
    with written_in("fr"):
        assert numerals.with_span(1200.0, 310.4, math.inf, numerals.count) == "1\u202f200 (310 ou plus)"
        assert numerals.between(80.5, 90.0) == "entre 80,5 et 90"
    with written_in("es"):
        assert numerals.span(0.5, 1.0, numerals.rate) == "0,5 a 1"


def test_no_language_takes_a_mark_for_another():
    for language in LANGUAGES.values():
        assert language.decimal != language.thousands
        assert language.digits(1_234_567.891, 2).count(language.decimal) == 1
