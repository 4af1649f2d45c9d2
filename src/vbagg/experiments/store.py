"""A run on disk: the rows of finished tasks, the settings they belong to, and the errors.

Cells are kept as text, so that what was written once is never rounded or retyped by a later run.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
import platform
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from vbagg import __version__
from vbagg.experiments.base import Experiment, Settings, Task
from vbagg.experiments.tables import write_text

if TYPE_CHECKING:
    import pandas as pd

    from vbagg.experiments.workers import Outcome

ROWS, SETTINGS, ERRORS = "repetitions.csv", "settings.json", "errors.log"
BOOKKEEPING = ("wall_seconds", "cpu_seconds", "started", "version")
_TEXTS = ("method", "started", "version")

Row = dict[str, str]


def load_rows(out: Path | str) -> pd.DataFrame:
    """The table of finished tasks: keys, scores, seconds, start and package version; floats as they were computed.

    Missing scores are NaN. A column whose texts all look like numbers is read as numbers.
    """
    import pandas as pd

    path = Path(out) / ROWS
    if not path.exists():
        raise FileNotFoundError(f"No finished tasks in {str(out)!r}: there is no {ROWS}.")
    rows = _read_rows(path)
    return pd.DataFrame({name: _column(name, [row[name] for row in rows]) for name in rows[0]})


@dataclass
class Store:
    """Rows of one experiment's folder, in the order of ``tasks``, then those of earlier runs with other tasks."""

    folder: Path
    tasks: Sequence[Task]
    rows: list[Row]

    @classmethod
    def open(cls, folder: Path, tasks: Sequence[Task]) -> Store:
        """Read what earlier runs finished."""
        store = cls(folder, tasks, _read_rows(folder / ROWS))
        for name in tasks[0]:
            if store.rows and name not in store.rows[0]:
                raise ValueError(
                    f"{str(folder / ROWS)!r} has no column {name!r}: its tasks are of another kind. "
                    "Choose another folder with --out."
                )
        return store

    def waiting(self) -> list[Task]:
        """Tasks without a row."""
        finished = {self._identity(row) for row in self.rows}
        return [task for task in self.tasks if self._identity(_texts(task)) not in finished]

    def add(self, outcome: Outcome) -> None:
        """Put a finished task's row into the file, which is replaced in one piece."""
        assert outcome.scores is not None
        times = (outcome.wall_seconds, outcome.cpu_seconds, outcome.started, __version__)
        self.rows.append(_texts({**outcome.task, **outcome.scores, **dict(zip(BOOKKEEPING, times, strict=True))}))
        self._write()

    def log(self, outcome: Outcome) -> None:
        """Append a failure to the log of errors."""
        with (self.folder / ERRORS).open("a", encoding="utf-8") as log:
            log.write(f"{outcome.started} {outcome.task}\n{outcome.error}\n")

    def _identity(self, row: Row) -> tuple[str, ...]:
        return tuple(row[name] for name in self.tasks[0])

    def _write(self) -> None:
        position = {self._identity(_texts(task)): at for at, task in enumerate(self.tasks)}
        rows = sorted(self.rows, key=lambda row: position.get(self._identity(row), len(position)))
        keys = list(self.tasks[0])
        columns = dict.fromkeys(name for row in rows for name in row)
        scores = [name for name in columns if name not in keys and name not in BOOKKEEPING]
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, [*keys, *scores, *BOOKKEEPING], restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        write_text(self.folder / ROWS, text.getvalue())


def record_settings(folder: Path, experiment: Experiment, settings: Settings, jobs: int) -> None:
    """Add this run to the settings file: what was asked for, when, and on what kind of machine."""
    known = _read_settings(folder)
    run = {
        "date": now(),
        "repetitions": settings.repetitions,
        "methods": settings.methods,
        "jobs": jobs,
        "machine": machine(),
    }
    content = {**_identity(experiment, settings), "runs": [*known.get("runs", []), run]}
    write_text(folder / SETTINGS, json.dumps(content, indent=1) + "\n")


@contextmanager
def claimed(folder: Path, experiment: Experiment, settings: Settings) -> Iterator[None]:
    """Create the folder, or see that what it holds can be continued with these settings; keep other runs out of it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / ".lock").open("w")
    except OSError as error:
        reason = error.strerror or str(error)
        raise ValueError(f"Cannot write to {str(folder)!r}: {reason}. Choose another folder with --out.") from None
    with lock:
        if not _locks(lock):
            raise ValueError(
                f"Another run is writing to {str(folder)!r}. Wait for it, or choose another folder with --out."
            )
        _check_same(folder, _identity(experiment, settings))
        yield


def _locks(file: IO[str]) -> bool:
    """Whether this process gets the file's lock, which ends with the process, whatever ends it."""
    try:
        import fcntl
    except ImportError:  # no such locks on Windows
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def machine() -> dict[str, Any]:
    """What times depend on, and nothing that names the machine or its user."""
    return {
        "cpus": os.cpu_count(),
        "platform": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "vbagg": __version__,
    }


def now() -> str:
    """Date and time in UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _identity(experiment: Experiment, settings: Settings) -> dict[str, Any]:
    """What must not change within a folder; repetitions and methods only add rows."""
    return {"experiment": experiment.name, "quick": settings.quick, "options": dict(settings.options)}


def _check_same(folder: Path, wanted: dict[str, Any]) -> None:
    known = _read_settings(folder)
    if not known:
        if (folder / ROWS).exists():
            raise ValueError(f"{str(folder)!r} holds {ROWS} of unknown settings. Choose another folder with --out.")
        return
    before, after = _flat(known), _flat(wanted)
    for name in {**before, **after}:
        if before.get(name) != after.get(name):
            raise ValueError(
                f"{str(folder)!r} holds results with {name} = {_shown(before.get(name))}; this run has {name} = "
                f"{_shown(after.get(name))}. Choose another folder with --out."
            )


def _flat(identity: dict[str, Any]) -> dict[str, Any]:
    options = identity.get("options", {})
    return {"experiment": identity.get("experiment"), "quick": identity.get("quick"), **options}


def _shown(value: Any) -> str:
    return "(default)" if value is None else repr(value)


def _read_settings(folder: Path) -> dict[str, Any]:
    path = folder / SETTINGS
    try:
        content = json.loads(path.read_text()) if path.exists() else {}
    except json.JSONDecodeError as error:
        raise ValueError(f"{str(path)!r} is not readable: {error}. Choose another folder with --out.") from None
    return content


def _read_rows(path: Path) -> list[Row]:
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _column(name: str, cells: list[str]) -> list[Any]:
    """Cells as integers, else as floats, else as texts."""
    for kind in () if name in _TEXTS else (int, float):
        try:
            return [kind(cell) if cell else math.nan for cell in cells]
        except ValueError:
            continue
    return [cell or None for cell in cells]


def _texts(values: Any) -> Row:
    """Cells whose numbers read back as the same numbers."""
    return {name: value if isinstance(value, str) else repr(value) for name, value in values.items()}
