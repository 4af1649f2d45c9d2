"""What a page says, without its tags: words that are explained are links, which stand in the middle of sentences."""

import re
from html import unescape

SILENT = re.compile(r"<(script|style)\b.*?</\1>", re.DOTALL)


def without_tags(page: str) -> str:
    """Text of a page, as a reader sees it."""
    return unescape(re.sub(r"<[^>]*>", "", SILENT.sub("", page)))
