"""Tables of a cross-validation: mean scores, coverage, comparisons bag by bag, calibration.

All take the table of `Validation.rates`. What happens by chance is worked out for independent bags.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vbagg import metrics
from vbagg.significance import wilcoxon_table
from vbagg.validate.bag_scores import LEVELS, interval_names, percent

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
COMPARED = ("crps", "nll", "absolute_error")
CHANCE = 0.95


def scores(rates: pd.DataFrame, outputs: pd.DataFrame, models: Sequence[str], counts: bool) -> pd.DataFrame:
    """Mean scores by model."""
    import pandas as pd

    rows = {name: _scores_of(_rows(rates, name), _rows(outputs, name), counts) for name in models}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("model")


def _scores_of(rates: pd.DataFrame, outputs: pd.DataFrame, counts: bool) -> dict[str, float]:
    if not len(rates):
        return {"bags": 0}
    y, mean, median = (rates[name].to_numpy(float) for name in ("y", "mean", "median"))
    result = {
        "bags": len(rates),
        "mae": metrics.mae(y, median),
        "rmse": metrics.rmse(y, mean),
        "log_rmse": _log_rmse(outputs, counts),
        "correlation": _correlation(y, mean),
        "rank_correlation": _correlation(_ranks(y), _ranks(mean)),
    }
    if not _has_law(rates):
        return result
    result |= {"nll": float(rates["nll"].mean()), "crps": float(rates["crps"].mean())}
    for level in LEVELS:
        low, high = (rates[name].to_numpy(float) for name in interval_names(level))
        result[f"coverage_{percent(level)}"] = float(rates[f"inside_{percent(level)}"].mean())
        result[f"interval_score_{percent(level)}"] = metrics.interval_score(y, low, high, level)
    return result


def _log_rmse(outputs: pd.DataFrame, counts: bool) -> float:
    y, median = outputs["y"].to_numpy(float), outputs["median"].to_numpy(float)
    half_a_case = 0.5 if counts else 0.0
    if np.any(y + half_a_case <= 0) or np.any(median + half_a_case <= 0):
        return np.nan
    return float(np.sqrt(metrics.log_mse(y, median, half_a_case)))


def _ranks(values: Floats) -> Floats:
    from scipy.stats import rankdata

    return rankdata(values)


def _correlation(a: Floats, b: Floats) -> float:
    if len(a) < 2 or np.ptp(a) == 0 or np.ptp(b) <= 1e-12 * np.abs(b).max():
        return np.nan
    return float(np.corrcoef(a, b)[0, 1])


def coverage(rates: pd.DataFrame, models: Sequence[str]) -> pd.DataFrame:
    """Shares of bags inside central intervals, beside what is expected and where chance puts them."""
    import pandas as pd

    rows = []
    for name in models:
        own = _rows(rates, name)
        for level in LEVELS if _has_law(own) else ():
            inside, mass = (own[f"{what}_{percent(level)}"].to_numpy(float) for what in ("inside", "mass"))
            least = own.get(f"least_mass_{percent(level)}", own[f"mass_{percent(level)}"]).to_numpy(float)
            low, high = chance_band(least)[0], chance_band(mass)[1]
            share, expected = float(inside.mean()), float((least.mean() + mass.mean()) / 2)
            judgement = "too narrow" if share < low else "too wide" if share > high else "as expected"
            rows.append((name, level, len(own), share, expected, low, high, judgement))
    return pd.DataFrame(rows, columns=["model", "level", "bags", "coverage", "expected", "low", "high", "judgement"])


def chance_band(probabilities: Floats) -> tuple[float, float]:
    """Central 95% range of the share of successes of independent trials with these probabilities."""
    law = np.ones(1)
    for p in probabilities:
        law = np.convolve(law, [1 - p, p])
    below = np.cumsum(law)
    low, high = (int(np.searchsorted(below, q)) for q in ((1 - CHANCE) / 2, (1 + CHANCE) / 2))
    n = len(probabilities)
    return low / n, min(high, n) / n


def comparison(rates: pd.DataFrame, score: str, reference: str, models: Sequence[str]) -> pd.DataFrame:
    """The reference against each other model that has this score, over the bags that both predict."""
    import pandas as pd

    if score not in rates:
        return pd.DataFrame()
    numbered = rates.assign(bag=pd.factorize(rates["bag"])[0])[["model", "bag", score]].dropna()
    present = set(numbered["model"])
    others = [name for name in models if name != reference and name in present]
    if reference not in present or not others:
        return pd.DataFrame()
    rows = {other: _paired(numbered[numbered["model"].isin([reference, other])], score, reference) for other in others}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("model")


def _paired(two: pd.DataFrame, score: str, reference: str) -> dict[str, Any]:
    (other,) = set(two["model"]) - {reference}
    pairs = two.pivot(index="bag", columns="model", values=score).dropna()
    own, its = pairs[reference].to_numpy(), pairs[other].to_numpy()
    with np.errstate(invalid="ignore"):
        difference = np.where(own == its, 0.0, own - its)
    p_better, p_worse = (
        float(wilcoxon_table(two, score, a, ["bag"], [b], "model")["p_value"].iloc[0])
        for a, b in ((reference, other), (other, reference))
    )
    n = len(difference)
    return {
        "pairs": n,
        "score": float(own.mean()) if n else np.nan,
        "other_score": float(its.mean()) if n else np.nan,
        "mean_difference": float(difference.mean()) if n else np.nan,
        "std_error": float(difference.std(ddof=1) / np.sqrt(n)) if n > 1 else np.nan,
        "better": int(np.sum(difference < 0)),
        "p_better": p_better,
        "p_worse": p_worse,
    }


def pit_histogram(rates: pd.DataFrame, model: str, bins: int) -> pd.DataFrame:
    """Shares of bags between equally spaced values of the probability integral transform."""
    import pandas as pd

    if bins < 1:
        raise ValueError(f"`bins` must be at least 1; got {bins}.")
    own = _lawful(rates, model)
    edges = np.linspace(0.0, 1.0, bins + 1)
    low, high = chance_band(np.full(len(own), 1 / bins))
    frame = {"left": edges[:-1], "right": edges[1:], "share": np.diff(_share_below(own, edges)), "expected": 1 / bins}
    return pd.DataFrame({**frame, "low": low, "high": high})


def reliability(rates: pd.DataFrame, model: str) -> pd.DataFrame:
    """Coverage of central intervals at many levels."""
    import pandas as pd

    own = _lawful(rates, model)
    levels = np.arange(1, 20) / 20
    share = _share_below(own, (1 + levels) / 2) - _share_below(own, (1 - levels) / 2)
    low, high = np.transpose([chance_band(np.full(len(own), level)) for level in levels])
    return pd.DataFrame({"level": levels, "coverage": share, "low": low, "high": high})


def _share_below(own: pd.DataFrame, u: Floats) -> Floats:
    """Mean over bags of `P(V <= u)`, `V` uniform between the two ends of each bag's transform."""
    low, high = own["pit_low"].to_numpy(float), own["pit_high"].to_numpy(float)
    width = np.maximum(high - low, 1e-300)
    spread = np.clip((u[:, None] - low) / width, 0.0, 1.0)
    return np.where(high > low, spread, u[:, None] >= high).mean(axis=1)


def _rows(table: pd.DataFrame, model: str) -> pd.DataFrame:
    return table[table["model"] == model] if len(table) else table


def _has_law(own: pd.DataFrame) -> bool:
    return len(own) > 0 and "crps" in own and bool(own["crps"].notna().all())


def _lawful(rates: pd.DataFrame, model: str) -> pd.DataFrame:
    own = _rows(rates, model)
    if not _has_law(own):
        raise ValueError(f"Calibration needs predictive laws; {model!r} has none.")
    return own
