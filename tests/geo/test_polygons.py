from pathlib import Path
from zipfile import ZipFile

import geopandas as gpd
import numpy as np
import pandas as pd
import pyogrio
import pytest
import shapely
from geofiles import districts, write_polygons
from shapely import GeometryCollection, LineString, MultiPolygon, Point, Polygon, box

from vbagg.geo.polygons import read_polygons

BOW_TIE = Polygon([(0, 0), (2, 2), (2, 0), (0, 2)])


@pytest.mark.parametrize("ending", ["gpkg", "shp", "geojson", "parquet"])
def test_every_kind_of_file(tmp_path, ending):
    path = write_polygons(tmp_path / f"d.{ending}")
    polygons = read_polygons(path, "name", columns=["cases"])
    assert polygons.labels.tolist() == ["a", "b"]
    assert polygons.frame["cases"].tolist() == [3.0, 8.0]
    assert polygons.crs == "EPSG:4326"
    assert polygons.file == f"d.{ending}"
    assert polygons.notes == ()
    assert len(polygons) == 2
    expected = districts().geometry
    assert shapely.equals(polygons.geometry, np.asarray(expected)).all()
    assert polygons.bounds == tuple(expected.total_bounds)


def test_a_frame_does_as_well():
    frame = districts().rename_geometry("shape").set_index(pd.Index([7, 5])).assign(**{"n": 1}).rename(columns={"n": 9})
    polygons = read_polygons(frame, "name", columns=["cases"])
    assert polygons.frame.index.tolist() == [0, 1]
    assert polygons.frame.geometry.name == "geometry"
    assert "9" in polygons.frame
    assert "geometry" not in frame


def test_ids(tmp_path):
    path = write_polygons(tmp_path / "d.gpkg", districts(code=[20.0, 10.0]))
    assert read_polygons(path, "code").labels.tolist() == [20, 10]
    assert read_polygons(path, "code").labels.dtype == np.int64
    rows = read_polygons(path)
    assert rows.labels.tolist() == [1, 2]
    assert "d.gpkg: no id was named" in rows.notes[0]
    assert read_polygons(path, "fid").labels.tolist() == [1, 2]


def test_layers(tmp_path):
    path = tmp_path / "d.gpkg"
    write_polygons(path, layer="new")
    write_polygons(path, districts(ids=["c", "d"]), layer="old")
    with pytest.raises(ValueError, match=r"d\.gpkg has several layers: 'new', 'old'. Name one with `layer`"):
        read_polygons(path, "name")
    assert read_polygons(path, "name", layer="old").labels.tolist() == ["c", "d"]
    with pytest.raises(ValueError, match=r"d\.gpkg has no layer 'odl'; did you mean `old`"):
        read_polygons(path, "name", layer="odl")


def test_tables_without_geometry_are_not_layers(tmp_path):
    path = write_polygons(tmp_path / "d.gpkg", layer="districts")
    pyogrio.write_dataframe(pd.DataFrame({"a": [1]}), path, layer="table", append=True)
    assert len(read_polygons(path, "name")) == 2


def test_invalid_geometry_is_repaired_and_noted(tmp_path):
    path = write_polygons(tmp_path / "d.gpkg", districts([BOW_TIE, box(3, 0, 4, 1)]))
    polygons = read_polygons(path, "name")
    assert shapely.is_valid(polygons.geometry).all()
    assert shapely.area(polygons.geometry).tolist() == [2.0, 1.0]
    assert polygons.notes == ("d.gpkg: invalid geometry was repaired in 1 polygon ('a').",)


def test_only_the_parts_with_an_area_are_kept():
    odd = GeometryCollection([box(0, 0, 1, 2), LineString([(5, 5), (6, 6)]), MultiPolygon([box(2, 2, 3, 3)])])
    spike = Polygon([(0, 0), (4, 0), (4, 2), (8, 2), (4, 2), (0, 2)])
    polygons = read_polygons(districts([odd, spike]), "name")
    assert shapely.area(polygons.geometry).tolist() == [3.0, 8.0]
    assert len(polygons.notes) == 1  # on the spike
    assert {shape.geom_type for shape in polygons.geometry} <= {"Polygon", "MultiPolygon"}


def test_heights_are_left_out():
    flat = read_polygons(districts([Polygon([(0, 0, 5), (1, 0, 5), (1, 1, 5)]), box(1, 1, 2, 2)]), "name")
    assert not shapely.has_z(flat.geometry).any()


def test_long_edges_bend_when_they_are_reprojected():
    wide = districts([box(0, 60, 20, 61), box(0, 62, 1, 63)])
    moved = read_polygons(wide, "name").to("EPSG:3035")
    fine = wide.geometry.segmentize(0.001).to_crs("EPSG:3035").area
    np.testing.assert_allclose(shapely.area(moved.geometry), fine, rtol=1e-5)
    corners_only = wide.to_crs("EPSG:3035").area
    assert abs(corners_only / fine - 1).max() > 1e-3
    assert moved.notes == ("polygons: polygons were reprojected from EPSG:4326 to EPSG:3035.",)
    assert moved.to("EPSG:3035") is moved


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (districts(crs=None), r"must say its coordinate reference system.*set_crs"),
        (districts(ids=["a", "a"]), r"distinct ids in column 'name'; 'a' is in rows 1, 2.*Keep one row for each"),
        (districts(ids=["a", " "]), r"id in column 'name' for every polygon; row 2 has none. Fill it in"),
        (districts(ids=["a", None]), r"id in column 'name' for every polygon; row 2 has none. Fill it in"),
        (districts([box(0, 0, 1, 1), Point(0, 0)]), r"must hold polygons; 'b' \(row 2\) is a Point. Remove it"),
        (districts([LineString([(0, 0), (1, 1)]), box(0, 0, 1, 1)]), r"'a' \(row 1\) is a LineString"),
        (districts([box(0, 0, 1, 1), None]), r"'b' \(row 2\) has no geometry. Remove it"),
        (districts([box(0, 0, 1, 1), Polygon()]), r"'b' \(row 2\) has no geometry"),
        (districts([box(0, 0, 1, 1), GeometryCollection([Point(0, 0)])]), r"'b' \(row 2\) is a GeometryCollection"),
        (districts([Polygon([(0, 0), (2, 0), (1, 0)]), box(0, 0, 1, 1)]), r"'a' \(row 1\) has no area"),
        (
            districts(cases=["3", "none yet"]),
            r"'cases' must be a non-negative number.*got 'none yet' for 'b' \(row 2\). Write it",
        ),
        (districts(cases=["3", " "]), r"'cases' must be known in at least 2 polygons; it is in 1 of 2"),
        (districts(cases=["3", "-8"]), r"got '-8' for 'b' \(row 2\). Correct it"),
        (districts(cases=["1,5", "1,50"]), r"got '1,5' for 'a' \(row 1\), the first of 2 such values"),
        (districts(cases=[True, False]), r"got True for 'a' \(row 1\).*Convert"),
        (districts(cases=[3, np.nan]), r"'cases' must be known in at least 2 polygons; it is in 1 of 2"),
        (districts(cases=[-1.0, 3]), r"got -1.0 for 'a' \(row 1\). Correct it"),
        (districts(cases=[1.0, np.inf]), r"got inf for 'b' \(row 2\)"),
        (districts().iloc[:0], r"must hold at least one polygon; it is empty"),
    ],
)
def test_polygons_that_are_refused(tmp_path, frame, message):
    path = write_polygons(tmp_path / "d.parquet", frame)
    with pytest.raises(ValueError, match=message) as error:
        read_polygons(path, "name", columns=["cases"])
    assert "d.parquet" in str(error.value)
    assert "\n" not in str(error.value)


def test_columns_that_are_not_there(tmp_path):
    path = write_polygons(tmp_path / "d.gpkg")
    with pytest.raises(ValueError, match=r"d\.gpkg has no column 'nam' for the id; did you mean `name`"):
        read_polygons(path, "nam")
    with pytest.raises(ValueError, match=r"d\.gpkg has no column 'Case' for the response; did you mean `cases`"):
        read_polygons(path, "name", columns=["Case"])


def test_files_that_are_refused(tmp_path):
    for name in ("gone.gpkg", "gone.parquet"):
        with pytest.raises(ValueError, match=rf"there is no .*{name}. Correct the path"):
            read_polygons(tmp_path / name, "name")
    for name in ("text.gpkg", "text.parquet", "text.shp"):
        (tmp_path / name).write_text("no polygons")
        with pytest.raises(ValueError, match=rf"{name} cannot be read as polygons"):
            read_polygons(tmp_path / name, "name")
    pd.DataFrame({"name": ["a"]}).to_parquet(tmp_path / "table.parquet")
    with pytest.raises(ValueError, match=r"table\.parquet cannot be read as polygons.*Write it as GeoParquet"):
        read_polygons(tmp_path / "table.parquet", "name")
    (tmp_path / "nothing.gpkg").write_bytes(b"")
    with pytest.raises(ValueError, match=r"must not be empty; .*nothing\.gpkg has 0 bytes"):
        read_polygons(tmp_path / "nothing.gpkg", "name")
    with pytest.raises(ValueError, match=r"there is no https:/somewhere/d\.gpkg. Download it first"):
        read_polygons(Path("https://somewhere/d.gpkg"), "name")
    (tmp_path / "table.csv").write_text("name,cases\na,1\n")
    with pytest.raises(ValueError, match=r"table\.csv must hold polygons; it holds no geometry"):
        read_polygons(tmp_path / "table.csv", "name")


def test_columns_are_kept_as_numbers_truth_or_text(tmp_path):
    frame = districts(
        big=pd.array([2, None], dtype="Int64"),
        small=np.array([1, 2], dtype=np.int16),
        yes=[True, False],
        text=["p", None],
        when=pd.to_datetime(["2020-01-01", "2021-01-01"]),
        Cases=[1, 2],
    )
    kept = read_polygons(write_polygons(tmp_path / "d.parquet", frame), "name", columns=["cases"]).frame
    assert [str(kind) for kind in kept.drop(columns="geometry").dtypes] == [
        *("str", "float64", "float64", "int64", "bool", "str")
    ]
    assert isinstance(kept, gpd.GeoDataFrame)
    assert list(kept.columns) == ["name", "cases", "big", "small", "yes", "text", "geometry"]


def test_totals_may_be_text():
    texts = ["1", "1,000", " 23 ", "4 567", "1\u202f234\u202f567", "2'500.5", "1e3", ".5"]
    frame = districts([box(i, 0, i + 1, 2) for i in range(8)], ids="abcdefgh", cases=texts)
    polygons = read_polygons(frame, "name", columns=["cases"])
    assert polygons.frame["cases"].tolist() == [1, 1000, 23, 4567, 1234567, 2500.5, 1000, 0.5]
    (note,) = polygons.notes
    assert "'cases' is text, which was read as numbers, for example '1\\u202f234\\u202f567' as 1234567" in note
    mixed = districts(cases=np.array(["1,200", 7], dtype=object))
    assert read_polygons(mixed, "name", columns=["cases"]).frame["cases"].tolist() == [1200, 7]


def months(jitter=0.0):
    """A row for each of two districts and three months."""
    frame = pd.concat([districts()] * 3, ignore_index=True)
    moved = shapely.transform(frame.geometry.to_numpy(), lambda points: np.round(points + jitter, 4))
    moved[:2] = frame.geometry[:2]
    return frame.set_geometry(gpd.GeoSeries(moved, crs=frame.crs))


@pytest.mark.parametrize("jitter", [0.0, 0.0003])
def test_a_row_for_each_month_is_refused(jitter):
    told = r"each polygon once; its 6 rows have 2 outlines \(rows 1, 3, 5 have the same\).*`--id`"
    with pytest.raises(ValueError, match=told):
        read_polygons(months(jitter), columns=["cases"])
    with pytest.raises(ValueError, match=r"distinct ids in column 'name'.*choose a period or add up the totals"):
        read_polygons(months(jitter), "name", columns=["cases"])
    assert len(read_polygons(months(jitter))) == 6
    assert len(read_polygons(months(jitter).assign(code=range(6)), "code", columns=["cases"])) == 6


def test_alike_polygons_at_other_places_are_not_the_same():
    shapes = [box(0, 0, 1, 1), box(0.2, 0, 1.2, 1), Polygon([(0, -0.2), (1.2, 0.5), (0, 1.2), (-0.2, 0.5)])]
    assert len(read_polygons(districts(shapes, "abc", [1, 2, 4]), columns=["cases"])) == 3


def test_names_of_columns_must_be_distinct(tmp_path):
    frame = districts(Cases=[1, 2])
    with pytest.raises(ValueError, match=r"differ by more than capitals; got 'cases' and 'Cases'. Rename"):
        read_polygons(frame, "name", columns=["cases", "Cases"])
    with pytest.raises(ValueError, match=r"column 'cases' was named twice"):
        read_polygons(frame, "name", columns=["cases", "cases"])
    numbered = read_polygons(districts(Row=[7.0, 5.0]), columns=["Row"])
    assert numbered.frame["Row"].tolist() == [7, 5]
    assert numbered.id == "row_"


@pytest.mark.parametrize(
    ("crs", "message"),
    [
        (
            'LOCAL_CS["Sheet",UNIT["unknown",0],AXIS["X",OTHER],AXIS["Y",OTHER]]',
            r"'Sheet' is a plane of its own.*set_crs",
        ),
        (
            'ENGCRS["Site",EDATUM["peg"],CS[Cartesian,2],AXIS["x",east],AXIS["y",north],LENGTHUNIT["metre",1]]',
            "'Site' is",
        ),
        ("+proj=longlat +R=1737400 +no_defs", r"must lie on the Earth.*radius of 1,737 km"),
        ("EPSG:4978", r"three axes through the Earth's centre"),
    ],
)
def test_places_that_are_not_on_earth(crs, message):
    with pytest.raises(ValueError, match=message):
        read_polygons(districts(crs=crs), "name")


def test_degrees_that_are_none():
    metres = [box(420_000, 4_660_000, 430_000, 4_670_000), box(430_000, 4_660_000, 440_000, 4_665_000)]
    with pytest.raises(ValueError, match=r"got x from 420000 to 440000 .*look like metres or feet"):
        read_polygons(districts(metres), "name")
    swapped = [box(-18, 177, -17, 178), box(-17, 177, -16, 179)]
    with pytest.raises(ValueError, match=r"y from 177 to 179. x and y look swapped"):
        read_polygons(districts(swapped), "name")


def zipped(path, *files):
    with ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "about")
        for file in files:
            archive.write(file, f"shapes v1/{file.name}")
    return path


def test_archives_may_hold_one_file(tmp_path):
    write_polygons(tmp_path / "d.shp")
    parts = sorted(tmp_path.glob("d.*"))
    assert read_polygons(zipped(tmp_path / "a.zip", *parts), "name").labels.tolist() == ["a", "b"]
    other = write_polygons(tmp_path / "e.gpkg")
    with pytest.raises(
        ValueError, match=r"b\.zip must hold one file to read; it holds 'shapes v1/d\.shp', .*Unpack it"
    ):
        read_polygons(zipped(tmp_path / "b.zip", *parts, other), "name")
    with pytest.raises(ValueError, match=r"c\.zip must hold a file that ends in \.shp.*it holds none"):
        read_polygons(zipped(tmp_path / "c.zip"), "name")


@pytest.mark.filterwarnings("ignore:invalid value encountered")  # of shapely, where it makes the polygon
def test_coordinates_must_be_numbers():
    frame = districts([box(0, 0, 1, 1), shapely.from_wkt("POLYGON ((0 0, NaN 1, 2 3, 0 0))")])
    with pytest.raises(ValueError, match=r"'b' \(row 2\) has coordinates that are no numbers"):
        read_polygons(frame, "name")
