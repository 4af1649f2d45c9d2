"""The penalised loss of a mini-batch of bags.

`loss = l0 / b + (penalty |weights|^2 / 2 - log prior) / n_bags + lambda_1 l1 / n^2 + lambda_2 l2 / b^2`, where `l0` is
minus the log likelihood of the `b` bags of a mini-batch, `l1` the manifold term of its `n` individuals and `l2` that of
its bags (MATH section 10). Of a large mini-batch every second individual or fewer enter `l1`, a mean over pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vbagg import manifold as manifolds
from vbagg.bags import Bags
from vbagg.chunks import round_up
from vbagg.compiling import jit
from vbagg.likelihoods.base import Facts, Likelihood
from vbagg.manifold import Manifold
from vbagg.models.functions import LatentFunction
from vbagg.priors import LogPrior

ROWS_PER_STEP = 65536
COMPARED = 2048
"""Individuals of a mini-batch that are compared with each other at most."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class FlatBags:
    """All individuals one after another, and the numbers of each bag."""

    X: Any
    weight: Any
    known: Any
    y: Any
    facts: Any
    similar: Any = None
    """(n, k) features whose products say how alike individuals are, None without that term."""


@dataclass(frozen=True)
class BagLoss:
    """Penalised loss of a mini-batch."""

    function: LatentFunction
    likelihood: Likelihood
    link: Any
    log_prior: LogPrior
    bag_similarity: bool

    def log_probs(self, state: Any, data: FlatBags, batch: dict[str, Any]) -> tuple[jax.Array, jax.Array]:
        """Log density of each bag of a mini-batch, and the learnt part of `f` of its individuals."""
        rows, slot, bag = batch["rows"], batch["slot"], batch["bag"]
        f = self.function.apply(state["weights"], state["parameters"], data.X[rows])
        rate = batch["inside"] * data.weight[rows] * self.link.value(f + data.known[rows])
        T = jax.ops.segment_sum(rate.astype(jnp.float64), slot, len(bag))
        facts = {name: values[bag] for name, values in data.facts.items()}
        return self.likelihood.log_prob(data.y[bag], T, facts, state["parameters"].likelihood), f

    def loss(self, state: Any, constants: Any, data: FlatBags, batch: dict[str, Any]) -> jax.Array:
        """The loss."""
        log_probs, f = self.log_probs(state, data, batch)
        b = len(batch["bag"])
        prior = constants["penalty"] * self.function.penalty(state["weights"])
        prior = prior - self.log_prior.density(state["parameters"])
        total = -jnp.mean(log_probs) + prior / len(data.y)
        if data.similar is not None:
            every = -(-len(f) // COMPARED)
            rows, inside = batch["rows"][::every], batch["inside"][::every]
            total += constants["strength"] * _roughness(f[::every], inside, data.similar[rows])
        if self.bag_similarity:
            size = jax.ops.segment_sum(batch["inside"], batch["slot"], b)
            mean = jax.ops.segment_sum(batch["inside"] * f, batch["slot"], b) / size
            K = constants["bag_kernel"][batch["bag"]][:, batch["bag"]]
            total += constants["bag_strength"] * manifolds.bag_laplacian_form(mean, K) / b**2
        return total


def _roughness(f: jax.Array, inside: jax.Array, similar: jax.Array) -> jax.Array:
    """`l1 / n^2` of the `n` individuals that are inside."""
    n = jnp.sum(inside)
    # the form does not see a constant, which would cost precision
    centred = inside * (f - jnp.sum(inside * f) / n)
    return manifolds.laplacian_form(centred, inside[:, None] * similar) / n**2


@dataclass(frozen=True)
class Batches:
    """From positions of bags to the rows of their individuals, padded to one length."""

    bags: Bags

    def __call__(self, orders: np.ndarray) -> Callable[[int], dict[str, np.ndarray]]:
        """Function that gives the mini-batches of one epoch, of positions (epochs, steps, b)."""
        length = round_up(int(self.bags.sizes[orders].sum(axis=-1).max()))
        return lambda epoch: self._rows(orders[epoch], length)

    def everything(self) -> dict[str, np.ndarray]:
        """All bags in a few steps, the last one filled up with bags that do not count."""
        n_bags = len(self.bags)
        steps = min(n_bags, 1 + self.bags.n_individuals // ROWS_PER_STEP)
        size = -(-n_bags // steps)
        positions = np.arange(steps * size)
        counts = (positions < n_bags).astype(np.float32)
        steps_of_bags = np.minimum(positions, n_bags - 1).reshape(steps, size)
        length = round_up(int(self.bags.sizes[steps_of_bags].sum(axis=-1).max()))
        return {**self._rows(steps_of_bags, length), "counts": counts.reshape(steps, size)}

    def _rows(self, positions: np.ndarray, length: int) -> dict[str, np.ndarray]:
        """Rows, whether they are inside, and the slot of their bag, for positions (steps, b)."""
        rows = np.zeros((len(positions), length), np.int32)
        slot, inside = np.zeros_like(rows), np.zeros(rows.shape, np.float32)
        for step, own in enumerate(positions):
            sizes = self.bags.sizes[own]
            count, first = sizes.sum(), np.cumsum(sizes) - sizes
            rows[step, :count] = np.arange(count) + np.repeat(self.bags.starts[own] - first, sizes)
            slot[step, :count] = np.repeat(np.arange(len(own)), sizes)
            inside[step, :count] = 1.0
        return {"rows": rows, "slot": slot, "inside": inside, "bag": positions.astype(np.int32)}


def flat_bags(bags: Bags, known: np.ndarray, y: np.ndarray, facts: Facts, similar: Any = None) -> FlatBags:
    """Bags in standard units, rows in float32."""
    X, weight, known = (np.asarray(values, np.float32) for values in (bags.X, bags.weight, known))
    return FlatBags(X, weight, known, y, facts, similar)


def mean_log_prob(objective: BagLoss, bags: Bags, data: FlatBags) -> Callable[[Any], float]:
    """Function that gives the mean log density of all bags for a state."""
    batches = Batches(bags).everything()
    return lambda state: float(_mean_log_prob(objective, state, data, batches))


@jit(static_argnames="objective")
def _mean_log_prob(objective: BagLoss, state: Any, data: FlatBags, batches: Any) -> jax.Array:
    def one(batch: Any) -> jax.Array:
        return jnp.sum(batch["counts"] * objective.log_probs(state, data, batch)[0])

    return jnp.sum(jax.lax.map(one, batches)) / len(data.y)


def manifold_terms(
    options: Manifold | None, bags: Bags, covariates: np.ndarray | None, seed: int
) -> tuple[np.ndarray | None, dict[str, Any]]:
    """Features of the individuals, if these are compared, and the strengths and bag kernel of the terms in use."""
    constants: dict[str, Any] = {}
    if covariates is not None and (options is None or options.bag_strength == 0):
        raise ValueError("`bag_covariates` needs a `manifold` with `bag_strength` above zero, which compares bags.")
    if options is None or (options.strength == 0 and options.bag_strength == 0):
        return None, constants
    similar = manifolds.similarity_features(options, bags, seed)
    if options.bag_strength > 0:
        constants["bag_kernel"] = manifolds.bag_kernel(similar, bags, covariates)
        constants["bag_strength"] = options.bag_strength
    if options.strength == 0:
        return None, constants
    return similar, {**constants, "strength": options.strength}
