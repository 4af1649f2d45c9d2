"""A regular grid of cells: where they are, how large they are, and how to walk over them in bounded memory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vbagg.geo.files import one_line

Floats = NDArray[np.float64]
Bounds = tuple[float, float, float, float]  # left, bottom, right, top

TILE_ROWS = 64  # rows of a tile in a stack; bands of rows keep to whole tiles
ALIGNED = 0.01  # cells whose corners differ by less than this part of a cell coincide
NODES = 65  # along each side of a projected grid, where cell areas are computed; between them they are interpolated


@dataclass(frozen=True)
class Grid:
    """Cells numbered row by row from the first row: `cell = row * width + column`.

    Attributes
    ----------
    crs
        Coordinate reference system: `"EPSG:4326"` or the like where it has a code, otherwise WKT.
    transform
        Six numbers `(a, b, c, d, e, f)`: a point at column `u` and row `v`, counted in cells from the first corner,
        has the coordinates `(a u + b v + c, d u + e v + f)`.
    height, width
        Number of rows and of columns.
    centre
        Longitude and latitude of the centre of the map on which `kilometres` are counted; None for the grid's middle.
    """

    crs: str
    transform: tuple[float, ...]
    height: int
    width: int
    centre: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        a, b, _, d, e, _ = self.transform
        if self.height < 1 or self.width < 1 or not np.isfinite(self.transform).all() or a * e == b * d:
            raise ValueError(
                "a grid must have at least one cell, and cells of positive size; "
                f"got {self.height} x {self.width} cells and the transform {self.transform}."
            )
        object.__setattr__(self, "crs", crs_name(self.crs))
        object.__setattr__(self, "transform", tuple(map(float, self.transform)))

    @classmethod
    def of(cls, dataset: Any) -> Grid:
        """Grid of an open rasterio dataset."""
        return cls(dataset.crs.to_wkt(), tuple(dataset.transform)[:6], dataset.height, dataset.width)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        return self.height, self.width

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return self.height * self.width

    @property
    def is_upright(self) -> bool:
        """Whether rows run from north to south and columns from west to east."""
        a, b, _, d, e, _ = self.transform
        return b == 0 and d == 0 and a > 0 and e < 0

    @property
    def resolution(self) -> tuple[float, float]:
        """Size of a cell along its row and along its column, in the units of the CRS."""
        a, b, _, d, e, _ = self.transform
        return math.hypot(a, d), math.hypot(b, e)

    @property
    def bounds(self) -> Bounds:
        """Left, bottom, right and top in the CRS."""
        x, y = self.coordinates(np.array([0, self.width, 0, self.width]), np.array([0, 0, self.height, self.height]))
        return float(x.min()), float(y.min()), float(x.max()), float(y.max())

    def bands(self, cells: int = 1_000_000) -> Iterator[slice]:
        """Slices of rows, from the first to the last, of at most `cells` cells each (or one row)."""
        rows = max(1, cells // self.width)
        rows -= rows % TILE_ROWS if rows > TILE_ROWS else 0
        for start in range(0, self.height, rows):
            yield slice(start, min(start + rows, self.height))

    def coordinates(self, column: ArrayLike, row: ArrayLike) -> tuple[Floats, Floats]:
        """CRS coordinates of points given in cells from the first corner."""
        a, b, c, d, e, f = self.transform
        column, row = np.asarray(column, dtype=np.float64), np.asarray(row, dtype=np.float64)
        return a * column + b * row + c, d * column + e * row + f

    def positions(self, x: ArrayLike, y: ArrayLike) -> tuple[Floats, Floats]:
        """Column and row, in cells from the first corner, of points given by CRS coordinates."""
        a, b, c, d, e, f = self.transform
        x, y = np.asarray(x, dtype=np.float64) - c, np.asarray(y, dtype=np.float64) - f
        return (e * x - b * y) / (a * e - b * d), (a * y - d * x) / (a * e - b * d)

    def centres(self, cells: ArrayLike) -> tuple[Floats, Floats]:
        """CRS coordinates of the centres of cells given by number."""
        row, column = np.divmod(np.asarray(cells), self.width)
        return self.coordinates(column + 0.5, row + 0.5)

    def kilometres(self, cells: ArrayLike) -> Floats:
        """Kilometres east and north of `middle` (n, 2), on an equal-area projection centred there."""
        east, north = transformer(self.crs, _equal_area(self.middle)).transform(*self.centres(cells))
        return np.column_stack([east, north])

    @property
    def middle(self) -> tuple[float, float]:
        """Longitude and latitude of the centre of the map of `kilometres`."""
        return _middle(self) if self.centre is None else self.centre

    def areas(self, rows: slice = slice(None)) -> Floats:
        """Area of each cell of these rows in square kilometres (rows, width), on the ellipsoid."""
        first, last, _ = rows.indices(self.height)
        a, b, _, d, e, _ = self.transform
        if is_geographic(self.crs):
            size = abs(a * e - b * d) * unit(self.crs) ** 2 / 1e6
            part = self.sub(slice(first, last))
            row, column = np.mgrid[0 : part.height, 0 : 1 if d == 0 else part.width] + 0.5
            middle = part.coordinates(column, row)[1]
            half = (abs(e) + abs(d)) / 2
            return np.broadcast_to(size * _degree_areas(self.crs, middle, half), part.shape)
        (node_rows, node_columns), areas = _projected_areas(self)
        at_rows = np.stack([np.interp(np.arange(first, last) + 0.5, node_rows, line) for line in areas.T])
        columns = np.arange(self.width) + 0.5
        return np.stack([np.interp(columns, node_columns, line) for line in at_rows.T])

    def at_resolution(self, resolution: float) -> Grid:
        """Grid of square cells of this size that covers the same bounds from the same first corner."""
        if not (np.isfinite(resolution) and resolution > 0):
            raise ValueError(f"`resolution` must be a positive number, in units of the grid's CRS; got {resolution}.")
        left, bottom, right, top = self.bounds
        height, width = (max(1, math.ceil(side / resolution - ALIGNED)) for side in (top - bottom, right - left))
        return Grid(self.crs, (resolution, 0.0, left, 0.0, -resolution, top), height, width)

    def sub(self, rows: slice = slice(None), columns: slice = slice(None)) -> Grid:
        """Grid of some of the rows and columns."""
        (top, bottom, _), (left, right, _) = rows.indices(self.height), columns.indices(self.width)
        c, f = self.coordinates(left, top)
        a, b, _, d, e, _ = self.transform
        return Grid(self.crs, (a, b, float(c), d, e, float(f)), bottom - top, right - left)

    def window(self, bounds: Bounds, margin: int = 0) -> tuple[slice, slice]:
        """Rows and columns of the cells that touch `bounds`, with a margin in cells; empty slices if none does."""
        left, bottom, right, top = bounds
        column, row = self.positions(np.array([left, right, left, right]), np.array([bottom, bottom, top, top]))
        return tuple(  # type: ignore[return-value]
            slice(max(0, math.floor(p.min() + ALIGNED) - margin), max(0, min(n, math.ceil(p.max() - ALIGNED) + margin)))
            for p, n in ((row, self.height), (column, self.width))
        )

    def offset_in(self, other: Grid) -> tuple[int, int] | None:
        """Row and column in `other` of this grid's first cell, if cells of the two coincide; they may lie outside."""
        if not same_crs(self.crs, other.crs):
            return None
        corners = self.coordinates(np.array([0, self.width, 0]), np.array([0, 0, self.height]))
        column, row = other.positions(*corners)
        u, v = round(float(column[0])), round(float(row[0]))
        fits = np.allclose(column - u, [0, self.width, 0], rtol=0, atol=ALIGNED) and np.allclose(
            row - v, [0, 0, self.height], rtol=0, atol=ALIGNED
        )
        return (v, u) if fits else None


@lru_cache(maxsize=256)
def crs_name(text: str) -> str:
    """A CRS as its EPSG code where it has one, otherwise as WKT."""
    crs = _crs(text)
    code = crs.to_epsg()
    return f"EPSG:{code}" if code else crs.to_wkt()


@lru_cache(maxsize=256)
def crs_title(text: str) -> str:
    """A CRS in a word or two, for messages."""
    name = crs_name(text)
    return name if name.startswith("EPSG:") else f"'{_crs(text).name}'"


@lru_cache(maxsize=256)
def same_crs(one: str, other: str) -> bool:
    """Whether two CRS mean the same coordinates."""
    return one == other or _crs(one).equals(_crs(other), ignore_axis_order=True)


@lru_cache(maxsize=64)
def transformer(source: str, target: str) -> Any:
    """Transformation of x (or longitude) and y (or latitude) from one CRS to another."""
    from pyproj import Transformer

    return Transformer.from_crs(_crs(source), _crs(target), always_xy=True)


@lru_cache(maxsize=64)
def unit(crs: str) -> float:
    """Unit of the coordinates in radians (geographic) or metres."""
    return float(_crs(crs).axis_info[0].unit_conversion_factor)


@lru_cache(maxsize=64)
def is_geographic(crs: str) -> bool:
    """Whether coordinates are longitudes and latitudes."""
    return bool(_crs(crs).is_geographic)


@lru_cache(maxsize=256)
def _crs(text: str) -> Any:
    from pyproj import CRS
    from pyproj.exceptions import CRSError

    try:
        return CRS.from_user_input(text)
    except CRSError as error:
        raise ValueError(
            f"a CRS must be a code such as 'EPSG:4326', or WKT; got {text!r} ({one_line(error)})."
        ) from None


@lru_cache(maxsize=64)
def _middle(grid: Grid) -> tuple[float, float]:
    """Longitude and latitude of the middle of a grid."""
    x, y = grid.coordinates(grid.width / 2, grid.height / 2)
    longitude, latitude = transformer(grid.crs, "EPSG:4326").transform(float(x), float(y))
    return longitude, latitude


def _equal_area(middle: tuple[float, float]) -> str:
    """Lambert's azimuthal equal-area projection in kilometres, centred on a longitude and latitude."""
    longitude, latitude = middle
    return f"+proj=laea +lon_0={longitude!r} +lat_0={latitude!r} +datum=WGS84 +units=km +type=crs"


def _degree_areas(crs: str, latitude: Floats, half: float) -> Floats:
    """Square metres per square radian of longitude and latitude: Simpson's rule over each cell's latitudes."""
    ellipsoid = _crs(crs).ellipsoid
    a = ellipsoid.semi_major_metre
    e2 = 1 - (ellipsoid.semi_minor_metre / a) ** 2

    def density(degrees: Floats) -> Floats:
        # a^2 (1 - e^2) cos(phi) / (1 - e^2 sin(phi)^2)^2
        phi = np.clip(degrees * unit(crs), -np.pi / 2, np.pi / 2)
        return a**2 * (1 - e2) * np.cos(phi) / (1 - e2 * np.sin(phi) ** 2) ** 2

    return (density(latitude - half) + 4 * density(latitude) + density(latitude + half)) / 6


@lru_cache(maxsize=16)
def _projected_areas(grid: Grid) -> tuple[tuple[Floats, Floats], Floats]:
    """Square kilometres of a cell around each of some nodes, which are given as rows and columns in cells."""
    geographic = _crs(grid.crs).geodetic_crs.to_wkt()
    back = transformer(grid.crs, geographic)
    nodes = np.linspace(0, grid.height, NODES), np.linspace(0, grid.width, NODES)
    row, column = np.meshgrid(*nodes, indexing="ij")

    def change(du: float, dv: float) -> tuple[Floats, Floats]:
        """Change of longitude and latitude over one cell."""
        ends = [back.transform(*grid.coordinates(column + s * du, row + s * dv)) for s in (-0.5, 0.5)]
        longitude, latitude = (after - before for before, after in zip(*ends, strict=True))
        turn = 2 * np.pi / unit(geographic)
        return (longitude + turn / 2) % turn - turn / 2, latitude

    (east, north), (east_down, north_down) = change(1, 0), change(0, 1)
    latitude = back.transform(*grid.coordinates(column, row))[1]
    square = np.abs(east * north_down - north * east_down) * unit(geographic) ** 2
    areas = square * _degree_areas(geographic, latitude, 0.0) / 1e6
    planar = abs(np.linalg.det(np.reshape(grid.transform, (2, 3))[:, :2])) * unit(grid.crs) ** 2 / 1e6
    return nodes, np.where(np.isfinite(areas) & (areas > 0), areas, planar)
