"""Files that appear whole or not at all, and names for them."""

from __future__ import annotations

import os
import re
import secrets
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

LONGEST_NAME = 120
"""Bytes of a name, which leaves room for what is put before and after it."""
DEVICES = {"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10))}
"""Names that Windows keeps for itself."""


def file_names(names: Sequence[str]) -> list[str]:
    """Names that every file system takes, and tells apart, for any distinct names of columns.

    Those that are fine as they are come first, and stay so.
    """
    wanted = [_safe(name) for name in names]
    given: dict[int, str] = {}
    taken: set[str] = set()
    for at in sorted(range(len(names)), key=lambda at: wanted[at] != names[at]):
        name, count = wanted[at], 1
        while name.casefold() in taken:  # some file systems do not tell capitals apart
            count += 1
            name = f"{wanted[at]}_{count}"
        given[at] = name
        taken.add(name.casefold())
    return [given[at] for at in range(len(names))]


def _safe(name: str) -> str:
    plain = unicodedata.normalize("NFC", name)
    plain = "".join("_" if char in '/\\:*?"<>|%#' or not char.isprintable() else char for char in plain)
    plain = plain.encode()[:LONGEST_NAME].decode(errors="ignore")
    plain = re.sub(r"^[.\s~-]+|[.\s]+$", "_", plain) or "_"
    return f"{plain}_" if plain.split(".")[0].casefold() in DEVICES else plain


@contextmanager
def written_whole(target: Path) -> Iterator[BinaryIO]:
    """A file under a temporary name that replaces `target` at the end; after an error nothing has changed."""
    part = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        with open(part, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, target)
    except BaseException as error:
        part.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is not None and error.filename is None:
            error.filename = str(target)
        raise
