"""Data that the scripts of a page read."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup


@dataclass(frozen=True)
class DataBlock:
    """Content of a script element, which cannot end it: "<" is refused."""

    identifier: str
    text: str
    kind: str

    def __post_init__(self) -> None:
        if "<" in self.text:
            raise ValueError(f"the content of {self.identifier!r} must not hold '<'")

    @property
    def content(self) -> Markup:
        """As it stands in the page: browsers do not unescape data."""
        return Markup(self.text)


def script_json(value: Any) -> str:
    """JSON that can stand inside a script element."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
