"""Words that a page explains where they stand: links to a list at its end, whose text scripts show beside the word."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.resources import files
from typing import Any
from unicodedata import combining, normalize

from markupsafe import Markup, escape

from vbagg.language import ENGLISH

Explain = Callable[[str], Markup]
ANCHOR = "words"


@dataclass(frozen=True)
class Word:
    """A word, the forms of it that are looked for in texts, and what it means."""

    key: str
    title: str
    said: tuple[str, ...]
    text: str


@cache
def words_in(language: str) -> Mapping[str, Word]:
    """All words of a language by key."""
    path = files("vbagg.report").joinpath("assets", "glossary", f"{language}.toml")
    entries = tomllib.loads(path.read_text(encoding="utf-8"))
    return {key: Word(key, own["title"], tuple(own["said"]), own["text"]) for key, own in entries.items()}


@dataclass(frozen=True)
class Glossary:
    """The words of a page, and which of them it has."""

    words: Mapping[str, Word]
    language: str = ENGLISH
    used: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, language: str, names: Collection[str] = ()) -> Glossary:
        """That of a page in this language, on which names may be words that mean something else."""
        own = {name.casefold() for name in names}
        words = words_in(language).values()
        return cls(
            {word.key: word for word in words if own.isdisjoint(form.casefold() for form in word.said)}, language
        )

    def section(self) -> Explain:
        """What makes markup of the texts of a section: each word is a link where it first stands."""
        done: set[str] = set()

        def explain(text: str) -> Markup:
            parts, end = [], 0
            for found in self._pattern.finditer(text):
                key = self._keys[found[0].lower()]
                if key not in done:
                    done.add(key)
                    parts += [escape(text[end : found.start()]), self.link(key, found[0])]
                    end = found.end()
            return Markup("").join([*parts, escape(text[end:])])

        return explain

    def link(self, key: str, text: str) -> Markup:
        """A text that is explained by a word, if that is there."""
        if key not in self.words:
            return escape(text)
        self.used.add(key)
        return Markup('<a class="term" href="#word-{0}" aria-describedby="word-{0}">{1}</a>').format(key, text)

    @property
    def shown(self) -> list[Word]:
        """The words that are on the page, in the order of the alphabet."""
        return sorted((self.words[key] for key in self.used), key=lambda word: plain_letters(word.title))

    @property
    def scripted(self) -> list[list[Any]]:
        """Words on the page as scripts look for them: key and forms."""
        return [[word.key, list(word.said)] for word in self.shown if word.said]

    @cached_property
    def _keys(self) -> dict[str, str]:
        return {form.lower(): word.key for word in self.words.values() for form in word.said}

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        forms = sorted(self._keys, key=len, reverse=True)
        return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, forms))})(?!\w)", re.IGNORECASE)


def plain_letters(text: str) -> str:
    """Small letters without accents, by which words are in order."""
    return "".join(letter for letter in normalize("NFD", text) if not combining(letter)).casefold()
