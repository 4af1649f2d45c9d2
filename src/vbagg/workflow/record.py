"""How the results of a stage were made: what it read, what it rests on, and the files it wrote."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

import vbagg
from vbagg.workflow.digests import digest_of, file_digest
from vbagg.workflow.given import content_of

NAME_MARK = "::"  # climate.nc::rain is a layer of climate.nc
SHAPEFILE = (".shp", ".shx", ".dbf", ".prj", ".cpg")


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
        return digest_of([self.settings, self.after, self.files, self.version])

    @classmethod
    def told(cls, facts: Mapping[str, Any]) -> Record:
        """The record that a `stage.json` tells; ValueError unless it could have been written by a stage."""
        record = cls(*(facts[name] for name in cls.__dataclass_fields__))
        if not all(isinstance(table, dict) for table in (record.settings, record.after, record.files)):
            raise ValueError("`settings`, `after` and `files` must be tables")
        for name, about in record.files.items():
            path = PurePosixPath(name)
            if path.is_absolute() or ".." in path.parts or "\0" in name:
                raise ValueError(f"files must lie in the folder of the stage; got {name!r}")
            if not isinstance(about, list) or [type(fact) for fact in about] != [int, str]:
                raise ValueError(f"size and digest of {name!r} must be there; got {about!r}")
        if facts["digest"] != record.digest:
            raise ValueError("the digest is another one")
        return record

    @classmethod
    def of(cls, settings: Mapping[str, Any], after: Mapping[str, str], folder: Path) -> Record:
        """The record of a stage that has written its results into a folder."""
        files = {name: [(folder / name).stat().st_size, file_digest(folder / name)] for name in _files_in(folder)}
        return cls(plain(settings), dict(after), files, vbagg.__version__)

    def damage(self, folder: Path) -> str | None:
        """What is wrong with the files, in words; None if they are as they were written."""
        for name, (size, digest) in self.files.items():
            path = folder / name
            if not path.is_file():
                return f"{name} is missing"
            if path.stat().st_size != size:
                return f"{name} has {path.stat().st_size} bytes instead of {size}"
            if file_digest(path) != digest:
                return f"{name} has other content than was written"
        return None


def plain(value: Any) -> Any:
    """A value as JSON has it; a file counts by its name, size and time of change, a given object by its content."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, Path):
        if (content := content_of(value)) is not None:
            return [value.name, content]
        return [str(value.resolve()), _facts(Path(str(value).partition(NAME_MARK)[0]))]
    return value


def _facts(path: Path) -> list[Any] | None:
    """Size and time of change of a file; of several files that are read as one, a digest of all of theirs."""
    parts = [path] if path.exists() else []
    if path.is_dir():
        parts = [path / name for name in _files_in(path)]
    elif path.suffix.lower() == SHAPEFILE[0]:
        parts = sorted(part for part in path.parent.glob(f"{path.stem}.*") if part.suffix.lower() in SHAPEFILE)
    facts = [[part.name, part.stat().st_size, part.stat().st_mtime_ns] for part in parts]
    if len(facts) > 1:
        return [len(facts), digest_of(facts)]
    return facts[0][1:] if facts else None


def _files_in(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
