import errno

from vbagg.cli import main
from vbagg.experiments import EXPERIMENTS


def test_a_full_disk_is_told_in_one_line(tmp_path, monkeypatch, capsys):
    def full(store, outcome):
        raise OSError(errno.ENOSPC, "No space left on device", str(tmp_path / "fake" / "repetitions.csv"))

    monkeypatch.setitem(EXPERIMENTS, "fake", "fake_experiment:FakeExperiment")
    monkeypatch.setattr("vbagg.experiments.store.Store.add", full)
    assert main(["experiment", "fake", "--out", str(tmp_path / "fake")]) == 2
    error = capsys.readouterr().err
    assert f"The disk is full: there was no room in {tmp_path / 'fake'} while writing the results of fake" in error
    assert "(repetitions.csv)" in error
