"""Twelve districts on a small grid, and one small model fitted to them."""

import functools
import tempfile
import warnings
from pathlib import Path

import geopandas as gpd
import numpy as np
from affine import Affine
from geofiles import write_raster
from shapely import box

import vbagg
from vbagg.geo import prepare

HEIGHT, WIDTH = 12, 9
TRANSFORM = Affine(0.1, 0, 30.2, 0, -0.05, -1.3)
# the first and the last column of cells, and the last row, lie outside all districts
WEST, EAST, SOUTH, NORTH = 30.33, 30.97, -1.82, -1.31
GAP = (5, 6)  # a cell whose wetness is missing


def frame():
    """Four by three rectangles that cut through cells, the cases, and the number examined."""
    x, y = np.linspace(WEST, EAST, 5), np.linspace(NORTH, SOUTH, 4)
    shapes = [box(x[i], y[j + 1], x[i + 1], y[j]) for j in range(3) for i in range(4)]
    cases = np.array([14, 20, 33, 61, 7, 12, 25, 40, 3, 6, 9, 18.0])
    names = [f"D{k:02}" for k in range(12)]
    return gpd.GeoDataFrame(
        {"name": names, "cases": cases, "tested": 10 * cases + 7, "region": names[:6] * 2}, geometry=shapes, crs=4326
    )


def rasters():
    row, column = np.mgrid[:HEIGHT, :WIDTH]
    noise = np.random.default_rng(3)
    population = np.round(40 + 25 * np.sin(row) + 12 * column + noise.uniform(0, 30, row.shape))
    population[2, 3] = 0
    height = 200 + 60 * column - 15 * row + noise.normal(0, 20, row.shape)
    wetness = np.cos(row / 3) + 0.1 * noise.normal(size=row.shape)
    wetness[GAP] = np.nan
    return {"population": population, "height": height, "wetness": wetness}


def prepared_country(folder, population=True, missing="drop", polygons=None):
    """The country as `prepare` sees it."""
    layers = {
        name: write_raster(folder / f"{name}.tif", values.astype(np.float32), TRANSFORM)
        for name, values in rasters().items()
    }
    people = layers.pop("population")
    return prepare(
        frame() if polygons is None else polygons,
        "name",
        "cases",
        people if population else None,
        list(layers.values()),
        population_is="counts",
        missing=missing,
        folder=folder / "prepared",
    )


@functools.cache
def fitted_model():
    """A model of the country, the same in all tests of a process."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", vbagg.errors.ConvergenceWarning)
        prepared = prepared_country(Path(folder))
        kernel = vbagg.kernels.RBF(("height", "wetness"), ard=True) + vbagg.kernels.Matern32(("x", "y"))
        search = vbagg.Newton(max_iterations=2, starts=1)
        model = vbagg.VBAgg("poisson", "exp", kernel=kernel, landmarks=[5, 6], inference=search)
        return model.fit(prepared.bags(), prepared.y("cases"), progress=False)


def write_files(folder):
    """The country as files: by name the districts and the rasters."""
    paths = {
        name: write_raster(folder / f"{name}.tif", values.astype(np.float32), TRANSFORM)
        for name, values in rasters().items()
    }
    frame().to_file(folder / "districts.gpkg")
    return {"districts": folder / "districts.gpkg", **paths}


CHEAP = {"landmarks": 4, "hyper": "point", "folds": 2, "recovery": 0}
"""Options of a run that is over soon."""
