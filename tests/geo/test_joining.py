"""Tables joined to polygons."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from counted_districts import CASES, CODES, NAMES, ORDER, PEOPLE, polygons, rows, text

from vbagg.geo import prepare, read_polygons
from vbagg.geo.joining import joined_by
from vbagg.geo.polygon_rows import read_rows

MADAGASCAR = Path(os.environ.get("VBAGG_DATA", "data")) / "madagascar_malaria"


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "counts.csv"
    path.write_text(text(), encoding="utf-8")
    return path


def table_with(tmp_path, lines):
    (tmp_path / "counts.csv").write_text(text(lines), encoding="utf-8")
    return tmp_path / "counts.csv"


@pytest.mark.parametrize("on", ["code", "name=district"])
def test_rows_find_their_polygons(table, on):
    found = read_polygons(polygons(), None, None, ["cases"], joined_by(table, on))
    key = on.partition("=")[0]
    assert found.id == key
    assert found.labels.tolist() == {"code": CODES, "name": NAMES}[key]
    assert found.frame["cases"].tolist() == CASES
    assert found.frame["people"].tolist() == PEOPLE
    assert found.frame["wave"].tolist() == list(range(6))
    assert found.notes == ()
    assert found.path_of("cases") == str(table)
    assert found.path_of("wave") == "polygons"


def test_numbers_match_text_but_zeros_stay(tmp_path):
    """Of polygons with numbers as keys, "101" and 101.0 are the same, and "007" is not 7."""
    frame = polygons().assign(code=[7.0, 10.0, 101.0, 102.0, 103.0, 120.0])
    path = table_with(tmp_path, rows())
    with pytest.raises(
        ValueError,
        match=r"'007' \(line 3: '7' but for leading zeros\).*Make text of the column that has lost its zeros, or leave",
    ):
        read_polygons(frame, None, None, ["cases"], joined_by(path, "code"))
    plain = [rows()[0], *([f"{int(line[0])}.0", *line[1:]] for line in rows()[1:])]
    found = read_polygons(frame, None, None, ["cases"], joined_by(table_with(tmp_path, plain), "code"))
    assert found.frame["cases"].tolist() == CASES


def test_the_table_comes_before_the_polygons_but_for_the_id(table):
    frame = polygons().assign(cases=-1, district=list("uvwxyz"))
    found = read_polygons(frame, "district", None, ["cases"], joined_by(table, "code"))
    assert found.frame["cases"].tolist() == CASES
    assert found.labels.tolist() == list("uvwxyz")
    assert read_polygons(frame, "name", None, ["cases"], joined_by(table, "code")).frame["district"].tolist() == NAMES


def test_an_id_may_come_from_the_table(table):
    assert read_polygons(polygons(), "district", None, ["cases"], joined_by(table, "code")).labels.tolist() == NAMES


def test_responses_that_the_table_lacks_come_from_the_polygons(table):
    found = read_polygons(polygons(), None, None, ["cases", "wave"], joined_by(table, "code"))
    assert found.frame["wave"].tolist() == [0, 1, 2, 3, 4, 5]
    assert found.notes == ("polygons: the response 'wave' was taken from here, since counts.csv has none.",)


def test_thousands_are_told(tmp_path):
    lines = [line if line[2] != 1520 else [line[0], line[1], '"1,520"', line[3]] for line in rows()]
    found = read_polygons(polygons(), None, None, ["cases"], joined_by(table_with(tmp_path, lines), "code"))
    assert found.frame["cases"].tolist() == CASES
    assert found.notes == (
        "counts.csv: the response 'cases' is text, which was read as numbers, for example '1,520' as 1520.",
    )


def test_rows_without_a_polygon_can_be_left_out(tmp_path):
    path = table_with(tmp_path, [*rows(), ["Total", None, sum(CASES), None], ["999", "Elsewhere", "few", 1]])
    found = read_polygons(polygons(), None, None, ["cases"], joined_by(path, "code", unmatched="drop"))
    assert found.frame["cases"].tolist() == CASES
    assert found.notes == (
        "counts.csv: left out, since they match no polygon: 'Total' (line 8: a row of totals?), '999' (line 9).",
    )


def test_polygons_without_a_row_have_no_value(tmp_path):
    """Those of the table are missing there, and a note says so."""
    short = [line for line in rows() if line[0] not in ("101", "120")]
    join = joined_by(table_with(tmp_path, [*short, ["Tota", None, 9, 9]]), "code", unmatched="drop")
    found = read_rows(polygons(), None, None, join)
    np.testing.assert_array_equal(found.frame["cases"], [3, 41, np.nan, 1520, 17, np.nan])
    assert found.frame["district"].isna().tolist() == [False, False, True, False, False, True]
    assert found.origin("cases").places[2:4] == ["no row", "line 5"]
    assert "counts.csv: no row matches 2 polygons ('101', '120'), whose totals are missing; " in found.notes[-1]
    totals = read_polygons(polygons(), None, None, ["cases"], join).totals("cases")
    assert totals.missing.tolist() == [False, False, True, False, False, True]
    refused = joined_by(table_with(tmp_path, [*short, ["Tota", None, 9, 9]]), "code")
    with pytest.raises(ValueError, match=r"1 row matches none: 'Tota' .*; 2 polygons without a row: '101', '120'"):
        read_polygons(polygons(), None, None, ["cases"], refused)
    assert read_polygons(polygons(), None, None, ["wave"], join).frame["cases"].isna().sum() == 2


def test_rows_are_found_whatever_their_order(tmp_path):
    """Fifty polygons by a key with numbers that are no positions."""
    shapes = pd.concat([polygons()] * 9, ignore_index=True).iloc[:50]
    codes = np.random.default_rng(5).permutation(1000)[:50] + 17
    lines = [["code", "cases"], *([code, 3 * code + 1] for code in np.sort(codes))]
    found = read_rows(shapes.assign(code=codes), None, None, joined_by(table_with(tmp_path, lines), "code"))
    assert found.frame["cases"].tolist() == (3 * codes + 1).tolist()


@pytest.mark.parametrize("unmatched", ["keep", ""])
def test_what_becomes_of_rows_is_one_of_two(unmatched):
    with pytest.raises(ValueError, match="must be one of 'refuse', 'drop'"):
        joined_by("counts.csv", "code", unmatched=unmatched)


def test_tables_as_objects(tmp_path):
    frame = pd.DataFrame(rows()[1:], columns=rows()[0]).set_index("code")
    made = prepare(
        polygons(), None, "cases", resolution=0.1, totals=frame, on="code", folder=tmp_path / "out"
    )  # fmt: skip
    assert made.y().to_dict() == dict(zip(CODES, map(float, CASES), strict=True))
    short = prepare(polygons(), None, "cases", resolution=0.1, totals=frame.iloc[1:], on="code", folder=tmp_path / "no")
    assert short.y().isna().sum() == 1
    lost = frame.rename(index={"103": "1O3"})
    with pytest.raises(ValueError, match=r"^totals must have rows that each belong to a polygon"):
        prepare(polygons(), None, "cases", resolution=0.1, totals=lost, on="code", folder=tmp_path / "lost")
    with pytest.raises(ValueError, match=r"^the table is joined to polygons by a key"):
        prepare(polygons(), None, "cases", resolution=0.1, totals=frame, folder=tmp_path / "no")
    assert sorted(ORDER) != ORDER


@pytest.mark.skipif(not MADAGASCAR.is_dir(), reason="there is no data folder")
def test_madagascar_is_the_same_with_its_table(tmp_path):
    """Rows shuffled, and the polygons without their own counts."""
    import geopandas as gpd

    own = gpd.read_file(MADAGASCAR / "districts.gpkg")
    counts = pd.read_csv(MADAGASCAR / "districts.csv", dtype=str).sample(frac=1, random_state=3)
    counts[["ID_2", "cases"]].to_csv(tmp_path / "counts.csv", sep=";", index=False)
    rasters = {"population": MADAGASCAR / "population.tif", "covariates": [MADAGASCAR / "EVI.tif"]}
    column = prepare(own, "ID_2", "cases", **rasters, folder=tmp_path / "column")
    table = prepare(
        own.drop(columns="cases"),
        "ID_2",
        "cases",
        totals=tmp_path / "counts.csv",
        on="ID_2",
        **rasters,
        folder=tmp_path / "table",
    )
    pd.testing.assert_frame_equal(table.pixels, column.pixels)
    pd.testing.assert_series_equal(table.y(), column.y())
    assert table.notes == column.notes
    names = column.polygons.frame.columns
    pd.testing.assert_frame_equal(table.polygons.frame[list(names)], column.polygons.frame)
    assert (tmp_path / "table" / "stack.tif").read_bytes() == (tmp_path / "column" / "stack.tif").read_bytes()
