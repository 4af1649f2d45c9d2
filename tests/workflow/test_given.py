"""GeoDataFrames and DataArrays in the place of files: the same results, known by their content."""

import json
import os
import shutil
from pathlib import Path

import geopandas as gpd
import numpy as np
import pandas as pd
import pytest
import rasterio
import rioxarray
import xarray
from tiny_country import CHEAP, TRANSFORM, frame, write_files

from vbagg import geo
from vbagg.geo.polygons import read_polygons
from vbagg.geo.rasters import open_layers
from vbagg.workflow.folder import RunFolder
from vbagg.workflow.given import GIVEN, RECORD, Given, content_of, require_whole
from vbagg.workflow.job import carry_out_stages
from vbagg.workflow.opened import opened_maps
from vbagg.workflow.progress import showing
from vbagg.workflow.record import plain
from vbagg.workflow.run import Run, Stage, carry_out, outdated
from vbagg.workflow.settings import from_words

# of rioxarray, with which rasters are opened here
pytestmark = [
    pytest.mark.filterwarnings("ignore:Use `@` matmul instead of `.` mul operator"),
    pytest.mark.filterwarnings("ignore:.*there are only 12 polygons"),
]


@pytest.fixture
def files(tmp_path):
    return write_files(tmp_path)


def raster(path, **options):
    with rioxarray.open_rasterio(path, **options) as array:
        return array.load()


@pytest.mark.parametrize("masked", [False, True])
def test_rasters_are_what_their_files_are(files, tmp_path, masked):
    array = raster(files["wetness"], masked=masked).rename("soil wetness")
    given = Given.of({"covariate": [array, files["height"]]}, tmp_path / GIVEN)
    assert given.words["covariate"] == [tmp_path / GIVEN / "soil_wetness.nc", files["height"]]
    given.write()
    (kept,), (original,) = open_layers(given.words["covariate"][0]), open_layers(files["wetness"])
    np.testing.assert_array_equal(kept.read(), original.read())
    np.testing.assert_allclose(kept.grid.transform, original.grid.transform)
    assert kept.grid.crs == original.grid.crs
    assert kept.name == "soil wetness"


def test_longitudes_and_latitudes_need_no_reference_system(tmp_path):
    values = np.arange(12.0).reshape(3, 4)
    array = xarray.DataArray(values, {"lat": [2.5, 1.5, 0.5], "lon": [30, 30.5, 31, 31.5]}, ("lat", "lon"))
    given = Given.of({"population": array}, tmp_path / GIVEN)
    given.write()
    (layer,) = open_layers(given.words["population"])
    assert layer.name == "population"
    np.testing.assert_array_equal(layer.read(), values)


def test_polygons_are_what_their_files_are(files, tmp_path):
    polygons = gpd.read_file(files["districts"])
    given = Given.of({"polygons": polygons, "to": (polygons, polygons.iloc[:3])}, tmp_path / GIVEN)
    given.write()
    kept = read_polygons(given.words["polygons"], "name", None, ["cases"])
    pd.testing.assert_frame_equal(kept.frame, read_polygons(files["districts"], "name", None, ["cases"]).frame)
    assert [path.name for path in given.words["to"]] == ["to.parquet", "to_2.parquet"]
    assert len(read_polygons(given.words["to"][1])) == 3


@pytest.mark.parametrize("index", [False, True])
def test_tables_are_what_their_files_are(tmp_path, index):
    table = pd.DataFrame({"name": ["D00", "D1"], "cases": [3, 4]})
    given = Given.of({"totals": table.set_index("name") if index else table}, tmp_path / GIVEN)
    given.write()
    assert given.words["totals"] == tmp_path / GIVEN / "totals.parquet"
    pd.testing.assert_frame_equal(pd.read_parquet(given.words["totals"]), table)
    settings = from_words(given.words)
    require_whole(settings)
    before = plain(settings.data.totals)
    changed = Given.of({"totals": table.assign(cases=[3, 5])}, tmp_path / GIVEN)
    changed.write()
    assert plain(from_words(changed.words).data.totals) != before
    settings.data.totals.write_bytes(b"something else")
    with pytest.raises(ValueError, match=r"totals\.parquet must be as `vbagg\.geo\.run` wrote it"):
        require_whole(settings)


def test_a_changed_table_makes_the_stages_anew(files, tmp_path):
    frame().drop(columns="cases").to_file(files["districts"])
    path, out = tmp_path / "counts.csv", tmp_path / "out"
    counts = frame()[["name", "cases"]].iloc[::-1]

    def prepared(totals):
        words = {"polygons": files["districts"], "on": "name", "response": "cases", "population": files["population"]}
        given = Given.of({**words, "totals": totals}, out / GIVEN)
        with showing(False) as shown:
            run = carry_out_stages(from_words(given.words), out, ["prepared"], False, shown, given=given)
        return run.prepared().y(), (out / "prepared" / "stage.json").stat().st_mtime_ns

    for give in (lambda table: table.to_csv(path, index=False) or path, lambda table: table):
        y, when = prepared(give(counts))
        assert y.to_dict() == dict(zip(counts["name"], counts["cases"], strict=True))
        if give(counts) is not path:
            assert prepared(give(counts))[1] == when
        y, later = prepared(give(counts.assign(cases=2 * counts["cases"])))
        assert later > when
        assert y["D03"] == 122


def test_counts_beside_text_are_kept(tmp_path):
    """As pandas reads them from a sheet."""
    table = pd.DataFrame({"name": list("abcd"), "cases": [12, "<5", None, 3.5]})
    Given.of({"totals": table}, tmp_path / GIVEN).write()
    kept = pd.read_parquet(tmp_path / GIVEN / "totals.parquet")["cases"]
    assert kept.fillna("").tolist() == ["12", "<5", "", "3.5"]
    assert table["cases"].tolist() == [12, "<5", None, 3.5]


def test_what_is_there_is_not_written_again(tmp_path):
    given = Given.of({"polygons": frame()}, tmp_path / GIVEN)
    given.write()
    (path,) = given.objects
    before = path.stat().st_mtime_ns
    Given.of({"polygons": frame()}, tmp_path / GIVEN).write()
    assert path.stat().st_mtime_ns == before
    path.write_bytes(b"half")
    Given.of({"polygons": frame()}, tmp_path / GIVEN).write()
    assert len(read_polygons(path)) == 12
    assert sorted(os.listdir(tmp_path / GIVEN)) == [RECORD, "polygons.parquet"]


@pytest.mark.parametrize("change", ["value", "place", "crs", "column"])
def test_polygons_are_known_by_their_content(tmp_path, change):
    other = frame()
    if change == "value":
        other.loc[3, "cases"] += 1
    if change == "place":
        other.geometry = other.geometry.translate(1e-9)
    if change == "crs":
        other = other.set_crs(4258, allow_override=True)
    if change == "column":
        other = other.rename(columns={"region": "province"})
    contents = []
    for polygons in (frame(), other):
        given = Given.of({"polygons": polygons}, tmp_path / GIVEN)
        given.write()
        contents.append(plain(given.words["polygons"]))
    assert contents[0][0] == contents[1][0] == "polygons.parquet"
    assert contents[0][1] != contents[1][1]


def test_a_record_names_them_and_their_content(files, tmp_path):
    out = tmp_path / "out"
    array = raster(files["height"])

    def run_with(array):
        given = Given.of({"covariate": array, "polygons": frame()}, out / GIVEN)
        given.write()
        return Run(from_words(given.words), RunFolder(out))

    def work(run, folder):
        (folder / "used.txt").write_text(f"{run.settings.data.covariate} {run.settings.data.polygons}")

    stage = Stage("prepared", "prepare", work)
    carry_out(run_with(array.rename("height")), stage)
    recorded = json.loads((out / "prepared" / "stage.json").read_text())["settings"]
    (name, content) = recorded["data.covariate"][0]
    assert (name, content) == ("height.nc", content_of(out / GIVEN / "height.nc"))
    assert outdated(run_with(array.rename("height")), stage) is None
    shutil.rmtree(out / GIVEN)
    assert outdated(run_with(array.rename("height")), stage) is None
    assert "data.covariate was" in outdated(run_with((array + 1).rename("height")), stage)


def test_a_changed_file_of_an_object_is_refused(tmp_path):
    given = Given.of({"polygons": frame()}, tmp_path / GIVEN)
    given.write()
    settings = from_words(given.words)
    require_whole(settings)
    settings.data.polygons.write_bytes(b"something else")
    told = r"polygons\.parquet must be as `vbagg\.geo\.run` wrote it"
    with pytest.raises(ValueError, match=told):
        require_whole(settings)
    with showing(False) as shown, pytest.raises(ValueError, match=told):
        carry_out_stages(settings, tmp_path, (), False, shown)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ({"polygons": pd.DataFrame({"a": np.arange(1000)})}, "`polygons` must be the name of a file, or a GeoData"),
        ({"totals": np.zeros((50, 50))}, r"`totals` must be .* or a pandas\.DataFrame; got ndarray\.$"),
        (
            {"population": frame()},
            r"`population` must be .* or an xarray\.DataArray; got GeoDataFrame\.$",
        ),
        ({"covariate": [np.zeros((50, 50))]}, r"`covariate` .*; got ndarray\.$"),
    ],
)
def test_other_objects_are_refused_without_their_content(tmp_path, words, told):
    with pytest.raises(ValueError, match=told) as error:
        geo.run(tmp_path / "out", response="cases", progress=False, **words)
    assert len(str(error.value)) < 120
    assert not (tmp_path / "out").exists()


def test_wrong_objects_leave_nothing(tmp_path):
    with pytest.raises(ValueError, match="'dead'"):
        geo.run(tmp_path / "out", polygons=frame(), response="dead", progress=False)
    assert not (tmp_path / "out").exists()


def test_the_check_takes_them_too(files, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path / "..")
    findings = geo.check(
        polygons=frame(), id="name", response="cases", population=raster(files["population"]), covariate=files["height"]
    )
    assert findings.errors == ()
    assert findings.facts["polygons"]["number"] == 12
    assert findings.facts["exposure"]["kind"] == "population"


def test_maps_become_a_dataset(tmp_path):
    values = {"rate_mean": np.arange(12.0).reshape(3, 4), "rate_sd": np.full((3, 4), 0.5)}
    values["rate_mean"][1, 2] = np.nan
    for name, plane in values.items():
        with rasterio.open(
            tmp_path / f"{name}.tif",
            "w",
            driver="GTiff",
            dtype="float32",
            count=1,
            height=3,
            width=4,
            nodata=np.nan,
            crs="EPSG:32738",
            transform=TRANSFORM,
        ) as target:
            target.write(plane.astype(np.float32), 1)
            target.update_tags(units="cases per 1000 people", title=f"the {name}")
            target.update_tags(response="cases", likelihood="poisson")
    maps = opened_maps(sorted(tmp_path.glob("*.tif")))
    assert set(maps.data_vars) == set(values)
    for name, plane in values.items():
        np.testing.assert_array_equal(maps[name], plane)
        assert maps[name].attrs == {"units": "cases per 1000 people", "title": f"the {name}"}
    assert maps.rio.crs.to_epsg() == 32738
    assert (maps.attrs["response"], maps.attrs["likelihood"]) == ("cases", "poisson")
    assert maps["x"][0] == pytest.approx(TRANSFORM.c + TRANSFORM.a / 2)


def test_only_maps_of_the_run_count(tmp_path):
    """A raster that someone put beside them is not one of them."""

    def work(run, folder):
        (folder / "cases").mkdir()
        (folder / "cases" / "rate_mean.tif").write_text("map")

    run = Run(from_words({"response": "cases"}), RunFolder(tmp_path / "out"))
    carry_out(run, Stage("maps", "predict", work))
    (run.maps() / "elsewhere.tif").write_text("foreign")
    assert [path.name for path in run.map_files()] == ["rate_mean.tif"]


@pytest.mark.slow
def test_a_run_with_objects_is_that_with_files(files, tmp_path):
    words = {"id": "name", "response": "cases", "population_is": "counts", "likelihood": "poisson", "progress": False}
    words |= {**CHEAP, "skip_validation": True}
    rasters = {name: raster(files[name], masked=True).rename(name) for name in ("population", "height")}
    out = tmp_path / "memory"
    memory = geo.run(
        out,
        polygons=gpd.read_file(files["districts"]),
        population=rasters["population"],
        covariate=rasters["height"],
        **words,
    )
    words |= {"polygons": files["districts"], "population": files["population"], "covariate": files["height"]}
    disk = geo.run(tmp_path / "disk", **words)
    xarray.testing.assert_allclose(memory.to_xarray(), disk.to_xarray(), rtol=1e-5)
    assert memory.to_xarray()["rate_mean"].attrs["units"] == "cases per 1000 people"
    pd.testing.assert_frame_equal(memory.to_geopandas(), disk.to_geopandas(), rtol=1e-5)
    before = (out / "models" / "stage.json").stat().st_mtime_ns
    again = geo.run(out, config=out / "settings.toml", progress=False)
    assert (again.folder["models"] / "stage.json").stat().st_mtime_ns == before
    assert 'polygons = "given/polygons.parquet"' in Path(out / "settings.toml").read_text()
