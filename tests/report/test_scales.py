from typing import Any

import numpy as np
import pytest

from vbagg.report import MapLayer
from vbagg.report.scales import Scale, colour_table, scale_of, ticks


def layer(values: object, **options: Any) -> MapLayer:
    return MapLayer(
        **{"name": "rate", "label": "Rate", "units": "", "values": np.array(values, dtype=float), **options}
    )


def own_scale(values: object, **options: Any) -> Scale:
    made = layer(values, **options)
    scale = scale_of(made, {made.name: made})
    assert scale is not None
    return scale


def test_limits_leave_out_half_a_percent_on_either_side() -> None:
    scale = own_scale([np.arange(1001.0), np.full(1001, np.nan)])
    assert (scale.low, scale.high, scale.below, scale.above) == (5.0, 995.0, True, True)


def test_given_limits() -> None:
    scale = own_scale([[0.2, 0.7]], limits=(0, 1))
    assert (scale.low, scale.high, scale.below, scale.above) == (0.0, 1.0, False, False)
    assert [tick.text for tick in scale.ticks] == ["0", "0.25", "0.5", "0.75", "1"]


def test_log_limits_ignore_zeros() -> None:
    scale = own_scale([[0, -1, 1, 100, 100, 1]], log=True)
    assert scale.log
    assert scale.low == pytest.approx(1.0)
    assert scale.below


def test_log_needs_a_positive_value() -> None:
    assert not own_scale([[0, 0, 0]], log=True).log


@pytest.mark.parametrize("log", [False, True])
def test_a_single_value_has_the_middle_colour(log: bool) -> None:
    scale = own_scale([[4.0, 4.0]], log=log)
    middle = np.sqrt(scale.low * scale.high) if log else (scale.low + scale.high) / 2
    assert middle == pytest.approx(4.0)


def test_no_values_no_scale() -> None:
    empty = layer([[np.nan, np.nan]])
    assert scale_of(empty, {"rate": empty}) is None


def test_same_scale_as_another_layer() -> None:
    first = layer([[1, 10]], name="first", colours="lajolla", log=True, limits=(1, 10))
    second = layer([[3, 30]], name="second", same_scale_as="first")
    third = layer([[0.5, 2]], name="third", same_scale_as="second")
    layers = {each.name: each for each in (first, second, third)}
    scales = {name: scale_of(each, layers) for name, each in layers.items()}
    for scale in scales.values():
        assert scale is not None
        assert (scale.low, scale.high, scale.log, scale.colours) == (1, 10, True, "lajolla")
    assert [(scale.below, scale.above) for scale in scales.values() if scale] == [
        (False, False),
        (False, True),
        (True, False),
    ]


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
