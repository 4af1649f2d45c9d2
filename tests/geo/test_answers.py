import warnings

import numpy as np
import pytest
from tiny_country import fitted_model, prepared_country

import vbagg
from vbagg.errors import ClusterError, DataWarning
from vbagg.geo import Prepared, answers, pieces
from vbagg.geo.answers import ask


class Sizes:
    """Asks for the numbers of rows and the sum of their weights; counts what it is asked."""

    def __init__(self, name="sizes", factor=1.0):
        self.name, self.factor, self.asked = name, factor, []

    def told(self):
        return repr(self.factor)

    def answer(self, model, rows):
        self.asked.append(len(rows.pixels))
        warnings.warn("rows were counted", DataWarning, stacklevel=1)
        return self.factor * np.array([[len(rows.pixels)], [rows.pixels["weight"].sum()]])


@pytest.fixture
def source(tmp_path, monkeypatch):
    monkeypatch.setattr(pieces, "PIECE_ROWS", 25)
    own = prepared_country(tmp_path)
    own.save(own.table.parent)
    return Prepared.load(own.table.parent).pieces


pytestmark = pytest.mark.filterwarnings("ignore:rows were counted")


def test_every_piece_is_asked_once(source, tmp_path):
    question, other, told = Sizes(), Sizes("other", 2.0), []
    with pytest.warns(DataWarning, match="rows were counted") as caught:
        found, twice = ask(fitted_model(), source, [question, other], tmp_path / "new", report=told.append)
    assert len(caught) == 1
    assert [int(one[0, 0]) for one in found] == [piece.stop - piece.start for piece in source.all]
    np.testing.assert_array_equal(np.concatenate(list(twice)), 2 * np.concatenate(list(found)))
    assert [entry["pieces"] for entry in told] == list(range(1, len(source.all) + 1))
    assert len(question.asked) == len(other.asked) == len(source.all)


def test_what_is_kept_is_found_again(source, tmp_path):
    ask(fitted_model(), source, [Sizes()], tmp_path / "kept", keep=True)
    for path in sorted((tmp_path / "kept").glob("*.npy"))[:2]:
        path.unlink()
    question = Sizes()
    (found,) = ask(fitted_model(), source, [question], tmp_path / "kept", keep=True)
    assert len(question.asked) == 2
    assert [int(one[0, 0]) for one in found] == [piece.stop - piece.start for piece in source.all]


def test_nothing_stale_is_taken(source, tmp_path):
    """Neither of another question, nor of another model, nor of other pixels, nor damaged."""
    kept, n = tmp_path / "kept", len(source.all)
    ask(fitted_model(), source, [Sizes()], kept, keep=True)
    before = list(kept.glob("*.npy"))

    def asked(model=None, question=None, own=source):
        question = question or Sizes()
        ask(model or fitted_model(), own, [question], kept, keep=True)
        return len(question.asked)

    assert asked() == 0
    assert asked(question=Sizes(factor=3.0)) == n
    whole = vbagg.Bags(np.arange(4.0)[:, None], [0, 0, 1, 1])
    assert asked(model=vbagg.Constant().fit(whole, [3.0, 5.0])) == n
    others = pieces.Pieces(source.table, source.features, source.all, ("other", *source.digests[1:]))
    assert asked(own=others) == 1
    (path,) = [path for path in before if path.name.startswith("sizes-000001-")]
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    assert asked() == 1
    path.write_bytes(path.read_bytes()[:100])
    assert asked() == 1


def test_without_keeping_nothing_there_counts(source, tmp_path):
    ask(fitted_model(), source, [Sizes()], tmp_path / "new")
    question = Sizes()
    ask(fitted_model(), source, [question], tmp_path / "new")
    assert len(question.asked) == len(source.all)


def test_a_folder_that_workers_do_not_share_is_named(tmp_path):
    with pytest.raises(
        ClusterError, match=r"Workers must write to the folders of this process; rates-1\.npy is not in"
    ):
        answers._there(tmp_path / "rates-1.npy")
