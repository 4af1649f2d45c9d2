"""Coasts, borders and cities of the whole world, as they come with the package.

`tools/orientation_layer.py` makes the files in `world`, where `SOURCES.md` says from what, and under which licences.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
LINES, CITIES = "lines.npz", "cities.npz"
STEP = 0.002
"""Degrees between the coordinates that lines may have."""
CITY_STEP = 0.001


@dataclass(frozen=True, eq=False)
class Line:
    """Longitudes and latitudes (n, 2) of a part of a coast, or of a border between two countries.

    Longitudes go on beyond 180 where the line crosses the antimeridian.
    """

    points: Floats
    is_border: bool


@dataclass(frozen=True, eq=False)
class Cities:
    """Cities, the largest first."""

    names: tuple[str, ...]
    places: Floats
    """Longitudes and latitudes (n, 2)."""
    people: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.names)

    def chosen(self, which: NDArray[np.intp]) -> Cities:
        """Some of them, by number."""
        return Cities(tuple(self.names[at] for at in which), self.places[which], self.people[which])


@lru_cache(maxsize=1)
def world_lines() -> tuple[Line, ...]:
    """All coasts and borders."""
    return unpacked_lines(_stored(LINES))


@lru_cache(maxsize=1)
def world_cities() -> Cities:
    """All cities of 15,000 people or more, and all capitals."""
    return unpacked_cities(_stored(CITIES))


def packed_lines(lines: tuple[Line, ...]) -> dict[str, NDArray[Any]]:
    """Arrays that compress well: first points, then steps, low bytes apart from high ones."""
    whole = [np.rint(line.points / STEP).astype(np.int64) for line in lines]
    steps = np.concatenate([np.diff(points, axis=0) for points in whole])
    longest = int(np.abs(steps).max())
    if longest >= 2**15:
        raise ValueError(f"points of a line must lie within {STEP * 2**15:.4g} degrees; got {STEP * longest:.4g}.")
    # small steps of either sign become small numbers: 0, -1, 1, -2 ... are stored as 0, 1, 2, 3 ...
    folded = ((steps << 1) ^ (steps >> 63)).T
    return {
        "start": np.array([points[0] for points in whole], dtype=np.int32),
        "steps": np.array([len(points) - 1 for points in whole], dtype=np.int32),
        "border": np.array([line.is_border for line in lines]),
        "low": (folded & 255).astype(np.uint8),
        "high": (folded >> 8).astype(np.uint8),
    }


def unpacked_lines(stored: Mapping[str, NDArray[Any]]) -> tuple[Line, ...]:
    """The lines of what `packed_lines` gave."""
    folded = (stored["low"].astype(np.int64) | (stored["high"].astype(np.int64) << 8)).T
    ends = np.cumsum(stored["steps"])[:-1]
    parts = np.split((folded >> 1) ^ -(folded & 1), ends)
    points = [np.cumsum(np.vstack([first, part]), axis=0) for first, part in zip(stored["start"], parts, strict=True)]
    return tuple(Line(whole * STEP, bool(border)) for whole, border in zip(points, stored["border"], strict=True))


def packed_cities(cities: Cities) -> dict[str, NDArray[Any]]:
    """Arrays of numbers, and of the bytes of all names."""
    return {
        "names": np.frombuffer("\n".join(cities.names).encode("utf-8"), dtype=np.uint8),
        "places": np.rint(cities.places / CITY_STEP).astype(np.int32),
        "people": cities.people.astype(np.int32),
    }


def unpacked_cities(stored: Mapping[str, NDArray[Any]]) -> Cities:
    """The cities of what `packed_cities` gave."""
    names = tuple(stored["names"].tobytes().decode("utf-8").split("\n"))
    return Cities(names, stored["places"] * CITY_STEP, stored["people"].astype(np.int64))


def _stored(name: str) -> dict[str, NDArray[Any]]:
    with files("vbagg.geo").joinpath("world", name).open("rb") as file, np.load(file) as content:
        return dict(content)
