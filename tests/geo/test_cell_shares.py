"""Who attends which facility, cell by cell."""

import numpy as np
import pytest
import shapely
from clinics import TRANSFORM

from vbagg.geo.cell_shares import CellShares, attendance, shares_of
from vbagg.geo.grid import Grid
from vbagg.geo.travel import Minutes

GRID = Grid("EPSG:4326", tuple(TRANSFORM)[:6], 3, 4)


def minutes(table):
    """From rows of facility, cell, minutes."""
    facility, cell, taken = np.array(sorted(table), dtype=float).T
    return Minutes(GRID, 3, facility.astype(np.intp), cell.astype(np.int64), taken)


TABLE = [(0, 2, 5.0), (0, 7, 0.0), (1, 2, 15.0), (1, 4, 10.0), (2, 2, 25.0), (2, 4, 10.0)]


def as_dict(found):
    at = np.repeat(np.arange(len(found.cells)), np.diff(found.starts))
    return {(int(found.cells[a]), int(f)): float(s) for a, f, s in zip(at, found.facility, found.share, strict=True)}


def test_shares_are_as_found_by_hand():
    """With a decay of 10 / ln 2 minutes, attraction halves every 10 minutes."""
    found = as_dict(attendance(minutes(TABLE), 10 / np.log(2)))
    seventh = 1 / 7
    expected = {(2, 0): 4 * seventh, (2, 1): 2 * seventh, (2, 2): seventh, (4, 1): 0.5, (4, 2): 0.5, (7, 0): 1.0}
    assert found == pytest.approx(expected, rel=1e-12)


def test_attraction_and_staying():
    """At the cell of facility 0 staying counts as much as a facility next door; elsewhere as one that is nearer."""
    found = as_dict(attendance(minutes(TABLE), 10 / np.log(2), [1, 3, 0.5], staying=0.25))
    half = np.sqrt(0.5)  # 5 minutes
    pulls = np.array([half, 3 * half / 2, 0.5 * half / 4])
    expected = dict(zip([(2, 0), (2, 1), (2, 2)], pulls / (0.25 + pulls.sum()), strict=True))
    expected |= {(4, 1): 1.5 / 2, (4, 2): 0.25 / 2, (7, 0): 1 / 1.25}
    assert found == pytest.approx(expected, rel=1e-12)


def test_short_decays_neither_overflow_nor_vanish():
    found = attendance(minutes(TABLE), 0.001)
    assert as_dict(found)[2, 0] == pytest.approx(1.0)
    assert as_dict(found)[4, 1] == pytest.approx(0.5)
    np.testing.assert_allclose(found.sums, 1.0)
    gone = attendance(minutes(TABLE), 0.001, staying=2.0)
    np.testing.assert_allclose(gone.sums, [0, 0, 1 / 3], atol=1e-12)
    assert gone.pairs(GRID)[["polygon", "cell"]].to_numpy().tolist() == [[0, 7]]


def test_facilities_beyond_reach_get_nobody():
    found = attendance(minutes(TABLE), 20.0, most=10.0)
    assert set(as_dict(found)) == {(2, 0), (4, 1), (4, 2), (7, 0)}
    assert as_dict(found)[2, 0] == 1.0
    with pytest.raises(ValueError, match="Some cell must be within 3 minutes"):
        attendance(minutes(TABLE[:1]), 20.0, most=3.0)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"decay": 0.0}, "`--decay` must be a number of minutes above 0; got 0"),
        ({"decay": 9.0, "staying": -0.5}, "`--staying` must be a number from 0 on; got -0.5"),
        ({"decay": 9.0, "attraction": [1, 2]}, "for each of the 3 facilities"),
        ({"decay": 9.0, "attraction": [1, 0, 2]}, "Leave out facilities that attract nobody"),
    ],
)
def test_wrong_numbers_are_refused(words, message):
    with pytest.raises(ValueError, match=message):
        attendance(minutes(TABLE), **words)


def test_shares_that_are_none_are_refused():
    with pytest.raises(ValueError, match=r"row 1, column 2 are 0.7, 0.4, 1.1 in all. Divide them by their sum"):
        shares_of([6, 6, 3], [0, 1, 1], [0.7, 0.4, 0.9], GRID, 2)
    with pytest.raises(ValueError, match=r"row 0, column 3 are -0.1, 0.9, 0.8 in all"):
        shares_of([3, 6, 3], [0, 1, 1], [-0.1, 0.4, 0.9], GRID, 2)


def test_pairs_on_the_own_grid_and_on_others():
    """Cells of a finer grid have the shares of the cell around them; a grid beyond the shares has none there."""
    own = shares_of([2, 2, 4, 7], [1, 0, 1, 0], [0.25, 0.5, 0.9, 0.8], GRID, 2)
    whole = own.pairs(GRID)
    assert whole["polygon"].tolist() == [0, 0, 1, 1]
    assert whole["cell"].tolist() == [2, 7, 2, 4]
    np.testing.assert_allclose(whole["coverage"], [0.5, 0.8, 0.25, 0.9])
    assert own.pairs(GRID, slice(1, 2))["cell"].tolist() == [7, 4]
    a, b, c, d, e, f = GRID.transform
    finer = Grid(GRID.crs, (a / 2, b, c - a, d, e / 2, f + e), 5, 12)  # two cells to the west, from the second row on
    pairs = finer.centres(own.pairs(finer)["cell"].to_numpy())
    column, row = (np.floor(at).astype(int) for at in GRID.positions(*pairs))
    assert sorted(set(zip(row.tolist(), column.tolist(), strict=True))) == [(1, 0), (1, 3)]
    assert len(own.pairs(finer)) == 8
    assert own.expected_pixels(finer) == pytest.approx(16, rel=1e-3)
    turned = Grid(GRID.crs, (a, b, c + 360, d, e, f), 3, 4)
    assert own.pairs(turned)["cell"].tolist() == whole["cell"].tolist()
    metres = Grid("EPSG:3857", (5565.0, 0, 3361848.0, 0, -5567.0, -144745.0), 6, 8)
    assert set(own.pairs(metres)["polygon"]) == {0, 1}


def test_outlines_are_where_shares_are_largest():
    """The third facility is never the first; it is drawn by the cell where its share is largest."""
    own = shares_of([0, 0, 1, 1, 6, 6, 6], [0, 1, 0, 1, 0, 1, 2], [0.6, 0.3, 0.7, 0.2, 0.2, 0.45, 0.3], GRID, 3)
    shapes = own.outlines()
    a, _, c, _, e, f = GRID.transform
    two = shapely.box(c, f + e, c + 2 * a, f)
    one = shapely.box(c + 2 * a, f + 2 * e, c + 3 * a, f + e)
    assert shapely.equals(shapes[0], two)
    assert shapely.equals(shapes[1], one)
    assert shapely.equals(shapes[2], one)
    assert isinstance(own, CellShares)
