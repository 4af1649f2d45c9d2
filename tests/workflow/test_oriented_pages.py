"""Whether the maps of a run have coasts and cities, by the settings or by where they are."""

from types import SimpleNamespace

import numpy as np
import pytest
from affine import Affine
from geofiles import write_raster

from vbagg.geo.country_rasters import NORTH, WEST
from vbagg.geo.display import display_frame
from vbagg.workflow.report_page.orientation import is_oriented, orientation_of
from vbagg.workflow.settings import from_words

AT = {"land": (30.2, -1.3), "sea": (WEST, NORTH)}


def run_and_maps(folder, where, **words):
    """A run with such settings and its map of rates."""
    west, north = AT[where]
    values = np.arange(1, 21, dtype=np.float32).reshape(4, 5)
    write_raster(folder / "rate_mean.tif", values, Affine(0.3, 0, west, 0, -0.2, north), nodata=np.nan)
    logged = []
    run = SimpleNamespace(settings=from_words(words), folder=SimpleNamespace(log=logged.append))
    return run, folder, logged


@pytest.mark.parametrize(
    ("words", "on_land", "at_sea"),
    [({}, True, False), ({"orientation": True}, True, True), ({"orientation": False}, False, False)],
)
def test_the_setting_comes_before_the_place(tmp_path, words, on_land, at_sea):
    for where, expected in (("land", on_land), ("sea", at_sea)):
        run, maps, _ = run_and_maps(tmp_path, where, **words)
        assert is_oriented(run, maps) == expected


def test_the_viewer_gets_what_is_around_the_map(tmp_path):
    run, maps, logged = run_and_maps(tmp_path, "land")
    found = orientation_of(run, maps, display_frame(maps / "rate_mean.tif"))
    names = [name for name, _, _ in found.cities]
    assert "Kigali" in names
    assert found.borders
    assert "GeoNames (geonames.org), CC BY 4.0" in found.source
    longitude, latitude = next(place for name, *place in found.cities if name == "Kigali")
    assert (longitude, latitude) == pytest.approx((30.06, -1.95), abs=0.02)
    assert logged == []


def test_the_log_says_when_and_why_there_is_nothing(tmp_path):
    run, maps, logged = run_and_maps(tmp_path, "sea")
    frame = display_frame(maps / "rate_mean.tif")
    assert orientation_of(run, maps, frame) is None
    assert len(logged) == 1
    assert "does not lie on land; `--orientation`" in logged[0]
    run, maps, logged = run_and_maps(tmp_path, "land", orientation=False)
    assert orientation_of(run, maps, frame) is None
    assert logged == []
    run, maps, logged = run_and_maps(tmp_path, "sea", orientation=True)
    assert orientation_of(run, maps, frame) is None  # there is nothing near
