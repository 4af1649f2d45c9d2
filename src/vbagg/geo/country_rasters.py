"""Rasters of a simulated country: population, covariates on grids and in number types of their own, and the truth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyproj
import rasterio
from affine import Affine
from numpy.typing import ArrayLike, NDArray
from scipy.ndimage import gaussian_filter

from vbagg.datasets import EARTH_RADIUS_KM, SimulatedCountry
from vbagg.datasets.aggregate import Floats

LON_LAT = "EPSG:4326"
MODIS = "+proj=sinu +lon_0=0 +x_0=0 +y_0=0 +R=6371007.181 +units=m +no_defs"
WEST, NORTH = -41.0, 13.5  # in the open Atlantic: nobody shall take the country for a real one
KM_PER_DEGREE = float(np.radians(EARTH_RADIUS_KM))
RAIN_DEGREES = 0.25
SUITABILITY_PIXELS = 2.5  # pixels of the country along a cell of the temperature suitability
POINTS = 10  # along a pixel, for averages over another grid
CLOUDED, CLOUD_KM = 0.06, 25.0  # share of the land below clouds, and their size


@dataclass(frozen=True)
class Encoding:
    """How a raster's numbers are stored: ``value = scale * stored + offset``."""

    title: str
    units: str
    dtype: str = "float32"
    nodata: float = -9999.0
    declared: bool = True
    scale: float = 1.0
    offset: float = 0.0


POPULATION = Encoding("People in each cell", "people", nodata=-99999.0)
TRUE_RATE = Encoding("True malaria rate", "cases per person a year", nodata=np.nan)
COVARIATES = {
    "distance_to_water": Encoding(
        "Distance to the nearest river or lake", "km", nodata=float(np.finfo(np.float32).min), declared=False
    ),
    "night_lights": Encoding("Brightness at night, 0 to 63", "index", "uint8", nodata=255, scale=0.25),
    "wetness_index": Encoding("Topographic wetness index", "index", nodata=np.nan),
    "elevation": Encoding("Height above the sea", "m", "int16"),
    "temperature_suitability": Encoding("Suitability of the temperature for the parasite, 0 to 1", "index"),
    "lst_day": Encoding("Land surface temperature by day", "degrees C", "uint16", nodata=0, scale=0.02, offset=-273.15),
    "rainfall": Encoding("Rainfall", "mm a year"),
}
"""Covariates on disk: five that the rate depends on, and two others."""


def degrees_per_pixel(country: SimulatedCountry) -> float:
    """Side of the country's pixels as cells of longitude and latitude."""
    return country.pixel_km / KM_PER_DEGREE


@dataclass(frozen=True, eq=False)
class Raster:
    """Values on a grid, NaN where there are none."""

    values: Floats
    transform: Affine
    crs: str

    @classmethod
    def of(cls, country: SimulatedCountry, values: ArrayLike) -> Raster:
        """One value per pixel, on the country's grid."""
        degrees = degrees_per_pixel(country)
        return cls(country.raster(values), Affine(degrees, 0, WEST, 0, -degrees, NORTH), LON_LAT)

    def cropped(self) -> Raster:
        """Return the smallest raster with all values."""
        rows, columns = (np.flatnonzero(np.isfinite(self.values).any(axis=axis)) for axis in (1, 0))
        values = self.values[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
        across, _, west, _, down, north, *_ = self.transform
        transform = Affine(across, 0, west + across * columns[0], 0, down, north + down * rows[0])
        return replace(self, values=values, transform=transform)

    def averaged(self, crs: str, side: float) -> Raster:
        """Mean of the values in each cell of another grid, whose lines are at multiples of ``side``.

        Every cell of this raster counts by points spread over it, each for the new cell that it lies in.
        """
        inside = np.isfinite(self.values)
        rows, columns = np.nonzero(inside)
        down, right = ((np.indices((POINTS, POINTS)) + 0.5) / POINTS).reshape(2, 1, -1)
        x = self.transform.c + self.transform.a * (columns[:, None] + right)
        y = self.transform.f + self.transform.e * (rows[:, None] + down)
        x, y = pyproj.Transformer.from_crs(self.crs, crs, always_xy=True).transform(x.ravel(), y.ravel())
        column, row = np.floor(x / side).astype(int), np.floor(-y / side).astype(int)
        transform = Affine(side, 0, column.min() * side, 0, -side, -row.min() * side)
        new = (row - row.min(), column - column.min())
        total, count = np.zeros((2, np.ptp(row) + 1, np.ptp(column) + 1))
        np.add.at(total, new, np.repeat(self.values[inside], POINTS**2))
        np.add.at(count, new, 1)
        return Raster(np.where(count > 0, total / np.maximum(count, 1), np.nan), transform, crs)

    def without(self, hidden: NDArray[np.bool_]) -> Raster:
        """Return the same with the cells in ``hidden`` missing."""
        return replace(self, values=np.where(hidden, np.nan, self.values))

    def write(self, path: Path, encoding: Encoding) -> None:
        """Write a GeoTIFF with title, units, scale and offset inside."""
        stored = (self.values - encoding.offset) / encoding.scale
        if np.issubdtype(encoding.dtype, np.integer):
            stored = np.rint(stored)
        stored = np.where(np.isfinite(stored), stored, encoding.nodata).astype(encoding.dtype)
        with rasterio.open(
            path,
            "w",
            driver="GTiff",
            height=stored.shape[0],
            width=stored.shape[1],
            count=1,
            dtype=encoding.dtype,
            crs=self.crs,
            transform=self.transform,
            nodata=encoding.nodata if encoding.declared else None,
            compress="deflate",
        ) as file:
            file.write(stored, 1)
            file.set_band_description(1, path.stem)
            file.units = (encoding.units,)
            file.scales, file.offsets = (encoding.scale,), (encoding.offset,)
            file.update_tags(TITLE=encoding.title, UNITS=encoding.units, SOURCE="simulated by vbagg")


def write_rasters(
    country: SimulatedCountry,
    population: Path,
    covariates: Mapping[str, Path],
    truth: Path,
    random: np.random.Generator,
) -> None:
    """Write people per cell, each of `COVARIATES`, and the true rate per person."""
    Raster.of(country, 1000 * country.bags.weight).write(population, POPULATION)
    Raster.of(country, country.rate / 1000).write(truth, TRUE_RATE)
    values = dict(zip(country.bags.feature_names, country.bags.X.T, strict=True))
    rasters = {name: Raster.of(country, values[name]) for name in COVARIATES}
    rasters["elevation"] = rasters["elevation"].cropped()
    metres = 1000 * SUITABILITY_PIXELS * country.pixel_km
    rasters["temperature_suitability"] = rasters["temperature_suitability"].averaged(MODIS, metres)
    rasters["lst_day"] = rasters["lst_day"].without(_clouds(country, random))
    rasters["rainfall"] = rasters["rainfall"].averaged(LON_LAT, RAIN_DEGREES)
    for name, raster in rasters.items():
        raster.write(covariates[name], COVARIATES[name])


def _clouds(country: SimulatedCountry, random: np.random.Generator) -> NDArray[np.bool_]:
    """Cells of the grid that are below clouds: a given share of the land, in patches."""
    haze = gaussian_filter(random.standard_normal(country.shape), CLOUD_KM / country.pixel_km)
    return haze > np.quantile(haze.flat[country.pixel], 1 - CLOUDED)
