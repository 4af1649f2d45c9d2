"""When results of a stage can be used: those of stages that write one line."""

import json

import pytest

from vbagg.workflow.folder import DONE, RunFolder
from vbagg.workflow.run import Run, Stage, carry_out, outdated, require
from vbagg.workflow.settings import make_settings


def writes(name, read):
    def work(run, into):
        (into / "result.txt").write_text(f"{name} {read(run.settings)}")

    return work


MODELS = Stage("models", "fit", writes("rates", lambda settings: settings.model.likelihood))
MAPS = Stage("maps", "predict", writes("maps", lambda settings: settings.maps.per), (MODELS,))
REPORT = Stage("report", "report", writes("page", lambda settings: settings.report.title), (MAPS,))


@pytest.fixture
def finished(tmp_path):
    """All three, and the run in the same folder with other settings."""

    def run(**sections):
        return Run(make_settings(sections, "test"), RunFolder(tmp_path))

    for stage in (MODELS, MAPS, REPORT):
        assert carry_out(run(), stage)
    return run


def test_settings_of_the_stages_before_count(finished):
    """Maps say nothing of the likelihood, but those of another one are other maps."""
    other = finished(model={"likelihood": "poisson"})
    reason = 'models: model.likelihood was "negative_binomial" and is "poisson" now'
    assert outdated(other, MAPS) == reason
    assert outdated(other, REPORT) == f"maps: {reason}"
    with pytest.raises(ValueError, match=f"has no maps that can be used: {reason}"):
        require(other, REPORT)
    assert all(outdated(finished(), stage) is None for stage in (MODELS, MAPS, REPORT))


def test_settings_of_stages_that_do_not_come_before_do_not_count(finished):
    other = finished(report={"title": "Malaria"})
    assert [outdated(other, stage) is None for stage in (MODELS, MAPS, REPORT)] == [True, True, False]


def test_a_stage_that_is_made_again_makes_those_after_it_old(finished):
    carry_out(finished(model={"likelihood": "poisson"}), MODELS)
    carry_out(finished(), MODELS)
    # the same results as before, byte by byte
    assert outdated(finished(), MAPS) is None
    carry_out(finished(model={"likelihood": "poisson"}), MODELS)
    assert outdated(finished(model={"likelihood": "poisson"}), MAPS) == "models changed after it"


def test_damage_of_the_stages_before_counts(finished):
    (finished().folder["models"] / "result.txt").write_text("rates")
    assert outdated(finished(), REPORT) == "maps: models: result.txt has 5 bytes instead of 23"


def test_results_of_another_version_are_not_used(finished, monkeypatch):
    assert json.loads((finished().folder["maps"] / DONE).read_text())["version"]
    monkeypatch.setattr("vbagg.__version__", "99.1")
    assert "and this is 99.1" in outdated(finished(), MAPS)
