"""Recovery in the validate stage: what it writes, when it is left out, and that it goes on where it was."""

import numpy as np
import pandas as pd
import pytest
from tiny_country import CHEAP, write_files

from vbagg.validate import refits
from vbagg.workflow import stages
from vbagg.workflow.job import carry_out_stages
from vbagg.workflow.progress import showing
from vbagg.workflow.run import Run
from vbagg.workflow.settings import combine, from_words

pytestmark = pytest.mark.filterwarnings("ignore::vbagg.errors.DataWarning", "ignore::vbagg.errors.ConvergenceWarning")


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    files = write_files(tmp_path_factory.mktemp("files"))
    words = {"polygons": files["districts"], "id": "name", "response": "cases", "population": files["population"]}
    words |= {"population_is": "counts", "covariate": [files["height"]], "likelihood": "poisson", "seed": 3}
    return from_words({**words, **CHEAP, "recovery": 2})


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    return tmp_path_factory.mktemp("run") / "out"


def carried_out(settings, out, *names):
    with showing(False) as shown:
        return carry_out_stages(settings, out, names, False, shown)


def log(run: Run) -> str:
    return (run.folder.path / "run.log").read_text()


def test_it_needs_a_model_and_comes_with_it(settings, out):
    alone = carried_out(settings, out, "prepared", "validation")
    assert alone.validation() is not None
    assert alone.recovery() is None
    why_not = "the fitted model cannot be used: there is none yet. `vbagg fit` makes it"
    assert f"recovery left out, since {why_not}" in log(alone)
    run = carried_out(settings, out, "models", "validation")
    assert "validation: begins, since models changed after it" in log(run)
    found = run.recovery()
    assert not found.failures
    assert [refit.number for refit in found.refits] == [1, 2]
    assert found.per == 1000
    prepared = run.prepared()
    expected = refits.recovery(
        run.model(), prepared.bags(), prepared.y("cases"), refits=2, seed=3, per=1000, progress=False
    )
    pd.testing.assert_frame_equal(found.table(), expected.table(), rtol=1e-4)
    table = pd.read_csv(run.folder["validation"] / "cases" / "recovery.csv")
    np.testing.assert_allclose(table["r2_within"], expected.by_bag()["r2_within"], rtol=1e-3)
    for sentence in found.sentences("polygons", "cells"):
        assert f"validation: cases: {sentence}" in log(run)


def test_finished_refits_are_taken_after_an_interruption(settings, out, monkeypatch):
    refit = refits.Task.refit

    def stopped(task, number):
        if number == 2:
            raise KeyboardInterrupt
        return refit(task, number)

    other = combine(settings, {"model": {"seed": 4}}, "test")
    monkeypatch.setattr(refits.Task, "refit", stopped)
    with pytest.raises(KeyboardInterrupt):
        carried_out(other, out, "models", "validation")
    monkeypatch.undo()
    run = carried_out(other, out, "validation")
    assert "cases: fold 1, was finished before" in log(run)
    assert "cases: refit 1, was finished before" in log(run)
    assert len(run.recovery().refits) == 2
    assert not run.folder.kept("validation").exists()


def test_none_is_made_where_none_is_wanted_or_no_process_holds_the_pixels(settings, out):
    wanted = carried_out(settings, out, "models")
    none = Run(combine(settings, {"validation": {"recovery": 0}}, "test"), wanted.folder)
    assert not stages._may_recover(none, True)
    assert stages._may_recover(wanted, True)
    assert not stages._may_recover(wanted, False)
    assert "recovery left out, since no process can hold all pixels" in log(wanted)


def test_files_of_others_are_refused(settings, out):
    run = Run(settings, carried_out(settings, out, "models", "validation").folder)
    path = run.folder["validation"] / "cases" / "recovery.json"
    whole = path.read_text()
    for text in ("[]", whole.replace('"weight": [', '"weight": ["much", ', 1), whole.replace('"of_means"', '"other"')):
        path.write_text(text)
        with pytest.raises(ValueError, match=r"recovery\.json cannot be read as what `vbagg validate` wrote"):
            run.recovery()
