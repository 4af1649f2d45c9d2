"""What a fit will take, roughly: formulas with constants measured for the default model on a 2-core machine.

With `b` polygons, `n` pixels and `m` features (landmarks of places and of covariates, covariates, a constant), the
search for parameters sees at most 32 pixels of each polygon, and the last steps see all. CPU seconds are about::

    COMPILATION + SEARCH min(n, 32 b) m^2 + FINAL n m^2

and bytes are those of the libraries, the table, the features at work on one chunk of polygons, the features kept, and
what is worked out for each polygon::

    LIBRARIES + COLUMN n (covariates + 6) + min(WORK, 32 n m) + min(KEPT, 6 n m) + 5 b m^2

| polygons | pixels | features | CPU seconds: measured, formula | GB: measured, formula |
|---|---|---|---|---|
| 40 | 2,500 | 204 | 21, 20 | 0.8, 0.9 |
| 109 | 30,000 | 404 | 37, 37 | 1.2, 1.3 |
| 300 | 30,000 | 404 | 57, 60 | 1.3, 1.4 |
| 300 | 200,000 | 404 | 83, 88 | 1.6, 1.9 |
| 1,000 | 60,000 | 404 | 125, 149 | 2.3, 2.1 |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vbagg.doctor.overlaid import Overlaid
from vbagg.landmarks import default_number

if TYPE_CHECKING:
    from vbagg.workflow.settings import Model

COMPILATION = 19.0
SEARCH = 2.3e-8
FINAL = 1e-9
SEEN = 32
LIBRARIES = 0.85e9
COLUMN = 24
WORK = 0.25e9
KEPT = 2e9


def expected_cost(laid: Overlaid, model: Model | None) -> dict[str, Any]:
    """Landmarks, CPU seconds and bytes of one fit, good to a factor of two or so."""
    polygons, pixels = int(np.count_nonzero(laid.totals)), int(np.count_nonzero(laid.weight))
    cells = int(np.count_nonzero(laid.inhabited))
    covariates = sum(raster.values.shape[1] for raster in laid.rasters)
    sets = [2, *([covariates] if covariates else [])]
    chosen = None if model is None else model.landmarks
    each = [default_number(cells, columns, polygons) if chosen is None else min(chosen, cells) for columns in sets]
    landmarks = sum(each)
    features = landmarks + covariates + 1
    seconds = COMPILATION + features**2 * (SEARCH * min(pixels, SEEN * polygons) + FINAL * pixels)
    numbers = pixels * features
    size = LIBRARIES + COLUMN * pixels * (covariates + 6) + min(WORK, 32 * numbers) + min(KEPT, 6 * numbers)
    size += 5 * polygons * features**2
    return {"landmarks": landmarks, "cpu_seconds": seconds, "bytes": size}
