"""Runs that are killed at any moment and resumed, and finished folders that were damaged, end in the same results.

What may differ: dates and seconds (`run.log`, costs in `stage.json`, `seconds` of folds, the date on the page), the
order of bytes in GeoPackages, whose header counts changes and holds dates, and so digests of what rests on these.
"""

import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import geopandas as gpd
import pytest
from tiny_country import CHEAP, write_files

from vbagg.cli import main
from vbagg.workflow.stages import STAGES

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:districts.gpkg. there are only 12 polygons"),
]
KILLS, DAMAGES = 20, 50


@pytest.fixture(scope="module")
def command(tmp_path_factory):
    """The tiny run, its folder to be added."""
    files = write_files(tmp_path_factory.mktemp("files"))
    words = ["run", "--polygons", files["districts"], "--id", "name", "--response", "cases"]
    words += ["--population", files["population"], "--population-is", "counts", "--covariate", files["height"]]
    words += ["--likelihood", "poisson", *(f"--{name}={value}" for name, value in CHEAP.items()), "--out"]
    return [str(word) for word in words]


class Whole:
    """A run without interruption, and when each of its stages began and ended, in seconds from its start."""

    def __init__(self, command, out):
        began = time.time()
        done = started(command, out)
        assert done.wait() == 0
        self.out, self.seconds, self.stages = out, time.time() - began, {}
        ended = 0.0
        for name in STAGES:
            before, ended = ended, os.stat(out / name / "stage.json").st_mtime - began
            self.stages[name] = (before, ended)
        self.results = results(out)


def started(command, out):
    code = "import sys; from vbagg.cli import main; sys.exit(main(sys.argv[1:]))"
    with (out.parent / "told.txt").open("w") as told:
        return subprocess.Popen([sys.executable, "-c", code, *command, str(out)], stdout=told, stderr=told)


@pytest.fixture(scope="module")
def whole(command, tmp_path_factory):
    return Whole(command, tmp_path_factory.mktemp("whole") / "out")


def results(out):
    """Content of every result by its path, without what may differ."""
    found = {}
    for path in sorted(path for path in out.rglob("*") if path.is_file()):
        name = path.relative_to(out).as_posix()
        if path.suffix == ".gpkg":
            found[name] = gpd.read_file(path).to_json()
        elif path.name == "stage.json":
            found[name] = sorted(json.loads(path.read_text())["files"])
        elif path.name == "folds.json":
            folds = json.loads(path.read_text())
            for fold in folds["folds"]:
                assert set(fold.pop("seconds")) == {"vbagg", "constant", "glm"}
            found[name] = folds
        elif path.suffix == ".html":
            page = re.sub(r"\d{4}-\d\d-\d\d", "DATE", path.read_text())
            found[name] = page.replace(str(out), "OUT")
        elif path.name == "settings.toml":
            found[name] = path.read_text().replace(str(out), "OUT")
        elif path.name != "run.log":
            found[name] = path.read_bytes()
    return found


def require_same(found, expected):
    assert sorted(found) == sorted(expected)
    assert [name for name in expected if found[name] != expected[name]] == []


def moments(whole):
    """Stages in turn, so that each is hit, at random places inside of each, and seconds to wait from its beginning."""
    chosen = random.Random(20)
    names = [name for name in STAGES for _ in range(KILLS // len(STAGES) + 1)][:KILLS]
    for name in names:
        begin, end = whole.stages[name]
        yield name, chosen.uniform(0.0, 1.0) * (end - begin)


def killed(command, out, stage, wait):
    """Start a run and kill it so long after a stage has begun; whether it was still running."""
    process = started(command, out)
    log, begins = out / "run.log", f"{stage}: begins"
    seen = log.read_text().count(begins) if log.exists() else 0
    while process.poll() is None and not (log.exists() and log.read_text().count(begins) > seen):
        time.sleep(0.01)
    time.sleep(wait)
    process.kill()
    return process.wait() != 0


def test_a_run_that_is_killed_again_and_again_ends_like_one_that_was_not(command, whole, tmp_path):
    """Each stage is killed several times before it may end; what is finished stays finished."""
    out = tmp_path / "out"
    hits = [killed(command, out, stage, wait) for stage, wait in moments(whole)]
    assert sum(hits) >= KILLS * 3 // 4
    last = started(command, out)
    assert last.wait() == 0, (tmp_path / "told.txt").read_text()
    assert not list(out.glob(".*"))
    require_same(results(out), whole.results)
    log = (out / "run.log").read_text()
    assert "fold 0, was finished before" in log or "fold 1, was finished before" in log


def truncated(path, other, chosen):
    path.write_bytes(path.read_bytes()[: chosen.randrange(path.stat().st_size)])


def swapped(path, other, chosen):
    one, two = path.read_bytes(), other.read_bytes()
    path.write_bytes(two)
    other.write_bytes(one)


def foreign(path, other, chosen):
    path.write_bytes(Path(__file__).read_bytes())


def emptied(path, other, chosen):
    path.write_bytes(b"")


def changed(path, other, chosen):
    content = bytearray(path.read_bytes())
    content[chosen.randrange(len(content))] ^= 1 << chosen.randrange(8)
    path.write_bytes(content)


def deleted(path, other, chosen):
    path.unlink()


WAYS = (truncated, swapped, foreign, emptied, changed, deleted)


def test_no_damage_is_taken_for_a_finished_run(command, whole, tmp_path, capsys, monkeypatch):
    """In this process, whose compiled functions make repeats cheap."""
    chosen = random.Random(50)
    files = sorted(path.relative_to(whole.out) for path in whole.out.rglob("*") if path.is_file())
    files = [path for path in files if path.name != "run.log"]
    order = [path for _ in range(2) for path in chosen.sample(files, len(files))][:DAMAGES]
    out = tmp_path / "out"
    shutil.copytree(whole.out, out)
    monkeypatch.setattr(sys, "argv", ["vbagg", *command, str(out)])
    for number, name in enumerate(order):
        way = WAYS[number % len(WAYS)]
        other = out / chosen.choice([path for path in files if path != name])
        way(out / name, other, chosen)
        what = f"{way.__name__} {name}" + (f" with {other.relative_to(out)}" if way is swapped else "")
        assert main([*command, str(out)]) == 0, what
        told = capsys.readouterr().err
        assert name.name == "settings.toml" or told.count("nothing changed") < len(STAGES), what
        try:
            require_same(results(out), whole.results)
        except AssertionError as error:
            raise AssertionError(f"after {what}") from error
        assert main([*command, str(out)]) == 0
        assert capsys.readouterr().err.count("nothing changed") == len(STAGES), what
