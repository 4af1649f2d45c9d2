"""Is one method better than another? One-sided Wilcoxon signed-rank tests over pooled repetitions, as in the paper."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vbagg.errors import unknown_name

if TYPE_CHECKING:
    import pandas as pd

FEWEST_PAIRS = 5  # with fewer, even differences all of one sign leave p above 5%


def wilcoxon_table(
    table: pd.DataFrame,
    score: str,
    reference: str,
    pair_by: Sequence[str],
    others: Sequence[str] | None = None,
    group: str = "method",
) -> pd.DataFrame:
    """Test the reference method against each other one, lower scores being better.

    The null hypothesis is that the reference is equal or worse; a small p-value says that it is better. Pairs are the
    rows of both methods with equal entries in ``pair_by``, over all settings and repetitions pooled.

    Parameters
    ----------
    table
        Rows of repetitions.
    score
        Column of the score.
    reference, others
        Methods; by default all others in the table.
    pair_by
        Columns that tell data sets apart, such as ``["bags", "repetition"]``.
    group
        Column of the methods.

    Returns
    -------
    pandas.DataFrame
        One row per other method: ``pairs``; ``left_out``, data sets with a score of only one of the two;
        ``median_difference``, reference minus other; ``p_value``, NaN where there is no test; ``note`` with the reason.
    """
    import pandas as pd

    methods = list(dict.fromkeys(table[group]))
    for method in (reference, *(others or ())):
        if method not in methods:
            raise unknown_name(group, method, methods)
    scores = {method: _scores(table[table[group] == method], score, pair_by, method) for method in methods}
    rows = []
    for other in others or [method for method in methods if method != reference]:
        pairs = pd.concat([scores[reference], scores[other]], axis=1, keys=["reference", "other"])
        complete = pairs.dropna()
        difference = _differences(complete["reference"].to_numpy(), complete["other"].to_numpy())
        p_value, note = _signed_rank(difference)
        rows.append(
            {
                group: other,
                "pairs": len(complete),
                "left_out": len(pairs.dropna(how="all")) - len(complete),
                "median_difference": float(np.median(difference)) if len(difference) else np.nan,
                "p_value": p_value,
                "note": note,
            }
        )
    return pd.DataFrame(rows)


def _scores(rows: pd.DataFrame, score: str, pair_by: Sequence[str], method: str) -> pd.Series[Any]:
    result = rows.set_index(list(pair_by))[score].astype(float)
    if not result.index.is_unique:
        twice = result.index[result.index.duplicated()][0]
        raise ValueError(f"`pair_by` must tell all rows of {method!r} apart; {list(pair_by)} = {twice} occurs twice.")
    return result


def _differences(reference: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    with np.errstate(invalid="ignore"):
        return np.where(reference == other, 0.0, reference - other)  # two infinite scores are equal


def _signed_rank(difference: NDArray[np.float64]) -> tuple[float, str]:
    """P-value of "differences are below zero", and a remark; zero differences are dropped, as by Wilcoxon."""
    from scipy.stats import wilcoxon

    nonzero = difference[difference != 0]
    zeros = len(difference) - len(nonzero)
    if len(difference) < FEWEST_PAIRS:
        return np.nan, f"fewer than {FEWEST_PAIRS} pairs"
    if not len(nonzero):
        return 1.0, "all scores are equal"
    if len(nonzero) < FEWEST_PAIRS:
        return np.nan, f"fewer than {FEWEST_PAIRS} pairs with unequal scores"
    return float(wilcoxon(nonzero, alternative="less").pvalue), f"{zeros} equal pairs dropped" if zeros else ""
