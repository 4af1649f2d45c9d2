"""Texts of a page that its scripts show."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from vbagg.language import LANGUAGES
from vbagg.texts import Texts, texts_in

__all__ = ["LANGUAGES", "SCRIPTED", "Texts", "scripted", "texts_in"]

SCRIPTED = ("above", "numbers", "table", "viewer", "visit")
"""Sections that the scripts of the page read."""


def scripted(say: Texts) -> dict[str, Any]:
    """What scripts read: texts by section, and how numbers are written."""
    return {**{section: say.entries[section] for section in SCRIPTED}, "marks": asdict(say.marks)}
