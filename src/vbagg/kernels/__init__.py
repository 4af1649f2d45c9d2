"""Covariance functions: the structure is an object, the numbers are a separate tree.

A kernel says which columns it sees and which parameters it has. It is immutable and hashable, so it can be a
static argument of ``jax.jit``. Its numbers are logarithms: a dict per leaf, a tuple per `Sum` or `Product`.

>>> kernel = Linear("rain") + Matern32(["x", "y"])
>>> kernel = kernel.resolve(("rain", "x", "y"))
>>> log_params = kernel.initial_log_parameters()
>>> sorted(log_params[1])
['lengthscale', 'variance']

Then ``kernel.matrix(log_params, X1, X2)`` is (n1, n2) in the precision of ``X1`` and ``X2``. Starting values
and the numbers in the tree are in the units of those arrays, which the models standardise.
"""

from vbagg.kernels.base import Kernel, LogParameters, Product, Sum
from vbagg.kernels.distances import median_distance, squared_distances
from vbagg.kernels.families import RBF, Linear, Matern12, Matern32, Matern52, Periodic, White
from vbagg.kernels.graph import Graph
from vbagg.kernels.prior import PRIOR_NAMES, Prior
from vbagg.kernels.trees import describe, from_dict, leaves, log_prior, summary, trainable_mask, with_values

__all__ = [
    "PRIOR_NAMES",
    "RBF",
    "Graph",
    "Kernel",
    "Linear",
    "LogParameters",
    "Matern12",
    "Matern32",
    "Matern52",
    "Periodic",
    "Prior",
    "Product",
    "Sum",
    "White",
    "describe",
    "from_dict",
    "leaves",
    "log_prior",
    "median_distance",
    "squared_distances",
    "summary",
    "trainable_mask",
    "with_values",
]
