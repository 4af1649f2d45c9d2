"""People above a threshold: texts, shapes, and use in a browser."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from accessibility import grave_faults
from small_curve import EVERYBODY, THRESHOLDS, curve
from small_report import small_report

from vbagg import numerals
from vbagg.report import Report, write_report
from vbagg.report.above import amount, amounts, sentence, shown_above
from vbagg.report.page import page_html
from vbagg.report.texts import texts_in

SAY = texts_in()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (5_312_345.6, "5.31 million"),
        (24_208_940, "24.2 million"),
        (7_301_000, "7.30 million"),
        (999_600, "1.00 million"),
        (642_312, "642,000"),
        (1234.5, "1,230"),
        (999.4, "999"),
        (12.6, "13"),
        (3.21, "3.2"),
        (0, "0"),
        (1_234_000_000, "1,230 million"),
    ],
)
def test_amounts_have_few_digits(value: float, text: str) -> None:
    assert amount(SAY, value) == text


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (6.7e6, 7.91e6, "6.70 to 7.91 million"),
        (899_000, 1.51e6, "899,000 to 1.51 million"),
        (0, 12.3, "0 to 12"),
        (999_700, 2e6, "1.00 to 2.00 million"),
    ],
)
def test_ranges_say_million_once(low: float, high: float, text: str) -> None:
    assert amounts(SAY, low, high) == text


def test_the_sentence_of_each_kind() -> None:
    at = curve().at_start
    population = (
        "About 1.67 million of 5.31 million people (1.36 to 2.11 million) live where the rate is above 20 cases per"
    )
    assert sentence(curve(), SAY, at) == f"{population} 1000 people."
    area = sentence(curve(counted="area", units="cases per km²"), SAY, at)
    assert area.startswith(
        "About 1.67 million of 5.31 million km² (1.36 to 2.11 million) have a rate above 20 cases per"
    )
    risk = sentence(curve(counted="expected", units=""), SAY, at)
    assert risk == (
        "Places where the relative risk is above 20 make up about 1.67 million of 5.31 million expected cases"
        " (1.36 to 2.11 million)."
    )


def test_the_curve_is_drawn_by_the_order_of_thresholds() -> None:
    """From the top left, where nearly all are above, to the bottom right."""
    one = curve()
    shown = shown_above(one, SAY)
    points = [tuple(map(float, pair.split())) for pair in shown.line[1:].split("L")]
    assert [x for x, _ in points] == pytest.approx([1000 * at / 11 for at in range(12)], rel=1e-3)
    assert [y for _, y in points] == pytest.approx([240 * (1 - a / EVERYBODY) for a in one.above], rel=1e-3, abs=1e-3)
    band = [tuple(map(float, pair.split())) for pair in shown.band[1:].split("L")]
    heights = [*one.upper, *one.lower[::-1]]
    assert [y for _, y in band] == pytest.approx([240 * (1 - a / EVERYBODY) for a in heights], rel=1e-3, abs=1e-3)
    assert [x for x, _ in band] == pytest.approx([1000 * at / 11 for at in [*range(12), *range(11, -1, -1)]], rel=1e-3)
    assert shown.place == pytest.approx(100 * 7 / 11)
    assert shown.marks == [(0.0, "5.31 million"), (50.0, "2.66 million")]
    positions = [round(across * 11 / 100) for across, _ in shown.ticks]
    assert [text for _, text in shown.ticks] == [numerals.given(THRESHOLDS[at]) for at in positions]
    assert len(positions) == 6
    assert "21.5" not in dict(map(reversed, shown.ticks))


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"above": [1.0, 2.0]}, "must be lists of one length"),
        ({"thresholds": [2.0], "above": [1.0], "lower": [1.0], "upper": [1.0], "start": 2.0}, "lists of one length"),
        ({"thresholds": [*THRESHOLDS[:-1], 120.0]}, "must ascend"),
        ({"upper": [*THRESHOLDS[:-1], float("nan")]}, "be finite"),
        ({"everybody": 0.0}, "must be positive"),
        ({"start": 19.0}, "must be one of the thresholds"),
    ],
)
def test_curves_that_make_no_sense_are_refused(changed: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        curve(**changed)


def test_the_page_says_it_without_scripts() -> None:
    one = curve(response="<script>", units="<b> per 1000 people", notes=["</script>"])
    text = page_html(Report("Title", above=one))
    section = text[text.index('<section id="above"') :]
    section = section[: section.index("</section>")]
    assert "About 1.67 million of 5.31 million people" in section
    assert "above 20 &lt;b&gt; per 1000 people." in section
    assert "&lt;/script&gt;" in section
    assert "<b>" not in section
    assert 'href="#above"' in text
    data = json.loads(re.search(r'id="vbagg-above-data">(.*?)</script>', text).group(1))
    assert data["above"] == one.above
    assert data["response"] == "<script>"


def test_a_page_without_a_curve_has_no_such_section() -> None:
    assert 'id="above"' not in page_html(Report("Title"))


@pytest.fixture(scope="module")
def above_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("above")
    return write_report(folder / "report.html", replace(small_report(folder), above=curve()))


def said(page: Any) -> str:
    return page.locator("#vbagg-above-sentence").inner_text()


def test_keys_move_through_all_stored_thresholds(visit: Callable[..., Any], above_file: Path) -> None:
    page, one = visit(above_file), curve()
    slider, box = page.get_by_role("slider", name="Threshold"), page.get_by_role("textbox", name="Threshold")
    slider.focus()
    assert said(page) == sentence(one, SAY, 7)
    page.keyboard.press("Home")
    for at in range(len(THRESHOLDS)):
        assert said(page) == sentence(one, SAY, at)
        assert slider.get_attribute("aria-valuetext") == said(page)
        assert page.locator("#vbagg-above-sentence").get_attribute("aria-live") == "off"
        assert float(box.input_value()) == THRESHOLDS[at]
        plot, marker = page.locator(".plot").bounding_box(), page.locator("#vbagg-above-marker").bounding_box()
        assert marker["x"] - plot["x"] == pytest.approx(plot["width"] * at / 11, abs=1.5)
        page.keyboard.press("ArrowRight")
    assert said(page) == sentence(one, SAY, 11)


def test_between_stored_thresholds_numbers_are_in_between(visit: Callable[..., Any], above_file: Path) -> None:
    page, one = visit(above_file), curve()
    box = page.get_by_role("textbox", name="Threshold")
    box.fill("12.5")
    mixed = {name: [0.75 * getattr(one, name)[6] + 0.25 * getattr(one, name)[7]] * 12 for name in ("above", "lower")}
    mixed["upper"] = [0.75 * one.upper[6] + 0.25 * one.upper[7]] * 12
    expected = sentence(curve(**mixed), SAY, 7).replace("above 20 ", "above 12.5 ")
    assert said(page) == expected
    assert page.locator("#vbagg-above-sentence").get_attribute("aria-live") == "polite"
    assert page.get_by_role("slider", name="Threshold").input_value() == "6"
    box.fill("")
    assert said(page) == expected
    # beyond all thresholds what is said of the last one
    box.fill("123456")
    assert said(page) == sentence(one, SAY, 11).replace("above 1500 ", "above 123,456 ")
    box.fill("-3")
    assert said(page) == sentence(one, SAY, 0).replace("above 0.3 ", "above \u22123 ")
    box.fill("7.5")
    assert said(page) == sentence(one, SAY, 5)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_phone(visit: Callable[..., Any], above_file: Path, scheme: str) -> None:
    page = visit(
        above_file, color_scheme=scheme, viewport={"width": 390, "height": 844}, is_mobile=True, has_touch=True
    )
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    slider = page.get_by_role("slider", name="Threshold")
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    assert box["height"] >= 40
    page.touchscreen.tap(box["x"] + 4, box["y"] + box["height"] / 2)
    assert said(page) == sentence(curve(), SAY, 0)
    assert page.locator("#vbagg-above-number").bounding_box()["height"] >= 40


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_stands_in_anybodys_way(visit: Callable[..., Any], above_file: Path, width: int) -> None:
    page = visit(above_file, viewport={"width": width, "height": 844})
    page.wait_for_selector("html[data-viewer=ready]")
    assert grave_faults(page) == []


def test_without_scripts_and_on_paper(visit: Callable[..., Any], above_file: Path) -> None:
    page = visit(above_file, java_script_enabled=False)
    assert said(page) == sentence(curve(), SAY, 7)
    assert page.locator("#vbagg-above-range").is_hidden()
    assert page.locator("#vbagg-above-number").is_hidden()
    assert page.locator("#above .line").is_visible()
    page = visit(above_file)
    page.emulate_media(media="print")
    assert said(page) == sentence(curve(), SAY, 7)
    assert page.locator("#vbagg-above-range").is_hidden()
    assert page.locator("#vbagg-above-chosen").is_hidden()
