"""Data sets on disk: malaria in Madagascar and the elevators regression.

They are read from ``$VBAGG_DATA/<name>`` or from a folder that you name.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vbagg.datasets.aggregate import PARTS, AggregateData, Floats, Integers, draw_sizes, require_size_law

if TYPE_CHECKING:
    import pandas as pd

    from vbagg.bags import Bags

EARTH_RADIUS_KM = 6371.0072  # sphere with the area of the WGS 84 ellipsoid

ELEVATORS_FEATURES = [
    "climbRate",
    "Sgz",
    "p",
    "q",
    "curRoll",
    "absRoll",
    "diffClb",
    "diffRollRate",
    "diffDiffClb",
    "SaTime1",
    "SaTime2",
    "SaTime3",
    "SaTime4",
    "diffSaTime1",
    "diffSaTime2",
    "diffSaTime3",
    "diffSaTime4",
    "Sa",
]
GOAL_RANGE = (0.012, 0.078)  # of the raw label; y01 is 0 and 1 at its ends

_REPOSITORY = Path(__file__).resolve().parents[3]


@dataclass(frozen=True, eq=False)
class Madagascar:
    """Malaria in the 109 districts of Madagascar, 2016, with pixels of 1/24 degree.

    Attributes
    ----------
    bags
        Pixels by district (label ``ID_2``) weighted by population. Columns: ``x`` and ``y`` in equal-area
        kilometres, and the standardised covariates ``Elevation``, ``EVI`` and ``LSTmean``.
    cases
        Cases of each district, in the order of ``bags.labels``. Real-valued: not every count is an integer.
    population
        Total population of each district.
    folds
        Fold 1 to 5 of each district, for cross-validation.
    names
        Name of each district.
    """

    bags: Bags
    cases: Floats
    population: Floats
    folds: NDArray[np.int64]
    names: NDArray[Any]


@dataclass(frozen=True, eq=False)
class Elevators:
    """F16 elevator control: 16,599 individuals without bags; ``y01`` is the label scaled to [0, 1]."""

    X: pd.DataFrame
    y01: Floats


def madagascar(path: str | os.PathLike[str] | None = None) -> Madagascar:
    """Malaria cases of Madagascar's districts, read from the folder ``madagascar_malaria``.

    311 pixels have no population and one holds 448,572 people; the smallest district has a single pixel.
    """
    import pandas as pd

    from vbagg.bags import Bags

    files = ("pixels.csv", "districts.csv", "cv_folds_seed0.csv")
    folder = _folder("madagascar_malaria", files, path)
    pixels, districts, folds = (pd.read_csv(folder / file) for file in files)
    x, y = _equal_area_km(pixels["longitude"], pixels["latitude"], weight=pixels["pop"])
    X = pd.DataFrame({"x": x, "y": y}).join(pixels[["Elevation", "EVI", "LSTmean"]])
    bags = Bags(X, pixels["ID_2"].to_numpy(), weight=pixels["pop"].to_numpy())

    for file, frame in zip(files[1:], (districts, folds), strict=True):
        if sorted(frame["ID_2"]) != sorted(bags.labels):
            raise ValueError(f"{file} must list each district (ID_2) of {files[0]} once. Restore {folder}.")
    by_district = districts.merge(folds, on="ID_2").set_index("ID_2").loc[list(bags.labels)]
    return Madagascar(
        bags=bags,
        cases=by_district["cases"].to_numpy(dtype=float),
        population=bags.totals(),
        folds=by_district["fold"].to_numpy(dtype=np.int64),
        names=by_district["Name_2"].to_numpy(dtype=object),
    )


def elevators(path: str | os.PathLike[str] | None = None, download: bool = False) -> Elevators:
    """Elevators data, read from the folder ``elevators``, without the almost empty column ``diffSaTime2``.

    Parameters
    ----------
    path
        Folder with ``data.csv``, instead of the usual ones.
    download
        Fetch the data from OpenML (number 216) when no folder has them and none is named.
    """
    import pandas as pd

    try:
        frame = pd.read_csv(_folder("elevators", ("data.csv",), path) / "data.csv")
    except FileNotFoundError as error:
        if path is not None or not download:
            raise FileNotFoundError(f"{error} Without `path=`, `download=True` fetches it from OpenML.") from None
        frame = _elevators_of_openml()
    X = frame.drop(columns=["diffSaTime2", "Goal", "y01"])
    return Elevators(X, y01=frame["y01"].to_numpy(dtype=float))


def _elevators_of_openml() -> pd.DataFrame:
    """Fetch the table of ``data.csv``: its columns in its order, whatever the case of their names."""
    from sklearn.datasets import fetch_openml

    fetched = fetch_openml(name="elevators", version=1, as_frame=True).frame
    fetched = fetched.rename(columns=str.lower)
    missing = [name for name in (*ELEVATORS_FEATURES, "Goal") if name.lower() not in fetched]
    if missing:
        raise ValueError(f"OpenML's elevators must have the columns of data.csv; {', '.join(missing)} not found.")
    frame = fetched[[name.lower() for name in (*ELEVATORS_FEATURES, "Goal")]].astype(float)
    frame.columns = [*ELEVATORS_FEATURES, "Goal"]
    lowest, highest = GOAL_RANGE
    return frame.assign(y01=(frame["Goal"] - lowest) / (highest - lowest))


def elevators_parts(
    seed: int = 0,
    mean_size: float = 30,
    std_size: float = 15,
    path: str | os.PathLike[str] | None = None,
    download: bool = False,
) -> dict[str, AggregateData]:
    """The paper's elevators experiment: four parts by name, of 70, 10, 10 and 10 % of the individuals.

    The individuals of a part are ordered by ``diffRollRate``, equal ones at random, and cut in this order into
    bags until none is left; the last bag keeps what remains, so that every individual has a bag. The total of a
    bag is the sum of its ``y01``. The true means are unknown: ``rate`` is None. Columns that are constant in the
    training part, as one of three odd values among 16,599 can be, are left out of all parts.

    The default sizes are those that the paper states. ``mean_size=50, std_size=25`` gives the number of bags that
    it reports, about 225 for training and 33 in each other part.

    Parameters
    ----------
    seed
        Seed of the division into parts and of the bag sizes.
    mean_size, std_size
        Bag sizes are one plus a negative binomial, with this mean and standard deviation.
    path, download
        As for :func:`elevators`.
    """
    from vbagg.bags import Bags

    require_size_law(mean_size, std_size)
    data = elevators(path, download)
    random = np.random.default_rng(seed)
    individuals = random.permutation(len(data.y01))
    ends = np.rint(np.cumsum([0.7, 0.1, 0.1]) * individuals.size).astype(int)
    rows_by_part = dict(zip(PARTS, np.split(individuals, ends), strict=True))
    train = data.X.iloc[rows_by_part["train"]]
    varying = train.columns[train.nunique() > 1]
    centre, spread = train[varying].mean(), train[varying].std(ddof=0)

    parts = {}
    for part, rows in rows_by_part.items():
        rows = rows[np.argsort(data.X["diffRollRate"].to_numpy()[rows], kind="stable")]
        starts = _bag_starts(random, rows.size, mean_size, std_size)
        bag = np.repeat(np.arange(starts.size), np.diff(starts, append=rows.size))
        individual_y = data.y01[rows]
        bags = Bags((data.X[varying].iloc[rows] - centre) / spread, bag)
        parts[part] = AggregateData(bags, np.add.reduceat(individual_y, starts), None, individual_y)
    return parts


def _bag_starts(random: np.random.Generator, n: int, mean_size: float, std_size: float) -> Integers:
    """Return the first row of each bag when ``n`` rows are cut into bags of random sizes, in order."""
    starts = np.zeros(1, dtype=np.int64)
    while starts[-1] < n:
        sizes = draw_sizes(random, 1 + int(n / mean_size), mean_size, std_size)
        starts = np.append(starts, starts[-1] + np.cumsum(sizes))
    return starts[starts < n]


def _folder(name: str, files: Iterable[str], path: str | os.PathLike[str] | None) -> Path:
    """Return the first folder with all ``files``: ``path`` alone if given, else the usual places in turn."""
    if path is not None:
        candidates = [Path(path)]
    else:
        roots = [Path.cwd() / "../shared/data", _REPOSITORY / "../shared/data"]
        if configured := os.environ.get("VBAGG_DATA"):
            roots.insert(0, Path(configured))
        candidates = list(dict.fromkeys((root / name).resolve() for root in roots))
    for folder in candidates:
        if all((folder / file).is_file() for file in files):
            return folder
    raise FileNotFoundError(
        f"Data set {name!r} needs {', '.join(files)} in one folder; tried {', '.join(map(str, candidates))}. "
        f"Set the environment variable VBAGG_DATA to the folder that contains {name}/, or pass `path=`."
    )


def _equal_area_km(longitude: Any, latitude: Any, weight: Any) -> tuple[Floats, Floats]:
    """Lambert's azimuthal equal-area projection of degrees on the sphere, centred on the weighted mean."""
    lon, lat = np.radians(np.asarray(longitude, float)), np.radians(np.asarray(latitude, float))
    lon0, lat0 = np.average(lon, weights=weight), np.average(lat, weights=weight)
    east, north = np.cos(lat) * np.sin(lon - lon0), np.sin(lat)
    towards = np.cos(lat) * np.cos(lon - lon0)
    cos_angle = np.sin(lat0) * north + np.cos(lat0) * towards
    scale = EARTH_RADIUS_KM * np.sqrt(2 / (1 + cos_angle))
    return scale * east, scale * (np.cos(lat0) * north - np.sin(lat0) * towards)
