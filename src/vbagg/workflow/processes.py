"""Which process is at work in a folder, and whether it still is."""

from __future__ import annotations

import os
import platform
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Process:
    """A process of some machine; its birth tells it from another one that was given the same number later."""

    number: int
    machine: str
    birth: str | None
    since: str
    """When it was looked at first, by the clock."""

    @classmethod
    def own(cls) -> Process:
        """The process that asks."""
        number = os.getpid()
        return cls(number, platform.node(), _birth(number), time.strftime("%Y-%m-%d %H:%M:%S"))

    @classmethod
    def told(cls, facts: dict[str, Any]) -> Process:
        """The process that a file tells of; TypeError unless it could be one."""
        process = cls(**facts)
        texts = (process.machine, process.since, process.birth or "")
        if type(process.number) is not int or process.number < 1 or not all(isinstance(text, str) for text in texts):
            raise TypeError(f"a process has a number, and text about it; got {facts!r}")
        return process

    @property
    def is_here(self) -> bool:
        """Whether it is, or was, a process of this machine."""
        return self.machine == platform.node()

    @property
    def is_gone(self) -> bool:
        """Whether it has ended for certain; of another machine's that cannot be told."""
        if not self.is_here:
            return False
        return not is_running(self.number) or (self.birth is not None and _birth(self.number) != self.birth)


def is_running(number: int) -> bool:
    """Whether this machine has a process of this number, or cannot tell."""
    if os.name == "nt":  # where a signal would end it
        return True
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return _state(number) != "Z"


def began_after(number: int, moment: float) -> bool:
    """Whether a process of this machine began after a time of the clock; False where that cannot be told."""
    birth = _birth(number)
    if birth is None:
        return False
    uptime = float(Path("/proc/uptime").read_text().split()[0])
    return time.time() - uptime + int(birth) / os.sysconf("SC_CLK_TCK") > moment + 2.0


def _birth(number: int) -> str | None:
    """When a process began, in ticks since the machine did; None where the system does not tell."""
    facts = _facts(number)
    return facts[19] if len(facts) > 19 else None


def _state(number: int) -> str:
    return next(iter(_facts(number)), "")


def _facts(number: int) -> list[str]:
    """What Linux tells of a process, from its state on: after its name, which may hold anything."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
