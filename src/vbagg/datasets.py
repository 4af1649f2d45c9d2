"""Data to try the models on: the paper's swiss roll, malaria in Madagascar, and the elevators regression.

The swiss roll is simulated. The others are read from ``$VBAGG_DATA/<name>`` or from a folder that you name.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vbagg.errors import unknown_name

if TYPE_CHECKING:
    import pandas as pd

    from vbagg.bags import Bags

Floats = NDArray[np.float64]

PARTS = ("train", "early_stop", "validation", "test")

EARTH_RADIUS_KM = 6371.0072  # sphere with the area of the WGS 84 ellipsoid

_REPOSITORY = Path(__file__).resolve().parents[2]


# Swiss roll


@dataclass(frozen=True, eq=False)
class AggregateData:
    """Bags with their totals, and the truth about individuals that a model must not see.

    Attributes
    ----------
    bags
        Individuals in bags, all weights one.
    y
        Observed total of each bag.
    rate
        True mean of each individual, in the order of ``bags.X``.
    individual_y
        Output of each individual, whose sums are ``y``.
    """

    bags: Bags
    y: Floats
    rate: Floats
    individual_y: Floats


def swiss_roll(
    n_bags: int = 150,
    mean_size: float = 150,
    std_size: float = 50,
    seed: int = 0,
    likelihood: str = "poisson",
    part: str = "train",
    rate_scale: float = 1.0,
    test_bags: int = 500,
) -> AggregateData:
    """One part of the paper's swiss roll experiment, equal to the authors' data for equal seeds.

    Points of a roll, rotated into 18 dimensions, are cut into bags along one axis of the roll. The angle
    ``t`` of an individual sets its rate: Poisson counts of mean ``rate_scale * t / 2``, or normal outputs of
    variance 0.01 whose mean runs from 0 to 1 along the roll.

    Parameters
    ----------
    n_bags
        Number of bags of every part but the test part, which has ``test_bags``.
    mean_size, std_size
        Bag sizes are one plus a negative binomial, with this mean and standard deviation.
    seed
        Seed of the experiment; the four parts draw independently from seeds derived from it.
    likelihood
        ``"poisson"`` or ``"normal"``.
    part
        ``"train"``, ``"early_stop"``, ``"validation"`` or ``"test"``. Each is standardised by the train part.
    rate_scale
        Factor on the Poisson rate; small values make low counts.
    test_bags
        Number of bags of the test part.
    """
    if part not in PARTS:
        raise unknown_name("part", part, PARTS)
    draw = _RollDraw(n_bags, test_bags, mean_size, std_size, seed, likelihood, rate_scale)
    return draw.standardised([part])[part]


def swiss_roll_parts(
    n_bags: int = 150,
    mean_size: float = 150,
    std_size: float = 50,
    seed: int = 0,
    likelihood: str = "poisson",
    rate_scale: float = 1.0,
    test_bags: int = 500,
) -> dict[str, AggregateData]:
    """All four parts of :func:`swiss_roll` by name, standardised by the train part."""
    return _RollDraw(n_bags, test_bags, mean_size, std_size, seed, likelihood, rate_scale).standardised(PARTS)


@dataclass(frozen=True)
class _RollDraw:
    n_bags: int
    test_bags: int
    mean_size: float
    std_size: float
    seed: int
    likelihood: str
    rate_scale: float

    def __post_init__(self) -> None:
        if self.likelihood not in ("poisson", "normal"):
            raise unknown_name("likelihood", self.likelihood, ("poisson", "normal"))
        for name in ("n_bags", "test_bags", "rate_scale"):
            if not getattr(self, name) > 0:
                raise ValueError(f"`{name}` must be positive; got {getattr(self, name)}.")
        if self.likelihood == "normal" and self.rate_scale != 1:
            raise ValueError(f"`rate_scale` scales Poisson rates only; got {self.rate_scale} with 'normal'.")
        if not 1 < self.mean_size < 1 + self.std_size**2:
            raise ValueError(
                f"Bag sizes need 1 < mean_size < 1 + std_size^2; got mean_size={self.mean_size}, "
                f"std_size={self.std_size}. Raise `std_size`."
            )

    def standardised(self, parts: Iterable[str]) -> dict[str, AggregateData]:
        from vbagg.bags import Bags

        raw = {part: self._raw(part) for part in {"train", *parts}}
        centre, spread = raw["train"][0].mean(axis=0), raw["train"][0].std(axis=0)
        result = {}
        for part in parts:
            X, sizes, rate, individual_y = raw[part]
            bag = np.repeat(np.arange(len(sizes)), sizes)
            y = np.add.reduceat(individual_y, np.cumsum(sizes) - sizes)
            result[part] = AggregateData(Bags((X - centre) / spread, bag), y, rate, individual_y)
        return result

    def _raw(self, part: str) -> tuple[Floats, NDArray[np.int64], Floats, Floats]:
        """Features, bag sizes, rates and outputs, drawn in the authors' order: sizes, roll, outputs."""
        from sklearn.datasets import make_swiss_roll

        part_seeds = np.random.RandomState(self.seed).randint(2**32, size=len(PARTS), dtype=np.int64)
        random = np.random.RandomState(part_seeds[PARTS.index(part)])
        sizes = self._sizes(random, self.test_bags if part == "test" else self.n_bags)
        roll, angle = make_swiss_roll(sizes.sum(), noise=0.0, random_state=random)
        downwards = np.argsort(roll[:, 2])[::-1]
        roll, angle = roll[downwards], angle[downwards]
        if self.likelihood == "poisson":
            rate = self.rate_scale * (0.5 * angle)
            individual_y = random.poisson(rate).astype(float)
        else:
            rate = (angle - 4.7124) / (14.137 - 4.7124)  # 1.5 pi to 4.5 pi, rounded as by the authors
            individual_y = random.normal(rate, scale=0.1)
        return _embed(roll), sizes, rate, individual_y

    def _sizes(self, random: np.random.RandomState, n_bags: int) -> NDArray[np.int64]:
        """Draw 1 + negative binomial; its mean is r p / (1 - p), its variance r p / (1 - p)^2."""
        from scipy.stats import nbinom

        p = 1 - (self.mean_size - 1) / self.std_size**2
        r = (self.mean_size - 1) * (1 - p) / p
        return 1 + nbinom.rvs(r, 1 - p, size=n_bags, random_state=random)  # scipy's p is 1 - p


def _embed(roll: Floats, dimension: int = 18) -> Floats:
    """Rotate the roll into ``dimension`` columns by a fixed orthogonal matrix."""
    uniform = np.random.RandomState(23).uniform(0, 2, (dimension, dimension))
    rotation = np.linalg.qr(uniform).Q
    return roll @ rotation[: roll.shape[1]]


# Data sets on disk


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


def elevators(path: str | os.PathLike[str] | None = None) -> Elevators:
    """Elevators data, read from the folder ``elevators``, without the almost empty column ``diffSaTime2``."""
    import pandas as pd

    frame = pd.read_csv(_folder("elevators", ("data.csv",), path) / "data.csv")
    X = frame.drop(columns=["diffSaTime2", "Goal", "y01"])
    return Elevators(X, y01=frame["y01"].to_numpy(dtype=float))


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
