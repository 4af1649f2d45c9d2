from typing import Any

import numpy as np
import pytest

from vbagg.colours import ColourScale, beyond, colour_scale, colour_table, rate_scale, ticks, wants_log


def own_scale(values: object, **options: Any) -> ColourScale:
    return colour_scale(np.array(values, dtype=float), **{"log": False, **options})


def test_limits_leave_out_half_a_percent_on_either_side() -> None:
    values = np.array([np.arange(1001.0), np.full(1001, np.nan)])
    scale = own_scale(values)
    assert scale.limits == (5.0, 995.0)
    assert beyond(scale, values) == (True, True)
    assert beyond(scale, values[:, 5:]) == (False, True)


def test_given_limits() -> None:
    scale = own_scale([[0.2, 0.7]], limits=(0, 1))
    assert scale.limits == (0.0, 1.0)
    assert beyond(scale, np.array([0.2, 0.7])) == (False, False)
    assert [tick.text for tick in scale.ticks] == ["0", "0.25", "0.5", "0.75", "1"]


def test_log_limits_ignore_zeros() -> None:
    scale = own_scale([[0, -1, 1, 100, 100, 1]], log=True)
    assert scale.log
    assert scale.low == pytest.approx(1.0)


def test_log_needs_a_positive_value() -> None:
    assert not own_scale([[0, 0, 0]], log=True).log


@pytest.mark.parametrize("log", [False, True])
def test_a_single_value_has_the_middle_colour(log: bool) -> None:
    scale = own_scale([[4.0, 4.0]], log=log)
    middle = np.sqrt(scale.low * scale.high) if log else (scale.low + scale.high) / 2
    assert middle == pytest.approx(4.0)


@pytest.mark.parametrize(("values", "log"), [([0.01, 1, 100], True), ([1, 3, 9], False), ([-1, 0.01, 100], False)])
def test_values_that_spread_far_have_logarithmic_colours(values: list[float], log: bool) -> None:
    assert wants_log(np.array(values)) == log
    assert colour_scale(np.array(values)).log == log


def test_rates_of_cells_and_polygons_share_a_scale() -> None:
    cells = np.append(np.linspace(10, 30, 1001), np.nan)
    polygons = np.append(np.linspace(4, 24, 101), [np.nan])
    scale = rate_scale(cells, polygons)
    # half a percent of the cells and two percent of the polygons lie beyond
    assert scale.limits == pytest.approx((4.4, 29.9))
    assert not scale.log
    # districts alone spread far; those without cases count for nothing
    scale = rate_scale(cells, np.append(np.geomspace(0.1, 1000, 101), np.zeros(9)))
    assert scale.log
    assert scale.limits == pytest.approx((0.1 * 10**0.08, 1000 / 10**0.08))
    assert not rate_scale(np.append(cells, -1.0), np.geomspace(0.1, 1000, 101)).log
    assert rate_scale(cells, np.full(3, np.nan)).limits == pytest.approx((10.1, 29.9))


def test_matplotlib_has_the_colours_of_the_viewer() -> None:
    for log in (False, True):
        scale = ColourScale(2.0, 50.0, log, "lapaz")
        style = scale.style
        table = bytes.fromhex(colour_table("lapaz"))
        for value in (2.0, 7.3, 31.0):
            place = np.log(value / 2) / np.log(25) if log else (value - 2) / 48
            at = min(255, int(256 * place))
            assert style["cmap"](style["norm"](value), bytes=True)[:3] == tuple(table[3 * at : 3 * at + 3])


@pytest.mark.parametrize(
    ("low", "high", "log", "texts", "places"),
    [
        (0, 10, False, ["0", "2.5", "5", "7.5", "10"], [0, 0.25, 0.5, 0.75, 1]),
        (-3, 5, False, ["\u22122", "0", "2", "4"], [0.125, 0.375, 0.625, 0.875]),
        (0.01, 100, True, ["0.01", "0.1", "1", "10", "100"], [0, 0.25, 0.5, 0.75, 1]),
        (1, 1e8, True, None, None),
        (2e-6, 9e-6, False, ["2 × 10⁻⁶", "4 × 10⁻⁶", "6 × 10⁻⁶", "8 × 10⁻⁶"], None),  # noqa: RUF001
        (5000, 25000, False, ["5,000", "10,000", "15,000", "20,000", "25,000"], None),
        (30, 50, True, ["30", "35", "40", "45", "50"], None),
    ],
)
def test_ticks(low: float, high: float, log: bool, texts: list[str] | None, places: list[float] | None) -> None:
    found = ticks(low, high, log)
    assert 2 <= len(found) <= 5
    assert all(-1e-5 <= tick.place <= 1 + 1e-5 for tick in found)
    if texts is not None:
        assert [tick.text for tick in found] == texts
    if places is not None:
        np.testing.assert_allclose([tick.place for tick in found], places, atol=1e-5)


@pytest.mark.parametrize("seed", range(30))
def test_ticks_of_any_range(seed: int) -> None:
    rng = np.random.default_rng(seed)
    low = 10.0 ** rng.uniform(-7, 6)
    high = low * 10.0 ** rng.uniform(0.02, 7)
    for log in (False, True):
        found = ticks(low, high, log)
        assert 2 <= len(found) <= 5
        assert len({tick.text for tick in found}) == len(found)
        assert np.all(np.diff([tick.place for tick in found]) > 0)


def test_colour_table() -> None:
    from cmcrameri import cm

    table = bytes.fromhex(colour_table("batlow"))
    assert len(table) == 256 * 3
    np.testing.assert_allclose(np.array(list(table[:3])) / 255, cm.batlow.colors[0], atol=1 / 255)
    assert table[:3] == bytes.fromhex(colour_table("batlow_r"))[-3:]
