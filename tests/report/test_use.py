"""Using a report in a browser: mouse, touch, keyboard, print."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_report import WIDTH, choose, expect_text, hover, place, printed, radio, rate, ring, shown

from vbagg.report import Districts, MapLayer, Report, Section, write_report


def test_outlines_can_be_hidden(page: Any) -> None:
    assert page.locator("path.outlines").count() == 2
    page.get_by_label("District outlines").uncheck()
    assert page.locator("path.outlines").count() == 0
    page.get_by_label("District outlines").check()
    assert page.locator("path.outlines").count() == 2


def test_opacity(page: Any) -> None:
    slider = page.get_by_label("Opacity")
    slider.focus()
    for _ in range(12):
        page.keyboard.press("ArrowLeft")
    assert page.locator("canvas.pixels").evaluate("node => getComputedStyle(node).opacity") == "0.4"
    assert page.locator("#vbagg-opacity-text").inner_text() == "40%"
    page.get_by_label("Compare two maps").check()
    page.wait_for_selector(".pane:nth-child(2)[data-layer]")
    assert page.locator("canvas.pixels").nth(1).evaluate("node => getComputedStyle(node).opacity") == "0.4"


def still(page: Any) -> None:
    """Wait until no map moves."""
    page.wait_for_timeout(60)
    page.wait_for_function("() => !document.querySelector('.leaflet-pan-anim, .leaflet-zoom-anim')")
    page.wait_for_timeout(30)


def relative(page: Any, pane: int) -> dict[str, float]:
    """The picture's box within its map."""
    box = page.locator("canvas.pixels").nth(pane).bounding_box()
    frame = page.locator(".ground").nth(pane).bounding_box()
    return {"x": box["x"] - frame["x"], "y": box["y"] - frame["y"], "width": box["width"], "height": box["height"]}


def test_compared_maps_move_together(page: Any) -> None:
    from playwright.sync_api import expect

    page.get_by_label("Compare two maps").check()
    page.wait_for_selector(".pane:nth-child(2)[data-layer=constant]")
    home = relative(page, 0)
    assert relative(page, 1) == pytest.approx(home, abs=1)
    x, y = place(page, 3.5, 2.5)
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 60, y + 35, steps=4)
    page.mouse.up()
    still(page)
    assert relative(page, 0)["x"] > home["x"] + 30
    assert relative(page, 1) == pytest.approx(relative(page, 0), abs=1)
    page.get_by_label("Zoom in").nth(1).click()
    wider = "width => document.querySelector('canvas.pixels').getBoundingClientRect().width > width"
    page.wait_for_function(wider, arg=1.9 * home["width"])
    still(page)
    assert relative(page, 1) == pytest.approx(relative(page, 0), abs=1)
    page.get_by_role("button", name="Reset view").click()
    assert relative(page, 0) == pytest.approx(home, abs=1)
    assert relative(page, 1) == pytest.approx(home, abs=1)

    hover(page, 4.5, 3.5, pane=0)
    expect(page.locator(".value b")).to_have_text([printed(rate()[4, 3]), "1,235"])
    assert page.locator(".pane:nth-child(2) .probe .ring").is_visible()
    page.get_by_label("Layer of the right map").select_option("high")
    page.wait_for_selector(".pane:nth-child(2)[data-layer=high]")
    hover(page, 5.5, 0.5, pane=1)
    expect(page.locator(".value b")).to_have_text([printed(rate()[5, 0]), printed(4 * rate()[5, 0])])
    page.get_by_label("Layer of the left map").select_option("low")
    page.wait_for_selector(".pane:nth-child(1)[data-layer=low]")
    page.get_by_label("Compare two maps").uncheck()
    assert page.locator(".ground").nth(1).is_hidden()
    assert radio(page, "5% quantile").is_checked()


def test_view_is_kept_when_comparing_starts(page: Any) -> None:
    page.get_by_label("Zoom in").click()
    still(page)
    width = relative(page, 0)["width"]
    page.get_by_label("Compare two maps").check()
    page.wait_for_selector(".pane:nth-child(2)[data-layer]")
    still(page)
    assert relative(page, 0)["width"] == pytest.approx(width, abs=1)
    assert relative(page, 1) == pytest.approx(relative(page, 0), abs=1)


def focused(page: Any) -> str:
    return page.evaluate("document.activeElement.value ?? document.activeElement.className")


def test_keyboard_reaches_layers_and_map(page: Any) -> None:
    page.evaluate("scrollTo(0, 0)")
    for _ in range(20):
        page.keyboard.press("Tab")
        if focused(page) == "mean":
            break
    assert focused(page) == "mean"
    label = page.locator(".layers label", has_text="Estimated rate")
    assert label.evaluate("node => getComputedStyle(node).outlineStyle") == "solid"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.wait_for_selector(".pane[data-layer=high]")
    assert radio(page, "95% quantile").is_checked()
    page.keyboard.press("ArrowUp")
    page.wait_for_selector(".pane[data-layer=low]")

    page.keyboard.press("Tab")
    assert focused(page).startswith("ground")
    assert page.locator(".ground").evaluate("node => getComputedStyle(node).outlineStyle") == "solid"
    assert page.locator(".probe .ring").is_visible()
    assert page.locator("#vbagg-readout").get_attribute("aria-live") == "polite"
    values = rate() / 3
    expect_text(page, ".value b", printed(values[3, 2]))
    for _ in range(3):
        page.keyboard.press("ArrowRight")
        still(page)
    box, ground = page.locator("canvas.pixels").bounding_box(), page.locator(".ground").bounding_box()
    column = (ground["x"] + ground["width"] / 2 - box["x"]) / box["width"] * WIDTH
    assert column > 3
    expect_text(page, ".value b", printed(values[3, int(column)]))


def test_a_click_keeps_the_point(page: Any) -> None:
    values = rate()
    page.mouse.click(*place(page, 4.5, 1.5))
    hover(page, 5.5, 2.5)
    expect_text(page, ".value b", printed(values[5, 2]))
    page.mouse.move(5, 5)
    expect_text(page, ".value b", printed(values[4, 1]))
    choose(page, "5% quantile", "low")
    expect_text(page, ".value b", printed(values[4, 1] / 3))


def test_figures_open_and_close_by_keyboard(page: Any) -> None:
    page.get_by_role("button", name="Enlarge: empty plot").focus()
    page.keyboard.press("Enter")
    dialog = page.locator("#vbagg-lightbox")
    assert dialog.is_visible()
    assert dialog.locator("figcaption").inner_text() == "A plot"
    assert dialog.locator("img").evaluate("node => node.naturalWidth") == 600
    page.keyboard.press("Escape")
    assert dialog.is_hidden()


def test_settings_unfold_and_printing_fits_the_paper(page: Any) -> None:
    assert page.locator("details pre").is_hidden()
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details pre").inner_text() == "[model]\nlink = 'exp'"
    box, ground = page.locator("canvas.pixels").bounding_box(), page.locator(".ground").bounding_box()
    assert ground["width"] <= 680
    assert ground["y"] <= box["y"]
    assert box["y"] + box["height"] <= ground["y"] + ground["height"]
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("details pre").is_hidden()
    assert len(page.pdf()) > 10_000


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_phone(visit: Callable[..., Any], report_file: Path, scheme: str) -> None:
    phone = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
    page = shown(visit(report_file, color_scheme=scheme, **phone))
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    ground = page.locator(".ground").bounding_box()
    assert ground["width"] > 300
    assert ground["height"] > 280
    assert ground["y"] >= 0
    assert ground["y"] + ground["height"] < 844
    x, y = place(page, 4.5, 2.5)
    page.touchscreen.tap(x, y)
    expect_text(page, ".value b", printed(rate()[4, 2]))
    label = page.locator(".probe .label").bounding_box()
    assert label["x"] >= ground["x"]
    assert label["x"] + label["width"] <= ground["x"] + ground["width"]
    page.get_by_label("Compare two maps").check()
    page.wait_for_selector(".pane:nth-child(2)[data-layer]")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_page_without_map(visit: Callable[..., Any], tmp_path: Path) -> None:
    page = visit(write_report(tmp_path / "text.html", Report("Title", sections=[Section("One", "one", ["Words."])])))
    assert page.locator("section p").inner_text() == "Words."


def test_hostile_text_stays_text(visit: Callable[..., Any], tmp_path: Path) -> None:
    hostile = "</script><script>window.hit = 1</script><img src=x onerror='window.hit = 1'>"
    outline = {"type": "Polygon", "coordinates": [ring((0, 0), (4, 0), (4, 3), (0, 3))]}
    facts = Districts({"features": [{"geometry": outline}]}, [{hostile: hostile, "b": hostile}])
    layer = MapLayer(hostile, hostile, hostile, np.array([[1.0, 2.0]]), description=hostile, interval=hostile)
    summary = [(hostile, hostile)]
    report = Report(hostile, hostile, summary=summary, layers=[layer], bounds=(0, 0, 4, 3), districts=facts)
    page = shown(visit(write_report(tmp_path / "hostile.html", report)))
    hover(page, 0.5, 0.5, shape=(1, 2))
    expect_text(page, ".district h3", f"{hostile} {hostile}")
    assert page.locator("h1").inner_text() == hostile
    assert page.evaluate("window.hit") is None
