import numpy as np
import pandas as pd
import pytest
from tiny_country import prepared_country

from vbagg.geo import Prepared, pieces
from vbagg.geo.pieces import whole_runs


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    return prepared_country(tmp_path_factory.mktemp("country"))


def again(prepared):
    """The same data, read anew."""
    prepared.save(prepared.table.parent)
    return Prepared.load(prepared.table.parent)


def test_runs_stay_whole():
    spans = list(whole_runs([3, 4, 9, 20, 21], 6))
    assert [(span.start, span.stop) for span in spans] == [(0, 4), (4, 9), (9, 20), (20, 21)]
    assert list(whole_runs([], 6)) == []


def test_pieces_hold_all_rows_in_order_and_whole_polygons(prepared, monkeypatch):
    monkeypatch.setattr(pieces, "PIECE_ROWS", 25)
    cut = again(prepared).pieces
    assert len(cut.all) > 3
    rows = [cut.rows(piece) for piece in cut.all]
    pd.testing.assert_frame_equal(
        pd.concat([own.pixels for own in rows], ignore_index=True)[prepared.pixels.columns], prepared.pixels
    )
    labels = [label for own in rows for label in own.bags.labels]
    assert labels == list(prepared.bags().labels)
    np.testing.assert_array_equal(np.concatenate([own.bags.X for own in rows]), prepared.bags().X)


def test_data_of_one_piece_are_those_in_memory(prepared):
    (piece,) = prepared.pieces.all
    assert prepared.pieces.rows(piece).bags is prepared.bags()


def test_digests_tell_pieces_apart(prepared, monkeypatch):
    monkeypatch.setattr(pieces, "PIECE_ROWS", 25)
    cut = again(prepared).pieces
    assert len(set(cut.digests)) == len(cut.all)
    assert again(prepared).pieces.digests == cut.digests


def test_pieces_that_disagree_with_the_layers_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(pieces, "PIECE_ROWS", 25)
    own = prepared_country(tmp_path)
    own.save(own.table.parent)
    pixels = pd.read_parquet(own.table)
    pixels.loc[len(pixels) - 2, "height"] += 1
    pixels.to_parquet(own.table, index=False)
    with pytest.raises(ValueError, match=r"pixels must hold what the layers of stack\.tif hold"):
        _ = Prepared.load(own.table.parent).pieces
    pixels.iloc[::-1].to_parquet(own.table, index=False)
    with pytest.raises(ValueError, match="pixels must be sorted by polygon"):
        _ = Prepared.load(own.table.parent).pieces


def test_a_table_that_was_written_again_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(pieces, "PIECE_ROWS", 25)
    own = prepared_country(tmp_path)
    pd.read_parquet(own.table).to_parquet(own.table, index=False)
    with pytest.raises(ValueError, match="was written again since"):
        _ = own.pieces
