"""Three overlapping districts on a grid of five rows of tiles, with gaps, classes and a raster of another CRS."""

import numpy as np
from affine import Affine
from geofiles import districts, write_polygons, write_raster
from shapely import Point, box

from vbagg import geo
from vbagg.workflow.settings import Data

ROWS, COLUMNS = 300, 50
TRANSFORM = Affine(0.05, 0, 30, 0, -0.04, 10)


def write_data(folder, rng):
    """The files, as settings name them."""
    shape = (ROWS, COLUMNS)
    rain, land = rng.normal(900, 100, shape), rng.integers(1, 4, shape).astype(float)
    rain[rng.random(shape) < 0.05], land[100:140, 7:20] = np.nan, np.nan
    warm = write_raster(
        folder / "warm.tif",
        rng.gamma(2, 9, (70, 40)).astype(np.float32),
        transform=Affine(9000, 0, 3.2e6, 0, -21000, 1.2e6),
        crs="EPSG:3857",
    )
    shapes = [Point(31, 8).buffer(1.2), box(30.1, -1.7, 32.3, 5.03), box(31.01, 3.3, 32.1, 8.2)]
    return Data(
        polygons=write_polygons(folder / "districts.gpkg", districts(shapes, "abc", (3.0, 8.0, 41.0))),
        id="name",
        response=("cases",),
        population=write_raster(folder / "people.tif", rng.gamma(0.5, 90, shape).astype(np.float32), TRANSFORM),
        covariate=(write_raster(folder / "rain.tif", rain.astype(np.float32), TRANSFORM), warm),
        category=(write_raster(folder / "land.tif", land.astype(np.float32), TRANSFORM),),
        population_is="counts",
    )


def prepared(data, folder, **more):
    """What `prepare` makes of them."""
    return geo.prepare(
        data.polygons,
        data.id,
        data.response,
        data.population,
        data.covariate,
        categories=data.category,
        population_is=data.population_is,
        folder=folder,
        **more,
    )
