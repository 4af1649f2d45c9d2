"""Parts of a validation that are kept on disk, so that one that is interrupted goes on where it was."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, Self, TypeVar

from vbagg.files import written_whole


class Part(Protocol):
    """What is kept: the result of a fold, or of a refit."""

    def to_json(self) -> str:
        """All of it as text."""
        ...

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote."""
        ...


Kind = TypeVar("Kind", bound=Part)


@dataclass(frozen=True)
class Kept(Generic[Kind]):
    """Finished parts in a folder, a file each, which says what it rests on and appears whole or not at all.

    Attributes
    ----------
    folder
        Where they are.
    kind
        What they are.
    word
        What one is called, at the start of the name of its file.
    """

    folder: Path
    kind: type[Kind]
    word: str

    def get(self, name: Any, rests_on: str) -> Kind | None:
        """The part of this name, None unless it is there, whole, and rests on the same models and data."""
        try:
            document = json.loads(self._path(name).read_text(encoding="utf-8"))
            if (document["name"], document["rests_on"]) != (repr(name), rests_on):
                return None
            return self.kind.from_json(document["result"]) if document["digest"] == _digest(document) else None
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None

    def put(self, name: Any, part: Kind, rests_on: str) -> None:
        """Keep a part."""
        document = {"name": repr(name), "rests_on": rests_on, "result": part.to_json()}
        self.folder.mkdir(parents=True, exist_ok=True)
        with written_whole(self._path(name)) as file:
            file.write(json.dumps({**document, "digest": _digest(document)}).encode())

    def _path(self, name: Any) -> Path:
        return self.folder / f"{self.word}-{hashlib.sha256(repr(name).encode()).hexdigest()[:16]}.json"


def _digest(document: dict[str, str]) -> str:
    return hashlib.sha256(json.dumps([document[name] for name in ("name", "rests_on", "result")]).encode()).hexdigest()
