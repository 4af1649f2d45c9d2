"""What is said to readers, by the language: templates with named places, one file for each language."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache
from importlib.resources import files
from typing import Any

from vbagg.language import ENGLISH, LANGUAGES, Language, chosen, known


@dataclass(frozen=True)
class Texts:
    """Templates by section and name, such as `verdict.question`.

    One with `one` and `other` forms is chosen among by the number `n`. Whole numbers stand in texts as people write
    them.
    """

    language: str
    entries: Mapping[str, Mapping[str, Any]]

    def __call__(self, name: str, /, **values: Any) -> str:
        """A text with its places filled."""
        section, _, key = name.partition(".")
        template = self.entries[section][key]
        if not isinstance(template, str):
            template = template["one" if self.marks.is_singular(values["n"]) else "other"]
        written = {what: self.marks.digits(one) if isinstance(one, int) else one for what, one in values.items()}
        return str(template.format(**written))

    def with_words(self, words: Mapping[str, str]) -> Texts:
        """The same with other words for some, wherever they stand."""

        def said(template: Any) -> Any:
            if isinstance(template, Mapping):
                return {form: said(text) for form, text in template.items()}
            if not isinstance(template, str):
                return template
            for word, other in words.items():
                template = template.replace(word, other)
            return template

        return Texts(self.language, {section: said(entries) for section, entries in self.entries.items()})

    @property
    def marks(self) -> Language:
        """How numbers are written."""
        return LANGUAGES[self.language]

    def noun(self, word: str) -> str:
        """A word of ours, such as "polygons"; a user's own word as it is."""
        return str(self.entries["nouns"].get(word, word))

    def listed(self, parts: Sequence[str]) -> str:
        """A, B and C."""
        *others, last = parts
        if not others:
            return last
        softened = re.match(self.marks.softened, last) is not None
        return self("numbers.list_softened" if softened else "numbers.list", others=", ".join(others), last=last)

    def date(self, day: date) -> str:
        """A day as people write it."""
        own = self.entries["dates"]
        number = own["first"] if day.day == 1 else str(day.day)
        return self("dates.day", day=number, month=own["months"][day.month - 1], year=str(day.year))


def texts_in(language: str | None = None) -> Texts:
    """All texts of a language, by default of the one that is written at the moment."""
    return _texts_in(known(chosen() if language is None else language))


@cache
def _texts_in(language: str) -> Texts:
    """What a language has not yet is English; tests see to it that nothing is missing."""
    own, english = entries_of(language), entries_of(ENGLISH)
    return Texts(language, {section: {**entries, **own.get(section, {})} for section, entries in english.items()})


@cache
def entries_of(language: str) -> Mapping[str, Mapping[str, Any]]:
    """What the file of a language holds."""
    file = files("vbagg").joinpath("report", "assets", "texts", f"{language}.toml")
    return tomllib.loads(file.read_text(encoding="utf-8"))
