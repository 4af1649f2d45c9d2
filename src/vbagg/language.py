"""Which language is written, and how it writes numbers: English, unless something else is asked for."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from vbagg.errors import unknown_name

NO_BREAK, NARROW = "\u00a0", "\u202f"
"""Spaces at which no line is broken."""


@dataclass(frozen=True)
class Language:
    """How a language writes numbers.

    Attributes
    ----------
    decimal, thousands
        Marks.
    grouped_from
        Numbers from here on have marks between thousands.
    given_from
        And those that somebody chose, as in "per 1000 people".
    percent
        What follows a number of hundredths.
    singular
        Whole numbers that go with the form `one` of a text; all others go with `other`.
    singular_parts
        Whether numbers between two whole ones go with the form of the lower one, as in "1,7 million".
    softened
        Pattern of the words before which "and" is another word.
    """

    decimal: str
    thousands: str
    grouped_from: int
    given_from: int
    percent: str
    singular: tuple[int, ...]
    singular_parts: bool = False
    softened: str = "(?!)"

    def is_singular(self, value: float) -> bool:
        """Whether a number goes with the form `one`."""
        return (math.floor(value) if self.singular_parts else value) in self.singular

    def digits(self, value: float, decimals: int = 0) -> str:
        """All digits of a finite number up to so many decimals, without its sign."""
        text = f"{abs(value):,.{decimals}f}"
        whole, _, rest = text.partition(".")
        mark = self.thousands if len(whole.replace(",", "")) >= len(str(self.grouped_from)) else ""
        whole = whole.replace(",", mark)
        return f"{whole}{self.decimal}{rest}" if rest else whole


LANGUAGES = {
    "en": Language(".", ",", 1000, 10_000, "%", (1,)),
    "fr": Language(",", NARROW, 1000, 1000, f"{NO_BREAK}%", (0, 1), singular_parts=True),
    "es": Language(
        ",", NARROW, 10_000, 10_000, f"{NO_BREAK}%", (1,), softened=r"(?i)h?(?:[ií](?![aeouáéó])|y(?![aeiou]))"
    ),
    "pt": Language(",", NARROW, 1000, 1000, "%", (1,)),
}
ENGLISH = "en"
_chosen = ContextVar("language", default=ENGLISH)


def chosen() -> str:
    """Code of the language that is written at the moment."""
    return _chosen.get()


def marks() -> Language:
    """How it writes numbers."""
    return LANGUAGES[_chosen.get()]


@contextmanager
def written_in(language: str) -> Iterator[None]:
    """Write numbers and texts in a language, as long as this lasts."""
    token = _chosen.set(known(language))
    try:
        yield
    finally:
        _chosen.reset(token)


def known(language: str) -> str:
    """The code of a language that there is."""
    if language not in LANGUAGES:
        raise unknown_name("language", language, LANGUAGES)
    return language
