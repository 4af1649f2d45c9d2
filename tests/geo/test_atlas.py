"""What comes with the package: how it is packed, and that it is what its note says."""

from importlib.resources import files

import numpy as np
import pytest

from vbagg.geo.atlas import (
    STEP,
    Cities,
    Line,
    packed_cities,
    packed_lines,
    unpacked_cities,
    unpacked_lines,
    world_cities,
    world_lines,
)


def test_lines_come_out_as_they_went_in():
    rng = np.random.default_rng(2)
    whole = [rng.integers(-30_000, 30_000, (1, 2)) + rng.integers(-900, 900, (n, 2)).cumsum(axis=0) for n in (2, 9, 5)]
    whole.append(np.array([[-90_000, 45_000], [-58_000, 13_000]]))  # steps of almost 2^15
    lines = tuple(Line(points * STEP, at % 2 == 1) for at, points in enumerate(whole))
    found = unpacked_lines(packed_lines(lines))
    assert [line.is_border for line in found] == [False, True, False, True]
    for line, points in zip(found, whole, strict=True):
        np.testing.assert_allclose(line.points, points * STEP, atol=1e-9)


def test_a_step_that_is_too_long_is_refused():
    with pytest.raises(ValueError, match=r"within 65\.5\d* degrees; got 66"):
        packed_lines((Line(np.array([[-100.0, 49.0], [-34.0, 49.0]]), True),))


def test_cities_come_out_as_they_went_in():
    cities = Cities(("Tôlanaro", "Łódź"), np.array([[46.993, -25.032], [-108.929, 34.258]]), np.array([9_000_123, 0]))
    found = unpacked_cities(packed_cities(cities))
    assert found.names == cities.names
    np.testing.assert_allclose(found.places, cities.places, atol=1e-9)
    np.testing.assert_array_equal(found.people, cities.people)


def test_the_files_are_what_their_note_says():
    folder = files("vbagg.geo").joinpath("world")
    note = folder.joinpath("SOURCES.md").read_text(encoding="utf-8")
    lines, cities = world_lines(), world_cities()
    assert f"{len(lines):,} lines of {sum(len(line.points) for line in lines):,} points" in note
    assert f"{len(cities):,} cities" in note
    assert sum(len(folder.joinpath(name).read_bytes()) for name in ("lines.npz", "cities.npz")) < 1_500_000
    assert (np.diff(cities.people) <= 0).all()
    capital = cities.places[cities.names.index("Antananarivo")]
    np.testing.assert_allclose(capital, [47.52, -18.91], atol=0.03)
