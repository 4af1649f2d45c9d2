"""Tables of areas in a browser."""

import csv
import io
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from accessibility import grave_faults
from small_areas import HOSTILE, NAMES, area_report, area_table
from small_report import shown

from vbagg.report import Area, Report, write_report

STILL = {"reduced_motion": "reduce"}
PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}


@pytest.fixture(scope="module")
def areas_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(tmp_path_factory.mktemp("areas") / "report.html", area_report())


@pytest.fixture
def page(visit: Callable[..., Any], areas_file: Path) -> Any:
    return ready(visit(areas_file, **STILL))


def ready(page: Any) -> Any:
    page.wait_for_selector("html[data-areas=ready]")
    return shown(page)


def names(page: Any, anchor: str = "districts") -> list[str]:
    return page.locator(f"#{anchor} tbody th").all_text_contents()


def all_names(page: Any) -> list[str]:
    page.locator("#districts .more button").click()
    return names(page)


def by_number(areas: list[Area], column: int, falling: bool) -> list[str]:
    """Names by a number, missing ones last, in a plain way."""
    pairs = [(area.cells[column - 1].value, at, area.name) for at, area in enumerate(areas)]
    known = [pair for pair in pairs if pair[0] is not None]
    known.sort(key=lambda pair: (-pair[0] if falling else pair[0], pair[1]))
    return [name for *_, name in known] + [name for value, _, name in pairs if value is None]


def test_rows_follow_headers_and_presets(page: Any) -> None:
    areas = list(area_table().areas)
    assert names(page) == by_number(areas, 1, True)[:10]
    assert all_names(page) == by_number(areas, 1, True)
    head = page.locator("#districts thead th").nth(2)
    head.get_by_role("button").focus()
    page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "descending"
    assert names(page) == by_number(areas, 2, True)
    page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "ascending"
    assert names(page) == by_number(areas, 2, False)
    preset = page.locator("#districts .orders").get_by_role("button", name="Certainty")
    preset.click()
    assert preset.get_attribute("aria-pressed") == "true"
    assert page.locator("#districts .orders [aria-pressed=true]").count() == 1
    assert names(page) == by_number(areas, 3, False)
    assert head.get_attribute("aria-sort") is None


def test_names_are_sorted_as_people_sort_them(page: Any) -> None:
    page.locator("#districts thead th").first.get_by_role("button").click()
    found = all_names(page)
    wanted = [
        "ambalavao",
        "Ambato",
        "District 9",
        "District 10",
        "Émile",
        "Île-Rousse",
        "Place 2",
        "Place 10",
        "São Tomé",
    ]
    assert [name for name in found if name in wanted] == wanted
    assert sorted(found) == sorted(NAMES)


def test_search_finds_names_without_their_accents(page: Any) -> None:
    box = page.get_by_label("Search").first
    for letters in ("ile", "ÎLE", "zurich", "<img"):
        box.fill(letters)
        wanted = [name for name in NAMES if plain(letters) in plain(name)]
        assert wanted
        assert sorted(names(page)) == sorted(wanted)
        assert page.locator("#districts .found").inner_text() == f"{len(wanted)} of {len(NAMES)}"
    box.fill("nothing like it")
    assert names(page) == []
    assert page.locator("#districts .none").is_visible()
    box.fill("")
    assert len(names(page)) == 10


def plain(text: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFD", text) if not unicodedata.combining(c)).lower()


def test_downloaded_file_is_safe_and_whole(page: Any, tmp_path: Path) -> None:
    page.locator("#districts .orders").get_by_role("button", name="Rate").click()
    with page.expect_download() as waiting:
        page.locator("#districts .download").click()
    assert waiting.value.suggested_filename == "cases_districts.csv"
    waiting.value.save_as(tmp_path / "file.csv")
    content = (tmp_path / "file.csv").read_bytes()
    assert content.startswith(b"\xef\xbb\xbf")
    header, *rows = csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""))
    assert header == ["name", "id", "official", "rate"]
    areas = {area.name: area for area in area_table().areas}
    assert [row[0].removeprefix("'") for row in rows] == [
        name.removeprefix("'") for name in by_number(list(areas.values()), 2, True)
    ]
    for name, id, total, rate in rows:
        assert name[0] not in "=+-@"
        own = areas[name if name in areas else name[1:]]
        assert (name != own.name) == (own.name[0] in "=+-@")
        assert id == own.record[1]
        assert (float(total) if total else None) == own.record[2]
        assert float(rate) == own.record[3]


def marked(page: Any) -> tuple[dict[str, float], dict[str, float]]:
    """Boxes of the outline that is marked, and of the map."""
    page.wait_for_selector("path.highlight.line[d^=M]", state="attached")
    return page.locator("path.highlight.line").bounding_box(), page.locator(".ground").bounding_box()


def require_there(page: Any) -> None:
    """The marked outline fills the map, in one direction at least, and not more than it."""
    page.wait_for_timeout(100)
    outline, ground = marked(page)
    assert ground["x"] <= outline["x"]
    assert outline["x"] + outline["width"] <= ground["x"] + ground["width"]
    assert ground["y"] <= outline["y"]
    assert outline["y"] + outline["height"] <= ground["y"] + ground["height"]
    assert max(outline["width"] / ground["width"], outline["height"] / ground["height"]) > 0.5


def test_a_row_leads_to_the_map_and_back(page: Any) -> None:
    first = names(page)[0]
    page.locator("#districts tbody td").nth(1).click()
    require_there(page)
    assert page.evaluate("scrollY + innerHeight > document.querySelector('.ground').getBoundingClientRect().top")
    assert page.locator(".district h3").inner_text() == f"District {first}"
    assert page.evaluate("document.activeElement.id") == "vbagg-readout"
    page.get_by_role("button", name="Back to the table").click()
    assert page.evaluate("document.activeElement.textContent") == first


def test_names_are_walked_through_by_keyboard(page: Any) -> None:
    page.locator("#districts .go").first.focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowUp", "ArrowDown"):
        page.keyboard.press(key)
    third = names(page)[2]
    assert page.evaluate("document.activeElement.textContent") == third
    assert page.locator("#districts .go[tabindex='0']").count() == 1
    page.keyboard.press("Enter")
    require_there(page)
    assert third in page.locator(".district h3").inner_text()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.textContent") == third


def test_other_areas_have_a_box_or_no_place(page: Any) -> None:
    assert names(page, "areas-1") == ["North", "Nowhere"]
    assert page.locator("#areas-1 .go").all_text_contents() == ["North"]
    page.locator("#areas-1 .go").click()
    require_there(page)
    facts = page.locator(".district").inner_text()
    assert "Areas of regions.gpkg North" in facts
    assert "3 (1.5 to 6)" in facts


def test_more_rows_are_asked_for(page: Any) -> None:
    button = page.locator("#districts .more button")
    assert button.inner_text() == f"Show all {len(NAMES)}"
    button.click()
    assert len(names(page)) == len(NAMES)
    assert button.get_attribute("aria-expanded") == "true"
    button.click()
    assert len(names(page)) == 10
    assert page.locator("#areas-1 .more").is_hidden()


def test_paper_has_the_first_rows_and_the_appendix(page: Any) -> None:
    page.locator("#districts .orders").get_by_role("button", name="Rate").click()
    assert page.locator("#appendix table").is_hidden()
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert names(page) == by_number(list(area_table().areas), 1, True)[:20]
    assert f"The first 20 of {len(NAMES)}" in page.locator("#districts .printed").inner_text()
    assert page.locator("#areas-1 .printed").count() == 0
    assert page.locator("#districts .tools").is_hidden()
    assert page.locator("#appendix table").is_visible()
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    page.emulate_media(media="screen")
    assert names(page) == by_number(list(area_table().areas), 2, True)[:10]
    assert page.locator("#appendix table").is_hidden()


def test_without_scripts_the_first_rows_are_there(visit: Callable[..., Any], areas_file: Path) -> None:
    page = visit(areas_file, java_script_enabled=False)
    assert names(page) == by_number(list(area_table().areas), 1, True)[:20]
    assert page.locator("#districts .printed").is_visible()
    assert page.locator("#districts .tools").is_hidden()


def test_hostile_names_stay_text(page: Any) -> None:
    found = all_names(page)
    for name in HOSTILE:
        assert name in found
        page.get_by_label("Search").first.fill(name)
        page.locator("#districts .go").first.click()
        assert page.locator(".district h3").text_content() == f"District {name}"
    assert page.locator(".verdict li").nth(1).text_content() == HOSTILE[0]
    link = page.locator("#files a")
    assert (link.get_attribute("href"), link.text_content()) == ("../maps/a%20%231%25.tif", HOSTILE[1])
    assert page.evaluate("window.hit") is None


@pytest.mark.parametrize("word", ["yes", "with care", "no", "unchecked"])
def test_the_judgement_is_told_by_word_and_shape(visit: Callable[..., Any], tmp_path: Path, word: str) -> None:
    page = shown(visit(write_report(tmp_path / "report.html", area_report(word))))
    box = page.locator(".verdict")
    assert box.locator(".word").inner_text() == word.capitalize()
    assert box.locator("li").count() == 3
    colour = box.locator(".word").evaluate("node => getComputedStyle(node).color")
    path = box.locator("svg").evaluate("node => node.innerHTML")
    assert SEEN.setdefault(word, (colour, path)) == (colour, path)
    assert len(set(SEEN.values())) == len({path for _, path in SEEN.values()}) == len(SEEN)


SEEN: dict[str, tuple[str, str]] = {}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("screen", [{}, PHONE], ids=["desk", "phone"])
def test_no_grave_fault_of_accessibility(
    visit: Callable[..., Any], areas_file: Path, scheme: str, screen: dict[str, Any]
) -> None:
    page = ready(visit(areas_file, color_scheme=scheme, **STILL, **screen))
    page.locator("#appendix > summary").click()
    page.locator("#districts .more button").click()
    page.locator("#districts .go").first.click()
    page.wait_for_timeout(300)
    assert grave_faults(page) == []


@pytest.mark.parametrize("screen", [{"viewport": {"width": 1366, "height": 768}}, PHONE], ids=["laptop", "phone"])
def test_the_first_screen_has_paragraph_and_judgement(
    visit: Callable[..., Any], areas_file: Path, screen: dict[str, Any]
) -> None:
    page = visit(areas_file, **screen)
    page.wait_for_selector("html[data-areas=ready]")
    box = page.locator(".verdict").bounding_box()
    assert box["y"] + box["height"] < screen["viewport"]["height"]
    assert page.locator(".paragraph").bounding_box()["y"] >= 0
    assert page.evaluate("document.documentElement.scrollWidth") <= screen["viewport"]["width"]


def test_names_stay_while_a_phone_scrolls_the_table(visit: Callable[..., Any], areas_file: Path) -> None:
    page = ready(visit(areas_file, **PHONE, **STILL))
    frame = page.locator("#districts .table")
    assert frame.evaluate("node => node.scrollWidth > node.clientWidth")
    before = page.locator("#districts tbody th").first.bounding_box()
    frame.evaluate("node => (node.scrollLeft = 120)")
    page.wait_for_timeout(50)
    after = page.locator("#districts tbody th").first.bounding_box()
    assert after["x"] == pytest.approx(before["x"], abs=1)
    assert page.locator("#districts tbody td").first.bounding_box()["x"] < before["x"] + before["width"]


def test_tables_without_a_map_lead_nowhere(visit: Callable[..., Any], tmp_path: Path) -> None:
    report = Report("Title", tables=[area_table()])
    page = visit(write_report(tmp_path / "report.html", report))
    page.wait_for_selector("html[data-areas=ready]")
    assert len(names(page)) == 10
    assert page.locator(".go").count() == 0


@pytest.mark.slow
def test_two_thousand_districts_and_a_million_pixels(visit: Callable[..., Any], tmp_path: Path) -> None:
    page = ready(visit(write_report(tmp_path / "report.html", area_report(n=2000, shape=(1000, 1000))), **STILL))
    areas = list(area_table(2000).areas)
    first = all_names(page)
    assert 50 < len(first) < 500
    assert first == by_number(areas, 1, True)[: len(first)]
    page.locator("#districts .orders").get_by_role("button", name="Certainty").click()
    page.locator("#districts .table").evaluate("node => (node.scrollTop = node.scrollHeight)")
    page.wait_for_function("n => document.querySelectorAll('#districts tbody tr').length > n", arg=len(first))
    page.locator("#districts .go").first.focus()
    page.keyboard.press("End")
    assert names(page) == by_number(areas, 3, False)
    assert page.evaluate("document.activeElement.textContent") == names(page)[-1]
    assert page.locator("#districts table").get_attribute("aria-rowcount") == "2001"
    page.get_by_label("Search").first.fill("trict 77")
    assert len(names(page)) == 11
