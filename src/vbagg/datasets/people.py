"""People of an imagined country: settlements, population and night lights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vbagg.datasets.aggregate import Floats
from vbagg.datasets.terrain import FRAME_KM, Grid, Land

RURAL, URBAN = 15_000.0, 9_000.0  # thousands of people
N_SETTLEMENTS = 500
N_CITIES = 45  # the largest settlements
LEAST_DENSITY = 2e-4  # thousands of people per square km, where nobody settled


@dataclass(frozen=True, eq=False)
class People:
    """Population on a grid, in thousands of people per pixel, zero outside the country.

    Attributes
    ----------
    population
        Villages and towns together.
    urban
        The part that lives in settlements.
    cities
        Places (n, 2) of the largest settlements, in km.
    """

    population: Floats
    urban: Floats
    cities: Floats


def settle(land: Land, random: np.random.Generator) -> People:
    """Spread 24 million people: villages along water and in lowlands, and settlements whose sizes follow Zipf's law."""
    grid = land.grid
    attraction = np.exp(0.9 * grid.noise(random, (200, 100, 50, 25, 12, 6), 0.75))
    attraction *= (1 + 3 * np.exp(-land.water_km / 12)) / (1 + np.exp((land.elevation - 2000) / 400))
    attraction *= land.inside
    places = _places(grid, random, attraction)
    thousands = _zipf(len(places))
    texture = np.exp(0.6 * grid.noise(random, (4, 2), 0.8)) * land.inside
    urban = np.zeros(grid.shape)
    for place, size in zip(places, thousands, strict=True):
        _add_settlement(urban, grid, texture, place, size)
    rural = RURAL * attraction / attraction.sum() + LEAST_DENSITY * grid.pixel_km**2 * land.inside
    return People(rural + urban, urban, places[:N_CITIES])


def night_lights(land: Land, people: People, random: np.random.Generator) -> Floats:
    """Brightness from 0 to 63 of the glow around settlements; zero where it is too faint to be seen."""
    from scipy.ndimage import gaussian_filter

    grid = land.grid
    glow = gaussian_filter(people.urban / grid.pixel_km**2, sigma=2.5 / grid.pixel_km)
    seen = glow * np.exp(0.4 * grid.noise(random, (30, 15, 8), 0.8))
    return 63 * -np.expm1(-np.maximum(seen - 0.05, 0) / 0.8)


def _zipf(n: int) -> Floats:
    """Sizes of ``n`` settlements, largest first, ``URBAN`` in all."""
    shares = np.arange(1, n + 1) ** -1.05
    return URBAN * shares / shares.sum()


def _places(grid: Grid, random: np.random.Generator, attraction: Floats) -> Floats:
    """Draw places (n, 2) in km without replacement, with odds ``attraction``, the most sought after first."""
    candidates = random.uniform(0, FRAME_KM[::-1], (40 * N_SETTLEMENTS, 2))
    odds = attraction[grid.cells(candidates)]
    allowed = odds > 0
    # The largest of log odds plus Gumbel noise are a draw without replacement.
    keys = np.log(odds[allowed]) + random.gumbel(size=len(candidates))[allowed]
    return candidates[allowed][np.argsort(-keys, kind="stable")[:N_SETTLEMENTS]]


def _add_settlement(urban: Floats, grid: Grid, texture: Floats, place: Floats, thousands: float) -> None:
    """Add a settlement that thins out as (1 + (distance / radius)^2)^-2 and stays within the country."""
    radius = 0.7 + 0.055 * thousands**0.6
    row, column = (int(index[0]) for index in grid.cells(place[None]))
    reach = int(12 * radius / grid.pixel_km) + 1
    rows, columns = (slice(max(index - reach, 0), index + reach + 1) for index in (row, column))
    squares = (grid.x[columns] - place[0]) ** 2 + (grid.y[rows, None] - place[1]) ** 2
    share = texture[rows, columns] / (1 + squares / radius**2) ** 2
    urban[rows, columns] += thousands * share / share.sum()
