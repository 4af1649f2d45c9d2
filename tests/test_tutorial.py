"""What README and tutorial tell users to type."""

import re
import shlex
from pathlib import Path

import clinics
import counted_districts as counted
import numpy as np
import pytest
import tiny_country as tiny
import typer
from affine import Affine
from geofiles import write_raster
from small_surveys import surveys

from vbagg.cli import app, main
from vbagg.geo.bounds import bounds_of, in_words
from vbagg.geo.country_files import write_country
from vbagg.geo.prepared import Prepared
from vbagg.validate import verdict

ROOT = Path(__file__).parent.parent
TABLES = ROOT / "docs" / "tables.md"
GAPS = ROOT / "docs" / "gaps-and-suppressed-counts.md"
POINTS = ROOT / "docs" / "survey-points.md"
REPORTS = ROOT / "docs" / "incomplete-reports-and-uncertain-people.md"
ODD = ROOT / "docs" / "odd-reports.md"
GROUND = ROOT / "docs" / "new-ground.md"
CATCHMENTS = ROOT / "docs" / "catchments.md"
WORTH = ROOT / "docs" / "is-the-map-worth-having.md"
LANGUAGES = ROOT / "docs" / "languages.md"
PAGES = [
    ROOT / "README.md",
    ROOT / "docs" / "tutorial.md",
    TABLES,
    GAPS,
    REPORTS,
    ODD,
    POINTS,
    GROUND,
    CATCHMENTS,
    WORTH,
    LANGUAGES,
]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def commands(page):
    """Arguments of every `vbagg ...` in the blocks of a page."""
    found = []
    for language, text in BLOCK.findall(page.read_text()):
        if language == "":
            for line in text.replace("\\\n", " ").splitlines():
                for part in line.split("&&"):
                    words = shlex.split(part, comments=True)
                    if words[:1] == ["vbagg"]:
                        found.append(words[1:])
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_have_options_that_exist(page):
    group = typer.main.get_command(app)
    told = commands(page)
    assert len(told) >= 2
    for name, *arguments in told:
        group.commands[name].make_context(name, arguments)


def test_links_of_the_pages_lead_somewhere():
    for page in [*PAGES, *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_page_on_tables_works(tmp_path, monkeypatch):
    counted.write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "counts.csv").write_text(counted.text(), encoding="utf-8")

    def with_notes(sheet):
        sheet.title = "2024"
        sheet.parent.create_sheet("notes").append(["by hand"])

    counted.workbook(tmp_path / "counts.xlsx", change=with_notes)
    lights = np.random.default_rng(2).gamma(0.4, 9, (10, 22)).astype(np.float32)
    write_raster(tmp_path / "lights.tif", lights, Affine(0.1, 0, 29.9, 0, -0.1, 10.1))
    for name, *arguments in commands(TABLES):
        assert main([name, *arguments]) == 0, (name, arguments)
    assert Prepared.load(tmp_path / "by-name" / "prepared").y().to_dict() == dict(
        zip(counted.NAMES, counted.CASES, strict=True)
    )
    by_lights = Prepared.load(tmp_path / "by-lights" / "prepared")
    np.testing.assert_allclose(by_lights.bags().totals(), counted.PEOPLE)
    blocks = [code for language, code in BLOCK.findall(TABLES.read_text()) if language == "python"]
    names: dict = {}
    for code in blocks:
        exec(code, names)
    assert names["findings"].errors == ()
    assert names["prepared"].y().to_dict() == dict(zip(counted.CODES, counted.CASES, strict=True))


def test_the_page_on_gaps_works(tmp_path, monkeypatch, capsys):
    """The table of the page says what is read, too."""
    text = GAPS.read_text()
    for written, told in re.findall(r"^\| (`.*) \| (\d.*) \|$", text, re.MULTILINE):
        assert {in_words(bounds_of(way)) for way in re.findall(r"`(.+?)`", written)} == {told}
    counted.write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    lines = [[code, name, cases] for code, name, cases, _ in counted.rows()]
    for line, cases in zip(lines[1:], ["<5", "*", "c", "17", "260"], strict=False):
        line[2] = cases
    check, prepare = commands(GAPS)
    Path("counts.csv").write_text(counted.text(lines[:-1]).replace("c\n", "1520\n"), encoding="utf-8")
    assert main([*check, "--skip-validation"]) == 0
    assert "missing in 1 polygon; suppressed in 2 polygons" in " ".join(capsys.readouterr().out.split())
    Path("counts.csv").write_text(counted.text(lines[:-1]), encoding="utf-8")
    assert main(prepare) == 0
    upper = Prepared.load(tmp_path / "mine" / "prepared").upper().dropna()
    assert upper.to_dict() == dict(zip([line[0] for line in lines[1:4]], [4, 4, 9], strict=True))


def test_the_page_on_odd_reports_works(capsys):
    """The columns of its table are those of the one that it makes, and what was typed wrongly is found."""
    (code,) = (text for language, text in BLOCK.findall(ODD.read_text()) if language == "python")
    names: dict = {}
    exec(code, names)
    rows = re.findall(r"^\| (`.+?) \| \S", ODD.read_text(), re.MULTILINE)
    assert [name for row in rows for name in re.findall(r"`(.+?)`", row)][: len(names["table"].columns)] == list(
        names["table"].columns
    )
    assert names["table"].index[names["table"]["stands_out"]].tolist() == [7, 31]
    assert "stands_out" in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_page_on_new_ground_works(tmp_path, monkeypatch, capsys):
    files = tiny.write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    for old, new in (("height", "elevation"), ("wetness", "rain")):
        files[old].rename(f"{new}.tif")
    write_raster(tmp_path / "rain_2050.tif", (tiny.rasters()["wetness"] + 1.4).astype(np.float32), tiny.TRANSFORM)
    write_raster(tmp_path / "population_2050.tif", tiny.rasters()["population"].astype(np.float32), tiny.TRANSFORM)
    cheap = [word for name, value in tiny.CHEAP.items() for word in (f"--{name}", str(value))]
    for name, *arguments in commands(GROUND):
        more = [*cheap, "--skip-validation"] if name == "run" else []
        assert main([name, *arguments, *more]) == 0, (name, arguments)
    assert (tmp_path / "out/elsewhere/2050/maps/cases/rate_q0.05.tif").exists()
    names: dict = {}
    (code,) = (text for language, text in BLOCK.findall(GROUND.read_text()) if language == "python")
    exec(code, names)
    assert "extrapolation above 1" in capsys.readouterr().out
    assert {"rate_mean", "extrapolation"} <= set(names["maps"])
    assert len(names["districts"]) == 12


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::vbagg.errors.DataWarning", "ignore::vbagg.errors.ConvergenceWarning")
def test_the_page_on_survey_points_works(tmp_path, monkeypatch):
    tiny.write_files(tmp_path)
    surveys().to_csv(tmp_path / "surveys.csv", index=False)
    monkeypatch.chdir(tmp_path)
    check, run = commands(POINTS)
    assert main(check) == 0
    assert main([*run, *(f"--{name}={value}" for name, value in tiny.CHEAP.items())]) == 0
    assert (tmp_path / "with-surveys" / "maps" / "cases" / "rate_ratio.tif").exists()
    assert (tmp_path / "with-surveys" / "models" / "without_points" / "cases.vbagg").exists()
    names: dict = {}
    for code in [code for language, code in BLOCK.findall(POINTS.read_text()) if language == "python"]:
        exec(code, names)
    assert names["findings"].facts["points"]["number"] == len(names["prepared"].points) == 7
    assert names["model"].observations_[0].likelihood == "binomial"
    assert names["found"].models == ("with", "without")


def test_the_page_on_catchments_works(tmp_path, monkeypatch):
    clinics.write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    for name, *arguments in commands(CATCHMENTS):
        assert main([name, *arguments]) == 0, (name, arguments)
    by_shares = Prepared.load(tmp_path / "by-shares" / "prepared")
    assert by_shares.y().to_dict() == dict(zip(clinics.NAMES, clinics.SICK, strict=True))
    (block,) = [code for language, code in BLOCK.findall(CATCHMENTS.read_text()) if language == "python"]
    names: dict = {}
    exec(block, names)
    by_travel = Prepared.load(tmp_path / "by-travel" / "prepared")
    np.testing.assert_allclose(names["people"], by_travel.polygons.frame["population"])
    np.testing.assert_allclose(names["bags"].totals(), names["people"])


def test_the_page_on_the_verdict_tells_its_limits():
    """A row of its table for each reason, in the order of words."""
    limits = {
        "told better": [f"below {verdict.CLEAR}", f"below {verdict.LIKELY}"],
        "expected to be explained": [f"{100 * at:.0f}% or more" for at in (verdict.USEFUL, verdict.LEAST)],
        f"{100 * verdict.JUDGED:.0f}% intervals": [
            f"{100 * at:.0f}% or more" for at in (verdict.JUDGED - verdict.TOLERATED, verdict.FAR_OFF)
        ],
    }
    text = WORTH.read_text()
    for asked, (yes, with_care) in limits.items():
        assert re.search(rf"^\| .*{asked}.* \| {yes}.* \| {with_care} \| (otherwise|less) \|$", text, re.MULTILINE), (
            asked
        )
    assert f"Fewer than {verdict.FEWEST_BAGS} districts" in text


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::vbagg.errors.DataWarning", "ignore::vbagg.errors.ConvergenceWarning")
def test_the_page_on_the_verdict_works(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for code in [code for language, code in BLOCK.findall(WORTH.read_text()) if language == "python"]:
        exec(code, names)
    assert names["verdict"].word == "yes"
    assert capsys.readouterr().out.startswith("yes\nGiven only the totals of 24 groups of neighbouring districts")
    assert names["nested"].scales()["unions"].tolist() == [6]
    assert names["nested"].trend(names["recovery"])["observed"].tolist() == [True, False]
    assert (tmp_path / "inside.png").stat().st_size > 10_000
    assert 0.5 < names["information"].overall <= 1


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::vbagg.errors.DataWarning")
def test_the_tutorial_works_from_beginning_to_end(tmp_path, monkeypatch):
    write_country(tmp_path / "data", scale=0.004, n_districts=40, n_health_areas=6)
    monkeypatch.chdir(tmp_path / "data")
    page = PAGES[1]
    for name, *arguments in commands(page):
        if name != "demo":
            more = ["--landmarks", "12"] if name in ("run", "fit") else []
            assert main([name, *arguments, *more]) == 0, (name, arguments)
    blocks = [text for language, text in BLOCK.findall(page.read_text()) if language == "python"]
    assert len(blocks) == 2
    names: dict = {}
    for text in blocks:
        exec(text, names)
    assert names["run"].pages()[0].exists()
    assert len(names["areas"]) == 6
    assert (tmp_path / "maps" / "rate_mean.tif").exists()
