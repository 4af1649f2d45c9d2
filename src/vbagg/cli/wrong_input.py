"""Errors of the user, told in one line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

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
