"""What is asked of a model about the pixels of every piece, here or on workers; answers are files of numbers.

A file appears whole, and its name tells what it rests on and what it holds. Where files are kept, the same questions
about the same pixels and model find them again: work that was interrupted goes on from the pieces that are finished.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from vbagg import __version__, io
from vbagg.errors import ClusterError
from vbagg.files import written_whole
from vbagg.geo.pieces import Piece, PieceRows
from vbagg.held import itself
from vbagg.progress import Report

Floats = NDArray[np.float64]
DIGITS = 32
"""Of digests in names of files."""


class Question(Protocol):
    """Something that is asked about every piece."""

    @property
    def name(self) -> str:
        """Begins the names of files with answers."""
        ...

    def told(self) -> str:
        """What an answer depends on besides model and pixels."""
        ...

    def answer(self, model: Any, rows: PieceRows) -> Floats:
        """Numbers (k, n) about the pixels of a piece."""
        ...


class Source(Protocol):
    """Where pieces come from."""

    @property
    def all(self) -> tuple[Piece, ...]:
        """The pieces."""
        ...

    @property
    def digests(self) -> tuple[str, ...]:
        """Tell the content of each from any other."""
        ...

    def rows(self, piece: Piece) -> PieceRows:
        """Pixels of a piece."""
        ...


@dataclass(frozen=True)
class Answers:
    """Answers to one question, by piece."""

    paths: tuple[Path, ...]

    def __getitem__(self, number: int) -> Floats:
        """Numbers (k, n), which stay in their file until they are used."""
        return np.load(self.paths[number], mmap_mode="r")

    def __iter__(self) -> Iterator[Floats]:
        return (self[number] for number in range(len(self.paths)))


def ask(
    model: Any,
    source: Source,
    questions: Sequence[Question],
    folder: Path,
    *,
    keep: bool = False,
    client: Any = None,
    report: Report = lambda entry: None,
) -> list[Answers]:
    """Answers to all questions; of a piece, all that are missing are found in one go.

    Parameters
    ----------
    model
        A fitted model.
    source
        The pieces.
    questions
        What is asked.
    folder
        Where answers go; workers write to it too.
    keep
        Whether answers that are there already count.
    client
        A `distributed.Client` of Dask, whose workers each take a piece at a time. A single piece stays here.
    report
        Is told of every piece: `pieces` done, `of` all.
    """
    folder.mkdir(parents=True, exist_ok=True)
    rests_on = io.digest(model) if keep else ""
    told = tuple(hashlib.sha256(question.told().encode()).hexdigest() for question in questions)
    task = _Task(model, source, tuple(questions), told, folder.resolve(), rests_on)
    known = _whole_files(folder) if keep else {}
    paths = {
        (at, piece.number): known[stem]
        for piece in source.all
        for at in range(len(questions))
        if (stem := task.stem(at, piece)) in known
    }
    missing = {
        piece: tuple(at for at in range(len(questions)) if (at, piece.number) not in paths) for piece in source.all
    }
    waiting = [(piece, ats) for piece, ats in missing.items() if ats]
    done, of, said = len(source.all) - len(waiting), len(source.all), set[tuple[type, str]]()
    if done:
        report({"pieces": done, "of": of, "kept": True})
    for (piece, ats), (names, warned) in _carried_out(task, waiting, client):
        paths |= {(at, piece.number): _there(task.folder / name) for at, name in zip(ats, names, strict=True)}
        for kind, text in warned:
            if (kind, text) not in said:
                said.add((kind, text))
                warnings.warn(text, kind, stacklevel=3)
        done += 1
        report({"pieces": done, "of": of})
    return [Answers(tuple(paths[at, piece.number] for piece in source.all)) for at in range(len(questions))]


Item = tuple[Piece, tuple[int, ...]]
"""A piece, and which questions are asked about it."""
Done = tuple[list[str], list[tuple[type[Warning], str]]]
"""Names of files with answers, and what a user should be warned of."""


@dataclass(frozen=True)
class _Task:
    """All that a worker needs to know."""

    model: Any
    source: Source
    questions: tuple[Question, ...]
    told: tuple[str, ...]
    """A digest of what each question tells of itself."""
    folder: Path
    rests_on: str

    def stem(self, at: int, piece: Piece) -> str:
        """Name of a file, but for what it holds."""
        facts = (__version__, self.rests_on, self.source.digests[piece.number], self.told[at])
        digest = hashlib.sha256("\0".join(facts).encode()).hexdigest()
        return f"{self.questions[at].name}-{piece.number:06}-{digest[:DIGITS]}"

    def carry_out(self, item: Item) -> Done:
        """Answer questions about a piece."""
        piece, ats = item
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            rows = self.source.rows(piece)
            names = [
                _write(self.folder, self.stem(at, piece), self.questions[at].answer(self.model, rows)) for at in ats
            ]
        return names, [(warning.category, str(warning.message)) for warning in caught]


def _carried_out(task: _Task, items: list[Item], client: Any) -> Iterator[tuple[Item, Done]]:
    """Items and what became of them, in the order in which they end."""
    if client is None or len(task.source.all) == 1 or not items:
        for item in items:
            yield item, task.carry_out(item)
        return
    from vbagg.cluster import workers_of

    yield from workers_of(client).hold([task]).made(itself).ended(_Task.carry_out, items)


def _write(folder: Path, stem: str, numbers: Floats) -> str:
    """Write an answer; the name of its file."""
    numbers = np.ascontiguousarray(numbers, dtype=np.float64)
    name = f"{stem}-{_digest(numbers)}.npy"
    with written_whole(folder / name) as file:
        np.save(file, numbers, allow_pickle=False)
    return name


def _digest(numbers: Floats) -> str:
    return hashlib.sha256(repr(numbers.shape).encode() + numbers.tobytes()).hexdigest()[:DIGITS]


def _whole_files(folder: Path) -> dict[str, Path]:
    """Files that hold what their names say, by the rest of their names."""
    found = {}
    for path in sorted(folder.glob("*.npy")):
        stem, _, content = path.stem.rpartition("-")
        try:
            if _digest(np.load(path, allow_pickle=False)) == content:
                found[stem] = path
        except (OSError, ValueError, EOFError):  # half a file, or none of ours
            continue
    return found


def _there(path: Path) -> Path:
    if not path.is_file():
        raise ClusterError(
            f"Workers must write to the folders of this process; {path.name} is not in {path.parent}."
            " Choose a folder that all of them share."
        )
    return path
