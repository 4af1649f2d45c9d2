"""How far to go along a direction that promises a gain."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

State = TypeVar("State")


def backtrack(
    attempt: Callable[[float], tuple[float, State]],
    rise: float,
    least: float = 1e-4,
    noise: float = 0.0,
    tries: int = 8,
    shrink: float | None = None,
) -> tuple[float, State] | None:
    """Length of a step, and what is found there, or None if no length is worth it.

    `attempt` gives the gain at a length and whatever belongs to it. A length is accepted if its gain exceeds the share
    `least` of what the slope `rise` at the start promises, but for `noise`. Else the peak of the parabola through both
    values and the slope is tried next, between a tenth and half of the length; with `shrink` that share of it, for
    functions that are far from parabolas.
    """
    length = 1.0
    for _ in range(tries):
        gain, found = attempt(length)
        if gain > least * length * rise - noise:
            return length, found
        length *= shrink or float(np.clip(_peak(length * rise, gain), 0.1, 0.5))
    return None


def _peak(promised: float, gain: float) -> float:
    """Share of a step at which the parabola is highest that promised one gain and has another."""
    shortfall = promised - gain
    return 0.5 * promised / shortfall if np.isfinite(shortfall) and shortfall > 0 else 0.0
