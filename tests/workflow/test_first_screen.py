"""Words and numbers of the first screen and of tables, against cases solved by hand."""

import json
from types import SimpleNamespace

import geopandas as gpd
import numpy as np
import pandas as pd
import pytest
from affine import Affine
from geofiles import write_raster
from shapely import box
from tiny_country import HEIGHT, WIDTH, prepared_country

from vbagg.geo.names import Names
from vbagg.geo.told import NOTHING, Told
from vbagg.report import MapLayer
from vbagg.report.texts import texts_in
from vbagg.validate.verdict import Reason, Verdict
from vbagg.workflow.folder import RunFolder
from vbagg.workflow.report_page import measures
from vbagg.workflow.report_page.judgement import judgement_of, opens_on, why_it_opens
from vbagg.workflow.report_page.key_figures import Sums
from vbagg.workflow.report_page.matched import matched_totals
from vbagg.workflow.report_page.opening import opening, subtitle, typical_factor
from vbagg.workflow.report_page.subject import Subject
from vbagg.workflow.report_page.tables import district_table, other_table
from vbagg.workflow.results import read_judgement
from vbagg.workflow.run import Run
from vbagg.workflow.settings import from_words

NAN = float("nan")
PLACES = ["Ambato", "Betafo", "Cap Est", "Diego", "Empty"]


def frame(**columns):
    numbers = {
        "id": [11, 12, 13, 14, 15],
        "population": [1000.0, 3000.0, 500.0, 20_500.0, 0.0],
        "observed": [30.0, 50.0, 120.0, 800.0, 7.0],
        "rate": [29.0, 17.0, 220.0, 39.0, NAN],
        "fitted": [29.0, 51.0, 110.0, 799.5, NAN],
        "chance": [0.5, 0.3, 0.0004, 0.9, NAN],
        "stands_out": [False, False, True, False, False],
        "from_others": [31.0, 48.0, 20.0, 790.0, NAN],
    }
    for name, spread in (("rate", [0.05, 0.2, 0.5, 0.08, NAN]), ("fitted", [0.05, 0.2, 0.5, 0.08, NAN])):
        numbers[f"{name}_lower"] = np.array(numbers[name]) * (1 - np.array(spread))
        numbers[f"{name}_upper"] = np.array(numbers[name]) * (1 + np.array(spread))
    shapes = [box(at, 0, at + 1, 2) for at in range(5)]
    return gpd.GeoDataFrame({**numbers, **columns}, geometry=shapes, crs=4326)


def subject_of(tmp_path, table=None, told=NOTHING, exposure="population", y=None, **words):
    prepared = SimpleNamespace(exposure=exposure, told=told, polygons=SimpleNamespace(id="id"), y=y, is_shared=False)
    subject = Subject(Run(from_words({"response": "cases", **words}), RunFolder(tmp_path)), prepared, "cases", tmp_path)
    subject.__dict__["table"] = frame() if table is None else table
    subject.__dict__["names"] = Names("name", tuple(PLACES[: len(subject.table)]), 0)
    return subject


def told_by(subject, layers=()):
    mean = MapLayer("rate_mean", "", "", np.ones((1, 2)), lower="low", upper="high")
    return opening(subject, Sums(subject, subject.table), [mean, *layers])


def test_the_paragraph_tells_how_many_where_and_how_sure(tmp_path):
    low = MapLayer("low", "", "", np.array([[1.0, 2.0, 3.0]]))
    high = MapLayer("high", "", "", np.array([[9.0, 32.0, 3.0]]))  # factors 3, 4 and 1
    people = MapLayer("population", "", "", np.array([[14.0, 25.0, 13.0]]))
    assert told_by(subject_of(tmp_path), [low, high, people]) == (
        "1,000 cases were counted among 25,000 people in 4 districts: 40 per 1000 people."
        " Rates are highest in Cap Est (220 per 1000), Diego (39) and Ambato (29)."
        " The districts with the most cases are Diego, Cap Est and Betafo, which together have 96% of them."
        " Totals tell how much there is in each district; where it is within a district is an estimate: at a typical"
        " place the true rate may well be 3 times higher or lower than the map shows."
    )


@pytest.mark.parametrize(
    ("words", "options", "begins"),
    [
        ({"population_column": "population", "per": 100_000}, {}, "1,000 cases were counted among 25,000 people in 4"
         " districts: 4,000 per 100,000 people."),
        ({}, {"exposure": "area"}, "1,000 cases were counted on 25,000 km² in 4 districts: 40 per 1000 km²."),
        ({}, {"exposure": "expected"}, "1,000 cases were counted in 4 districts where 25,000 were expected: 0.04 times"
         " as many."),
        ({"likelihood": "binomial", "trials": "tested"}, {"y": lambda name: pd.Series([500.0, 1500, 3000, 0, 0])},
         "1,000 cases were found among 5,000 tested in 4 districts: 200 per 1000."),
    ],
)  # fmt: skip
def test_the_paragraph_says_what_rates_are_relative_to(tmp_path, words, options, begins):
    exposure = options.get("exposure", "population")
    table = frame().rename(columns={"population": exposure})
    assert told_by(subject_of(tmp_path, table, **options, **words)).startswith(begins)


def test_the_paragraph_tells_of_gaps(tmp_path):
    gaps = {
        "observed": [30.0, 50.0, NAN, NAN, NAN],
        "observation": ["observed", "observed", "missing", "suppressed", "missing"],
        "observed_lower": [30.0, 50.0, NAN, 1.0, NAN],
        "observed_upper": [30.0, 50.0, NAN, 4.0, NAN],
    }
    text = told_by(subject_of(tmp_path, frame(**gaps)))
    assert "between 81 and 84 cases were counted" in text.lower()
    gap = "the total of 1 district is missing and that of 1 district is known within bounds only"
    assert f"Not all is known: {gap}." in text
    assert text.startswith("Between 81 and 84 cases")
    known = ["observed", "observed", "observed", "suppressed", "observed"]
    one = {**gaps, "observed": [30.0, 50.0, 9.0, NAN, 9.0], "observation": known}
    text = told_by(subject_of(tmp_path, frame(**one)))
    assert "Not all is known: the total of 1 district is known within bounds only." in text


def test_facilities_that_share_cells_have_catchments(tmp_path):
    subject = subject_of(tmp_path)
    subject.prepared.is_shared = True
    text = told_by(subject)
    assert "25,000 people in 4 catchments: 40 per 1000 people." in text
    assert "district" not in text.lower() + district_table(subject).title.lower()


def test_the_paragraph_says_what_part_is_reported_and_risks_by_themselves(tmp_path):
    shares = [0.25, 0.9, 0.5, 1.0, 0.5]
    text = told_by(subject_of(tmp_path, frame(completeness=shares), Told("share", None)))
    assert "Rates are of all that occurred, of which 25% to 100% was reported, by district." in text
    risks = frame().rename(columns={"population": "expected"})
    text = told_by(subject_of(tmp_path, risks, exposure="expected", exposure_column="expected", per=1))
    assert "Risks are highest in Cap Est (220), Diego (39) and Ambato (29)." in text


def test_the_paragraph_of_few_districts_names_none(tmp_path):
    few = frame().iloc[:3]
    assert told_by(subject_of(tmp_path, few)) == (
        "200 cases were counted among 4,500 people in 3 districts: 44.4 per 1000 people."
    )


def test_factors_count_people_and_leave_out_what_has_none():
    low, high = np.array([1.0, 1.0, 1.0, 0.0, np.nan]), np.array([4.0, 9.0, 16.0, 5.0, np.nan])
    assert typical_factor(low, high, np.array([1.0, 1.0, 5.0, 0.5, np.nan])) == 4
    assert typical_factor(low, high, np.array([9.0, 1.0, 5.0, 0.5, 3.0])) == 2
    assert typical_factor(low, high, np.array([1.0, 0.0, 0.0, 30.0, 3.0])) is None
    assert typical_factor(low[:3], high[:3], None) == 3


def test_subtitles_have_period_source_and_date(tmp_path):
    words = {"period": "2013", "source": "Ministry of <Health>"}
    assert subtitle(subject_of(tmp_path, **words), "2026-11-19") == (
        "Period: 2013 · Source: Ministry of <Health> · Made on 2026-11-19"
    )
    assert subtitle(subject_of(tmp_path), "2026-11-19") == "Made on 2026-11-19"


def cell_texts(table, name):
    (area,) = [area for area in table.areas if area.name == name]
    titles = [column.title for column in table.columns[1:]]
    return {title: f"{cell.text} | {cell.range}" for title, cell in zip(titles, area.cells, strict=True)}


def test_districts_have_totals_rates_certainty_and_oddness(tmp_path):
    table = district_table(subject_of(tmp_path))
    assert cell_texts(table, "Cap Est") == {
        "Official cases": "120 | ",
        "Cases per 1000 people": "220 | 110 to 330",
        "Certainty": "low | give or take 50%",
        "People": "500 | ",
        "Fitted cases": "110 | 55 to 165",
        "Stands out": "higher | chance 0.04%",
    }
    certainty = [area.cells[2].text for area in table.areas]
    assert certainty == ["high", "fair", "low", "high", "\u2013"]
    assert [order.title for order in table.orders] == ["Burden", "Rate", "Certainty"]
    assert [(order.column, order.falling) for order in table.orders] == [(1, True), (2, True), (3, False)]
    sums = [cell.text for cell in table.sum.cells]
    assert sums == ["1,007", "39.6", "", "25,000", "990", ""]  # rate: 989.5 over 25,000 people
    assert "add up to 1,007, fitted ones to 990." in table.note


def test_the_file_has_numbers_of_every_column(tmp_path):
    table = district_table(subject_of(tmp_path))
    record = dict(zip(table.headers, table.areas[2].record, strict=True))
    assert (record["name"], record["id"], record["official"], record["stands_out"]) == (
        "Cap Est",
        "13",
        120.0,
        "higher",
    )
    assert (record["rate_lower"], record["rate_upper"], record["relative_half_width"]) == (110.0, 330.0, 0.5)
    empty = dict(zip(table.headers, table.areas[4].record, strict=True))
    assert [empty[name] for name in ("official", "rate", "relative_half_width", "chance")] == [7.0, None, None, None]
    assert table.file == "cases_districts.csv"


def test_totals_that_are_not_known_are_told_in_tables(tmp_path):
    gaps = {
        "observed": [30.0, NAN, NAN, 800.0, 7.0],
        "observation": ["observed", "missing", "suppressed", "observed", "observed"],
        "observed_lower": [30.0, NAN, 5.0, 800.0, 7.0],
        "observed_upper": [30.0, NAN, np.inf, 800.0, 7.0],
        "stands_out": [False, False, True, False, False],
    }
    table = district_table(subject_of(tmp_path, frame(**gaps)))
    assert [cell_texts(table, name)["Official cases"] for name in PLACES[1:3]] == [
        "missing | ",
        "suppressed | 5 or more",
    ]
    assert [area.cells[0].value for area in table.areas] == [30.0, None, 5.0, 800.0, 7.0]
    assert cell_texts(table, "Cap Est")["Stands out"].startswith("lower")
    record = dict(zip(table.headers, table.areas[2].record, strict=True))
    assert (record["official_state"], record["official_lower"], record["official_upper"]) == ("suppressed", 5.0, None)
    fitted = frame()["fitted"]
    assert f"The 2 districts whose official totals are not known have {fitted[1] + fitted[2]:.0f}" in table.note


def test_where_reports_are_in_part_all_that_occurs_is_the_burden(tmp_path):
    told = Told("share", None)
    table = district_table(subject_of(tmp_path, frame(completeness=[0.5] * 5), told))
    assert [column.title for column in table.columns[1:6]] == [
        "Fitted cases", "Cases per 1000 people", "Certainty", "People", "Official cases",
    ]  # fmt: skip
    assert "would be reported" not in table.note
    table = district_table(subject_of(tmp_path, frame(completeness=[0.5] * 5, fitted_reported=[11.0] * 5), told))
    assert "of all that occurred: the part of these that would be reported adds up to 55." in table.note


def test_other_areas_have_bounds_and_what_is_covered(tmp_path):
    subject = subject_of(tmp_path, to=["north.gpkg"])
    subject.__dict__["frame"] = SimpleNamespace(bounds=(0.0, 0.0, 10.0, 10.0))
    (tmp_path / "maps" / "cases").mkdir(parents=True)
    rows = frame().assign(covered=[1.0, 0.6, 1.0, 1.0, 0.0], total=frame()["fitted"], NAME=PLACES)
    rows = rows.assign(total_lower=frame()["fitted_lower"], total_upper=frame()["fitted_upper"])
    rows.to_file(tmp_path / "maps" / "cases" / "north.gpkg")
    table = other_table(subject, subject.run.settings.maps.to[0], "areas-1")
    assert cell_texts(table, "Betafo") == {
        "Expected cases": "51 | 41 to 61",
        "Cases per 1000 people": "17 | 13.6 to 20.4",
        "Certainty": "fair | give or take 20%",
        "People": "3,000 | ",
        "Covered": "60% | ",
    }
    assert table.areas[1].bounds == (1.0, 0.0, 2.0, 2.0)
    assert (table.title, table.sum, table.headers[0]) == ("Areas of north.gpkg", None, "name")


@pytest.mark.parametrize("rate", [0.0, NAN])
def test_a_rate_of_nothing_has_no_certainty(rate):
    assert np.isnan(measures.half_width({"rate": rate, "rate_lower": 0.0, "rate_upper": 1.0}))
    assert measures.half_width({"rate": -4.0, "rate_lower": -5.0, "rate_upper": -3.0}) == 0.25


def test_matched_totals_are_sums_of_cells(tmp_path):
    """Against a loop over the table of pixels, with bands of a few rows."""
    prepared = prepared_country(tmp_path)
    maps = tmp_path / "maps" / "cases"
    maps.mkdir(parents=True)
    grid = prepared.stack.grid
    values = np.random.default_rng(8).lognormal(1, 1, grid.shape).astype(np.float32)
    values[3, 2] = np.nan
    write_raster(maps / "expected_count_matched.tif", values, Affine(*grid.transform[:6]))
    subject = Subject(Run(from_words({"response": "cases"}), RunFolder(tmp_path)), prepared, "cases", tmp_path)
    expected = dict.fromkeys(prepared.polygons.labels, 0.0)
    for pixel in prepared.pixels.itertuples():
        value = values.ravel()[pixel.cell]
        expected[pixel.polygon] += 0.0 if np.isnan(value) else pixel.coverage * value
    found = matched_totals(subject, cells_at_once=2 * WIDTH)
    assert found == pytest.approx(list(expected.values()), rel=1e-6)
    assert grid.shape == (HEIGHT, WIDTH)


def judged(tmp_path, text=None):
    subject = subject_of(tmp_path)
    folder = tmp_path / "validation" / "cases"
    folder.mkdir(parents=True, exist_ok=True)
    if text is not None:
        (folder / "verdict.json").write_text(text, encoding="utf-8")
    return judgement_of(subject)


@pytest.mark.parametrize(
    ("word", "answer", "first", "note"),
    [
        ("yes", "Yes", "rate_mean", ""),
        ("with care", "With care", "rate_mean", "Read what"),
        ("no", "No", "observed", "The map opens"),
    ],
)
def test_the_judgement_is_that_of_the_file(tmp_path, word, answer, first, note):
    because = (Reason("few", {"n": "7", "bags": "areas"}), Reason("untested", {"bags": "areas", "why": ""}))
    found = judged(tmp_path, json.dumps(Verdict(word, because).document()))
    assert (found.word, found.answer, found.reasons) == (word, answer, tuple(map(str, because)))
    assert opens_on(found) == first
    told = why_it_opens(texts_in(), found)
    assert told.startswith(note)
    assert bool(told) == (word != "yes")


def test_without_a_file_nobody_has_checked(tmp_path):
    found = judged(tmp_path)
    assert (found.word, found.answer, opens_on(found)) == ("unchecked", "Nobody has checked", "rate_mean")
    assert "left out" in found.reasons[0]
    assert "Nobody has checked" in why_it_opens(texts_in(), found)


@pytest.mark.parametrize(
    "text",
    ['{"word": "maybe", "reasons": [], "said": []}', '{"word": "yes", "reasons": ["A."], "said": []}',
     '{"word": "yes", "reasons": ["A."], "said": [{"name": "other", "values": {}, "speaks": "yes"}]}',
     '{"word": "yes", "reasons": "A."}', "[]", "no"],
)  # fmt: skip
def test_other_files_are_refused(tmp_path, text):
    (tmp_path / "verdict.json").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"verdict.json cannot be read as what `vbagg validate` wrote: .* --force`\."):
        read_judgement(tmp_path)
