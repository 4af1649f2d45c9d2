from types import SimpleNamespace

import pytest

from vbagg.workflow import stages
from vbagg.workflow.folder import RunFolder
from vbagg.workflow.run import Run
from vbagg.workflow.settings import from_words


@pytest.mark.parametrize("response", ["cases/2019", "../../cases", ".."])
def test_finished_folds_are_kept_inside_the_folder_of_the_stage(tmp_path, monkeypatch, response):
    """A column may be called anything."""
    kept = []

    def validated(*arguments, keep, **options):
        kept.append(keep)
        return SimpleNamespace(notes=())

    prepared = SimpleNamespace(responses=(response,), exposure="population", bags=lambda: None, y=lambda name: None)
    monkeypatch.setattr(Run, "prepared", lambda run: prepared)
    monkeypatch.setattr("vbagg.validate.cross_validate", validated)
    monkeypatch.setattr(stages, "_folds", lambda *arguments: None)
    monkeypatch.setattr(stages, "write_validation", lambda *arguments: None)
    run = Run(from_words({"response": response}), RunFolder(tmp_path / "out"))
    stages.VALIDATION.work(run, tmp_path / "fresh")
    (folder,) = kept
    assert folder.resolve().parent == run.folder.kept("validation").resolve()
