"""Maps of one model beside those of another on the same cells: their ratio, and how wide intervals are."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import rasterio

from vbagg.geo.bands import opened
from vbagg.geo.cog import Description, RowWriter
from vbagg.geo.files import appearing
from vbagg.geo.grid import Floats, Grid

RATIO = "rate_ratio"
CELLS_PER_BAND = 1 << 20


@dataclass(frozen=True)
class Change:
    """What sets maps apart from those of another model, over cells counted by their exposure.

    Attributes
    ----------
    rate, other_rate
        Mean rates.
    width, other_width
        Mean widths of the intervals of rates.
    factor
        Typical factor between rates: the exponential of the mean distance of their logarithms.
    """

    rate: float
    other_rate: float
    width: float
    other_width: float
    factor: float

    def document(self) -> dict[str, float]:
        """Fit for JSON."""
        return asdict(self)


def write_ratio(maps: Path, others: Path, exposure: str, title: str) -> Change:
    """Write the ratio of the rates of two folders of maps into the first, and sum up what sets them apart."""
    names = ("rate_mean", "rate_interval_width")
    with opened(str(maps / "rate_mean.tif")) as dataset:
        grid, tags = Grid.of(dataset), dataset.tags()
    description = Description(title, "ratio", {"map": RATIO, "response": tags["response"]})
    sums, weight = np.zeros(5), 0.0
    with appearing(maps / f"{RATIO}.tif") as part, RowWriter(maps, grid) as writer:
        writer.add(part.stem, description)
        for rows in grid.bands(CELLS_PER_BAND):
            own, its = (np.stack([_rows(folder, name, rows) for name in names]) for folder in (maps, others))
            people = np.nan_to_num(_rows(maps, exposure, rows))
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio = own[0] / its[0]
                distance = np.abs(np.log(ratio))
            counted = np.isfinite(distance) & (people > 0)
            for at, values in enumerate((own[0], its[0], own[1], its[1], distance)):
                sums[at] += float(np.sum(people[counted] * values[counted]))
            weight += float(people[counted].sum())
            writer.write(part.stem, rows, ratio.astype(np.float32))
        writer.finish()
    rate, other_rate, width, other_width, distance = (sums / max(weight, 1e-300)).tolist()
    return Change(rate, other_rate, width, other_width, float(np.exp(distance)))


def _rows(folder: Path, name: str, rows: slice) -> Floats:
    with opened(str(folder / f"{name}.tif")) as dataset:
        window = rasterio.windows.Window(0, rows.start, dataset.width, rows.stop - rows.start)
        return dataset.read(1, window=window).astype(np.float64)
