"""Tables that cannot be joined: status 2 and one clear sentence, before any raster is read."""

import datetime
import gzip
import re
import zipfile

import pandas as pd
import pytest
from counted_districts import CODES, ON, rows, text, workbook, write_files

from vbagg.cli import main

pytestmark = pytest.mark.filterwarnings("ignore:.*there are only 6 polygons")
LATIN = text().encode("cp1252", errors="replace")


def changed(place=None, cell=None, at=None, more=(), drop=None, header=None):
    """The table with another cell at (row, column), more rows, without a row, or with other names of columns."""
    lines = rows()
    if place is not None:
        lines[place[0]][place[1]] = cell
    if drop is not None:
        del lines[drop]
    if header is not None:
        lines[0] = header
    return [*lines, *more]


def csv(lines, **options):
    return lambda folder: (folder / "counts.csv").write_text(text(lines, **options), encoding="utf-8")


def raw(content, name="counts.csv"):
    return lambda folder: (folder / name).write_bytes(content)


def excel(lines=None, change=lambda sheet: None):
    return lambda folder: workbook(folder / "counts.xlsx", lines, change)


def several_sheets(sheet):
    for name in ("2019", "2020"):
        sheet.parent.create_sheet(name).append(["code", "cases"])


def merged_header(sheet):
    sheet.merge_cells("C1:D1")


def merged_keys(sheet):
    sheet.merge_cells("A3:A4")


def title_rows(sheet):
    sheet.insert_rows(1, 2)
    sheet["A1"] = "Cases by district, 2019"


def merged_title(sheet):
    title_rows(sheet)
    sheet.merge_cells("A1:D1")


def formula(sheet):
    sheet["C4"] = "=D4/2"


def write_archive(folder):
    with zipfile.ZipFile(folder / "counts.xlsx", "w") as archive:
        archive.writestr("counts.csv", text())


def write_open_document(folder):
    with zipfile.ZipFile(folder / "counts.ods", "w") as archive:
        archive.writestr("content.xml", "<a/>")


def write_half_a_workbook(folder):
    content = workbook(folder / "whole.xlsx").read_bytes()
    (folder / "counts.xlsx").write_bytes(content[: len(content) // 2])


def write_half_a_parquet(folder):
    pd.DataFrame(rows()[1:], columns=rows()[0]).to_parquet(folder / "whole.parquet")
    (folder / "counts.parquet").write_bytes((folder / "whole.parquet").read_bytes()[:300])


def without_zeros():
    return [rows()[0], *([int(line[0]), *line[1:]] for line in rows()[1:])]


FIVE = [rows()[0], *rows()[2:]]  # without 103
TABLES = {
    "there is none": ("counts.csv", lambda folder: None, "there is no .*counts.csv. Correct the path"),
    "a folder": ("counts", lambda folder: (folder / "counts").mkdir(), "must be a file; .*counts is a folder"),
    "no bytes": ("counts.csv", raw(b""), "must not be empty; .* has 0 bytes"),
    "blank lines": ("counts.csv", raw(b"\n\n , \n"), "must hold a table; it is empty"),
    "no rows": ("counts.csv", csv(rows()[:1]), "must have rows below the names of its columns; it has none"),
    "a page": (
        "counts.xls",
        raw(b"\n<html><table><tr><td>code", "counts.xls"),
        r"counts\.xls must be a table; it is a web page",
    ),
    "old Excel": (
        "counts.xls",
        raw(b"\xd0\xcf\x11\xe0" + bytes(600), "counts.xls"),
        "of an Excel before 2007, or is protected",
    ),
    "PDF": ("counts.csv", raw(b"%PDF-1.7 ..."), "it is a PDF document"),
    "gzip": ("counts.csv.gz", raw(gzip.compress(b"code,cases"), "counts.csv.gz"), "it is compressed by gzip"),
    "archive": ("counts.xlsx", write_archive, "it is an archive"),
    "OpenDocument": ("counts.ods", write_open_document, "it is an OpenDocument sheet"),
    "half a workbook": ("counts.xlsx", write_half_a_workbook, "it is half an archive"),
    "half a Parquet file": ("counts.parquet", write_half_a_parquet, "cannot be read as Parquet"),
    "bytes": ("counts.csv", raw(bytes(range(0, 128)) * 9), "it is in no format that is known"),
    "two encodings": (
        "counts.csv",
        raw(text().encode("utf-8") + "555,Besançon,4,5\n".encode("cp1252")),
        "must be in one encoding; some lines are UTF-8, and others are not, the first of them line 8",
    ),
    "no encoding": ("counts.csv", raw(LATIN + b"\x81\n"), "line 8 is neither"),
    "not UTF-16": ("counts.csv", raw(b"\xff\xfe" + b"a\xd8" * 3), "begins as UTF-16, and is not"),
    "open quotes": (
        "counts.csv",
        csv(changed((3, 1), '"Lodz')),
        "must have quotation marks in pairs around whole cells",
    ),
    "one column": ("counts.csv", raw(b"code  cases\n007  3\n"), "set apart by commas, semicolons or tabs"),
    "other key": (
        "counts.csv",
        csv(changed(header=["Code", "district", "cases", "people"])),
        "has no column 'code' to join it by; did you mean `Code`.*--on KEY=COLUMN",
    ),
    "no header": ("counts.csv", csv(rows()[1:]), "no column 'code' .* As its first row holds numbers"),
    "two keys": (
        "counts.csv",
        csv(changed(header=["code", "district", "cases", "code"])),
        "the column 'code' is there 2 times",
    ),
    "no response": (
        "counts.csv",
        csv(changed(header=["code", "district", "deaths", "people"])),
        r"counts\.csv and .*districts\.gpkg have no column 'cases' for the response; known: district, deaths",
    ),
    "two responses": (
        "counts.csv",
        csv(changed(header=["code", "cases", "cases", "people"])),
        "the column 'cases' is there 2 times",
    ),
    "more cells": ("counts.csv", csv(changed((6, 2), "1,520")), "must have 4 cells in each row.* line 7 has 5"),
    "repeated key": (
        "counts.csv",
        csv(changed(more=[["007", "Evry", 9, 1], ["120", "Lodz", 9, 1]])),
        r"each key in column 'code' once; '007' is there 2 times \(line 3, line 8\), as are '120'",
    ),
    "repeated but for spaces": ("counts.csv", csv(changed(more=[[" 101 ", "x", 9, 1]])), "'101' is there 2 times"),
    "no key": (
        "counts.csv",
        csv(changed((3, 0), None)),
        "hold a key in column 'code' for every row; line 4 has none beside 'Łódź', '260'",
    ),
    "keys without zeros": (
        "counts.csv",
        csv(without_zeros()),
        r"2 rows match none: '7' \(line 3: '007' but for leading zeros\), '10' .*; 2 polygons without a row: '007'",
    ),
    "all keys elsewhere": (
        "counts.csv",
        csv([["code", "id", "cases"], *([k, line[0], line[2]] for k, line in enumerate(rows()[1:], 900))]),
        r"such as '900', '901', '902', is in column 'code' of .*By `--on code=id`, 6 of 6 would",
    ),
    "no keys in common": (
        "counts.csv",
        csv([["code", "cases"], ["x", 1], ["y", 2]]),
        "no key in column 'code', such as 'x', 'y', is in .*Name the columns that hold the same keys",
    ),
    "a row of totals": (
        "counts.csv",
        csv(changed(more=[["TOTAL general", None, 1841, None]])),
        r"1 row matches none: 'TOTAL general' \(line 8: a row of totals\?\).*--unmatched drop",
    ),
    "sums without the word": (
        "counts.csv",
        csv(changed(more=[["pays", None, 1841, None]])),
        r"'pays' \(line 8: a row of totals\?\)",
    ),
    "code as a number of a spreadsheet": (
        "counts.csv",
        csv(changed((1, 0), "1.03E+02")),
        r"'1.03E\+02' \(line 2: a code that a spreadsheet has shortened\?\)",
    ),
    "code as a date": (
        "counts.csv",
        csv(changed((1, 0), "03-Jan")),
        r"'03-Jan' \(line 2: a code that a spreadsheet took for a date\?\)",
    ),
    "one polygon with a total": (
        "counts.csv",
        csv([*rows()[:2], *([*row[:2], None, row[3]] for row in rows()[2:])]),
        "'cases' must be known in at least 2 polygons; it is in 1 of 6, the others are empty",
    ),
    "crossed bounds": ("counts.csv", csv(changed((2, 2), "5-1")), r"got '5-1' for '007' \(line 3\)"),
    "a mark that nobody explained": ("counts.csv", csv(changed((2, 2), "*")), "as in `--suppressed 1-4`"),
    "text": (
        "counts.csv",
        csv(changed((1, 2), "few")),
        r"counts\.csv: the response 'cases' must be a non-negative number, .*got 'few' for '103' \(line 2\)",
    ),
    "negative": ("counts.csv", csv(changed((3, 2), -99)), r"got -99 for '120' \(line 4\).*codes for missing values"),
    "point of thousands": (
        "counts.csv",
        csv(changed((6, 2), "1.520"), separator=";"),
        r"the point of '1.520' \(line 7\) may be that of thousands or of decimals",
    ),
    "decimal comma between commas": ("counts.csv", csv(changed((6, 2), '"12,5"')), "got '12,5' for '102'"),
    "several sheets": ("counts.xlsx", excel(change=several_sheets), "has several sheets: 'Sheet', '2019', '2020'"),
    "merged header": ("counts.xlsx", excel(change=merged_header), r"its header has merged cells \(C1:D1\)"),
    "merged keys": ("counts.xlsx", excel(change=merged_keys), "row 4 has none beside .*merged cells must go"),
    "title rows": ("counts.xlsx", excel(change=title_rows), "'code' stands in row 3, below 'Cases by district"),
    "merged title": ("counts.xlsx", excel(change=merged_title), "Remove the rows above row 3"),
    "dates as keys": (
        "counts.xlsx",
        excel(changed((2, 0), datetime.datetime(2026, 1, 2))),
        "row 3 holds the date 2026-01-02, which spreadsheets make of codes",
    ),
    "date as a count": (
        "counts.xlsx",
        excel(changed((2, 2), datetime.datetime(2026, 1, 2))),
        r"got '2026-01-02 00:00:00' for '007' \(row 3\)",
    ),
    "formula": ("counts.xlsx", excel(change=formula), "cell C4 of sheet 'Sheet' has none"),
    "error of a formula": ("counts.xlsx", excel(changed((5, 2), "#REF!")), r"got '#REF!' for '010' \(row 6\)"),
    "empty sheet": ("counts.xlsx", excel([]), "must hold a table; it is empty"),
    "numbers as keys": ("counts.xlsx", excel(without_zeros()), "'7' .row 3: '007' but for leading zeros"),
    "truth values": ("counts.xlsx", excel(changed((4, 2), True)), r"got True for '101' \(row 5\)"),
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def told(capsys, *arguments):
    """What the command says of wrong input, which is one line, with status 2."""
    assert main([*arguments]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("Error: ")
    assert len(lines[0]) < 600
    return lines[0]


@pytest.fixture
def no_rasters(monkeypatch):
    def refuse(*arguments, **options):
        raise AssertionError("rasters were read")

    monkeypatch.setattr("vbagg.geo.layout.open_all", refuse)


@pytest.mark.parametrize("what", TABLES)
def test_bad_tables(folder, capsys, no_rasters, what):
    name, write, message = TABLES[what]
    write(folder)
    inputs = ("--polygons", "districts.gpkg", "--totals", name, "--population", "people.tif", *ON)
    for command in ("prepare", "run"):
        assert re.search(message, told(capsys, command, *inputs, "--out", "out"))
        assert not (folder / "out").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--on", "code"), "`on` goes with a table; none was named. Name it by `--totals`"),
        (("--sheet", "a"), "`sheet` goes with a table"),
        (
            ("--totals", "counts.csv"),
            "counts.csv is joined to polygons by a key. Name the column with it by `--on KEY`",
        ),
        (("--totals", "counts.csv", "--on", "=code"), "is joined to polygons by a key"),
        (("--totals", "counts.csv", "--on", "kode=code"), "districts.gpkg has no column 'kode' to join counts.csv by"),
        (("--totals", "counts.csv", "--on", "wave=code"), "By `--on code`, 6 of 6 would"),
        (("--totals", "counts.csv", "--on", "code", "--sheet", "a"), "`sheet` is for Excel workbooks"),
        (("--totals", "counts.xlsx", "--on", "code", "--sheet", "2019"), "has no sheet '2019'; known: Sheet"),
        (("--totals", "counts.csv", "--on", "code", "--unmatched", "keep"), "'refuse' or 'drop'; got 'keep'"),
    ],
)
def test_options_that_do_not_go_together(folder, capsys, no_rasters, options, message):
    (folder / "counts.csv").write_text(text(), encoding="utf-8")
    workbook(folder / "counts.xlsx")
    inputs = ("--polygons", "districts.gpkg", "--response", "cases", "--resolution", "0.1")
    assert message in told(capsys, "prepare", *inputs, *options, "--out", "out")


def test_keys_of_polygons_must_be_there_once(folder, capsys):
    import geopandas as gpd

    (folder / "counts.csv").write_text(text(), encoding="utf-8")
    frame = gpd.read_file("districts.gpkg")
    for code, message in (("101", r"'101' is there 2 times \(row 3, row 6\)"), (None, "row 6 has none")):
        frame.loc[5, "code"] = code
        frame.to_file("other.gpkg")
        inputs = ("--polygons", "other.gpkg", "--totals", "counts.csv", "--resolution", "0.1", *ON)
        assert re.search(message, told(capsys, "prepare", *inputs, "--out", "out"))


def test_the_check_tells_of_the_table_and_of_all_else(folder, capsys):
    (folder / "counts.csv").write_text(text([*rows(), ["Total", None, 1841, None]]), encoding="utf-8")
    inputs = ("--polygons", "districts.gpkg", "--totals", "counts.csv", "--covariate", "none.tif", *ON)
    assert main(["check", *inputs, "--population", "people.tif"]) == 2
    out = capsys.readouterr().out
    assert out.startswith("2 errors")
    assert "'Total' (line 8: a row of totals?)" in out
    assert "none.tif" in out
    assert CODES[0] not in out
