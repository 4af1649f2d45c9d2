"""A twin of the paper's confidential malaria data: a country whose true rates are known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from vbagg.datasets.aggregate import Floats, Integers

if TYPE_CHECKING:
    from vbagg.bags import Bags

# The paper's data.
N_PIXELS = 1_044_683
N_DISTRICTS = 957
SMALLEST, LARGEST = 13, 6_667

LEAST_DISTRICTS = 10
LEAST_PIXELS, LEAST_MEAN = 5, 20  # of a district: fewest, and on average
RELEVANT = ("distance_to_water", "night_lights", "wetness_index", "elevation", "temperature_suitability")


@dataclass(frozen=True, eq=False)
class SimulatedCountry:
    """A country of districts and pixels with its cases, and the truth that a model must not see.

    Attributes
    ----------
    bags
        Pixels by district (labels ``"D0001"``, ... from north to south), weighted by population in thousands.
        Columns: ``x`` and ``y`` in km, then the 18 covariates.
    y
        Cases of each district in a year, in the order of ``bags.labels``.
    rate
        True cases per 1000 people a year of each pixel, in the order of ``bags.X``.
    field
        What space alone adds to the logarithm of ``rate``; the rest is :func:`rate_of_covariates`.
    relevant
        Names of the covariates that ``rate`` depends on.
    pixel
        Place of each row of ``bags.X`` in the flattened grid.
    shape
        Rows, from north to south, and columns of the grid.
    pixel_km
        Side of a pixel.
    river
        Points (n, 2) of the main river, in the coordinates ``x`` and ``y``.
    """

    bags: Bags
    y: Floats
    rate: Floats
    field: Floats
    relevant: tuple[str, ...]
    pixel: Integers
    shape: tuple[int, int]
    pixel_km: float
    river: Floats

    @property
    def expected(self) -> Floats:
        """Expected cases of each district: the sum of population times rate."""
        return self.bags.sum_by_bag(self.bags.weight * self.rate)

    @property
    def district_rate(self) -> Floats:
        """Observed cases per 1000 people of each district."""
        return self.y / self.bags.totals()

    @property
    def extent(self) -> tuple[float, float, float, float]:
        """West, east, south and north of the grid in km, as matplotlib's ``imshow`` wants them."""
        return 0.0, self.shape[1] * self.pixel_km, 0.0, self.shape[0] * self.pixel_km

    def raster(self, values: ArrayLike) -> Floats:
        """Lay one value per row of ``bags.X``, or per district, on the grid; NaN outside the country."""
        values = np.asarray(values, dtype=float)
        if values.shape == (len(self.bags),):
            values = values[self.bags.bag]
        if values.shape != self.pixel.shape:
            raise ValueError(
                f"`values` must hold one number per pixel ({self.pixel.size}) or per district ({len(self.bags)}); "
                f"got shape {values.shape}."
            )
        grid = np.full(self.shape, np.nan)
        grid.flat[self.pixel] = values
        return grid


def simulated_country(
    scale: float = 1.0, seed: int = 0, n_districts: int = N_DISTRICTS, dispersion: float = 0.0
) -> SimulatedCountry:
    """Simulate malaria in a country like the paper's: 957 districts of 13 to 6,667 pixels, 1,044,683 in all.

    Districts are connected, and small where many people live. The rate is a nonlinear function of five covariates
    (`RELEVANT`) times a smooth field in space; the other thirteen are related to these, as in nature, but have no
    effect of their own. Cases are Poisson with mean the sum of population times rate.

    Parameters
    ----------
    scale
        Share of the 1,044,683 pixels. The country stays: its outline and extent, river, cities, covariates, rates and
        24 million people. Pixels get coarser, of side ``scale**-0.5`` km, and districts are drawn anew with sizes
        in the same proportion but at least 5 pixels; there are fewer of them if they would have less than 20 on
        average, at scales below 0.0184.
    seed
        Seed of everything.
    n_districts
        Number of districts. The smallest and the largest keep their proportion to the mean.
    dispersion
        If positive, cases are negative binomial of variance ``mean + dispersion * mean**2``.
    """
    import pandas as pd

    from vbagg.bags import Bags
    from vbagg.datasets.covariates import make_covariates
    from vbagg.datasets.districts import divide
    from vbagg.datasets.people import settle
    from vbagg.datasets.terrain import make_land

    n_pixels, n_districts = _sizes(scale, n_districts, dispersion)
    of_land, of_people, of_covariates, of_districts, of_field, of_cases = np.random.default_rng(seed).spawn(6)
    land = make_land(n_pixels, scale**-0.5, of_land)
    people = settle(land, of_people)
    bounds = _size_bounds(n_pixels, n_districts)
    district = divide(land, people.population, n_districts, *bounds, of_districts)[land.inside]

    covariates = make_covariates(land, people, of_covariates)
    field = 0.65 * land.grid.noise(of_field, (200, 100), 0.6)[land.inside]
    rate = rate_of_covariates(covariates) * np.exp(field)

    rows, columns = np.nonzero(land.inside)
    by_district = np.argsort(district, kind="stable")
    X = pd.DataFrame({"x": land.grid.x[columns], "y": land.grid.y[rows], **covariates}).iloc[by_district]
    labels = np.array([f"D{number:04d}" for number in range(1, n_districts + 1)], dtype=object)
    bags = Bags(X, labels[district[by_district]], weight=people.population[land.inside][by_district])
    rate = rate[by_district]
    return SimulatedCountry(
        bags=bags,
        y=_draw_cases(bags.sum_by_bag(bags.weight * rate), dispersion, of_cases),
        rate=rate,
        field=field[by_district],
        relevant=RELEVANT,
        pixel=np.flatnonzero(land.inside)[by_district],
        shape=land.grid.shape,
        pixel_km=land.grid.pixel_km,
        river=land.river,
    )


def rate_of_covariates(covariates: Mapping[str, Floats]) -> Floats:
    """Cases per 1000 people a year without the field: the truth, from the covariates `RELEVANT`.

    Mosquitoes breed in wet places, most of all within a few kilometres of water (an interaction). The parasite needs
    a suitable temperature (a threshold), is rare above 900 m, and spares lit towns beyond a brightness of about 6.
    """
    water_km, lights, wetness, metres, suitability = (covariates[name] for name in RELEVANT)
    wet = _step(wetness, 10.0, 0.5)
    near = np.exp(-water_km / 10)
    breeding = 0.05 + 0.2 * wet + 0.3 * near + 1.5 * near * wet
    living = 1 - 0.9 * _step(lights, 6.0, 1.5)
    return 1 + 150 * breeding * _step(suitability, 0.7, 0.1) * _step(-metres, -900.0, 120.0) * living


def _step(values: Floats, threshold: float, width: float) -> Floats:
    """Rise smoothly from 0 to 1 about the threshold."""
    return 0.5 + 0.5 * np.tanh((values - threshold) / (2 * width))


def _sizes(scale: float, n_districts: int, dispersion: float) -> tuple[int, int]:
    """Return the numbers of pixels and of districts, after a check of the arguments."""
    n_pixels = round(scale * N_PIXELS)
    if not n_pixels >= LEAST_DISTRICTS * LEAST_MEAN:
        raise ValueError(f"`scale` must be at least {LEAST_DISTRICTS * LEAST_MEAN / N_PIXELS:.2g}; got {scale}.")
    if n_districts < LEAST_DISTRICTS:
        raise ValueError(f"`n_districts` must be at least {LEAST_DISTRICTS}; got {n_districts}.")
    if not dispersion >= 0:
        raise ValueError(f"`dispersion` must be non-negative; got {dispersion}.")
    return n_pixels, min(n_districts, n_pixels // LEAST_MEAN)


def _size_bounds(n_pixels: int, n_districts: int) -> tuple[int, int]:
    """Fewest and most pixels of a district: in the paper's proportion to the mean, at most a quarter of the country."""
    proportion = (n_pixels / n_districts) / (N_PIXELS / N_DISTRICTS)
    return max(LEAST_PIXELS, round(SMALLEST * proportion)), min(round(LARGEST * proportion), n_pixels // 4)


def _draw_cases(mean: Floats, dispersion: float, random: np.random.Generator) -> Floats:
    """Poisson counts, or negative binomial ones as Poisson counts of a gamma-distributed mean."""
    if dispersion > 0:
        mean = mean * random.gamma(1 / dispersion, dispersion, mean.shape)
    return random.poisson(mean).astype(float)
