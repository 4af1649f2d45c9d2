import json
import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import fake_experiment
import numpy as np
import pandas as pd
import pytest
from fake_experiment import DyingExperiment, FakeExperiment, OddScores, OtherExperiment, ThreadsExperiment
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from vbagg import __version__
from vbagg.experiments import EXPERIMENTS, get_experiment, workers
from vbagg.experiments.base import Settings, Task
from vbagg.experiments.runner import load_rows, open_run, run_experiment
from vbagg.experiments.store import BOOKKEEPING, Store
from vbagg.experiments.watchers import Bar, Lines, Watcher, duration, watcher
from vbagg.experiments.workers import Outcome, _next_task, _Worker

KEYS = ["bags", "repetition", "method"]
TIMES = ["wall_seconds", "cpu_seconds", "started"]


def logged(tmp_path: Path, kind: type[FakeExperiment] = FakeExperiment) -> FakeExperiment:
    experiment = kind()
    experiment.log = tmp_path / "log"
    return experiment


def executed(experiment: FakeExperiment) -> list[str]:
    return experiment.log.read_text().splitlines()


# tasks and settings


def test_task_is_a_hashable_mapping():
    task = Task(bags=np.int64(150), method="VBAgg-Sq", rate=np.float64(0.5))
    assert task == Task({"method": "VBAgg-Sq", "bags": 150, "rate": 0.5})
    assert len({task, Task({"method": "VBAgg-Sq", "bags": 150, "rate": 0.5}), Task(bags=151)}) == 2
    assert type(task["bags"]) is int
    assert type(task["rate"]) is float
    assert str(task) == "bags=150 method=VBAgg-Sq rate=0.5"
    assert pickle.loads(pickle.dumps(task)) == task
    with pytest.raises(TypeError):
        task["bags"] = 3  # type: ignore[index]


@pytest.mark.parametrize("value", [[1], None, float("nan")])
def test_task_refuses_what_a_cell_cannot_hold(value):
    with pytest.raises(TypeError, match="`bags` must be"):
        Task(bags=value)


def test_settings_are_checked():
    with pytest.raises(ValueError, match="at least 1; got 0"):
        Settings(repetitions=0)
    with pytest.raises(ValueError, match="at least one method"):
        Settings(methods=())
    assert Settings(quick=True).repetitions_or(full=50, quick=2) == 2
    assert Settings().repetitions_or(full=50, quick=2) == 50
    assert Settings(repetitions=7).repetitions_or(full=50, quick=2) == 7


def test_chosen_methods_keep_the_order_of_the_experiment():
    assert FakeExperiment().chosen_methods(Settings(methods=("constant", "exact"))) == ("exact", "constant")


def test_unknown_experiment_lists_the_known():
    with pytest.raises(ValueError, match=r"'swiss-bags'.*'malaria'; got 'swiss'"):
        get_experiment("swiss")


def test_experiments_are_imported_by_name(monkeypatch):
    monkeypatch.setitem(EXPERIMENTS, "fake", "fake_experiment:OtherExperiment")
    assert isinstance(get_experiment("fake"), OtherExperiment)


# one run


def test_table_has_keys_scores_times_and_version(tmp_path):
    table = run_experiment(FakeExperiment(), tmp_path, Settings())
    assert list(table.columns) == [*KEYS, "error", "chosen", "coverage_90", *BOOKKEEPING]
    assert list(table[KEYS].itertuples(index=False, name=None))[:4] == [
        (10, 0, "exact"),
        (10, 0, "rough"),
        (10, 0, "constant"),
        (10, 1, "exact"),
    ]
    assert len(table) == 12
    assert table["coverage_90"].isna().tolist() == [method == "constant" for method in table["method"]]
    assert set(table["chosen"]) == {'exact, the "first"', 'rough, the "first"', 'constant, the "first"'}
    assert set(table["version"]) == {__version__}
    assert (table["wall_seconds"] >= 0).all()
    pd.testing.assert_frame_equal(table, load_rows(tmp_path))


def test_seconds_are_wall_and_cpu(tmp_path):
    experiment = FakeExperiment()
    experiment.seconds = 0.15
    row = run_experiment(experiment, tmp_path, Settings(quick=True, methods=("exact",))).iloc[0]
    assert 0.15 <= row["wall_seconds"] < 1
    assert row["cpu_seconds"] < 0.1


def test_settings_file_tells_the_run_and_not_the_place(tmp_path):
    run_experiment(FakeExperiment(), tmp_path, Settings(quick=True, options={"scale": 0.5}), jobs=1)
    text = (tmp_path / "settings.json").read_text()
    content = json.loads(text)
    assert (content["experiment"], content["quick"], content["options"]) == ("fake", True, {"scale": 0.5})
    [run] = content["runs"]
    assert set(run) == {"date", "repetitions", "methods", "jobs", "machine"}
    assert run["machine"]["cpus"] == os.cpu_count()
    assert run["machine"]["vbagg"] == __version__
    assert str(tmp_path) not in text
    assert socket.gethostname() not in text


def test_no_temporary_files_stay(tmp_path):
    run_experiment(FakeExperiment(), tmp_path, Settings())
    assert {path.name for path in tmp_path.iterdir()} == {"repetitions.csv", "settings.json", ".lock"}


# stopping and going on


def test_a_stopped_run_goes_on_and_repeats_nothing(tmp_path, monkeypatch):
    experiment = logged(tmp_path)
    monkeypatch.setattr(FakeExperiment, "interrupt", "bags=10 repetition=1 method=rough")
    with pytest.raises(KeyboardInterrupt):
        run_experiment(experiment, tmp_path / "out", Settings())
    assert len(load_rows(tmp_path / "out")) == 4
    before = (tmp_path / "out" / "repetitions.csv").read_text().splitlines()

    monkeypatch.setattr(FakeExperiment, "interrupt", "")
    table = run_experiment(experiment, tmp_path / "out", Settings())
    assert len(table) == 12
    stopped_and_redone = ["bags=10 repetition=1 method=rough"]
    assert sorted(executed(experiment)) == sorted([str(t) for t in experiment.tasks(Settings())] + stopped_and_redone)
    assert (tmp_path / "out" / "repetitions.csv").read_text().splitlines()[:5] == before
    assert len(json.loads((tmp_path / "out" / "settings.json").read_text())["runs"]) == 2

    run_experiment(experiment, tmp_path / "out", Settings())
    assert len(executed(experiment)) == 13


def test_a_failure_is_logged_and_loses_nothing(tmp_path, monkeypatch):
    experiment = logged(tmp_path)
    out = tmp_path / "out"
    monkeypatch.setattr(FakeExperiment, "fail", "bags=10 repetition=0")
    with pytest.warns(UserWarning, match="3 of 12 tasks failed; see .*errors.log"):
        table = run_experiment(experiment, out, Settings())
    assert len(table) == 9
    assert not ((table["bags"] == 10) & (table["repetition"] == 0)).any()
    log = (out / "errors.log").read_text()
    assert log.count("Traceback") == 3
    assert "ArithmeticError: bags=10 repetition=0 method=rough cannot be done" in log

    monkeypatch.setattr(FakeExperiment, "fail", "")
    table = run_experiment(experiment, out, Settings())
    assert table[KEYS].apply(tuple, axis=1).tolist() == [tuple(task.values()) for task in experiment.tasks(Settings())]
    assert len(executed(experiment)) == 15


def test_a_task_that_exits_is_a_failure(tmp_path, monkeypatch):
    monkeypatch.setattr(fake_experiment.time, "sleep", lambda seconds: sys.exit("no library"))
    with pytest.warns(UserWarning, match="12 of 12"):
        table = run_experiment(FakeExperiment(), tmp_path, Settings())
    assert len(table) == 0
    assert "SystemExit: no library" in (tmp_path / "errors.log").read_text()


def test_odd_scores_are_failures(tmp_path):
    with pytest.warns(UserWarning, match="6 of 6"):
        run_experiment(OddScores(), tmp_path, Settings(repetitions=1))
    log = (tmp_path / "errors.log").read_text()
    assert "must not be called 'wall_seconds'" in log
    assert "must not be called 'repetition'" in log
    assert "Score 'error' must be a number or a text; got list" in log


def test_repetitions_and_methods_add_rows(tmp_path):
    experiment = logged(tmp_path)
    out = tmp_path / "out"
    first = run_experiment(experiment, out, Settings(repetitions=1, methods=("rough",)))
    assert len(first) == 2
    more = run_experiment(experiment, out, Settings(repetitions=3, methods=("rough",)))
    assert more["repetition"].tolist() == [0, 1, 2, 0, 1, 2]
    every = run_experiment(experiment, out, Settings(repetitions=3))
    assert every["method"].tolist() == ["exact", "rough", "constant"] * 6
    assert len(executed(experiment)) == 18
    fewer = run_experiment(experiment, out, Settings(repetitions=1, methods=("exact",)))
    assert len(fewer) == 18
    assert len(executed(experiment)) == 18


@pytest.mark.parametrize(
    ("experiment", "settings", "difference"),
    [
        (FakeExperiment(), Settings(quick=True, options={"scale": 0.5}), "quick = False; this run has quick = True"),
        (FakeExperiment(), Settings(options={"scale": 2.0}), "scale = 0.5; this run has scale = 2.0"),
        (FakeExperiment(), Settings(), r"scale = 0.5; this run has scale = \(default\)"),
        (
            FakeExperiment(),
            Settings(options={"scale": 0.5, "bag_mean": 30}),
            r"bag_mean = \(default\); this run has bag_mean = 30",
        ),
        (OtherExperiment(), Settings(options={"scale": 0.5}), "experiment = 'fake'; this run has experiment = 'other'"),
    ],
)
def test_other_settings_are_refused(tmp_path, experiment, settings, difference):
    run_experiment(FakeExperiment(), tmp_path, Settings(options={"scale": 0.5}))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(ValueError, match=difference + r".*another folder with --out"):
        run_experiment(experiment, tmp_path, settings)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_rows_of_unknown_origin_are_refused(tmp_path):
    (tmp_path / "repetitions.csv").write_text("bags,repetition,method,error\n10,0,exact,1.0\n")
    with pytest.raises(ValueError, match=r"unknown settings.*--out"):
        run_experiment(FakeExperiment(), tmp_path, Settings())


def test_a_broken_settings_file_is_refused(tmp_path):
    (tmp_path / "settings.json").write_text("{")
    with pytest.raises(ValueError, match=r"settings.json.*not readable.*--out"):
        run_experiment(FakeExperiment(), tmp_path, Settings())


def test_rows_with_other_keys_are_refused(tmp_path, monkeypatch):
    run_experiment(FakeExperiment(), tmp_path, Settings())
    monkeypatch.setattr(FakeExperiment, "tasks", lambda self, settings: [Task(fold=1, method="exact")])
    with pytest.raises(ValueError, match="no column 'fold'"):
        run_experiment(FakeExperiment(), tmp_path, Settings())


def test_two_runs_do_not_share_a_folder(tmp_path):
    with (
        open_run(FakeExperiment(), tmp_path, Settings()),
        pytest.raises(ValueError, match="Another run is writing"),
        open_run(FakeExperiment(), tmp_path, Settings()),
    ):
        pass
    with open_run(FakeExperiment(), tmp_path, Settings()) as run:
        assert len(run.store.waiting()) == 12


def test_unknown_methods_and_options_are_refused(tmp_path):
    with pytest.raises(ValueError, match="'exact', 'rough', 'constant'; got 'best'"):
        run_experiment(FakeExperiment(), tmp_path / "out", Settings(methods=("exact", "best")))
    with pytest.raises(ValueError, match="'fake' has no option 'bag_std'; its options: 'scale', 'bag_mean'"):
        run_experiment(FakeExperiment(), tmp_path / "out", Settings(options={"bag_std": 3}))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ([], "no tasks"),
        ([Task(a=1), Task(b=1)], "same keys"),
        ([Task(a=1), Task(a=2), Task(a=1)], r"differ.*'a': 1.* twice"),
    ],
)
def test_tasks_are_checked(tmp_path, monkeypatch, tasks, message):
    monkeypatch.setattr(FakeExperiment, "tasks", lambda self, settings: tasks)
    with pytest.raises(ValueError, match=message):
        run_experiment(FakeExperiment(), tmp_path, Settings())


def test_an_unwritable_folder_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"Cannot write to .*file/out.*Not a directory.*--out"):
        run_experiment(FakeExperiment(), tmp_path / "file" / "out", Settings())


def test_no_rows_is_told(tmp_path):
    with pytest.raises(FileNotFoundError, match="No finished tasks"):
        load_rows(tmp_path)


# cells


plain_text = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FF), max_size=8).map(lambda text: "x" + text)


@hypothesis_settings(max_examples=60)
@given(
    numbers=st.lists(st.floats(), min_size=1, max_size=4),
    texts=st.lists(plain_text | st.sampled_from(['a,"b"', "two\nlines", "NA", "None", "a|b"]), min_size=1, max_size=4),
)
def test_cells_round_trip_exactly(numbers, texts):
    rows = [(number, texts[at % len(texts)]) for at, number in enumerate(numbers)]
    tasks = [Task(repetition=at, method=f"m{at % 2}") for at in range(len(rows))]
    with tempfile.TemporaryDirectory() as folder:
        for task, (number, text) in zip(tasks, rows, strict=True):
            store = Store.open(Path(folder), tasks)  # as a run that continues
            store.add(Outcome(task, {"number": number, "text": text}, None, 0.25, 0.5, "2018-12-03T00:00:00Z"))
        table = load_rows(folder)
        assert Store.open(Path(folder), tasks).waiting() == []
    np.testing.assert_array_equal(table["number"].to_numpy(float), [number for number, _ in rows])
    finite = [number for number in numbers if np.isfinite(number)]
    assert [repr(x) for x in table["number"].astype(float) if np.isfinite(x)] == [repr(float(x)) for x in finite]
    assert table["text"].tolist() == [text for _, text in rows]


# workers


def test_workers_give_the_same_table(tmp_path):
    alone = run_experiment(FakeExperiment(), tmp_path / "alone", Settings())
    together = run_experiment(FakeExperiment(), tmp_path / "together", Settings(), jobs=2)
    pd.testing.assert_frame_equal(alone.drop(columns=TIMES), together.drop(columns=TIMES))


def test_failures_and_deaths_of_workers_lose_nothing(tmp_path):
    experiment = DyingExperiment()
    with pytest.warns(UserWarning, match="2 of 12 tasks failed"):
        table = run_experiment(experiment, tmp_path, Settings(), jobs=2)
    assert len(table) == 10
    log = (tmp_path / "errors.log").read_text()
    assert "ArithmeticError: bags=10 repetition=0 method=rough cannot be done" in log
    assert "bags=25 repetition=0 method=exact\nThe process of this task died" in log


def test_workers_share_the_cores(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "17")
    monkeypatch.delenv("PJRT_NPROC", raising=False)
    monkeypatch.setattr("vbagg.experiments.workers.processors", lambda: 7)
    table = run_experiment(ThreadsExperiment(), tmp_path, Settings(quick=True, methods=("exact",)), jobs=2)
    assert table["pool"].tolist() == [3, 3]
    assert table["openmp"].tolist() == [3, 3]
    assert os.environ["OMP_NUM_THREADS"] == "17"
    assert "PJRT_NPROC" not in os.environ


def test_a_worker_stays_with_its_data_set():
    experiment = FakeExperiment()
    waiting = experiment.tasks(Settings())
    mine, other = _Worker(), _Worker()
    first = _next_task(waiting, experiment, mine, [])
    mine.dataset = experiment.dataset(first)
    second = _next_task(waiting, experiment, other, [mine])
    other.dataset = experiment.dataset(second)
    assert str(first) == "bags=10 repetition=0 method=exact"
    assert str(second) == "bags=10 repetition=1 method=exact"
    assert str(_next_task(waiting, experiment, mine, [other])) == "bags=10 repetition=0 method=rough"
    assert str(_next_task(waiting, experiment, other, [])) == "bags=10 repetition=1 method=rough"
    left = [task for task in waiting if task["bags"] == 10]
    assert str(_next_task(left[1:], experiment, mine, [other])) == "bags=10 repetition=1 method=constant"


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_workers_end_with_their_parent(tmp_path, how):
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            import os, signal, sys, time
            from pathlib import Path
            from fake_experiment import FakeExperiment
            from vbagg.experiments.base import Settings
            from vbagg.experiments.runner import run_experiment

            class Slow(FakeExperiment):
                def run(self, task, settings):
                    if task["method"] != "exact":
                        (Path(sys.argv[1]) / f"pid{os.getpid()}").touch()
                        time.sleep(60)
                    return super().run(task, settings)

            if __name__ == "__main__":
                signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
                run_experiment(Slow(), Path(sys.argv[1]) / "out", Settings(), jobs=2)
            """
        )
    )
    path = os.pathsep.join([str(Path(fake_experiment.__file__).parent), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path}
    parent = subprocess.Popen([sys.executable, script, tmp_path], env=environment, stderr=subprocess.PIPE, text=True)
    try:
        workers = _wait_for(lambda: [int(path.name[3:]) for path in tmp_path.glob("pid*")], 2)
        assert all(map(_alive, workers))
        parent.send_signal(how)
        began = time.monotonic()
        _, errors = parent.communicate(timeout=10)
        assert time.monotonic() - began < 5
        assert ("KeyboardInterrupt" in errors) == (how == signal.SIGINT)
        _wait_for(lambda: [pid for pid in workers if not _alive(pid)], 2)
        assert set(load_rows(tmp_path / "out")["method"]) == {"exact"}
    finally:
        parent.kill()


def _wait_for(found, count: int, seconds: float = 15) -> list[int]:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if len(found()) >= count:
            return found()
        time.sleep(0.05)
    raise AssertionError(f"waited {seconds} s for {count}, got {found()}")


# progress


def test_python_runs_are_quiet(tmp_path, capfd):
    run_experiment(FakeExperiment(), tmp_path, Settings())
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")


def test_lines_tell_each_finished_task(tmp_path, capsys, monkeypatch):
    run_experiment(FakeExperiment(), tmp_path, Settings(methods=("rough",)))
    monkeypatch.setattr(FakeExperiment, "fail", "bags=25 repetition=1 method=constant")
    with pytest.warns(UserWarning, match="1 of 8"):
        run_experiment(FakeExperiment(), tmp_path, Settings(methods=("rough", "constant")), progress=True)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "fake: 4 of 8 done before"
    assert lines[1].startswith("[5/8] bags=10 repetition=0 method=constant: 0.0 s, about 0 s left")
    assert lines[4] == "[8/8] bags=25 repetition=1 method=constant: FAILED"
    assert len(lines) == 5


def test_time_left_counts_this_runs_tasks_only(monkeypatch):
    clock = [100.0]
    monkeypatch.setattr("vbagg.experiments.watchers.time.perf_counter", lambda: clock[0])
    watching = Watcher()
    watching.open("fake", total=40, done_before=30)
    assert watching.time_left() == ""
    clock[0] = 160.0
    for _ in range(2):
        watching.ended(Outcome(Task(a=1), {}, None, 30.0, 30.0, ""))
    assert watching.time_left() == "about 4 min left"


def test_durations_read_well():
    assert [duration(s) for s in (4.2, 99, 720, 12600)] == ["4 s", "99 s", "12 min", "3.5 h"]


def test_a_terminal_gets_a_bar(tmp_path, capsys, monkeypatch):
    assert type(watcher(None)) is Watcher
    assert type(watcher(True)) is Lines
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert type(watcher(True)) is Bar
    monkeypatch.setattr(FakeExperiment, "fail", "bags=25 repetition=1 method=exact")
    run_experiment(FakeExperiment(), tmp_path, Settings(methods=("rough",)))
    with pytest.warns(UserWarning, match="1 of 12"):
        run_experiment(FakeExperiment(), tmp_path, Settings(), progress=Bar())
    errors = capsys.readouterr().err
    assert "fake: 4 of 12 done before" in errors
    assert "FAILED bags=25 repetition=1 method=exact" in errors


def test_a_process_that_has_grown_forgets_compiled_functions(monkeypatch):
    import jax

    cleared = []
    monkeypatch.setattr(jax, "clear_caches", lambda: cleared.append(True))
    monkeypatch.setattr(workers, "resident_bytes", lambda: 3e9)
    workers._forget_compiled_functions()
    assert not cleared
    monkeypatch.setattr(workers, "resident_bytes", lambda: 3e9 + 1)
    workers._forget_compiled_functions()
    assert cleared
