"""What the fitted rate depends on: relevance of each covariate, and the rate as a function of one of them.

Both vary columns of real pixels, drawn with probability proportional to weight, and ask the model for joint posterior
draws of the rates. So they speak of the learnt function where people live, not of kernel parameters whose meaning
depends on scales, landmarks and the other parts of the kernel. They describe the model, not causes: where covariates go
together, each may stand in for the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from vbagg.errors import unknown_name
from vbagg.geo.prepared import Prepared
from vbagg.geo.units import link_of
from vbagg.posterior import RowPosterior

Floats = NDArray[np.float64]
LOCATION = ("x", "y")
PIXELS = 256
"""Pixels that are varied."""
DRAWS = 200
JOINT = 64
"""Pixels, one after the other in the order of polygons, whose residuals are drawn jointly: those of others go together
little. Medians and intervals are as near to those of many draws as with all residuals drawn jointly."""


def relevance(
    model: Any, prepared: Prepared, *, level: float = 0.9, pixels: int = PIXELS, draws: int = DRAWS, seed: int = 0
) -> pd.DataFrame:
    """Relevance of each covariate, and of location.

    In each posterior draw, the mean squared change of the latent rate (log rate with exp link) when the covariate is
    shuffled among pixels, over twice the variance of the latent rate: the share of that variance that goes through the
    covariate, alone or together with others (Sobol's total index). Shares need not add up to 1: they overlap where
    covariates act together, and fall short where covariates go together.

    Returns
    -------
    Table by covariate, most relevant first, with `share` (median of draws), `lower` and `upper` (interval of `level`);
    coordinates together are "location". A model without uncertainty gives three equal numbers.
    """
    sample = sample_pixels(prepared, pixels, seed)
    latent = link_of(model).inverse
    groups = {"location": LOCATION} | {name: (name,) for name in prepared.covariates}
    rows = {}
    for name, columns in groups.items():
        order = np.random.default_rng([seed, 1]).permutation(len(sample))
        changed = sample.copy()
        changed[list(columns)] = sample[list(columns)].to_numpy()[order]
        # a pixel and its changed copy stand side by side, so that residuals are drawn jointly
        pairs = pd.concat([sample, changed]).sort_index(kind="stable")
        values = latent(_rates(model, pairs, draws, seed))
        before, after = values[:, ::2], values[:, 1::2]
        variance = before.var(axis=1)
        change = ((before - after) ** 2).mean(axis=1) / 2
        share = np.divide(change, variance, out=np.zeros_like(change), where=variance > 0)
        rows[name] = np.quantile(share, [0.5, (1 - level) / 2, (1 + level) / 2])
    table = pd.DataFrame.from_dict(rows, orient="index", columns=["share", "lower", "upper"])
    return table.rename_axis("covariate").sort_values("share", ascending=False, kind="stable")


def partial_dependence(
    model: Any,
    prepared: Prepared,
    covariate: str,
    *,
    level: float = 0.95,
    per: float = 1000.0,
    values: int = 12,
    pixels: int = PIXELS,
    draws: int = DRAWS,
    seed: int = 0,
) -> pd.DataFrame:
    """Mean rate of the population if the covariate had the same value everywhere, all else as it is.

    Returns
    -------
    Table with `value` (from the 1% to the 99% quantile of the population, denser where it lives), `rate` (median of
    posterior draws), `lower` and `upper` (interval of `level`; equal to the rate without uncertainty).
    """
    if covariate not in prepared.covariates:
        raise unknown_name("covariate", covariate, prepared.covariates)
    sample = sample_pixels(prepared, pixels, seed)
    column, weight = (prepared.pixels[name].to_numpy(dtype=np.float64) for name in (covariate, "weight"))
    by_people = weighted_quantile(column, weight, np.linspace(0.01, 0.99, values).tolist())
    # between even steps and those that have as many people each: near to each other where people are
    places = (np.linspace(by_people[0], by_people[-1], values) + by_people) / 2
    rows = []
    for place in places:  # each with the same random numbers, so that curves are as smooth as the model's
        rates = _rates(model, sample.assign(**{covariate: place}), draws, seed).mean(axis=1)
        rows.append(per * np.quantile(rates, [0.5, (1 - level) / 2, (1 + level) / 2]))
    return pd.DataFrame(np.column_stack([places, rows]), columns=["value", "rate", "lower", "upper"])


def sample_pixels(prepared: Prepared, n: int, seed: int) -> pd.DataFrame:
    """Features of `n` pixels drawn with probability proportional to weight, evenly along the order of polygons."""
    pixels = prepared.pixels
    below = np.cumsum(pixels["weight"].to_numpy(dtype=np.float64))
    marks = (np.arange(n) + np.random.default_rng(seed).random()) / n * below[-1]
    drawn = np.searchsorted(below, marks, side="right").clip(max=len(below) - 1)
    return pixels.iloc[drawn][[*LOCATION, *prepared.covariates]].astype(np.float64).reset_index(drop=True)


def weighted_quantile(values: Floats, weight: Floats, q: Sequence[float]) -> Floats:
    """Smallest values that at least the share `q` of the weight does not exceed."""
    order = np.argsort(values)
    below = np.cumsum(weight[order])
    return values[order][np.searchsorted(below, np.asarray(q) * below[-1])]


def _rates(model: Any, rows: pd.DataFrame, draws: int, seed: int) -> Floats:
    """Joint draws of rates (draws, rows); one draw, the estimate, without uncertainty."""
    posterior = model.posterior(rows)
    if isinstance(posterior, RowPosterior):
        return posterior.sample(draws, seed, JOINT)
    return posterior.sample(draws, seed) if hasattr(posterior, "sample") else posterior.mean[None]
