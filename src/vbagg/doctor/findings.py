"""What the doctor finds: errors, warnings and advice, each with its place, and plain facts about the data."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeVar

import numpy as np

Level = Literal["error", "warning", "advice"]
T = TypeVar("T")

OF_BAD_INPUT = (ValueError, OSError)
"""What reading raises for files and columns that are not as they must be."""


@dataclass(frozen=True)
class Finding:
    """One thing that was found.

    Attributes
    ----------
    level
        `"error"`: a run would fail or mean nothing. `"warning"`: must be looked at. `"advice"`: good to know.
    code
        A word or two that name the kind of finding, for programs.
    text
        What, where, and what to do.
    where
        File, with the column if it is about one; `"settings"` for settings.
    polygons
        Ids of all polygons concerned, of which the text names the first few.
    """

    level: Level
    code: str
    text: str
    where: str
    polygons: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Findings:
    """All that was found.

    Attributes
    ----------
    errors, warnings, advice
        Findings by level, in the order in which the data are read.
    facts
        Grid, polygons, totals, inputs and the expected cost, as far as they could be read; fit for JSON.
    """

    errors: tuple[Finding, ...]
    warnings: tuple[Finding, ...]
    advice: tuple[Finding, ...]
    facts: Mapping[str, Any]

    @property
    def all(self) -> tuple[Finding, ...]:
        """Errors, then warnings, then advice."""
        return (*self.errors, *self.warnings, *self.advice)

    def to_json(self) -> str:
        """Everything as one JSON document."""
        levels = {name: [asdict(f) for f in getattr(self, name)] for name in ("errors", "warnings", "advice")}
        return json.dumps({**levels, "facts": self.facts}, indent=1, default=_plain, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Findings:
        """What `to_json` wrote."""
        document = json.loads(text)
        levels = {
            name: tuple(Finding(**{**found, "polygons": tuple(found["polygons"])}) for found in document[name])
            for name in ("errors", "warnings", "advice")
        }
        if not all(isinstance(finding.text, str) for found in levels.values() for finding in found):
            raise ValueError("what was found must be told in words")
        return cls(**levels, facts=document["facts"])

    def __str__(self) -> str:
        from vbagg.doctor.text import as_text

        return as_text(self)


@dataclass
class Gathered:
    """Findings as they come in; the same text counts once."""

    found: list[Finding] = field(default_factory=list)

    def add(self, level: Level, code: str, text: str, where: str, polygons: Iterable[Any] = ()) -> None:
        """Take down a finding."""
        if text not in [finding.text for finding in self.found]:
            self.found.append(Finding(level, code, text, where, tuple(polygons)))

    def attempt(self, code: str, where: str, work: Callable[[], T]) -> T | None:
        """Result of some reading; what goes wrong becomes an error, and the result None."""
        try:
            return work()
        except OF_BAD_INPUT as error:
            self.add("error", code, str(error), where)
            return None

    def findings(self, facts: Mapping[str, Any]) -> Findings:
        """All of them, by level."""
        errors, warnings, advice = (
            tuple(finding for finding in self.found if finding.level == level)
            for level in ("error", "warning", "advice")
        )
        return Findings(errors, warnings, advice, facts)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else str(value)
