"""Runs that are killed at any moment and resumed, and finished folders that were damaged, end in the same results.

What may differ: dates and seconds (`run.log`, costs in `stage.json`, `seconds` of folds, the date on the page), and the
bytes of GeoPackages, which count changes and hold dates, and so the digests of what rests on these.
"""

import json
import random
import re
import shutil
import signal
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
DAMAGES = 50
AT_FILES = [name for name in STAGES for _ in range(2)]
"""Stages that are killed as they touch a file or folder."""
IN_WORK = ["models", "models", "models", "maps", "validation", "validation", "report"]
"""Those that are killed so long after they began; the twentieth kill is between two folds."""
CHILD = """
import json, os, signal, sys

out, victim, last, told = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
events = ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "shutil.rmtree")
stage, touched = "", {}


def watch(event, arguments):
    global stage
    if event not in events:
        return
    paths = [os.fspath(item) for item in arguments if isinstance(item, (str, os.PathLike))]
    if not any(path.startswith(out) for path in paths):
        return
    folder, name = os.path.split(paths[0])
    if event == "os.mkdir" and folder == out and name.endswith(f"-{os.getpid()}"):
        stage = name[1:].partition("-")[0]
    touched[stage] = touched.get(stage, 0) + 1
    if stage == victim and touched[stage] == last:
        os.kill(os.getpid(), signal.SIGKILL)


sys.addaudithook(watch)
from vbagg.cli import main

sys.argv = ["vbagg", *sys.argv[5:]]
status = main(sys.argv[1:])
with open(told, "w") as file:
    json.dump(touched, file)
sys.exit(status)
"""


@pytest.fixture(scope="module")
def command(tmp_path_factory):
    """The tiny run, its folder to be added."""
    files = write_files(tmp_path_factory.mktemp("files"))
    words = ["run", "--polygons", files["districts"], "--id", "name", "--response", "cases"]
    words += ["--population", files["population"], "--population-is", "counts", "--covariate", files["height"]]
    words += ["--likelihood", "poisson", *(f"--{name}={value}" for name, value in CHEAP.items()), "--out"]
    return [str(word) for word in words]


def started(command, out, victim="", last=0):
    """A run in a process of its own, which is killed when a stage touches its last file or folder."""
    with (out.parent / "told.txt").open("w") as told:
        counts = out.parent / "touched.json"
        words = [sys.executable, "-c", CHILD, out, victim, last, counts, *command, out]
        return subprocess.Popen([str(word) for word in words], stdout=told, stderr=told)


class Whole:
    """A run without interruption: its results, how often each stage touches a file, and the seconds that it takes."""

    def __init__(self, command, out):
        assert started(command, out).wait() == 0, (out.parent / "told.txt").read_text()
        self.out, self.results = out, results(out)
        self.touched = json.loads((out.parent / "touched.json").read_text())
        self.seconds = {name: json.loads((out / name / "stage.json").read_text())["seconds"] for name in STAGES}


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


def require_same(found, expected, what):
    assert sorted(found) == sorted(expected), what
    assert [name for name in expected if found[name] != expected[name]] == [], what


@pytest.fixture
def before(whole, tmp_path_factory):
    """Makes a run that has come as far as a stage."""

    def make(stage):
        out = tmp_path_factory.mktemp("killed") / "out"
        shutil.copytree(whole.out, out)
        for later in list(STAGES)[list(STAGES).index(stage) :]:
            shutil.rmtree(out / later)
        if stage == next(iter(STAGES)):
            shutil.rmtree(out)
        return out

    return make


@pytest.fixture
def resumed(command, whole, monkeypatch, capsys):
    """Resumes a run in this process, whose compiled functions make repeats cheap, and compares its results."""

    def resume(out, what):
        monkeypatch.setattr(sys, "argv", ["vbagg", *command, str(out)])
        assert main([*command, str(out)]) == 0, what
        told = capsys.readouterr().err
        require_same(results(out), whole.results, what)
        assert not list(out.glob(".*")), what
        return told

    return resume


def wait_for_line(out, line, process):
    while process.poll() is None and not ((out / "run.log").exists() and line in (out / "run.log").read_text()):
        time.sleep(0.005)


def test_runs_that_are_killed_as_they_touch_a_file(command, whole, before, resumed):
    chosen = random.Random(20)
    for stage in AT_FILES:
        out, last = before(stage), chosen.randint(1, whole.touched[stage])
        assert started(command, out, stage, last).wait() == -signal.SIGKILL
        resumed(out, f"{stage} was killed at touch {last} of {whole.touched[stage]}")


def test_runs_that_are_killed_at_work(command, whole, before, resumed):
    chosen, hits = random.Random(12), 0
    for stage in IN_WORK:
        out, share = before(stage), chosen.random()
        (out / "run.log").unlink()
        process = started(command, out)
        wait_for_line(out, f"{stage}: begins", process)
        time.sleep(share * whole.seconds[stage])
        process.kill()
        hits += process.wait() == -signal.SIGKILL
        resumed(out, f"{stage} was killed after {share:.0%} of its time")
    assert hits >= len(IN_WORK) // 2


def test_a_validation_that_is_killed_goes_on_with_the_next_fold(command, before, resumed):
    out = before("validation")
    (out / "run.log").unlink()
    process = started(command, out)
    wait_for_line(out, "fold 1, ", process)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    assert "validation: cases: fold 1, was finished before" in resumed(out, "killed between folds")


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


def test_no_damage_is_taken_for_a_finished_run(command, whole, resumed, tmp_path_factory):
    chosen = random.Random(50)
    files = sorted(path.relative_to(whole.out) for path in whole.out.rglob("*") if path.is_file())
    files = [path for path in files if path.name != "run.log"]
    order = [path for _ in range(2) for path in chosen.sample(files, len(files))][:DAMAGES]
    out = tmp_path_factory.mktemp("damaged") / "out"
    shutil.copytree(whole.out, out)
    for number, name in enumerate(order):
        way = WAYS[number % len(WAYS)]
        other = out / chosen.choice([path for path in files if path != name])
        way(out / name, other, chosen)
        what = f"{way.__name__} {name}" + (f" with {other.relative_to(out)}" if way is swapped else "")
        told = resumed(out, what)
        assert name.name == "settings.toml" or told.count("nothing changed") < len(STAGES), what
    assert resumed(out, "nothing").count("nothing changed") == len(STAGES)
