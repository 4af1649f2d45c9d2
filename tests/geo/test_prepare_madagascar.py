import numpy as np
import pandas as pd
import pytest

from vbagg import geo
from vbagg.geo.rasters import open_layers

COVARIATES = ("Elevation", "EVI", "LSTmean")


@pytest.fixture(scope="module")
def folder(data_folder):
    folder = data_folder / "madagascar_malaria"
    if not (folder / "districts.gpkg").exists():
        pytest.skip(f"no {folder / 'districts.gpkg'}")
    return folder


def run(folder, out, covariates, **more):
    return geo.prepare(
        folder / "districts.gpkg", "ID_2", "cases", folder / "population.tif", covariates, folder=out, **more
    )


@pytest.fixture(scope="module")
def prepared(folder, tmp_path_factory):
    return run(folder, tmp_path_factory.mktemp("mdg"), [folder / f"{name}.tif" for name in COVARIATES])


def test_pixels_are_those_of_the_published_table(folder, prepared):
    table = pd.read_csv(folder / "pixels.csv")
    x, y = prepared.stack.grid.centres(prepared.pixels["cell"].to_numpy())
    pixels = prepared.pixels.assign(lon=np.round(x * 48).astype(int), lat=np.round(y * 48).astype(int))
    table = table.assign(
        lon=np.round(table["longitude"] * 48).astype(int), lat=np.round(table["latitude"] * 48).astype(int)
    )
    both = pixels.merge(table, left_on=["polygon", "lon", "lat"], right_on=["ID_2", "lon", "lat"], suffixes=("", "_r"))
    assert len(both) > 0.99 * len(table)
    whole = both["coverage"] > 0.999
    assert whole.mean() > 0.75
    for name in COVARIATES:
        assert np.mean(np.isclose(both[name], both[f"{name}_r"], atol=1e-4)) > 0.99
    np.testing.assert_allclose(both["weight"][whole].sum(), (both["pop"] * both["coverage"])[whole].sum(), rtol=1e-3)
    # Whole cells and shares of cells agree on the country's people.
    assert prepared.polygons.frame["population"].sum() == pytest.approx(table["pop"].sum(), rel=0.01)
    by_district = table.groupby("ID_2")["pop"].sum().loc[prepared.polygons.labels]
    ratio = prepared.polygons.frame["population"].to_numpy() / by_district.to_numpy()
    assert np.median(ratio) == pytest.approx(1, abs=0.01)


def test_bags_of_madagascar(prepared):
    bags = prepared.bags()
    assert len(bags) == 109
    assert bags.feature_names == ("x", "y", *COVARIATES)
    assert bags.align(prepared.y("cases")).sum() == pytest.approx(prepared.polygons.frame["cases"].sum())
    assert np.ptp(bags.X[:, 1]) == pytest.approx(1500, abs=80)
    assert any("population.tif: population was read as people per cell" in note for note in prepared.notes)


def test_coarse_rasters_align_by_themselves(folder, tmp_path):
    files = sorted((folder / "coarse").glob("*.tif"))
    prepared = run(folder, tmp_path, files)
    assert prepared.covariates == tuple(file.stem for file in files)
    assert prepared.stack.grid.resolution == pytest.approx((1 / 24, 1 / 24))
    assert sum("by interpolation" in note for note in prepared.notes) == 4
    for file in files:
        (layer,) = open_layers(file)
        values = layer.read()
        # Between four centres that have values: weights by distance along either axis.
        x, y = prepared.stack.grid.centres(prepared.pixels["cell"].to_numpy())
        column, row = (part - 0.5 for part in layer.grid.positions(x, y))
        j, i = np.floor(column).astype(int), np.floor(row).astype(int)
        inside = (j >= 0) & (i >= 0) & (j < layer.grid.width - 1) & (i < layer.grid.height - 1)
        i, j, down, right = i[inside], j[inside], (row - np.floor(row))[inside], (column - np.floor(column))[inside]
        upper = values[i, j] * (1 - right) + values[i, j + 1] * right
        lower = values[i + 1, j] * (1 - right) + values[i + 1, j + 1] * right
        expected = upper * (1 - down) + lower * down
        known = np.isfinite(expected)
        assert known.mean() > 0.8
        result = prepared.pixels[file.stem].to_numpy()[inside]
        np.testing.assert_allclose(result[known], expected[known], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("changes", [{"resolution": 0.1}, {"grid": "EPSG:32738", "resolution": 7000}])
def test_people_are_kept_on_other_grids(folder, prepared, tmp_path, changes):
    other = run(folder, tmp_path, [folder / "EVI.tif"], **changes)
    # Up to what the cells on the coast share with the sea.
    before, after = (part.polygons.frame["population"].sum() for part in (prepared, other))
    assert after == pytest.approx(before, rel=0.02)
    kept = np.nansum(other.stack.read(names=["population"]), dtype=float)
    (layer,) = open_layers(folder / "population.tif")
    assert kept == pytest.approx(np.nansum(layer.read(), dtype=float), rel=0.03)
