"""Pages in every language: nothing is left in English, numbers are those of Python, and the page can be used."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from accessibility import grave_faults
from english import left_in_english
from small_curve import curve
from small_report import expect_text, hover, shown, small_report

from vbagg import numerals
from vbagg.language import ENGLISH, LANGUAGES, written_in
from vbagg.report import (
    Area,
    AreaTable,
    Cell,
    Column,
    Finding,
    Foreign,
    Judgement,
    MadeWith,
    MapLayer,
    Order,
    Report,
    Section,
    Table,
    write_report,
)
from vbagg.report.page import page_html
from vbagg.report.texts import scripted, texts_in

OTHERS = [language for language in LANGUAGES if language != ENGLISH]
OWN = ("scores.constant",)
"""What the small report says by itself."""
HOSTILE = "<img src=x onerror=alert(1)> {n} {"
VALUES = ([1234.0, 12_340.0, 1_234_000.0, -7251.0], [0.1234, -7.251], [0.00002345])


def many_areas(number: int = 30) -> AreaTable:
    areas = [Area(f"A{at}", [Cell(str(at), float(at))], [f"A{at}", at + 0.5]) for at in range(number)]
    return AreaTable("A", "areas", [Column("B"), Column("C")], areas, [Order("C", 1)], headers=["name", "number"])


def page_in(language: str, folder: Path, **changes: Any) -> Path:
    """The small report in a language."""
    report = replace(small_report(folder), language=language, tables=[many_areas()], **changes)
    return write_report(folder / f"{language}.html", report)


@pytest.mark.parametrize("language", OTHERS)
def test_a_page_says_nothing_in_english_by_itself(language: str, tmp_path: Path, visit: Callable[..., Any]) -> None:
    page = shown(visit(page_in(language, tmp_path, made_with=MadeWith("1", "2"))))
    hover(page, 2.5, 1.5)
    texts = page.content()
    assert left_in_english(texts, language, but=OWN) == []
    assert page.evaluate("document.documentElement.lang") == language


def test_english_is_found_where_it_is_left(tmp_path: Path) -> None:
    found = left_in_english(page_html(replace(small_report(tmp_path), language=ENGLISH)), "fr")
    assert {"viewer.compare", "viewer.no_script", "page.skip"} <= set(found)


@pytest.mark.parametrize("language", LANGUAGES)
def test_scripts_write_numbers_as_python_does(language: str, tmp_path: Path, visit: Callable[..., Any]) -> None:
    for values in VALUES:
        layers = [MapLayer("x", "x", "", np.array([values]), digits=4)]
        bounds = (0.0, 0.0, float(len(values)), 1.0)
        path = write_report(tmp_path / "n.html", Report("x", layers=layers, bounds=bounds, language=language))
        page = shown(visit(path))
        for column, value in enumerate(values):
            hover(page, 0.5, column + 0.5, shape=(1, len(values)))
            with written_in(language):
                expect_text(page, ".value b", numerals.significant(value, 4))
    with written_in(language):
        assert page.locator("#vbagg-opacity-text").inner_text() == numerals.level(1.0)
    page.locator("#vbagg-opacity").fill("45")
    with written_in(language):
        expect_text(page, "#vbagg-opacity-text", numerals.level(0.45))


def page_of_areas(folder: Path, language: str, visit: Callable[..., Any]) -> Any:
    page = visit(write_report(folder / "a.html", Report("x", tables=[many_areas(1200)], language=language)))
    page.wait_for_selector("html[data-areas=ready]")
    return page


@pytest.mark.parametrize(("language", "forms"), [("fr", "one one other"), ("es", "other one other")])
def test_scripts_choose_forms_as_python_does(
    language: str, forms: str, tmp_path: Path, visit: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = scripted(texts_in(language))
    found = {"found": {"one": "{n} one", "other": "{n} other"}}
    monkeypatch.setattr("vbagg.report.page.scripted", lambda say: {**texts, "table": {**texts["table"], **found}})
    page = page_of_areas(tmp_path, language, visit)
    for wanted, number, form in zip(("none", "A1199", "A119"), (0, 1, 11), forms.split(), strict=True):
        page.locator(".search input").fill(wanted)
        expect_text(page, ".found", f"{number} {form}")


def test_downloads_are_for_programs_in_every_language(tmp_path: Path, visit: Callable[..., Any]) -> None:
    page = page_of_areas(tmp_path, "fr", visit)
    expect_text(page, ".more button", "Afficher les 1\u202f200")
    page.locator(".search input").fill("A119")
    expect_text(page, ".found", "11 sur 1\u202f200")
    with page.expect_download() as found:
        page.locator(".download").click()
    lines = found.value.path().read_text(encoding="utf-8-sig").splitlines()
    assert lines[:2] == ["name,number", "A1199,1199.5"]


@pytest.mark.parametrize("language", OTHERS)
def test_what_stays_english_says_so(language: str) -> None:
    blocks = [Foreign(["The interval.", Finding("warning", "Look."), Table(["what"], [[0.5]])]), "CRPS"]
    report = Report("x", sections=[Section("s", "s", blocks)], language=language, citation="Cite.")
    page = page_html(report)
    assert re.search(r'<div lang="en"><p>The interval.</p>.*Look\..*0\.5</td>.*</div>', page, re.DOTALL)
    assert f'<strong class="level" lang="{language}">' in page
    assert '<pre tabindex="0" lang="en">Cite.</pre>' in page
    english = page_html(replace(report, language=ENGLISH))
    assert 'lang="en">' in english
    assert '<div lang="en">' not in english
    assert '<a class="term" href="#word-interval" aria-describedby="word-interval">interval</a>' in english


@pytest.mark.parametrize("language", OTHERS)
def test_hostile_names_are_text(language: str) -> None:
    judgement = Judgement("no", HOSTILE, HOSTILE, [HOSTILE])
    above = curve(units=HOSTILE, response=HOSTILE, notes=[HOSTILE])
    shown = {"above": above, "tables": [many_areas()]}
    report = Report(HOSTILE, HOSTILE, HOSTILE, judgement, [(HOSTILE, HOSTILE)], language=language, **shown)
    sections = [Section(HOSTILE, "s", [HOSTILE, Foreign([HOSTILE, Finding("error", HOSTILE)])])]
    page = page_html(replace(report, sections=sections, made_with=MadeWith(HOSTILE, HOSTILE, HOSTILE)))
    assert "<img src=x" not in page
    assert "&lt;img src=x onerror=alert(1)&gt; {n} {" in page


@pytest.mark.slow
def test_the_page_fits_on_a_phone(tmp_path: Path, visit: Callable[..., Any]) -> None:
    phone = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
    for language in OTHERS:
        page = shown(visit(page_in(language, tmp_path), **phone))
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, language


@pytest.mark.slow
def test_the_page_is_accessible_in_another_language(tmp_path: Path, visit: Callable[..., Any]) -> None:
    page = shown(visit(page_in("fr", tmp_path), bypass_csp=True))
    assert grave_faults(page) == []
