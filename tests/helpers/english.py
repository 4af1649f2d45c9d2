"""English texts that are left in a page of another language."""

import re
from collections.abc import Collection
from html.parser import HTMLParser

from vbagg.language import ENGLISH
from vbagg.texts import entries_of, texts_in

SHORTEST = 9
"""Letters of a part of a text that is looked for."""
READ = ("aria-label", "title", "alt", "placeholder")
"""Attributes that readers come to know."""
SILENT = ("script", "style")
WITHOUT_END = ("meta", "link", "img", "input", "br", "path", "circle")


class Read(HTMLParser):
    """Collects what a page says in its own language."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []
        self._open: list[tuple[str, bool]] = [("", False)]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        is_left = self._open[-1][1] or tag in SILENT or (tag != "html" and values.get("lang") == ENGLISH)
        if not is_left:
            self.said += [values[name] or "" for name in READ if name in values]
        if tag not in WITHOUT_END:
            self._open.append((tag, is_left))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        if tag in [name for name, _ in self._open]:
            while self._open.pop()[0] != tag:
                pass

    def handle_data(self, data: str) -> None:
        if not self._open[-1][1]:
            self.said.append(data)


def parts_of(template: str) -> list[str]:
    """What a template says between its places, if that is more than a word."""
    parts = (part.strip(" ,.:;()\n") for part in re.split(r"{.*?}", template))
    return [part for part in parts if len(part) >= SHORTEST and " " in part]


def left_in_english(page: str, language: str, but: Collection[str] = ()) -> list[str]:
    """Names of English texts, other than these, that stand in a page outside of what is said to be English."""
    reader = Read()
    reader.feed(page)
    text, own, found = "\n".join(reader.said), texts_in(language).entries, []
    for section, names in entries_of(ENGLISH).items():
        for name, template in names.items():
            for form in template.values() if isinstance(template, dict) else [template]:
                parts = parts_of(form) if isinstance(form, str) else []
                is_same = any(part in str(own[section][name]) for part in parts)
                if any(part in text for part in parts) and not is_same and f"{section}.{name}" not in but:
                    found.append(f"{section}.{name}")
    return found
