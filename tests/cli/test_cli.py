import os
import subprocess
import sys
from pathlib import Path

import pytest
from fake_experiment import FakeExperiment

import vbagg
from vbagg.cli import main
from vbagg.experiments import EXPERIMENTS
from vbagg.experiments.runner import load_rows


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(EXPERIMENTS, "fake", "fake_experiment:FakeExperiment")
    monkeypatch.setitem(EXPERIMENTS, "broken", "no_such_module:Experiment")
    monkeypatch.setenv("COLUMNS", "120")


def one_line(capsys) -> str:
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("Error: ")
    assert captured.err.count("\n") == 1
    return captured.err


def test_the_package_runs_as_a_module():
    result = subprocess.run([sys.executable, "-m", "vbagg", "--version"], capture_output=True, text=True, check=True)
    assert result.stdout == f"vbagg {vbagg.__version__}\n"
    wrong = subprocess.run([sys.executable, "-m", "vbagg", "paint"], capture_output=True, text=True, check=False)
    assert wrong.returncode == 2
    assert wrong.stderr.startswith("Error: ")


def test_the_folder_of_a_run_must_not_be_a_file(tmp_path, capsys):
    (tmp_path / "out").write_text("a file")
    assert main(["prepare", "--out", str(tmp_path / "out")]) == 2
    assert "`out` must name a folder" in one_line(capsys)


def test_help_is_quick_and_lists_commands():
    script = (
        "import sys; from vbagg.cli import main; main(['--help']); main(['experiment', '--help']);"
        "print(sorted({'jax', 'pandas', 'matplotlib', 'scipy', 'numpy', 'sklearn'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "demo" in result.stdout
    assert "experiment" in result.stdout
    assert result.stdout.splitlines()[-1] == "[]"


def test_the_command_is_installed():
    command = Path(sys.executable).with_name("vbagg")
    result = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)
    assert result.stdout == f"vbagg {vbagg.__version__}\n"


def test_help_of_experiment_lists_options(capsys):
    assert main(["experiment", "--help"]) == 0
    text = capsys.readouterr().out
    options = "--list --out --quick --full --jobs --repetitions --methods --scale --bag-mean --bag-std --report-only"
    assert [option for option in options.split() if option not in text] == []


def test_list_names_and_titles(capsys, monkeypatch):
    monkeypatch.setattr("vbagg.cli.experiment.EXPERIMENTS", ["fake", "broken"])
    assert main(["experiment", "--list"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.split(maxsplit=1) == ["fake", "Nothing is fitted"]
    assert second.split(maxsplit=1) == ["broken", "(cannot be loaded: No module named 'no_such_module')"]


def test_experiment_runs_reports_and_goes_on(capsys):
    assert main(["experiment", "fake", "--quick", "--methods", "exact, rough"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "fake: 4 tasks"
    assert lines[1].startswith("[1/4] bags=10 repetition=0 method=exact: ")
    assert lines[-2:] == ["4 of 4 tasks are done", "wrote results/fake-quick/report.md"]
    assert main(["experiment", "fake", "--quick", "--repetitions", "2"]) == 0
    assert "fake: 4 of 12 done before" in capsys.readouterr().out
    assert len(load_rows("results/fake-quick")) == 12
    assert not Path("results/fake").exists()


def test_full_is_the_default():
    assert main(["experiment", "fake", "--jobs", "1"]) == 0
    assert len(load_rows("results/fake")) == 12


def test_options_reach_the_experiment():
    main(["experiment", "fake", "--quick", "--out", "plain"])
    main(["experiment", "fake", "--quick", "--out", "scaled", "--scale", "2.5", "--bag-mean", "30"])
    assert load_rows("scaled")["error"].tolist() == pytest.approx((2.5 * load_rows("plain")["error"]).tolist())
    assert '"bag_mean": 30.0' in Path("scaled/settings.json").read_text()


def test_failures_give_status_1_and_a_report(capsys, monkeypatch):
    monkeypatch.setattr(FakeExperiment, "fail", "method=rough")
    assert main(["experiment", "fake", "--quick", "--out", "out"]) == 1
    captured = capsys.readouterr()
    assert captured.err == "2 of 6 tasks failed: see out/errors.log\n"
    assert Path("out/report.md").read_text() == "4 rows\n"


def test_failure_of_all_tasks_writes_no_report(monkeypatch):
    monkeypatch.setattr(FakeExperiment, "fail", "method")
    assert main(["experiment", "fake", "--quick", "--out", "out"]) == 1
    assert not Path("out/report.md").exists()


def test_interrupt_keeps_rows_and_tells_how_to_go_on(capsys, monkeypatch):
    monkeypatch.setattr(FakeExperiment, "interrupt", "method=rough")
    assert main(["experiment", "fake", "--quick", "--out", "out"]) == 130
    assert capsys.readouterr().err.startswith("Stopped. 1 finished rows are in out; the same command")
    assert len(load_rows("out")) == 1


def test_report_only(capsys, monkeypatch):
    main(["experiment", "fake", "--out", "out"])
    Path("out/report.md").unlink()
    before = Path("out/settings.json").read_text()
    capsys.readouterr()
    monkeypatch.setattr(FakeExperiment, "run", lambda self, task, settings: 1 / 0)
    monkeypatch.setattr(FakeExperiment, "example", lambda self, settings, folder: 1 / 0)
    assert main(["experiment", "fake", "--out", "out", "--report-only", "--repetitions", "9"]) == 0
    assert capsys.readouterr().out == "wrote out/report.md\n"
    assert Path("out/settings.json").read_text() == before


def test_example_figures_are_written(capsys, monkeypatch):
    monkeypatch.setattr(FakeExperiment, "example", lambda self, settings, folder: [folder / "example.png"])
    assert main(["experiment", "fake", "--quick", "--out", "out"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "wrote out/example.png" in lines
    assert lines.index("wrote out/example.png") < max(i for i, line in enumerate(lines) if "report" in line)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Name an experiment: swiss-bags, "),
        (["swiss"], "'malaria', 'fake', 'broken'; got 'swiss'"),
        (["broken"], "No module named 'no_such_module'"),
        (["fake", "--jobs", "0"], "--jobs"),
        (["fake", "--repetitions", "many"], "--repetitions"),
        (["fake", "--scale", "-1"], "--scale must be a positive number; got -1.0"),
        (["fake", "--bag-std", "inf"], "--bag-std must be a positive number"),
        (["fake", "--bag-std", "3"], "'fake' has no option 'bag_std'"),
        (["fake", "--methods", "exact,best"], "got 'best'"),
        (["fake", "--methods", ","], "at least one method"),
        (["fake", "--out", "file/out"], "Cannot write to 'file/out': Not a directory"),
        (["fake", "--report-only"], "No finished tasks in 'results/fake'"),
        (["fake", "--nothing"], "No such option: --nothing"),
    ],
)
def test_wrong_input_is_one_line_and_status_2(capsys, arguments, message):
    Path("file").write_text("")
    assert main(["experiment", *arguments]) == 2
    assert message in one_line(capsys)
    assert os.listdir() == ["file"]


def test_a_folder_of_other_settings_is_refused(capsys):
    main(["experiment", "fake", "--quick", "--out", "out"])
    capsys.readouterr()
    assert main(["experiment", "fake", "--out", "out"]) == 2
    assert "quick = True; this run has quick = False. Choose another folder with --out." in one_line(capsys)


def test_unknown_command(capsys):
    assert main(["experience"]) == 2
    assert "experience" in one_line(capsys)


def test_demo_passes_its_options_on(monkeypatch, capsys):
    calls = []
    monkeypatch.setattr("vbagg.demo.demonstrate", lambda *arguments: calls.append(arguments))
    assert main(["demo", "roll", "--seed", "3", "--out", "there"]) == 0
    assert vbagg.demo.main(["--bags", "20", "--link", "exp", "--seed", "3", "--out", "there"]) == 0
    assert calls == [(150, "square", 3, Path("there")), (20, "exp", 3, Path("there"))]
    assert main(["demo", "rolls"]) == 2
    assert "rolls" in one_line(capsys)
    assert main(["demo", "--seed", "-1"]) == 2
    assert "--seed" in one_line(capsys)
