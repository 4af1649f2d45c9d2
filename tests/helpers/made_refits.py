"""Refits with known results, made by hand."""

import numpy as np
import pandas as pd

from vbagg.validate import Recovery, Refit
from vbagg.validate.bag_scores import LEVELS, percent


def refit(number, unexplained, held=0.91, failure=""):
    """Two bags of the weights 1 and 3, of whose sums of squares (10) so much is left."""
    if failure:
        return Refit(number, pd.DataFrame(), 1.0, failure)
    columns = {"bag": ["a", "b"], "weight": [1.0, 3.0], "unexplained": np.array([0.4, 0.6]) * unexplained}
    columns |= {"of_outputs": [4.0, 6.0], "of_means": [2.0, 6.0]}
    columns |= {"differences_left": np.array([0.3, 0.2]) * unexplained, "differences": [2.0, 3.0]}
    for level in LEVELS:
        columns |= {f"coverage_{percent(level)}": level - 0.9 + held, f"interval_score_{percent(level)}": 2.0}
    return Refit(number, pd.DataFrame(columns), 1.0)


def refits(*unexplained, failures=0, notes=()):
    """One with each of these shares left, after so many that failed."""
    failed = [refit(k + 1, None, failure="the <totals> are all zero.") for k in range(failures)]
    return Recovery((*failed, *(refit(failures + k + 1, x) for k, x in enumerate(unexplained))), 1000.0, notes)
