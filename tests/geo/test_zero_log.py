import numpy as np
import pytest
from matplotlib.figure import Figure

from vbagg.geo.zero_log import ZeroLog


def test_zero_is_apart_from_all_other_numbers():
    axis = ZeroLog.of(np.array([0.0, 3.0, 50.0]))
    assert (axis.low, axis.high, axis.has_zero) == (3.0, 50.0, True)
    places = axis.place(np.array([0.0, 3.0, 11.0, 50.0]))
    np.testing.assert_allclose(places[1:], [3, 11, 50])
    # a seventh of the axis below the least number, by logarithms
    assert np.log(3 / places[0]) == pytest.approx(0.14 * np.log(50 / 3))


def test_without_zeros_there_is_no_place_for_them():
    assert not ZeroLog.of(np.array([2.0, 5.0])).has_zero
    assert ZeroLog.of(np.array([2.0, 5.0]), np.array([0.0, 9.0])).has_zero


def test_ends_of_intervals_are_on_the_axis_unless_they_are_far_out():
    points = np.array([2.0, 30.0])
    axis = ZeroLog.of(points, np.array([0.5, 100.0]))
    assert (axis.low, axis.high) == (0.5, 100.0)
    ends = np.array([1e-6, 0.5, 0.0, 1e7])
    axis = ZeroLog.of(points, ends)
    assert (axis.low, axis.high) == (0.02, 3000.0)
    below, above = axis.beyond(ends)
    assert below.tolist() == [True, False, False, False]
    assert above.tolist() == [False, False, False, True]
    np.testing.assert_allclose(axis.place(ends), [0.02, 0.5, axis.zero, 3000])


@pytest.mark.parametrize("points", [[7.0, 7.0], [0.0, 0.0], [0.0, 7.0]])
def test_an_axis_has_a_length_whatever_is_on_it(points):
    axis = ZeroLog.of(np.array(points))
    assert axis.high / axis.low == pytest.approx(4)
    assert axis.has_zero == (0.0 in points)


@pytest.mark.parametrize("side", ["x", "y"])
def test_marks_begin_with_zero(side):
    axes = Figure().subplots()
    axis = ZeroLog.of(np.array([0.0, 0.7, 60.0]))
    axis.dress(axes, side)
    dressed = axes.xaxis if side == "x" else axes.yaxis
    texts = [text.get_text() for text in dressed.get_ticklabels()]
    assert texts == ["0", "1", "3", "10", "30"]
    np.testing.assert_allclose(dressed.get_ticklocs(), [axis.zero, 1, 3, 10, 30])
    low, high = axes.get_xlim() if side == "x" else axes.get_ylim()
    assert low < axis.zero
    assert high > 60
