"""Rows of the grid, found one band at a time: which polygons cover their cells, and what rasters hold there.

A band needs nothing of other bands, so that workers can find several at once. What goes wrong with a raster comes back
as a result: whoever asked decides what becomes of it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from vbagg.geo.align import Alignment, align_population
from vbagg.geo.bands import kept_open
from vbagg.geo.covariates import Covariate, align, masked_near
from vbagg.geo.files import is_local
from vbagg.geo.grid import Grid
from vbagg.geo.overlay import Overlay
from vbagg.geo.population import Reading, read_population_as
from vbagg.geo.rasters import Layer
from vbagg.geo.stack import Planes
from vbagg.held import Held, itself

PAIR = np.dtype([("polygon", np.int32), ("cell", np.int64), ("coverage", np.float64)])

T = TypeVar("T")
Attempt = Callable[[str, str, Callable[[], T]], T | None]
"""Does some reading, given a word for what may be wrong and the file's name; None if it went wrong."""


def plainly(code: str, where: str, work: Callable[[], T]) -> T:
    """An attempt whose errors are the caller's."""
    return work()


@dataclass(frozen=True)
class LaidRaster:
    """A covariate that lies on the grid, and whether its numbers are classes."""

    alignment: Alignment
    is_category: bool


class Found(NamedTuple):
    """Some rows of the grid."""

    rows: slice
    pairs: NDArray[Any]
    """Each polygon and cell that meet, sorted by both; see `PAIR`."""
    n_cells: int
    """Number of cells under any polygon."""
    planes: list[Planes | Exception]
    """Of each raster, or why it could not be read; the area of cells as the last if it was asked for."""


@dataclass(frozen=True, eq=False)
class Survey:
    """Polygons and rasters of which rows of the grid can be asked, and whether to tell the area of cells."""

    overlay: Overlay
    alignments: tuple[Alignment, ...]
    with_area: bool

    @classmethod
    def of(cls, overlay: Overlay, alignments: Iterable[Alignment], with_area: bool) -> Survey:
        """For workers anywhere on this machine, or on others that have the same files."""
        seen = tuple(replace(one, layer=_from_anywhere(one.layer)) for one in alignments)
        return cls(overlay, seen, with_area)

    def in_order(self, bands: Sequence[slice], places: Held[Any]) -> Iterator[Found]:
        """What there is in each band, found at places that keep the survey meanwhile."""
        return places.hold([self]).made(itself).in_order(Survey.found, bands)

    def found(self, rows: slice) -> Found:
        """What there is in some rows."""
        pairs = self.overlay.pairs(rows)
        with kept_open():
            planes: list[Planes | Exception] = [outcome(one.read, rows) for one in self.alignments]
        if self.with_area:
            planes.append(self.overlay.grid.areas(rows)[None].astype(np.float32))
        return Found(rows, pairs.to_records(index=False).astype(PAIR), pairs["cell"].nunique(), planes)


def outcome(work: Callable[..., T], *arguments: Any) -> T | Exception:
    """Result of some work, or the error that ended it."""
    try:
        return work(*arguments)
    except Exception as error:
        return error


def result_of(found: T | Exception) -> T:
    """The result, or the error again."""
    if isinstance(found, Exception):
        raise found
    return found


def _outcomes(places: Held[Any], work: Sequence[Callable[[], T]]) -> Iterator[T | Exception]:
    """Of some pieces of work, in order."""
    return places.hold([None]).in_order(_outcome_here, work)


def _outcome_here(nothing: None, work: Callable[[], T]) -> T | Exception:
    with kept_open():
        return outcome(work)


@dataclass
class Reader:
    """What becomes of one raster, band by band: it is without a value from the first band on that cannot be read."""

    code: str
    alignment: Alignment
    attempt: Attempt[Any]
    failed: bool = False

    def take(self, found: Planes | Exception, rows: slice) -> Planes:
        """Planes of a band."""
        one = self.alignment
        planes = None if self.failed else self.attempt(self.code, one.layer.file, lambda: result_of(found))
        if planes is None:
            self.failed = True
            return np.full((len(one.names), rows.stop - rows.start, one.grid.width), np.nan, dtype=np.float32)
        return planes


def open_all(
    covariates: Sequence[Covariate],
    people: Layer | None,
    grid: Grid,
    population_is: str,
    totals: Sequence[float],
    attempt: Attempt[Any],
    places: Held[Any],
    code: str = "covariate-file",
) -> tuple[list[LaidRaster], tuple[Alignment, Reading] | None]:
    """How each raster comes to the grid, as far as it can be read: for codes and classes all of it near the grid is."""
    work: list[Callable[[], Any]] = [
        partial(align, replace(one, layer=_from_anywhere(one.layer)), grid) for one in covariates
    ]
    if people is not None:
        work.append(partial(_population, _from_anywhere(people), grid, population_is, totals))
    results = _outcomes(places, work)
    rasters: list[LaidRaster] = []
    for covariate, found in zip(covariates, results, strict=False):
        aligned = attempt(code, covariate.layer.file, partial(result_of, found))
        if aligned is not None:
            rasters.append(LaidRaster(_as_named(aligned, covariate.layer), covariate.is_category))
    if people is None:
        return rasters, None
    read = attempt("population-file", people.file, partial(result_of, next(results)))
    return rasters, None if read is None else (_as_named(read[0], people), read[1])


def _as_named(alignment: Alignment, layer: Layer) -> Alignment:
    """The alignment of a layer whose file is called as the user called it."""
    return replace(alignment, layer=replace(alignment.layer, source=layer.source))


def _population(people: Layer, grid: Grid, population_is: str, totals: Sequence[float]) -> tuple[Alignment, Reading]:
    layer = masked_near(people, grid)
    reading = read_population_as(layer, grid, population_is, totals)
    return replace(align_population(layer, grid, reading.density), names=("population",)), reading


def _from_anywhere(layer: Layer) -> Layer:
    """The same layer, whose file is found from any folder."""
    source: Any = layer.source
    return replace(layer, source=replace(source, path=os.path.abspath(layer.path))) if is_local(layer.path) else layer
