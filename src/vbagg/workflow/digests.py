"""Digests that tell content from any other."""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from pathlib import Path
from typing import Any


def digest_of(content: Any) -> str:
    """Digest of what JSON can hold."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def file_digest(path: Path) -> str:
    """Digest of a file's content."""
    facts = path.stat()
    return _digest_as_of(path, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)


@lru_cache(maxsize=4096)
def _digest_as_of(path: Path, *as_of: int) -> str:
    """Digest of a file; several stages rest on the same one."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
