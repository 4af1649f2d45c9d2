"""How far an estimate is from the known truth of a simulated country."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Distance:
    """Scores of rates of cells against the truth, each cell counted by its people.

    Attributes
    ----------
    cells
        Cells compared.
    factor
        Typical factor by which the estimate is off: the exponential of the mean distance of log rates.
    constant_factor
        The same for the observed rate of the district.
    correlation, constant_correlation
        Of log rates.
    covered, level
        Share of people whose true rate lies inside the interval, and the interval's level.
    """

    cells: int
    factor: float
    constant_factor: float
    correlation: float
    constant_correlation: float
    covered: float
    level: float

    def lines(self) -> list[str]:
        """In words."""
        return [
            f"Against the true rates of {self.cells:,} cells, weighted by people:",
            f"  typical factor off      {self.factor:5.2f}   (district rates: {self.constant_factor:.2f})",
            f"  correlation of logs     {self.correlation:5.2f}   (district rates: {self.constant_correlation:.2f})",
            f"  inside {100 * self.level:g}% intervals  {100 * self.covered:5.1f}%",
        ]


def distance_from_truth(maps: Path, truth: Path, per: float, level: float) -> Distance:
    """Compare the maps of a run with a raster of true rates per person on the same grid."""
    import geopandas as gpd

    from vbagg.geo.display import burnt, display_frame, shown

    frame = display_frame(maps / "rate_mean.tif")

    def read(path: Path) -> Floats:
        return shown(path, frame)[0].astype(np.float64)

    ends = [read(maps / f"rate_q{q:.6g}.tif") / per for q in ((1 - level) / 2, (1 + level) / 2)]
    mean, people, true = read(maps / "rate_mean.tif") / per, read(maps / "population.tif"), read(truth)
    district = burnt(gpd.read_file(maps / "polygons.gpkg"), "observed_rate", frame).astype(np.float64) / per
    known = np.isfinite(mean) & np.isfinite(true) & np.isfinite(district) & (people > 0) & (true > 0)
    weight = people[known] / people[known].sum()
    log_true = np.log(true[known])
    log_mean, log_district = (np.log(np.maximum(values[known], 1e-7)) for values in (mean, district))
    inside = (ends[0] <= true) & (true <= ends[1])
    return Distance(
        int(known.sum()),
        _factor(log_mean - log_true, weight),
        _factor(log_district - log_true, weight),
        _correlation(log_mean, log_true, weight),
        _correlation(log_district, log_true, weight),
        float(weight @ inside[known]),
        level,
    )


def _factor(difference: Floats, weight: Floats) -> float:
    return float(np.exp(weight @ np.abs(difference)))


def _correlation(a: Floats, b: Floats, weight: Floats) -> float:
    a, b = a - weight @ a, b - weight @ b
    return float(weight @ (a * b) / np.sqrt((weight @ a**2) * (weight @ b**2)))
