"""Folds of a cross-validation that are kept on disk, so that one that is interrupted goes on where it was."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vbagg.files import written_whole
from vbagg.validate.result import FoldResult


@dataclass(frozen=True)
class KeptFolds:
    """Finished folds in a folder, a file each, which says what its results rest on and appears whole or not at all."""

    folder: Path

    def get(self, fold: Any, rests_on: str) -> FoldResult | None:
        """The result of a fold, None unless it is there, whole, and rests on the same models, folds and data."""
        try:
            document = json.loads(self._path(fold).read_text(encoding="utf-8"))
            if (document["fold"], document["rests_on"]) != (repr(fold), rests_on):
                return None
            return FoldResult.from_json(document["result"]) if document["digest"] == _digest(document) else None
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None

    def put(self, result: FoldResult, rests_on: str) -> None:
        """Keep the result of a fold; one with a fit that failed is left out, since it may succeed the next time."""
        if result.failures:
            return
        document = {"fold": repr(result.fold), "rests_on": rests_on, "result": result.to_json()}
        self.folder.mkdir(parents=True, exist_ok=True)
        with written_whole(self._path(result.fold)) as file:
            file.write(json.dumps({**document, "digest": _digest(document)}).encode())

    def _path(self, fold: Any) -> Path:
        return self.folder / f"fold-{hashlib.sha256(repr(fold).encode()).hexdigest()[:16]}.json"


def _digest(document: dict[str, str]) -> str:
    return hashlib.sha256(json.dumps([document[name] for name in ("fold", "rests_on", "result")]).encode()).hexdigest()
