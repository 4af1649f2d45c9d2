"""How long a stage will still take."""

from __future__ import annotations

import time
from collections.abc import Callable


class TimeLeft:
    """Seconds left of a stage, by how long its last share took; they only fall until it tells of the next."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._first: tuple[float, float] | None = None
        self._last = 0.0
        self._end: float | None = None

    def tell(self, share: float) -> None:
        """A share is done; what was done before the first one counts for nothing."""
        now = self._clock()
        if self._first is None or share < self._last:
            self._first, self._end = (now, share), None
        elif share > self._last:
            began, before = self._first
            self._end = now + (1 - share) * (now - began) / (share - before)
        self._last = share

    def seconds(self) -> float | None:
        """None until there is something to go by, and again when more time has gone than was expected."""
        left = None if self._end is None else self._end - self._clock()
        return left if left is not None and left > 0 else None
