"""Words at the start of a line."""

from __future__ import annotations


def sentence(text: str) -> str:
    """A text whose first letter is a capital; the others stay as they are."""
    return text[:1].upper() + text[1:]


def own_word(name: str) -> str:
    """A user's name for something: an ordinary word gets a capital, any other stays, as SID74 and pf_cases do."""
    return sentence(name) if name.isalpha() and name.islower() else name
