"""The folder of a run: each stage owns a folder in it, which appears whole or not at all, and says how it was made."""

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
from functools import cached_property, lru_cache
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
class Record:
    """How the results of a stage were made, as its `stage.json` tells."""

    settings: dict[str, Any]
    """What the stage read, by `section.key`, with size and time of change of files."""
    after: dict[str, str]
    """Digests of the results of the stages that it rests on."""
    files: dict[str, list[Any]]
    """Size and digest of each file, by its path in the stage's folder."""
    version: str

    @cached_property
    def digest(self) -> str:
        """Tells these results from any others."""
        return hashlib.sha256(
            json.dumps([self.settings, self.after, self.files, self.version], sort_keys=True).encode()
        ).hexdigest()

    @classmethod
    def of(cls, settings: Mapping[str, Any], after: Mapping[str, str], folder: Path) -> Record:
        """The record of a stage that has written its results into a folder."""
        files = {name: [(folder / name).stat().st_size, _digest(folder / name)] for name in _files_in(folder)}
        return cls(plain(settings), dict(after), files, vbagg.__version__)

    def damage(self, folder: Path) -> str | None:
        """What is wrong with the files, in words; None if they are as they were written."""
        for name, (size, digest) in self.files.items():
            path = folder / name
            if not path.is_file():
                return f"{name} is missing"
            if path.stat().st_size != size:
                return f"{name} has {path.stat().st_size} bytes instead of {size}"
            if _digest(path) != digest:
                return f"{name} has other content than was written"
        return None


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

    def record(self, stage: str) -> Record | None:
        """How a stage was finished, None if it was not."""
        try:
            facts = json.loads((self[stage] / DONE).read_text(encoding="utf-8"))
            record = Record(*(facts[name] for name in Record.__dataclass_fields__))
            return record if facts["digest"] == record.digest else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    @contextmanager
    def writing(self, stage: str) -> Iterator[Unfinished]:
        """A folder for a stage's results, which takes the stage's place at the end and is removed on failure."""
        self.path.mkdir(parents=True, exist_ok=True)
        fresh = self.path / f".{stage}-{os.getpid()}"
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir()
        unfinished, cost = Unfinished(fresh), Cost()
        try:
            yield unfinished
            record = Record.of(unfinished.settings, unfinished.after, fresh)
            facts = {**{name: getattr(record, name) for name in Record.__dataclass_fields__}, "digest": record.digest}
            (fresh / DONE).write_text(json.dumps(facts | cost.so_far()) + "\n", encoding="utf-8")
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


@dataclass
class Unfinished:
    """A stage at work: the folder it writes into, and what it will have depended on."""

    folder: Path
    settings: Mapping[str, Any] = field(default_factory=dict)
    after: Mapping[str, str] = field(default_factory=dict)


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


def plain(value: Any) -> Any:
    """A value as JSON has it; a file counts by its name, size and time of change."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, Path):
        facts = value.stat() if value.exists() else None
        return [str(value.resolve()), facts and [facts.st_size, facts.st_mtime_ns]]
    return value


def _files_in(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def _digest(path: Path) -> str:
    facts = path.stat()
    return _digest_as_of(path, facts.st_size, facts.st_mtime_ns)


@lru_cache(maxsize=4096)
def _digest_as_of(path: Path, size: int, changed: int) -> str:
    """Digest of a file; several stages rest on the same one."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
