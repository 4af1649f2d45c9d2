"""A simulated country in files, as a malaria programme would have its own: polygons with cases, and rasters.

The rasters differ on purpose, as they do in real folders: in grid, extent, coordinate system, number type and in how
they mark missing cells. The truth that a model must not see goes to a subfolder.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vbagg.datasets import SimulatedCountry, simulated_country
from vbagg.geo import country_polygons as polygons
from vbagg.geo.country_rasters import CLOUDED, COVARIATES, RAIN_DEGREES, degrees_per_pixel, write_rasters
from vbagg.geo.files import output_folder, some


@dataclass(frozen=True)
class CountryFiles:
    """Where the files of a simulated country are.

    Attributes
    ----------
    folder
        The folder of them all.
    districts
        Polygons with columns ``id``, ``name`` and ``cases``.
    health_areas
        Polygons with columns ``id`` and ``name``, whose borders cross those of districts and cells.
    population
        Raster of people per cell.
    covariates
        Rasters by name.
    readme
        What each file is and the command to run, in plain words.
    truth
        Raster of the true cases per person a year, on the population's grid.
    truth_districts, truth_health_areas
        Tables of population, expected cases and true rate of each polygon.
    """

    folder: Path
    districts: Path
    health_areas: Path
    population: Path
    covariates: dict[str, Path]
    readme: Path
    truth: Path
    truth_districts: Path
    truth_health_areas: Path

    @classmethod
    def within(cls, folder: Path) -> CountryFiles:
        """Return the paths in a folder, whether or not the files exist."""
        truth = folder / "truth"
        return cls(
            folder=folder,
            districts=folder / "districts.gpkg",
            health_areas=folder / "health_areas.gpkg",
            population=folder / "population.tif",
            covariates={name: folder / f"{name}.tif" for name in COVARIATES},
            readme=folder / "README.txt",
            truth=truth / "truth.tif",
            truth_districts=truth / "truth_districts.csv",
            truth_health_areas=truth / "truth_health_areas.csv",
        )

    @property
    def command(self) -> str:
        """The command that makes maps from the files, to be given in their folder."""
        parts = (
            "vbagg run",
            f"--polygons {self.districts.name} --id id --response cases",
            f"--population {self.population.name}",
            *(f"--covariate {path.name}" for path in self.covariates.values()),
            f"--to {self.health_areas.name} --out results",
        )
        return " \\\n    ".join(parts)


def write_country(
    folder: str | os.PathLike[str],
    scale: float = 0.01,
    seed: int = 9,
    n_districts: int = 80,
    n_health_areas: int = 25,
    dispersion: float = 0.05,
    overwrite: bool = False,
) -> CountryFiles:
    """Simulate a country; write the files that a malaria programme would have, and the truth in a subfolder.

    The simulated pixels are cells of longitude and latitude: a kilometre is the same number of degrees in both
    directions, as at the equator. Nothing is written unless everything is.

    Parameters
    ----------
    folder
        A new or empty folder.
    scale, seed, n_districts
        As in :func:`vbagg.datasets.simulated_country`. A scale of 0.01 means 10,447 pixels of 10 km.
    n_health_areas
        Number of hospitals; the land nearest to each is a health area.
    dispersion
        Cases have the variance ``mean + dispersion * mean**2``: reports scatter more than Poisson counts.
    overwrite
        Allow a folder that is not empty: files of the same names are replaced, others stay.
    """
    _refuse_contents(Path(folder), overwrite)
    country = simulated_country(scale, seed, n_districts, dispersion)
    if not 2 <= n_health_areas <= country.bags.n_individuals:
        raise ValueError(
            f"`n_health_areas` must be from 2 to the number of pixels, {country.bags.n_individuals}; "
            f"got {n_health_areas}."
        )
    with output_folder(folder) as out, tempfile.TemporaryDirectory(prefix=".part-", dir=out) as part:
        _write(country, n_health_areas, CountryFiles.within(Path(part)), np.random.default_rng((seed, 1)))
        _move_files(Path(part), out)
    return CountryFiles.within(Path(folder))


def _refuse_contents(folder: Path, overwrite: bool) -> None:
    found = sorted(path.name for path in folder.iterdir()) if folder.is_dir() and not overwrite else []
    if found:
        raise ValueError(
            f"`folder` must be new or empty; {folder} holds {some(found)}. "
            "Choose another folder, or pass overwrite=True to replace files of the same names."
        )


def _move_files(source: Path, target: Path) -> None:
    for path in sorted(path for path in source.rglob("*") if path.is_file()):
        place = target / path.relative_to(source)
        place.parent.mkdir(exist_ok=True)
        path.replace(place)


def _write(country: SimulatedCountry, n_areas: int, files: CountryFiles, random: np.random.Generator) -> None:
    files.truth.parent.mkdir()
    of_names, of_areas, of_clouds = random.spawn(3)
    write_rasters(country, files.population, files.covariates, files.truth, of_clouds)

    n_districts = len(country.bags)
    names = polygons.make_names(n_districts + n_areas, of_names)
    cells = polygons.make_cells(country)
    districts = polygons.make_districts(country, cells, names[:n_districts])
    polygons.write_polygons(files.districts, districts, ("id", "name", "cases"))
    polygons.write_truth(files.truth_districts, districts)
    areas = polygons.make_health_areas(cells, names[n_districts:], of_areas)
    polygons.write_polygons(files.health_areas, areas, ("id", "name"))
    polygons.write_truth(files.truth_health_areas, areas)

    files.readme.write_text(_readme(country, n_areas, files), encoding="utf-8")


def _readme(country: SimulatedCountry, n_areas: int, files: CountryFiles) -> str:
    layers = {f"{name}.tif": f"{encoding.title} ({encoding.units})." for name, encoding in COVARIATES.items()}
    layers["lst_day.tif"] += f" Clouds hide {CLOUDED:.0%} of the land."
    layers["temperature_suitability.tif"] += f"\n{'':31}Larger cells, in metres on the sinusoidal grid of MODIS."
    layers["rainfall.tif"] += f" Larger cells, of {RAIN_DEGREES} degrees."
    listed = "\n".join(f"  {name:<29}{text}" for name, text in layers.items())
    return README.format(
        n_districts=len(country.bags),
        n_areas=n_areas,
        people=round(1000 * country.bags.weight.sum()),
        cases=round(country.y.sum()),
        degrees=degrees_per_pixel(country),
        km=country.pixel_km,
        listed=listed,
        relevant=", ".join(country.relevant),
        command=files.command,
    )


README = """\
A country that does not exist

Everything here is simulated: the land, its people, their malaria, and the names. The country was put into the
Atlantic Ocean, where no real one is. Use the files to try vbagg before your own.

The data
  districts.gpkg               {n_districts} districts with the columns id, name and cases (malaria cases in one year;
                               {cases:,} in all). Longitude and latitude (EPSG:4326).
  population.tif               People in each cell, {people:,} in all. EPSG:4326, cells of {degrees:.4f} degrees
                               (about {km:.3g} km). The maps get this grid.
{listed}
  health_areas.gpkg            {n_areas} health areas with the columns id and name: the land nearest to each hospital.
                               Their borders cross those of the districts. No cases were counted for them;
                               they are here to ask for estimates.

The layers differ in grid, extent, kind of number and code for missing cells, as layers of different origin do. One
(distance_to_water.tif) does not even declare its code. vbagg brings them together.

The truth, which no model gets to see
  truth/truth.tif              True rate in each cell, in cases per person a year (times 1000: per 1000 people).
  truth/truth_districts.csv    Each district's people, counted cases, expected cases and true rate per person a year.
  truth/truth_health_areas.csv The same for the health areas, without counted cases.
The rate depends on {relevant}, and on a smooth
field in space that no layer shows.

To make maps, open a terminal in this folder and type

  {command}
"""
