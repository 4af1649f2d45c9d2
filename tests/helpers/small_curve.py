"""A curve of people above thresholds, of known values."""

from typing import Any

import numpy as np

from vbagg.report import AboveCurve

THRESHOLDS = [0.3, 0.5, 1.0, 2.0, 5.0, 7.5, 10.0, 20.0, 21.5, 50.0, 120.0, 1500.0]
EVERYBODY = 5_312_345.6


def curve(**changed: Any) -> AboveCurve:
    share = np.exp(-np.asarray(THRESHOLDS) / 17.3)
    above = EVERYBODY * share
    given: dict[str, Any] = {
        "thresholds": THRESHOLDS,
        "above": above.tolist(),
        "lower": (0.813 * above).tolist(),
        "upper": (EVERYBODY * share**0.8).tolist(),
        "everybody": EVERYBODY,
        "start": 20.0,
        "units": "cases per 1000 people",
        "response": "cases",
        "notes": ["The 95% interval of <b>the number</b>."],
    }
    return AboveCurve(**{**given, **changed})
