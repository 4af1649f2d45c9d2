"""Keys by which rows of a table are matched with polygons, and what those that match nothing may be."""

from __future__ import annotations

import datetime
import re
import unicodedata
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np

from vbagg.geo.table_lines import is_empty

INVISIBLE = dict.fromkeys(map(ord, "\ufeff\u200b\u200c\u200d\u2060\u00ad"))
WHOLE = re.compile(r"[+-]?\d+\.0+")
SCIENTIFIC = re.compile(r"[+-]?\d([.,]\d+)?e\+?\d+", re.IGNORECASE)
MONTH = r"(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
LIKE_DATE = re.compile(rf"\d{{1,4}}[-/. ](\d{{1,2}}|{MONTH})([-/. ]\d{{1,4}})?|{MONTH}[-/. ]\d{{1,4}}", re.IGNORECASE)
OF_TOTALS = re.compile(
    r"\b(sub|grand )?(totals?|totaux|totale|totaal|sum|suma|summe|somme|soma|ensemble|gesamt|insgesamt|всего|итого)\b"
    "|合计|总计|合計",
    re.IGNORECASE,
)
TYPO = 0.8
"""Likeness from which on a name may be another one with a typing error."""


def key_of(value: Any) -> str:
    """A key as text: 101.0, "101" and " 101 " are the same, "0101" is another; empty for none."""
    if is_empty(value):
        return ""
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return str(int(value))
    text = " ".join(unicodedata.normalize("NFC", str(value)).translate(INVISIBLE).split())
    return text.partition(".")[0] if WHOLE.fullmatch(text) else text


def is_date(value: Any) -> bool:
    """Whether a cell holds a date or a time."""
    return isinstance(value, (datetime.date, datetime.time))


def _without_accents(text: str) -> str:
    return "".join(letter for letter in unicodedata.normalize("NFKD", text) if not unicodedata.combining(letter))


def _without_marks(text: str) -> str:
    return re.sub(r"[\W_]+", "", text)


def _without_zeros(text: str) -> str:
    return re.sub(r"(?<!\d)0+(?=\d)", "", text)


FOLDS: dict[str, Callable[[str], str]] = {
    "capitals": str.casefold,
    "accents": _without_accents,
    "leading zeros": _without_zeros,
    "spaces and marks": _without_marks,
}
"""How keys that mean the same may differ."""


class Candidates:
    """Keys that one without a match may stand for."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = list(keys)
        self._folded: dict[str, str] = {}
        for key in self._keys:
            self._folded.setdefault(_folded(key), key)

    def like(self, key: str) -> str | None:
        """A key that is nearly the same and how it differs, in words; None if there is none."""
        found = self._folded.get(_folded(key))
        if found is not None:
            differ = [name for name in FOLDS if _folded(key, leave=name) != _folded(found, leave=name)]
            return f"{found!r} but for {' and '.join(differ) or 'its writing'}"
        if (repaired := _repaired(key)) in self._keys:
            return f"{repaired!r} in another encoding"
        if not any(letter.isalpha() for letter in key):  # codes with one other digit are other codes
            return None
        close = get_close_matches(key, self._keys, 1, TYPO)
        return f"{close[0]!r}?" if close else None


def oddity(key: str) -> str | None:
    """What a key that matches nothing looks like, in words; None if like any other."""
    if OF_TOTALS.search(key):
        return "a row of totals?"
    if SCIENTIFIC.fullmatch(key):
        return "a code that a spreadsheet has shortened?"
    if LIKE_DATE.fullmatch(key):
        return "a code that a spreadsheet took for a date?"
    return None


def _folded(key: str, leave: str = "") -> str:
    for name, fold in FOLDS.items():
        key = key if name == leave else fold(key)
    return key


def _repaired(key: str) -> str | None:
    """UTF-8 that was read as Windows-1252, as in "AndrÃ©"."""
    try:
        return key.encode("cp1252").decode("utf-8")
    except UnicodeError:
        return None
