"""Geodesic coordinates: where rows lie on a surface that is folded up in the space of their columns.

Landmark Isomap (de Silva and Tenenbaum, 2004). Rows are nodes of a graph that joins each to its nearest neighbours;
shortest paths through the graph follow the surface, where straight lines would cut across its folds. A few landmarks
are placed so that their straight distances are these paths, all other nodes by their paths to the landmarks. A new row
is placed by the nodes around it, on the plane that fits them best: off the surface it counts as its place on it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components, dijkstra
from scipy.spatial import cKDTree

from vbagg.kmeans import kmeans_seeds
from vbagg.landmarks import MAX_ROWS, merge_rows, thin_rows

LANDMARKS = 100
ABOVE_FAULT = 2.0
"""A dimension is kept if its variance is this many times the largest negative one: lengths of paths are not quite
distances in a flat space, and negative variances, which no surface has, show by how much."""
RIDGE = 1e-3
"""Of the plane through the neighbours of a row, relative to their spread."""
BLOCK = 4096


@dataclass(frozen=True)
class GeodesicChart:
    """Coordinates on the surface that some columns lie on, in units in which their mean variance is one."""

    columns: tuple[int, ...]
    """Numbers of the columns, which are in standard units."""
    neighbours: int
    nodes: np.ndarray
    """(p, d) rows of the graph."""
    coordinates: np.ndarray
    """(p, k) their coordinates, the widest direction first."""

    @classmethod
    def fit(
        cls,
        X: np.ndarray,
        columns: tuple[int, ...],
        share: np.ndarray,
        neighbours: int,
        dimensions: int | None,
        random_state: int,
    ) -> GeodesicChart:
        """Chart of the rows of `X` (n, all columns), which have a share each."""
        rng = np.random.default_rng(random_state)
        nodes, share = merge_rows(X[:, list(columns)], share)
        nodes, share = thin_rows(nodes, share, MAX_ROWS, rng)
        if len(nodes) <= neighbours:
            raise ValueError(
                f"A Graph kernel needs more distinct rows than `neighbours`; got {len(nodes)} distinct rows of its"
                f" columns and neighbours={neighbours}. Ask for fewer neighbours."
            )
        paths, landmarks = _paths(nodes, share, neighbours, rng)
        coordinates = _scaled(paths, landmarks, dimensions, len(columns))
        centre = share @ coordinates / share.sum()
        variance = share @ (coordinates - centre) ** 2 / share.sum()
        return cls(columns, neighbours, nodes, (coordinates - centre) / np.sqrt(variance.mean()))

    @property
    def dimensions(self) -> int:
        """Number of coordinates."""
        return self.coordinates.shape[1]

    def place(self, X: np.ndarray) -> np.ndarray:
        """Coordinates (n, k) of rows with all columns, in standard units."""
        rows = X[:, list(self.columns)]
        tree = cKDTree(self.nodes)
        blocks = [self._placed(tree, rows[at : at + BLOCK]) for at in range(0, len(rows), BLOCK)]
        return np.concatenate([np.zeros((0, self.dimensions)), *blocks])

    def _placed(self, tree: cKDTree, rows: np.ndarray) -> np.ndarray:
        """On the plane c + (x - x_mean) B that fits the neighbours best, with a ridge: in its dual form."""
        _, near = tree.query(rows, self.neighbours)
        near = near.reshape(len(rows), self.neighbours)
        around, known = self.nodes[near], self.coordinates[near]
        middle, centre = around.mean(axis=1, keepdims=True), known.mean(axis=1, keepdims=True)
        around = around - middle
        gram = around @ around.swapaxes(1, 2)
        spread = np.trace(gram, axis1=1, axis2=2) + np.finfo(float).tiny
        ridge = RIDGE * spread[:, None, None] / self.neighbours * np.eye(self.neighbours)
        towards = (rows[:, None, :] - middle) @ around.swapaxes(1, 2)
        return (centre + towards @ np.linalg.solve(gram + ridge, known - centre))[:, 0]


def _paths(
    nodes: np.ndarray, share: np.ndarray, neighbours: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Lengths of the shortest paths (l, p) from each landmark to each node, and which nodes are landmarks."""
    number, seed = min(LANDMARKS, len(nodes)), int(rng.integers(2**31))
    landmarks = kmeans_seeds(nodes, share, number, seed)
    return dijkstra(neighbour_graph(nodes, neighbours), directed=False, indices=landmarks), landmarks


def neighbour_graph(nodes: np.ndarray, neighbours: int) -> csr_array:
    """Distances of each node from its nearest neighbours; parts of the graph are joined where they come closest."""
    distance, near = cKDTree(nodes).query(nodes, neighbours + 1)
    start = np.repeat(np.arange(len(nodes)), neighbours)
    edges = [(start, near[:, 1:].ravel(), distance[:, 1:].ravel())]
    while True:
        first, second, length = (np.concatenate(part) for part in zip(*edges, strict=True))
        graph = coo_array((length, (first, second)), shape=(len(nodes), len(nodes))).tocsr()
        number, part = connected_components(graph, directed=False)
        if number == 1:
            return graph
        edges += [_bridge(nodes, part == own) for own in range(number)]


def _bridge(nodes: np.ndarray, inside: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The shortest edge from some nodes to the others."""
    members, others = np.flatnonzero(inside), np.flatnonzero(~inside)
    distance, near = cKDTree(nodes[others]).query(nodes[members])
    at = int(np.argmin(distance))
    return members[at : at + 1], others[near[at : at + 1]], distance[at : at + 1]


def _scaled(paths: np.ndarray, landmarks: np.ndarray, dimensions: int | None, most: int) -> np.ndarray:
    """Coordinates (p, k) of all nodes by classical scaling of the landmarks, at most `most` of them.

    With `B = -1/2 J D^2 J = V diag(w) V^T` of squared paths between landmarks, a node is at
    `-1/2 diag(w)^-1/2 V^T (d^2 - mean of D^2)`, `d` its paths to the landmarks.
    """
    squared = paths**2
    between = squared[:, landmarks]
    average = between.mean(axis=1)
    inner = -0.5 * (between - average[:, None] - average + average.mean())
    widths, directions = np.linalg.eigh(0.5 * (inner + inner.T))
    fault, widths, directions = max(-widths[0], 0.0), widths[::-1], directions[:, ::-1]
    positive = min(most, int(np.sum(widths > 1e-9 * widths[0])))
    kept = dimensions or max(1, min(positive, int(np.sum(widths >= ABOVE_FAULT * fault))))
    if kept > positive:
        raise ValueError(
            f"`dimensions` of a Graph kernel must not exceed those of its columns' surface; got {kept}, and it has"
            f" {positive}. Ask for fewer."
        )
    axes = directions[:, :kept] * np.where(directions[0, :kept] < 0, -1.0, 1.0)
    return -0.5 * (squared - average[:, None]).T @ (axes / np.sqrt(widths[:kept]))
