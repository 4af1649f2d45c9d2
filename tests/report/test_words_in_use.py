"""Words of the glossary in a browser: mouse, keyboard, touch."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_report import shown

from vbagg.report import Explained, MapLayer, Report, Section, Table, write_report

MEANING = "The value in the middle"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    values = np.array([[1.0, 2.0], [3.0, 4.0]])
    layers = [
        MapLayer("rate", "Rate", "cases", values, description="Posterior quantile, a Quantile & <more>."),
        MapLayer("other", "Other", "cases", 2 * values, description="Nothing."),
    ]
    table = Table(["", "far on the right"], [[Explained("Typical value", "median"), 1.0]])
    sections = [Section("One", "one", ["The median of all.", table, *["Line."] * 60])]
    return write_report(tmp_path / "report.html", Report("T", layers=layers, bounds=(0, 0, 4, 3), sections=sections))


def test_a_word_is_explained_under_the_pointer(visit: Callable[..., Any], file: Path) -> None:
    from playwright.sync_api import expect

    page = shown(visit(file))
    word, tip = page.locator("#one p a.term"), page.locator(".tip")
    expect(tip).to_be_hidden()
    word.hover()
    expect(tip).to_contain_text(MEANING)
    box, below = word.bounding_box(), tip.bounding_box()
    assert below["y"] >= box["y"] + box["height"]
    # the pointer may go to what is shown
    page.mouse.move(below["x"] + 20, below["y"] + 20, steps=5)
    page.wait_for_timeout(400)
    expect(tip).to_be_visible()
    page.mouse.move(5, 5)
    expect(tip).to_be_hidden()


def test_a_word_is_explained_where_the_keyboard_is(visit: Callable[..., Any], file: Path) -> None:
    from playwright.sync_api import expect

    page = shown(visit(file))
    word, tip = page.locator("#one p a.term"), page.locator(".tip")
    word.focus()
    expect(tip).to_contain_text(MEANING)
    page.keyboard.press("Escape")
    expect(tip).to_be_hidden()
    assert page.evaluate("document.activeElement.className") == "term"
    described = word.get_attribute("aria-describedby")
    assert MEANING in page.locator(f"#{described}").inner_text()
    page.keyboard.press("Enter")
    page.wait_for_function("location.hash === '#word-median'")


def test_a_word_is_explained_by_a_tap_on_a_phone(visit: Callable[..., Any], file: Path) -> None:
    from playwright.sync_api import expect

    phone = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
    page = shown(visit(file, **phone))
    page.locator("#one table a.term").tap()
    tip = page.locator(".tip")
    expect(tip).to_contain_text(MEANING)
    box = tip.bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 390
    assert page.evaluate("location.hash") == ""
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.locator("h1").tap()
    expect(tip).to_be_hidden()


def test_words_of_layers_are_explained(visit: Callable[..., Any], file: Path) -> None:
    page = shown(visit(file))
    about = page.locator(".pane .about")
    assert about.inner_text() == "Posterior quantile, a Quantile & <more>."
    links = about.locator("a.term")
    assert [link.get_attribute("href") for link in links.all()] == ["#word-posterior", "#word-quantile"]
    links.nth(1).hover()
    assert "stays below" in page.locator(".tip").inner_text()


def test_without_scripts_words_lead_to_the_list(visit: Callable[..., Any], file: Path) -> None:
    page = visit(file, java_script_enabled=False)
    page.locator("#one p a.term").click()
    assert page.url.endswith("#word-median")
