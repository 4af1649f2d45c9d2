"""A disk that is full: what was being written, where, and how to go on."""

from __future__ import annotations

import errno
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from vbagg.numerals import rate

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
WORDS = ("no space left", "disk is full", "disk full", "quota exceeded", "file too large")
"""In messages of libraries that hide the system's own error."""
PROBE_BYTES = 1 << 20


class DiskFullError(OSError):
    """There was no room for what was being written."""


@contextmanager
def room_for(what: str, folder: Path) -> Iterator[None]:
    """Tell that there was no room for something in a folder, if that is why it failed."""
    try:
        yield
    except DiskFullError:
        raise
    except Exception as error:
        if _is_full(error) or not _has_room(folder):
            raise DiskFullError(_message(error, what, folder)) from error
        raise


def _is_full(error: BaseException | None) -> bool:
    """Whether an error, or one that led to it, is of a disk without room."""
    if error is None:
        return False
    if isinstance(error, OSError) and error.errno in FULL:
        return True
    if any(word in str(error).lower() for word in WORDS):
        return True
    return _is_full(error.__cause__) or (not error.__suppress_context__ and _is_full(error.__context__))


def _has_room(folder: Path) -> bool:
    """Whether some more can be written: libraries that write in their own way do not always tell why they failed."""
    probe = folder / f".probe-{secrets.token_hex(4)}"
    try:
        probe.write_bytes(bytes(PROBE_BYTES))
    except OSError as error:
        return error.errno not in FULL
    finally:
        with suppress(OSError):
            probe.unlink(missing_ok=True)
    return True


def _message(error: Exception, what: str, folder: Path) -> str:
    named, last = getattr(error, "filename", None), _newest(folder)
    file = "" if last is None else f" (its last file was {last.name})"
    if isinstance(named, str | Path):
        file = f" ({Path(named).name})"
    limit = " File sizes are limited here (`ulimit -f`)." if getattr(error, "errno", None) == errno.EFBIG else ""
    return (
        f"The disk is full: there was no room in {folder.parent if folder.name.startswith('.') else folder} while "
        f"writing {what}{file}; {_amount(shutil.disk_usage(folder).free)} are free.{limit} Make room and give the same "
        "command again: a run goes on from what it has finished."
    )


def _newest(folder: Path) -> Path | None:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return max(files, key=lambda path: path.stat().st_mtime_ns, default=None)


def _amount(size: float) -> str:
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{rate(size)} {unit}"
        size /= 1000
    return f"{rate(size)} GB"
