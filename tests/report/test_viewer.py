"""What the maps of a report show, in a browser."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_report import BOUNDS, HEIGHT, WIDTH, choose, difference, expect_text, hover, printed, rate, shown

from vbagg.report import MapLayer, Report, write_report

MILLION = 1000


def colours(page: Any, pane: int = 0) -> np.ndarray:
    """Colours of the picture, (H, W, 4)."""
    script = """(canvas) => {
      const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true });
      copy.drawImage(canvas, 0, 0);
      return Array.from(copy.getImageData(0, 0, canvas.width, canvas.height).data);
    }"""
    return np.array(page.locator("canvas.pixels").nth(pane).evaluate(script)).reshape(HEIGHT, WIDTH, 4)


def palette(name: str) -> np.ndarray:
    from cmcrameri import cm

    return cm.cmaps[name](np.arange(256), bytes=True)


def test_hover_shows_the_value_of_every_pixel_with_its_interval(page: Any) -> None:
    values = rate()
    for row in range(HEIGHT):
        for column in range(WIDTH):
            hover(page, row + 0.5, column + 0.5)
            value = values[row, column]
            if np.isnan(value):
                expect_text(page, ".value b", "no value")
                continue
            expect_text(page, ".value b", printed(value))
            expect_text(page, ".value .interval", f"90%: {printed(value / 3)} to {printed(4 * value)}")
            expect_text(page, ".probe .label span", printed(value))


def test_pixels_end_where_they_are_drawn_to_end(page: Any) -> None:
    values = rate()
    near = 0.03
    for row, column in [(1, 0), (3, 2), (4, 4), (6, 3)]:
        hover(page, row + near, column + 0.5)
        expect_text(page, ".value b", printed(values[row, column]))
        hover(page, row - near, column + 0.5)
        expect_text(page, ".value b", printed(values[row - 1, column]))
    for row, column in [(0, 1), (5, 2), (6, 4)]:
        hover(page, row + 0.5, column + near)
        expect_text(page, ".value b", printed(values[row, column]))
        hover(page, row + 0.5, column - near)
        expect_text(page, ".value b", printed(values[row, column - 1]))
    for south, east in [(near, near), (HEIGHT - near, WIDTH - near), (near, WIDTH - near)]:
        hover(page, south, east)
        expect_text(page, ".value b", printed(values[int(south), int(east)]))
    hover(page, HEIGHT + near, 2.5)
    expect_text(page, ".value b", "no value")


def test_small_and_negative_numbers(page: Any) -> None:
    choose(page, "Difference", "difference")
    raised = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
    for (row, column), value in np.ndenumerate(difference()[:2]):
        mantissa, exponent = f"{abs(value):.2e}".split("e")
        sign = "\u2212" if value < 0 else ""
        hover(page, row + 0.5, column + 0.5)
        expect_text(page, ".value b", f"{sign}{mantissa} \u00d7 10{str(int(exponent)).translate(raised)}")


def test_coordinates_of_the_pointer(page: Any) -> None:
    hover(page, 3.5, 2.5)
    text = page.locator(".where").inner_text()
    latitude, longitude = (float(part.split("°")[0]) for part in text.split(", "))
    assert text.count("S") == 1
    assert text.count("E") == 1
    assert latitude == pytest.approx(19.0, abs=0.05)
    assert longitude == pytest.approx(46.75, abs=0.05)


def test_layers_switch_picture_and_legend(page: Any) -> None:
    before, title = colours(page), page.locator(".pane h3").inner_text()
    ticks = page.locator(".tick").all_inner_texts()
    assert title == "Estimated rate"
    assert page.locator(".legend .unit").inner_text() == "cases per person"
    assert page.locator(".legend .scaling").inner_text() == "logarithmic scale"
    choose(page, "Difference", "difference")
    assert not np.array_equal(before, colours(page))
    assert page.locator(".pane h3").inner_text() == "Difference"
    assert page.locator(".about").inner_text() == "A sentence."
    assert page.locator(".legend .unit").count() == page.locator(".legend .scaling").count() == 0
    minus = "\u2212"
    expected = [f"{minus}2 × 10⁻⁵", f"{minus}10⁻⁵", "0", "10⁻⁵", "2 × 10⁻⁵"]  # noqa: RUF001
    assert page.locator(".tick").all_inner_texts() == expected != ticks
    choose(page, "Nothing", "empty")
    assert not colours(page).any()
    expect_text(page, ".legend", "This layer has no values.")


def test_linear_colours(page: Any) -> None:
    choose(page, "Difference", "difference")
    position = np.clip(np.floor(256 * (difference() + 2e-5) / 4e-5), 0, 255).astype(int)
    # Rounding to three digits can move a value across the edge of a colour.
    distance = np.abs(colours(page).astype(int) - palette("vik")[position]).max()
    assert distance <= np.abs(np.diff(palette("vik").astype(int), axis=0)).max()


def test_log_colours_gaps_and_shared_scale(page: Any) -> None:
    values = rate()
    low, high = np.percentile(values[~np.isnan(values)], [0.5, 99.5])
    step = np.abs(np.diff(palette("batlow").astype(int), axis=0)).max()
    for label, name, layer in [("Estimated rate", "mean", values), ("95% quantile", "high", 4 * values)]:
        choose(page, label, name)
        found = colours(page).astype(int)
        for (row, column), value in np.ndenumerate(layer):
            if np.isnan(value):
                assert found[row, column, 3] == 0
                continue
            position = int(np.clip(256 * math.log(value / low) / math.log(high / low), 0, 255))
            assert np.abs(found[row, column] - palette("batlow")[position]).max() <= step
    marks = {
        mark.inner_text(): mark.evaluate("node => parseFloat(node.style.left)") for mark in page.locator(".tick").all()
    }
    assert len(marks) >= 3
    for text, left in marks.items():
        assert left == pytest.approx(100 * math.log(float(text) / low) / math.log(high / low), abs=0.01)


def test_map_is_not_stretched(page: Any) -> None:
    box = page.locator("canvas.pixels").bounding_box()
    west, south, east, north = BOUNDS
    expected = (east - west) * math.cos(math.radians((south + north) / 2)) / (north - south)
    assert box["width"] / box["height"] == pytest.approx(expected, rel=0.01)


def test_district_facts(page: Any) -> None:
    def names(row: float, column: float) -> list[str]:
        hover(page, row, column)
        latitude, longitude = -12 - 2 * row, 43 + 1.5 * column
        page.wait_for_function(
            "([lat, lng]) => { const found = document.querySelector('.where')?.textContent.split(', ').map(parseFloat);"
            " return found && Math.abs(found[0] + lat) < 0.1 && Math.abs(found[1] - lng) < 0.1 }",
            arg=[latitude, longitude],
        )
        return page.locator(".district h3").all_inner_texts()

    assert names(5.5, 1.5) == ["District Frame <i>"]
    assert page.locator(".district dl").inner_text().split() == ["Cases", "1,204"]
    assert names(3.5, 1.5) == ["District Frame <i>"]
    assert names(3.5, 3.0) == ["District Frame <i>"]  # the island
    assert names(4.5, 3.0) == []  # the hole
    assert names(0.7, 0.3) == ["District Triangle"]
    assert page.locator(".district dl").inner_text().split() == ["Cases", "77", "Population", "9,000"]
    assert names(1.5, 2.5) == ["District Frame <i>", "District Triangle"]
    assert names(6.5, 0.5) == []


def test_a_million_pixels(visit: Callable[..., Any], tmp_path: Path) -> None:
    rows, columns = np.mgrid[:MILLION, :MILLION] / MILLION
    noise = np.random.default_rng(1).normal(size=(MILLION, MILLION))
    values = np.exp(np.sin(9 * rows) + np.cos(7 * columns + rows) + 0.01 * noise)
    layers = [MapLayer(f"layer{i}", f"Layer {i}", "", values * (i + 1), log=True) for i in range(2)]
    path = write_report(tmp_path / "million.html", Report("Large", layers=layers, bounds=(30, -5, 40, 5)))
    assert path.stat().st_size < 2.5e6 * len(layers)
    page = shown(visit(path))
    ready = page.evaluate("performance.getEntriesByName('vbagg-ready')[0].startTime")
    assert ready < 8000
    hover(page, 250.5, 750.5, shape=(MILLION, MILLION))
    expected = {printed(values[row, column]) for row in range(246, 256) for column in range(746, 756)}
    page.wait_for_selector(".value b")
    assert page.locator(".value b").inner_text() in expected
    choose(page, "Layer 1", "layer1")
