"""Memory that may be kept beside what a process has."""

import math

import numpy as np
import pytest

import vbagg
from vbagg import headroom
from vbagg.inference import sums


def test_resident_bytes_grow_with_what_is_held():
    before = headroom.resident_bytes()
    held = np.ones(20_000_000)
    assert 1e7 < before < 1e11
    assert headroom.resident_bytes() - before == pytest.approx(held.nbytes, rel=0.1)


def test_a_limit_leaves_a_share_of_itself_less_what_is_used(monkeypatch):
    monkeypatch.setattr(headroom, "resident_bytes", lambda: 7e8)
    assert headroom.headroom() == math.inf
    with headroom.within(3e9):
        assert headroom.headroom() == pytest.approx(0.6 * 3e9 - 7e8)
        with headroom.within(None):
            assert headroom.headroom() == math.inf
        assert headroom.headroom() == pytest.approx(1.1e9)
    assert headroom.headroom() == math.inf


@pytest.mark.filterwarnings("ignore")
def test_a_fit_near_its_limit_keeps_nothing_and_finds_the_same(monkeypatch):
    data = vbagg.datasets.swiss_roll(n_bags=12, mean_size=20, std_size=6, seed=1)
    kept, stage = [], sums.Sums._staged

    def watched(self, setting, index):
        found = stage(self, setting, index)
        kept.append(self._bytes)
        return found

    monkeypatch.setattr(sums.Sums, "_staged", watched)

    def objective():
        model = vbagg.VBAgg("poisson", kernel=vbagg.kernels.RBF(), landmarks=8, hyper="point")
        return model.fit(data.bags, data.y).elbo_

    free = objective()
    assert max(kept) > 0
    kept.clear()
    with headroom.within(1e6):
        assert objective() == pytest.approx(free, rel=1e-9)
    assert max(kept) == 0
