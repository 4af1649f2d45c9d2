"""Whether coordinates have a place on Earth: what areas, distances and maps rest on."""

from __future__ import annotations

from typing import Any

from pyproj import CRS

from vbagg.geo.grid import Bounds, is_geographic, unit
from vbagg.numerals import coordinate, count

EARTH = 6_371_000.0
ALIKE = 0.02
"""Part by which the radius of an ellipsoid may differ from the Earth's."""
DEGREE = 0.017453292519943295


def require_earth(crs: Any, path: str) -> None:
    """Raise unless a CRS, of `pyproj` or as text, places points on the surface of the Earth."""
    crs = CRS.from_user_input(crs)
    if crs.geodetic_crs is None or crs.is_geocentric:
        kind = "has three axes through the Earth's centre" if crs.is_geocentric else "is a plane of its own"
        raise ValueError(
            f"{path} must have a coordinate reference system of longitudes and latitudes or of a map projection; "
            f"{crs.name!r} {kind}, and areas and places cannot be told. Set the true one, for example with "
            "`geopandas`: `polygons.set_crs('EPSG:32760', allow_override=True)`, or for a raster `gdal_edit.py -a_srs`."
        )
    radius = crs.ellipsoid.semi_major_metre if crs.ellipsoid else EARTH
    if abs(radius / EARTH - 1) > ALIKE:
        raise ValueError(
            f"{path} must lie on the Earth; {crs.name!r} is of a body with a radius of {count(radius / 1000)} km. "
            "Set the coordinate reference system of its place on Earth."
        )


def require_degrees(bounds: Bounds, crs: str, path: str, spare: float = 0.0) -> None:
    """Raise if coordinates that are said to be longitudes and latitudes cannot be, by more than `spare`."""
    if not is_geographic(crs):
        return
    quarter = 90 * DEGREE / unit(crs)
    left, bottom, right, top = bounds
    high = max(-bottom, top) > quarter * 1.000001 + spare
    if not high and max(-left, right) <= 6 * quarter + spare:
        return
    got = f"x from {coordinate(left)} to {coordinate(right)} and y from {coordinate(bottom)} to {coordinate(top)}"
    swapped = max(-left, right) <= quarter and max(-bottom, top) <= 4 * quarter
    advice = (
        "x and y look swapped: exchange them, so that x is the longitude."
        if swapped
        else "They look like metres or feet of a map projection: set its coordinate reference system."
    )
    raise ValueError(f"{path} must hold longitudes as x and latitudes, from -90 to 90, as y; got {got}. {advice}")
