import base64
import hashlib
import json
import os
import re
import struct
import zlib
from collections.abc import Callable
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vbagg.report import Code, Districts, Figure, Finding, MadeWith, MapLayer, Report, Section, Table, write_report
from vbagg.report.encoding import Coding, decode, unpack_codes
from vbagg.report.page import SCRIPTS, STYLES, page_html
from vbagg.report.scripts import DataBlock, script_json

NASTY = """</script><script>alert("x")</script><!-- & ' $title \u2028"""


def png(width: int = 5, height: int = 3) -> bytes:
    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress(b"".join(b"\0" + bytes(width) for _ in range(height)))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def square(west: float, south: float, side: float) -> dict:
    ring = [[west, south], [west + side, south], [west + side, south + side], [west, south + side], [west, south]]
    return {"type": "Feature", "properties": {}, "geometry": {"type": "Polygon", "coordinates": [ring]}}


@pytest.fixture
def report(rng: np.random.Generator) -> Report:
    values = rng.random((3, 5))
    return Report(
        title="Title",
        layers=[MapLayer("rate", "Rate", "cases", values), MapLayer("sd", "Deviation", "cases", 2 * values)],
        bounds=(10.0, -4.0, 15.0, 2.0),
        districts=Districts({"type": "FeatureCollection", "features": [square(11, 0, 1)]}, [{"District": "A"}]),
        sections=[Section("Scores", "scores", ["Text."])],
        citation="Cite us.",
        made_with=MadeWith("0.1", "2026-01-02", "vbagg run"),
    )


def block(page: str, identifier: str) -> str:
    found = re.search(rf'<script type="[^"]*" id="{identifier}">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return found[1]


def test_values_come_out_of_the_page(report: Report) -> None:
    page = page_html(report)
    settings = json.loads(block(page, "vbagg-settings"))
    assert (settings["height"], settings["width"]) == (3, 5)
    assert settings["bounds"] == {"west": 10, "south": -4, "east": 15, "north": 2}
    for position, layer in enumerate(report.layers):
        coding = Coding(**settings["layers"][position]["coding"])
        found = decode(unpack_codes(block(page, f"vbagg-layer-{position}"), (3, 5)), coding)
        np.testing.assert_allclose(found, layer.values, rtol=5.01e-3)


def test_home_is_where_values_are(report: Report) -> None:
    values = np.full((3, 5), np.nan)
    values[1, 2:4] = 1.0
    page = page_html(replace(report, layers=[MapLayer("rate", "Rate", "", values)]))
    home = json.loads(block(page, "vbagg-settings"))["home"]
    assert home == {"west": 12, "south": -2, "east": 14, "north": 0}


def test_districts_are_packed_with_their_facts(report: Report) -> None:
    packed = json.loads(zlib.decompress(base64.b64decode(block(page_html(report), "vbagg-districts"))))
    assert packed["facts"] == [[["District", "A"]]]
    assert packed["geometries"][0]["coordinates"][0][1] == [12.0, 0.0]


def test_all_text_is_escaped() -> None:
    values = np.ones((2, 2))
    page = page_html(
        Report(
            title=NASTY,
            subtitle=NASTY,
            summary=[(NASTY, NASTY)],
            layers=[MapLayer(NASTY, NASTY, NASTY, values, description=NASTY)],
            bounds=(0, 0, 1, 1),
            districts=Districts({"type": "FeatureCollection", "features": [square(0, 0, 1)]}, [{NASTY: NASTY}]),
            sections=[
                Section(
                    NASTY,
                    "nasty",
                    [
                        NASTY,
                        Table([NASTY], [[NASTY]], NASTY),
                        Figure(png(), NASTY, NASTY),
                        Code(NASTY, NASTY),
                        Finding("error", NASTY),
                    ],
                )
            ],
            citation=NASTY,
            made_with=MadeWith(NASTY, NASTY, NASTY),
        )
    )
    assert "alert(" in page
    assert '<script>alert("x")' not in page
    assert "\u2028" not in block(page, "vbagg-settings")
    assert json.loads(block(page, "vbagg-settings"))["layers"][0]["label"] == NASTY
    executable = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert len(executable) == 1


def test_only_our_script_may_run(report: Report) -> None:
    page = page_html(report)
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in page
    assert "default-src 'none'" in page


def test_nothing_is_asked_from_elsewhere(report: Report) -> None:
    page = page_html(report)
    markup = page.split("<script>")[0]
    assert re.findall(r"""(?:src|href)=["'](?!data:|#)[^"']*""", markup) == []
    style = page.split("<style>")[1].split("</style>")[0]
    assert "url(" not in style
    assert "@import" not in style
    assert "sourceMappingURL" not in page


def test_every_asset_is_used_and_leaflet_has_its_licence(report: Report) -> None:
    assets = files("vbagg.report") / "assets"
    assert {item.name for item in (assets / "js").iterdir()} == set(SCRIPTS)
    assert {item.name for item in (assets / "css").iterdir()} == set(STYLES)
    assert "Volodymyr Agafonkin" in page_html(report)


def test_navigation_leads_to_existing_sections(report: Report) -> None:
    page = page_html(report)
    navigation = page.split("<nav")[1].split("</nav>")[0]
    targets = re.findall(r'href="#([^"]+)"', navigation)
    assert targets == ["map", "scores", "cite"]
    assert all(f'id="{target}"' in page for target in targets)


def test_sections_without_blocks_are_left_out(report: Report) -> None:
    page = page_html(replace(report, sections=[Section("Bare", "bare", []), Section("Full", "full", ["Words."])]))
    assert "bare" not in page.split("<script>")[0].split("</style>")[1]
    assert 'href="#full"' in page


def test_page_without_layers() -> None:
    page = page_html(Report("Only text", sections=[Section("One", "one", ["Words."])]))
    assert "<p>Words.</p>" in page
    assert 'id="map"' not in page
    assert "vbagg-settings" not in page.split("<script>")[0]


def test_tables_set_numbers_flush_right() -> None:
    table = Table(["Model", "NLL", "Held", "Note"], [["ours", 1.23456, "91%", "x"], ["GLM", None, "1,204", 3]])
    page = page_html(Report("T", sections=[Section("S", "s", [table])]))
    assert '<th scope="col" class="number">NLL</th><th scope="col" class="number">Held</th>' in page
    assert '<td>ours</td><td class="number">1.23</td>' in page
    assert '<th scope="col">Note</th>' in page


def test_figures_know_their_size_and_stand_together(tmp_path: Path) -> None:
    (tmp_path / "plot.png").write_bytes(png(7, 4))
    figures = [Figure(png(), "one", "first"), Figure(tmp_path / "plot.png", "two", "second")]
    page = page_html(Report("T", sections=[Section("S", "s", ["before", *figures, "after"])]))
    assert page.count('<div class="figures">') == 1
    assert 'width="7" height="4" alt="second"' in page
    assert base64.b64encode(png(7, 4)).decode() in page


def test_findings_in_a_row_make_one_list() -> None:
    findings = [Finding("warning", "w"), Finding("advice", "a")]
    page = page_html(Report("T", sections=[Section("S", "s", findings)]))
    assert page.count('<ul class="findings">') == 1
    assert '<li class="advice"><strong class="level">Advice</strong><span>a</span></li>' in page


def test_write_replaces_the_file_in_one_piece(report: Report, tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    target.write_text("old")
    assert write_report(target, report) == target
    assert target.read_text(encoding="utf-8") == page_html(report)
    assert list(tmp_path.iterdir()) == [target]


def test_an_interrupted_write_leaves_the_old_file(
    report: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "report.html"
    target.write_text("old")

    def interrupt(descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_report(target, report)
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_bad_targets(report: Report, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="must name a file; got the folder"):
        write_report(tmp_path, report)
    with pytest.raises(ValueError, match="must lie in an existing folder"):
        write_report(tmp_path / "missing" / "report.html", report)


def with_layer(**changes: Any) -> Callable[[Report], Report]:
    return lambda report: replace(report, layers=[report.layers[0], replace(report.layers[1], **changes)])


def with_blocks(*blocks: object) -> Callable[[Report], Report]:
    return lambda report: replace(report, sections=[Section("S", "s", blocks)])  # type: ignore[arg-type]


def with_values(place: tuple[int, int], value: float) -> Callable[[Report], Report]:
    def change(report: Report) -> Report:
        values = report.layers[1].values.copy()
        values[place] = value
        return with_layer(values=values)(report)

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (with_layer(values=np.ones((5, 3))), r"shape of the first, \(3, 5\) \('rate'\); got \(5, 3\) in layer 'sd'"),
        (with_layer(values=np.ones(3)), r"must be \(H, W\) and not empty; got shape \(3,\) in layer 'sd'"),
        (with_layer(values=np.ones((3, 5), dtype=int)), "floating point; got int64 in layer 'sd'"),
        (with_values((2, 4), np.inf), "got inf at row 2, column 4 of layer 'sd'. Replace it by NaN"),
        (with_layer(name="rate"), "Names of layers must differ; got 'rate' twice"),
        (with_layer(lower="low", upper="rate"), "`lower of layer sd` must be one of 'rate', 'sd'; got 'low'"),
        (with_layer(lower="rate"), "`lower` and `upper` go together; layer 'sd'"),
        (with_layer(same_scale_as="sd"), "must not run in a circle; got sd -> sd"),
        (with_layer(limits=(2, 1)), r"two ascending numbers; got \(2, 1\) in layer 'sd'"),
        (with_layer(limits=(0, 1), log=True), "log layer must be positive"),
        (with_layer(colours="#%"), "got '#%' in layer 'sd'. Take 'batlow'"),
        (with_layer(digits=7), "`digits` must be 2, 3 or 4; got 7 in layer 'sd'"),
        (with_layer(colours="batlou"), "got 'batlou' in layer 'sd'. Did you mean 'batlow'"),
        (lambda report: replace(report, compare="mean"), "`compare` must be one of 'rate', 'sd'; got 'mean'"),
        (lambda report: replace(report, bounds=None), "`bounds` must be given"),
        (lambda report: replace(report, bounds=(15, -4, 10, 2)), "west < east"),
        (lambda report: replace(report, bounds=(10, -4, 15, 200)), "in degrees"),
        (
            lambda report: replace(report, districts=replace(report.districts, facts=[])),
            "one entry per feature; got 0 for 1",
        ),
        (
            lambda report: replace(report, districts=Districts({"type": "Polygon"}, [])),
            "FeatureCollection; got type 'Polygon'",
        ),
        (
            lambda report: replace(
                report,
                districts=Districts(
                    {"features": [square(0, 0, 1), {"geometry": {"type": "Point", "coordinates": [0, 0]}}]}, [{}, {}]
                ),
            ),
            "got Point at feature 1",
        ),
        (
            lambda report: replace(
                report, districts=Districts({"features": [{"geometry": {"type": "Polygon", "coordinates": []}}]}, [{}])
            ),
            "got an empty Polygon at feature 0",
        ),
        (lambda report: replace(report, sections=[Section("S", "a b", [])]), "got 'a b' in section 'S'"),
        (lambda report: replace(report, sections=[Section("S", "map", [])]), "Anchors must differ.*got 'map'"),
        (with_blocks(Finding("fatal", "x")), "got 'fatal'"),  # type: ignore[arg-type]
        (with_blocks(Table(["a", "b"], [[1, 2], [1]])), "got 1 cells at row 1 of a table in section 'S'"),
        (with_blocks(Figure(b"GIF89a", "plot", "alt")), "must be PNG pictures; got something else for 'plot'"),
        (with_blocks(Figure("no/such.png", "plot", "alt")), "readable files; got 'no/such.png'"),
        (with_blocks(Figure(png(), "plot", " ")), "`alt` must describe the figure; got none for 'plot'"),
    ],
)
def test_bad_reports_are_refused(
    report: Report, change: Callable[[Report], Report], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        write_report(tmp_path / "report.html", change(report))
    assert list(tmp_path.iterdir()) == []


def test_too_many_pixels(report: Report) -> None:
    huge = np.broadcast_to(np.float32(1), (4097, 4096))
    with pytest.raises(ValueError, match=r"16,777,216 pixels; got 16,781,312 in layer 'rate'. Coarsen"):
        page_html(replace(report, layers=[MapLayer("rate", "Rate", "", huge)]))


def test_tables_can_be_reached_and_scrolled_by_keyboard() -> None:
    page = page_html(Report("t", sections=[Section("a", "A", [Table(["x"], [["y"]], "c")])]))
    assert '<div class="table" tabindex="0"' in page


def test_data_scripts_hold_no_tags() -> None:
    assert json.loads(script_json({"a": NASTY})) == {"a": NASTY}
    assert not set(script_json({"a": NASTY})) & set("<>&\u2028\u2029")
    with pytest.raises(ValueError, match="must not hold '<'"):
        DataBlock("x", "</script>", "text/plain")
