"""Land of an imagined country: outline, river, lakes and relief.

Everything is laid out in kilometres and only then seen through a grid of pixels. Noise has a fixed lattice of random
numbers whatever the grid, so that equal seeds give the same country at every resolution.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from vbagg.datasets.aggregate import Floats

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Mask = NDArray[np.bool_]

FRAME_KM = (1250.0, 1480.0)  # height and width of the rectangle around the country
STEP_KM = 0.5  # between the points of a river
N_LAKES = 4
N_TRIBUTARIES = 12
N_STREAMS = 24


@dataclass(frozen=True)
class Grid:
    """Square pixels over the frame, in rows from north to south; ``x`` grows eastwards, ``y`` northwards."""

    pixel_km: float

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        rows, columns = (int(np.ceil(side / self.pixel_km)) for side in FRAME_KM)
        return rows, columns

    @cached_property
    def x(self) -> Floats:
        """Centre of each column, in km."""
        return self.pixel_km * (np.arange(self.shape[1], dtype=float) + 0.5)

    @cached_property
    def y(self) -> Floats:
        """Centre of each row, in km."""
        return self.pixel_km * (self.shape[0] - 0.5 - np.arange(self.shape[0], dtype=float))

    def cells(self, points: Floats) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Row and column of the pixel nearest to each point (n, 2)."""
        columns = np.floor(points[:, 0] / self.pixel_km).astype(np.intp)
        rows = self.shape[0] - 1 - np.floor(points[:, 1] / self.pixel_km).astype(np.intp)
        return np.clip(rows, 0, self.shape[0] - 1), np.clip(columns, 0, self.shape[1] - 1)

    def noise(self, random: np.random.Generator, lengths: Sequence[float], roughness: float = 0.5) -> Floats:
        """Random surface of mean 0 and variance 1 with details of these lengths, in km.

        Each length adds a cubic B-spline whose coefficients, one per square of that side, are independent
        normals; its standard deviation is ``roughness`` times that of the length before.
        """
        sd = roughness ** np.arange(len(lengths))
        surfaces = (self._spline_surface(random, length) for length in lengths)
        return sum(s * surface for s, surface in zip(sd / np.linalg.norm(sd), surfaces, strict=True))

    def _spline_surface(self, random: np.random.Generator, length: float) -> Floats:
        rows, columns = (int(np.ceil((side + 50) / length)) + 4 for side in FRAME_KM)
        coefficients = random.standard_normal((rows, columns))
        along_y = _spline_basis(self.y / length, rows) @ coefficients
        mean_square = 151 / 315  # of a cubic B-spline with coefficients of variance one, along one axis
        return (_spline_basis(self.x / length, columns) @ along_y.T).T / mean_square


def _spline_basis(position: Floats, n_coefficients: int) -> csr_array:
    """Values (n, n_coefficients) at ``position`` of the uniform cubic B-splines, four of which are not zero."""
    from scipy.sparse import csr_array

    first = np.floor(position).astype(np.intp)
    t = position - first
    weights = np.stack([(1 - t) ** 3, 3 * t**3 - 6 * t**2 + 4, 3 * (t + t**2 - t**3) + 1, t**3], axis=1) / 6
    columns = first[:, None] + np.arange(4)
    starts = 4 * np.arange(len(position) + 1)
    return csr_array((weights.ravel(), columns.ravel(), starts), shape=(len(position), n_coefficients))


@dataclass(frozen=True, eq=False)
class Land:
    """The country's land on a grid.

    Attributes
    ----------
    grid
        The pixels of the frame.
    inside
        Which of them belong to the country: one 4-connected piece without the lakes.
    river
        Points (n, 2) of the main river, from its source side to where it leaves the country.
    water_km
        Distance to the nearest river or lake.
    elevation
        Metres above the sea.
    """

    grid: Grid
    inside: Mask
    river: Floats
    water_km: Floats
    elevation: Floats


def make_land(n_pixels: int, pixel_km: float, random: np.random.Generator) -> Land:
    """Land with exactly ``n_pixels`` pixels, crossed by a river from its high side to its low side."""
    from scipy.ndimage import distance_transform_edt

    grid = Grid(pixel_km)
    downstream = random.uniform(0, 2 * np.pi)
    river = _main_river(random, downstream)
    channels = np.concatenate([river, *_tributaries(random, river, downstream), *_streams(random, downstream)])
    lakes = _lakes(grid, random, channels)
    inside = _outline(grid, random, lakes, n_pixels)

    river_km = _distance_to(grid, channels)
    lake_km = distance_transform_edt(~lakes) * pixel_km
    on_land = np.flatnonzero(inside[grid.cells(river)])
    return Land(
        grid=grid,
        inside=inside,
        river=river[on_land[0] : on_land[-1] + 1],
        water_km=np.minimum(river_km, lake_km),
        elevation=_relief(grid, random, downstream, river_km),
    )


def _winding(random: np.random.Generator, start: Floats, heading: float, length_km: float) -> Floats:
    """Course (n, 2) from ``start`` whose direction wavers about ``heading``, in radians from the east."""
    n = int(length_km / STEP_KM)
    angle = np.full(n, heading)
    for bend_km, sd in ((120.0, 0.55), (30.0, 0.5), (9.0, 0.45)):
        knots = random.standard_normal(int(length_km / bend_km) + 5)
        angle += 1.44 * sd * (_spline_basis(np.arange(n, dtype=float) * (STEP_KM / bend_km), knots.size) @ knots)
    steps = STEP_KM * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return start + np.cumsum(steps, axis=0)


def _main_river(random: np.random.Generator, downstream: float) -> Floats:
    """River through the middle of the frame, longer than the frame is wide."""
    course = _winding(random, np.zeros(2), downstream, 2 * FRAME_KM[1])
    middle = np.array(FRAME_KM[::-1]) * random.uniform(0.44, 0.56, 2)
    return course - course[len(course) // 2] + middle


def _tributaries(random: np.random.Generator, river: Floats, downstream: float) -> list[Floats]:
    """Streams that join the river from both sides, followed upwards."""
    mouths = np.linspace(0.26, 0.74, N_TRIBUTARIES) + random.uniform(-0.02, 0.02, N_TRIBUTARIES)
    sides = np.where(np.arange(N_TRIBUTARIES) % 2 == 0, 1, -1) * random.uniform(0.7, 1.4, N_TRIBUTARIES)
    lengths = random.uniform(120, 650, N_TRIBUTARIES)
    return [
        _winding(random, river[int(mouth * len(river))], downstream + np.pi + side, length)
        for mouth, side, length in zip(mouths, sides, lengths, strict=True)
    ]


def _streams(random: np.random.Generator, downstream: float) -> list[Floats]:
    """Shorter waters all over the frame."""
    sources = random.uniform(0.03, 0.97, (N_STREAMS, 2)) * FRAME_KM[::-1]
    headings = downstream + random.uniform(-1.3, 1.3, N_STREAMS)
    lengths = random.uniform(50, 300, N_STREAMS)
    return [_winding(random, *stream) for stream in zip(sources, headings, lengths, strict=True)]


def _distance_to(grid: Grid, points: Floats) -> Floats:
    """Kilometres from each pixel's centre to a point of the nearest pixel that has any."""
    from scipy.ndimage import distance_transform_edt

    points = points[((points > 0) & (points < FRAME_KM[::-1])).all(axis=1)]
    cells = grid.cells(points)
    free = np.ones(grid.shape, bool)
    free[cells] = False
    point_of_cell = np.zeros(grid.shape, np.intp)
    point_of_cell[cells] = np.arange(len(points))
    nearest = points[point_of_cell[tuple(distance_transform_edt(free, return_distances=False, return_indices=True))]]
    return np.hypot(grid.x - nearest[..., 0], grid.y[:, None] - nearest[..., 1])


def _lakes(grid: Grid, random: np.random.Generator, channels: Floats) -> Mask:
    """Mark a few round lakes with ragged shores, each on a river."""
    within = (np.abs(channels / np.array(FRAME_KM[::-1]) - 0.5) < 0.35).all(axis=1)
    centres = channels[random.choice(np.flatnonzero(within), N_LAKES, replace=False)]
    radii = random.uniform(6, 22, N_LAKES)
    shore = 0.35 * grid.noise(random, (20, 10, 5))
    lakes = np.zeros(grid.shape, bool)
    for (x, y), radius in zip(centres, radii, strict=True):
        lakes |= np.hypot(grid.x - x, grid.y[:, None] - y) / radius + shore < 1
    return lakes


def _outline(grid: Grid, random: np.random.Generator, lakes: Mask, n_pixels: int) -> Mask:
    """One 4-connected piece of exactly ``n_pixels`` pixels: the highest of a dome with noise, without the lakes."""
    x, y = (np.abs(2 * centres / side - 1) for centres, side in ((grid.x, FRAME_KM[1]), (grid.y, FRAME_KM[0])))
    dome = -np.hypot(x, y[:, None]) + 0.22 * grid.noise(random, (320, 160, 80, 40, 20, 10, 5), 0.55)
    dome -= 8 * np.maximum(np.maximum(x, y[:, None]) - 0.88, 0)  # keeps off the frame
    rim = np.ones(grid.shape, bool)
    rim[1:-1, 1:-1] = False
    dome[rim] = dome.min()

    heights = np.sort(dome, axis=None)
    low, high = 0, heights.size  # pieces above heights[low] are too large, above heights[high] small enough
    while high - low > 1:
        middle = (low + high) // 2
        too_large = _largest_piece(dome > heights[middle], lakes).sum() > n_pixels
        low, high = (middle, high) if too_large else (low, middle)
    inside = _largest_piece(dome > heights[min(high, heights.size - 1)], lakes)
    return _top_up(inside, np.where(lakes | rim, -np.inf, dome), n_pixels)


def _largest_piece(high: Mask, lakes: Mask) -> Mask:
    """Return the largest 4-connected piece of ``high`` with its holes filled, but for the lakes."""
    from scipy.ndimage import label

    outside = label(~high)[0]
    pieces = label((outside != outside[0, 0]) & ~lakes)[0]
    return pieces == np.argmax(np.bincount(pieces.ravel())[1:]) + 1


def _top_up(inside: Mask, height: Floats, n_pixels: int) -> Mask:
    """Add the highest pixels beside the piece until it has ``n_pixels``."""
    from scipy.ndimage import binary_dilation

    inside = inside.copy()
    while missing := n_pixels - int(inside.sum()):
        beside = np.flatnonzero(binary_dilation(inside) & ~inside & np.isfinite(height))
        highest = np.argsort(-height.flat[beside], kind="stable")[:missing]
        inside.flat[beside[highest]] = True
    return inside


def _relief(grid: Grid, random: np.random.Generator, downstream: float, river_km: Floats) -> Floats:
    """Metres: a slope towards the river's mouth, hills, a few ridges, and valleys along the rivers."""
    east, north = grid.x - FRAME_KM[1] / 2, grid.y - FRAME_KM[0] / 2
    upstream = -(np.cos(downstream) * east + np.sin(downstream) * north[:, None]) / (FRAME_KM[1] / 2)
    hills = grid.noise(random, (260, 130, 65, 32, 16, 8, 4), 0.55)
    mountains = 1 / (1 + np.exp(-4 * (grid.noise(random, (300, 150, 75, 37), 0.5) + 0.8 * upstream - 1)))
    peaks = np.exp(0.3 * grid.noise(random, (50, 25, 12, 6, 3), 0.7))
    height = 420 + 260 * upstream + 170 * hills + 1100 * mountains * peaks
    valley = 1 - 0.55 * np.exp(-river_km / 18)
    return np.logaddexp(height / 60, 0.5) * 60 * valley + 15
