import base64
import json
import zlib

import numpy as np
import pytest

from vbagg.report import Area, AreaTable, Cell, Column, Order
from vbagg.report.table_data import area_blocks, first_areas, in_order, shown_tables

VALUES = [3.0, None, 8.5, -2.0, 3.0, None]


def table(n=6, record=(1.23456789012345, "x", None)):
    areas = [Area(f"A{at}", [Cell(str(at), VALUES[at % len(VALUES)])], record, district=at) for at in range(n)]
    return AreaTable("Areas", "areas", [Column("Name"), Column("B")], areas, [Order("Burden", 1)])


@pytest.mark.parametrize(("falling", "names"), [(True, "A2 A0 A4 A3 A1 A5"), (False, "A3 A0 A4 A2 A1 A5")])
def test_areas_without_a_number_are_last_whatever_the_order(falling, names):
    assert [area.name for area in in_order(table().areas, Order("", 1, falling))] == names.split()


def test_names_can_be_sorted_by():
    assert [area.name for area in in_order(table().areas, Order("", 0, True))] == [f"A{at}" for at in range(5, -1, -1)]


@pytest.mark.parametrize(("n", "printed"), [(6, 6), (25, 25), (26, 20), (400, 20)])
def test_paper_has_all_of_few_rows_and_some_of_many(n, printed):
    assert len(first_areas(table(n))) == printed


def test_data_are_what_the_table_holds():
    shown = shown_tables([table(), table(2)])
    first, second = area_blocks(shown)
    assert [block.identifier for block in (first, second)] == [one.data for one in shown]
    found = json.loads(zlib.decompress(base64.b64decode(first.text)))
    assert [area["cells"] for area in found["areas"]] == [[[str(at), value, ""]] for at, value in enumerate(VALUES)]
    assert found["areas"][2]["record"] == [1.23456789, "x", None]
    assert found["orders"] == [{"title": "Burden", "column": 1, "falling": True}]


def test_bounds_are_by_edge():
    one = Area("A", [Cell("1", 1.0)], bounds=(1.0, 2.0, 3.0, 4.0))
    shown = shown_tables([AreaTable("T", "t", [Column("N"), Column("B")], [one], [Order("o", 1)])])
    found = json.loads(zlib.decompress(base64.b64decode(next(area_blocks(shown)).text)))
    assert found["areas"][0]["bounds"] == {"west": 1.0, "south": 2.0, "east": 3.0, "north": 4.0}


def test_numbers_that_are_none_are_refused():
    with pytest.raises(ValueError, match="Out of range"):
        list(area_blocks(shown_tables([table(record=(np.nan,))])))
