"""The folder of a run: each stage owns a folder in it, which appears whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import vbagg

try:
    import resource
except ImportError:  # not on Windows
    resource = None  # type: ignore[assignment]

DONE = "stage.json"
LOG = "run.log"
SETTINGS = "settings.toml"


@dataclass(frozen=True)
class RunFolder:
    """Where a run reads and writes.

    Attributes
    ----------
    path
        The folder.
    """

    path: Path

    def __getitem__(self, stage: str) -> Path:
        return self.path / stage

    def fingerprint(self, stage: str) -> str | None:
        """Fingerprint with which a stage was finished, None if it was not."""
        try:
            return json.loads((self[stage] / DONE).read_text(encoding="utf-8"))["fingerprint"]
        except (FileNotFoundError, NotADirectoryError, ValueError, KeyError):
            return None

    @contextmanager
    def writing(self, stage: str, fingerprint: str) -> Iterator[Path]:
        """A folder for a stage's results, which takes the stage's place at the end and is removed on failure."""
        self.path.mkdir(parents=True, exist_ok=True)
        fresh = self.path / f".{stage}-{os.getpid()}"
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir()
        cost = Cost()
        try:
            yield fresh
            facts = {"fingerprint": fingerprint, "version": vbagg.__version__, **cost.so_far()}
            (fresh / DONE).write_text(json.dumps(facts) + "\n", encoding="utf-8")
            self._replace(stage, fresh)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)

    def _replace(self, stage: str, fresh: Path) -> None:
        old = self.path / f".{stage}-old-{os.getpid()}"
        if self[stage].exists():
            self[stage].rename(old)
        fresh.rename(self[stage])
        shutil.rmtree(old, ignore_errors=True)

    @property
    def has_results(self) -> bool:
        """Whether any stage was finished here."""
        return (self.path / SETTINGS).exists()

    def forget(self) -> None:
        """Remove the log, and the folder with it unless it holds anything else."""
        (self.path / LOG).unlink(missing_ok=True)
        with suppress(OSError):
            self.path.rmdir()

    def log(self, text: str) -> None:
        """Add a line with the time to the log."""
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / LOG).open("a", encoding="utf-8") as file:
            file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n")


@dataclass(frozen=True)
class Cost:
    """Time since it was made, and the memory of the process."""

    wall: float = field(default_factory=time.perf_counter)
    cpu: float = field(default_factory=time.process_time)

    def so_far(self) -> dict[str, float]:
        """Seconds on the clock and of the processors, and the most memory that the process had so far in GB."""
        cost = {"seconds": time.perf_counter() - self.wall, "cpu_seconds": time.process_time() - self.cpu}
        if resource is not None:
            unit = 1 if sys.platform == "darwin" else 1024
            cost["peak_gb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9
        return {name: round(value, 3) for name, value in cost.items()}


def fingerprint(parts: Mapping[str, Any]) -> str:
    """Digest of settings and files; a file counts by its name, size and time of change."""
    return hashlib.sha256(json.dumps(_plain(parts), sort_keys=True).encode()).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Path):
        facts = value.stat() if value.exists() else None
        return [str(value.resolve()), facts and [facts.st_size, facts.st_mtime_ns]]
    return value
