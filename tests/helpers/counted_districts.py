"""Six districts whose counts are in a table, not with the polygons."""

from itertools import pairwise

import geopandas as gpd
import numpy as np
import openpyxl
from affine import Affine
from geofiles import write_raster
from shapely import box

CODES = ["007", "010", "101", "102", "103", "120"]
NAMES = ["Évry", "Saint-Denis", "Ålesund", "Bobo Dioulasso", "Nuñoa", "Łódź"]
CASES = [3, 41, 0, 1520, 17, 260]
PEOPLE = [850.5, 1200.0, 40.0, 90210.25, 777.0, 12000.0]
ORDER = [4, 0, 5, 2, 1, 3]
"""Of the rows of the table, as positions of polygons."""
ON = ("--on", "code", "--response", "cases")


def polygons():
    """A row of rectangles of unequal width that cut through cells, with keys of two kinds and no counts."""
    edges = 30.07 + np.cumsum([0, 0.31, 0.12, 0.44, 0.25, 0.18, 0.37])
    shapes = [box(left, 9.31, right, 9.93) for left, right in pairwise(edges)]
    return gpd.GeoDataFrame({"code": CODES, "name": NAMES, "wave": range(6)}, geometry=shapes, crs="EPSG:4326")


def rows():
    """The table: names of columns, and a row for each district, shuffled."""
    return [["code", "district", "cases", "people"], *([CODES[k], NAMES[k], CASES[k], PEOPLE[k]] for k in ORDER)]


def text(lines=None, separator=","):
    """The table as separated values."""
    return "".join(
        separator.join("" if cell is None else str(cell) for cell in line) + "\n" for line in lines or rows()
    )


def workbook(path, lines=None, change=lambda sheet: None):
    """The table as an Excel workbook, with what `change` makes of its sheet."""
    book = openpyxl.Workbook()
    for line in rows() if lines is None else lines:
        book.active.append(line)
    change(book.active)
    book.save(path)
    return path


def write_files(folder):
    """Polygons and rasters, without a table."""
    polygons().to_file(folder / "districts.gpkg")
    place = Affine(0.1, 0, 29.9, 0, -0.1, 10.1)
    row, column = np.mgrid[:10, :22]
    write_raster(folder / "rain.tif", (5 + row + np.sin(column)).astype(np.float32), place)
    write_raster(folder / "people.tif", (900 + 50 * column + row).astype(np.float32), place)
