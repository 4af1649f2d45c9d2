"""Peers that know places and totals but no covariates: tobler's areal interpolation, pyinterpolate's kriging.

Cells are polygons: a London LSOA has the places inside its MSOA that are nearest to its centre, a pixel those within
its square; a bag is the union of its cells.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from peers_data import Task
from peers_scores import Prediction

CRS = "EPSG:3857"
"""Any plane will do: coordinates are in km."""
POINTS = 10
"""Most points of a bag for kriging, which compares all pairs of points of neighbours."""
NEIGHBOURS, TRIED = (4, 8), 15
MOST_DECONVOLVED = 150
DRAWS = 300


def places(task: Task) -> np.ndarray:
    """Coordinates (n, 2) of individuals in km."""
    return task.bags.X[:, list(task.bags.coordinates)]


def cells(task: Task) -> np.ndarray:
    """Polygon of each individual."""
    import geopandas
    import shapely

    at = places(task)
    if task.outline is None:
        nearest = shapely.voronoi_polygons(shapely.MultiPoint(at), ordered=True)
        squares = shapely.buffer(shapely.points(at), spacing(at) / 2, cap_style="square")
        return shapely.intersection(np.array(nearest.geoms), squares)
    outlines = geopandas.read_file(task.polygons).set_index("MSOA11CD").geometry
    found = np.empty(len(at), dtype=object)
    for name in np.unique(task.outline):
        rows = np.flatnonzero(task.outline == name)
        whole = shapely.transform(outlines[name], lambda xy: xy / 1000)
        if len(rows) == 1:
            found[rows] = whole
            continue
        nearest = shapely.voronoi_polygons(shapely.MultiPoint(at[rows]), ordered=True, extend_to=whole.envelope)
        found[rows] = shapely.intersection(np.array(nearest.geoms), whole)
    return found


def spacing(at: np.ndarray) -> float:
    """Usual distance to the nearest neighbour."""
    from scipy.spatial import cKDTree

    return float(np.median(cKDTree(at).query(at, k=2)[0][:, 1]))


def frames(task: Task) -> tuple[Any, Any]:
    """Cells, and bags with their totals and rates, as data frames of polygons."""
    import geopandas
    import shapely

    own = cells(task)
    unions = [shapely.union_all(own[task.bags.bag == a]) for a in range(len(task.bags))]
    values = {"y": task.y, "rate": task.bag_rate}
    return geopandas.GeoDataFrame(geometry=own, crs=CRS), geopandas.GeoDataFrame(values, geometry=unions, crs=CRS)


def area_weighted(known: Task, asked: Task, settings: dict[str, Any]) -> Prediction:
    """Totals shared out by area, whoever lives there."""
    from tobler.area_weighted import area_interpolate

    small, large = frames(known)
    found = area_interpolate(large, small, extensive_variables=["y"], n_jobs=1)
    return Prediction(found["y"].to_numpy() / known.bags.weight)


def pycnophylactic(known: Task, asked: Task, settings: dict[str, Any]) -> Prediction:
    """A smooth map of rates whose mean over each bag's area is the bag's rate, read at the places of individuals."""
    from tobler.pycno.pycno import pycno

    large, at = frames(known)[1], places(known)
    side = spacing(at) if known.outline is None else np.sqrt(large.area.sum() / 40_000)
    burnt = large.assign(amount=large["rate"] * large.area / side**2 * 1e6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        surface, transform, _ = pycno(burnt, "amount", side, handle_null=False, verbose=False)
    column, row = _pixel(transform, at)
    inside = np.clip(row, 0, surface.shape[0] - 1), np.clip(column, 0, surface.shape[1] - 1)
    rate = surface[inside] / 1e6
    return Prediction(np.where(np.isfinite(rate), rate, known.bag_rate[known.bags.bag]))


def _pixel(transform: Any, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Column and row of the surface that hold each place."""
    column = (at[:, 0] - transform.c) / transform.a
    row = (at[:, 1] - transform.f) / transform.e
    return column.astype(int), row.astype(int)


def supports(task: Task, own: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A few places, inside the cells `own`, that stand for the people of each bag; which of them, by individual."""
    import shapely
    from sklearn.cluster import KMeans

    at, weight = places(task), task.bags.weight
    chosen, point = [], np.empty(len(at), dtype=int)
    for a in range(len(task.bags)):
        rows = np.flatnonzero(task.bags.bag == a)
        few = KMeans(min(POINTS, len(rows)), n_init=1, random_state=0).fit(at[rows], sample_weight=weight[rows])
        labels, group = np.unique(few.labels_, return_inverse=True)
        middle = few.transform(at[rows])[:, labels].argmin(axis=0)
        point[rows] = len(chosen) + group
        chosen += rows[middle].tolist()
    return shapely.get_coordinates(shapely.point_on_surface(own[chosen])), point


def variogram(blocks: Any, support: Any, reach: float) -> Any:
    """Of points, by deconvolution; of more than `MOST_DECONVOLVED` bags that of the bags, since it takes all pairs."""
    from pyinterpolate import Deconvolution, ExperimentalVariogram, TheoreticalVariogram

    if len(blocks.ds) > MOST_DECONVOLVED:
        found = ExperimentalVariogram(blocks.representative_points_array(), step_size=reach / 20, max_range=reach / 2)
        model = TheoreticalVariogram()
        model.autofit(found)
        return model
    deconvolution = Deconvolution(verbose=False)
    deconvolution.fit_transform(blocks, support, step_size=reach / 20, max_range=reach / 2, max_iters=5)
    return deconvolution.final_theoretical_model


def kriging(known: Task, asked: Task, settings: dict[str, Any]) -> Prediction:
    """Area-to-point Poisson kriging: rates at a bag's points from the rates of other bags near by.

    The package predicts a bag as if its own rate were unknown, so that the number of neighbours is chosen by how well
    some of the bags are predicted. Rates are per 100,000, as in its examples: it adds the mean rate to variances.
    """
    import geopandas
    import shapely
    from pyinterpolate import Blocks, PointSupport, area_to_point_pk
    from scipy.spatial import cKDTree

    small, large = frames(known)
    at, point = supports(known, small.geometry.to_numpy())
    large = large.assign(bag=np.arange(len(large)), value=1e5 * large["rate"])
    blocks = Blocks(large[["bag", "value", "geometry"]], value_column_name="value", index_column_name="bag")
    people = {"people": np.bincount(point, known.bags.weight)}
    points = geopandas.GeoDataFrame(people, geometry=shapely.points(at), crs=CRS)
    names = {"points_value_column": "people", "points_geometry_column": "geometry"}
    support = PointSupport(blocks, points, verbose=False, **names)
    model = variogram(blocks, support, float(np.hypot(*np.ptp(at, axis=0))))

    def of_bag(bag: int, neighbours: int) -> np.ndarray:
        """Columns x, y, rate and sd of the points of a bag; negative rates are none, impossible sds unknown."""
        share = support.get_points_array(block_id=bag)[:, 2]
        found = area_to_point_pk(model, support, bag, neighbours, raise_when_negative_prediction=False)[bag].astype(
            float
        )
        found[:, 2] = np.clip(found[:, 2] * share.sum() / share, 0, None) / 1e5
        found[:, 3] /= 1e5
        return np.column_stack([found, share])

    def miss(neighbours: int) -> float:
        rows = [(a, of_bag(a, neighbours)) for a in tried]
        return sum((np.average(found[:, 2], weights=found[:, 4]) - known.bag_rate[a]) ** 2 for a, found in rows)

    tried = np.random.default_rng(0).permutation(len(large))[:TRIED]
    neighbours = min((k for k in NEIGHBOURS if k < len(large)), key=miss)
    found = np.concatenate([of_bag(a, neighbours) for a in range(len(large))])
    place = cKDTree(found[:, :2]).query(at[point])[1]
    rate, sd = found[place, 2], found[place, 3]
    sd = np.where(np.isfinite(sd), sd, np.nanmedian(sd))
    draws = rate + sd * np.random.default_rng(0).standard_normal((DRAWS, len(rate)))
    return Prediction(rate, known.observed(np.clip(draws, 0, None)))
