"""The whole job from the command line on a small country: stages, skipping, settings, failures that leave nothing."""

import json
import os
import shutil
import sys

import pytest

from vbagg.cli import main
from vbagg.geo.country_files import write_country
from vbagg.report.above import amounts
from vbagg.texts import texts_in
from vbagg.workflow.folder import RunFolder
from vbagg.workflow.noted import NotedSettings
from vbagg.workflow.run import Run
from vbagg.workflow.settings import WORDS, make_settings, read_settings
from vbagg.workflow.stages import STAGES

OUTPUTS = ["check", "maps", "models", "prepared", "report", "run.log", "settings.toml", "validation"]


@pytest.fixture(scope="module")
def country(tmp_path_factory):
    return write_country(tmp_path_factory.mktemp("country"), scale=0.002, n_districts=24, n_health_areas=5)


def arguments(country, out, *more):
    inputs = ["--polygons", country.districts, "--id", "id", "--response", "cases", "--population", country.population]
    inputs += ["--covariate", country.covariates["distance_to_water"], "--covariate", country.covariates["rainfall"]]
    return [str(part) for part in (*inputs, "--out", out, *more)]


@pytest.fixture(scope="module")
def finished(country, tmp_path_factory):
    out = tmp_path_factory.mktemp("run") / "out"
    more = ["--landmarks", "8", "--folds", "2", "--recovery", "2", "--threshold", "20", "--to", country.health_areas]
    assert main(["run", *arguments(country, out, *more)]) == 0
    return out


def test_a_run_writes_everything(finished):
    assert sorted(os.listdir(finished)) == OUTPUTS
    maps = set(os.listdir(finished / "maps" / "cases"))
    assert {
        "rate_mean.tif",
        "rate_sd.tif",
        "exceedance.tif",
        "polygons.gpkg",
        "polygons.csv",
        "people_above.csv",
        "health_areas.csv",
    } <= maps
    page = (finished / "report" / "report.html").read_text()
    assert "How far to trust it" in page
    assert "cases per 1000 people" in page
    assert 'class="verdict ' in page
    assert [f'alt="{texts_in()(f"inside.alt_{panel}")}"' in page for panel in ("skill", "coverage")] == [True, True]
    assert "made-up totals of which the truth is known" in page
    assert '<section id="inside"' in page
    assert [title in page for title in ("Districts</h2>", "Areas of health_areas.gpkg</h2>")] == [True, True]
    assert page.count('class="areas"') == 2
    assert '<a href="../maps/cases/rate_mean.tif">' in page
    assert (finished / "report" / "../maps/cases/rate_mean.tif").is_file()
    table = Run(read_settings(finished / "settings.toml"), RunFolder(finished)).people_above("cases")
    chosen = table[table["threshold"] == 20].iloc[0]
    ends = amounts(texts_in(), chosen["above_lower"], chosen["above_upper"])
    assert f"people ({ends}) live where the rate is above 20 cases per 1000 people." in page
    assert '<th scope="col" class="number">People above 20</th>' in page
    assert '<a href="../maps/cases/people_above.csv">People above thresholds (table, CSV)</a>' in page
    assert "polygons" in (finished / "validation" / "cases" / "verdict.txt").read_text()
    assert "models: cases" in (finished / "run.log").read_text()


def test_what_is_finished_is_not_done_again(finished, capsys):
    before = {stage: os.stat(finished / stage / "stage.json").st_mtime_ns for stage in ("prepared", "models", "maps")}
    assert main(["run", "--config", str(finished / "settings.toml"), "--out", str(finished)]) == 0
    told = capsys.readouterr()
    assert told.err.count("nothing changed") == 6
    assert "\ncases: Can the fine map be relied on? " in told.out
    assert main(["predict", "--out", str(finished), "--threshold", "40"]) == 0
    after = {stage: os.stat(finished / stage / "stage.json").st_mtime_ns for stage in before}
    assert [stage for stage in before if before[stage] != after[stage]] == ["maps"]
    assert "threshold = 40.0" in (finished / "settings.toml").read_text()


def test_changed_inputs_are_noticed(country, finished, tmp_path, capsys):
    """A new file of districts makes everything anew."""
    copy = tmp_path / "copy"
    shutil.copytree(finished, copy)
    settings = (copy / "settings.toml").read_text()
    assert "districts.gpkg" in settings
    before = os.stat(country.districts)
    os.utime(country.districts)
    try:
        assert main(["prepare", *arguments(country, copy)]) == 0
        assert "nothing changed" not in capsys.readouterr().err
    finally:
        os.utime(country.districts, ns=(before.st_atime_ns, before.st_mtime_ns))
        stage = json.loads((copy / "prepared" / "stage.json").read_text())
    assert stage["digest"] != json.loads((finished / "prepared" / "stage.json").read_text())["digest"]


def stages_done(out, capsys, *command) -> dict[str, bool]:
    """Which stages a `run` in a folder does again."""
    before = {stage: os.stat(out / stage / "stage.json").st_mtime_ns for stage in STAGES}
    assert main(["run", "--config", str(out / "settings.toml"), "--out", str(out), *command]) == 0
    capsys.readouterr()
    return {stage: os.stat(out / stage / "stage.json").st_mtime_ns != before[stage] for stage in STAGES}


@pytest.fixture
def copied(finished, tmp_path):
    out = tmp_path / "copy"
    shutil.copytree(finished, out)
    return out


@pytest.mark.slow
def test_a_setting_that_only_labels_a_stage_makes_it_anew(copied, capsys):
    """`per` is a setting of maps, and validation reads it too."""
    done = stages_done(copied, capsys, "--per", "100")
    assert [stage for stage in STAGES if done[stage]] == ["maps", "validation", "report"]
    assert "per 100 people" in (copied / "validation" / "cases" / "verdict.txt").read_text()


def test_a_report_of_maps_that_are_older_than_their_model_is_refused(copied, capsys):
    assert main(["fit", "--likelihood", "poisson", "--out", str(copied)]) == 0
    before = (copied / "report" / "report.html").read_bytes()
    assert main(["report", "--out", str(copied)]) == 2
    error = capsys.readouterr().err
    assert "no maps that can be used: models changed after it. Run `vbagg predict" in error
    assert main(["predict", "--out", str(copied)]) == 0
    assert main(["report", "--out", str(copied)]) == 2
    error = capsys.readouterr().err
    assert 'model.likelihood was "negative_binomial" and is "poisson" now. Run `vbagg validate' in error
    assert (copied / "report" / "report.html").read_bytes() == before


def emptied(path):
    path.write_bytes(b"")


def truncated(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def changed(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("damage", [emptied, truncated, changed, os.remove])
@pytest.mark.parametrize(
    ("stage", "follower"), [("prepared", "fit"), ("models", "predict"), ("maps", "report"), ("validation", "report")]
)
def test_damaged_results_are_not_taken_for_finished(copied, capsys, stage, follower, damage):
    files = [path for path in (copied / stage).rglob("*") if path.is_file() and path.name != "stage.json"]
    largest = max(files, key=lambda path: path.stat().st_size)
    damage(largest)
    assert main([follower, "--out", str(copied)]) == 2
    error = capsys.readouterr().err
    assert f"no {stage} that can be used: {largest.relative_to(copied / stage).as_posix()} " in error
    assert any(word in error for word in ("is missing", "bytes instead of", "other content"))


def test_damaged_results_are_made_again(copied, capsys):
    before = (copied / "maps" / "cases" / "rate_mean.tif").read_bytes()
    truncated(copied / "maps" / "cases" / "rate_mean.tif")
    done = stages_done(copied, capsys)
    assert [stage for stage in STAGES if done[stage]] == ["maps", "report"]
    assert (copied / "maps" / "cases" / "rate_mean.tif").read_bytes() == before
    assert "maps: begins, since cases/rate_mean.tif has" in (copied / "run.log").read_text()


def test_a_record_of_other_results_is_not_believed(copied, capsys):
    """A stage that was copied from elsewhere, and one whose record was cut off."""
    record = copied / "maps" / "stage.json"
    facts = json.loads(record.read_text())
    facts["settings"]["maps.level"] = 0.5
    record.write_text(json.dumps(facts))
    assert main(["report", "--out", str(copied)]) == 2
    assert "it was not finished" in capsys.readouterr().err
    record.write_text(record.read_text()[:40])
    assert main(["report", "--out", str(copied)]) == 2


def test_files_beside_the_results_do_no_harm(copied, capsys):
    """Such as statistics that a viewer of maps keeps."""
    stages_done(copied, capsys)
    (copied / "maps" / "cases" / "rate_mean.tif.aux.xml").write_text("<PAMDataset/>")
    assert not any(stages_done(copied, capsys).values())


def test_without_a_browser_a_pdf_is_refused_before_any_work(country, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("VBAGG_BROWSER", "no-such-browser")
    assert main(["run", *arguments(country, tmp_path / "out", "--pdf")]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert "VBAGG_BROWSER must name a browser; got 'no-such-browser'" in line
    assert not (tmp_path / "out").exists()


def test_a_pdf_stands_beside_the_page(copied, tmp_path, monkeypatch):
    browser = tmp_path / "browser"
    browser.write_text('#!/bin/sh\nfor o in "$@"; do case $o in --print-to-pdf=*) echo pdf > "${o#*=}";; esac; done\n')
    browser.chmod(0o755)
    monkeypatch.setenv("VBAGG_BROWSER", str(browser))
    assert main(["report", "--out", str(copied), "--pdf", "--period", "2013"]) == 0
    assert (copied / "report" / "report.pdf").read_text() == "pdf\n"
    assert "Period: 2013" in (copied / "report" / "report.html").read_text()
    assert "report.pdf" in json.loads((copied / "report" / "stage.json").read_text())["files"]


def test_settings_note_what_is_read():
    noted = NotedSettings(make_settings({"maps": {"per": 10.0}}, "test"))
    assert noted.maps.per == 10.0
    assert noted.read == {"maps.per": 10.0}
    asked = {"title": None, "orientation": None, "period": None, "source": None, "language": "en"}
    asked["pdf"] = False
    assert noted.report.model_dump() == asked
    assert {name for name in noted.read if name.startswith("report.")} == {f"report.{name}" for name in asked}
    noted.model_dump()
    assert len(noted.read) == len(WORDS)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (["--response", "deaths"], "deaths"),
        (["--population", "nowhere.tif"], "nowhere.tif"),
        (["--level", "2"], "level"),
        (["--likelihood", "gauss"], "likelihood"),
        (["--config", "nowhere.toml"], "nowhere.toml"),
    ],
)
def test_wrong_input_is_one_line_and_leaves_nothing(country, tmp_path, capsys, change, told):
    out = tmp_path / "out"
    given = arguments(country, out)
    if change[0] in given:
        at = given.index(change[0])
        given[at : at + 2] = change
    else:
        given += change
    assert main(["run", *given]) == 2
    error = capsys.readouterr().err.strip().splitlines()
    assert error[-1].startswith("Error: ")
    assert told in error[-1]
    assert sum(line.startswith("Error") for line in error) == 1
    assert not out.exists()


def test_a_stage_needs_the_ones_before(tmp_path, capsys):
    assert main(["fit", "--out", str(tmp_path)]) == 2
    assert "Run `vbagg prepare" in capsys.readouterr().err


def test_an_interrupted_stage_leaves_the_last_results(finished, monkeypatch, capsys):
    """Ctrl-C in the middle of mapping."""
    before = sorted(os.listdir(finished / "maps" / "cases"))

    def stopped(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["vbagg.geo.aggregate"], "polygon_table", stopped)
    assert main(["predict", "--out", str(finished), "--threshold", "60"]) == 130
    assert "Finished stages are in" in capsys.readouterr().err
    assert sorted(os.listdir(finished / "maps" / "cases")) == before
    assert sorted(os.listdir(finished)) == OUTPUTS
