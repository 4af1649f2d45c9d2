"""What stages do beside what `test_workflow.py` sees of a whole run."""

from types import SimpleNamespace

import pandas as pd
import pytest

from vbagg.validate import FoldResult, Validation
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
        return Validation((FoldResult("1", ("vbagg",), "poisson", 3, pd.DataFrame()),))

    nothing = {name: lambda *arguments: None for name in ("bags", "y", "upper")}
    prepared = SimpleNamespace(responses=(response,), exposure="population", points=None, reporting=dict, **nothing)
    monkeypatch.setattr(Run, "prepared", lambda run: prepared)
    monkeypatch.setattr("vbagg.validate.cross_validate", validated)
    monkeypatch.setattr(stages, "_folds", lambda *arguments: None)
    monkeypatch.setattr(stages, "write_validation", lambda *arguments: None)
    run = Run(from_words({"response": response, "recovery": 0, "nested": "none"}), RunFolder(tmp_path / "out"))
    stages.VALIDATION.work(run, tmp_path / "fresh")
    (folder,) = kept
    assert folder.resolve().parent == run.folder.kept("validation").resolve()


def test_each_finished_fold_is_told(tmp_path):
    """As a part that takes long by itself, which is shown without a terminal too, and in the log."""
    steps, shares = [], []
    folder = RunFolder(tmp_path / "out")
    run = Run(from_words({}), folder, lambda text, share=None: shares.append(share), step=steps.append)
    told = stages._by_fold(run, "cases", 0.8)
    told({"fold": 1, "model": "vbagg", "done": 0, "of": 6})
    told({"finished": 1, "done": 3, "of": 6, "seconds": 12.04})
    told({"fold": 2, "model": "vbagg", "done": 3, "of": 6})
    told({"finished": 2, "done": 6, "of": 6, "kept": True})
    assert steps == ["cases: fold 1, 12.0 s", "cases: fold 2, was finished before"]
    assert shares == pytest.approx([0.0, 0.4])
    assert "validation: cases: fold 1, 12.0 s" in (folder.path / "run.log").read_text()
