"""What a user tells of how outputs came about: how much of each is reported, and how far off weights of bags may be."""

from __future__ import annotations

from typing import Any

import numpy as np

from vbagg.inputs import some_bags
from vbagg.labelled import Labelled
from vbagg.likelihoods.base import Facts
from vbagg.likelihoods.reported import COMPLETENESS, EXPOSURE_SPREAD

LARGEST_SD = 1.0
"""Of a relative error; numbers of people would be larger."""


def told_of(bags: Labelled, completeness: Any, weight_sd: Any, seen: np.ndarray | None = None) -> Facts:
    """What likelihoods must know of it, in label order; checked where outputs are `seen`, which is by default all."""
    known = aligned_told(bags, completeness, weight_sd, np.ones(len(bags), dtype=bool) if seen is None else seen)
    told: Facts = {COMPLETENESS: known["completeness"]} if "completeness" in known else {}
    return told | ({EXPOSURE_SPREAD: known["weight_sd"] ** 2} if "weight_sd" in known else {})


def aligned_told(bags: Labelled, completeness: Any, weight_sd: Any, seen: np.ndarray) -> dict[str, np.ndarray]:
    """The same as a user tells it, without what is not told; numbers also where they may be unknown."""
    known = {}
    if completeness is not None:
        known["completeness"] = _shares(bags, completeness, seen)
    if weight_sd is not None:
        known["weight_sd"] = _relative_sds(bags, weight_sd, seen)
    return known


def _shares(bags: Labelled, completeness: Any, seen: np.ndarray) -> np.ndarray:
    values = _numbers(bags, completeness, "completeness", seen, "Give 1 where all is reported.")
    wrong = np.flatnonzero(seen & ~((values > 0) & (values <= 1)))
    if len(wrong):
        value = values[wrong[0]]
        remedy = "Divide percentages by 100." if value > 1 else "Give NaN for `y` where nothing was reported."
        raise ValueError(
            "`completeness` must be the share of what occurs that is reported, above 0 and at most 1; got"
            f" {value:g} for bag {bags.labels[wrong[0]]!r} ({len(wrong)} such bags). {remedy}"
        )
    return values


def _relative_sds(bags: Labelled, weight_sd: Any, seen: np.ndarray) -> np.ndarray:
    values = _numbers(bags, weight_sd, "weight_sd", seen, "Give 0 where weights are exact.")
    wrong = np.flatnonzero(seen & ~((values >= 0) & (values <= LARGEST_SD)))
    if len(wrong):
        value = values[wrong[0]]
        remedy = "Divide by the bag's weight, `bags.totals()`." if value > 0 else "A standard deviation has no sign."
        raise ValueError(
            f"`weight_sd` must be relative to the weight of the bag, from 0 to {LARGEST_SD:g} (0.1 for 10%); got"
            f" {value:g} for bag {bags.labels[wrong[0]]!r} ({len(wrong)} such bags). {remedy}"
        )
    return values


def _numbers(bags: Labelled, values: Any, name: str, seen: np.ndarray, remedy: str) -> np.ndarray:
    """One for each bag, or one for all."""
    values = np.full(len(bags), float(values)) if np.ndim(values) == 0 else values
    found = bags.align(values, name, gaps=True)
    unknown = seen & np.isnan(found)
    if unknown.any():
        raise ValueError(
            f"`{name}` must be known where outputs are; got nan for {some_bags(bags.labels[unknown])}. {remedy}"
        )
    # as if all were known, where there is no output
    return np.where(np.isnan(found), 1.0 if name == "completeness" else 0.0, found)
