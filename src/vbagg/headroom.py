"""How much more memory this process may take for what it could do without."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SHARE = 0.6
"""Of a limit: the rest is for what is needed meanwhile."""
_limit: float | None = None


@contextmanager
def within(limit: float | None) -> Iterator[None]:
    """Let this process be one that may use so many bytes in all; None for one without a limit."""
    global _limit
    before, _limit = _limit, limit
    try:
        yield
    finally:
        _limit = before


def headroom() -> float:
    """Bytes that may be kept besides what this process has; infinite without a limit."""
    return math.inf if _limit is None else SHARE * _limit - resident_bytes()


def resident_bytes() -> int:
    """Memory of this process; 0 where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
