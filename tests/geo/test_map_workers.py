"""Maps and tables piece by piece: in one process, on workers, with faults, and after an interruption."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import geopandas as gpd
import numpy as np
import pandas as pd
import pytest
import rasterio
from shapely import box
from tiny_country import CHEAP, EAST, NORTH, SOUTH, WEST, fitted_model, prepared_country, write_files

from vbagg.cluster import local_cluster
from vbagg.errors import ClusterError
from vbagg.geo import Prepared, aggregate, answers, people_above, pieces, polygon_table, read_polygons, write_maps
from vbagg.workflow.job import carry_out_stages
from vbagg.workflow.progress import showing
from vbagg.workflow.settings import from_words

pytest.importorskip("distributed", reason="needs Dask: pip install vbagg[cluster]")
pytestmark = pytest.mark.filterwarnings("ignore")
MAP_SCRIPT = str(Path(__file__).parents[1] / "helpers" / "map_script.py")
OPTIONS = {"response": "cases", "quantiles": (0.5,), "threshold": 25.0, "match_totals": True}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The country in one piece."""
    own = prepared_country(tmp_path_factory.mktemp("country"))
    own.save(own.table.parent)
    return own


@pytest.fixture(scope="module")
def expected(whole, tmp_path_factory):
    return write_maps(fitted_model(), whole, tmp_path_factory.mktemp("maps"), progress=False, **OPTIONS)


@pytest.fixture
def cut(whole, monkeypatch):
    """The same in several pieces."""
    monkeypatch.setattr(pieces, "PIECE_ROWS", 24)
    found = Prepared.load(whole.table.parent)
    assert len(found.pieces.all) > 4
    return found


def assert_same(found, expected):
    assert list(found) == list(expected)
    for name, path in expected.items():
        with rasterio.open(found[name]) as one, rasterio.open(path) as other:
            np.testing.assert_allclose(one.read(1), other.read(1), rtol=1e-5, err_msg=name)
            assert one.tags() == other.tags()


def areas():
    """Parts of districts, with cells outside of all of them, and a place with no cells."""
    shapes = [box(WEST - 0.1, SOUTH, 30.61, NORTH), box(30.52, -1.7, EAST, -1.4), box(9, 9, 10, 10)]
    return read_polygons(gpd.GeoDataFrame({"area": [1, 2, 3]}, geometry=shapes, crs=4326), "area")


def test_pieces_change_nothing(cut, whole, expected, tmp_path):
    assert_same(write_maps(fitted_model(), cut, tmp_path, progress=False, **OPTIONS), expected)
    for table in (
        lambda own: polygon_table(fitted_model(), own, "cases", level=0.8),
        lambda own: aggregate(fitted_model(), own, areas(), level=0.8),
    ):
        one, many = (pd.DataFrame(table(own)).drop(columns="geometry") for own in (whole, cut))
        pd.testing.assert_frame_equal(many, one, rtol=1e-6)
    assert np.isfinite(many["total_sd"]).sum() == 2


def test_workers_and_a_killed_one_give_the_same(client, cut, expected, tmp_path):
    killed = []

    def kill(entry):
        if "pieces" in entry and not killed:
            assert entry["pieces"] < entry["of"]
            killed.append(next(iter(client.run(os.getpid).values())))
            os.kill(killed[0], signal.SIGKILL)

    assert_same(write_maps(fitted_model(), cut, tmp_path / "maps", client=client, progress=kill, **OPTIONS), expected)
    assert len(killed) == 1


@pytest.mark.slow
def test_tables_of_workers_are_those_of_one_process(client, cut, whole):
    for table in (polygon_table, aggregate):
        more = ("cases",) if table is polygon_table else (areas(),)
        one, many = table(fitted_model(), whole, *more), table(fitted_model(), cut, *more, client=client)
        pd.testing.assert_frame_equal(*(pd.DataFrame(own).drop(columns="geometry") for own in (many, one)), rtol=1e-6)


@pytest.mark.slow
def test_people_above_thresholds_are_those_of_one_process(client, cut, tmp_path):
    asked = {"thresholds": [8.0, 15.5, 31.0], "per": 500.0}
    here = people_above(fitted_model(), cut, "cases", **asked)
    pd.testing.assert_frame_equal(
        people_above(fitted_model(), cut, "cases", keep=tmp_path, client=client, **asked), here, rtol=1e-5
    )


def test_after_the_scheduler_is_gone_finished_pieces_count(client, cut, expected, tmp_path):
    kept, told = tmp_path / "kept", []
    with pytest.raises(ClusterError, match="The connection to the scheduler was lost"):
        write_maps(
            fitted_model(),
            cut,
            tmp_path / "maps",
            client=client,
            keep=kept,
            progress=lambda entry: client.cluster.close(),
            **OPTIONS,
        )
    assert not list((tmp_path / "maps").glob("*"))
    again = write_maps(fitted_model(), cut, tmp_path / "maps", keep=kept, progress=told.append, **OPTIONS)
    assert_same(again, expected)
    assert told[0]["kept"]
    assert told[0]["pieces"] >= 1


@pytest.mark.slow
def test_twenty_killed_workers_change_no_map(cut, expected, tmp_path):
    rng, killed, run = np.random.default_rng(5), list[int](), 0

    def kill(entry):
        workers = list(client.run(os.getpid, on_error="ignore").values())
        if len(killed) < 20 and len(workers) == 2 and rng.random() < 0.6:
            killed.append(int(rng.choice(workers)))
            os.kill(killed[-1], signal.SIGKILL)

    while len(killed) < 20 and run < 20:
        # new workers: Dask does not replace one that dies while it starts
        with local_cluster(2) as client:
            maps = write_maps(fitted_model(), cut, tmp_path / str(run), client=client, progress=kill, **OPTIONS)
        assert_same(maps, expected)
        run += 1
    assert len(killed) == 20


@pytest.fixture
def settings(tmp_path):
    """Of a run of the country, with areas."""
    files = write_files(tmp_path)
    options = {"polygons": files["districts"], "id": "name", "response": "cases", "population": files["population"]}
    options |= {"covariate": [files["height"]], "population_is": "counts", "to": [tmp_path / "areas.gpkg"], **CHEAP}
    areas().frame.to_file(tmp_path / "areas.gpkg")
    return from_words(options, None)


def carried_out(settings, folder, *stages):
    with showing(False) as shown:
        return carry_out_stages(settings, folder, stages, False, shown)


def assert_same_run(found, expected):
    assert_same(*({path.name: path for path in own.map_files()} for own in (found, expected)))
    for name in ("polygons", "areas"):
        tables = (own.to_geopandas(name=name).drop(columns="geometry") for own in (found, expected))
        pd.testing.assert_frame_equal(*tables, rtol=1e-6, atol=1e-7)


def test_a_run_that_is_interrupted_goes_on_from_finished_pieces(settings, tmp_path, monkeypatch):
    monkeypatch.setattr(pieces, "PIECE_ROWS", 24)
    carry_out, done = answers._Task.carry_out, []

    def interrupted(task, item):
        if len(done) == limit:
            raise KeyboardInterrupt
        done.append(item)
        return carry_out(task, item)

    monkeypatch.setattr(answers._Task, "carry_out", interrupted)
    one, limit = tmp_path / "one", 3
    carried_out(settings, one, "prepared", "models")
    with pytest.raises(KeyboardInterrupt):
        carried_out(settings, one, "maps")
    assert not (one / "maps").exists()
    n, limit = len(Prepared.load(one / "prepared").pieces.all), -1
    done.clear()
    finished = carried_out(settings, one, "maps")
    # all questions about a piece are asked together; a last piece has what lies outside of the districts
    assert len(done) == n - 3 + 1
    assert not finished.folder.kept("maps").exists()
    monkeypatch.setattr(pieces, "PIECE_ROWS", 1000)
    assert_same_run(finished, carried_out(settings, tmp_path / "two", "prepared", "models", "maps"))


def test_a_process_that_is_killed_leaves_its_finished_pieces(settings, tmp_path, monkeypatch):
    """Killed outright, so that nothing can be put in order."""
    one, two = tmp_path / "one", tmp_path / "two"
    expected = carried_out(settings, two, "prepared", "models", "maps")
    carried_out(settings, one, "prepared", "models")

    def mapped(limit):
        words = [sys.executable, MAP_SCRIPT, str(one), "24", str(limit)]
        return subprocess.run(words, capture_output=True, text=True)

    killed = mapped(4)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert not (one / "maps").exists()
    again = mapped(0)
    assert again.returncode == 0, again.stderr
    assert_same_run(carried_out(settings, one, "maps"), expected)
    monkeypatch.setattr(pieces, "PIECE_ROWS", 24)
    assert int(again.stdout) == len(Prepared.load(one / "prepared").pieces.all) - 4 + 1
