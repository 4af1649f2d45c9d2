"""The script that makes the coasts, borders and cities of the package, on topologies made by hand."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import shapely

SCRIPT = Path(__file__).parent.parent / "tools" / "orientation_layer.py"


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("orientation_layer", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def topology(*arcs, geometries=None, transform=None):
    rings = [{"type": "Polygon", "arcs": [[at]]} for at in range(len(arcs))]
    return {
        "type": "Topology",
        "objects": {"countries": {"type": "GeometryCollection", "geometries": geometries or rings}},
        "arcs": [list(map(list, arc)) for arc in arcs],
        **({"transform": transform} if transform else {}),
    }


def points(lines, is_border=False):
    return [np.round(line.points, 6).tolist() for line in lines if line.is_border == is_border]


def test_two_countries_that_share_a_border(tool):
    shared = [[4, 0], [0, 6]]
    west = [[4, 6], [-4, 0], [0, -6], [4, 0]]
    east = [[4, 0], [3, 0], [0, 6], [-3, 0]]
    of_nobody = [[9, 9], [1, 1]]
    countries = [
        {"type": "Polygon", "arcs": [[0, 1]]},
        {"type": "MultiPolygon", "arcs": [[[2, -1]]]},  # -1 is arc 0 backwards
        {"type": None},
    ]
    transform = {"scale": [0.5, 0.25], "translate": [10, -20]}
    lines = tool.lines_of(topology(shared, west, east, of_nobody, geometries=countries, transform=transform))
    assert points(lines, is_border=True) == [[[12, -20], [12, -18.5]]]
    assert points(lines) == [
        [[12, -18.5], [10, -18.5], [10, -20], [12, -20]],
        [[12, -20], [13.5, -20], [13.5, -18.5], [12, -18.5]],
    ]
    made = shapely.get_parts(shapely.polygonize([shapely.LineString(line.points) for line in lines]))
    expected = [shapely.box(10, -20, 12, -18.5), shapely.box(12, -20, 13.5, -18.5)]
    for country in expected:
        assert any(country.equals(polygon.normalize()) for polygon in made)


def test_a_ring_across_the_antimeridian_goes_on_beyond_it(tool):
    ring = [[179, 10], [179, 11], [-178, 11], [-178, 10], [179, 10]]
    assert points(tool.lines_of(topology(ring))) == [[[179, 10], [179, 11], [182, 11], [182, 10], [179, 10]]]


def test_cuts_along_the_antimeridian_are_left_out(tool):
    cut = [[178, 0], [180, 0], [180, 1], [178, 1], [178, 0]]
    other = [[-180, 1], [-180, 0], [-177, 0], [-177, 1], [-180, 1]]
    assert points(tool.lines_of(topology(cut, other))) == [
        [[178, 0], [180, 0]],
        [[180, 1], [178, 1], [178, 0]],
        [[-180, 0], [-177, 0], [-177, 1], [-180, 1]],
    ]


def test_small_islands_and_small_turns_are_left_out(tool):
    side = 0.9 * tool.LEAST_ISLAND
    small = [[5, 5], [5 + side, 5], [5 + side, 5 + side], [5, 5]]
    bent = [[20, 0], [21, 0.9 * tool.TOLERANCE], [22, 0], [22, 3], [20, 0]]
    assert points(tool.lines_of(topology(small, bent))) == [[[20, 0], [22, 0], [22, 3], [20, 0]]]


def test_cities_come_by_size(tool):
    row = {"latitude": -18.91368, "longitude": 47.53613, "geonameid": 7}
    table = {
        "1": {**row, "name": "Small\n  place", "population": 12},
        "2": {**row, "name": "Large", "population": 1_391_433, "latitude": 3.25},
    }
    cities = tool.cities_of(table)
    assert cities.names == ("Large", "Small place")
    assert cities.people.tolist() == [1_391_433, 12]
    np.testing.assert_allclose(cities.places, [[47.53613, 3.25], [47.53613, -18.91368]])
