"""Places with coordinates: tables and point files, what is guessed, and what is refused."""

import geopandas as gpd
import numpy as np
import pandas as pd
import pytest
from shapely import MultiPoint, Point, box
from small_surveys import CELLS, LAT, LON, surveys
from tiny_country import HEIGHT, TRANSFORM, WIDTH

from vbagg.geo.grid import Grid
from vbagg.geo.places import OFF, read_places

GRID = Grid("EPSG:4326", tuple(TRANSFORM)[:6], HEIGHT, WIDTH)


def layer(crs=4326):
    table = surveys()
    points = gpd.points_from_xy(table.pop("lon"), table.pop("lat"))
    return gpd.GeoDataFrame(table, geometry=points, crs=4326).to_crs(crs)


def test_cells_are_those_that_counting_finds():
    assert read_places(surveys(), "lon,lat").on(GRID).tolist() == CELLS.tolist()


@pytest.mark.parametrize("ending", ["csv", "xlsx", "parquet"])
def test_tables_of_any_kind_are_read(tmp_path, ending):
    path = tmp_path / f"surveys.{ending}"
    table = surveys()
    {"csv": table.to_csv, "xlsx": table.to_excel, "parquet": table.to_parquet}[ending](path, index=False)
    places = read_places(path)
    assert places.at == ("lon", "lat")
    np.testing.assert_allclose(places.x, LON)
    np.testing.assert_allclose(places.y, LAT)
    assert places.where[1] == {"csv": "line 3", "xlsx": "row 3", "parquet": "row 2"}[ending]
    assert places.cells("site", "for tests") == list("abcdefg")


@pytest.mark.parametrize("ending", ["gpkg", "geojson", "shp", "parquet"])
def test_files_of_points_say_where_they_are(tmp_path, ending):
    path, frame = tmp_path / f"surveys.{ending}", layer(4326 if ending == "geojson" else 32736)
    frame.to_parquet(path) if ending == "parquet" else frame.to_file(path)
    for source in (path, frame):
        places = read_places(source)
        assert places.at == ()
        np.testing.assert_allclose(places.degrees(), [LON, LAT], atol=1e-9)
        assert places.on(GRID).tolist() == CELLS.tolist()
        assert places.cells("positive", "for tests")[2] == 17


@pytest.mark.parametrize("names", [("Longitude", "LATITUDE"), ("lng", "lat"), ("X", "Y")])
def test_usual_names_are_known(names):
    places = read_places(surveys().rename(columns=dict(zip(("lon", "lat"), names, strict=True))))
    assert places.at == names
    np.testing.assert_allclose(places.x, LON)


def test_other_systems_of_coordinates_are_named():
    moved = layer(32736).geometry
    table = surveys(lon=moved.x, lat=moved.y).rename(columns={"lon": "east", "lat": "north"})
    places = read_places(table, "east, north", crs="EPSG:32736")
    np.testing.assert_allclose(places.degrees(), [LON, LAT], atol=1e-9)


def test_longitudes_of_another_turn_are_the_same_places():
    places = read_places(surveys(lon=np.array(LON) - 360))
    assert places.on(GRID).tolist() == CELLS.tolist()


def test_rows_without_a_place_are_kept_and_have_no_cell():
    table = surveys(lon=[*LON[:2], None, *LON[3:]]).astype({"lat": object})
    table.loc[4, "lat"] = "NA"
    places = read_places(table)
    assert places.has_place.tolist() == [True, True, False, True, False, True, True]
    assert places.on(GRID).tolist() == [OFF if at in (2, 4) else cell for at, cell in enumerate(CELLS)]


def test_points_without_attributes_and_empty_ones_are_rows():
    frame = gpd.GeoDataFrame(geometry=[Point(30.5, -1.5), Point(), Point(30.6, -1.4)], crs=4326)
    places = read_places(frame)
    assert places.has_place.tolist() == [True, False, True]
    assert places.where == ["row 1", "row 2", "row 3"]


def test_places_off_the_grid_have_no_cell():
    edge = TRANSFORM.c + 0.1 * WIDTH
    table = surveys(lon=[edge + 1e-6, edge - 1e-6, 29.0, *LON[3:]], lat=[*LAT[:6], 40.0])
    assert [cell == OFF for cell in read_places(table).on(GRID)] == [True, False, True, False, False, False, True]


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        (surveys(), {"at": "lon"}, "`--at` must name two columns, longitude first"),
        (surveys(), {"at": "lon,lon"}, "must name two columns"),
        (surveys(), {"at": "lon,latt"}, "points has no column 'latt' of coordinates; did you mean `lat`"),
        (surveys(), {"at": "long,lat"}, r"no column 'long' of coordinates.*`--at LON,LAT`"),
        (surveys().rename(columns={"lon": "o"}), {}, "must have columns of coordinates, such as lon and lat; it has"),
        (surveys(), {"at": "lat,lon", "crs": "EPSG:nonsense"}, "a CRS must be a code such as"),
        (surveys(lat=[99.5, *LAT[1:]]), {}, r"got 30\.412 and 99\.5 \(row 1\)\. Correct the row"),
        (
            surveys(lon=LAT, lat=np.array(LON) + 90),
            {},
            r"got -1\.389 and 120\.412 \(row 1\).*exchanged: `--at lat,lon`",
        ),
        (surveys(lon=np.array(LON) * 1e4, lat=np.array(LAT) * 1e5), {}, "map projection: name it by `--point-crs`"),
        (surveys(lat=["1°20'S", *LAT[1:]]), {}, r"'lat' must be decimal degrees, .*got \"1°20'S\" \(row 1\)"),
        (surveys(lon=["30,4", *LON[1:]]), {}, "'lon' must be decimal degrees, such as -18.91; got '30,4'"),
        (surveys(lon=[True, *LON[1:]]).astype({"lon": object}), {}, "got True"),
        (surveys(lon=pd.Timestamp("2024-03-01")), {}, "got '2024-03-01 00:00:00'"),
        (surveys(lon=np.inf), {}, "got inf"),
        (layer(), {"at": "lon,lat"}, "has points of its own; got `--at lon,lat` too"),
        (layer(), {"crs": "EPSG:4326"}, "has points of its own; got `--point-crs EPSG:4326` too"),
        (layer().set_crs(None, allow_override=True), {}, "must say its coordinate reference system"),
        (layer().iloc[:0], {}, "must hold points; it is empty"),
        (layer().set_geometry([box(0, 0, 1, 1)] * 7, crs=4326), {}, "must hold points; row 1 is a Polygon"),
        (layer().set_geometry([MultiPoint([(30, -1)])] * 7, crs=4326), {}, "row 1 is a MultiPoint"),
    ],
)
def test_what_is_refused(source, options, message):
    with pytest.raises(ValueError, match=message):
        read_places(source, **options)


def test_the_edges_of_a_grid_are_those_of_its_first_cells():
    grid = Grid("EPSG:32736", (10.0, 0.0, 400_000.0, 0.0, -10.0, 9_800_050.0), 5, 4)
    table = surveys(lon=[400_000.0, 400_040.0, 400_000.0, *[400_035.0] * 4], lat=[9_800_050.0] * 2 + [9_800_000.0] * 5)
    table.loc[3:, "lat"] = [9_800_050.0, 9_800_040.0, 9_800_001.0, 9_800_051.0]
    assert read_places(table, crs="EPSG:32736").on(grid).tolist() == [0, OFF, OFF, 3, 7, 19, OFF]


def test_rows_that_must_have_a_place(tmp_path):
    """Facilities: other columns as a frame, coordinates on the map of a raster, and no row without them."""
    table = pd.DataFrame({"lon": [31.5, 30.25], "lat": [-2.0, 1.5], "beds": [12, 7], "name": ["a", "b"]})
    points = gpd.GeoDataFrame(
        table[["beds", "name"]], geometry=gpd.points_from_xy(table["lon"], table["lat"]), crs=4326
    ).to_crs(32636)
    points.to_file(tmp_path / "two.gpkg", layer="clinics")
    points.to_file(tmp_path / "two.gpkg", layer="others")
    for places in (read_places(table, "lon,lat"), read_places(tmp_path / "two.gpkg", layer="clinics")):
        assert places.require_all() is places
        assert places.frame.columns.tolist() == ["beds", "name"]
        assert places.frame["beds"].tolist() == [12, 7]
        np.testing.assert_allclose(places.on_map("EPSG:4326"), table[["lon", "lat"]], rtol=0, atol=1e-9)
    with pytest.raises(ValueError, match="several layers"):
        read_places(tmp_path / "two.gpkg")
    gone = read_places(table.assign(lat=[-2.0, None]), "lon,lat", called="facilities")
    with pytest.raises(ValueError, match=r"facilities must say of every row where it is; row 2 has no coordinates"):
        gone.require_all()
