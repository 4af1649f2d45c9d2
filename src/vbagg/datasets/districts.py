"""Division of a country into connected districts of prescribed smallest and largest size."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vbagg.datasets.aggregate import Floats
from vbagg.datasets.terrain import Land, Mask

Owners = NDArray[np.int64]

OUTSIDE = -1
AROUND = ((0, 1), (-1, 1), (-1, 0), (-1, -1), (0, -1), (1, -1), (1, 0), (1, 1))  # anticlockwise from the east


def divide(
    land: Land, population: Floats, n_districts: int, smallest: int, largest: int, random: np.random.Generator
) -> Owners:
    """District 0, 1, ... of each pixel of the grid, `OUTSIDE` beyond the country.

    Districts are 4-connected, have ``smallest`` to ``largest`` pixels, and both bounds are reached. They are the
    smaller the more people live there, and numbered from north to south.
    """
    area = _wanted_area(land, population, n_districts, smallest, largest, random)
    seeds = _seeds(land, area, n_districts, random)
    owner = _without_fragments(_nearest(land, seeds, random))
    return _numbered_from_north(_with_bounds(owner, smallest, largest))


def _wanted_area(
    land: Land, population: Floats, n_districts: int, smallest: int, largest: int, random: np.random.Generator
) -> Floats:
    """Pixels that a district should have around each pixel; districts of these areas would number ``n_districts``."""
    from scipy.ndimage import gaussian_filter

    sigma = 5 / land.grid.pixel_km
    people = gaussian_filter(population, sigma) / np.maximum(gaussian_filter(land.inside.astype(float), sigma), 1e-3)
    area = np.exp(0.5 * land.grid.noise(random, (150, 70, 30), 0.9)) / (people + 0.2 * people[land.inside].mean())
    for _ in range(20):
        area *= np.mean(1 / area[land.inside]) * land.inside.sum() / n_districts
        area = np.clip(area, 1.5 * smallest, 0.8 * largest)
    return area


def _seeds(land: Land, area: Floats, n_districts: int, random: np.random.Generator) -> NDArray[np.intp]:
    """Flat index of one pixel per district, far from the others as measured by the wanted area.

    One after the other, the candidate is taken whose distance to the nearest seed is the largest multiple of the
    radius that it wants.
    """
    pixels = np.flatnonzero(land.inside)
    wanted = area.flat[pixels]
    n_candidates = min(pixels.size, 25 * n_districts)
    candidates = random.choice(pixels, n_candidates, replace=False, p=(1 / wanted) / (1 / wanted).sum())
    row, column = np.divmod(candidates, land.grid.shape[1])
    radius = np.sqrt(area.flat[candidates]) * np.exp(0.15 * random.standard_normal(n_candidates))
    gap = np.full(n_candidates, np.inf)
    chosen = np.zeros(n_districts, np.intp)
    for k in range(n_districts):
        chosen[k] = np.argmax(gap)
        distance = np.hypot(row - row[chosen[k]], column - column[chosen[k]])
        gap = np.minimum(gap, distance / radius)
    return candidates[chosen]


def _nearest(land: Land, seeds: NDArray[np.intp], random: np.random.Generator) -> Owners:
    """Nearest seed of each pixel on a map that noise distorts, so that borders wind."""
    from scipy.spatial import KDTree

    grid = land.grid
    places = [
        centres + 6 * grid.noise(random, (50, 25, 12, 6), 0.6)  # km
        for centres in (grid.x, grid.y[:, None])
    ]
    place = np.stack(places, axis=-1).reshape(-1, 2)
    pixels = np.flatnonzero(land.inside)
    owner = np.full(grid.shape, OUTSIDE, dtype=np.int64)
    owner.flat[pixels] = KDTree(place[seeds]).query(place[pixels])[1]
    return owner


def _without_fragments(owner: Owners) -> Owners:
    """Keep the largest 4-connected piece of each district; the neighbours grow into the rest."""
    piece = pieces(owner)
    sizes = np.bincount(piece[piece >= 0])
    district = np.zeros(sizes.size, dtype=np.int64)
    district[piece[piece >= 0]] = owner[piece >= 0]
    keep = np.zeros(sizes.size, bool)
    by_district = np.lexsort((sizes, district))
    keep[by_district[np.append(np.diff(district[by_district]) > 0, True)]] = True
    kept = np.where((piece >= 0) & keep[piece], owner, OUTSIDE)
    return _grown(kept, owner >= 0)


def pieces(owner: Owners) -> Owners:
    """Number the 4-connected pieces of equal owner; `OUTSIDE` stays."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    index = np.arange(owner.size).reshape(owner.shape)
    down, right = owner[1:] == owner[:-1], owner[:, 1:] == owner[:, :-1]
    one = np.concatenate([index[:-1][down], index[:, :-1][right]])
    other = np.concatenate([index[1:][down], index[:, 1:][right]])
    edges = coo_array((np.ones(one.size, bool), (one, other)), shape=(owner.size, owner.size))
    labels = connected_components(edges, directed=False)[1].reshape(owner.shape)
    inside = owner >= 0
    labels[inside] = np.unique(labels[inside], return_inverse=True)[1]
    return np.where(inside, labels, OUTSIDE)


def _grown(owner: Owners, country: Mask) -> Owners:
    """Give pixels of the country without owner to a 4-neighbour's, until all have one."""
    owner = np.pad(owner, 1, constant_values=OUTSIDE)
    missing = np.pad(country, 1) & (owner < 0)
    while missing.any():
        rows, columns = np.nonzero(missing)
        beside = np.stack([owner[rows + i, columns + j] for i, j in AROUND[::2]])
        owner[rows, columns] = beside.max(axis=0)
        missing[rows, columns] = owner[rows, columns] < 0
    return owner[1:-1, 1:-1]


class _Borders:
    """Districts whose border pixels change hands one at a time, such that none falls apart."""

    def __init__(self, owner: Owners) -> None:
        from scipy.ndimage import find_objects

        self.owner = np.pad(owner, 2, constant_values=OUTSIDE)
        self.sizes = np.bincount(owner[owner >= 0])
        boxes = find_objects(self.owner + 1)
        self._boxes = np.array([[side.start for side in box] + [side.stop for side in box] for box in boxes])

    def grow(self, district: int, least: int) -> bool:
        """Take the pixel nearest to the district's centre from a neighbour of more than ``least`` pixels, if any."""
        corner, window, mine = self._around(district)
        rich = np.append(self.sizes > least, False)  # the last entry is for `OUTSIDE`
        places = np.argwhere(_spread(mine) & ~mine & rich[window] & _removable(window))
        if len(places):
            self._hand_over(corner + places[np.argmin(_from_centre(places, mine))], district)
        return len(places) > 0

    def shrink(self, district: int, most: int) -> bool:
        """Give the pixel farthest from its centre to a neighbour of fewer than ``most`` pixels, if any."""
        corner, window, mine = self._around(district)
        poor = np.append(self.sizes < most, False)
        poor[district] = False
        places = np.argwhere(mine & _spread(poor[window]) & _removable(window))
        if len(places):
            row, column = place = places[np.argmax(_from_centre(places, mine))]
            beside = [window[row + i, column + j] for i, j in AROUND[::2]]
            self._hand_over(corner + place, min((k for k in beside if poor[k]), key=self.sizes.__getitem__))
        return len(places) > 0

    def refound(self, district: int) -> None:
        """Leave the district's pixels to its neighbours, and begin it anew with one pixel of the second largest."""
        corner, window, mine = self._around(district)
        heirs = _grown(np.where(mine, OUTSIDE, window), window >= 0)
        for place in np.argwhere(mine):
            self._hand_over(corner + place, heirs[tuple(place)])
        corner, window, mine = self._around(int(np.argsort(self.sizes)[-2]))
        place = corner + np.argwhere(mine & _removable(window))[0]
        self._boxes[district] = [*place, *(place + 1)]
        self._hand_over(place, district)

    def smallest_neighbour(self, district: int) -> int:
        """Return the neighbour of fewest pixels."""
        _, window, mine = self._around(district)
        neighbours = np.unique(window[_spread(mine) & ~mine & (window >= 0)])
        return int(neighbours[np.argmin(self.sizes[neighbours])])

    def _around(self, district: int) -> tuple[NDArray[np.intp], Owners, Mask]:
        """Upper left corner of the district with two pixels around it, who owns these, and which it owns itself."""
        top, left, bottom, right = self._boxes[district] + (-2, -2, 2, 2)
        window = self.owner[top:bottom, left:right]
        return np.array([top, left]), window, window == district

    def _hand_over(self, place: NDArray[np.intp], receiver: int) -> None:
        row, column = place
        self.sizes[self.owner[row, column]] -= 1
        self.sizes[receiver] += 1
        self.owner[row, column] = receiver
        box = self._boxes[receiver]
        box[:2], box[2:] = np.minimum(box[:2], place), np.maximum(box[2:], place + 1)


def _spread(mask: Mask) -> Mask:
    """Return the 4-neighbours of a mask, which may not touch the edge."""
    return np.logical_or.reduce([np.roll(mask, shift, axis=(0, 1)) for shift in AROUND[::2]])


def _removable(window: Owners) -> Mask:
    """Tell which pixels can leave their district without cutting it.

    A pixel joins one single piece of its district if, walking around it, the 4-neighbours in the district follow
    each other through corners in the district: their runs number one. Pixels at the edge of the window do not count.
    """
    same = [np.roll(window, (-i, -j), axis=(0, 1)) == window for i, j in AROUND]
    runs = sum((same[k] & ~(same[k + 1] & same[(k + 2) % 8])).astype(int) for k in (0, 2, 4, 6))
    return runs == 1


def _from_centre(places: NDArray[np.intp], mine: Mask) -> Floats:
    """Squared distance of places (n, 2) from the centre of the district."""
    return np.square(places - np.argwhere(mine).mean(axis=0)).sum(axis=1)


def _with_bounds(owner: Owners, smallest: int, largest: int) -> Owners:
    """Move pixels between neighbours until all sizes are within the bounds and reach them."""
    borders = _Borders(owner)
    for _ in range(2 * owner.size):
        if not _step_towards(borders, smallest, largest):
            return borders.owner[2:-2, 2:-2]
    raise RuntimeError(
        f"{borders.sizes.size} districts of {smallest} to {largest} pixels did not fit; try another `seed`."
    )


def _step_towards(borders: _Borders, smallest: int, largest: int) -> bool:
    """Improve the size of the smallest or the largest district by a pixel; tell whether that was needed."""
    sizes = borders.sizes
    poorest, richest = int(np.argmin(sizes)), int(np.argmax(sizes))
    if sizes[poorest] < smallest:
        if not borders.grow(poorest, least=sizes[poorest] + 1):
            borders.refound(poorest)
    elif sizes[richest] > largest:
        borders.shrink(richest, most=sizes[richest] - 1)
    elif sizes[richest] < largest:
        if not borders.grow(richest, least=smallest):
            borders.refound(borders.smallest_neighbour(richest))
    elif sizes[poorest] > smallest:
        if not borders.shrink(poorest, most=largest):
            borders.refound(poorest)
    else:
        return False
    return True


def _numbered_from_north(owner: Owners) -> Owners:
    """Renumber the districts by the mean row of their pixels."""
    rows = np.nonzero(owner >= 0)[0]
    district = owner[owner >= 0]
    order = np.argsort(np.bincount(district, weights=rows) / np.bincount(district), kind="stable")
    number = np.empty(order.size + 1, dtype=np.int64)
    number[order] = np.arange(order.size)
    number[OUTSIDE] = OUTSIDE
    return number[owner]
