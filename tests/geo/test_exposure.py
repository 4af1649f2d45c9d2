"""People of polygons spread over their cells."""

import geopandas as gpd
import numpy as np
import pandas as pd
import pytest
import shapely
from affine import Affine
from counted_districts import CASES, CODES, PEOPLE, polygons, rows, text, write_files
from geofiles import write_raster
from shapely import box

from vbagg.geo import Grid, prepare, read_polygons
from vbagg.geo.aggregate import lay_areas
from vbagg.geo.exposure import exposure_of
from vbagg.geo.prepared import Prepared

PLACE = Affine(0.1, 0, 29.9, 0, -0.1, 10.1)
LIGHTS = np.random.default_rng(8).gamma(0.3, 4, (10, 22)).astype(np.float32)


@pytest.fixture
def folder(tmp_path):
    write_files(tmp_path)
    (tmp_path / "counts.csv").write_text(text(), encoding="utf-8")
    return tmp_path


def prepared(folder, **options):
    options = {"totals": folder / "counts.csv", "on": "code", "covariates": [folder / "rain.tif"]} | options
    column = {} if "exposure_column" in options else {"population_column": "people"}
    return prepare(polygons(), None, "cases", folder=folder / "out", **(column | options))


def by_loop(frame, grid, values, amounts):
    """Share of each polygon in each cell, from the areas of their intersections on the map, cell by cell."""
    area = grid.areas(slice(0, grid.height)).ravel()
    left, _, _, top = grid.bounds
    across, down = grid.resolution
    found = {}
    for label, shape, amount in zip(frame["code"], frame.geometry, amounts, strict=True):
        parts = {}
        for cell in range(grid.n_cells):
            row, column = divmod(cell, grid.width)
            corner = left + across * column, top - down * row
            square = box(corner[0], corner[1] - down, corner[0] + across, corner[1])
            part = shapely.intersection(shape, square).area / square.area
            if part > 1e-9:
                parts[cell] = part * area[cell] * (1.0 if values is None else values[cell])
        found |= {(label, cell): amount * part / sum(parts.values()) for cell, part in parts.items()}
    return found


def weights(made):
    pixels = made.pixels
    return dict(zip(zip(pixels["polygon"], pixels["cell"], strict=True), pixels["weight"], strict=True))


def assert_sums_are_the_column(made, amounts=PEOPLE, name="population"):
    sums = made.pixels.groupby("polygon", sort=False)["weight"].sum()
    np.testing.assert_allclose(sums.loc[CODES], amounts, rtol=1e-14)
    assert made.polygons.frame[name].tolist() == amounts


def test_by_area(folder):
    made = prepared(folder)
    expected = by_loop(polygons(), made.stack.grid, None, PEOPLE)
    found = weights(made)
    assert found.keys() == expected.keys()
    np.testing.assert_allclose([found[key] for key in expected], list(expected.values()), rtol=1e-6)
    assert_sums_are_the_column(made)


def on_the_grid(grid, values):
    down, right = grid.offset_in(Grid("EPSG:4326", tuple(PLACE)[:6], 10, 22))
    return values[down : down + grid.height, right : right + grid.width].ravel().astype(np.float64)


def test_by_area_times_a_raster(folder):
    lights = write_raster(folder / "lights.tif", LIGHTS, PLACE)
    made = prepared(folder, spread_by=lights)
    expected = by_loop(polygons(), made.stack.grid, on_the_grid(made.stack.grid, LIGHTS), PEOPLE)
    found = weights(made)
    np.testing.assert_allclose([found[key] for key in expected], list(expected.values()), rtol=1e-5)
    assert_sums_are_the_column(made)


@pytest.mark.parametrize("dark", [0, np.nan])
def test_where_the_raster_says_nothing_area_does(folder, dark):
    """The fourth polygon, from 30.94 to 31.19, and nothing else in the columns of cells that it alone reaches."""
    values = LIGHTS.copy()
    values[:, 10:13] = dark
    lights = write_raster(folder / "lights.tif", values, PLACE, nodata=np.nan)
    made = prepared(folder, spread_by=lights)
    area = by_loop(polygons(), made.stack.grid, None, PEOPLE)
    found = weights(made)
    own = {key: value for key, value in area.items() if key[0] == CODES[3]}
    np.testing.assert_allclose([found[key] for key in own], list(own.values()), rtol=1e-6)
    assert_sums_are_the_column(made)
    assert (
        "lights.tif: 0 or missing all over 1 polygon ('102'), where people were spread by area instead." in made.notes
    )


def test_negative_rasters_are_refused(folder):
    values = LIGHTS.copy()
    values[4, 8] = -2
    lights = write_raster(folder / "lights.tif", values, PLACE)
    with pytest.raises(ValueError, match=r"lights\.tif must not be negative, .*; got -2 in a polygon"):
        prepared(folder, spread_by=lights)


def test_cells_that_are_left_out_leave_their_people_to_others(folder):
    rain = (5 + np.mgrid[:10, :22][0]).astype(np.float32)
    rain[3:5, 6:9] = np.nan
    write_raster(folder / "gaps.tif", rain, PLACE)
    made = prepared(folder, covariates=[folder / "gaps.tif"], missing="drop")
    assert len(made.pixels) < len(prepared(folder).pixels)
    made = prepared(folder, covariates=[folder / "gaps.tif"], missing="drop")
    assert_sums_are_the_column(made)
    assert any("other pixels of their polygons hold what they would have held" in note for note in made.notes)


def test_it_can_be_kept_and_read(folder):
    made = prepared(folder)
    made.save(folder / "out")
    again = Prepared.load(folder / "out")
    pd.testing.assert_frame_equal(again.pixels, made.pixels)
    assert again.is_spread
    assert again.bags().totals().tolist() == pytest.approx(PEOPLE)


def test_the_layer_has_the_density_of_what_covers_a_cell(folder):
    """Of a cell that one polygon covers in part, the whole; nothing is known outside of polygons."""
    made = prepared(folder)
    pixels = made.pixels
    layer = made.stack.read(names=["population"]).ravel()
    by_cell = pixels.groupby("cell")[["weight", "coverage"]].sum()
    np.testing.assert_allclose(layer[by_cell.index], by_cell["weight"] / by_cell["coverage"], rtol=1e-6)
    outside = np.setdiff1d(np.arange(layer.size), by_cell.index)
    assert outside.size
    assert np.isnan(layer[outside]).all()


def test_other_areas_have_what_the_polygons_have_there(folder):
    """The polygons themselves have their own people, and halves of them by where the people are."""
    made = prepared(folder, spread_by=write_raster(folder / "lights.tif", LIGHTS, PLACE))
    frame = polygons()
    west, south, east, north = frame.total_bounds
    halves = frame.clip(box(west, south, east, (south + north) / 2))
    upper = frame.clip(box(west, (south + north) / 2, east, north))
    others = gpd.GeoDataFrame(
        {"part": range(18)}, geometry=[*frame.geometry, *halves.geometry, *upper.geometry], crs=4326
    )
    laid = lay_areas(made, read_polygons(others, "part"), folder / "scratch")
    whole, low, high = np.split(laid.exposure, 3)
    np.testing.assert_allclose(whole, PEOPLE, rtol=1e-12)
    halves_of = dict(zip(halves["code"], low, strict=True)), dict(zip(upper["code"], high, strict=True))
    np.testing.assert_allclose(
        [halves_of[0][code] + halves_of[1][code] for code in CODES], PEOPLE, rtol=1e-7
    )  # coverage has single precision


def test_the_column_may_be_of_the_polygons_or_called_population(folder):
    own = polygons().assign(Population=PEOPLE, cases=CASES, population=PEOPLE).drop(columns="Population")
    made = prepare(own, "code", "cases", resolution=0.1, population_column="population", folder=folder / "own")
    assert_sums_are_the_column(made)
    assert not any("renamed" in note for note in made.notes)


def test_polygons_without_people_are_left_out(folder):
    lines = rows()
    lines[1][3] = 0
    (folder / "counts.csv").write_text(text(lines), encoding="utf-8")
    made = prepared(folder)
    assert made.y().index.tolist() == [code for code in CODES if code != lines[1][0]]
    assert "polygons: left out because of no population: 1 polygon ('103')." in made.notes


def test_expected_counts_are_spread_likewise(folder):
    made = prepared(folder, exposure_column="people")
    assert made.exposure == "expected"
    assert_sums_are_the_column(made, name="expected")


@pytest.mark.parametrize(
    ("column", "told"),
    [
        ([850, 1200, None, 5, 6, 7], r"the population 'n' .*; got no value for '101' \(row 3\).* write 0 where nobody"),
        ([850, 1200, "many", 5, 6, 7], r"the population 'n' .*; got 'many' for '101'"),
        ([850, 1200, -9, 5, 6, 7], "got -9"),
        ([0] * 6, "at least one polygon must have population; none has"),
    ],
)
def test_bad_columns(folder, column, told):
    own = polygons().assign(n=column, cases=CASES)
    with pytest.raises(ValueError, match=told):
        prepare(own, "code", "cases", resolution=0.1, population_column="n", folder=folder / "own")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (("people.tif", "people", None, None), "got `--population` and `--population-column`. Leave out one"),
        ((None, "people", "expected", None), "got `--population-column` and `--exposure-column`"),
        ((None, None, None, "lights.tif"), "`--spread-by` says where"),
        (("people.tif", None, None, "lights.tif"), "`--spread-by` says where"),
    ],
)
def test_only_one_thing_can_be_asked_for(given, told):
    with pytest.raises(ValueError, match=told):
        exposure_of(*given)
