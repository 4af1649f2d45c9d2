"""Prepared data and run folders that someone made up or mixed: each case was once taken, or ended in a traceback."""

import json
import warnings

import geopandas as gpd
import numpy as np
import pandas as pd
import pytest
import rasterio
import shapely
from damage import DOCUMENT, PIXELS, POLYGONS, STACK, copied, vrt, write_vast
from fuzzing import DEEPEST
from geofiles import write_raster
from tiny_country import TRANSFORM, frame, prepared_country, rasters

from vbagg.geo import Prepared, agreement, prepare, target
from vbagg.workflow import given
from vbagg.workflow.folder import DONE, RunFolder
from vbagg.workflow.lock import HOLDER, LOCK
from vbagg.workflow.record import Record
from vbagg.workflow.results import read_verdict
from vbagg.workflow.run import Run, Stage, carry_out, outdated
from vbagg.workflow.settings import make_settings
from vbagg.workflow.stages import VALIDATION


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    prepared_country(folder).save(folder / "prepared")
    return folder / "prepared"


@pytest.fixture
def folder(whole, tmp_path):
    return copied(whole, tmp_path / "prepared")


def refused(folder, said, read=Prepared.bags):
    with pytest.raises(ValueError, match=said) as told:
        read(Prepared.load(folder))
    assert str(folder) in str(told.value)
    assert "repare" in str(told.value)


def set_at(row, column, value):
    def change(table):
        table.loc[row, column] = value
        return table

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda table: table.drop(columns="height"), "must have a column 'height'"),
        (lambda table: table.assign(more=1), "must have the columns"),
        (lambda table: table.astype({"cell": "int32"}), "'cell' of the right type"),
        (lambda table: table.astype({"weight": str}), "'weight' of the right type"),
        (lambda table: table.head(0), "must have rows; it has none"),
        (lambda table: table.iloc[::-1], "sorted by polygon and cell; row 1"),
        (lambda table: pd.concat([table, table.tail(1)]), "be there once"),
        (lambda table: table.drop(index=7), "must add up to the population"),
        (lambda table: table.assign(weight=2 * table["weight"]), "must add up to the population"),
        (lambda table: table.assign(height=table["wetness"]), "must hold what the layers"),
        (lambda table: table.assign(x=table["y"]), "must lie where the cells"),
        (lambda table: table.assign(coverage=table["coverage"] * 3), "be a part of its cell"),
        (set_at(5, "cell", 10**15), "sorted by polygon|a cell of the grid"),
        (set_at(0, "cell", -4), "a cell of the grid"),
        (set_at(5, "weight", -1.0), "not negative; row 5"),
        (set_at(5, "weight", np.nan), "finite numbers; row 5"),
        (set_at(5, "height", np.inf), "finite numbers; row 5"),
        (set_at(5, "polygon", "nowhere"), "in a polygon that is there; row 5"),
    ],
)
def test_tables_of_pixels(folder, change, said, monkeypatch):
    change(pd.read_parquet(folder / PIXELS)).to_parquet(folder / PIXELS, index=False)
    refused(folder, said)
    monkeypatch.setattr(agreement, "AT_ONCE", 1)
    refused(folder, said, Prepared.stored_bags)


def test_a_table_for_workers_is_not_read_whole(folder, monkeypatch):
    whole = Prepared.load(folder)
    monkeypatch.setattr(target, "MOST_PIXELS", 10)
    refused(folder, r"at most 10 rows to be read whole; it has \d+, which workers can fit")
    monkeypatch.setattr(agreement, "AT_ONCE", 7)
    monkeypatch.setattr(Prepared, "pixels", None)
    stored = Prepared.load(folder).stored_bags()
    y = Prepared.load(folder).y()
    monkeypatch.undo()
    assert stored.labels.tolist() == y.index.tolist() == whole.bags().labels.tolist()
    assert y.tolist() == whole.y().tolist()


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("covariates", ["height", "height"], "must have the layers"),
        ("covariates", "height", "`covariates`"),
        ("covariates", [["height"]], "`covariates.0`"),
        ("exposure", "area", "no column 'area'"),
        ("exposure", "../..", "`exposure`"),
        ("responses", ["region"], "must hold numbers"),
        ("responses", ["geometry"], "no column 'geometry'"),
        ("notes", [float("nan")], "`notes.0`"),
        ("format", "1", "`format`"),
        ("polygons", None, "`polygons`"),
    ],
)
def test_documents(folder, key, value, said):
    document = json.loads((folder / DOCUMENT).read_text())
    (folder / DOCUMENT).write_text(json.dumps({**document, key: value}))
    refused(folder, said)


def test_columns_of_a_type_that_would_fill_memory(folder):
    document = json.loads((folder / DOCUMENT).read_text())
    document["polygons"]["columns"]["region"] = "V999999999"
    (folder / DOCUMENT).write_text(json.dumps(document))
    refused(folder, "no columns of type")


def test_documents_that_no_parser_follows(folder):
    (folder / DOCUMENT).write_bytes(DEEPEST)
    refused(folder, r"prepared\.json")


def test_polygons_of_another_shape(folder):
    """Crossed over themselves, they reach as far as before, but their pixels lie outside."""
    shapes = gpd.read_file(folder / POLYGONS)
    left, bottom, right, top = shapes.total_bounds
    crossed = shapely.Polygon([(left, top), (right, bottom), (right, top), (left, bottom)])
    # what it leaves out is in the middle of the upper and lower edges
    left_out = np.argmin(shapely.distance(shapes.geometry.to_numpy(), shapely.Point((left + right) / 2, top)))
    shapes.loc[left_out, "geometry"] = crossed
    shapes.to_file(folder / POLYGONS)
    refused(folder, "must lie near their polygons")


def other_raster(folder, **change):
    with rasterio.open(folder / STACK) as source:
        planes, names = source.read(), source.descriptions
        about = {"transform": source.transform, "crs": source.crs, "descriptions": names}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        write_raster(folder / STACK, planes.astype(change.pop("dtype", "float32")), **{**about, **change})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"crs": None}, "in a CRS"),
        ({"crs": "EPSG:3857"}, "must lie near their polygons"),
        ({"dtype": "float64"}, "float32 layers"),
        ({"transform": rasterio.Affine(0.1, 0, 40, 0, -0.05, -1.3)}, "must lie near their polygons"),
        ({"descriptions": ("wetness", "height", "population")}, "must have the layers"),
    ],
)
def test_rasters(folder, change, said):
    other_raster(folder, **change)
    refused(folder, said)


def test_rasters_that_show_files_elsewhere(whole, folder):
    (folder / STACK).write_text(vrt(whole / STACK))
    refused(folder, r"stack\.tif is not a file of that kind")


def test_rasters_without_end(folder):
    with rasterio.open(folder / STACK) as source:
        place, crs, names = source.transform, source.crs, source.descriptions
    write_vast(folder / STACK, place, crs, names)
    refused(folder, "cannot be read as prepared data")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda frame: frame.head(0), "distinct ids"),
        (lambda frame: pd.concat([frame, frame.head(1)]), "distinct ids"),
        (lambda frame: frame.head(5), "in a polygon that is there"),
        (lambda frame: frame.iloc[::-1], "sorted by polygon"),
        (lambda frame: frame.assign(cases=-frame["cases"]), "non-negative number"),
        (lambda frame: frame.set_geometry(frame.geometry.centroid), "is a Point"),
        (lambda frame: frame.assign(population=7.0), "must add up"),
    ],
)
def test_polygons(folder, change, said):
    frame = gpd.read_file(folder / POLYGONS).set_crs("EPSG:32636", allow_override=True)
    (folder / POLYGONS).unlink()
    change(frame).to_file(folder / POLYGONS, layer="polygons")
    refused(folder, said)


def test_polygons_of_another_format(folder):
    """Bytes of the header that say another version of the format: GDAL warns, and reads on."""
    content = bytearray((folder / POLYGONS).read_bytes())
    content[60:64] = b"\0\0\x1b\xa0"
    (folder / POLYGONS).write_bytes(content)
    refused(folder, "user_version")


def run_in(path, **data):
    return Run(make_settings({"data": {"response": ["cases"], **data}}, "test"), RunFolder(path))


def note(run, into):
    (into / "result.txt").write_text(str(run.settings.maps.per))


@pytest.mark.parametrize(
    "change",
    [
        {"files": {"../../secret": [4, "0"]}},
        {"files": {"/etc/hostname": [4, "0"]}},
        {"files": {"result.txt": 3}},
        {"files": [1, 2]},
        {"settings": {"data.model_dump": 3}},
        {"settings": {"__class__.__name__": 3}},
        {"settings": None},
        {"after": []},
        {"version": {}},
    ],
)
def test_records_that_no_stage_wrote(tmp_path, change):
    run, stage = run_in(tmp_path), Stage("maps", "predict", note)
    carry_out(run, stage)
    file = run.folder["maps"] / DONE
    facts = json.loads(file.read_text()) | change
    facts["digest"] = Record(*(facts[name] for name in Record.__dataclass_fields__)).digest
    file.write_text(json.dumps(facts))
    assert outdated(run, stage) is not None
    assert carry_out(run, stage)
    assert outdated(run, stage) is None


def test_records_that_no_parser_follows(tmp_path):
    run, stage = run_in(tmp_path), Stage("maps", "predict", note)
    carry_out(run, stage)
    (run.folder["maps"] / DONE).write_bytes(DEEPEST)
    assert outdated(run, stage) == "it was not finished"


@pytest.mark.parametrize("holder", [{"number": "12"}, {"number": -1}, {"machine": 3}, {"birth": [1]}, {"since": {}}])
def test_locks_that_no_process_wrote(tmp_path, holder):
    (tmp_path / LOCK).mkdir()
    known = {"number": 1, "machine": "elsewhere", "birth": None, "since": "then"}
    (tmp_path / LOCK / HOLDER).write_text(json.dumps(known | holder))
    with RunFolder(tmp_path).in_use():
        assert (tmp_path / LOCK).is_dir()


@pytest.mark.parametrize("name", ["run.log", ".validation-kept", "given", LOCK])
def test_links_out_of_the_folder(tmp_path, name):
    outside, out = tmp_path / "outside", tmp_path / "run"
    out.mkdir()
    outside.mkdir()
    (out / name).symlink_to(outside)
    with pytest.raises(ValueError, match=r"it is a link to .*Remove the link"), RunFolder(out).in_use():
        pass
    assert list(outside.iterdir()) == []


def test_a_stage_that_is_a_link_is_replaced_and_its_target_stays(tmp_path):
    run, stage = run_in(tmp_path / "run"), Stage("maps", "predict", note)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "mine.txt").write_text("mine")
    run.folder.path.mkdir()
    run.folder["maps"].symlink_to(outside)
    assert carry_out(run, stage)
    assert [path.name for path in outside.iterdir()] == ["mine.txt"]
    assert not list(run.folder.path.glob(".maps-old*"))


@pytest.mark.parametrize("known", [[], {"rain.nc": []}, {"rain.nc": {"content": "a"}}, {"rain.nc": {"content": 3}}])
def test_given_objects_that_no_run_wrote(tmp_path, known):
    path = tmp_path / given.GIVEN / "rain.nc"
    path.parent.mkdir()
    path.touch()
    (path.parent / given.RECORD).write_text(json.dumps(known))
    given.require_whole(run_in(tmp_path, covariate=[path]).settings)


def test_folds_of_a_response_with_the_name_of_a_path_are_kept_inside(tmp_path, monkeypatch):
    name, kept = "../../escaped", []
    people = write_raster(tmp_path / "people.tif", rasters()["population"].astype(np.float32), TRANSFORM)
    shapes = frame().rename(columns={"cases": name})
    run = run_in(tmp_path / "run", response=[name])
    prepare(shapes, "name", name, people, folder=run.folder["prepared"]).save(run.folder["prepared"])

    def cross_validate(*_, keep, **__):
        kept.append(keep)
        raise KeyboardInterrupt

    monkeypatch.setattr("vbagg.validate.cross_validate", cross_validate)
    with pytest.raises(KeyboardInterrupt):
        VALIDATION.work(run, tmp_path)
    (keep,) = kept
    assert keep.resolve().parent == run.folder.kept("validation").resolve()


def test_verdicts_that_are_no_text(tmp_path):
    (tmp_path / "verdict.txt").write_bytes(b"Better than one rate\xac")
    with pytest.raises(ValueError, match=r"verdict\.txt cannot be read as what `vbagg validate` wrote: 'utf-8' codec"):
        read_verdict(tmp_path)
