"""A process of its own for one command: what a library may not decide for its host."""

from __future__ import annotations

import atexit
import ctypes
import gc
import sys
from contextlib import suppress

ARENAS = -8
"""Number of glibc's option for how many heaps threads may have (`M_ARENA_MAX`)."""


def settle() -> None:
    """Look for garbage rarely, and not at the end; let all threads share one heap.

    Imports and compilation make millions of objects that stay, among which there is little garbage to be found. A last
    search among them takes most of a second of processor time. Heaps of single threads keep what they were once given:
    a seventh of all memory.
    """
    gc.set_threshold(100_000, 50, 50)
    atexit.register(gc.freeze)
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # another C library
            ctypes.CDLL(None).mallopt(ARENAS, 1)
