from zipfile import ZipFile

import numpy as np
import pytest
import rasterio
import xarray as xr
from affine import Affine
from geofiles import TRANSFORM, VALUES, write_raster
from rasterio.enums import ColorInterp

from vbagg.geo.grid import Grid
from vbagg.geo.rasters import open_layers

GRID = Grid("EPSG:4326", tuple(TRANSFORM)[:6], 3, 4)
NAN = np.nan


def only(path):
    (layer,) = open_layers(path)
    return layer


LONGITUDES = ("lon", 30.25 + 0.5 * np.arange(4))
LATITUDES = ("lat", 9.875 - 0.25 * np.arange(3))


def labelled(values=VALUES, x=LONGITUDES, y=LATITUDES, **attrs):
    coords = {y[0]: y[1], x[0]: x[1]}
    return xr.DataArray(values, dims=(y[0], x[0]), coords=coords, attrs=attrs)


def test_a_band_becomes_a_layer(tmp_path):
    layer = only(write_raster(tmp_path / "rain.tif", units=("mm",)))
    assert (layer.name, layer.band, layer.units, layer.dtype, layer.file) == ("rain", 1, "mm", "float32", "rain.tif")
    assert layer.grid == GRID
    assert layer.read().dtype == np.float32
    np.testing.assert_array_equal(layer.read(), VALUES)
    np.testing.assert_array_equal(layer.read(slice(1, 3), slice(2, 4)), VALUES[1:3, 2:4])


def test_names_of_several_bands(tmp_path):
    planes = np.stack([VALUES, -VALUES])
    plain = open_layers(write_raster(tmp_path / "soil.tif", planes))
    assert [layer.name for layer in plain] == ["soil_1", "soil_2"]
    path = write_raster(tmp_path / "clim.tif", planes, descriptions=("Mean temp.", "rain"))
    first, second = open_layers(path)
    assert (first.name, second.name) == ("clim_Mean_temp", "clim_rain")
    np.testing.assert_array_equal(second.read(), -VALUES)
    assert open_layers(path, ["clim_rain"]) == [second]
    assert open_layers(f"{path}::clim_rain") == [second]
    with pytest.raises(ValueError, match=r"clim\.tif has no layer 'clim_rian'; did you mean `clim_rain`"):
        open_layers(path, ["clim_rian"])


def test_transparency_is_not_a_layer_but_a_mask(tmp_path):
    alpha = np.full((3, 4), 255, dtype=np.uint8)
    alpha[1, 2] = 0
    planes = np.stack([VALUES.astype(np.uint8), alpha])
    path = write_raster(tmp_path / "a.tif", planes, colorinterp=(ColorInterp.gray, ColorInterp.alpha))
    values = only(path).read()
    assert np.argwhere(np.isnan(values)).tolist() == [[1, 2]]


def test_mask_of_a_file(tmp_path):
    path = write_raster(tmp_path / "a.tif")
    mask = np.full((3, 4), 255, dtype=np.uint8)
    mask[0, 3] = 0
    with rasterio.open(path, "r+") as dataset:
        dataset.write_mask(mask)
    assert np.argwhere(np.isnan(only(path).read())).tolist() == [[0, 3]]


@pytest.mark.parametrize("code", [-9999.0, NAN, 7.0])
def test_declared_missing_values(tmp_path, code):
    values = VALUES.copy()
    values[2, 1] = code
    result = only(write_raster(tmp_path / "a.tif", values, nodata=code)).read()
    expected = np.where((np.arange(12).reshape(3, 4) == 9) | np.isin(VALUES, code), NAN, VALUES)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("code", [-3.4e38, 3.4028235e38, -1e30, np.inf, 9.96921e36])
def test_absurd_numbers_are_missing(tmp_path, code):
    values = VALUES.copy()
    values[0, 1] = code
    layer = only(write_raster(tmp_path / "a.tif", values))
    assert np.argwhere(np.isnan(layer.read())).tolist() == [[0, 1]]


@pytest.mark.parametrize(
    ("code", "dtype", "others"),
    [
        (-9999, "float32", (0, 30_000)),
        (-9999, "int16", (-2000, 10_000)),
        (-99999, "float64", (-5, 40)),
        (-32768, "int16", (-3000, 9000)),
        (-999, "float32", (-40, 40)),
        (65535, "uint16", (7500, 20_000)),
        (255, "uint8", (0, 100)),
        (1e20, "float32", (0, 5000)),
    ],
)
def test_undeclared_codes_are_found(tmp_path, code, dtype, others):
    values = np.linspace(*others, 12).reshape(3, 4).astype(dtype)
    values[1, 3] = values[2, 0] = code
    layer = only(write_raster(tmp_path / "a.tif", values)).masked()
    assert np.argwhere(np.isnan(layer.read())).tolist() == [[1, 3], [2, 0]]
    assert layer.nodata == (code,)
    assert layer.notes == (
        f"a.tif: the value {code:g} in 2 cells was taken as missing, though the file does not say so.",
    )


@pytest.mark.parametrize(
    ("code", "dtype", "others"),
    [
        (-9999, "float32", (-10_994, 8000)),  # depths of the sea
        (-9999, "float32", (-9000, 9000)),
        (-9999, "float32", (-9950, -9940)),
        (-999, "int16", (-950, 2000)),
        (255, "uint8", (0, 250)),
        (65535, "uint16", (0, 60_000)),
        (9999, "float32", (0, 8000)),
        (255, "float32", (0, 100)),
    ],
)
def test_data_are_not_taken_for_codes(tmp_path, code, dtype, others):
    values = np.linspace(*others, 12).reshape(3, 4).astype(dtype)
    values[1, 3] = code
    layer = only(write_raster(tmp_path / "a.tif", values))
    assert layer.masked() is layer
    assert np.isfinite(layer.read()).all()


def test_codes_are_looked_for_in_a_window_only(tmp_path):
    values = VALUES.copy()
    values[0, 0] = -9999
    layer = only(write_raster(tmp_path / "a.tif", values))
    assert layer.masked(slice(1, 3)) is layer
    assert layer.masked(slice(0, 2)).nodata == (-9999,)


def test_scale_and_offset(tmp_path):
    stored = np.array([[100, 200, -32768, 300]], dtype=np.int16)
    layer = only(write_raster(tmp_path / "a.tif", stored, nodata=-32768, scales=(0.02,), offsets=(-273.15,)))
    np.testing.assert_allclose(layer.read(), [[-271.15, -269.15, NAN, -267.15]], rtol=1e-6)


def test_rows_from_south_to_north(tmp_path):
    upward = Affine(0.5, 0, 30, 0, 0.25, 9.25)
    layer = only(write_raster(tmp_path / "a.tif", VALUES[::-1], upward))
    assert layer.grid == GRID
    np.testing.assert_array_equal(layer.read(), VALUES)
    np.testing.assert_array_equal(layer.read(slice(0, 1), slice(1, 3)), VALUES[:1, 1:3])


def test_longitudes_from_0_to_360(tmp_path):
    values = np.arange(24, dtype=np.float32).reshape(2, 12)
    layer = only(write_raster(tmp_path / "a.tif", values, Affine(30, 0, 0, 0, -60, 60)))
    assert layer.grid.bounds == (-180, -60, 180, 60)
    np.testing.assert_array_equal(layer.read(), np.roll(values, 6, axis=1))
    np.testing.assert_array_equal(layer.read(slice(1, 2), slice(4, 8)), [[22, 23, 12, 13]])
    west = only(write_raster(tmp_path / "b.tif", values, Affine(2, 0, 200, 0, -60, 60)))
    assert west.grid.bounds == (-160, -60, -136, 60)
    centred = only(write_raster(tmp_path / "c.tif", values, Affine(30, 0, -15, 0, -60, 60)))
    assert centred.grid.bounds[0] == pytest.approx(-165)
    pacific = only(write_raster(tmp_path / "d.tif", values, Affine(5, 0, 150, 0, -60, 60)))
    assert pacific.grid.bounds == (150, -60, 210, 60)


@pytest.mark.parametrize("engine", ["nc", "zarr"])
@pytest.mark.parametrize("upward", [False, True])
def test_labelled_files(tmp_path, engine, upward):
    values = np.where(VALUES == 6, NAN, VALUES)
    rain = labelled(values, units="mm")
    dataset = xr.Dataset({"rain": rain, "temp": (rain.dims, VALUES * 2)})
    dataset = dataset.isel(lat=slice(None, None, -1)) if upward else dataset
    encoding = {"rain": {"dtype": "int16", "scale_factor": 0.5, "add_offset": 3.0, "_FillValue": -77}}
    path = tmp_path / f"climate.{engine}"
    write(dataset, path, encoding)
    first, second = open_layers(path)
    assert (first.name, second.name, first.units) == ("rain", "temp", "mm")
    assert first.grid == GRID
    np.testing.assert_array_equal(first.read(), values)
    np.testing.assert_array_equal(second.read(slice(1, 2), slice(1, 3)), VALUES[1:2, 1:3] * 2)
    assert "read as EPSG:4326" in first.notes[0]
    assert [layer.name for layer in open_layers(f"{path}::temp")] == ["temp"]


def write(dataset, path, encoding=None):
    if path.suffix == ".zarr":
        dataset.to_zarr(path, encoding=encoding, consolidated=False)
    else:
        dataset.to_netcdf(path, encoding=encoding)


@pytest.mark.parametrize("engine", ["nc", "zarr"])
def test_reference_system_of_labelled_files(tmp_path, engine):
    import rioxarray  # noqa: F401

    x, y = ("x", 400_500.0 + 1000 * np.arange(4)), ("y", 7_999_000.0 - 2000 * np.arange(3))
    path = tmp_path / f"a.{engine}"
    data = labelled(VALUES, x, y).rename("pop")
    write(data.rio.write_crs("EPSG:32738").to_dataset(), path)
    layer = only(path)
    assert layer.grid == Grid("EPSG:32738", (1000, 0, 400_000, 0, -2000, 8_000_000), 3, 4)
    assert layer.name == "pop"
    assert layer.notes == ()
    bare = tmp_path / f"bare.{engine}"
    write(data.to_dataset(), bare)
    with pytest.raises(ValueError, match=rf"bare\.{engine}: variable 'pop' must say its coordinate.*Add it"):
        open_layers(bare)


def test_dimensions_of_labelled_files(tmp_path):
    single = labelled().expand_dims(time=[3])
    write(single.to_dataset(name="rain"), tmp_path / "a.nc")
    np.testing.assert_array_equal(only(tmp_path / "a.nc").read(), VALUES)
    several = xr.concat([single, single.assign_coords(time=[4])], "time")
    write(several.to_dataset(name="rain"), tmp_path / "b.nc")
    with pytest.raises(ValueError, match=r"b\.nc: variable 'rain' must have two dim.*'time' with 2 entries \(3, 4\)"):
        open_layers(tmp_path / "b.nc")
    write(labelled().transpose("lon", "lat").to_dataset(name="rain"), tmp_path / "c.nc")
    np.testing.assert_array_equal(only(tmp_path / "c.nc").read(slice(1, 3)), VALUES[1:3])


def test_variables_that_are_no_rasters_are_passed_over(tmp_path):
    dataset = xr.Dataset({"__xarray_dataarray_variable__": labelled(), "bounds": ("n", [1.0, 2.0])})
    write(dataset, tmp_path / "rain.nc")
    assert only(tmp_path / "rain.nc").name == "rain"


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        (xr.Dataset({"a": ("n", [1.0, 2.0])}), r"must hold a variable on a regular grid"),
        (labelled(x=("lon", np.array([30.0, 30.5, 31.5, 32]))).to_dataset(name="a"), r"steps of 'lon' differ. Regrid"),
        (labelled(VALUES[:, :1], x=("lon", [30.0])).to_dataset(name="a"), r"at least two finite values of 'lon'"),
    ],
)
def test_labelled_files_that_are_refused(tmp_path, dataset, message):
    write(dataset, tmp_path / "odd.nc")
    with pytest.raises(ValueError, match=message) as error:
        open_layers(tmp_path / "odd.nc")
    assert "odd.nc" in str(error.value)


def test_files_that_are_refused(tmp_path):
    for name in ("gone.tif", "gone.nc", "gone.zarr"):
        with pytest.raises(ValueError, match=rf"there is no .*{name}. Correct the path"):
            open_layers(tmp_path / name)
    for name in ("text.tif", "text.nc"):
        (tmp_path / name).write_text("no raster")
        with pytest.raises(ValueError, match=rf"{name} cannot be read as a raster.*Is the file complete\?"):
            open_layers(tmp_path / name)
    (tmp_path / "empty.zarr").mkdir()
    with pytest.raises(ValueError, match=r"empty\.zarr"):
        open_layers(tmp_path / "empty.zarr")
    path = write_raster(tmp_path / "bare.tif", crs=None)
    with pytest.raises(ValueError, match=r"bare\.tif must say its coordinate reference system.*gdal_edit"):
        open_layers(path)


def test_a_damaged_file_is_refused_when_it_is_read(tmp_path):
    path = write_raster(tmp_path / "cut.tif", np.random.default_rng(0).random((200, 300)))
    path.write_bytes(path.read_bytes()[:100_000])
    with pytest.raises(ValueError, match=r"cut\.tif cannot be read as a raster"):
        only(path).read()
    data = labelled(np.random.default_rng(0).random((3, 4))).to_dataset(name="rain")
    write(data, tmp_path / "cut.zarr", {"rain": {"compressors": None}})
    (chunk,) = (file for file in (tmp_path / "cut.zarr" / "rain" / "c").rglob("*") if file.is_file())
    chunk.write_bytes(b"short")
    with pytest.raises(ValueError, match=r"cut\.zarr cannot be read as a raster.*complete"):
        only(tmp_path / "cut.zarr").read()


def test_bands_that_are_called_alike_are_told_apart_by_number(tmp_path):
    path = write_raster(
        tmp_path / "c.tif", np.stack([VALUES, 2 * VALUES, 3 * VALUES]), descriptions=("a/b", "a b", "d")
    )
    assert [layer.name for layer in open_layers(path)] == ["c_a_b_1", "c_a_b_2", "c_d"]


def test_rasters_that_cannot_be_placed_or_counted(tmp_path):
    for name, more, message in (
        ("moon", {"crs": "+proj=longlat +R=1737400 +no_defs"}, "must lie on the Earth"),
        ("local", {"crs": 'LOCAL_CS["Sheet",UNIT["metre",1],AXIS["X",EAST],AXIS["Y",NORTH]]'}, "a plane of its own"),
        ("metres", {"transform": Affine(900, 0, 4e5, 0, -800, 1e6)}, "look like metres or feet"),
        ("complex", {"values": VALUES.astype(np.complex64)}, "must hold real numbers"),
    ):
        path = write_raster(tmp_path / f"{name}.tif", **more)
        with pytest.raises(ValueError, match=rf"{name}\.tif .*{message}"):
            open_layers(path)


def test_an_archive_with_one_raster(tmp_path):
    path = write_raster(tmp_path / "rain.tif")
    with ZipFile(tmp_path / "rain.zip", "w") as archive:
        archive.write(path, "inner/rain.tif")
    np.testing.assert_array_equal(only(tmp_path / "rain.zip").read(), VALUES)


def test_attributes_as_text(tmp_path):
    data = labelled(VALUES).to_dataset(name="rain")
    data["rain"].attrs |= {"scale_factor": "0.5", "missing_value": "4"}
    write(data, tmp_path / "text.nc")
    np.testing.assert_array_equal(only(tmp_path / "text.nc").read(), np.where(VALUES == 4, np.nan, VALUES / 2))
    data["rain"].attrs["missing_value"] = "none"
    write(data, tmp_path / "none.nc")
    with pytest.raises(ValueError, match=r"none\.nc: variable 'rain': the attribute 'missing_value' must be a number"):
        open_layers(tmp_path / "none.nc")


def test_variables_of_text_are_no_layers(tmp_path):
    data = labelled(VALUES).to_dataset(name="rain")
    data["label"] = data["rain"].astype(str)
    write(data, tmp_path / "two.nc")
    assert [layer.name for layer in open_layers(tmp_path / "two.nc")] == ["rain"]
