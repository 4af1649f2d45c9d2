"""Whether the files of prepared data are what they should be, and agree with each other.

They are checked however they came about: whoever has a folder of prepared data may have copied, mixed or made it up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import shapely
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError

from vbagg.errors import did_you_mean
from vbagg.geo import target
from vbagg.geo.described import Described
from vbagg.geo.grid import Floats, Grid
from vbagg.geo.observed_totals import read_observed
from vbagg.geo.points import AboutPoints
from vbagg.geo.polygon_rows import Origin
from vbagg.geo.polygons import Polygons, flaws
from vbagg.geo.responses import read_totals
from vbagg.geo.stack import Stack
from vbagg.geo.told import NOTHING, Told, read_told

FORMAT = 1
BEGINNINGS = {
    ".tif": (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"),
    ".gpkg": (b"SQLite format 3\0",),
    ".parquet": (b"PAR1",),
}
"""First bytes of files: libraries read other kinds by any name, and some of these lead to other files."""
PLACES, RUN = 8, 125
"""Pixels that are compared with the layers are so many runs of rows of the table: reading layers takes time."""
AT_ONCE = 1 << 17
"""Rows in memory at once where not all of them need be."""
COVERED = 1 + 1e-6
"""The most of a cell that a polygon can cover."""


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True)


class AboutPolygons(_Strict):
    """What a document says of the polygons."""

    id: str
    path: str
    notes: tuple[str, ...]
    crs: str
    columns: dict[str, str]
    uppers: dict[str, str] = {}
    gaps: dict[str, dict[str, int]] = {}
    """How many totals of each response are missing or suppressed."""
    negative: bool = False


class AboutTold(_Strict):
    """Columns of the polygons that say how totals came about."""

    completeness: str | None = None
    sd: str | None = None


class AboutLayer(_Strict):
    """Title and units of a covariate."""

    title: str = ""
    units: str = ""


class Document(_Strict):
    """What `prepared.json` says."""

    format: int
    covariates: tuple[str, ...]
    responses: tuple[str, ...]
    exposure: Literal["population", "area", "expected"]
    is_spread: bool = False
    told: AboutTold = AboutTold()
    is_shared: bool = False
    notes: tuple[str, ...]
    polygons: AboutPolygons
    points: AboutPoints | None = None
    described: dict[str, AboutLayer] = {}

    def described_layers(self) -> dict[str, Described]:
        """Titles and units, of covariates that are there."""
        for name in self.described:
            if name not in self.covariates:
                raise ValueError(f"only covariates can be described; {name!r} is none")
        return {name: Described.of(one.title, one.units) for name, one in self.described.items()}


def read_document(path: Path) -> Document:
    """The document, whose values are all there and of the right type."""
    try:
        document = Document.model_validate_json(path.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise ValueError(f"{path.name}: {f'`{key}`: ' if key else ''}{first['msg']}") from None
    if document.format != FORMAT:
        raise ValueError(f"it has format {document.format}, and this version of vbagg reads {FORMAT}")
    return document


def require_kind(path: Path) -> Path:
    """The file, which begins as its kind does."""
    known = BEGINNINGS[path.suffix]
    with path.open("rb") as file:
        if not file.read(max(map(len, known))).startswith(known):
            raise ValueError(f"{path.name} is not a file of that kind")
    return path


def column_kinds(columns: dict[str, str]) -> dict[str, Any]:
    """Types of columns of polygons by name: numbers, truth values or text."""
    kinds = {name: pd.api.types.pandas_dtype(kind) for name, kind in columns.items() if name != "geometry"}
    for name, kind in kinds.items():
        if kind not in (np.bool_, np.int64, np.float64, object) and not isinstance(kind, pd.StringDtype):
            raise ValueError(f"polygons have no columns of type {str(kind)!r}; got one called {name!r}")
    return kinds


def require_polygons(
    polygons: Polygons,
    responses: Sequence[str],
    exposure: str,
    gaps: Mapping[str, Mapping[str, int]],
    told: Told = NOTHING,
) -> Polygons:
    """The polygons, with distinct ids, shapes, totals or bounds of them, and exposure."""
    frame, uppers = polygons.frame, polygons.uppers
    if not set(uppers) <= set(responses):
        raise ValueError(f"upper bounds must be those of responses; got some of {sorted(set(uppers) - set(responses))}")
    for name in (polygons.id, exposure, *responses, *uppers.values(), *told.words):
        if name not in frame or name == "geometry":
            raise ValueError(f"the polygons have no column {name!r}{did_you_mean(name, map(str, frame.columns))}")
    ids = frame[polygons.id]
    if frame.empty or ids.isna().any() or ids.duplicated().any():
        raise ValueError(f"polygons must have distinct ids in the column {polygons.id!r}")
    if found := flaws(frame.geometry):
        row, flaw = next(iter(found.items()))
        raise ValueError(f"polygon {polygons.labels[row]!r} {flaw}")
    for name in (exposure, *responses, *uppers.values(), *told.words):
        if not pd.api.types.is_numeric_dtype(frame[name]):
            raise ValueError(f"the column {name!r} of the polygons must hold numbers")
    labels = polygons.labels.tolist()
    read_totals(frame[exposure], Origin(polygons.path), labels)
    for name in responses:
        read_observed(frame[name], Origin(polygons.path), labels, negative=polygons.negative)
        totals = polygons.totals(name)
        if name in uppers and not np.array_equal(np.isnan(totals.upper), frame[uppers[name]].isna()):
            raise ValueError(f"the column {uppers[name]!r} of the polygons must hold more than {name!r}, or nothing")
        if totals.gap_sizes != gaps.get(name, {}):
            raise ValueError(
                f"totals of {name!r} must have the gaps {gaps.get(name, {})}; they have {totals.gap_sizes}"
            )
    seen = np.any([~polygons.totals(name).missing for name in responses], axis=0)
    for name, what in told.words.items():
        read_told(frame[name], Origin(polygons.path), labels, seen, what)
    return polygons


def require_layers(stack: Stack, covariates: Sequence[str], exposure: str) -> Stack:
    """The stack, whose layers are the covariates and the exposure."""
    if stack.names != (*covariates, exposure):
        raise ValueError(f"{stack.path.name} must have the layers {(*covariates, exposure)}; it has {stack.names}")
    return stack


def require_columns(path: Path, covariates: Sequence[str]) -> Path:
    """The table of pixels, which has the columns it must have, and any rows."""
    from pyarrow import types
    from pyarrow.parquet import read_metadata

    about = read_metadata(path)
    schema = about.schema.to_arrow_schema()
    kinds = {field.name: field.type for field in schema}
    wanted = dict.fromkeys(("coverage", "weight", "x", "y"), types.is_float64)
    wanted |= {"cell": types.is_int64} | dict.fromkeys(covariates, types.is_float32)
    label = kinds.pop("polygon", None)
    if label is None or not (types.is_int64(label) or types.is_string(label) or types.is_large_string(label)):
        raise ValueError(f"{path.name} must name polygons by numbers or text in the column 'polygon'")
    for name, is_right in wanted.items():
        if name not in kinds or not is_right(kinds[name]):
            raise ValueError(f"{path.name} must have a column {name!r} of the right type; it has {kinds.get(name)}")
    if len(schema) != len(wanted) + 1:
        raise ValueError(f"{path.name} must have the columns {['polygon', *wanted]}; it has {schema.names}")
    if not about.num_rows:
        raise ValueError(f"{path.name} must have rows; it has none")
    return path


def require_fewer(path: Path) -> Path:
    """The table of pixels, which has no more rows than one process can hold."""
    from pyarrow.parquet import read_metadata

    rows = read_metadata(path).num_rows
    if rows > target.MOST_PIXELS:
        raise ValueError(
            f"{path.name} must have at most {target.MOST_PIXELS:,} rows to be read whole; it has {rows:,}, "
            "which workers can fit"
        )
    return path


def require_stored(
    path: Path,
    polygons: Polygons,
    stack: Stack,
    covariates: Sequence[str],
    exposure: str,
    is_spread: bool = False,
    is_shared: bool = False,
) -> Path:
    """The table of pixels, which is as `require_pixels` asks; a little of it is read at a time."""
    from pyarrow.parquet import ParquetFile

    with ParquetFile(path, pre_buffer=False) as file:  # else all that was read stays in memory
        checks = PixelChecks(polygons, stack, covariates, exposure, file.metadata.num_rows, is_spread, is_shared)
        for batch in file.iter_batches(AT_ONCE):
            checks.add(batch.to_pandas())
    checks.end()
    return path


def require_pixels(
    pixels: pd.DataFrame,
    polygons: Polygons,
    stack: Stack,
    covariates: Sequence[str],
    exposure: str,
    is_spread: bool = False,
    is_shared: bool = False,
) -> pd.DataFrame:
    """The pixels, which lie in known polygons and cells, hold what these hold, and add up to the polygons."""
    checks = PixelChecks(polygons, stack, covariates, exposure, len(pixels), is_spread, is_shared)
    checks.add(pixels)
    checks.end()
    return pixels


class PixelChecks:
    """What must be true of the table of pixels, whose rows come some at a time."""

    def __init__(
        self,
        polygons: Polygons,
        stack: Stack,
        covariates: Sequence[str],
        exposure: str,
        n_rows: int,
        is_spread: bool = False,
        is_shared: bool = False,
    ) -> None:
        self.is_spread, self.is_shared = is_spread, is_shared
        self.polygons, self.stack, self.covariates, self.exposure = polygons, stack, covariates, exposure
        self._places = pd.Index(polygons.labels)
        self._chosen = _chosen(n_rows)
        self._compared: list[pd.DataFrame] = []
        self._totals = np.zeros(len(polygons))
        self._begin, self._last = 0, (-1, -1)

    def add(self, pixels: pd.DataFrame) -> None:
        """Look at rows that follow those before."""
        numbers = ["coverage", "weight", "x", "y", *self.covariates]
        polygon = self._places.get_indexer(pixels["polygon"])
        cell, coverage, weight = (pixels[name].to_numpy() for name in ("cell", "coverage", "weight"))
        before = (np.concatenate([[last], own[:-1]]) for last, own in zip(self._last, (polygon, cell), strict=True))
        polygon_before, cell_before = before
        for is_right, rule in (
            (polygon >= 0, "lie in a polygon that is there"),
            (
                (polygon > polygon_before) | ((polygon == polygon_before) & (cell > cell_before)),
                "be there once, sorted by polygon and cell",
            ),
            ((cell >= 0) & (cell < self.stack.grid.n_cells), "lie in a cell of the grid"),
            (np.logical_and.reduce([np.isfinite(pixels[name].to_numpy()) for name in numbers]), "have finite numbers"),
            ((coverage > 0) & (coverage <= COVERED), "be a part of its cell"),
            (weight >= 0, "have a weight that is not negative"),
        ):
            if not is_right.all():
                row = self._begin + int(np.flatnonzero(~is_right)[0])
                raise ValueError(f"each pixel must {rule}; row {row} does not")
        if self.is_shared:
            _require_shares(cell, coverage)
        self._totals += np.bincount(polygon, weight, len(self.polygons))
        first, last = np.searchsorted(self._chosen, [self._begin, self._begin + len(pixels)])
        self._compared.append(pixels.iloc[self._chosen[first:last] - self._begin])
        if len(pixels):
            self._begin, self._last = self._begin + len(pixels), (int(polygon[-1]), int(cell[-1]))

    def end(self) -> None:
        """Look at what all rows together must be, and compare some with polygons and layers."""
        totals = self.polygons.frame[self.exposure].to_numpy(np.float64)
        if not np.allclose(self._totals, totals, rtol=1e-6, atol=0):
            raise ValueError(f"weights of pixels must add up to the {self.exposure} of their polygons")
        some = pd.concat(self._compared)
        polygon = self._places.get_indexer(some["polygon"])
        if not self.is_shared:  # outlines of catchments are where they have the largest share, and not all of them
            _require_near(self.polygons, polygon, self.stack.grid, some["cell"].to_numpy())
        _require_layers_of_pixels(some, self.stack, self.covariates, self.is_spread)


def _require_shares(cell: NDArray[np.int64], coverage: Floats) -> None:
    """Raise if more than all people of a cell attend facilities, as far as these rows tell."""
    cells, place = np.unique(cell, return_inverse=True)
    if (np.bincount(place, coverage, cells.size) > COVERED).any():
        raise ValueError("shares of a cell must add up to at most 1; some add up to more")


def _chosen(n: int) -> NDArray[np.intp]:
    """Rows of the table to compare: all if they are few."""
    if n <= PLACES * RUN:
        return np.arange(n)
    return np.unique(np.linspace(0, n - RUN, PLACES).astype(np.intp)[:, None] + np.arange(RUN))


def _require_near(polygons: Polygons, polygon: NDArray[np.intp], grid: Grid, cell: NDArray[np.int64]) -> None:
    """Raise unless the cells lie within their polygons, or touch them."""
    some, place = np.unique(polygon, return_inverse=True)
    frame = polygons.frame.iloc[some].reset_index(drop=True)
    shapes = replace(polygons, frame=frame).on(grid).geometry
    shapely.prepare(shapes)
    if not shapely.dwithin(shapes[place], shapely.points(*grid.centres(cell)), sum(grid.resolution)).all():
        raise ValueError("pixels must lie near their polygons; some are elsewhere")


def _require_layers_of_pixels(pixels: pd.DataFrame, stack: Stack, covariates: Sequence[str], is_spread: bool) -> None:
    """Raise unless pixels are where their cells are, and hold what the layers hold there.

    Where a column was spread, polygons that share a cell have densities of their own in it.
    """
    cells = pixels["cell"].to_numpy()
    size = np.sqrt(stack.grid.areas(slice(0, 1))[0, 0])
    if not np.allclose(stack.grid.kilometres(cells), pixels[["x", "y"]], rtol=0, atol=1e-3 * size):
        raise ValueError(f"pixels must lie where the cells of {stack.path.name} are")
    held = stack.at(cells, stack.names)
    whole: Floats = np.nan_to_num(held[:, -1].astype(np.float64))
    is_same = np.array_equal(held[:, :-1], pixels[list(covariates)].to_numpy(np.float32))
    has_weights = is_spread or np.allclose(pixels["coverage"] * whole, pixels["weight"], rtol=1e-6, atol=0)
    if not is_same or not has_weights:
        raise ValueError(f"pixels must hold what the layers of {stack.path.name} hold in their cells")
