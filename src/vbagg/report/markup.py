"""HTML that cannot be broken by what is put into it: all text and all attributes are escaped here."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable
from typing import Any

VOID = frozenset({"img", "input", "meta", "link", "br"})


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def tag(name: str, *children: str, **attributes: str | int | bool | None) -> Markup:
    """An element; children that are not Markup are escaped.

    Underscores of attribute names become hyphens, one at the end falls away (``class_``). True gives the bare
    attribute; None and False leave it out.
    """
    opening = "".join(f" {_attribute(key, value)}" for key, value in attributes.items() if value not in (None, False))
    if name in VOID:
        return Markup(f"<{name}{opening}>")
    return Markup(f"<{name}{opening}>{join(children)}</{name}>")


def join(parts: Iterable[str]) -> Markup:
    """Parts one after another; those that are not Markup are escaped."""
    return Markup("".join(part if isinstance(part, Markup) else html.escape(part) for part in parts))


def data_script(identifier: str, content: str, kind: str) -> Markup:
    """A block of data that scripts can read; the content must be free of "<"."""
    if "<" in content:
        raise ValueError(f"the content of {identifier!r} must not hold '<'")
    return Markup(f'<script type="{html.escape(kind)}" id="{html.escape(identifier)}">{content}</script>')


def script_json(value: Any) -> str:
    """JSON that can stand inside a script element."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _attribute(key: str, value: str | int | bool | None) -> str:
    name = key.rstrip("_").replace("_", "-")
    return name if value is True else f'{name}="{html.escape(str(value))}"'
