"""Polygons and rasters are laid out on workers as they are in one process, whatever becomes of the workers."""

import os
import signal
import warnings
from types import SimpleNamespace

import pytest
from banded_country import prepared, write_data

from vbagg.cluster import local_cluster
from vbagg.doctor import check
from vbagg.errors import ClusterError
from vbagg.geo import layout, target, workers
from vbagg.workflow.job import carry_out_stages
from vbagg.workflow.settings import make_settings

pytest.importorskip("distributed", reason="needs Dask: pip install vbagg[cluster]")


@pytest.fixture
def data(tmp_path, rng, monkeypatch):
    monkeypatch.setattr(layout, "BAND_CELLS", 1)  # a row of tiles, five in all
    return write_data(tmp_path, rng)


def written(made):
    return made.table.read_bytes(), made.stack.path.read_bytes(), made.notes


def in_the_middle(act):
    """Progress that does something once, when some bands are there and others are not."""
    left = [act]

    def told(text, share=None):
        if "row 192" in text and left:
            left.pop()()

    return told


@pytest.mark.parametrize("missing", ["nearest", "drop", "median"])
def test_workers_write_the_same_bytes(client, data, tmp_path, missing):
    alone = prepared(data, tmp_path / "alone", missing=missing)
    assert written(prepared(data, tmp_path / "workers", missing=missing, client=client)) == written(alone)


def test_files_are_found_from_the_folder_of_this_process(client, data, tmp_path, monkeypatch):
    expected = written(prepared(data, tmp_path / "alone"))
    monkeypatch.chdir(tmp_path)
    near = {"population": data.population.name, "covariate": [path.name for path in data.covariate]}
    near["category"] = [path.name for path in data.category]
    assert written(prepared(data.model_copy(update=near), tmp_path / "near", client=client)) == expected


def test_a_check_finds_the_same(client, data):
    expected = check(data)
    assert expected.all
    assert check(data, client=client).to_json() == expected.to_json()


@pytest.mark.parametrize("cut", [-9000, 300])
def test_what_is_wrong_with_a_raster_is_told_alike(client, data, cut):
    rain = data.covariate[0]
    rain.write_bytes(rain.read_bytes()[:cut])
    expected = check(data)
    assert "rain.tif" in [finding.where for finding in expected.errors]
    assert check(data, client=client).to_json() == expected.to_json()


def test_a_killed_worker_changes_nothing(client, data, tmp_path):
    alone = prepared(data, tmp_path / "alone")
    killed = []

    def kill():
        killed.append(client.submit(os.getpid, pure=False).result())
        os.kill(killed[0], signal.SIGKILL)

    after = prepared(data, tmp_path / "workers", client=client, progress=in_the_middle(kill))
    assert len(killed) == 1
    assert killed[0] not in client.run(os.getpid).values()
    assert written(after) == written(alone)


@pytest.mark.filterwarnings("ignore:.*:vbagg.errors.DataWarning")  # of few polygons and gaps
def test_a_run_goes_on_after_a_lost_scheduler(data, tmp_path):
    settings = make_settings({"data": data.model_dump(), "validation": {"skip": True}}, "test")
    stages, out, skipped = ("check", "prepared"), tmp_path / "out", []
    quiet = SimpleNamespace(tell=lambda *told: None, step=None, begin=lambda name: None, end=skipped.append)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with local_cluster(2) as client:
            carry_out_stages(settings, out, stages[:1], False, quiet, client=client)
            lost = SimpleNamespace(**vars(quiet) | {"tell": in_the_middle(client.cluster.close)})
            with pytest.raises(ClusterError, match=r"scheduler was lost .* run the same command: what is finished is"):
                carry_out_stages(settings, out, stages, False, lost, client=client)
    assert sorted(path.name for path in out.iterdir()) == ["check", "run.log", "settings.toml"]
    run = carry_out_stages(settings, out, stages, False, quiet)
    assert skipped == [True, False, False, True]
    assert written(run.prepared())[:2] == written(prepared(data, tmp_path / "alone"))[:2]


def test_pixels_that_workers_can_hold_depend_on_their_memory(data, tmp_path, monkeypatch):
    monkeypatch.setattr(target, "MOST_PIXELS", 5000)
    some = workers.LIBRARIES + 3000.4 * workers.bytes_per_pixel(5)
    for memory, most in (([some, some], 6000), ([some, 1.0], 3000), ([some, 0.0], None), ([], None)):
        monkeypatch.setattr(workers, "_memory", lambda client, memory=memory: memory)
        assert workers.most_pixels("client", 5) == most
        assert most is None or workers.most_pixels("client", 50) < most
    assert workers.most_pixels(None, 5) is None
    monkeypatch.setattr(workers, "_memory", lambda client: [some, some])
    with pytest.raises(ValueError, match=r"at most 6,000 cells .* since the workers of a fit hold them all"):
        prepared(data, tmp_path / "out", client="client")
    assert "at most 6,000 cells" in str(check(data, client="client"))
