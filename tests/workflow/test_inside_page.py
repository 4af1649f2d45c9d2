"""What a page says of differences inside districts: words, pictures and tables, in all that may have happened."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from english import left_in_english
from made_refits import refits
from made_scales import cells, made, scale
from page_text import without_tags

from vbagg.geo.units import Units
from vbagg.language import ENGLISH, LANGUAGES, written_in
from vbagg.report import Report, Section
from vbagg.report.page import page_html
from vbagg.texts import texts_in
from vbagg.validate.result import FoldResult
from vbagg.validate.scales import CELLS, Nested
from vbagg.workflow import pictures
from vbagg.workflow.report_page import layers
from vbagg.workflow.report_page.inside import inside_figures, inside_section, inside_words

SAY = texts_in()


def found(nested=None, recovery=None):
    return SimpleNamespace(nested=nested, recovery=recovery)


def failed(name, reason="no peak."):
    return FoldResult(name, ("vbagg",), "normal", 15, pd.DataFrame(), ({"fold": name, "reason": reason},))


def text_of(cell):
    return cell if isinstance(cell, str) else cell.text


def test_groups_and_refits_are_told():
    told = inside_words(SAY, found(made(), refits(6.0, 8.0)))  # shares 0.4 and 0.2: 0.3, standard error 0.1
    assert told.startswith("To test the map inside districts, groups of neighbouring districts were given one total")
    assert "If the model is right, totals like these let the map recover 30% of what differs" in told
    assert "a district, give or take 10%, and 90% intervals of places hold the true rate in 91% of them" in told
    assert "nothing of whether the model is right" in told
    assert "{" not in told


@pytest.mark.parametrize(
    ("validation", "told", "not_told"),
    [
        (found(), "was not tested: the test was left out", "recover"),
        (found(recovery=refits(6.0)), "recover 40% of what differs between places of a district, and", "give or take"),
        (found(made(), refits(11.0, 13.0)), "do not let the map tell places of a district apart (it recovers \u221220%",
         "let the map recover"),
        (found(made(), refits(6.0, failures=1)), "1 of 2 such fits failed (the <totals> are all zero).", "not tested"),
        (found(made(), refits(failures=2)), "2 of 2 such fits failed", "recover"),
        (found(replace(made(), folds=(made().folds[0], failed("4")))), "Some groups are not there, since no model could"
         " be fitted to them (no peak).", "could not be tested"),
        (found(Nested((failed("2"), failed("4")), made().claims)), "could not be tested, since no model could be fitted"
         " to groups of districts (no peak).", "Some groups"),
    ],
)  # fmt: skip
def test_what_may_have_happened(validation, told, not_told):
    words = inside_words(SAY, validation)
    assert told in words
    assert not_told not in words


def test_groups_of_a_column_are_no_neighbours():
    told = inside_words(SAY, found(Nested((scale("group", 12, 0.6, 1.0, 5),), cells(0.3))))
    assert told.startswith("To test the map inside districts, larger areas that they make up were given one total")


def test_a_reason_of_several_fits_is_told_once():
    nested = Nested((made().folds[0], failed("4"), failed("8")), made().claims)
    assert inside_words(SAY, found(nested)).count("no peak") == 1


def test_pictures_have_captions_for_everybody(tmp_path):
    figures = inside_figures(SAY, found(made(), refits(6.0)), tmp_path)
    assert tuple(figures) == pictures.INSIDE
    for figure in figures.values():
        assert figure.png.parent == tmp_path
        assert figure.png.read_bytes()[:4] == b"\x89PNG"
        assert figure.alt != figure.caption
    assert "Nobody counted anything in cells" in figures["inside_skill"].caption


@pytest.mark.parametrize("nested", [None, Nested((failed("2"),), failed(CELLS))])
def test_without_a_fit_there_is_neither_picture_nor_table(tmp_path, nested):
    assert inside_figures(SAY, found(nested), tmp_path) == {}
    assert inside_section(SAY, found(nested)).blocks == []


def test_tables_for_the_statistician():
    fold = scale("region", 12, 0.6, 1.0, 5, 0.85, 0.8)
    section = inside_section(SAY, found(Nested((fold,), cells(0.3)), refits(6.0, 8.0, notes=("A note.",))))
    scales, measures, note = section.blocks
    rows = {row[0]: row[1:] for row in scales.rows}
    assert list(rows) == ["Groups of 5", "Cells of a district (expected)"]
    row = Nested((fold,), cells(0.3)).scales().iloc[0]
    assert rows["Groups of 5"][0] == "12"
    shares = [f"{100 * row[name]:.0f}%" for name in ("skill", "low", "high")]
    assert rows["Groups of 5"][1] == f"{shares[0]} ({shares[1]} to {shares[2]})"
    assert rows["Groups of 5"][3] == "< 0.001"
    expected = rows["Cells of a district (expected)"]
    assert (expected[0], expected[2], expected[3]) == ("\u2013", "30%", "\u2013")
    assert [text_of(head) for head in scales.headers][-1] == "Inside 90% intervals"
    assert {row[0]: row[1:] for row in measures.rows}["Recovered of what differs inside districts"] == ["30%", "10%"]
    assert measures.rows[-1] == ["Inside 95% intervals", "96%", "0%"]
    assert note == "A note."


@pytest.mark.parametrize("language", [language for language in LANGUAGES if language != ENGLISH])
def test_all_of_it_is_said_in_the_language(tmp_path, language):
    """Words, pictures and tables, and numbers in them."""
    tested = found(made(), refits(6.0, 8.0))
    with written_in(language):
        say = texts_in()
        blocks = [inside_words(say, tested), *inside_figures(say, tested, tmp_path).values()]
        tables = inside_section(say, tested)
    sections = [Section("x", "validation", blocks)]
    page = page_html(Report("x", sections=sections, appendix=[tables], language=language))
    assert left_in_english(page, language) == []
    text = without_tags(page)
    for told in (say("inside.title"), say("inside.groups"), say("inside.about_skill"), say("inside.scales")):
        assert told in text
    assert "< 0,001" in text
    assert "0.001" not in text
    assert "{" not in text
    assert 'href="#word-refit"' in page


def test_skill_that_is_not_known_is_a_dash():
    fold = scale("2", 30, 0.5, 1.0)
    fold.table["noise"] = 100.0  # all differences may be chance
    (table,) = inside_section(SAY, found(Nested((fold,), cells(0.3)))).blocks
    assert table.rows[0][2].startswith("\u2013 (\u2013")


def test_the_map_of_information_is_explained(monkeypatch, tmp_path):
    values = np.array([[0.1, 0.9]])
    tags = {"information": {"map": "information"}, "rate_sd": {"title": "raw", "units": "share"}}
    monkeypatch.setattr(layers, "read_map", lambda path, frame: (values, tags[path.stem]))
    monkeypatch.setattr(layers, "_mean", lambda subject: SimpleNamespace(units=""))
    monkeypatch.setattr(layers, "_observed", lambda subject, units: None)
    run = SimpleNamespace(map_files=lambda response: [tmp_path / "information.tif", tmp_path / "rate_sd.tif"])
    table = pd.DataFrame({"effect": [np.nan]})
    subject = SimpleNamespace(
        run=run, response="cases", frame=None, table=table, say=SAY, units=Units("cases", 1000.0, "population")
    )
    information, sd = layers.map_layers(subject)[2:]
    assert information.label == "Inside polygons: how much is known"
    assert "from 0 (nothing) to 1 (all)" in information.description
    assert information.units == "share"
    assert information.limits == (0.0, 1.0)
    assert not information.log
    assert sd.description == "raw"
