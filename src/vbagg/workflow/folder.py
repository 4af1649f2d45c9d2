"""The folder of a run: each stage owns a folder in it, which appears whole or not at all, and says how it was made."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vbagg.room import room_for
from vbagg.workflow.given import GIVEN
from vbagg.workflow.lock import LOCK, locked
from vbagg.workflow.processes import began_after, is_running
from vbagg.workflow.record import Record

try:
    import resource
except ImportError:  # not on Windows
    resource = None  # type: ignore[assignment]

DONE = "stage.json"
LOG = "run.log"
SETTINGS = "settings.toml"
LEFT = re.compile(
    rf"\.(?P<stage>[a-z]+)(-old)?-(?P<process>\d+)$|{re.escape(LOCK)}-(?P<locking>\d+)-|\.{SETTINGS}\..*\.part$|\.probe-"
)
"""Names of what a run that was killed may leave: `.models-123`, `.models-old-123`, half a settings file, and locks."""


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
            return Record.told(json.loads((self[stage] / DONE).read_text(encoding="utf-8")))
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Keep other runs out; what runs that were killed have left is gone, and an empty folder is at the end."""
        is_new = not self.path.exists()
        self._make()
        try:
            self._refuse_links()
            with room_for("the log, the lock or the settings of the run", self.path), locked(self.path):
                self._tidy()
                yield
        finally:
            if is_new:
                with suppress(OSError):
                    self.path.rmdir()

    def _make(self) -> None:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            file = next(path for path in (self.path, *self.path.parents) if path.exists())
            raise ValueError(
                f"`out` must name a folder; {file} is a file. Choose another name, or move the file away."
            ) from None
        except OSError as error:
            raise ValueError(f"`out` must be a place to write to; {self.path}: {error.strerror}.") from None

    def _refuse_links(self) -> None:
        """A run writes nothing outside its folder: what it adds to, or writes into, must be its own."""
        for path in (*(self.path / name for name in (LOG, LOCK, GIVEN)), *self.path.glob(".*-kept")):
            if path.is_symlink():
                raise ValueError(
                    f"{path} must lie in the folder of the run; it is a link to {os.readlink(path)}. Remove the link."
                )

    def _tidy(self) -> None:
        """Put stages into place that were about to be when their run was killed; remove all else that it left."""
        for path in sorted(self.path.glob(".*")):
            found = LEFT.match(path.name)
            if found is None or not _is_left(path, int(found["process"] or found["locking"] or 0)):
                continue
            stage = found["stage"]
            if stage is not None and not self[stage].exists() and (path / DONE).exists():
                path.rename(self[stage])
            else:
                _remove(path)

    @contextmanager
    def writing(self, stage: str) -> Iterator[Unfinished]:
        """A folder for a stage's results, which takes the stage's place at the end and is removed on failure."""
        self.path.mkdir(parents=True, exist_ok=True)
        fresh = self.path / f".{stage}-{os.getpid()}"
        _remove(fresh)
        fresh.mkdir()
        unfinished, cost = Unfinished(fresh), Cost()
        try:
            with room_for(f"the stage {stage!r}", fresh):
                yield unfinished
                record = Record.of(unfinished.settings, unfinished.after, fresh)
                facts = {name: getattr(record, name) for name in Record.__dataclass_fields__}
                facts |= {"digest": record.digest, **cost.so_far()}
                (fresh / DONE).write_text(json.dumps(facts) + "\n", encoding="utf-8")
            self._replace(stage, fresh)
            shutil.rmtree(self.kept(stage), ignore_errors=True)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)

    def _replace(self, stage: str, fresh: Path) -> None:
        old = self.path / f".{stage}-old-{os.getpid()}"
        if self[stage].exists():
            self[stage].rename(old)
        fresh.rename(self[stage])
        _remove(old)

    def kept(self, stage: str) -> Path:
        """Where a stage keeps parts of its work until it is finished, for the next run if this one is killed."""
        return self.path / f".{stage}-kept"

    @property
    def has_results(self) -> bool:
        """Whether any stage was finished here."""
        return (self.path / SETTINGS).exists()

    def log(self, text: str) -> None:
        """Add a line with the time to the log."""
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / LOG).open("a", encoding="utf-8") as file:
            file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n")

    def forget(self) -> None:
        """Remove the log, and what was given."""
        (self.path / LOG).unlink(missing_ok=True)
        shutil.rmtree(self.path / GIVEN, ignore_errors=True)


def _remove(path: Path) -> None:
    """Remove a folder, a file or a link, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _is_left(path: Path, process: int) -> bool:
    """Whether what a run was writing is there though its process, 0 if it is not known, is gone."""
    if process in (0, os.getpid()) or not is_running(process):
        return True
    try:
        return began_after(process, path.stat().st_mtime)
    except FileNotFoundError:  # its process has just removed it
        return False


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
