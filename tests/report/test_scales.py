from typing import Any

import numpy as np

from vbagg.report import MapLayer
from vbagg.report.scales import scales_of


def layer(values: object, **options: Any) -> MapLayer:
    return MapLayer(
        **{"name": "rate", "label": "Rate", "units": "", "values": np.array(values, dtype=float), **options}
    )


def test_no_values_no_scale() -> None:
    empty = layer([[np.nan, np.nan]])
    other = layer([[1.0, 2.0]], name="other", same_scale_as="rate")
    assert scales_of([empty, other]) == {}


def test_same_scale_as_another_layer() -> None:
    first = layer([[1, 10]], name="first", colours="lajolla", log=True, limits=(1, 10))
    second = layer([[3, 30]], name="second", same_scale_as="first")
    third = layer([[0.5, 2]], name="third", same_scale_as="second")
    own = layer([[5, 6]], name="own", limits=(5, 7))
    scales = scales_of([first, second, third, own])
    for name in ("first", "second", "third"):
        scale = scales[name]
        assert (scale.low, scale.high, scale.log, scale.colours) == (1, 10, True, "lajolla")
    assert (scales["own"].limits, scales["own"].log) == ((5, 7), False)
