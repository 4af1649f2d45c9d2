"""Who may use how many threads: matrices of NumPy one, blocks of rows as many as there are processors."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import TypeVar

import jax
from threadpoolctl import ThreadpoolController

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
    first = [kinds.index(own) == i for i, own in enumerate(kinds)]
    found = iter([one(item) for item, alone in zip(items, first, strict=True) if alone])
    others = [item for item, alone in zip(items, first, strict=True) if not alone]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        rest = pool.map(one, others)
        for alone in first:
            yield next(found if alone else rest)
