"""What an experiment is: tasks, the scores of one task, and a report from the table of all scores."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from vbagg.errors import unknown_name

if TYPE_CHECKING:
    import pandas as pd

Scores = dict[str, float | str]


class Task(Mapping[str, Any]):
    """Which method on which data set: an immutable mapping of key names to numbers and texts.

    Examples
    --------
    >>> task = Task(bags=150, repetition=0, method="VBAgg-Sq")
    >>> task["bags"], str(task)
    (150, 'bags=150 repetition=0 method=VBAgg-Sq')
    """

    __slots__ = ("_keys",)

    def __init__(self, keys: Mapping[str, Any] | None = None, /, **more: Any) -> None:
        self._keys = {name: _key(name, value) for name, value in {**(keys or {}), **more}.items()}

    def __getitem__(self, name: str) -> Any:
        return self._keys[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def __hash__(self) -> int:
        return hash(frozenset(self._keys.items()))

    def __str__(self) -> str:
        return " ".join(f"{name}={value}" for name, value in self._keys.items())

    def __repr__(self) -> str:
        return f"Task({self._keys!r})"


@dataclass(frozen=True)
class Settings:
    """What the user asked for.

    Attributes
    ----------
    quick
        A small version that shows the pipeline in a short time.
    repetitions
        How many repetitions; None leaves the choice to the experiment.
    methods
        The methods to run; None means all.
    options
        Choices that are particular to an experiment, by name.
    """

    quick: bool = False
    repetitions: int | None = None
    methods: tuple[str, ...] | None = None
    options: Mapping[str, str | float | int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.repetitions is not None and self.repetitions < 1:
            raise ValueError(f"`repetitions` must be at least 1; got {self.repetitions}.")
        if self.methods is not None:
            object.__setattr__(self, "methods", tuple(self.methods))
            if not self.methods:
                raise ValueError("`methods` must name at least one method; got none. Leave it out to run all.")
        object.__setattr__(self, "options", {name: _key(name, value) for name, value in self.options.items()})

    def repetitions_or(self, full: int, quick: int = 1) -> int:
        """The number of repetitions asked for, or else the default of the full or the quick version."""
        if self.repetitions is not None:
            return self.repetitions
        return quick if self.quick else full


class Experiment(ABC):
    """One table or figure of the paper.

    A subclass is created without arguments, in the main process and in each worker. ``run`` shows nothing: fits are
    called with ``progress=False``.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    methods: ClassVar[tuple[str, ...]] = ()
    """Names that ``Settings.methods`` may hold, in the order of tables."""
    left_to_ask: ClassVar[tuple[str, ...]] = ()
    """Methods that run only when they are named, because they take long."""
    left_out_of_quick: ClassVar[tuple[str, ...]] = ()
    """Methods that a quick run has only when they are named."""
    options: ClassVar[tuple[str, ...]] = ()
    """Names that ``Settings.options`` may hold."""

    pair_by: ClassVar[tuple[str, ...]] = ("repetition",)
    """Keys that tell data sets apart, for paired tests."""
    overview_scores: ClassVar[tuple[str, ...]] = ()
    """Scores in the page over all experiments."""
    formats: ClassVar[Mapping[str, str]] = {}
    """How scores are written."""
    paper_scores: ClassVar[Mapping[str, Mapping[str, float]]] = {}
    """The paper's numbers: method to score to value."""
    paper_p_values: ClassVar[Mapping[tuple[str, str], Mapping[str, float]]] = {}
    """The paper's p-values: (method, other) to score to value."""

    def parts(self, table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
        """Rows that are judged apart, each with a name; one part without a name unless an experiment says otherwise."""
        return [("", table)]

    @abstractmethod
    def tasks(self, settings: Settings) -> list[Task]:
        """All tasks, each with the same key names; raises ValueError if the settings cannot be met."""

    @abstractmethod
    def run(self, task: Task, settings: Settings) -> Scores:
        """Scores of one method on one data set: one row of the table."""

    @abstractmethod
    def report(self, table: pd.DataFrame, folder: Path, settings: Settings) -> list[Path]:
        """Write tables and figures into ``folder`` from the rows of all finished tasks; returns what was written."""

    def example(self, settings: Settings, folder: Path) -> list[Path]:
        """Write figures that need one more fit; returns what was written."""
        return []

    def dataset(self, task: Task) -> Hashable:
        """What tasks on the same data have in common; one worker runs them in sequence where it can."""
        return tuple((name, value) for name, value in task.items() if name != "method")

    def chosen_methods(self, settings: Settings) -> tuple[str, ...]:
        """The methods asked for, in the order of ``self.methods``."""
        if settings.methods is not None:
            return tuple(method for method in self.methods if method in settings.methods)
        left_out = self.left_to_ask + (self.left_out_of_quick if settings.quick else ())
        return tuple(method for method in self.methods if method not in left_out)

    def check(self, settings: Settings) -> None:
        """Refuse methods and options that this experiment does not know."""
        for method in settings.methods or ():
            if method not in self.methods:
                raise unknown_name("methods", method, self.methods)
        for option in settings.options:
            if option not in self.options:
                known = ", ".join(map(repr, self.options)) or "none"
                raise ValueError(f"Experiment {self.name!r} has no option {option!r}; its options: {known}.")


def _key(name: str, value: Any) -> int | float | str:
    """A plain number or text; NumPy's scalars become Python's."""
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        value = value.item()
    if not isinstance(value, int | float | str) or (isinstance(value, float) and not math.isfinite(value)):
        raise TypeError(f"`{name}` must be a finite number or a text; got {value!r}.")
    return value
