"""Tables of shares of areas."""

import numpy as np
import pandas as pd
import pytest
import shapely
from clinics import NAMES, SHARES, TRANSFORM, shares, wards

from vbagg.geo.area_shares import read_shares
from vbagg.geo.grid import Grid
from vbagg.geo.overlay import overlay
from vbagg.geo.polygons import read_polygons

GRID = Grid("EPSG:4326", tuple(TRANSFORM)[:6], 11, 14)


def areas(**columns):
    return read_polygons(wards().assign(**columns), "ward")


def with_rows(*rows, without=()):
    """The table with rows changed: those of some areas are left out, others are added."""
    kept = [row for row in SHARES if row[0] not in without]
    return pd.DataFrame([*kept, *rows], columns=["area", "facility", "share"], dtype=object)


def test_shares_are_those_of_the_table():
    """Whatever the order of its rows."""
    found, names = read_shares(shares(), areas())
    assert names == NAMES
    table = {
        (f"W{area + 1}", names[found.facility[at]]): found.share[at]
        for area in range(6)
        for at in range(found.starts[area], found.starts[area + 1])
    }
    assert table == pytest.approx({(area, facility): share for area, facility, share in SHARES})
    np.testing.assert_allclose(found.sums, [0.9, 1, 0.9, 0.85, 1, 1])
    assert found.notes == ()


def test_pairs_are_sums_over_areas():
    found, names = read_shares(shares(), areas())
    covered = overlay(areas(), GRID)
    expected = {}
    for area, cell, coverage in covered.itertuples(index=False):
        for ward, facility, share in SHARES:
            if ward == f"W{area + 1}":
                key = names.index(facility), cell
                expected[key] = expected.get(key, 0.0) + coverage * share
    pairs = found.pairs(GRID)
    got = {(polygon, cell): share for polygon, cell, share in pairs.itertuples(index=False)}
    assert got == pytest.approx(expected, rel=1e-7)  # coverages are of single precision
    assert list(got) == sorted(got)
    bands = pd.concat([found.pairs(GRID, slice(0, 4)), found.pairs(GRID, slice(4, 11))])
    assert sorted(map(tuple, bands.to_numpy())) == sorted(map(tuple, pairs.to_numpy()))
    assert found.expected_pixels(GRID) == pytest.approx(13 * (1.09 / 3 / 0.1) * (0.24 / 0.05))
    served = np.bincount(covered["cell"], covered["coverage"], GRID.n_cells)
    np.testing.assert_allclose(found.served(GRID, slice(3, 7)), served[3 * 14 : 7 * 14])


def test_people_where_areas_overlap_count_once():
    """Both wards cover all of the country: each has half of every cell."""
    shape = shapely.box(30.2, -1.85, 31.6, -1.3)
    both = read_polygons(wards().iloc[:2].set_geometry([shape, shape], crs=4326), "ward")
    found, _ = read_shares(with_rows(without=("W3", "W4", "W5", "W6")), both)
    sums = found.pairs(GRID).groupby("cell")["coverage"].sum()
    np.testing.assert_allclose(sums, (0.9 + 1.0) / 2)
    np.testing.assert_allclose(found.served(GRID, slice(None)), 1.0)


def test_outlines_are_areas_with_the_largest_share():
    found, names = read_shares(shares(), areas())
    shapes, own = dict(zip(names, found.outlines(), strict=True)), wards().geometry
    assert shapely.equals(shapes["Aba"], own[0])
    assert shapely.equals(shapes["Cima"], own[1])
    assert shapely.equals(shapes["Écu"], own[4].union(own[5]))
    hidden, _ = read_shares(with_rows(("W4", "Fofo", 0.1)), areas())
    assert shapely.equals(hidden.outlines()[-2], own[3])


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("", "Aba", 0.1)], r"must hold a key in column 'area' for every row; row 14 has none"),
        ([("W3", None, 0.1)], r"must hold a key in column 'facility' for every row; row 14 has none"),
        ([("W3", pd.Timestamp("2026-03-01"), 0.1)], r"row 14 holds the date 2026-03-01"),
        ([("W3", "Aba", "")], r"shares from 0 to 1 in column 'share'; row 14 has nothing. Correct it"),
        ([("W3", "Aba", "few")], r"row 14 has 'few'. Correct it"),
        ([("W3", "Aba", -0.1)], r"row 14 has -0.1. Correct it"),
        ([("W3", "Aba", 35), ("W1", "Bero", 20)], r"row 14 has 35, the first of 2 such rows. Percentages must be div"),
        (
            [("W3", "Dolo", 0.05)],
            r"one row for each area and facility; 'W3' and 'Dolo' are there 2 times \(row \d+, row",
        ),
        ([("W3", "Aba", 0.13)], r"those of 'W3' \(row \d+, row \d+\) add up to 1.03. Divide them by their sum"),
        ([("W2", "Bero", 0.4), ("W3", "Aba", 0.2)], r"those of 'W2' .* add up to 1.4, the first of 2 such areas"),
        ([("w 3", "Aba", 0.1)], r"1 row matches none: 'w 3' \(row 14: 'W3' but for capitals and spaces and marks\)"),
        ([("Total", "Aba", 0.1)], r"'Total' \(row 14: a row of totals\?\). Correct the keys of 'area', name the col"),
        ([("W9", "Aba", 0.1), ("W9", "Bero", 0.1)], r"2 rows match none: 'W9' \(row 14\)"),
    ],
)
def test_wrong_rows_are_refused(rows, message):
    with pytest.raises(ValueError, match=message):
        read_shares(with_rows(*rows), areas())


def test_rows_of_other_areas_can_be_dropped():
    found, names = read_shares(with_rows(("W9", "Fofo", 0.5)), areas(), unmatched="drop")
    assert names == NAMES
    assert "left out: 1 row matches none: 'W9'" in found.notes[0]
    with pytest.raises(ValueError, match="13 rows match none"):
        read_shares(shares(), areas(ward=list("abcdef")), unmatched="drop")
    with pytest.raises(ValueError, match="unmatched"):
        read_shares(shares(), areas(), unmatched="keep")


def test_rounded_shares_are_divided_by_their_sum():
    found, _ = read_shares(with_rows(("W6", "Aba", 0.008)), areas())
    np.testing.assert_allclose(found.sums, [0.9, 1, 0.9, 0.85, 1, 1])
    assert "the shares of 1 area ('W6') add up to as much as 1.008 and were divided by their sum" in found.notes[0]


def test_areas_without_shares_are_told():
    found, _ = read_shares(with_rows(("W6", "Aba", 0), without=("W6", "W3")), areas())
    assert "no row has a share of 2 areas ('W3', 'W6'), whose people are taken to attend none" in found.notes[0]
    with pytest.raises(ValueError, match="must have a share above 0"):
        read_shares(with_rows(("W6", "Aba", 0), without=[f"W{k}" for k in range(1, 7)]), areas())


def test_columns_of_other_names():
    table = shares().rename(columns={"area": "ward", "facility": "clinic", "share": "part"})
    found, names = read_shares(table, areas(), ("ward", "clinic", "part"))
    assert (names, len(found.share)) == (NAMES, 13)
    with pytest.raises(ValueError, match=r"no column 'area' of areas.*`--share-columns AREA,FACILITY,SHARE`"):
        read_shares(table, areas())
    with pytest.raises(ValueError, match="no column 'parts' of shares; did you mean `part`"):
        read_shares(table, areas(), ("ward", "clinic", "parts"))
    twice = table.assign(other=1).rename(columns={"other": "part"})
    with pytest.raises(ValueError, match="the column 'part' is there 2 times"):
        read_shares(twice, areas(), ("ward", "clinic", "part"))
