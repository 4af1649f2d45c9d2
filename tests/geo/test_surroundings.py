"""What lies around a map: clipped by hand, near the antimeridian, and whether there is land."""

import math

import numpy as np
import pytest
import shapely

from vbagg.geo.atlas import Line, world_lines
from vbagg.geo.country_rasters import NORTH, WEST
from vbagg.geo.grid import Grid
from vbagg.geo.surroundings import (
    MOST_POINTS,
    around,
    clipped,
    is_on_land,
    lies_on_land,
    simplified,
    window,
    within,
)

SHORE = Line(np.array([[0.0, 0], [5, 0], [5, 4], [0, 4], [0, 0]]), False)
LIMIT = Line(np.array([[1.0, 3], [9, 3]]), True)


def parts(lines, frame):
    return [(np.round(line.points, 9).tolist(), line.is_border) for line in clipped(lines, frame)]


def test_lines_are_cut_at_the_frame():
    assert parts([SHORE, LIMIT], (2, -1, 7, 3.5)) == [
        ([[2, 0], [5, 0], [5, 3.5]], False),
        ([[2, 3], [7, 3]], True),
    ]
    assert parts([SHORE, LIMIT], (5.5, -1, 7, 2)) == []
    assert parts([SHORE], (1, 1, 2, 2)) == []  # land all around, and no coast
    assert parts([SHORE], (5, 4, 7, 8)) == []  # touches a corner


@pytest.mark.parametrize("turns", [-1, 1])
def test_a_frame_may_count_longitudes_otherwise(turns):
    by = 360.0 * turns
    assert parts([SHORE], (2 + by, -1, 7 + by, 3.5)) == [([[2 + by, 0], [5 + by, 0], [5 + by, 3.5]], False)]


def test_a_line_across_the_antimeridian_is_on_both_sides():
    line = Line(np.array([[178.0, 1], [185, 1]]), True)
    assert parts([line], (179, 0, 182, 3)) == [([[179, 1], [182, 1]], True)]
    assert parts([line], (-181, 0, -177, 3)) == [([[-181, 1], [-177, 1]], True)]
    world = parts([line], (-180, -10, 180, 10))
    assert sorted(world) == [([[-180, 1], [-175, 1]], True), ([[178, 1], [180, 1]], True)]


def test_simplified_lines_stay_near_and_small_islands_go():
    angle = np.linspace(0, 2 * np.pi, 4001)
    wave = 2 + 0.2 * np.sin(37 * angle)
    coast = np.column_stack([40 + wave * np.cos(angle), wave * np.sin(angle)])
    coast[-1] = coast[0]
    island = np.array([[1.0, 1], [1.03, 1], [1.03, 1.02], [1, 1]])
    lines = [Line(coast, False), Line(island, False), Line(np.array([[0.0, 0], [0.01, 0]]), True)]
    fewer = simplified(lines, 0.01)
    assert [line.is_border for line in fewer] == [False, False, True]
    assert len(fewer[0].points) < 1000
    assert shapely.hausdorff_distance(*(shapely.LineString(points) for points in (fewer[0].points, coast))) < 0.01
    assert [len(line.points) for line in simplified(lines, 0.04)[1:]] == [2]  # borders have no least size
    assert sum(len(line.points) for line in simplified(lines, 0.0001, most=120)) <= 120


def test_the_frame_is_as_wide_and_as_tall_as_windows_are():
    west, south, east, north = window((43.0, -26.0, 50.0, -12.0))  # tall: wide windows show more beside it
    assert (west + east) / 2 == pytest.approx(46.5)
    assert (north - south) == pytest.approx(1.2 * 14)
    assert (east - west) == pytest.approx(1.2 * 1.8 * 14 / math.cos(math.radians(19)))
    west, south, east, north = window((-84.0, 34.0, -75.0, 36.5))  # wide
    assert (east - west) == pytest.approx(1.2 * 9)
    assert (north - south) == pytest.approx(1.2 * 1.35 * 9 * math.cos(math.radians(35.25)))
    assert window((-180, -60, 180, 85))[1::2] == (-90, 90)


@pytest.mark.parametrize("bounds", [(177.0, -19.5, 182.0, -16.0), (-183.0, -19.5, -178.0, -16.0)])
def test_around_fiji_all_is_in_the_range_of_the_map(bounds):
    found = around(bounds)
    frame = shapely.box(*window(bounds)).buffer(1e-9)
    assert all(frame.contains(shapely.LineString(line.points)) for line in found.lines)
    turn = 0 if bounds[0] > 0 else -360
    suva = found.cities.places[found.cities.names.index("Suva")]
    np.testing.assert_allclose(suva, [178.44 + turn, -18.14], atol=0.03)
    assert len(set(found.cities.names)) == len(found.cities.names)
    coasts = shapely.MultiLineString([line.points for line in found.lines if not line.is_border])
    taveuni, vanua_levu = shapely.Point(180.0 + turn, -16.85), shapely.Point(179.3 + turn, -16.7)  # on either side
    assert max(coasts.distance(taveuni), coasts.distance(vanua_levu)) < 0.3


def test_a_map_of_the_world_has_neither_too_many_lines_nor_cities():
    found = around((-180, -60, 180, 85))
    assert 1000 < sum(len(line.points) for line in found.lines) <= MOST_POINTS
    assert len(found.cities) == 300
    assert found.cities.people.min() > 1_000_000


def test_cities_on_the_map_come_before_others():
    bounds = (43.2, -25.6, 50.5, -11.9)
    found = around(bounds).cities
    people, box = found.people, shapely.box(*bounds)
    on_map = np.array([box.contains(shapely.Point(place)) for place in found.places])
    assert (np.diff(people) <= 0).all()
    assert (on_map.sum(), (~on_map).sum()) == (len(within(bounds).cities), 60)
    assert people[~on_map].min() > people[on_map].min()


def test_land_is_where_polygons_of_the_coast_are():
    """Against polygons made of the same lines."""
    frame = (38.0, -28.0, 60.0, -10.0)
    coasts = [shapely.LineString(line.points) for line in world_lines() if not line.is_border]
    closed = [line for line in coasts if line.is_closed and shapely.box(*frame).contains(line)]
    land = shapely.union_all([shapely.Polygon(line) for line in closed])
    shapely.prepare(land)
    places = np.random.default_rng(5).uniform((42.5, -26.5), (58.0, -10.5), (150, 2))
    expected = [bool(land.contains(shapely.Point(place))) for place in places]
    assert 20 < sum(expected) < 130
    assert [is_on_land(place) for place in places] == expected
    assert [is_on_land(place - [360, 0]) for place in places[:20]] == expected[:20]


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ((51.0, 41.5), False),  # in the Caspian Sea
        ((28.5, -29.5), True),  # in Lesotho, surrounded by another country
        ((179.5, 67.5), True),
        ((-179.5, 67.5), True),
        ((300.0, -85.0), True),  # Antarctica, which has no coast to its south
        ((-30.0, 40.0), False),
    ],
)
def test_land_and_sea(place, expected):
    assert is_on_land(np.array(place)) == expected


def map_at(west, north, degrees, crs="EPSG:4326"):
    """Values in half of the cells of a map."""
    values = np.ones((10, 8))
    values[:, ::2] = np.nan
    return values, Grid(crs, (degrees, 0, west, 0, -degrees, north), 10, 8)


def test_maps_on_land_and_of_small_islands_are_of_real_places():
    assert lies_on_land(*map_at(30.2, -1.3, 0.1))
    assert lies_on_land(*map_at(390.2, -1.3, 0.1))
    assert lies_on_land(*map_at(450_000, 250_000, 20_000, "EPSG:32636"))
    assert lies_on_land(*map_at(73.35, 4.6, 0.08))  # Malé, on an island that no coast shows


def test_the_simulated_country_and_empty_maps_are_not():
    assert not lies_on_land(*map_at(WEST, NORTH, 1.0))
    assert not lies_on_land(*map_at(-160, 30, 0.5))
    assert not lies_on_land(*map_at(450_000, 8_200_000, 20_000, "EPSG:32636"))
    assert not lies_on_land(np.full((10, 8), np.nan), map_at(30.2, -1.3, 0.1)[1])
