"""Eighteen covariates of an imagined country, such as satellites and their products give them."""

from __future__ import annotations

import numpy as np

from vbagg.datasets.aggregate import Floats
from vbagg.datasets.people import People, night_lights
from vbagg.datasets.terrain import FRAME_KM, Land

COVARIATES = (
    "accessibility",
    "distance_to_water",
    "night_lights",
    "wetness_index",
    "elevation",
    "slope",
    "lst_day",
    "lst_night",
    "lst_range",
    "evi",
    "evi_range",
    "tc_brightness",
    "tc_wetness",
    "rainfall",
    "aridity_index",
    "temperature_suitability",
    "forest",
    "cropland",
)


def make_covariates(land: Land, people: People, random: np.random.Generator) -> dict[str, Floats]:
    """Each of `COVARIATES` at the pixels inside the country, in the order of their flat index."""
    values = _relief(land, random) | _settlement(land, people, random)
    values |= _climate(land, values, random)
    values |= _vegetation(land, people, values, random)
    values |= _surface(land, values, random)
    return {name: values[name] for name in COVARIATES}


def _relief(land: Land, random: np.random.Generator) -> dict[str, Floats]:
    """Elevation (m), slope (degrees), distance to water (km) and the topographic wetness index."""
    inside = land.inside
    rise = np.hypot(*np.gradient(land.elevation, 1000 * land.grid.pixel_km))
    slope, water_km = np.degrees(np.arctan(rise))[inside], land.water_km[inside]
    roughness = land.grid.noise(random, (15, 7, 4), 0.8)[inside]
    wetness = 8.5 - 1.1 * np.log(0.15 + slope) + 4.5 * np.exp(-water_km / 3.5) + 0.7 * roughness
    return {
        "elevation": land.elevation[inside],
        "slope": slope,
        "distance_to_water": water_km,
        "wetness_index": wetness,
    }


def _settlement(land: Land, people: People, random: np.random.Generator) -> dict[str, Floats]:
    """Night lights (0 to 63) and minutes of travel to the nearest city."""
    from scipy.spatial import KDTree

    grid, inside = land.grid, land.inside
    rows, columns = np.nonzero(inside)
    city_km = KDTree(people.cities).query(np.stack([grid.x[columns], grid.y[rows]], axis=1))[0]
    rise = np.hypot(*np.gradient(land.elevation, 1000 * grid.pixel_km))[inside]
    minutes_per_km = 1.2 * np.exp(0.3 * grid.noise(random, (80, 40, 20, 10), 0.7)[inside]) * (1 + 8 * rise)
    return {
        "night_lights": night_lights(land, people, random)[inside],
        "accessibility": city_km * minutes_per_km * (1 + city_km / 150),
    }


def _climate(land: Land, known: dict[str, Floats], random: np.random.Generator) -> dict[str, Floats]:
    """Rainfall (mm a year), aridity (rain by evaporation), air temperature and the parasite's suitability (0 to 1)."""
    grid, inside = land.grid, land.inside
    angle = np.pi / 2 + random.uniform(-0.6, 0.6)  # towards the dry side, about north
    east, north = grid.x / FRAME_KM[1] - 0.5, grid.y / FRAME_KM[0] - 0.5
    dry = 2 * (np.cos(angle) * east + np.sin(angle) * north[:, None])[inside]
    altitude = known["elevation"] / 1000
    waver = grid.noise(random, (300, 150, 75, 38), 0.5)[inside]
    rainfall = 950 * np.exp(-0.75 * dry + 0.18 * waver + 0.12 * altitude)
    air = 27.5 + 1.6 * dry - 5.8 * altitude + 0.5 * grid.noise(random, (200, 80, 30), 0.6)[inside]
    return {
        "rainfall": rainfall,
        "aridity_index": rainfall / (60 * np.maximum(air, 5)),
        "air_temperature": air,
        "temperature_suitability": np.exp(-0.5 * ((air - 25.5) / np.where(air < 25.5, 4.5, 2.5)) ** 2),
    }


def _vegetation(land: Land, people: People, known: dict[str, Floats], random: np.random.Generator) -> dict[str, Floats]:
    """Enhanced vegetation index and its range over the year, forest cover and cropland (per cent)."""
    grid, inside = land.grid, land.inside
    patches = [
        grid.noise(random, lengths, 0.8)[inside] for lengths in ((60, 30, 15, 7, 4), (40, 20, 10, 5), (25, 12, 6, 3))
    ]
    settled = np.log1p(people.population[inside] / grid.pixel_km**2 / 0.02)
    moisture = np.log(known["aridity_index"]) + 0.35 * np.exp(-known["distance_to_water"] / 6)
    green = _logistic(2.2 * (moisture + 0.35) + 0.5 * patches[0] - 0.04 * known["night_lights"])
    forest = _logistic(3 * (moisture + 0.05) + 1.1 * patches[1] - 0.9 * settled)
    return {
        "evi": 0.07 + 0.48 * green,
        "evi_range": 0.05 + 0.9 * green * (1 - green) * (1 - 0.6 * forest) * np.exp(0.15 * patches[2]),
        "forest": 100 * forest,
        "cropland": 75 * (1 - forest) * _logistic(settled - 2 + 0.9 * patches[2] - 0.1 * known["slope"]),
    }


def _surface(land: Land, known: dict[str, Floats], random: np.random.Generator) -> dict[str, Floats]:
    """Land surface temperature by day, by night and between them (degrees C), and two tasselled-cap components."""
    noises = [land.grid.noise(random, (50, 20, 8, 4), 0.7)[land.inside] for _ in range(5)]
    evi, air, night_lights = known["evi"], known["air_temperature"], known["night_lights"]
    day = air + 11 - 22 * (evi - 0.2) + 0.03 * night_lights + 0.8 * noises[0]
    night = air - 6 + 3 * np.minimum(known["aridity_index"], 1.5) + 0.03 * night_lights + 0.5 * noises[1]
    wet = 0.02 * (known["wetness_index"] - 8)
    return {
        "lst_day": day,
        "lst_night": night,
        "lst_range": day - night + 0.5 * noises[2],
        "tc_brightness": 0.52 - 0.45 * evi - 0.5 * wet + 0.03 * noises[3],
        "tc_wetness": -0.28 + 0.35 * evi + wet + 0.02 * noises[4],
    }


def _logistic(values: Floats) -> Floats:
    return 1 / (1 + np.exp(-values))
