"""Numbers with a comma before their decimals."""

import pytest
from counted_districts import text

from vbagg.geo.decimal_commas import with_points
from vbagg.geo.table_lines import Line
from vbagg.geo.tables import read_table

ROWS = [["code", "share", "expected", "cases", "note"], ["007", "0,85", "1,234", "1 234", "1,5"]]
ROWS += [["010", "", "20,5", "12", "a lot"], ["011", "1", "1.020,25", "NA", "2"]]


@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_a_file_whose_separator_is_no_comma_may_have_them(tmp_path, separator):
    (tmp_path / "a.csv").write_text(text(ROWS, separator))
    table = read_table(tmp_path / "a.csv", "code")
    assert table.cells("share") == ["0.85", "", "1"]
    assert table.cells("expected") == ["1.234", "20.5", "1020.25"]
    assert table.cells("cases") == ["1 234", "12", "NA"]
    assert table.cells("note") == ["1,5", "a lot", "2"]
    assert table.cells("code") == ["007", "010", "011"]
    assert table.columns()["expected"].tolist() == [1.234, 20.5, 1020.25]
    assert table.of.notes == ("its numbers have commas before their decimals, for example '0,85', read as 0.85.",)


def test_in_a_file_with_commas_between_cells_they_are_of_thousands(tmp_path):
    (tmp_path / "a.csv").write_text('code,cases\n007,"1,234"\n010,"0,85"\n')
    table = read_table(tmp_path / "a.csv", "code")
    assert table.cells("cases") == ["1,234", "0,85"]
    assert table.of.notes == ()


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["1,234", "12"], None),
        (["1,234", "1,23"], ["1.234", "1.23"]),
        (["1,234", "0,234"], ["1.234", "0.234"]),
        (["1234,567"], ["1234.567"]),
        (["1,234,567"], None),
        (["\u22121,5"], None),
        (["-1,5", "+2"], ["-1.5", "+2"]),
        (["1\u202f234,5"], ["1234.5"]),
        (["1.5", "2,5"], None),
        (["Evry, 1,5"], None),
        (["<5", "2,5"], None),
        ([], None),
    ],
)
def test_commas_that_cannot_be_of_thousands_are_before_decimals(cells, expected):
    lines = [Line(1, ["code", "cases"]), Line(2, [""]), *(Line(at, ["x", cell]) for at, cell in enumerate(cells, 3))]
    found, notes = with_points(lines)
    assert [line.cells[1] for line in found[2:]] == (cells if expected is None else expected)
    assert found[:2] == lines[:2]
    assert [line.number for line in found] == [line.number for line in lines]
    assert bool(notes) == (expected is not None)
