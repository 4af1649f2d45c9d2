"""Files that appear whole or not at all, and the wording that names them in messages."""

from __future__ import annotations

import os
import re
import secrets
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from vbagg import numerals

SHOWN = 5  # how many names a message lists


@contextmanager
def appearing(target: Path) -> Iterator[Path]:
    """Give a temporary name beside `target`; the file moves into place at the end, or vanishes after an error."""
    part = target.with_name(f".{target.stem}.{secrets.token_hex(4)}{target.suffix}")
    try:
        yield part
        os.replace(part, target)
    except OSError as error:
        if error.errno is not None and error.filename is None:
            error.filename = str(target)
        raise
    finally:
        for leftover in target.parent.glob(f"{part.name}*"):  # journals and side files too
            leftover.unlink(missing_ok=True)


@contextmanager
def output_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Create a folder, and take away again after an error what was created for it."""
    folder = Path(path)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"`folder` must be a folder; {folder} is a file. Choose another name.")
    created = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"`folder` must be a place to write to; {folder}: {error.strerror}.") from None
    try:
        yield folder
    except BaseException:
        for empty in created:
            if not any(empty.iterdir()):
                empty.rmdir()
        raise


def is_local(path: str) -> bool:
    """Whether a path is a file of this machine rather than an address or one of GDAL's virtual files."""
    return "://" not in path and not path.startswith("/vsi")


def require_file(path: str, what: str) -> None:
    """Raise unless the file exists and holds anything."""
    if not is_local(path):
        return
    if not Path(path).exists():
        advice = "Download it first." if re.match(r"(https?|ftp|s3|gs):/", path) else "Correct the path."
        raise ValueError(f"{what} must be an existing file; there is no {path}. {advice}")
    if Path(path).is_file() and Path(path).stat().st_size == 0:
        raise ValueError(f"{what} must not be empty; {path} has 0 bytes. Copy or download it again.")


def inside_zip(path: str, endings: Sequence[str]) -> str:
    """What to open for a path: the only file with one of these endings in an archive, any other path itself."""
    if not zipfile.is_zipfile(path) or Path(path).suffix.lower() != ".zip":
        return path
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if name.lower().endswith(tuple(endings))]
    own = [name for name in names if not name.startswith("__MACOSX/")]
    if len(own) > 1:
        raise ValueError(f"{path} must hold one file to read; it holds {some(own)}. Unpack it, and name one of them.")
    if not own:
        raise ValueError(f"{path} must hold a file that ends in {', '.join(endings)}; it holds none. Unpack it.")
    return f"/vsizip/{Path(path).resolve()}/{own[0]}"


def as_reason(error: BaseException) -> str:
    """Why GDAL could not read a file, in one line."""
    text = one_line(error)
    return "it is in no format that is known" if "not recognized as" in text else text


def some(values: Sequence[object], quote: bool = True) -> str:
    """The first few values, for messages."""
    more = len(values) - SHOWN
    shown = ", ".join(repr(v) if quote else str(v) for v in values[:SHOWN])
    return shown + (f" and {more} more" if more > 0 else "")


def plural(count: int, noun: str) -> str:
    """A number and what is counted, for messages."""
    return f"{numerals.count(count)} {noun}{'' if count == 1 else 's'}"


def percent(part: float, whole: float) -> str:
    """A share, for messages."""
    return numerals.share(part / whole if whole > 0 else 0.0)


def one_line(error: BaseException) -> str:
    """The text of another package's error in one line, without a full stop at its end."""
    return " ".join(str(error).split()).rstrip(". ") or type(error).__name__
