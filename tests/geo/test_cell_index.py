import numpy as np
import pytest
from tiny_country import WIDTH, prepared_country

from vbagg.geo import Prepared, pieces
from vbagg.geo.cell_index import CellIndex, Sorted, best_of_cells

PARTS = [np.array([[2.0, 4, 4, 9], [10, 20, 21, 30]]), np.array([[4.0, 5, 11], [22, 40, 50]])]


@pytest.fixture
def files(tmp_path):
    return Sorted.write(tmp_path / "sorted", "some", iter(PARTS))


def test_rows_between_cells(files):
    assert files.read(files.between(4, 10)).tolist() == [[4, 4, 9, 4, 5], [20, 21, 30, 22, 40]]
    assert files.between(6, 9) == []
    assert files.between(12, 20) == []


def test_rows_of_single_cells(files):
    place, (cell, value) = files.at(np.array([3, 4, 11]))
    assert list(zip(place.tolist(), cell, value, strict=True)) == [(1, 4, 20), (1, 4, 21), (1, 4, 22), (2, 11, 50)]
    place, columns = files.at(np.array([100]))
    assert place.size == 0
    assert columns.shape == (2, 0)


def test_most_coverage_comes_first_and_polygons_without_weight_last():
    cell = np.array([7, 3, 7, 7, 3])
    coverage = np.array([0.2, 0.9, 0.5, 0.5, 0.1])
    assert best_of_cells(cell, coverage, np.array([True, False, True, True, True])).tolist() == [4, 2]


@pytest.mark.parametrize("most", [25, 10_000])
def test_bands_hold_the_pairs_of_their_cells(tmp_path, monkeypatch, most):
    monkeypatch.setattr(pieces, "PIECE_ROWS", most)
    own = prepared_country(tmp_path)
    own.save(own.table.parent)
    prepared = Prepared.load(own.table.parent)
    index = CellIndex.of(prepared, tmp_path / "cells")
    band = index.rows(slice(4, 7))
    polygon, place, coverage = band.pairs
    found = sorted(zip(prepared.polygons.labels[polygon], band.cells[place].tolist(), coverage, strict=True))
    table = prepared.pixels[prepared.pixels["cell"].between(4 * WIDTH, 7 * WIDTH - 1)]
    assert found == sorted(zip(table["polygon"], table["cell"], table["coverage"], strict=True))
    best = table.sort_values("coverage", ascending=False, kind="stable").drop_duplicates("cell").sort_values("cell")
    assert prepared.polygons.labels[polygon[band.best]].tolist() == best["polygon"].tolist()
    assert index.rows(slice(11, 12)) is None
