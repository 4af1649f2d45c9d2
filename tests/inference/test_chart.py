"""Coordinates around a Gaussian, and curvature learnt from moves."""

import numpy as np
import pytest

from vbagg.inference.chart import MEMORY, Chart, Curvature
from vbagg.inference.gaussian import Gaussian


def gaussian(seed, m=4):
    rng = np.random.default_rng(seed)
    factor = np.tril(rng.normal(size=(m, m)))
    factor[np.diag_indices(m)] = rng.uniform(0.3, 2.0, m)
    return Gaussian(rng.normal(size=m), factor)


def divergence(q, p):
    """KL(q || p) of two Gaussians, by the textbook."""
    precision = np.linalg.inv(p.covariance)
    gap = p.mu - q.mu
    trace = np.trace(precision @ q.covariance) + gap @ precision @ gap - len(gap)
    return 0.5 * (trace + np.linalg.slogdet(p.covariance)[1] - np.linalg.slogdet(q.covariance)[1])


def test_coordinates_lead_there_and_back():
    chart, q = Chart(gaussian(0)), gaussian(1)
    again = chart.gaussian(chart.vector(q))
    np.testing.assert_allclose(again.mu, q.mu)
    np.testing.assert_allclose(again.factor, q.factor, atol=1e-12)


def test_distances_near_the_origin_are_divergences():
    chart = Chart(gaussian(0))
    z = chart.vector(chart.origin)
    for seed in range(5):
        step = 1e-3 * np.random.default_rng(seed).normal(size=len(z))
        assert divergence(chart.gaussian(z + step), chart.origin) == pytest.approx(0.5 * step @ step, rel=1e-2)


def test_slope_is_that_of_the_coordinates():
    chart, q, target = Chart(gaussian(0)), gaussian(1), gaussian(2)
    precision = np.linalg.inv(target.covariance)
    d_mu = precision @ (target.mu - q.mu)
    d_factor = np.diag(1 / np.diag(q.factor)) - precision @ q.factor
    z, step = chart.vector(q), 1e-5
    differences = [
        (divergence(chart.gaussian(z - step * e), target) - divergence(chart.gaussian(z + step * e), target))
        / (2 * step)
        for e in np.eye(len(z))
    ]
    np.testing.assert_allclose(chart.slope(d_mu, d_factor), differences, rtol=1e-5, atol=1e-7)


def test_curvature_is_that_of_full_bfgs():
    """Against the dense update of the inverse Hessian, from the identity."""
    rng = np.random.default_rng(3)
    A = rng.normal(size=(6, 6))
    hessian = A @ A.T + np.eye(6)
    learnt, dense = Curvature(), np.eye(6)
    for _ in range(4):
        move = rng.normal(size=6)
        change = hessian @ move
        learnt = learnt.with_move(move, change)
        left = np.eye(6) - np.outer(move, change) / (move @ change)
        dense = left @ dense @ left.T + np.outer(move, move) / (move @ change)
    slope = rng.normal(size=6)
    np.testing.assert_allclose(learnt.direction(slope), dense @ slope)


def test_curvature_forgets_old_moves_and_leaves_out_valleys():
    moves = np.random.default_rng(4).normal(size=(MEMORY + 3, 2))
    learnt = Curvature()
    for move in moves:
        learnt = learnt.with_move(move, 2 * move)
    assert len(learnt.moves) == MEMORY
    np.testing.assert_array_equal(learnt.moves[0], moves[3])
    assert learnt.with_move(moves[0], -moves[0]) is learnt
