"""Errors of the user, told in one line."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer


class WrongInput(typer.TyperException):
    """What was asked for cannot be done; the message says why and what to do."""

    exit_code = 2


@contextmanager
def told_in_one_line(*kinds: type[Exception]) -> Iterator[None]:
    """Turn errors of these kinds into wrong input."""
    try:
        yield
    except kinds as error:
        raise WrongInput(str(error)) from None


@contextmanager
def warned_in_one_line() -> Iterator[None]:
    """Print each warning once, as one line on standard error."""

    def show(message: Warning | str, *where: Any, **more: Any) -> None:
        print(f"Warning: {' '.join(str(message).split())}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield
