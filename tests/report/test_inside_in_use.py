"""Pictures and tables of what is known inside districts, in a browser: on a phone, and for everybody."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from accessibility import grave_faults
from made_refits import refits
from made_scales import made

from vbagg.report import Report, Section, write_report
from vbagg.report.texts import texts_in
from vbagg.workflow.report_page.inside import inside_figures, inside_section, inside_words

PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
INCHES, POINTS = 4.6, 10
"""Width of the pictures, and size of their letters."""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inside")
    found, say = SimpleNamespace(nested=made(), recovery=refits(6.0, 8.0)), texts_in()
    blocks = [inside_words(say, found), *inside_figures(say, found, folder).values()]
    sections = [Section(say("sections.validation"), "validation", blocks)]
    report = Report("Cases", sections=sections, appendix=[inside_section(say, found)])
    return write_report(folder / "report.html", report)


def test_pictures_can_be_read_on_a_phone(visit: Callable[..., Any], file: Path) -> None:
    page = visit(file, **PHONE)
    pictures = page.locator("#validation figure img")
    assert pictures.count() == 2
    for at in range(2):
        picture = pictures.nth(at)
        width = picture.bounding_box()["width"]
        assert width / INCHES * POINTS / 72 > 9
        assert picture.get_attribute("alt")
        sides = picture.evaluate("image => [image.naturalWidth, image.naturalHeight]")
        assert sides[1] / sides[0] == pytest.approx(picture.bounding_box()["height"] / width, rel=0.02)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_words_of_the_tables_are_explained(visit: Callable[..., Any], file: Path) -> None:
    page = visit(file)
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
    tables = page.locator("#inside table")
    assert tables.count() == 2
    assert tables.nth(0).locator("tbody tr").count() == 3
    for word in ("skill", "coverage", "p"):
        assert page.locator(f"#inside th a[href='#word-{word}']").count() >= 1
        assert page.locator(f"#word-{word}").count() == 1
    assert grave_faults(page) == []
