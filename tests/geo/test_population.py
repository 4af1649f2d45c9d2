import numpy as np
import pytest
from affine import Affine
from geofiles import write_raster

from vbagg.geo.population import read_population_as
from vbagg.geo.rasters import open_layers


def reading(tmp_path, name="pop.tif", density=50.0, side=0.05, population_is="guess", response=0.0, cells=60, **more):
    values = np.full((cells, cells - 10), density, dtype=np.float32)
    values[0, 0] = np.nan
    (layer,) = open_layers(write_raster(tmp_path / name, values, Affine(side, 0, 46, 0, -side, -18), **more))
    return read_population_as(layer, layer.grid, population_is, [response])


@pytest.mark.parametrize(
    ("name", "density"),
    [
        ("mdg_pd_2020_1km.tif", 1.0),
        ("gpw_population_density.tif", 1.0),
        ("people_per_km2.tif", 1.0),
        ("popdens.tif", 1.0),
        ("people_per_ha.tif", 100.0),
        ("mdg_ppp_2020.tif", None),
        ("population_count_1km_2020.tif", None),
        ("people_per_pixel.tif", None),
    ],
)
def test_words_in_the_name(tmp_path, name, density):
    result = reading(tmp_path, name)
    assert result.density == density
    assert name in result.note
    assert "because of the words" in result.note


def test_words_in_units_and_description(tmp_path):
    assert reading(tmp_path, units=("persons/km2",)).density == 1.0
    assert reading(tmp_path, units=("km-2",)).density == 1.0
    assert reading(tmp_path, units=("persons ha-1",)).density == 100.0
    assert reading(tmp_path, descriptions=("population density",)).density == 1.0


def test_one_credible_reading(tmp_path):
    # Cells of 100 m that hold 50: read as counts, 4,500 people would live on each square kilometre of a country.
    fine = reading(tmp_path, density=50, side=0.001, cells=2500)
    assert fine.density == 1.0
    assert "the other is not credible" in fine.note
    coarse = reading(tmp_path, density=3000.0, side=0.05, response=1e6)
    assert coarse.density is None
    assert reading(tmp_path, density=1.0, side=0.0005, response=2000.0).density is None
    # Cells of 5 km that hold 1: as counts there would be 2,999 people, fewer than cases.
    assert reading(tmp_path, density=1.0, side=0.05, response=10_000.0).density == 1.0


def test_no_hint_means_counts_and_says_so(tmp_path):
    result = reading(tmp_path)
    assert result.density is None
    assert result.note.startswith(
        "pop.tif: population was read as people per cell (a guess: most such files are), which gives 149,950 people "
        "in the area of the grid; read as density it would be "
    )
    assert "Set `population_is`" in result.note


def test_what_is_asked_is_done(tmp_path):
    counts = reading(tmp_path, "density.tif", population_is="counts")
    assert counts.density is None
    assert "(as asked)" in counts.note
    assert reading(tmp_path, population_is="density").density == 1.0
    assert reading(tmp_path, population_is="density", units=("1/ha",)).density == 100.0
    with pytest.raises(ValueError, match="`population_is` must be one of 'guess', 'counts', 'density'; got 'people'"):
        reading(tmp_path, population_is="people")
