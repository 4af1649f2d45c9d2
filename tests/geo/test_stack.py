import numpy as np
import pytest
import rasterio

from vbagg.geo.grid import Grid
from vbagg.geo.stack import Stack

GRID = Grid("EPSG:4326", (0.5, 0, 30, 0, -0.25, 10), 130, 300)


@pytest.fixture
def planes(rng):
    values = rng.normal(size=(3, *GRID.shape)).astype(np.float32)
    values[1, 5, 7] = np.nan
    return values


def test_written_planes_are_read_back(tmp_path, planes, monkeypatch):
    monkeypatch.setattr("vbagg.geo.stack.BAND_NUMBERS", 1)  # 64 rows at a time
    asked = []

    def rows_of(rows):
        asked.append((rows.start, rows.stop))
        return planes[:, rows]

    stack = Stack.write(tmp_path / "stack.tif", GRID, ["rain", "land=3", "population"], rows_of)
    assert asked == [(0, 64), (64, 128), (128, 130)]
    assert stack == Stack.open(tmp_path / "stack.tif")
    assert stack.grid == GRID
    np.testing.assert_array_equal(stack.read(), planes)
    np.testing.assert_array_equal(stack.read(slice(60, 70), ["population", "rain"]), planes[[2, 0], 60:70])
    cells = np.array([38_999, 5 * 300 + 7, 0, 5 * 300 + 7, 20_000])
    expected = planes.reshape(3, -1)[:, cells].T
    np.testing.assert_array_equal(stack.at(cells), expected)
    np.testing.assert_array_equal(stack.at(cells, ["land=3"]), expected[:, 1:2])
    assert stack.at(np.array([], dtype=int)).shape == (0, 3)
    assert stack.at([3, 4], []).shape == (2, 0)


def test_the_file_is_tiled_packed_and_labelled(tmp_path, planes):
    Stack.write(tmp_path / "stack.tif", GRID, ["a", "b", "c"], lambda rows: planes[:, rows])
    with rasterio.open(tmp_path / "stack.tif") as dataset:
        assert dataset.descriptions == ("a", "b", "c")
        assert np.isnan(dataset.nodata)
        assert dataset.profile["tiled"]
        assert dataset.profile["compress"] == "deflate"
        assert dataset.dtypes == ("float32",) * 3


def test_a_failed_write_leaves_what_was_there(tmp_path, planes):
    path = tmp_path / "stack.tif"
    Stack.write(path, GRID, ["a", "b", "c"], lambda rows: planes[:, rows])

    def fail(rows):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Stack.write(path, GRID, ["d"], fail)
    assert [file.name for file in tmp_path.iterdir()] == ["stack.tif"]
    assert Stack.open(path).names == ("a", "b", "c")


def test_unknown_layers(tmp_path, planes):
    stack = Stack.write(tmp_path / "stack.tif", GRID, ["rain", "b", "c"], lambda rows: planes[:, rows])
    with pytest.raises(ValueError, match=r"stack\.tif has no layer 'rian'; did you mean `rain`"):
        stack.at([0], ["rian"])
    with pytest.raises(ValueError, match=r"there is no .*gone\.tif"):
        Stack.open(tmp_path / "gone.tif")
