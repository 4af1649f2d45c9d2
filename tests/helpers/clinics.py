"""Five clinics that share a small country: by travel time, and by a table of shares of its wards."""

import geopandas as gpd
import numpy as np
import pandas as pd
from affine import Affine
from geofiles import write_raster
from shapely import box

HEIGHT, WIDTH = 11, 14
TRANSFORM = Affine(0.1, 0, 30.2, 0, -0.05, -1.3)
NAMES = ["Aba", "Bero", "Cima", "Dolo", "Écu"]
CELLS = [(2, 2), (8, 3), (4, 7), (1, 11), (9, 11)]
"""Row and column of the cell of each."""
BEDS = [12, 5, 40, 8, 20]
SICK = [31, 12, 45, 25, 40]


def friction():
    """Minutes to cross a cell: a slow massif, a fast road, and a lake that nobody crosses."""
    row, column = np.mgrid[:HEIGHT, :WIDTH]
    minutes = 11 + 3 * np.sin(row) + 0.7 * column
    minutes[4, :] = 4.0
    minutes[6:8, 5:8] = 33.0
    minutes[0:2, 5:7] = np.nan
    return minutes.astype(np.float32)


def population():
    row, column = np.mgrid[:HEIGHT, :WIDTH]
    people = np.round(60 + 31 * np.cos(row) + 9 * column + np.random.default_rng(4).uniform(0, 25, row.shape))
    people[5, 5] = 0
    return people.astype(np.float32)


def height():
    row, column = np.mgrid[:HEIGHT, :WIDTH]
    return (300 - 12 * row + 25 * np.sin(column)).astype(np.float32)


def table():
    """The clinics: places somewhere within their cells."""
    row, column = np.array(CELLS).T
    longitude, latitude = TRANSFORM @ (column + 0.37, row + 0.61)
    columns = {"clinic": NAMES, "lon": longitude, "lat": latitude, "beds": BEDS, "sick": SICK}
    return pd.DataFrame(columns)


def wards():
    """Six wards whose borders cut through cells."""
    x, y = np.linspace(30.33, 31.42, 4), np.linspace(-1.34, -1.82, 3)
    shapes = [box(x[i], y[j + 1], x[i + 1], y[j]) for j in range(2) for i in range(3)]
    return gpd.GeoDataFrame({"ward": [f"W{k}" for k in range(1, 7)]}, geometry=shapes, crs=4326)


SHARES = [
    ("W1", "Aba", 0.7),
    ("W1", "Cima", 0.2),
    ("W2", "Cima", 0.55),
    ("W2", "Aba", 0.15),
    ("W2", "Dolo", 0.3),
    ("W3", "Dolo", 0.9),
    ("W4", "Bero", 0.6),
    ("W4", "Aba", 0.25),
    ("W5", "Cima", 0.35),
    ("W5", "Bero", 0.25),
    ("W5", "Écu", 0.4),
    ("W6", "Écu", 0.8),
    ("W6", "Dolo", 0.2),
]


def shares():
    """A table whose rows of W1, W3 and W4 leave some who attend none."""
    return pd.DataFrame(SHARES, columns=["area", "facility", "share"]).sample(frac=1, random_state=3)


def counts():
    return pd.DataFrame({"facility": NAMES, "sick": SICK}).sample(frac=1, random_state=1)


def write_files(folder):
    """All of it as files."""
    rasters = {"friction": friction(), "people": population(), "height": height()}
    paths = {name: write_raster(folder / f"{name}.tif", values, TRANSFORM) for name, values in rasters.items()}
    for name, frame in (("clinics", table()), ("shares", shares()), ("counts", counts())):
        paths[name] = folder / f"{name}.csv"
        frame.to_csv(paths[name], index=False)
    paths["wards"] = folder / "wards.gpkg"
    wards().to_file(paths["wards"])
    return paths
