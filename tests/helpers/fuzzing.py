"""What tests with made-up and damaged inputs share: how many, for how long at most, and what is refused in words."""

import hashlib
import os
import signal
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

TIMES = float(os.environ.get("VBAGG_FUZZ", "1"))
"""How many times as many examples as usual."""
LONGEST, LONGEST_WAIT = 60, 600
"""Seconds of the processor, and on the clock, that an example may take: one that takes longer hangs."""

SCALARS = st.none() | st.booleans() | st.integers(-3, 10**30) | st.floats() | st.text(max_size=8)
PATHS = st.sampled_from(["..", "../../escaped", "/tmp/escaped", "a/b", "", ".", "~", "con", "\0", "x" * 300])
DEEP = st.sampled_from([3, 200]).map(lambda depth: _nested(depth))
JSON = st.recursive(
    SCALARS | PATHS | DEEP,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
)
DEEPEST = b"[" * 100_000 + b"]" * 100_000
"""JSON and TOML that no parser follows to its end."""


def _nested(depth: int) -> list:
    value: list = []
    for _ in range(depth):
        value = [value]
    return value


def examples(count: int) -> settings:
    """So many examples, times what is asked for."""
    allowed = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]
    return settings(max_examples=max(1, round(count * TIMES)), suppress_health_check=allowed)


class TooLongError(BaseException):
    """An example hangs."""


@contextmanager
def limited():
    """End what takes too long, as a fault."""

    def stop(*_: Any) -> None:
        raise TooLongError(f"more than {LONGEST} seconds of work, or {LONGEST_WAIT} of waiting")

    timers = {signal.SIGPROF: (signal.ITIMER_PROF, LONGEST), signal.SIGALRM: (signal.ITIMER_REAL, LONGEST_WAIT)}
    before = {kind: signal.signal(kind, stop) for kind in timers}
    for timer, seconds in timers.values():
        signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        for kind, (timer, _) in timers.items():
            signal.setitimer(timer, 0)
            signal.signal(kind, before[kind])


def made_or_refused(make) -> tuple[Any, str]:
    """What was made, or the words in which it was refused; any other error is a fault, and so is a hang."""
    with limited():
        try:
            return make(), ""
        except ValueError as error:
            return None, str(error)


def snapshot(folder: Path) -> dict[str, str]:
    """Every file and link below a folder, with what it holds."""
    return {str(path.relative_to(folder)): _content(path) for path in sorted(folder.rglob("*")) if not path.is_dir()}


def _content(path: Path) -> str:
    return f"-> {os.readlink(path)}" if path.is_symlink() else hashlib.sha256(path.read_bytes()).hexdigest()


def places(value: Any, place: tuple = ()) -> list[tuple]:
    """Of all values inside a document."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place, *(found for key, part in inner for found in places(part, (*place, key)))]


def replaced(draw, document: Any, other=JSON) -> Any:
    """A document with something else in the place of one of its values, or without it."""
    place = draw(st.sampled_from(places(document)))
    value = draw(other)
    if not place:
        return value
    holder = document
    for key in place[:-1]:
        holder = holder[key]
    if draw(st.booleans()) or isinstance(holder, list):
        holder[place[-1]] = value
    else:
        del holder[place[-1]]
    return document


def changed_bytes(draw, content: bytes) -> bytes:
    """Some bytes are others; perhaps the end is missing, or something follows."""
    changed = bytearray(content)
    for _ in range(draw(st.integers(0, 4)) if changed else 0):
        changed[draw(st.integers(0, len(changed) - 1))] = draw(st.integers(0, 255))
    how = draw(st.sampled_from(["same length", "cut", "longer"]))
    if how == "cut":
        return bytes(changed[: draw(st.integers(0, len(changed)))])
    return bytes(changed) + (draw(st.binary(max_size=20)) if how == "longer" else b"")
