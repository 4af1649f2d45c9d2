"""Coasts, borders and cities in the page: as data, and in a browser."""

import base64
import itertools
import json
import re
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_report import BOUNDS, shown, small_report

from vbagg.report import MapLayer, Orientation, Report, write_report
from vbagg.report.page import page_html

HOSTILE = "<img src=x onerror='window.hit = 1'>"
NEIGHBOUR = "A neighbour whose name has no room on its right"
COAST = np.array([[44.1234, -25.5], [47.25, -25.75], [50.0, -20.125], [48.0, -13.0]])
BORDER = np.array([[43.5, -14.0], [46.5, -19.5]])
CITIES = [
    ("Large", 47.0, -19.0),
    ("Suburb", 47.6, -19.1),
    (NEIGHBOUR, 45.2, -19.0),
    (HOSTILE, 45.0, -23.0),
    ("Crowded out", 48.5, -23.1),
    ("Northern", 46.0, -14.5),
    ("Far away", 60.0, 10.0),
]
SWITCH = "Coasts and cities"


@pytest.fixture(scope="module")
def oriented_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("oriented")
    orientation = Orientation([COAST, COAST[:2] + 1], [BORDER], CITIES, "A source & its licence.")
    return write_report(folder / "report.html", replace(small_report(folder), orientation=orientation))


@pytest.fixture
def oriented(visit: Callable[..., Any], oriented_file: Path) -> Any:
    return shown(visit(oriented_file))


def packed(page: str) -> Any:
    found = re.search(r'id="vbagg-orientation">(.*?)</script>', page, re.DOTALL)
    return found and json.loads(zlib.decompress(base64.b64decode(found[1])))


def names(page: Any) -> list[str]:
    return page.locator(".city .name").all_inner_texts()


def test_lines_come_out_of_the_page() -> None:
    report = Report(
        "Title",
        layers=[MapLayer("rate", "Rate", "", np.ones((2, 2)))],
        bounds=BOUNDS,
        orientation=Orientation([COAST], [BORDER], CITIES, "Source <b>."),
    )
    page = page_html(report)
    content = packed(page)
    for name, line in (("coasts", COAST), ("borders", BORDER)):
        (steps,) = content[name]
        found = np.cumsum(np.reshape(steps, (-1, 2)), axis=0) * content["step"]
        np.testing.assert_allclose(found, line, atol=0.51 * content["step"])
    assert content["step"] <= 14 / 10_000
    assert content["cities"][0] == ["Large", 47.0, -19.0]
    assert "<p>Source &lt;b&gt;.</p></footer>" in page
    assert packed(page_html(replace(report, orientation=None))) is None


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"coasts": [COAST, COAST[:, 0]]}, r"`coasts` must be lines .* got shape \(4,\) at line 1"),
        ({"borders": [BORDER * np.nan]}, "`borders` must be lines of finite"),
        ({"cities": [("Nowhere", np.nan, 1.0)]}, "Cities must have .* for 'Nowhere'"),
    ],
)
def test_what_cannot_be_drawn_is_refused(changed: dict[str, Any], message: str) -> None:
    orientation = replace(Orientation([COAST], [BORDER], CITIES, "Source."), **changed)
    with pytest.raises(ValueError, match=message):
        page_html(Report("Title", orientation=orientation))


def test_the_layer_shows_and_can_be_switched_off(oriented: Any) -> None:
    assert oriented.locator("path.land").count() == 3
    assert oriented.locator("path.land.coast").count() == 2  # a line and its rim
    assert names(oriented) == ["Large", NEIGHBOUR, HOSTILE, "Northern"]
    assert oriented.evaluate("window.hit") is None
    oriented.get_by_label(SWITCH).uncheck()
    assert oriented.locator("path.land").count() == 0
    assert names(oriented) == []
    oriented.get_by_label("Zoom in").click()
    assert names(oriented) == []
    oriented.get_by_label(SWITCH).check()
    assert oriented.locator("path.land").count() == 3
    assert "Large" in names(oriented)


def position(page: Any, longitude: float, latitude: float) -> tuple[float, float]:
    """Where a place is on the screen, by the picture's edges."""
    box = page.locator("canvas.pixels").first.bounding_box()
    west, south, east, north = BOUNDS
    x, y = (longitude - west) / (east - west), (north - latitude) / (north - south)
    return box["x"] + x * box["width"], box["y"] + y * box["height"]


def test_lines_and_dots_are_where_they_belong(oriented: Any) -> None:
    dot = oriented.locator(".city .dot").first.bounding_box()
    middle = dot["x"] + dot["width"] / 2, dot["y"] + dot["height"] / 2
    assert middle == pytest.approx(position(oriented, 47.0, -19.0), abs=1)
    border = oriented.locator("path.land.border").bounding_box()
    left, top = position(oriented, *BORDER[0])
    right, bottom = position(oriented, *BORDER[1])
    assert (border["x"], border["y"]) == pytest.approx((left, top), abs=2)
    assert (border["width"], border["height"]) == pytest.approx((right - left, bottom - top), abs=3)


def boxes(page: Any, selector: str) -> list[dict[str, float]]:
    return [node.bounding_box() for node in page.locator(selector).all() if node.is_visible()]


def overlap(one: dict[str, float], other: dict[str, float]) -> bool:
    across = one["x"] < other["x"] + other["width"] and other["x"] < one["x"] + one["width"]
    return across and one["y"] < other["y"] + other["height"] and other["y"] < one["y"] + one["height"]


def assert_apart(page: Any) -> None:
    """Names touch neither each other nor buttons, and lie within the map."""
    labels, used = boxes(page, ".city .name"), boxes(page, ".leaflet-control, .degrees span")
    assert labels
    assert not any(overlap(one, other) for one, other in itertools.combinations(labels, 2))
    assert not any(overlap(one, other) for one in labels for other in used)
    ground = page.locator(".ground").first.bounding_box()
    for label in labels:
        assert ground["x"] <= label["x"]
        assert label["x"] + label["width"] <= ground["x"] + ground["width"] + 1


def test_names_have_room_and_more_show_as_one_zooms_in(oriented: Any) -> None:
    assert_apart(oriented)
    x, y = position(oriented, 47.3, -19.05)
    for _ in range(5):
        oriented.mouse.dblclick(x, y)
        oriented.wait_for_timeout(350)
    assert {"Large", "Suburb"} <= set(names(oriented))
    assert_apart(oriented)


def test_both_maps_have_it_when_two_are_compared(oriented: Any) -> None:
    oriented.get_by_label(SWITCH).uncheck()
    oriented.get_by_label("Compare two maps").check()
    oriented.wait_for_selector(".pane:nth-child(2)[data-layer]")
    assert names(oriented) == []
    oriented.get_by_label(SWITCH).check()
    assert oriented.locator(".pane:nth-child(2) path.land").count() == 3
    assert names(oriented).count("Large") == 2


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_in_both_schemes(visit: Callable[..., Any], oriented_file: Path, scheme: str) -> None:
    phone = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
    page = shown(visit(oriented_file, color_scheme=scheme, **phone))
    assert_apart(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    colour = page.locator(".city .name").first.evaluate("node => getComputedStyle(node).color")
    brightness = sum(map(int, re.findall(r"\d+", colour)[:3])) / 765
    assert (brightness > 0.5) == (scheme == "dark")


def test_paper_has_it_too(oriented: Any) -> None:
    oriented.emulate_media(media="print")
    oriented.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert_apart(oriented)
    assert "Large" in names(oriented)
    dot = oriented.locator(".city .dot").first.bounding_box()
    middle = dot["x"] + dot["width"] / 2, dot["y"] + dot["height"] / 2
    assert middle == pytest.approx(position(oriented, 47.0, -19.0), abs=1)


def test_without_it_there_is_no_switch(page: Any) -> None:
    assert page.get_by_text(SWITCH).is_hidden()
    assert page.locator(".city").count() == 0
