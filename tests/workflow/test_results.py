import geopandas as gpd
import pytest
from shapely import box

from vbagg.workflow.results import RATES, read_polygon_table

NAN = float("nan")


def table(**columns):
    shapes = [box(at, 0, at + 1, 2) for at in range(3)]
    numbers = {name: [3.0, 5.0, 8.0] for name in ("population", *RATES)}
    return gpd.GeoDataFrame({"name": list("abc"), **numbers, **columns}, geometry=shapes, crs=4326)


def test_tables_with_gaps_say_what_is_known(tmp_path):
    path = tmp_path / "polygons.gpkg"
    gaps = {"observed": [3.0, NAN, NAN], "observation": ["observed", "suppressed", "missing"]}
    bounds = {"observed_lower": [3.0, 1.0, NAN], "observed_upper": [3.0, float("inf"), NAN]}
    table(**gaps, **bounds).to_file(path)
    assert read_polygon_table(path, "name", "population")["observed_upper"][1] == float("inf")
    for columns, told in (
        ({"observed": gaps["observed"]}, "in the column 'observation' why a total is not there"),
        (gaps | bounds | {"observation": ["observed", "by plane", "missing"]}, "in the column 'observation'"),
        (gaps, "a column 'observed_lower' of numbers"),
        (gaps | bounds | {"observed_upper": list("abc")}, "a column 'observed_upper' of numbers"),
    ):
        table(**columns).to_file(path)
        with pytest.raises(ValueError, match=told):
            read_polygon_table(path, "name", "population")


def test_complete_tables_may_have_any_other_columns(tmp_path):
    table(observation=["by plane", "on foot", None]).to_file(tmp_path / "polygons.gpkg")
    assert len(read_polygon_table(tmp_path / "polygons.gpkg", "name", "population")) == 3
