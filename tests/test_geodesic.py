"""Geodesic coordinates beside surfaces whose distances are known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import pdist

from vbagg.geodesic import GeodesicChart, neighbour_graph
from vbagg.landmarks import shares

COLUMNS = (0, 2, 3)


def rolled(n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A strip of width 2 rolled up to one and a half turns among four columns, and its own two coordinates."""
    rng = np.random.default_rng(seed)
    turn, width = rng.uniform(1.5 * np.pi, 4.5 * np.pi, n), rng.uniform(0, 2, n)
    arc = 0.5 * (turn * np.sqrt(1 + turn**2) + np.arcsinh(turn))
    X = np.column_stack([turn * np.cos(turn), rng.normal(size=n), width, turn * np.sin(turn)]) / 7
    return X, arc, width


def chart_of(X: np.ndarray, **changes: object) -> GeodesicChart:
    n = len(X)
    options = {"columns": COLUMNS, "share": np.full(n, 0.2), "neighbours": 8}
    return GeodesicChart.fit(X, **(options | {"dimensions": None, "random_state": 3} | changes))


def test_first_coordinate_of_a_rolled_strip_is_the_length_along_it() -> None:
    X, arc, _ = rolled(1500, seed=1)
    along = chart_of(X).place(X)[:, 0]
    assert abs(np.corrcoef(along, arc)[0, 1]) > 0.999
    assert abs(np.corrcoef(X[:, 0], arc)[0, 1]) < 0.5


def test_new_rows_are_placed_where_they_belong() -> None:
    X, arc, _ = rolled(1500, seed=1)
    chart = chart_of(X)
    new, new_arc, _ = rolled(300, seed=2)
    line = np.polynomial.Polynomial.fit(arc, chart.place(X)[:, 0], 1)
    assert np.abs(chart.place(new)[:, 0] - line(new_arc)).max() < 0.05 * np.ptp(line(arc))


def test_a_plane_keeps_its_distances_up_to_one_scale() -> None:
    rng = np.random.default_rng(4)
    plane = rng.uniform(size=(900, 2)) * [3.0, 2.0]
    turn, _ = np.linalg.qr(rng.normal(size=(4, 4)))
    placed = chart_of(plane @ turn[:2], columns=(0, 1, 2, 3), neighbours=15).place(plane @ turn[:2])
    assert placed.shape == (900, 2)
    ratio = pdist(placed) / np.maximum(pdist(plane), 0.5)
    far = pdist(plane) > 0.5
    assert np.std(ratio[far]) < 0.03 * np.mean(ratio[far])


def test_mean_variance_is_one_and_dimensions_are_those_of_the_surface() -> None:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(800, 4)) * [2.0, 1.0, 0.7, 1.3]
    ring = np.column_stack([np.cos(X[:, 0]), np.sin(X[:, 0]), np.tanh(X[:, 1]) / 50])
    strip, _, _ = rolled(1500, seed=5)
    found = [chart_of(X), chart_of(ring, columns=(0, 1, 2)), chart_of(strip), chart_of(strip, dimensions=1)]
    assert [chart.dimensions for chart in found] == [3, 2, 2, 1]
    for chart in found:
        assert np.mean(chart.coordinates.var(axis=0)) == pytest.approx(1.0, rel=0.02)


def test_order_and_repetition_of_rows_change_nothing() -> None:
    X, _, _ = rolled(400, seed=6)
    bag = np.arange(400) // 5
    order = np.random.default_rng(7).permutation(400)
    weight = 1.0 + np.arange(400) % 3
    plain = chart_of(X, share=shares(weight, bag))
    shuffled = chart_of(X[order], share=shares(weight[order], bag[order]))
    halves = chart_of(np.vstack([X, X]), share=shares(np.r_[weight, weight] / 2, np.r_[bag, bag]))
    for other in (shuffled, halves):
        np.testing.assert_array_equal(plain.nodes, other.nodes)
        np.testing.assert_allclose(plain.coordinates, other.coordinates, rtol=0, atol=1e-9)


def test_parts_of_a_graph_are_joined_by_the_shortest_edge() -> None:
    rng = np.random.default_rng(8)
    nodes = np.vstack([rng.normal(size=(40, 2)), rng.normal(size=(30, 2)) + 30, rng.normal(size=(20, 2)) * 0.5 - 50])
    graph = neighbour_graph(nodes, 4).tocoo()
    part = np.repeat([0, 1, 2], [40, 30, 20])
    across = part[graph.row] != part[graph.col]
    found = {frozenset((int(a), int(b))) for a, b in zip(graph.row[across], graph.col[across], strict=True)}

    def shortest(one: int, other: int) -> frozenset[int]:
        pairs = [(np.hypot(*(nodes[i] - nodes[j])), i, j) for i in np.flatnonzero(part == one) for j in range(90)]
        return frozenset(min(pair for pair in pairs if part[pair[2]] == other)[1:])

    assert found == {shortest(0, 1), shortest(0, 2)}
    expected = np.linalg.norm(nodes[graph.row] - nodes[graph.col], axis=1)
    np.testing.assert_allclose(graph.data[~across], expected[~across])


def test_separate_clusters_have_finite_coordinates() -> None:
    rng = np.random.default_rng(9)
    X = np.vstack([rng.normal(size=(100, 4)), rng.normal(size=(60, 4)) + 25])
    placed = chart_of(X).place(X)
    assert np.isfinite(placed).all()
    assert placed[:100, 0].mean() * placed[100:, 0].mean() < 0


def test_too_few_rows_and_too_many_dimensions_are_refused() -> None:
    X, _, _ = rolled(60, seed=10)
    with pytest.raises(ValueError, match="more distinct rows than `neighbours`; got 6 distinct rows"):
        chart_of(np.repeat(X[:6], 10, axis=0))
    line = np.linspace(0.3, 2.0, 60)[:, None] * [1.0, 0.0, 2.0, -1.0]
    with pytest.raises(ValueError, match="must not exceed those of its columns' surface; got 3, and it has 1"):
        chart_of(line, dimensions=3)
