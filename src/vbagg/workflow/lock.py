"""One run at a time in a folder.

The lock is a folder that is renamed into place with its content, which file systems do whole or not at all, whether or
not they can lock files.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

from vbagg.workflow.processes import Process

LOCK = ".lock"
HOLDER = "holder.json"
TAKEN = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR, *((errno.EACCES,) if os.name == "nt" else ()))


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder; refuse if another process does, and take over from one that is gone."""
    own = Process.own()
    lock, aside = folder / LOCK, folder / f"{LOCK}-{own.number}-{secrets.token_hex(4)}"
    aside.mkdir()
    try:
        (aside / HOLDER).write_text(json.dumps(asdict(own)), encoding="utf-8")
        while not _moved(aside, lock):
            _clear(lock, holder_of(lock))
        yield
    finally:
        if holder_of(lock) == own:
            with suppress(OSError):
                lock.rename(aside)
        shutil.rmtree(aside, ignore_errors=True)


def holder_of(lock: Path) -> Process | None:
    """Who holds a lock, None if nobody does."""
    try:
        return Process.told(json.loads((lock / HOLDER).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, RecursionError):
        return None


def _moved(aside: Path, lock: Path) -> bool:
    """Whether the lock was free; a folder is not renamed to that of another which holds anything."""
    try:
        aside.rename(lock)
    except OSError as error:
        if error.errno in TAKEN:
            return False
        raise
    return True


def _clear(lock: Path, holder: Process | None) -> None:
    """Take a lock out of the way that nobody holds any more."""
    if holder is not None and not holder.is_gone:
        raise BlockingIOError(_refusal(lock, holder))
    stale = lock.with_name(f"{LOCK}-{os.getpid()}-{secrets.token_hex(4)}")
    with suppress(FileNotFoundError):
        lock.rename(stale)
    if holder_of(stale) != holder:  # another process was faster, and this is its lock
        with suppress(OSError):
            stale.rename(lock)
    if stale.is_dir():
        shutil.rmtree(stale, ignore_errors=True)
    else:
        stale.unlink(missing_ok=True)


def _refusal(lock: Path, holder: Process) -> str:
    if holder.is_here:
        who, remedy = "", "Wait until it ends, or name another folder with `out`."
    else:
        who = f" on {holder.machine}"
        remedy = f"Whether it still runs cannot be told from here; if it does not, remove {lock} and start again."
    return (
        f"{lock.parent} is in use: process {holder.number}{who} has been working in it since {holder.since}. "
        f"Only one run at a time may write to a folder. {remedy}"
    )
