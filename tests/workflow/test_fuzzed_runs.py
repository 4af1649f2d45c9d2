"""Folders of runs that were damaged or made up: a stage is refused in words, or does its work; nothing else happens."""

import contextlib
import io
import json
import os
import shutil
import warnings

import pytest
from damage import DAMAGES, copied
from fuzzing import DEEPEST, JSON, changed_bytes, examples, limited, replaced, snapshot
from hypothesis import event, given
from hypothesis import strategies as st
from tiny_country import prepared_country, write_files

from vbagg.cli import main
from vbagg.workflow.folder import DONE, SETTINGS, RunFolder
from vbagg.workflow.record import Record
from vbagg.workflow.run import Run, outdated
from vbagg.workflow.settings import read_settings
from vbagg.workflow.stages import STAGES

# rasterio cannot tell what GDAL says of a damaged file if that holds its bytes; the file is refused all the same
UNTOLD = r"ignore:Exception ignored in. 'rasterio\._env\.log_error':pytest.PytestUnraisableExceptionWarning"
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings(UNTOLD)]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A folder of inputs, and a finished run of them elsewhere: records know inputs by their place and time."""
    folder, kept = tmp_path_factory.mktemp("inputs"), tmp_path_factory.mktemp("finished") / "run"
    files = write_files(folder)
    options = ["--polygons", files["districts"], "--id", "name", "--response", "cases", "--folds", "2"]
    options += ["--population", files["population"], "--population-is", "counts", "--landmarks", "4"]
    options += ["--covariate", files["height"], "--covariate", files["wetness"], "--hyper", "point"]
    assert called(["run", *options, "--out", folder / "run"])[0] == 0
    (folder / "run").rename(kept)
    return folder, kept


def fresh(finished):
    """The folder of inputs with a copy of the finished run in it."""
    folder, kept = finished
    shutil.rmtree(folder / "outside", ignore_errors=True)
    copied(kept, folder / "run")
    return folder


@pytest.mark.parametrize("stage", [name for name in STAGES if name != "check"])
def test_what_is_whole_is_used(finished, stage):
    status, said = require_words_or_work(fresh(finished), stage)
    assert (status, "nothing changed" in (finished[0] / "run" / "run.log").read_text()) == (0, True), said


@pytest.fixture(scope="module")
def foreign(tmp_path_factory):
    """Prepared data of the same country by its area."""
    folder = tmp_path_factory.mktemp("foreign")
    prepared_country(folder, population=False).save(folder / "prepared")
    return folder / "prepared"


def called(words):
    """Exit status of a command, and what it says of errors."""
    said = io.StringIO()
    with (
        limited(),
        warnings.catch_warnings(),
        contextlib.redirect_stderr(said),
        contextlib.redirect_stdout(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        status = main([str(word) for word in words])
    return status, said.getvalue()


def damage_any_file(draw, run):
    """A file of a run is missing, empty, cut, another one, a folder or a link."""
    files = sorted(path for path in run.rglob("*") if path.is_file())
    file = draw(st.sampled_from(files))
    how = draw(st.sampled_from(["missing", "empty", "bytes", "swapped", "folder", "link", "deep", "stage"]))
    other = draw(st.sampled_from(files)).read_bytes()
    content = file.read_bytes()
    if how == "stage":
        return shutil.rmtree(run / draw(st.sampled_from(sorted(STAGES))))
    file.unlink()
    if how == "folder":
        file.mkdir()
    elif how == "link":
        file.symlink_to(run.parent / "districts.gpkg")
    elif how != "missing":
        made = {"empty": b"", "bytes": content, "swapped": other, "deep": DEEPEST}[how]
        file.write_bytes(changed_bytes(draw, made) if how == "bytes" else made)


def damage_record(draw, run):
    """A record says something else; perhaps it is sealed again."""
    file = run / draw(st.sampled_from(sorted(STAGES))) / DONE
    document = replaced(draw, json.loads(file.read_text()))
    if draw(st.booleans()) and isinstance(document, dict):
        with contextlib.suppress(Exception):
            document["digest"] = Record(*(document[name] for name in Record.__dataclass_fields__)).digest
    file.write_text(json.dumps(document))


def damage_around(draw, run):
    """Locks, leftovers of runs that were killed, and links out of the folder."""
    names = [".lock", ".lock-1-a", ".models-999999", ".maps-old-999999", "run.log", ".validation-kept", "given"]
    name = draw(st.sampled_from(names))
    path, outside = run / name, run.parent / "outside"
    outside.mkdir(exist_ok=True)
    (outside / "mine.txt").write_text("mine")
    how = draw(st.sampled_from(["file", "link", "link to file", "folder", "holder", "given"]))
    if path.exists():
        path.unlink()
    if how == "file":
        path.write_bytes(draw(st.binary(max_size=20)))
    elif how.startswith("link"):
        path.symlink_to(outside / "mine.txt" if how == "link to file" else outside)
    else:
        path.mkdir()
        holder = {"number": os.getpid(), "machine": "x", "birth": None, "since": "y"}
        document = replaced(draw, {"folder": {}, "holder": holder, "given": {"a": {"content": "", "digest": ""}}}[how])
        (path / {"folder": "cases", "holder": "holder.json", "given": "given.json"}[how]).write_text(
            json.dumps(document)
        )


def settings_of(draw, run):
    """The settings say something else."""
    file = run / SETTINGS
    lines = file.read_text().splitlines()
    at = draw(st.integers(0, len(lines) - 1))
    key = lines[at].removeprefix("# ").partition(" =")[0]
    lines[at] = f"{key} = {json.dumps(draw(JSON), default=str)}"
    file.write_bytes("\n".join(lines).encode("utf-8", "surrogatepass"))


def seal(run):
    """Write records that take the files of all stages as they are."""
    folder, digests = RunFolder(run), {}
    for name in STAGES:
        file = run / name / DONE
        facts = json.loads(file.read_text())
        file.unlink()
        record = Record.of(facts["settings"], {after: digests[after] for after in facts["after"]}, run / name)
        digests[name] = record.digest
        told = {key: getattr(record, key) for key in Record.__dataclass_fields__}
        file.write_text(json.dumps({**facts, **told, "digest": record.digest}))
        assert folder.record(name) is not None


def require_words_or_work(folder, stage, more=()):
    """Carry out a stage by the command line in the run of a folder; its status, and what it says."""
    run = folder / "run"
    before = {name: digest for name, digest in snapshot(folder).items() if not name.startswith("run/")}
    status, said = called([STAGES[stage].verb, "--out", run, *more])
    after = {name: digest for name, digest in snapshot(folder).items() if not name.startswith("run/")}
    assert after == before
    assert "Traceback" not in said
    assert status in (0, 2)
    if status:
        (error,) = [line for line in said.splitlines() if line.startswith("Error: ")]
        assert str(folder) in error, error
    else:
        job = Run(read_settings(run / SETTINGS), RunFolder(run))
        assert outdated(job, STAGES[stage]) is None
    return status, said


STAGE = st.sampled_from([name for name in STAGES if name != "check"])


@pytest.mark.parametrize("damage", [damage_any_file, damage_record, damage_around, settings_of])
@examples(30)
@given(data=st.data())
def test_damage_is_seen(finished, damage, data):
    folder = fresh(finished)
    damage(data.draw, folder / "run")
    status, _ = require_words_or_work(folder, data.draw(STAGE))
    event(f"status {status}")


@pytest.mark.parametrize("damage", DAMAGES)
@examples(20)
@given(data=st.data())
def test_prepared_data_that_pass_for_whole(finished, foreign, damage, data):
    """As though the stage had written them so."""
    folder = fresh(finished)
    damage(data.draw, folder / "run" / "prepared", foreign)
    seal(folder / "run")
    status, _ = require_words_or_work(folder, data.draw(STAGE), data.draw(st.sampled_from([["--force"], []])))
    event(f"status {status}")


@pytest.mark.parametrize("stage", ["check", "models", "maps", "validation"])
@examples(20)
@given(data=st.data())
def test_results_that_pass_for_whole(finished, stage, data):
    folder = fresh(finished)
    results = folder / "run" / stage
    file = data.draw(st.sampled_from(sorted(p for p in results.rglob("*") if p.is_file() and p.name != DONE)))
    others = sorted(p for p in (folder / "run").rglob("*") if p.is_file())
    if file.suffix == ".json" and data.draw(st.booleans()):
        file.write_text(json.dumps(replaced(data.draw, json.loads(file.read_text()))))
    elif data.draw(st.booleans()):
        file.write_bytes(changed_bytes(data.draw, file.read_bytes()))
    else:
        file.write_bytes(data.draw(st.sampled_from(others)).read_bytes())
    seal(folder / "run")
    status, _ = require_words_or_work(folder, data.draw(st.sampled_from(["maps", "report"])), ["--force"])
    event(f"status {status}")
