"""Who may use how many threads: matrices of NumPy one, blocks of rows as many as there are processors."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import groupby
from typing import TypeVar

import jax
from threadpoolctl import ThreadpoolController

COUNTS = ("PJRT_NPROC", "NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Variables by which numeric libraries size their pools when imported. JAX looks at the first two; XLA_FLAGS have no
such effect (measured with jax 0.10)."""
Given = TypeVar("Given")
Made = TypeVar("Made")


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Let NumPy multiply with one thread.

    Small matrices gain nothing from more, which wait for each other at full speed: on a busy machine that takes twenty
    times the processor time of the product itself, and more where the threads of compiled functions are in the way.
    """
    with _controller().limit(limits=1, user_api="blas"):
        yield


@cache
def _controller() -> ThreadpoolController:
    # found once: that takes longer than many a product
    import scipy.linalg  # noqa: F401  (has a BLAS of its own)

    return ThreadpoolController()


def in_threads(
    function: Callable[[Given], Made], items: Sequence[Given], kind: Callable[[Given], Hashable] = lambda item: None
) -> Iterator[Made]:
    """Results for each item, in double precision, several at a time; NumPy and compiled functions let others run.

    The first item of each kind comes alone, since functions may have to be compiled for it.
    """

    def one(item: Given) -> Made:
        with jax.enable_x64(True):  # a setting of each thread
            return function(item)

    kinds = [kind(item) for item in items]
    known: set[Hashable] = set()
    with ThreadPoolExecutor(processors()) as pool:
        for own, run in groupby(zip(kinds, items, strict=True), key=lambda pair: pair[0]):
            same = [item for _, item in run]
            if own not in known:
                known.add(own)
                yield one(same.pop(0))
            if same:
                give_back_memory()
                yield from pool.map(one, same)
                give_back_memory()


_most: int | None = None


def processors() -> int:
    """Threads that work may be given to: processors of this process, or what `at_most` allows."""
    own = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return own if _most is None else min(own, _most)


@contextmanager
def at_most(number: int) -> Iterator[None]:
    """Let this process, which shares its machine with others, use so many threads."""
    global _most
    before, _most = _most, number
    try:
        yield
    finally:
        _most = before


def give_back_memory() -> None:
    """Return memory that is no longer used to the system: the C library keeps some of each thread's for later."""
    trim = _trim()
    if trim is not None:
        trim(0)


@cache
def _trim() -> Callable[[int], int] | None:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # another C library
        return None
