"""What a page says, by the language: templates with named places, one file for each language."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from vbagg import numerals
from vbagg.errors import unknown_name

LANGUAGES = ("en",)
SCRIPTED = ("table", "visit")
"""Sections that the scripts of the page read."""


@dataclass(frozen=True)
class Texts:
    """Templates by section and name, such as `verdict.question`.

    One with `one` and `other` forms is chosen among by the number `n`, which stands in it as people write it.
    """

    language: str
    entries: Mapping[str, Mapping[str, Any]]

    def __call__(self, name: str, /, n: int | None = None, **values: Any) -> str:
        """A text with its places filled."""
        section, _, key = name.partition(".")
        template = self.entries[section][key]
        if n is not None:
            values["n"] = numerals.count(n)
            template = template if isinstance(template, str) else template["one" if n == 1 else "other"]
        return str(template.format(**values))

    def with_words(self, words: Mapping[str, str]) -> Texts:
        """The same with other words for some, wherever they stand."""

        def said(template: Any) -> Any:
            if not isinstance(template, str):
                return {form: said(text) for form, text in template.items()}
            for word, other in words.items():
                template = template.replace(word, other)
            return template

        return Texts(self.language, {section: said(entries) for section, entries in self.entries.items()})

    @property
    def scripted(self) -> dict[str, Any]:
        """What scripts read."""
        return {section: self.entries[section] for section in SCRIPTED}


@cache
def texts_in(language: str = "en") -> Texts:
    """All texts of a language."""
    if language not in LANGUAGES:
        raise unknown_name("language", language, LANGUAGES)
    file = files("vbagg.report").joinpath("assets", "texts", f"{language}.toml")
    return Texts(language, tomllib.loads(file.read_text(encoding="utf-8")))
