"""Reports of runs in every language: what they say, and what they leave in English."""

import re
import tomllib
from datetime import date

import pytest
from english import left_in_english
from geofiles import write_raster
from small_surveys import surveys
from tiny_country import CHEAP, TRANSFORM, frame, rasters, write_files

from vbagg import geo
from vbagg.cli import main
from vbagg.language import ENGLISH, LANGUAGES
from vbagg.texts import texts_in
from vbagg.workflow.folder import SETTINGS

OTHERS = [language for language in LANGUAGES if language != ENGLISH]

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*there are only 12 polygons"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run with all that a page may tell of: gaps, points, other areas, a threshold, matched totals."""
    folder = tmp_path_factory.mktemp("run")
    files = write_files(folder)
    districts = frame()
    districts["cases"] = [*map(str, districts["cases"].astype(int)[:10]), "<5", None]
    districts.to_file(folder / "districts.gpkg")
    frame()[["geometry"]].iloc[:3].to_file(folder / "regions.gpkg")
    write_raster(folder / "higher.tif", (rasters()["height"] + 150).astype("float32"), TRANSFORM)
    geo.run(
        folder / "out",
        polygons=files["districts"],
        id="name",
        response=["cases", "positive"],
        population=files["population"],
        population_is="counts",
        covariate=[files["height"], files["wetness"]],
        likelihood="poisson",
        points=surveys(),
        at="lon,lat",
        trials="tested",
        to=[folder / "regions.gpkg"],
        threshold=20,
        match_totals=True,
        source="<b>Who</b>",
        progress=False,
        **CHEAP,
    )
    return folder


def again(folder, language):
    """The page of the same run in another language, and its figures."""
    run = geo.run(folder / "out", config=folder / "out" / SETTINGS, language=language, progress=False)
    return run, run.pages()[0].read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("language", OTHERS)
def test_the_report_of_a_run_says_nothing_in_english(finished, language):
    run, page = again(finished, language)
    assert left_in_english(page, language) == []
    say = texts_in(language)
    for text in (
        say("verdict.question"),
        say("sections.odd_totals"),
        say("points.section"),
        say.date(date.today()),
        say("numbers.range", low="1", high="4").replace("1", "").strip(),
    ):
        assert text in page, text
    assert "<b>Who" not in page
    assert tomllib.loads((run.folder.path / SETTINGS).read_text())["report"]["language"] == language
    # files stay as they are
    table = (run.maps() / "polygons.csv").read_text()
    assert re.search(r"\d\.\d", table)
    assert not re.search(r"\d,\d{1,2}[^\d.,]*;", table)


@pytest.mark.slow
@pytest.mark.parametrize("language", OTHERS)
def test_new_ground_says_nothing_in_english(finished, language, capsys):
    given = ["--name", "2050", "--covariate", f"height={finished / 'higher.tif'}", "--language", language]
    assert main(["predict", "--out", str(finished / "out"), *given]) == 0
    assert "extrapolation above 1" in capsys.readouterr().out
    page = (finished / "out" / "elsewhere" / "2050" / "report" / "report.html").read_text(encoding="utf-8")
    assert left_in_english(page, language) == []
    assert f'<html lang="{language}">' in page
    assert texts_in(language)("ground.title", response="Cases", name="2050") in page


@pytest.mark.slow
def test_a_page_in_english_is_the_same_after_another_language(finished):
    _, before = again(finished, "en")
    again(finished, "fr")
    _, after = again(finished, "en")
    assert before == after


def test_an_unknown_language_is_refused_with_the_choices(tmp_path, capsys):
    for command in ("run", "report"):
        assert main([command, "--language", "de", "--out", str(tmp_path)]) == 2
        told = capsys.readouterr().err
        assert told.count("\n") == 1
        assert "`report.language` is wrong" in told
        assert all(f"'{language}'" in told for language in (*LANGUAGES, "de"))
    with pytest.raises(ValueError, match="'en', 'fr', 'es' or 'pt'; got 'de'"):
        geo.run(tmp_path, language="de", progress=False)
