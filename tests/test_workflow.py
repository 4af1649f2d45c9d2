"""The whole job from the command line on a small country: stages, skipping, settings, failures that leave nothing."""

import json
import os
import shutil
import sys

import pytest

from vbagg.cli import main
from vbagg.geo.country_files import write_country

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
    more = ["--landmarks", "8", "--folds", "2", "--threshold", "20", "--to", country.health_areas]
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
        "health_areas.csv",
    } <= maps
    page = (finished / "report" / "report.html").read_text()
    assert "How far to trust it" in page
    assert "cases per 1000 people" in page
    assert "polygons" in (finished / "validation" / "cases" / "verdict.txt").read_text()
    assert "models: cases" in (finished / "run.log").read_text()


def test_what_is_finished_is_not_done_again(finished, capsys):
    before = {stage: os.stat(finished / stage / "stage.json").st_mtime_ns for stage in ("prepared", "models", "maps")}
    assert main(["run", "--config", str(finished / "settings.toml"), "--out", str(finished)]) == 0
    assert capsys.readouterr().err.count("nothing changed") == 6
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
    os.utime(country.districts)
    try:
        assert main(["prepare", *arguments(country, copy)]) == 0
        assert "nothing changed" not in capsys.readouterr().err
    finally:
        stage = json.loads((copy / "prepared" / "stage.json").read_text())
    assert stage["fingerprint"] != json.loads((finished / "prepared" / "stage.json").read_text())["fingerprint"]


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
