"""Polygons of a simulated country: districts as unions of cells, and health areas that cross them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import geopandas
import numpy as np
import pyogrio
import shapely
from scipy.spatial import KDTree

from vbagg.datasets import SimulatedCountry
from vbagg.geo.country_rasters import LON_LAT, NORTH, WEST, degrees_per_pixel

MOVES = 5  # of the hospitals towards the people who are nearest to them
WRITTEN = "2024-01-01T00:00:00.000Z"  # date inside a GeoPackage, so that equal seeds give equal files
CONSONANTS = ("b", "d", "f", "k", "l", "m", "n", "r", "s", "t", "v", "z", "mb", "nd")
VOWELS = ("a", "e", "i", "o", "u")


def make_names(n: int, random: np.random.Generator) -> list[str]:
    """``n`` different names of two or three syllables, such as Kamoru."""
    names: dict[str, None] = {}
    while len(names) < n:
        consonants = random.choice(CONSONANTS[:12]), *random.choice(CONSONANTS, random.integers(1, 3))
        vowels = random.choice(VOWELS, len(consonants))
        names["".join(map("".join, zip(consonants, vowels, strict=True))).capitalize()] = None
    return list(names)


def make_cells(country: SimulatedCountry) -> geopandas.GeoDataFrame:
    """Each pixel as a rectangle with its district, people and expected cases, in the order of ``bags.X``."""
    degrees = degrees_per_pixel(country)
    row, column = np.divmod(country.pixel, country.shape[1])
    west, east = (WEST + degrees * line for line in (column, column + 1))
    north, south = (NORTH - degrees * line for line in (row, row + 1))
    columns = {
        "district": country.bags.labels[country.bags.bag],
        "population": 1000 * country.bags.weight,
        "expected_cases": country.bags.weight * country.rate,
    }
    return geopandas.GeoDataFrame(columns, geometry=shapely.box(west, south, east, north), crs=LON_LAT)


def make_districts(
    country: SimulatedCountry, cells: geopandas.GeoDataFrame, names: Sequence[str]
) -> geopandas.GeoDataFrame:
    """Districts with their cases and the truth; neighbours share the lines between cells."""
    sums = {"population": "sum", "expected_cases": "sum"}
    districts = cells.dissolve("district", aggfunc=sums, method="coverage").loc[country.bags.labels]
    districts.insert(0, "id", country.bags.labels)
    districts.insert(1, "name", list(names))
    districts.insert(2, "cases", country.y.astype(np.int64))
    return _with_rate(districts.reset_index(drop=True))


def make_health_areas(
    cells: geopandas.GeoDataFrame, names: Sequence[str], random: np.random.Generator
) -> geopandas.GeoDataFrame:
    """The land nearest to each of several hospitals, with the truth; people are spread evenly over a cell."""
    hospitals = _hospitals(cells, len(names), random)
    nearest = shapely.voronoi_polygons(
        shapely.MultiPoint(hospitals), extend_to=shapely.box(*cells.total_bounds), ordered=True
    )
    land = shapely.coverage_union_all(cells.geometry.to_numpy())
    areas = geopandas.GeoDataFrame(
        {"id": [f"H{number:03d}" for number in range(1, len(names) + 1)], "name": list(names)},
        geometry=shapely.intersection(shapely.get_parts(nearest), land),
        crs=LON_LAT,
    )
    cell, area = areas.sindex.query(cells.geometry, predicate="intersects")
    pieces = shapely.intersection(cells.geometry.to_numpy()[cell], areas.geometry.to_numpy()[area])
    share = shapely.area(pieces) / shapely.area(cells.geometry.to_numpy()[cell])
    for column in ("population", "expected_cases"):
        areas[column] = np.bincount(area, share * cells[column].to_numpy()[cell], minlength=len(areas))
    return _with_rate(areas)


def _hospitals(cells: geopandas.GeoDataFrame, n: int, random: np.random.Generator) -> np.ndarray:
    """Places (n, 2) from north to south, near people: k-means where a cell counts by the root of its population."""
    places = shapely.get_coordinates(shapely.centroid(cells.geometry.to_numpy()))
    weight = np.sqrt(cells["population"].to_numpy())
    hospitals = places[random.choice(len(places), n, replace=False, p=weight / weight.sum())]
    for _ in range(MOVES):
        nearest = KDTree(hospitals).query(places)[1]
        visited = np.bincount(nearest, weight, minlength=n)
        moved = np.stack([np.bincount(nearest, weight * x, minlength=n) for x in places.T], axis=1)
        hospitals = np.where(visited[:, None] > 0, moved / np.maximum(visited, 1e-300)[:, None], hospitals)
    return hospitals[np.argsort(-hospitals[:, 1])]


def _with_rate(polygons: geopandas.GeoDataFrame) -> geopandas.GeoDataFrame:
    polygons["rate_per_person"] = polygons["expected_cases"] / polygons["population"]
    return polygons


def write_polygons(path: Path, polygons: geopandas.GeoDataFrame, columns: Sequence[str]) -> None:
    """Write a GeoPackage with one layer, named as the file."""
    pyogrio.set_gdal_config_options({"OGR_CURRENT_DATE": WRITTEN})
    try:
        polygons[[*columns, "geometry"]].to_file(path, layer=path.stem, engine="pyogrio", promote_to_multi=True)
    finally:
        pyogrio.set_gdal_config_options({"OGR_CURRENT_DATE": None})


def write_truth(path: Path, polygons: geopandas.GeoDataFrame) -> None:
    """Write the columns as a table."""
    polygons.drop(columns="geometry").to_csv(path, index=False)
