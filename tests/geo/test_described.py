import json

import numpy as np
import pytest
import rasterio
import xarray
from geofiles import VALUES, write_polygons, write_raster

from vbagg import geo
from vbagg.geo.described import Described
from vbagg.geo.rasters import open_layers

COVER = np.array([[1, 1, 2, 2], [1, 2, 2, 2], [2, 1, 1, 255]], dtype=np.uint8)


def tagged(path, values=VALUES, band=None, **tags):
    """A raster with tags of its own, or of its band."""
    write_raster(path, values)
    with rasterio.open(path, "r+") as dataset:
        dataset.update_tags(**tags)
        dataset.update_tags(1, **(band or {}))
    return path


@pytest.fixture
def prepared(tmp_path):
    rain = tagged(tmp_path / "rain.tif", np.where(VALUES == 7, np.nan, VALUES), TITLE="Rain of a year", UNITS="mm")
    cover = tagged(tmp_path / "cover.tif", COVER, band={"long_name": "Land cover"})
    with rasterio.open(cover, "r+") as dataset:
        dataset.nodata = 255
    bare = write_raster(tmp_path / "bare.tif", VALUES[::-1])
    polygons = write_polygons(tmp_path / "districts.gpkg")
    people = write_raster(tmp_path / "people.tif", VALUES * 10)
    made = geo.prepare(
        polygons, "name", "cases", people, [rain, bare], categories=[cover], missing="median", folder=tmp_path / "out"
    )
    made.save(tmp_path / "out")
    return made


def test_titles_and_units_of_tags_and_bands(tmp_path):
    (layer,) = open_layers(tagged(tmp_path / "a.tif", TITLE="Of all", UNITS="m"))
    assert (layer.title, layer.units) == ("Of all", "m")
    (layer,) = open_layers(tagged(tmp_path / "b.tif", band={"long_name": "Own", "GRIB_UNIT": "[K]"}, TITLE="Of all"))
    assert (layer.title, layer.units) == ("Own", "[K]")
    (layer,) = open_layers(write_raster(tmp_path / "c.tif", units=("km",), descriptions=("Way",)))
    assert (layer.title, layer.units) == ("Way", "km")
    write_raster(tmp_path / "d.tif", np.stack([VALUES, VALUES]), descriptions=("one", "two"))
    with rasterio.open(tmp_path / "d.tif", "r+") as dataset:
        dataset.update_tags(TITLE="Two bands")
    assert [layer.title for layer in open_layers(tmp_path / "d.tif")] == ["one", "two"]


def test_titles_and_units_of_variables(tmp_path):
    axes = {"lat": [9.5, 9.25, 9.0], "lon": [30.0, 30.5, 31.0, 31.5]}
    data = xarray.Dataset(
        {
            "t2m": (("lat", "lon"), VALUES, {"units": "K", "long_name": "2 metre temperature"}),
            "tas": (("lat", "lon"), VALUES, {"standard_name": "air_temperature"}),
        },
        axes,
    )
    data.to_netcdf(tmp_path / "climate.nc")
    first, second = open_layers(tmp_path / "climate.nc")
    assert (first.title, first.units) == ("2 metre temperature", "K")
    assert (second.title, second.units) == ("air temperature", "")


def test_what_files_say_comes_through_prepare(prepared, tmp_path):
    expected = {
        "rain": Described("Rain of a year", "mm"),
        "rain_missing": Described("Where Rain of a year is missing", ""),
        "cover=1": Described("Land cover, class 1", "part of the cell"),
        "cover=2": Described("Land cover, class 2", "part of the cell"),
        "cover=missing": Described("Where Land cover is missing", "part of the cell"),
    }
    assert prepared.described == expected
    assert set(prepared.covariates) == {*expected, "bare"}
    assert geo.Prepared.load(tmp_path / "out").described == expected


def test_folders_of_before_are_read(prepared, tmp_path):
    path = tmp_path / "out" / "prepared.json"
    document = json.loads(path.read_text())
    del document["described"]
    path.write_text(json.dumps(document))
    assert geo.Prepared.load(tmp_path / "out").described == {}


@pytest.mark.parametrize(
    ("described", "message"),
    [({"snow": {"title": "Snow"}}, "only covariates can be described; 'snow' is none"), ({"rain": "mm"}, "described")],
)
def test_made_up_descriptions_are_refused(prepared, tmp_path, described, message):
    path = tmp_path / "out" / "prepared.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"described": described}))
    with pytest.raises(ValueError, match=message):
        geo.Prepared.load(tmp_path / "out")


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("m s**-1", "m s⁻¹"),
        ("kg m-2 s-1", "kg m⁻² s⁻¹"),
        ("km2", "km²"),
        ("m^3", "m³"),
        ("people/km2", "people/km²"),
        ("degrees C", "°C"),
        ("degree_Celsius", "°C"),
        ("[C]", "°C"),
        ("CO2 ppm", "CO2 ppm"),
        ("PM2.5", "PM2.5"),
        ("1", ""),
        ("Dimensionless", ""),
        ("mm a\nyear", "mm a year"),
    ],
)
def test_units_are_written_as_people_do(said, shown):
    assert Described.of("", said).units == shown


@pytest.mark.parametrize(
    ("own", "name", "label"),
    [
        (Described("Rain of a year", "mm"), "rain", "Rain of a year\nrain (mm)"),
        (Described("Mean temperature", "°C"), "Mean_temperature", "Mean temperature (°C)"),
        (Described("", "m"), "height", "height (m)"),
        (Described(), "height", "height"),
        (Described.of("x" * 300, "y" * 300), "z", f"{'x' * 79}\u2026\nz ({'y' * 79}\u2026)"),
    ],
)
def test_labels_of_axes(own, name, label):
    assert own.labelled(name) == label
