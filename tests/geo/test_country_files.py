"""The files of a simulated country, read with rasterio and geopandas alone, against the country they come from."""

from __future__ import annotations

import re

import geopandas as gpd
import numpy as np
import pandas as pd
import pytest
import rasterio
import shapely

from vbagg import datasets
from vbagg.geo import country_files
from vbagg.geo.country_files import write_country
from vbagg.geo.country_rasters import COVARIATES

SCALE, SEED, N_DISTRICTS, N_AREAS, DISPERSION = 0.004, 3, 40, 12, 0.1
ARGUMENTS = (SCALE, SEED, N_DISTRICTS, N_AREAS, DISPERSION)
TINY = {"scale": 0.0005, "n_districts": 15, "n_health_areas": 4}
MODIS_RADIUS = 6371007.181


@pytest.fixture(scope="module")
def country():
    return datasets.simulated_country(SCALE, SEED, N_DISTRICTS, DISPERSION)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return write_country(tmp_path_factory.mktemp("country") / "new" / "folder", *ARGUMENTS)


@pytest.fixture(scope="module")
def districts(files):
    return gpd.read_file(files.districts, layer="districts")


@pytest.fixture(scope="module")
def areas(files):
    return gpd.read_file(files.health_areas, layer="health_areas")


def raw(path):
    with rasterio.open(path) as file:
        return file.read(1)


def corners(file, shape):
    """West, south, east and north of every cell, each (rows, columns)."""
    rows, columns = np.indices(shape)
    a, b, c, d, e, f, *_ = file.transform
    assert (b, d) == (0, 0)
    return c + a * columns, f + e * (rows + 1), c + a * (columns + 1), f + e * rows


@pytest.fixture(scope="module")
def land_cells(files, country):
    """Rectangle of each row of `bags.X`, from the population's georeference."""
    with rasterio.open(files.population) as file:
        sides = corners(file, file.shape)
    return shapely.box(*(side.flat[country.pixel] for side in sides))


def fine_points(files, country, n):
    """n * n points within each pixel: longitudes and latitudes (pixels, n * n)."""
    with rasterio.open(files.population) as file:
        west, south, east, north = (side.flat[country.pixel] for side in corners(file, file.shape))
    u, v = (grid.ravel() for grid in np.meshgrid(*[(np.arange(n) + 0.5) / n] * 2))
    return west[:, None] + np.outer(east - west, u), south[:, None] + np.outer(north - south, v)


def column(country, name):
    return country.bags.X[:, country.bags.feature_names.index(name)]


def assert_same_land(polygons, land_cells):
    """Together they are the cells, and they do not overlap."""
    shapes, land = polygons.geometry.to_numpy(), shapely.union_all(land_cells)
    assert shapely.union_all(shapes).symmetric_difference(land).area < 1e-9 * land.area
    assert shapely.area(shapes).sum() == pytest.approx(land.area, rel=1e-9)


# Polygons


def test_districts_have_ids_names_and_the_cases_of_the_country(districts, country):
    assert list(districts.columns) == ["id", "name", "cases", "geometry"]
    assert districts["id"].tolist() == country.bags.labels.tolist()
    assert districts["id"].iloc[11] == "D0012"
    assert districts["name"].is_unique
    assert districts["name"].str.fullmatch("[A-Z][a-z]+").all()
    assert districts["cases"].dtype.kind == "i"
    np.testing.assert_array_equal(districts["cases"], country.y)
    assert districts.crs.to_epsg() == 4326


def test_districts_are_valid_and_cover_the_land_cells_once(districts, land_cells):
    assert districts.is_valid.all()
    assert shapely.coverage_is_valid(districts.geometry.to_numpy())  # no overlap, no gap, edges shared
    assert_same_land(districts, land_cells)
    assert (shapely.get_num_geometries(districts.geometry.to_numpy()) == 1).all()


def test_every_cell_lies_in_its_own_district(districts, land_cells, country):
    point, polygon = districts.sindex.query(shapely.centroid(land_cells), predicate="within")
    np.testing.assert_array_equal(point, np.arange(len(land_cells)))
    np.testing.assert_array_equal(polygon, country.bags.bag)


def test_zonal_sums_of_the_population_are_those_of_the_bags(districts, files, country):
    with rasterio.open(files.population) as file:
        people, west, south, east, north = file.read(1), *corners(file, file.shape)
    inside = people >= 0
    centres = shapely.points((west + east)[inside] / 2, (south + north)[inside] / 2)
    point, polygon = districts.sindex.query(centres, predicate="within")
    assert len(point) == inside.sum() == country.bags.n_individuals
    sums = np.bincount(polygon, people[inside][point].astype(float))
    np.testing.assert_allclose(sums, 1000 * country.bags.totals(), rtol=1e-6)
    assert sums.sum() == pytest.approx(24.2e6, rel=0.01)


def test_health_areas_divide_the_same_land_and_cross_districts_and_cells(areas, districts, land_cells):
    assert list(areas.columns) == ["id", "name", "geometry"]
    assert areas["id"].tolist() == [f"H{number:03d}" for number in range(1, N_AREAS + 1)]
    assert not set(areas["name"]) & set(districts["name"])
    assert areas.crs.to_epsg() == 4326
    assert areas.is_valid.all()
    assert_same_land(areas, land_cells)
    _, parts = areas.sindex.query(shapely.buffer(districts.geometry.to_numpy(), -0.1), predicate="intersects")
    assert len(parts) > 1.5 * N_DISTRICTS
    _, parts = areas.sindex.query(shapely.buffer(land_cells, -0.01), predicate="intersects")
    assert len(parts) > 1.05 * len(land_cells)


# Rasters


def test_population_counts_people_and_declares_its_code(files, country):
    with rasterio.open(files.population) as file:
        assert (file.dtypes, file.nodata, file.units) == (("float32",), -99999, ("people",))
        assert file.shape == country.shape
        assert file.crs.to_epsg() == 4326
        assert file.bounds.left == -41
        assert file.bounds.top == 13.5
        assert file.res[0] == pytest.approx(country.pixel_km * 360 / (2 * np.pi * 6371), rel=1e-4)
        assert file.tags()["UNITS"] == "people"
    people = raw(files.population)
    np.testing.assert_allclose(people.flat[country.pixel], 1000 * country.bags.weight, rtol=1e-6)
    assert (np.delete(people.ravel(), country.pixel) == -99999).all()


def test_truth_is_the_rate_per_person_on_the_grid_of_the_population(files, country):
    with rasterio.open(files.truth) as file, rasterio.open(files.population) as population:
        assert file.transform == population.transform
        assert file.units == ("cases per person a year",)
    rate = raw(files.truth)
    np.testing.assert_allclose(1000 * rate.flat[country.pixel], country.rate, rtol=1e-6)
    assert np.isnan(np.delete(rate.ravel(), country.pixel)).all()


def test_covariates_say_what_they_are(files, country):
    assert set(country.relevant) < set(files.covariates)
    for name, path in files.covariates.items():
        with rasterio.open(path) as file:
            assert file.descriptions == (name,)
            assert file.units == (file.tags()["UNITS"],) == (COVARIATES[name].units,)
            assert file.tags()["TITLE"]
            assert file.tags()["SOURCE"] == "simulated by vbagg"


def test_distance_to_water_leaves_its_code_undeclared(files, country):
    with rasterio.open(files.covariates["distance_to_water"]) as file:
        assert file.nodata is None
    values = raw(files.covariates["distance_to_water"])
    np.testing.assert_allclose(values.flat[country.pixel], column(country, "distance_to_water"), rtol=1e-6)
    assert (np.delete(values.ravel(), country.pixel) < -3.4e38).all()


def test_elevation_is_whole_metres_in_a_smaller_frame(files, country):
    expected = country.raster(column(country, "elevation"))
    rows, columns = (np.flatnonzero(np.isfinite(expected).any(axis=axis)) for axis in (1, 0))
    with rasterio.open(files.covariates["elevation"]) as file, rasterio.open(files.population) as population:
        assert (file.dtypes, file.nodata) == (("int16",), -9999)
        assert file.shape == (np.ptp(rows) + 1, np.ptp(columns) + 1)
        west, north = population.xy(rows[0], columns[0], offset="ul")
        assert (file.bounds.left, file.bounds.top) == pytest.approx((west, north))
        assert file.res == population.res
    stored = raw(files.covariates["elevation"])
    expected = expected[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    np.testing.assert_array_equal(stored, np.where(np.isnan(expected), -9999, np.rint(np.nan_to_num(expected))))


@pytest.mark.parametrize(
    ("name", "dtype", "nodata", "scale", "offset"),
    [("night_lights", "uint8", 255, 0.25, 0.0), ("lst_day", "uint16", 0, 0.02, -273.15)],
)
def test_scaled_integers_come_back_to_half_a_step(files, country, name, dtype, nodata, scale, offset):
    with rasterio.open(files.covariates[name]) as file:
        assert (file.dtypes, file.nodata, file.scales, file.offsets) == ((dtype,), nodata, (scale,), (offset,))
    stored = raw(files.covariates[name]).flat[country.pixel]
    known = stored != nodata
    assert known.mean() > 0.9
    error = stored[known] * scale + offset - column(country, name)[known]
    assert np.abs(error).max() <= scale / 2 + 1e-9
    assert np.abs(error).max() > 0.3 * scale


def test_clouds_hide_some_of_the_inland_in_patches(files, country):
    land = np.isfinite(country.raster(country.rate))
    hidden = land & (raw(files.covariates["lst_day"]) == 0)
    assert hidden.sum() == pytest.approx(0.06 * land.sum(), abs=1.5)
    for name in set(COVARIATES) - {"lst_day", "elevation", "temperature_suitability", "rainfall"}:
        with rasterio.open(files.covariates[name]) as file:
            values = file.read(1, masked=True)
        assert np.isfinite(values.filled(np.nan) if values.dtype.kind == "f" else values)[land].all()
    beside = np.mean(hidden[:, 1:][hidden[:, :-1]])
    assert beside > 0.4
    assert not (raw(files.covariates["lst_day"]) != 0)[~land].any()


@pytest.mark.parametrize("name", ["temperature_suitability", "rainfall"])
def test_coarse_cells_hold_the_mean_of_the_land_in_them(files, country, name):
    longitude, latitude = fine_points(files, country, 13)
    if name == "rainfall":
        x, y, side = longitude, latitude, 0.25
    else:
        x = MODIS_RADIUS * np.radians(longitude) * np.cos(np.radians(latitude))
        y, side = MODIS_RADIUS * np.radians(latitude), 2500 * country.pixel_km
    with rasterio.open(files.covariates[name]) as file:
        assert file.nodata == -9999
        assert file.res == pytest.approx((side, side))
        assert (file.crs.to_epsg() == 4326) == (name == "rainfall")
        assert (file.bounds.left / side) % 1 == pytest.approx(0, abs=1e-9)
        stored, transform = file.read(1).astype(float), file.transform
    row, place = np.floor((y - transform.f) / transform.e).astype(int), np.floor((x - transform.c) / side).astype(int)
    assert row.min() >= 0
    assert place.min() >= 0
    assert place.max() < stored.shape[1]
    flat = (row * stored.shape[1] + place).ravel()
    count = np.bincount(flat, minlength=stored.size)
    values = np.repeat(column(country, name), longitude.shape[1])
    mean = np.bincount(flat, values, minlength=stored.size) / np.maximum(count, 1)
    spread = column(country, name).std()
    whole, error = count > 0.8 * count.max(), np.abs(stored.ravel() - mean)
    assert whole.sum() > 200
    np.testing.assert_array_equal(stored.ravel()[count == 0], -9999)
    assert (count == 0).any()
    assert (stored.ravel()[count > 0.05 * count.max()] != -9999).all()
    assert error[whole].max() < 0.1 * spread  # a pixel's edge is sampled at a tenth of its side
    assert error[whole].mean() < 0.01 * spread


# Truth by polygon


def test_truth_of_districts_sums_people_and_expected_cases(files, districts, country):
    truth = pd.read_csv(files.truth_districts)
    assert list(truth.columns) == ["id", "name", "cases", "population", "expected_cases", "rate_per_person"]
    for name in ("id", "name", "cases"):
        assert truth[name].tolist() == districts[name].tolist()
    np.testing.assert_allclose(truth["population"], 1000 * country.bags.totals())
    np.testing.assert_allclose(truth["expected_cases"], country.expected)
    np.testing.assert_allclose(truth["rate_per_person"] * truth["population"], country.expected)


def test_truth_of_health_areas_shares_cells_by_area(files, areas, country):
    truth = pd.read_csv(files.truth_health_areas)
    assert list(truth.columns) == ["id", "name", "population", "expected_cases", "rate_per_person"]
    assert truth["id"].tolist() == areas["id"].tolist()
    longitude, latitude = fine_points(files, country, 6)
    point, area = areas.sindex.query(shapely.points(longitude, latitude).ravel(), predicate="within")
    weight = np.repeat(country.bags.weight / 36, 36)
    people = np.bincount(area, weight[point], minlength=N_AREAS)
    cases = np.bincount(area, (weight * np.repeat(country.rate, 36))[point], minlength=N_AREAS)
    np.testing.assert_allclose(truth["population"], 1000 * people, rtol=0.01)
    np.testing.assert_allclose(truth["expected_cases"], cases, rtol=0.01)
    assert truth["population"].sum() == pytest.approx(1000 * country.bags.weight.sum(), rel=1e-9)
    assert truth["expected_cases"].sum() == pytest.approx(country.expected.sum(), rel=1e-9)


# Folder


def test_readme_lists_every_file_and_its_command_names_existing_ones(files):
    text = files.readme.read_text()
    found = {path.relative_to(files.folder).as_posix() for path in files.folder.rglob("*") if path.is_file()}
    assert found == set(re.findall(r"^  (\S+\.(?:tif|gpkg|csv)) ", text, re.MULTILINE)) | {"README.txt"}
    assert files.command in text
    named = set(re.findall(r"\S+\.(?:tif|gpkg)", files.command))
    assert named == found - {"README.txt"} - {name for name in found if name.startswith("truth/")}
    assert f"{N_DISTRICTS} districts" in text
    assert f"{N_AREAS} health areas" in text
    assert max(map(len, text.splitlines())) <= 120


def test_equal_seeds_give_equal_files_and_others_differ(tmp_path):
    one, same, other = (
        write_country(tmp_path / name, seed=seed, **TINY) for name, seed in zip("abc", (2, 2, 5), strict=True)
    )
    for path in (path for path in one.folder.rglob("*") if path.is_file()):
        place = path.relative_to(one.folder)
        assert path.read_bytes() == (same.folder / place).read_bytes(), place
        assert path.read_bytes() != (other.folder / place).read_bytes(), place
    names, others = (gpd.read_file(files.districts)["name"].tolist() for files in (one, other))
    assert names != others


def test_folder_with_content_is_refused_unless_overwritten(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    (tmp_path / "population.tif").write_text("old")
    with pytest.raises(ValueError, match=r"`folder` must be new or empty; .* holds 'mine.txt', 'population.tif'. .*"):
        write_country(tmp_path, **TINY)
    assert (tmp_path / "population.tif").read_text() == "old"
    files = write_country(tmp_path, **TINY, overwrite=True)
    assert raw(files.population).max() > 0
    assert (tmp_path / "mine.txt").read_text() == "mine"
    assert not list(tmp_path.glob(".*"))


def test_a_file_in_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(ValueError, match=r"`folder` must be a folder; .*taken is a file"):
        write_country(tmp_path / "taken", **TINY)


@pytest.mark.parametrize("wrong", [{"n_health_areas": 1}, {"n_health_areas": 600}, {"scale": 1e-9}])
def test_wrong_numbers_are_refused_before_anything_is_written(tmp_path, wrong):
    with pytest.raises(ValueError, match=f"`{next(iter(wrong))}` must be"):
        write_country(tmp_path / "out", **{**TINY, **wrong})
    assert not (tmp_path / "out").exists()


def test_an_interrupted_write_leaves_nothing(tmp_path, monkeypatch):
    def stop(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(country_files, "_readme", stop)
    with pytest.raises(KeyboardInterrupt):
        write_country(tmp_path / "new" / "out", **TINY)
    assert not list(tmp_path.iterdir())
