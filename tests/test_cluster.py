"""Fits on the workers of a Dask cluster."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import vbagg
from vbagg import chunks, cluster
from vbagg.cli import main
from vbagg.errors import ClusterError
from vbagg.geo import workers
from vbagg.geo.country_files import write_country
from vbagg.models.glm import BagGLM
from vbagg.validate import cross_validate, recovery
from vbagg.workflow.job import carry_out_stages
from vbagg.workflow.progress import showing
from vbagg.workflow.settings import from_words

distributed = pytest.importorskip("distributed", reason="needs Dask: pip install vbagg[cluster]")
SCRIPT = Path(__file__).parent / "helpers" / "cluster_script.py"
ONE_THREAD = dict.fromkeys(("PJRT_NPROC", "NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


def differences(kills: int) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(kills)], env=os.environ | ONE_THREAD, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_workers_find_what_one_process_finds():
    """From memory, from files, and with a worker killed on the way."""
    found = differences(kills=1)
    assert found.pop("kills") == 1
    assert len(found) == 3
    assert max(found.values()) < 1e-9


@pytest.mark.slow
def test_twenty_killed_workers_change_nothing():
    found = differences(kills=20)
    assert found.pop("kills") == 20
    assert max(found.values()) < 1e-9


@pytest.fixture
def data(monkeypatch):
    monkeypatch.setattr(chunks, "BLOCK", 60)
    return vbagg.datasets.swiss_roll(n_bags=12, mean_size=20, std_size=6, seed=1)


def model(**options):
    return vbagg.VBAgg("poisson", kernel=vbagg.kernels.RBF(), landmarks=8, hyper="point", **options)


@pytest.mark.filterwarnings("ignore")
class TestClient:
    def test_workers_have_their_share_of_the_processors(self, client):
        threads = client.run(lambda: (os.environ["PJRT_NPROC"], os.environ["OMP_NUM_THREADS"]))
        assert len(threads) == 2
        share = str(max(1, len(os.sched_getaffinity(0)) // 2))
        assert set(threads.values()) == {(share, share)}

    def test_data_that_workers_hold_are_not_in_this_process(self, client, data):
        fitted = model().fit(data.bags, data.y, client=client)
        assert fitted.posterior(data.bags).mean.shape == (data.bags.n_individuals,)
        with pytest.raises(AttributeError, match="elbo_mc_ needs the training data in this process"):
            fitted.elbo_mc_  # noqa: B018

    def test_bags_without_an_output_are_not_sent(self, client, data, tmp_path):
        y, frame = data.y.copy(), pd.DataFrame(data.bags.X, columns=data.bags.feature_names)
        y[[0, 3, 4, 11]] = np.nan
        frame = frame.assign(bag=data.bags.labels[data.bags.bag], weight=data.bags.weight)
        frame.to_parquet(tmp_path / "rows.parquet", index=False)
        stored = vbagg.Bags.from_parquet(tmp_path / "rows.parquet")
        seen = np.isfinite(y)
        here = model().fit(data.bags[seen], y[seen]).elbo_
        for bags in (data.bags, stored):
            fitted = model().fit(bags, y, client=client)
            assert fitted.elbo_ == pytest.approx(here, rel=1e-9)
            assert fitted.status_.notes[0].startswith("4 of 12 bags have no output")

    def test_little_data_stay_here(self, client, data, monkeypatch):
        monkeypatch.setattr(chunks, "BLOCK", 10_000)
        fitted = model().fit(data.bags, data.y, client=client)
        assert fitted.elbo_ == model().fit(data.bags, data.y).elbo_
        assert np.isfinite(fitted.elbo_mc_)

    def test_adam_needs_one_process(self, client, data):
        with pytest.raises(ValueError, match="inference 'adam' needs all individuals in one process; 'newton' works"):
            model(inference="adam").fit(data.bags, data.y, client=client)

    def test_errors_on_workers_are_those_of_one_process(self, client, data):
        flat = data.bags.with_arrays(X=np.column_stack([data.bags.X[:, :2], np.ones(data.bags.n_individuals)]))
        with pytest.raises(ValueError, match="Every column must vary; column 'column 2' is constant"):
            model().fit(flat, data.y, client=client)

    def test_other_versions_are_named_before_work_starts(self, client, data, monkeypatch):
        own = cluster._versions()
        monkeypatch.setattr(cluster, "_versions", lambda more: own | {"jax": "0.0.1"})
        monkeypatch.setattr(
            client, "run", lambda function, more: {"tcp://there": own, "tcp://other": own | {"jax": "9"}}
        )
        with pytest.raises(ClusterError, match=r"tcp://there has jax .* instead of 0\.0\.1\. Install the same"):
            model().fit(data.bags, data.y, client=client)

    def test_folds_are_validated_by_workers(self, client, data, tmp_path):
        models = {"constant": vbagg.Constant("poisson")}
        told = []
        arguments = (models, data.bags, data.y, np.arange(12) % 3)
        found = cross_validate(*arguments, baselines=None, keep=tmp_path, client=client, progress=told.append)
        expected = cross_validate(*arguments, baselines=None)
        pd.testing.assert_frame_equal(found.table, expected.table, check_exact=True)
        assert sorted(entry["finished"] for entry in told) == [0, 1, 2]
        assert [entry["done"] for entry in told] == [1, 2, 3]
        told.clear()
        again = cross_validate(*arguments, baselines=None, keep=tmp_path, client=client, progress=told.append)
        assert all(entry["kept"] for entry in told)
        pd.testing.assert_frame_equal(again.table, expected.table, check_exact=True, check_dtype=False)

    def test_refits_are_made_by_workers(self, client, data, tmp_path):
        fitted, told = model().fit(data.bags, data.y), []
        options = {"refits": 2, "keep": tmp_path}
        found = recovery(fitted, data.bags, data.y, client=client, progress=told.append, **options)
        expected = recovery(fitted, data.bags, data.y, refits=2, progress=False)
        assert not found.failures
        pd.testing.assert_frame_equal(found.table(), expected.table(), rtol=1e-4)
        assert sorted(entry["finished"] for entry in told) == [1, 2]
        told.clear()
        recovery(fitted, data.bags, data.y, client=client, progress=told.append, **options)
        assert all(entry["kept"] for entry in told)

    @pytest.mark.slow
    def test_folds_of_bags_in_files_are_fitted_by_all_workers(self, client, data, tmp_path):
        frame = pd.DataFrame(data.bags.X[:, :3], columns=["x", "y", "rain"])
        frame["weight"] = data.bags.weight * np.linspace(0.5, 2, len(frame))
        frame["bag"] = data.bags.labels[data.bags.bag]
        frame.to_parquet(tmp_path / "rows.parquet", index=False, row_group_size=70)
        here = vbagg.Bags(frame[["x", "y", "rain"]], frame["bag"], frame["weight"])
        models = {"vbagg": model(), "constant": vbagg.Constant("poisson"), "glm": BagGLM("poisson")}
        folds, options = np.arange(12) % 3, {"baselines": None}
        expected = cross_validate(models, here, data.y, folds, **options).table
        stored = vbagg.Bags.from_parquet(tmp_path / "rows.parquet")
        found = cross_validate(models, stored, data.y, folds, client=client, **options)
        assert not found.failures
        pd.testing.assert_frame_equal(found.table, expected, rtol=1e-4)
        told = []

        def kept(bags):
            told.clear()
            keep = {"keep": tmp_path / "kept", "progress": told.append}
            cross_validate(models["constant"], bags, data.y, folds, client=client, **keep, **options)
            return [entry.get("kept") for entry in told if "finished" in entry]

        assert kept(stored) == 3 * [None]
        assert kept(stored) == 3 * [True]
        mean = frame.assign(rain=frame["rain"] * frame["weight"]).groupby("bag")[["rain", "weight"]].transform("sum")
        # other individuals with the same means of bags
        frame["rain"] = 2 * mean["rain"] / mean["weight"] - frame["rain"]
        frame.to_parquet(tmp_path / "other.parquet", index=False)
        assert kept(vbagg.Bags.from_parquet(tmp_path / "other.parquet")) == 3 * [None]
        with pytest.raises(ValueError, match="validated by workers, without `offset`: give a `client`"):
            cross_validate(models, stored, data.y, folds, **options)

    @pytest.mark.slow
    def test_a_run_on_workers_is_that_of_one_process(self, client, tmp_path, monkeypatch):
        country = write_country(tmp_path / "country", scale=0.002, n_districts=24, n_health_areas=5)
        options = {"polygons": country.districts, "id": "id", "response": "cases", "population": country.population}
        options |= {"covariate": country.covariates["rainfall"], "landmarks": 8, "folds": 2, "hyper": "point"}
        settings, stages = from_words(options, None), ("check", "prepared", "models", "validation")
        monkeypatch.setattr(chunks, "BLOCK", 400)
        # as if no worker could hold all pixels
        monkeypatch.setattr(workers, "holds_all", lambda client, table: False)
        with showing(False) as shown:
            one, many = (
                carry_out_stages(settings, tmp_path / str(number), stages, False, shown, client=own)
                for number, own in enumerate((None, client))
            )
        assert len(many.prepared().bags().X) > 800
        assert many.model().elbo_ == pytest.approx(one.model().elbo_, rel=1e-6)
        assert many.model()._training is None
        scores = [run.validation().scores().loc["vbagg"].astype(float) for run in (one, many)]
        pd.testing.assert_series_equal(*scores, rtol=1e-2)

    def test_anything_but_a_client_is_refused(self, data):
        with pytest.raises(TypeError, match=r"`client` must be a distributed\.Client .*; got str"):
            model().fit(data.bags, data.y, client="tcp://somewhere:8786")

    def test_a_lost_scheduler_is_named(self, data):
        with cluster.local_cluster(2) as own:
            lost = r"The connection to the scheduler was lost .* Start the cluster again"
            with pytest.raises(ClusterError, match=lost):
                model().fit(data.bags, data.y, client=own, progress=lambda entry: own.cluster.close())
        with pytest.raises(ClusterError, match="`client` must be connected to a scheduler"):
            model().fit(data.bags, data.y, client=own)


def test_what_needs_dask_says_so(monkeypatch, data):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(
        ImportError, match=r"`client` needs Dask, which is not installed: `pip install vbagg\[cluster\]`"
    ):
        model().fit(data.bags, data.y, client=SimpleNamespace())


def test_the_command_line_says_what_is_wrong_with_a_cluster(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(cluster, "SECONDS_TO_ANSWER", 0.5)
    out = ["--out", str(tmp_path / "out")]
    assert main(["fit", *out, "--workers", "2", "--cluster", "tcp://127.0.0.1:9"]) == 2
    assert "--workers starts workers of its own, --cluster uses those of others" in capsys.readouterr().err
    assert main(["fit", *out, "--cluster", "tcp://127.0.0.1:9"]) == 2
    assert "No Dask scheduler answers at 'tcp://127.0.0.1:9'" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert main(["fit", *out, "--workers", "2"]) == 2
    assert "A cluster on this machine needs Dask, which is not installed" in capsys.readouterr().err


def test_runs_of_blocks_are_divided_evenly():
    workers = cluster.OnWorkers(SimpleNamespace(scheduler_info=lambda n_workers: {"workers": range(3)}), ())
    block = np.array([0, 0, 1, 1, 1, 2, 3, 3, 4])
    assert workers.spans(block) == [(0, 5), (5, 8), (8, 9)]
    assert workers.spans(np.zeros(4, int)) == [(0, 4)]
