"""Functions over a kernel and its tree of log-parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vbagg.kernels.base import Composite, Kernel, LogParameters, Product, Sum
from vbagg.kernels.families import RBF, Linear, Matern12, Matern32, Matern52, Periodic, White
from vbagg.kernels.graph import Graph
from vbagg.kernels.leaf import Leaf
from vbagg.kernels.prior import PRIOR_NAMES, Prior

KINDS = {
    kind.__name__: kind for kind in (RBF, Matern12, Matern32, Matern52, Linear, Periodic, White, Graph, Sum, Product)
}


def from_dict(values: Mapping[str, Any]) -> Kernel:
    """Return the kernel that `Kernel.to_dict` described."""
    fields = dict(values)
    kind = fields.pop("kind", None)
    if kind not in KINDS:
        raise ValueError(f"The `kind` of a kernel must be one of {list(KINDS)}; got {kind!r}.")
    if "parts" in fields:
        fields["parts"] = tuple(from_dict(part) for part in fields["parts"])
    return KINDS[kind](**fields)


def trainable_mask(kernel: Kernel) -> Any:
    """Return a tree like the log-parameters that tells which of them are learnt."""
    if isinstance(kernel, Composite):
        return tuple(trainable_mask(part) for part in kernel.parts)
    (leaf,) = kernel._leaves()
    return {name: name not in leaf.fixed for name in leaf.parameters}


def leaves(kernel: Kernel, log_params: LogParameters) -> Iterator[tuple[Leaf, dict[str, Any]]]:
    """Iterate over the leaves of a kernel, each with its own log-parameters."""
    if isinstance(kernel, Composite):
        for part, tree in kernel._pairs(log_params):
            yield from leaves(part, tree)
    else:
        (leaf,) = kernel._leaves()
        yield leaf, log_params


def with_values(kernel: Kernel, log_params: LogParameters) -> Kernel:
    """Return the kernel whose starting values are these parameters."""
    if isinstance(kernel, Composite):
        parts = tuple(with_values(part, tree) for part, tree in zip(kernel.parts, log_params, strict=True))
        return type(kernel)(parts)
    values = {name: np.exp(value) for name, value in log_params.items()}
    assert isinstance(kernel, Leaf)
    return kernel._with(**{name: value.tolist() for name, value in values.items()})


def log_prior(kernel: Kernel, log_params: LogParameters, priors: Mapping[str, Prior] | None) -> jax.Array | float:
    """Sum the log densities of the trainable log-parameters that have a prior; zero without priors.

    The medians of "lengthscale" and "period" are multiples of the typical values of `PRIOR_NAMES`.
    """
    if priors is None:
        return 0.0
    if unknown := sorted(set(priors) - set(PRIOR_NAMES)):
        raise ValueError(f"`priors` must have keys among {list(PRIOR_NAMES)}; got {unknown}.")
    densities = (
        jnp.sum(prior.log_density(tree[name]))
        for leaf, tree in leaves(kernel, log_params)
        for name in leaf.parameters
        if name not in leaf.fixed and (prior := leaf._prior(name, priors)) is not None
    )
    return sum(densities, 0.0)


def summary(kernel: Kernel, feature_names: Sequence[str] = ()) -> str:
    """A kernel in a few words: its families and their columns."""
    if isinstance(kernel, Composite):
        sign = " + " if isinstance(kernel, Sum) else " * "
        parts = [summary(part, feature_names) for part in kernel.parts]
        return sign.join(f"({part})" if sign == " * " and " + " in part else part for part in parts)
    assert isinstance(kernel, Leaf)
    columns = kernel.columns or ()
    names = [feature_names[c] if feature_names and isinstance(c, int) else str(c) for c in columns]
    return f"{kernel._name}({', '.join(names) if len(names) <= 3 else f'{len(names)} columns'})"


def describe(
    kernel: Kernel,
    log_params: LogParameters,
    feature_names: Sequence[str],
    scales: Sequence[float] | np.ndarray,
) -> list[dict[str, Any]]:
    """List the parameters as rows of a table, with ARD one row per column.

    Parameters
    ----------
    feature_names, scales : the name of every column, and the scale it was divided by

    Returns
    -------
    Rows with the keys ``component`` (number of the additive term), ``kernel``, ``parameter``, ``columns``
    (names), ``value`` (standardised units), ``user_value``, ``relevance`` and ``fixed``.

    - ``user_value`` of a length-scale or period is multiplied by the scale of its columns (None where they
      differ); of a `Linear` variance it is the prior sd of the slope per user unit.
    - ``relevance``, with ARD only, is 1 / length-scale (`Linear`: slope sd), at most 1.
    """
    kernel = kernel.resolve(feature_names)
    trees = log_params if isinstance(kernel, Sum) else (log_params,)
    scales = np.asarray(scales, dtype=np.float64)
    return [
        {"component": number, **row}
        for number, (component, tree) in enumerate(zip(kernel.components(), trees, strict=True))
        for leaf, leaf_tree in leaves(component, tree)
        for name in leaf.parameters
        for row in _rows(leaf, name, np.exp(np.asarray(leaf_tree[name], np.float64)), feature_names, scales)
    ]


def _rows(
    leaf: Leaf, name: str, values: np.ndarray, feature_names: Sequence[str], scales: np.ndarray
) -> Iterator[dict[str, Any]]:
    groups = [(column,) for column in leaf.column_numbers] if values.ndim else [leaf.column_numbers]
    relevances = leaf._relevance(values).tolist() if values.ndim else [None]
    for columns, value, relevance in zip(groups, np.atleast_1d(values).tolist(), relevances, strict=True):
        own = scales[list(columns)]
        shared = float(own[0]) if len(own) and np.allclose(own, own[0], rtol=1e-9, atol=0.0) else None
        yield {
            "kernel": type(leaf).__name__,
            "parameter": name,
            "columns": tuple(feature_names[column] for column in columns),
            "value": value,
            "user_value": leaf._in_user_units(name, value, shared),
            "relevance": relevance,
            "fixed": name in leaf.fixed,
        }
