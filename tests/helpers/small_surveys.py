"""Surveys in the tiny country: what was found in places that no two axes share."""

import numpy as np
import pandas as pd
from tiny_country import HEIGHT, TRANSFORM, WIDTH

LON = [30.412, 30.587, 30.911, 30.638, 30.752, 30.494, 30.838]
LAT = [-1.389, -1.471, -1.342, -1.703, -1.561, -1.797, -1.648]
POSITIVE = [3, 11, 17, 0, 9, 2, 6]
TESTED = [21, 34, 29, 17, 25, 31, 19]


def surveys(**changes):
    """The table, with other columns."""
    table = pd.DataFrame({"site": list("abcdefg"), "lon": LON, "lat": LAT, "positive": POSITIVE, "tested": TESTED})
    return table.assign(**changes)


def cell_of(longitude, latitude):
    """By counting rows and columns from the corner."""
    column = next(k for k in range(WIDTH) if longitude < TRANSFORM.c + 0.1 * (k + 1))
    row = next(k for k in range(HEIGHT) if latitude > TRANSFORM.f - 0.05 * (k + 1))
    return row * WIDTH + column


CELLS = np.array([cell_of(*place) for place in zip(LON, LAT, strict=True)])
WORDS = {"point_response": "positive", "point_trials": "tested"}
