"""Polygons and rasters are laid out once, in bands, in memory that does not grow with them."""

import re
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from affine import Affine
from banded_country import prepared, write_data
from geofiles import districts, write_polygons, write_raster
from shapely import box

from vbagg import geo
from vbagg.doctor import check, cost, examine
from vbagg.geo import layout, records, target
from vbagg.geo.bands import Band
from vbagg.geo.overlay import Overlay
from vbagg.workflow.job import carry_out_stages
from vbagg.workflow.progress import showing
from vbagg.workflow.settings import Data, Model, make_settings


@pytest.fixture
def data(tmp_path, rng):
    return write_data(tmp_path, rng)


@pytest.mark.parametrize("missing", ["nearest", "drop", "median"])
def test_bands_of_any_size_give_the_same(data, tmp_path, monkeypatch, missing):
    whole = prepared(data, tmp_path / "whole", missing=missing), check(data.model_copy(update={"missing": missing}))
    monkeypatch.setattr(layout, "BAND_CELLS", 1)  # a row of tiles
    bands = prepared(data, tmp_path / "bands", missing=missing), check(data.model_copy(update={"missing": missing}))
    np.testing.assert_array_equal(bands[0].stack.read(), whole[0].stack.read())
    pd.testing.assert_frame_equal(bands[0].pixels, whole[0].pixels, check_exact=True)
    assert bands[0].notes == whole[0].notes
    assert [finding.text for finding in bands[1].all] == [finding.text for finding in whole[1].all]
    assert bands[1].facts["exposure"] == pytest.approx(whole[1].facts["exposure"])


def test_pixels_are_the_overlay_of_polygons(data, tmp_path):
    made = prepared(data, tmp_path / "out")
    pairs = geo.overlay(made.polygons, made.stack.grid)
    assert made.pixels["cell"].tolist() == pairs["cell"].tolist()
    assert made.pixels["polygon"].tolist() == made.polygons.labels[pairs["polygon"]].tolist()
    np.testing.assert_array_equal(made.pixels["coverage"], pairs["coverage"])


def test_what_the_check_has_laid_out_is_not_made_again(data, tmp_path, monkeypatch):
    alone = prepared(data, tmp_path / "alone")
    (tmp_path / "shared").mkdir()
    findings, laid = examine(data, folder=tmp_path / "shared")
    assert not findings.errors
    for file in (data.polygons, data.population, *data.covariate, *data.category):
        file.unlink()
    monkeypatch.setattr(Overlay, "pairs", None)
    after = prepared(data, tmp_path / "after", layout=laid)
    pd.testing.assert_frame_equal(after.pixels, alone.pixels, check_exact=True)
    np.testing.assert_array_equal(after.stack.read(), alone.stack.read())
    assert after.notes == alone.notes


@pytest.mark.filterwarnings("ignore:.*:vbagg.errors.DataWarning")  # of few polygons and gaps
def test_a_run_lays_out_once_and_leaves_only_its_stages(data, tmp_path, monkeypatch):
    calls = []
    made = Overlay.pairs
    monkeypatch.setattr(Overlay, "pairs", lambda self, *rows: (calls.append(rows), made(self, *rows))[1])
    settings, out = make_settings({"data": data.model_dump(), "validation": {"skip": True}}, "test"), tmp_path / "out"
    with showing(False) as shown:
        run = carry_out_stages(settings, out, ("check", "prepared"), False, shown)
        once = len(calls)
        assert sorted(path.name for path in out.iterdir()) == ["check", "prepared", "run.log", "settings.toml"]
        assert sorted(path.name for path in (out / "prepared").iterdir()) == [
            "pixels.parquet", "polygons.gpkg", "prepared.json", "stack.tif", "stage.json"
        ]  # fmt: skip
        alone = carry_out_stages(settings, tmp_path / "alone", ("prepared",), False, shown)
    assert len(calls) == 2 * once
    pd.testing.assert_frame_equal(run.prepared().pixels, alone.prepared().pixels, check_exact=True)
    assert run.prepared().notes == alone.prepared().notes


def test_a_disk_without_room_is_refused(data, tmp_path, monkeypatch):
    monkeypatch.setattr(layout.shutil, "disk_usage", lambda folder: SimpleNamespace(free=1000))
    with pytest.raises(ValueError, match=r"must have 0\.0 GB to spare .* Make room, or use a larger `--resolution`"):
        prepared(data, tmp_path / "out")
    assert [finding.code for finding in check(data).errors] == ["layout"]


def test_a_raster_that_cannot_be_read_to_its_end_is_an_error_of_its_own(data):
    rain = data.covariate[0]
    rain.write_bytes(rain.read_bytes()[:-9000])
    findings = check(data)
    assert [(finding.code, finding.where) for finding in findings.errors] == [("covariate-file", "rain.tif")]
    assert [raster["name"] for raster in findings.facts["rasters"]] == ["people", "warm", "land"]
    assert findings.facts["exposure"]["total"] > 0


def test_more_pixels_than_a_fit_can_hold_are_refused_before_any_raster_is_read(data, tmp_path, monkeypatch):
    grid = geo.open_layers(data.population)[0].grid
    pixels = geo.overlay(geo.read_polygons(data.polygons), grid)["coverage"].sum()
    monkeypatch.setattr(target, "MOST_PIXELS", 5000)
    monkeypatch.setattr(target, "ENOUGH_PIXELS", 300)
    monkeypatch.setattr(Band, "read", None)
    advice = r"about (\S+) cells of 0\.05 x 0\.04 do\. Use larger ones: `--resolution (\S+)` .* about (\d+)\.$"
    findings = check(data)
    assert [finding.code for finding in findings.errors] == ["too-large"]
    with pytest.raises(ValueError, match=advice) as refused:
        prepared(data, tmp_path / "out")
    assert findings.errors[0].text == str(refused.value)
    assert not (tmp_path / "out").exists()
    told, resolution, fewer = (float(part.replace(",", "")) for part in re.search(advice, str(refused.value)).groups())
    assert told == pytest.approx(pixels, rel=1e-3)
    assert 250 < fewer <= 300
    assert fewer == pytest.approx(pixels * 0.05 * 0.04 / resolution**2, rel=0.01)


def test_a_job_that_is_large_for_the_machine_is_warned_of(data, monkeypatch):
    monkeypatch.setattr(cost, "machine_memory", lambda: 0.6e9)
    monkeypatch.setattr(cost, "SLOW_READING", 0.0)
    said = []
    findings = check(data, Model(), announce=said.append)
    assert ("warning", "large") in [(finding.level, finding.code) for finding in findings.all]
    assert re.search(r"this machine has 0\.6 GB\. `--resolution \S+` \(in the units of EPSG:4326\)", str(findings))
    assert len(said) == 1
    assert re.match(r"4 rasters and about \S+ pixels take about 0 s and 0\.9 GB of memory to read", said[0])


def test_memory_does_not_grow_with_pixels(tmp_path, monkeypatch):
    """Rasters of 1.4 million cells that are small on disk: a list of all pixels alone would break the limit."""
    side, transform = 1200, Affine(0.01, 0, 20, 0, -0.01, 10)
    plane = np.add.outer(np.arange(side) // 50, np.arange(side) // 70).astype(np.uint8)
    plane[300:340, 500:580] = 255
    shapes = [box(20.2 + 5 * k, -1.9, 25.2 + 5 * k, 9.9) for k in range(2)]
    data = Data(
        polygons=write_polygons(tmp_path / "districts.gpkg", districts(shapes)),
        id="name",
        response=("cases",),
        population=write_raster(tmp_path / "people_count.tif", plane, transform, nodata=255),
        covariate=(write_raster(tmp_path / "height.tif", plane[::-1], transform, nodata=255),),
    )
    monkeypatch.setattr(layout, "BAND_CELLS", 1)
    monkeypatch.setattr(records, "AT_ONCE", 1 << 17)
    tracemalloc.start()
    try:
        (tmp_path / "shared").mkdir()
        findings, laid = examine(data, Model(), folder=tmp_path / "shared")
        made = prepared(data, tmp_path / "out", layout=laid)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert findings.facts["pixels"]["number"] == 2 * 500 * 1180
    assert pq.ParquetFile(made.table).metadata.num_rows == 2 * 500 * 1180
    assert peak < 70e6
