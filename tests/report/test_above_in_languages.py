"""People above a threshold in every language: forms, numbers of the script, and what may be typed."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from accessibility import grave_faults
from small_curve import THRESHOLDS, curve
from small_report import small_report

from vbagg.language import LANGUAGES, written_in
from vbagg.report import AboveCurve, Report, write_report
from vbagg.report.above import amount, amounts, sentence
from vbagg.report.texts import texts_in

PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
OWN = {
    "en": "cases per 1000 people",
    "fr": "cas pour 1\u202f000 habitants",
    "es": "casos por 1000 habitantes",
    "pt": "casos por 1\u202f000 habitantes",
}


def said(page: Any) -> str:
    return page.locator("#vbagg-above-sentence").inner_text()


def told(language: str, one: AboveCurve, at: int) -> str:
    with written_in(language):
        return sentence(one, texts_in(), at)


def box_of(page: Any) -> Any:
    return page.locator("#vbagg-above-number")


def page_in(language: str, folder: Path, **changes: Any) -> Path:
    one = curve(units=OWN[language], **changes)
    return write_report(folder / f"{language}.html", Report("x", above=one, language=language))


@pytest.mark.parametrize(
    ("language", "value", "text"),
    [
        ("fr", 1_234_000, "1,23\u00a0million"),
        ("fr", 1_999_000, "2,00\u00a0millions"),
        ("fr", 235_000, "235\u202f000"),
        ("fr", 3.21, "3,2"),
        ("es", 1_000_000, "1,00\u00a0millón"),
        ("es", 1_234_000, "1,23\u00a0millones"),
        ("es", 2345, "2340"),
        ("pt", 1_000_000, "1,00\u00a0milhão"),
        ("pt", 1_990_000, "1,99\u00a0milhões"),
        ("pt", 1_234_000_000, "1\u202f230\u00a0milhões"),
    ],
)
def test_amounts_are_written_as_the_language_has_it(language: str, value: float, text: str) -> None:
    with written_in(language):
        assert amount(texts_in(), value) == text


def test_ranges_have_the_form_of_their_upper_end() -> None:
    with written_in("fr"):
        assert amounts(texts_in(), 1.2e6, 1.9e6) == "de 1,20 à 1,90\u00a0million"
        assert amounts(texts_in(), 1.2e6, 3.4e6) == "de 1,20 à 3,40\u00a0millions"
        assert amounts(texts_in(), 899_000, 1.51e6) == "de 899\u202f000 à 1,51\u00a0million"


def test_the_french_sentences() -> None:
    one, at = curve(units=OWN["fr"]), curve().at_start
    assert told("fr", one, at) == (
        "Sur une population de 5,31\u00a0millions, environ 1,67\u00a0million (de 1,36 à 2,11\u00a0millions) vivent là"
        " où le taux dépasse 20 cas pour 1\u202f000 habitants."
    )
    area = told("fr", replace(one, counted="area", units="cas pour 1 km²"), at)
    assert area.endswith(
        "20 cas pour 1 km²\u00a0: environ 1,67\u00a0million sur 5,31\u00a0millions (de 1,36 à 2,11\u00a0millions)."
    )
    risk = told("fr", replace(one, counted="expected", units="", response="cas"), at)
    assert risk.startswith("Sur un nombre attendu de 5,31\u00a0millions (cas), environ 1,67\u00a0million (de 1,36 à")


@pytest.mark.parametrize("language", LANGUAGES)
def test_scripts_write_numbers_as_the_package_does(language: str, visit: Callable[..., Any], tmp_path: Path) -> None:
    """Numbers of all sizes, each at a threshold of its own."""
    rng = np.random.default_rng(6)
    thresholds = np.unique([float(f"{value:.3g}") for value in 10.0 ** rng.uniform(-6, 7, 60)]).tolist()
    n = len(thresholds)
    above = np.sort(10.0 ** rng.uniform(-3, 9.5, n))[::-1]
    above[n // 3] = 1e6
    one = curve(
        thresholds=thresholds,
        above=above.tolist(),
        lower=(above * rng.uniform(0, 1, n)).tolist(),
        upper=np.minimum(above * rng.uniform(1, 3, n), 4e9).tolist(),
        everybody=4e9,
        start=thresholds[0],
        units=OWN[language],
    )
    page = visit(write_report(tmp_path / "many.html", Report("x", above=one, language=language)))
    page.get_by_role("slider").focus()
    for at in range(n):
        assert said(page) == told(language, one, at)
        page.keyboard.press("ArrowRight")


def test_the_box_has_a_comma_and_takes_a_point(visit: Callable[..., Any], tmp_path: Path) -> None:
    page, one = visit(page_in("fr", tmp_path)), curve(units=OWN["fr"])
    box, slider = box_of(page), page.get_by_role("slider", name="Seuil")
    assert box.input_value() == "20"
    slider.focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert box.input_value() == "7,5"
    assert said(page) == told("fr", one, 5)
    half = {name: [(getattr(one, name)[6] + getattr(one, name)[7]) / 2] * 12 for name in ("above", "lower", "upper")}
    between = told("fr", curve(units=OWN["fr"], **half), 7)
    for typed, threshold in (("15", "15"), ("15,0", "15"), ("15.0", "15"), (" 15,", "15")):
        box.fill(typed)
        assert said(page) == between.replace("dépasse 20 ", f"dépasse {threshold} ")
        assert slider.input_value() == "7"
    for typed in ("1\u202f500", "1 500", "1\u00a0500,0", "1.5e3"):
        box.fill("2")
        box.fill(typed)
        assert said(page) == told("fr", one, 11)
        assert "dépasse 1\u202f500 cas" in said(page)
    for typed in ("1,5", "1.5", "1,50"):
        box.fill(typed)
        assert "dépasse 1,5 cas" in said(page)
        assert box.get_attribute("aria-invalid") == "false"


@pytest.mark.parametrize("typed", ["-", "1,2,3", "1.234,5", "douze", "1e", ","])
def test_what_is_no_number_changes_nothing(visit: Callable[..., Any], tmp_path: Path, typed: str) -> None:
    page = visit(page_in("fr", tmp_path))
    before, box = said(page), box_of(page)
    box.fill(typed)
    assert said(page) == before
    assert box.get_attribute("aria-invalid") == "true"
    box.fill("")
    assert box.get_attribute("aria-invalid") == "false"
    box.fill("\u22123,5")
    assert "dépasse \u22123,5 cas" in said(page)


@pytest.mark.parametrize(("typed", "threshold"), [("1,500", "1500"), ("12,345.6", "12,345.6"), ("0,145", "0.145"),
                                                  ("12,5", "12.5"), ("12.5", "12.5")])  # fmt: skip
def test_english_commas_stand_between_thousands_where_they_can(
    visit: Callable[..., Any], tmp_path: Path, typed: str, threshold: str
) -> None:
    page = visit(page_in("en", tmp_path))
    box_of(page).fill(typed)
    assert f"is above {threshold} cases" in said(page)


@pytest.mark.parametrize("language", LANGUAGES)
def test_on_a_phone(visit: Callable[..., Any], tmp_path: Path, language: str) -> None:
    page = visit(page_in(language, tmp_path), **PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    texts = page.locator("#above .axis span")
    boxes = [texts.nth(at).bounding_box() for at in range(texts.count())]
    assert all(one["x"] + one["width"] < other["x"] for one, other in pairwise(boxes))
    assert boxes[0]["x"] >= 0
    assert boxes[-1]["x"] + boxes[-1]["width"] <= 390


@pytest.mark.parametrize("language", LANGUAGES)
def test_nothing_moves_under_the_knob(visit: Callable[..., Any], tmp_path: Path, language: str) -> None:
    """Sentences of all thresholds have room."""
    page = visit(page_in(language, tmp_path))
    slider, sentences = page.get_by_role("slider"), page.locator("#vbagg-above-sentence")
    for width in (1280, 1000, 800, 390, 360):
        page.set_viewport_size({"width": width, "height": 844})
        heights = set()
        for at in range(len(THRESHOLDS)):
            slider.fill(str(at))
            heights.add(sentences.bounding_box()["height"])
        assert len(heights) == 1, (width, heights)


def test_nothing_stands_in_anybodys_way(visit: Callable[..., Any], tmp_path: Path) -> None:
    report = replace(small_report(tmp_path), above=curve(units=OWN["fr"]), language="fr")
    page = visit(write_report(tmp_path / "fr.html", report))
    page.wait_for_selector("html[data-viewer=ready]")
    box_of(page).fill("douze")
    assert grave_faults(page) == []
