"""Checks of outputs that several likelihoods share."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from vbagg.errors import DataWarning


def check_nonnegative(y: np.ndarray, labels: Any, what: str) -> None:
    """Refuse negative numbers."""
    bad = np.flatnonzero(y < 0)
    if len(bad):
        raise ValueError(
            f"{what} must not be negative; got {y[bad[0]]:g} for bag {labels[bad[0]]!r} ({len(bad)} such bags)."
        )


def check_counts(y: np.ndarray, labels: Any, what: str) -> None:
    """Refuse negative counts and warn of broken ones."""
    check_nonnegative(y, labels, f"a count ({what})")
    fractional = np.flatnonzero(y != np.round(y))
    if len(fractional):
        at = fractional[0]
        warnings.warn(
            f"{len(fractional)} of {len(y)} counts ({what}) are not whole numbers (first: {y[at]:g} for bag"
            f" {labels[at]!r}); the density is continued by the gamma function.",
            DataWarning,
            stacklevel=5,
        )


def check_trials(y: np.ndarray, labels: Any, trials: np.ndarray) -> None:
    """Refuse trials that are negative, broken or fewer than the outputs."""
    check_nonnegative(trials, labels, "`trials`")
    fractional = np.flatnonzero(trials != np.round(trials))
    if len(fractional):
        at = fractional[0]
        raise ValueError(f"`trials` must be whole numbers; got {trials[at]:g} for bag {labels[at]!r}. Round them.")
    above = np.flatnonzero(y > trials)
    if len(above):
        at = above[0]
        raise ValueError(
            f"`y` must not exceed `trials`; got y={y[at]:g}, trials={trials[at]:g} for bag {labels[at]!r}"
            f" ({len(above)} such bags)."
        )
