"""Tables and files of places."""

import geopandas as gpd
import numpy as np
import pytest
from clinics import NAMES, table
from shapely import box

from vbagg.geo.places import read_places


def text(tmp_path, **changes):
    """The table as a file, with cells changed: by column, the row and what it gets."""
    frame = table().astype(object)
    for name, (row, cell) in changes.items():
        frame.loc[row, name] = cell
    path = tmp_path / "clinics.csv"
    frame.to_csv(path, index=False)
    return path


def test_the_same_places_whatever_the_file(tmp_path):
    frame = table()
    points = gpd.GeoDataFrame(
        frame.drop(columns=["lon", "lat"]), geometry=gpd.points_from_xy(frame["lon"], frame["lat"]), crs=4326
    )
    frame.to_excel(tmp_path / "clinics.xlsx", index=False)
    frame.to_parquet(tmp_path / "clinics.parquet")
    points.to_file(tmp_path / "clinics.gpkg")
    points.to_crs(32736).to_file(tmp_path / "metres.gpkg")
    points.to_parquet(tmp_path / "points.parquet")
    at = "lon,lat"
    for source, words in (
        (text(tmp_path), {"at": at}),
        (tmp_path / "clinics.xlsx", {"at": " lon , lat"}),
        (tmp_path / "clinics.parquet", {"at": at}),
        (frame, {"at": at}),
        (points, {}),
        (tmp_path / "clinics.gpkg", {}),
        (tmp_path / "metres.gpkg", {}),
        (tmp_path / "points.parquet", {}),
    ):
        places = read_places(source, **words)
        np.testing.assert_allclose(places.on("EPSG:4326"), frame[["lon", "lat"]], rtol=0, atol=1e-9)
        assert places.frame["clinic"].tolist() == NAMES
        assert places.frame["beds"].sum() == 85
        assert not {"lon", "lat", "geometry"} & set(places.frame)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lat": (2, "")}, r"latitudes from -90 to 90 degrees in column 'lat'; line 4 has nothing. Fill it in"),
        ({"lat": (1, 130.5)}, r"line 3 has '130.5'. Write degrees with a decimal point, longitude first"),
        ({"lon": (3, "31,25")}, r"longitudes from -180 to 360 degrees in column 'lon'; line 5 has '31,25'"),
        ({"lon": (0, 731250.0)}, "line 2 has '731250.0'"),
        ({"lon": (0, "E30")}, "line 2 has 'E30'"),
    ],
)
def test_wrong_coordinates_are_refused(tmp_path, changes, message):
    with pytest.raises(ValueError, match=message):
        read_places(text(tmp_path, **changes), "lon,lat")


def test_wrong_words_are_refused(tmp_path):
    path = text(tmp_path)
    points = gpd.GeoDataFrame({"clinic": ["a"]}, geometry=gpd.points_from_xy([30], [-1]), crs=4326)
    points.to_file(tmp_path / "clinics.gpkg")
    areas = points.set_geometry([box(30, -1, 31, 1)])
    for source, at, message in (
        (path, None, "clinics.csv is a table, .* by `--at LON,LAT`"),
        (table(), None, "places is a table"),
        (path, "lon", "must name two columns, .*; got 'lon'"),
        (path, "lon,lon", "must name two columns"),
        (path, "long,lat", "has no column 'long' with longitudes; did you mean `lon`"),
        (path, "lon,latitude", "has no column 'latitude' with latitudes"),
        (tmp_path / "clinics.gpkg", "lon,lat", "has points of its own. Leave it out"),
        (points, "lon,lat", "places has points of its own"),
        (tmp_path / "none.csv", "lon,lat", "there is no"),
        (points.set_crs(None, allow_override=True), None, "must say its coordinate reference system"),
        (points.iloc[:0], None, "at least one point"),
    ):
        with pytest.raises(ValueError, match=message):
            read_places(source, at)
    with pytest.raises(ValueError, match="a point in every row; row 1 has a Polygon"):
        read_places(areas)
