import geopandas as gpd
import pytest
from shapely import box

from vbagg.geo.names import names_among, names_in, names_of
from vbagg.geo.polygons import Polygons

DISTINCT = ["Ambato", "Antsohihy", "Betafo", "Manja", "Ikongo"]
REGIONS = ["Sofia", "Sofia", "Menabe", "Menabe", "Menabe"]
CODES = ["MG01", "MG02", "MG03", "MG04", "MG05"]


def polygons(id="code", **columns):
    columns = {"code": CODES, **columns}
    shapes = [box(at, 0, at + 1, 2) for at in range(5)]
    return Polygons(gpd.GeoDataFrame(columns, geometry=shapes, crs=4326), id, "districts.gpkg")


@pytest.mark.parametrize(
    ("columns", "found"),
    [
        ({"NAME_1": REGIONS, "NAME_2": DISTINCT}, "NAME_2"),
        ({"district": DISTINCT, "Name": DISTINCT[::-1]}, "Name"),
        ({"ADM2_EN": DISTINCT, "ADM2_PCODE": CODES, "ADM1_EN": DISTINCT}, "ADM2_EN"),
        ({"admin3Name": DISTINCT}, "admin3Name"),
        ({"shapeName": DISTINCT}, "shapeName"),
        ({"MSOA11NM": DISTINCT}, "MSOA11NM"),
        ({"nom_district": DISTINCT}, "nom_district"),
        ({"Município": DISTINCT, "municipio": DISTINCT}, "municipio"),
        ({"name": [1, 2, 3, 4, 5]}, "code"),
        ({"name": ["1", "2", "3", "4", "5"]}, "code"),
        ({"name": REGIONS}, "code"),
        ({"name": ["Ambato", None, None, None, None]}, "code"),
        ({"district_id": DISTINCT, "nomenclature": DISTINCT, "cases": [3, 1, 4, 1, 5]}, "code"),
    ],
)
def test_the_column_of_names_is_found(columns, found):
    assert names_of(polygons(**columns)).column == found


def test_an_id_that_is_a_name_stays():
    assert names_of(polygons("district", district=DISTINCT, name=DISTINCT[::-1])).texts == tuple(DISTINCT)


def test_a_named_column_is_taken_as_it_is():
    found = names_of(polygons(name=DISTINCT, region=REGIONS, number=[7, 8, 9, 10, 7]), "number")
    assert found.texts == ("7 (MG01)", "8", "9", "10", "7 (MG05)")
    assert (found.column, found.repeated) == ("number", 2)
    with pytest.raises(ValueError, match=r"districts.gpkg has no column 'nmae' for the names; did you mean `name`"):
        names_of(polygons(name=DISTINCT), "nmae")


def test_names_that_repeat_or_are_missing_are_told_apart():
    texts = names_of(polygons(name=["Ambato", " Ambato\n", None, "", "Manja"]), "name").texts
    assert texts == ("Ambato (MG01)", "Ambato (MG02)", "MG03", "MG04", "Manja")
    trap = names_of(polygons(name=["A", "A", "A (MG01)", "B", "C"]), "name").texts
    assert len(set(trap)) == 5
    assert trap[0] == "A (MG01)"


def test_tables_without_ids_have_names_or_numbers():
    frame = polygons(name=["A", "A", "C", "D", "E"]).frame
    assert names_in(frame).texts == ("A (1)", "A (2)", "C", "D", "E")
    assert names_in(frame[["code", "geometry"]]).texts == ("1", "2", "3", "4", "5")
    assert names_among(frame[["code", "geometry"]]) is None
