import json

import numpy as np
import pandas as pd
import pytest
from geofiles import VALUES, districts, write_polygons, write_raster
from pandas.testing import assert_frame_equal
from shapely import box

from vbagg import geo


@pytest.fixture
def files(tmp_path):
    return {
        "polygons": write_polygons(tmp_path / "districts.gpkg"),
        "population": write_raster(tmp_path / "people.tif", VALUES * 10),
        "rain": write_raster(tmp_path / "rain.tif", np.where(VALUES == 7, np.nan, VALUES)),
        "folder": tmp_path / "out",
    }


def run(files):
    return geo.prepare(files["polygons"], "name", "cases", files["population"], [files["rain"]], folder=files["folder"])


@pytest.mark.parametrize("ids", [["a", "b"], [12, 7]])
def test_saved_and_loaded_are_the_same(files, tmp_path, ids):
    shapes = [box(30.1, 9.4, 30.9, 9.9), box(30.9, 9.3, 31.8, 9.9).union(box(31.9, 9.3, 31.95, 9.4))]
    more = {
        "fid": [3, 4],
        "yes": [True, False],
        "text": ["ä", None],
        "part": [0.1, np.nan],
        "none": [None, None],
        "Geom": [1, 2],
    }
    frame = districts(shapes, ids, **more, crs="EPSG:4326").to_crs("+proj=laea +lat_0=9 +lon_0=31 +type=crs")
    files["polygons"] = write_polygons(tmp_path / "odd.parquet", frame)
    prepared = run(files)
    assert sorted(path.name for path in files["folder"].iterdir()) == ["pixels.parquet", "stack.tif"]
    prepared.save(files["folder"])
    prepared.save(tmp_path / "copy" / "deep")
    for folder in (files["folder"], tmp_path / "copy" / "deep"):
        names = sorted(path.name for path in folder.iterdir())
        assert names == ["pixels.parquet", "polygons.gpkg", "prepared.json", "stack.tif"]
        loaded = geo.Prepared.load(folder)
        assert_frame_equal(loaded.pixels, prepared.pixels, check_exact=True)
        assert_frame_equal(pd.DataFrame(loaded.polygons.frame), pd.DataFrame(prepared.polygons.frame), check_exact=True)
        assert loaded.polygons.frame.crs == prepared.polygons.frame.crs
        assert loaded.polygons.notes == prepared.polygons.notes
        assert (loaded.polygons.id, loaded.polygons.path) == (prepared.polygons.id, prepared.polygons.path)
        assert loaded.polygons.labels.tolist() == ids
        assert (loaded.stack.grid, loaded.stack.names) == (prepared.stack.grid, prepared.stack.names)
        np.testing.assert_array_equal(loaded.stack.read(), prepared.stack.read())
        for name in ("covariates", "responses", "notes", "exposure"):
            assert getattr(loaded, name) == getattr(prepared, name)
        np.testing.assert_array_equal(loaded.bags().X, prepared.bags().X)


def test_folders_that_cannot_be_loaded(files, tmp_path):
    with pytest.raises(ValueError, match=r"must hold prepared data; prepared\.json is missing. Run `prepare` first"):
        geo.Prepared.load(tmp_path)
    run(files).save(files["folder"])
    document = files["folder"] / "prepared.json"
    document.write_text(json.dumps({**json.loads(document.read_text()), "format": 99}))
    with pytest.raises(ValueError, match="cannot be read as prepared data: it has format 99"):
        geo.Prepared.load(files["folder"])
    document.write_text("{}")
    with pytest.raises(ValueError, match="cannot be read as prepared data"):
        geo.Prepared.load(files["folder"])


def test_pixels_are_not_those_of_data_that_were_prepared_later(files):
    earlier = run(files)
    files["rain"] = write_raster(files["rain"], VALUES + 5)
    later = run(files)
    with pytest.raises(ValueError, match="was written again since; prepare other data into other folders"):
        earlier.bags()
    assert later.pixels["rain"].min() > VALUES.min() + 4
