"""Coasts, borders and cities on figures: where they are drawn, and that names do not touch."""

import itertools

import numpy as np
import pytest
from affine import Affine
from geofiles import write_raster
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from vbagg.geo import plots
from vbagg.geo.grid import transformer
from vbagg.geo.orientation import APART, CREDIT, MOST_NAMES, CityNames, orient

MADAGASCAR = (43.0, -26.0, 51.0, -11.5)
FIJI_GRID = "EPSG:3460"


def drawn(limits, crs="EPSG:4326", size=(6, 7)):
    """Axes with these limits, oriented and drawn."""
    figure = Figure(figsize=size, dpi=100)
    axes = figure.subplots()
    left, bottom, right, top = limits
    axes.set(xlim=(left, right), ylim=(bottom, top))
    orient(axes, crs)
    FigureCanvasAgg(figure).draw()
    return axes


def names(axes):
    return [artist for artist in axes.get_children() if isinstance(artist, CityNames)]


def lines(axes):
    return [collection.get_segments() for collection in axes.collections if isinstance(collection, LineCollection)]


def test_the_largest_cities_have_names_that_do_not_touch():
    axes = drawn(MADAGASCAR)
    (cities,) = names(axes)
    shown = dict(cities.shown)
    assert next(iter(shown)) == "Antananarivo"
    assert {"Toamasina", "Mahajanga", "Toliara"} < set(shown)
    assert "Ivato" not in shown  # a suburb of the first
    assert 5 <= len(shown) <= MOST_NAMES
    room = axes.get_window_extent()
    for box in shown.values():
        assert room.x0 <= box.x0 < box.x1 <= room.x1
        assert room.y0 <= box.y0 < box.y1 <= room.y1
    assert not any(one.overlaps(other) for one, other in itertools.combinations(shown.values(), 2))
    x, y = axes.transData.transform((47.536, -18.914))
    box = shown["Antananarivo"]
    assert x < box.x0 < x + 10  # to the right of its dot
    assert box.y0 < y < box.y1


def test_a_larger_figure_has_room_for_more_names():
    crowded = (5.8, 50.6, 7.6, 51.7)  # the Ruhr
    (few,), (more,) = (names(drawn(crowded, size=(side, side))) for side in (1.6, 3.0))
    assert 0 < len(few.shown) < len(more.shown)
    places = dict(more._cities)
    dots = [more.axes.transData.transform(places[name]) for name, _ in more.shown]
    least = min(np.hypot(*(one - other)) for one, other in itertools.combinations(dots, 2))
    assert least >= APART * 100 / 72


def test_coasts_and_borders_are_inside_the_limits():
    coasts, borders = lines(drawn((33.0, -28.0, 44.0, -9.0)))
    assert coasts
    assert borders
    points = np.concatenate([*coasts, *borders])
    west, south, east, north = 33.0, -28.0, 44.0, -9.0
    np.testing.assert_array_equal(points, np.clip(points, (west, south), (east, north)))


def test_a_projected_map_across_the_antimeridian():
    x, y = transformer("EPSG:4326", FIJI_GRID).transform([177.0, -179.5], [-18.8, -15.9])
    limits = (x[0], y[0], x[1], y[1])
    axes = drawn(limits, FIJI_GRID)
    assert "Nasinu" in dict(names(axes)[0].shown)
    points = np.concatenate(lines(axes)[0])
    wide = x[1] - x[0]
    assert points[:, 0].min() > x[0] - 0.1 * wide
    assert points[:, 0].max() < x[1] + 0.1 * wide
    assert np.ptp(points[:, 0]) > 0.5 * wide
    jumps = [np.abs(np.diff(line[:, 0])).max() for line in lines(axes)[0]]
    assert max(jumps) < 0.2 * wide


def test_no_line_runs_across_a_map_of_the_world():
    limits = (-17_100_000.0, -6_500_000.0, 17_100_000.0, 8_700_000.0)
    steps = [np.abs(np.diff(line, axis=0)).max() for line in itertools.chain(*lines(drawn(limits, "ESRI:54030")))]
    assert max(steps) < 200_000  # half a degree is 56 km at most


def test_the_open_sea_has_neither_lines_nor_a_credit():
    axes = drawn((-41.0, 3.0, -31.0, 13.0))
    assert lines(axes) == []
    assert [text.get_text() for text in axes.texts] == []
    assert [text.get_text() for text in drawn(MADAGASCAR).texts] == [CREDIT]


@pytest.mark.parametrize("oriented", [True, False])
def test_maps_have_them_if_they_are_to(tmp_path, monkeypatch, oriented):
    figures = []
    monkeypatch.setattr(plots, "save", lambda figure, path: figures.append(figure))
    values = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    path = write_raster(tmp_path / "map.tif", values, Affine(2.0, 0, 43.0, 0, -4.75, -11.75), nodata=np.nan)
    plots.plot_map(path, tmp_path / "map.png", oriented=oriented)
    axes = figures[0].axes[0]
    assert len(lines(axes)) == 2 * oriented
    assert axes.get_xlim() == pytest.approx((42.715, 51.285), abs=1e-6)  # what is drawn does not widen the map
