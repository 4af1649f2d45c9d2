"""Tables of every kind are the same table."""

import datetime
import re
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from counted_districts import CASES, CODES, NAMES, ORDER, PEOPLE, rows, text, workbook

from vbagg.geo.tables import as_column, read_table

EXPECTED = {
    "code": [CODES[k] for k in ORDER],
    "district": [NAMES[k] for k in ORDER],
    "cases": [CASES[k] for k in ORDER],
    "people": [PEOPLE[k] for k in ORDER],
}


def assert_same(table, places=None, names=EXPECTED):
    columns = table.columns()
    assert list(columns) == list(names)
    for name, values in names.items():
        assert columns[name].tolist() == values, name
    assert columns["cases"].dtype == np.int64
    assert columns["people"].dtype == np.float64
    if places is not None:
        assert table.places == places


def frame():
    return pd.DataFrame(rows()[1:], columns=rows()[0])


LINES = [f"line {number}" for number in range(2, 8)]


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_text(tmp_path, separator, encoding, end):
    path = tmp_path / "a.txt"
    path.write_bytes(text(separator=separator).replace("\n", end).encode(encoding))
    table = read_table(path, "code")
    assert_same(table, LINES)
    assert table.of.notes == ()


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252"])
def test_one_byte_for_a_letter(tmp_path, encoding):
    lines = [
        [cell.replace("Ł", "L").replace("ź", "z") if isinstance(cell, str) else cell for cell in r] for r in rows()
    ]
    (tmp_path / "a.csv").write_bytes(text(lines).encode(encoding))
    table = read_table(tmp_path / "a.csv", "code")
    assert table.columns()["district"].tolist() == [line[1] for line in lines[1:]]
    assert table.of.notes == ("it is not UTF-8, and was read as Windows-1252 (Latin-1).",)


def test_quotes_and_what_is_around_them(tmp_path):
    content = 'sep=;\n\n code ;"cases";note\n"007"; "1,234";"two\nlines; and a semicolon"\n\n"10";5;;;\n11\n'
    (tmp_path / "a.csv").write_text(content)
    table = read_table(tmp_path / "a.csv", "code")
    assert table.cells("code") == ["007", "10", "11"]
    assert table.cells("cases") == ["1,234", "5", None]
    assert table.cells("note") == ["two\nlines; and a semicolon", "", None]
    assert table.places == ["line 5", "line 7", "line 8"]


def test_the_known_column_tells_the_separator(tmp_path):
    (tmp_path / "a.csv").write_text("a,b,c;code;cases\n1,2,3;007;4\n5,6,7;010;8\n")
    table = read_table(tmp_path / "a.csv", "code")
    assert table.header == ("a,b,c", "code", "cases")
    assert table.columns()["cases"].tolist() == [4, 8]


def test_excel(tmp_path):
    def with_rest(sheet):
        sheet.insert_rows(4)
        other = sheet.parent.create_sheet("notes")
        other.append(["written by", "hand"])

    table = read_table(workbook(tmp_path / "a.xlsx", change=with_rest), "code", "Sheet")
    assert_same(table, ["row 2", "row 3", "row 5", "row 6", "row 7", "row 8"])


def test_what_a_sheet_shows(tmp_path):
    """Numbers in the format 000 are codes with zeros; hidden and empty sheets do not count."""

    def dressed(sheet):
        for number in range(2, 8):
            sheet.cell(number, 1).value = int(sheet.cell(number, 1).value)
            sheet.cell(number, 1).number_format = "000"
        hidden = sheet.parent.create_sheet("old")
        hidden.append(["code", "cases"])
        hidden.sheet_state = "hidden"
        sheet.parent.create_sheet("empty")

    assert_same(read_table(workbook(tmp_path / "a.csv", change=dressed), "code"))


def test_results_of_formulas(tmp_path, monkeypatch):
    """What was there when the file was saved, of which openpyxl writes nothing."""
    path = workbook(tmp_path / "a.xlsx", change=lambda sheet: setattr(sheet["C4"], "value", "=D4/2"))
    import openpyxl

    loaded = openpyxl.load_workbook

    def with_results(file, data_only):
        book = loaded(file, data_only=data_only)
        if data_only:
            book.active["C4"].value = 6000.5
        return book

    monkeypatch.setattr(openpyxl, "load_workbook", with_results)
    assert read_table(path, "code").columns()["cases"].tolist()[2] == 6000.5


def test_parquet_and_data_frames(tmp_path):
    frame().to_parquet(tmp_path / "a.dat")
    places = [f"row {number}" for number in range(1, 7)]
    assert_same(read_table(tmp_path / "a.dat", "code"), places)
    assert_same(read_table(frame(), "code"), places)
    assert_same(read_table(frame().set_index("code"), "code"), places)
    frame().set_index("code").to_parquet(tmp_path / "b.parquet")
    table = read_table(tmp_path / "b.parquet", "code")
    assert {name: values.tolist() for name, values in table.columns().items()} == EXPECTED


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["3", " 41 ", "+5"], [3, 41, 5]),
        (["3", "", "4.5"], [3.0, None, 4.5]),
        (["3", "NA", "#N/A", None], [3.0, None, None, None]),
        (["007", "12"], ["007", "12"]),
        (["0.5", "0"], [0.5, 0.0]),
        (["1,234", "5"], ["1,234", "5"]),
        (["NA", "SZ"], ["NA", "SZ"]),
        ([True, 1], [True, 1]),
        ([Decimal("2.5"), 3], [2.5, 3.0]),
        ([datetime.date(2026, 3, 1), 3], ["2026-03-01", 3]),
        ([10**20, 1], [1e20, 1.0]),
        ([None, ""], [None, None]),
    ],
)
def test_columns_of_numbers(cells, expected):
    found = [None if value is None or value != value else value for value in as_column(cells)]
    assert found == expected
    assert [type(value) for value in found] == [type(value) for value in expected]


def test_points_are_decimals_unless_separators_say_otherwise(tmp_path):
    for separator, flawed in ((",", False), (";", True)):
        (tmp_path / "a.csv").write_text(text([["code", "a", "b"], ["x", "1.234", "0.234"]], separator))
        table = read_table(tmp_path / "a.csv", "code")
        assert (table.flaw("a") is not None) == flawed
        assert table.flaw("b") is None


def test_rasters_and_databases_are_told_as_such(tmp_path):
    for start, what in ((b"II*\0", "a raster (TIFF)"), (b"SQLite format 3\0", "a database (SQLite), such as a")):
        (tmp_path / "a.csv").write_bytes(start + b"\xff\xc3\xa9\n\xe9" * 9)
        with pytest.raises(ValueError, match=re.escape(f"must be a table; it is {what}")):
            read_table(tmp_path / "a.csv", "code")


def test_columns_called_by_dates_have_no_time(tmp_path):
    dates = [datetime.datetime(2026, 1, 1), datetime.datetime(2026, 2, 1, 6)]
    table = read_table(pd.DataFrame([["x", 3, 4]], columns=["code", *dates]), "code")
    assert table.header == ("code", "2026-01-01", "2026-02-01 06:00:00")
