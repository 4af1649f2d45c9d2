"""Scores and rescaling of `benchmarks/peers.py`, by cases solved by hand."""

import sys
from pathlib import Path

import numpy as np
import pytest

import vbagg

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

import peers
import peers_methods
import peers_scores
import peers_tables
from peers_data import Task
from peers_scores import Prediction

WEIGHT = [1.0, 3.0, 2.0]
TOTALS = np.array([10.0, 3.0])


def task(counts=True, truth=(1.0, 3.0, 5.0), per=10.0):
    """Two bags, of two individuals and of one."""
    bags = vbagg.Bags(np.array([[1.0], [2.0], [4.0]]), ["a", "a", "b"], WEIGHT)
    return Task(bags, TOTALS, np.array(truth), counts, noisy=False, per=per)


def test_counts_are_rescaled_by_a_factor_of_each_bag():
    given = Prediction(np.array([2.0, 1.0, 0.5]), np.array([[4.0, 0.0, 1.0]]), np.array([1.0, 1.0, 0.25]))
    found = peers_scores.rescaled(task(), given)  # 2 * 1 + 1 * 3 = 5 of 10; 0.5 * 2 = 1 of 3
    np.testing.assert_allclose(found.rate, [4.0, 2.0, 1.5])
    np.testing.assert_allclose(found.draws, [[8.0, 0.0, 3.0]])
    np.testing.assert_allclose(found.median, [2.0, 2.0, 0.75])


def test_a_bag_without_rates_gets_its_own():
    found = peers_scores.rescaled(task(), Prediction(np.array([2.0, 1.0, 0.0])))
    np.testing.assert_allclose(found.rate, [4.0, 2.0, 1.5])


def test_other_outputs_are_shifted():
    found = peers_scores.rescaled(task(counts=False), Prediction(np.array([2.0, 1.0, -0.5])))
    np.testing.assert_allclose(found.rate, [3.25, 2.25, 1.5])  # (10 - 5) / 4 and (3 + 1) / 2 more


def test_scores_of_a_point():
    found = peers_scores.scores(task(), Prediction(np.array([2.0, 3.0, 3.0])))
    assert found["r2"] == pytest.approx(1 - 5 / 8)
    assert found["mae"] == found["crps"] == pytest.approx(10.0)
    logs = np.log([2 / 1, 1, 3 / 5])
    assert found["log_rmse"] == pytest.approx(np.sqrt(np.mean(logs**2)))
    assert found["coverage_90"] is None


def test_scores_of_a_distribution():
    """Errors of the median, R2 of the mean; two of three truths lie between all draws."""
    draws = np.array([[0.0, 2.0, 6.0], [2.0, 4.0, 8.0]])
    found = peers_scores.scores(task(), Prediction(np.array([2.0, 3.0, 3.0]), draws, np.array([1.0, 3.0, 8.0])))
    assert found["r2"] == pytest.approx(1 - 5 / 8)
    assert found["mae"] == pytest.approx(10.0)
    # of two draws u < v, without bias: (|u - y| + |v - y|) / 2 - (v - u) / 2
    assert found["crps"] == pytest.approx(10 * (0 + 0 + 1) / 3)
    assert found["coverage_90"] == pytest.approx(2 / 3)


def test_errors_of_bags_add_up_to_the_scores():
    given = Prediction(np.array([2.0, 3.0, 3.0]), median=np.array([1.5, 3.0, 8.0]))
    errors, found = peers_scores.bag_errors(task(), given), peers_scores.scores(task(), given)
    np.testing.assert_allclose(errors["absolute"], [5.0, 30.0])
    np.testing.assert_allclose(errors["squared"], [1 / 8, 4 / 8])
    assert sum(errors["absolute"]) / 3 == pytest.approx(found["mae"])
    assert 1 - sum(errors["squared"]) == pytest.approx(found["r2"])


def test_paired_intervals_resample_bags():
    """Bags drawn twice: 0, 4 or 8 with probabilities 1/4, 1/2, 1/4."""
    assert peers_scores.paired([1.0, 7.0], [1.0, 3.0], 2) == pytest.approx((2.0, 0.0, 4.0))
    assert peers_scores.paired([3.0, 5.0], [1.0, 3.0], 8) == pytest.approx((0.5, 0.5, 0.5))


def test_differences_are_of_all_data_sets_of_a_group():
    def row(data, absolute, squared):
        return {"data": data, "individuals": 2, "raw": {"errors": {"absolute": absolute, "squared": squared}}}

    ours = [row("madagascar-low-0", "1 3", "0.1 0.1"), row("madagascar-low-1", "2 2", "0.2 0.2")]
    peers_rows = [row("madagascar-low-0", "2 4", "0.2 0.2"), row("madagascar-low-1", "3 3", "0.3 0.3")]
    found = peers_tables.differences(peers_rows, ours, "raw")
    assert found["r2"] == pytest.approx((0.2, 0.2, 0.2))  # mean of 0.4 - 0.2 and 0.6 - 0.4
    assert found["mae"] == pytest.approx((50.0, 50.0, 50.0))  # 12 beside 8


def test_settings_are_chosen_by_held_out_totals_and_without_the_truth():
    """Bags of rate 2: the constant 2 is chosen, though the truth says 7."""
    n = 20
    bags = vbagg.Bags(np.arange(2.0 * n)[:, None], np.repeat(np.arange(n), 2), np.tile([1.0, 3.0], n))
    data = Task(bags, np.full(n, 8.0), np.full(2 * n, 7.0), counts=True, noisy=False)

    def predict(known, asked, settings):
        assert np.isnan(known.truth).all()
        assert np.isnan(asked.truth).all()
        assert not set(known.bags.labels) & set(asked.bags.labels)
        return Prediction(np.full(asked.bags.n_individuals, settings["rate"]))

    method = peers_methods.Method(predict, peers_methods.grid(rate=(1.0, 2.0, 7.0)))
    assert peers_methods.tuned(method, data) == {"rate": 2.0}


def test_every_bag_is_held_out_once():
    for n_bags in (7, 301):
        assert (sum(mask.astype(int) for mask in peers_methods.folds(n_bags)) == 1).all()


def test_a_method_whose_package_is_absent_is_left_out(monkeypatch):
    monkeypatch.setattr(peers.importlib.util, "find_spec", lambda name: None)
    assert "tobler is not installed" in peers.reason_to_leave_out("demo", "tobler area")
    assert peers.reason_to_leave_out("demo", "process") is None
