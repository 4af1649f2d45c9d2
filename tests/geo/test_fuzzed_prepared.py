"""Folders of prepared data that were damaged or made up: each is refused in words, or agrees in all its parts."""

import numpy as np
import pytest
import shapely
from damage import DAMAGES, copied
from fuzzing import examples, made_or_refused, snapshot
from geofiles import districts
from hypothesis import given
from hypothesis import strategies as st
from tiny_country import prepared_country

from vbagg.geo import Prepared

# rasterio cannot tell what GDAL says of a damaged file if that holds its bytes; the file is refused all the same
pytestmark = pytest.mark.filterwarnings(
    r"ignore:Exception ignored in. 'rasterio\._env\.log_error':pytest.PytestUnraisableExceptionWarning"
)


@pytest.fixture(scope="module", params=["population", pytest.param("area", marks=pytest.mark.slow)])
def whole(request, tmp_path_factory):
    """A folder of prepared data."""
    folder = tmp_path_factory.mktemp("whole")
    prepared_country(folder, population=request.param == "population").save(folder / "prepared")
    return folder / "prepared"


@pytest.fixture(scope="module")
def foreign(tmp_path_factory):
    """One of other data, with other polygons and gaps."""
    folder = tmp_path_factory.mktemp("foreign")
    shapes = districts().set_geometry(districts().translate(0.3, -11.4))
    prepared_country(folder, missing="median", polygons=shapes).save(folder / "prepared")
    return folder / "prepared"


def everything(folder):
    """Prepared data with all that is read later on."""
    prepared = Prepared.load(folder)
    return prepared, prepared.bags(), prepared.bag_pixels, {name: prepared.y(name) for name in prepared.responses}


def require_agreement(prepared, bags, bag_pixels, totals):
    """All parts say the same: every pixel is where its cell is, holds what that holds, and adds to its polygon."""
    pixels, frame, grid = prepared.pixels, prepared.polygons.frame, prepared.stack.grid
    labels = prepared.polygons.labels.tolist()
    names = list(prepared.covariates)
    assert len(set(labels)) == len(labels)
    assert prepared.exposure in ("population", "area")
    assert np.isfinite(bags.X).all()
    assert np.isfinite(bags.weight).all()
    assert (bags.weight >= 0).all()
    assert bags.feature_names == ("x", "y", *names)
    assert len(bag_pixels) == len(bags.X)
    assert set(pixels["polygon"]) <= set(labels)
    assert not pixels.duplicated(["polygon", "cell"]).any()
    cells = pixels["cell"].to_numpy()
    np.testing.assert_allclose(grid.kilometres(cells), pixels[["x", "y"]], atol=1e-3)
    np.testing.assert_array_equal(prepared.stack.at(cells, names), pixels[names].to_numpy(np.float32))
    held = np.nan_to_num(prepared.stack.at(cells, [prepared.exposure])[:, 0])
    np.testing.assert_allclose(pixels["coverage"] * held, pixels["weight"], rtol=1e-6)
    assert pixels["coverage"].between(0, 1 + 1e-6).all()
    sums = pixels.groupby("polygon")["weight"].sum().reindex(labels, fill_value=0.0)
    np.testing.assert_allclose(sums, frame[prepared.exposure], rtol=1e-6)
    x, y = grid.centres(cells)
    reach = sum(grid.resolution)
    shapes = frame.to_crs(grid.crs).geometry.to_numpy()[[labels.index(label) for label in pixels["polygon"]]]
    assert (shapely.distance(shapely.points(x, y), shapes) <= reach).all()
    assert set(frame.geom_type) <= {"Polygon", "MultiPolygon"}
    for y in totals.values():
        assert list(y.index) == list(bags.labels)
        assert np.isfinite(y).all()
        assert (y >= 0).all()


def check(whole, foreign, folder, damage):
    """Damage a copy, and read it."""
    damage(copied(whole, folder / "prepared"), foreign)
    before, elsewhere = snapshot(folder), snapshot(foreign)
    made, refusal = made_or_refused(lambda: everything(folder / "prepared"))
    if made is None:
        assert str(folder / "prepared") in refusal
        assert "repare" in refusal, refusal
    else:
        require_agreement(*made)
    assert snapshot(folder) == before
    assert snapshot(foreign) == elsewhere
    return made, refusal


def test_what_is_whole_agrees(whole, foreign, tmp_path):
    made, _ = check(whole, foreign, tmp_path, lambda folder, foreign: None)
    assert made is not None


@pytest.mark.parametrize("damage", DAMAGES)
@examples(20)
@given(data=st.data())
def test_damaged_folders(whole, foreign, tmp_path, damage, data):
    check(whole, foreign, tmp_path, lambda folder, foreign: damage(data.draw, folder, foreign))
