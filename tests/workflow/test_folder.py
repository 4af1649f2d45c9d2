"""The folder of a run: one run at a time, nothing left of those that were killed, and what a full disk says."""

import errno
import json
import os
import resource
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from vbagg.cli import main
from vbagg.files import written_whole
from vbagg.room import DiskFullError
from vbagg.workflow.folder import DONE, SETTINGS, RunFolder
from vbagg.workflow.lock import HOLDER, LOCK, holder_of
from vbagg.workflow.processes import Process
from vbagg.workflow.run import Run, Stage, carry_out, outdated
from vbagg.workflow.settings import make_settings


@pytest.fixture
def folder(tmp_path):
    return RunFolder(tmp_path / "out")


@pytest.fixture
def gone():
    """The number of a process that has ended."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    return ended.pid


def writes(text="rates"):
    def work(run, into):
        (into / "result.txt").write_text(f"{text} {run.settings.maps.per}")

    return work


def hold(folder, process):
    lock = folder.path / LOCK
    lock.mkdir(parents=True)
    (lock / HOLDER).write_text(json.dumps(asdict(process)))
    return lock


def run_in(folder):
    return Run(make_settings({}, "test"), folder)


class TestOneAtATime:
    def test_a_second_run_is_refused_by_name_of_the_first(self, folder):
        with folder.in_use():
            since = holder_of(folder.path / LOCK).since
            with pytest.raises(BlockingIOError, match=rf"process {os.getpid()} has been working in it since {since}"):
                folder.in_use().__enter__()
            assert holder_of(folder.path / LOCK) == replace(Process.own(), since=since)
        with folder.in_use():
            pass
        assert not folder.path.exists()

    def test_the_command_line_refuses_before_any_work(self, folder, capsys):
        with folder.in_use():
            assert main(["run", "--polygons", "nowhere.gpkg", "--out", str(folder.path)]) == 2
        error = capsys.readouterr().err
        assert f"Error: {folder.path} is in use: process {os.getpid()} has been working" in error
        assert "nowhere" not in error

    def test_a_process_that_is_gone_holds_nothing(self, folder, gone):
        hold(folder, replace(Process.own(), number=gone, birth="17"))
        with folder.in_use():
            assert holder_of(folder.path / LOCK).number == os.getpid()

    @pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="births of processes are known on Linux only")
    def test_a_number_that_was_given_to_another_process_holds_nothing(self, folder):
        hold(folder, replace(Process.own(), number=os.getppid(), birth="17"))
        with folder.in_use():
            assert holder_of(folder.path / LOCK).number == os.getpid()

    def test_of_another_machine_nothing_can_be_told(self, folder, gone):
        lock = hold(folder, replace(Process.own(), number=gone, machine="elsewhere"))
        with pytest.raises(BlockingIOError, match=rf"on elsewhere .*if it does not, remove {lock}"):
            folder.in_use().__enter__()

    @pytest.mark.parametrize("content", ["", "{}", '{"number": 3'])
    def test_a_lock_that_says_nothing_is_taken(self, folder, content):
        (hold(folder, Process.own()) / HOLDER).write_text(content)
        with folder.in_use():
            assert holder_of(folder.path / LOCK) is not None

    def test_of_many_processes_one_gets_it(self, folder, gone, tmp_path):
        hold(folder, replace(Process.own(), number=gone, birth="17"))
        code = (
            "import sys, time; from pathlib import Path; from vbagg.workflow.folder import RunFolder\n"
            "while not Path(sys.argv[2]).exists(): time.sleep(0.001)\n"
            "with RunFolder(Path(sys.argv[1])).in_use():\n    print('mine', flush=True); time.sleep(2)"
        )
        go = tmp_path / "go"
        many = [
            subprocess.Popen([sys.executable, "-c", code, folder.path, go], stdout=-1, stderr=-1, text=True)
            for _ in range(4)
        ]
        time.sleep(0.5)
        go.touch()
        told = [one.communicate() for one in many]
        assert sorted(out for out, _ in told) == ["", "", "", "mine\n"]
        assert sum("is in use: process" in error for _, error in told) == 3


class TestWhatKilledRunsLeave:
    def test_the_layout_of_a_check_that_was_killed_is_gone(self, folder):
        program = "import os; from pathlib import Path; from vbagg.workflow.shared import SharedLayout as S; "
        program += f"S(Path({str(folder.path)!r})).folder().joinpath('band').touch(); os._exit(9)"
        folder.path.mkdir(parents=True, exist_ok=True)
        assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 9
        assert [path.name for path in folder.path.rglob("band")] == ["band"]
        with folder.in_use():
            assert not list(folder.path.rglob("band"))

    def test_goes_when_the_next_run_starts(self, folder, gone):
        folder.path.mkdir()
        for name in (f".models-{gone}", f".maps-old-{gone}", f".lock-{gone}-1f", f".models-{os.getpid()}"):
            (folder.path / name / "deep").mkdir(parents=True)
        (folder.path / f".{SETTINGS}.0f3a.part").write_text("half")
        others = [folder.path / f".models-{os.getppid()}", folder.path / ".git", folder.path / "models-12"]
        for other in others:
            other.mkdir()
        with folder.in_use():
            assert sorted(folder.path.iterdir()) == sorted([*others, folder.path / LOCK])

    @pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="births of processes are known on Linux only")
    def test_goes_though_another_process_has_its_number(self, folder):
        left = folder.path / f".models-{os.getppid()}"
        left.mkdir(parents=True)
        os.utime(left, (1_000_000_000, 1_000_000_000))
        with folder.in_use():
            assert not left.exists()

    @pytest.mark.parametrize("moment", ["old results aside", "new results whole"])
    def test_a_stage_that_was_being_replaced_comes_back(self, folder, gone, moment):
        run, stage = run_in(folder), Stage("models", "fit", writes())
        assert carry_out(run, stage)
        name = f".models-old-{gone}" if moment == "old results aside" else f".models-{gone}"
        folder["models"].rename(folder.path / name)
        with folder.in_use():
            assert outdated(run, stage) is None

    def test_half_a_stage_does_not_come_back(self, folder, gone):
        left = folder.path / f".models-{gone}"
        left.mkdir(parents=True)
        (left / "result.txt").write_text("rates")
        with folder.in_use():
            assert not folder["models"].exists()
            assert not left.exists()

    def test_settings_are_there_though_it_was_killed_before_it_wrote_them(self, folder):
        run, stage = run_in(folder), Stage("models", "fit", writes())
        carry_out(run, stage)
        (folder.path / SETTINGS).unlink()
        assert not carry_out(run, stage)
        assert (folder.path / SETTINGS).exists()


class TestWhatAStageKeeps:
    """Parts of its work, for the next run if this one is killed."""

    @pytest.fixture
    def part(self, folder):
        part = folder.kept("validation") / "cases" / "fold-1.json"
        part.parent.mkdir(parents=True)
        part.write_text("scores")
        return part

    def test_is_there_for_the_next_run(self, folder, part):
        with folder.in_use():
            assert part.exists()
            with pytest.raises(KeyboardInterrupt):
                carry_out(run_in(folder), Stage("validation", "validate", self.stopped))
        assert part.exists()

    def stopped(self, run, into):
        raise KeyboardInterrupt

    def test_is_gone_with_the_end_of_the_stage(self, folder, part):
        carry_out(run_in(folder), stage := Stage("validation", "validate", writes()))
        assert not folder.kept("validation").exists()
        # and where settings are again those of the results
        part.parent.mkdir(parents=True)
        assert not carry_out(run_in(folder), stage)
        assert not folder.kept("validation").exists()

    def test_is_not_taken_where_all_is_asked_for_anew(self, folder, part):
        def work(run, into):
            assert not part.exists()

        carry_out(run_in(folder), Stage("validation", "validate", work), force=True)


class TestAFullDisk:
    def fails_with(self, folder, error):
        def work(run, into):
            (into / "first.tif").write_text("whole")
            raise error

        with pytest.raises(DiskFullError) as told:
            carry_out(run_in(folder), Stage("maps", "predict", work))
        assert [path.name for path in folder.path.glob(".*")] == []
        return str(told.value)

    def test_is_told_with_what_was_written_and_how_to_go_on(self, folder):
        text = self.fails_with(folder, OSError(errno.ENOSPC, "No space left on device", "deep/rate_sd.tif"))
        assert text.startswith(f"The disk is full: there was no room in {folder.path} while writing the stage 'maps' (")
        assert "(rate_sd.tif)" in text
        assert "the same command again" in text

    @pytest.mark.parametrize(
        "error",
        [OSError(errno.EDQUOT, "x"), RuntimeError("sqlite3: database or disk is full"), OSError(errno.EFBIG, "x")],
    )
    def test_is_known_in_other_words(self, folder, error):
        assert "its last file was first.tif" in self.fails_with(folder, error)

    def test_is_known_by_its_cause(self, folder):
        error = ValueError("Write failed")
        error.__cause__ = OSError(errno.ENOSPC, "No space left on device")
        assert "maps" in self.fails_with(folder, error)

    def test_is_found_by_trying_where_a_library_does_not_say(self, folder):
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
        try:
            text = self.fails_with(folder, RuntimeError("IO error writing tag data"))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert "while writing the stage 'maps'" in text

    def test_other_errors_stay_what_they_are(self, folder):
        def work(run, into):
            raise RuntimeError("IO error writing tag data")

        with pytest.raises(RuntimeError, match="tag data"):
            carry_out(run_in(folder), Stage("maps", "predict", work))

    def test_of_the_log_is_told_too(self, folder, monkeypatch):
        def full(self, text):
            raise OSError(errno.ENOSPC, "No space left on device", str(self.path / "run.log"))

        monkeypatch.setattr(RunFolder, "log", full)
        with pytest.raises(DiskFullError, match=r"\(run\.log\)"), folder.in_use():
            carry_out(run_in(folder), Stage("maps", "predict", writes()))

    def test_of_a_file_names_it(self, tmp_path):
        with pytest.raises(OSError, match=r"model\.vbagg"), written_whole(tmp_path / "model.vbagg"):
            raise OSError(errno.ENOSPC, "No space left on device")


class TestTheFolderItself:
    @pytest.mark.parametrize("inside", ["", "deeper/still"])
    def test_must_not_be_a_file(self, tmp_path, capsys, inside):
        file = tmp_path / "results.txt"
        file.write_text("mine")
        assert main(["run", "--polygons", "nowhere.gpkg", "--out", str(file / inside)]) == 2
        assert f"`out` must name a folder; {file} is a file." in capsys.readouterr().err
        assert file.read_text() == "mine"

    def test_a_file_that_changes_while_it_is_read_is_seen_as_changed(self, folder, tmp_path):
        """The record has it as it was when the stage first asked for it."""
        rain = tmp_path / "rain.tif"
        rain.write_bytes(b"dry")

        def work(run, into):
            (file,) = run.settings.data.covariate
            (into / "copy.tif").write_bytes(file.read_bytes())
            file.write_bytes(b"very wet")
            assert run.settings.data.covariate == (file,)

        run = Run(make_settings({"data": {"covariate": [rain]}}, "test"), folder)
        carry_out(run, stage := Stage("prepared", "prepare", work))
        assert "data.covariate was" in outdated(run, stage)

    @pytest.mark.parametrize(
        ("named", "changed"),
        [("climate.nc::rain", "climate.nc"), ("area.shp", "area.dbf"), ("rain.zarr", "rain.zarr/c/0")],
    )
    def test_files_of_several_parts_or_layers_are_seen_to_change(self, folder, tmp_path, named, changed):
        for name in ("climate.nc", "area.shp", "area.dbf", "rain.zarr/zarr.json", "rain.zarr/c/0"):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(name)

        def work(run, into):
            (into / "used.txt").write_text(str(run.settings.data.covariate))

        run = Run(make_settings({"data": {"covariate": [tmp_path / named]}}, "test"), folder)
        carry_out(run, stage := Stage("prepared", "prepare", work))
        assert outdated(run, stage) is None
        (tmp_path / changed).write_text("something else")
        assert "data.covariate was" in outdated(run, stage)

    def test_a_record_is_the_last_file_of_a_stage(self, folder):
        carry_out(run_in(folder), Stage("maps", "predict", writes()))
        assert sorted(path.name for path in folder["maps"].iterdir()) == ["result.txt", DONE]
