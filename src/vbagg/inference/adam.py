"""The paper's inference: Adam on mini-batches of bags over `q` and all parameters at once, compiled per epoch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vbagg.chunks import Chunk
from vbagg.elbo import Parameters, Spec, data_term, kl_divergence, stage
from vbagg.inference.problem import Gaussian, Problem
from vbagg.inference.result import Fit, Status, Validator, choose, require_counts
from vbagg.priors import LogPrior
from vbagg.progress import Report

JITTER = 1e-6
"""Relative jitter of every factorisation: a compiled epoch cannot raise it when needed."""


@dataclass(frozen=True)
class Adam:
    """Stochastic gradients on mini-batches of bags.

    Parameters
    ----------
    learning_rates, seeds
        Every combination is run and the best kept: by validation score if a validation set is given to `fit`,
        by the ELBO otherwise.
    epochs
        Passes over the bags.
    batch_size
        Bags in a mini-batch; None: a tenth of them.
    early_stopping
        Stop when the validation score has not improved for `patience` epochs, counted from `first_stop`.
    record_every
        Epochs between entries of `history_` (each costs a pass over the data).
    """

    learning_rates: tuple[float, ...] = (0.01,)
    seeds: tuple[int, ...] = (0,)
    epochs: int = 450
    batch_size: int | None = None
    early_stopping: bool = False
    first_stop: int = 150
    patience: int = 10
    record_every: int = 10

    def __post_init__(self) -> None:
        require_counts(self, "epochs", "batch_size", "patience", "record_every")

    def run(
        self,
        problem: Problem,
        starts: list[Parameters],
        trainable: Parameters,
        log_prior: LogPrior,
        report: Report,
        validator: Validator | None = None,
    ) -> Fit:
        """Run every learning rate and seed from the first start."""
        if self.early_stopping and validator is None:
            raise ValueError("Adam(early_stopping=True) needs `validation=(bags, y)` in fit.")
        fits = [
            self._run_one(problem, starts[0], trainable, log_prior, report, validator, rate, seed)
            for rate in self.learning_rates
            for seed in self.seeds
        ]
        return choose(fits, problem, validator)

    def _run_one(
        self,
        problem: Problem,
        start: Parameters,
        trainable: Parameters,
        log_prior: LogPrior,
        report: Report,
        validator: Validator | None,
        rate: float,
        seed: int,
    ) -> Fit:
        import optax

        chunk = merge_chunks(problem.chunks)
        n_bags, m = problem.n_bags, problem.n_features
        batch = min(n_bags, self.batch_size or max(1, n_bags // 10))
        state: Any = {"parameters": start, "mu": np.zeros(m), "factor": 0.1 * np.eye(m)}
        state = jax.tree.map(jnp.asarray, state)
        mask = jax.tree.map(lambda free, leaf: np.full(np.shape(leaf), float(free)), trainable, start)
        optimiser = optax.adam(rate)
        memory = optimiser.init(state)
        rng = np.random.default_rng(seed)
        history: list[dict] = []
        best: tuple[float, Fit] | None = None
        for epoch in range(self.epochs):
            order = rng.permutation(n_bags)[: n_bags // batch * batch].reshape(-1, batch)
            state, memory = _epoch(problem.spec, log_prior, rate, mask, chunk, order, state, memory)
            last = epoch + 1 == self.epochs
            if last or epoch % self.record_every == 0:
                fit = _as_fit(problem, log_prior, state, history, epoch + 1)
                history.append({"epoch": epoch, "learning_rate": rate, "seed": seed, "elbo": fit.elbo})
                report(history[-1])
            if self.early_stopping and epoch >= self.first_stop:
                assert validator is not None
                fit = _as_fit(problem, log_prior, state, history, epoch + 1)
                score = validator(fit, problem)
                if best is None or score > best[0]:
                    best, since = (score, fit), 0
                else:
                    since += 1
                if since >= self.patience:
                    break
        return best[1] if best is not None else fit


def merge_chunks(chunks: list[Chunk]) -> Chunk:
    """All bags in one padded chunk, so that any of them can share a mini-batch."""
    size = max(chunk.shape[1] for chunk in chunks)

    def merged(name: str) -> np.ndarray | None:
        parts = []
        for chunk in chunks:
            values = getattr(chunk, name)
            if values is None:
                return None
            kept = np.asarray(values)[np.asarray(chunk.valid) > 0]
            if name in ("X", "weight", "known"):
                short = size - kept.shape[1]
                width = ((0, 0), (0, short), (0, 0))[: kept.ndim]
                kept = np.pad(kept, width) if name == "weight" else np.pad(kept, width, mode="edge")
            parts.append(kept)
        return np.concatenate(parts)

    names = ("X", "weight", "known", "y", "aux", "valid", "position", "drawn")
    return Chunk(**{name: merged(name) for name in names}, residual=chunks[0].residual)


@partial(jax.jit, static_argnames=("spec", "log_prior", "rate"))
def _epoch(
    spec: Spec,
    log_prior: LogPrior,
    rate: float,
    mask: Parameters,
    chunk: Chunk,
    order: jax.Array,
    state: Any,
    memory: Any,
) -> tuple[Any, Any]:
    import optax

    optimiser = optax.adam(rate)
    n_bags = chunk.weight.shape[0]
    jitter = tuple(JITTER for _ in spec.feature_map.components)

    def loss(state: Any, rows: jax.Array) -> jax.Array:
        part = jax.tree.map(lambda leaf: leaf[rows], chunk)
        factor = jnp.tril(state["factor"])
        staged = stage(spec, state["parameters"], jitter, part, collapse=False)
        data = data_term(spec, state["parameters"].likelihood, staged, state["mu"], factor)
        bound = data * (n_bags / len(rows)) - kl_divergence(state["mu"], factor)
        return -(bound + log_prior.density(state["parameters"]))

    def step(carry: tuple[Any, Any], rows: jax.Array) -> tuple[tuple[Any, Any], None]:
        state, memory = carry
        slopes = jax.grad(loss)(state, rows)
        slopes["parameters"] = jax.tree.map(jnp.multiply, slopes["parameters"], mask)
        updates, memory = optimiser.update(slopes, memory)
        return (optax.apply_updates(state, updates), memory), None

    return jax.lax.scan(step, (state, memory), order)[0]


def _as_fit(problem: Problem, log_prior: LogPrior, state: Any, history: list[dict], epochs: int) -> Fit:
    parameters = jax.tree.map(np.asarray, state["parameters"])
    factor = np.tril(np.asarray(state["factor"]))
    q = Gaussian(np.asarray(state["mu"]), factor * np.where(np.diag(factor) < 0, -1.0, 1.0))
    jitter = tuple(JITTER for _ in problem.spec.feature_map.components)
    elbo = problem.at(parameters, jitter).elbo(q)
    status = Status(True, f"Ran {epochs} epochs; stochastic gradients do not test convergence.", epochs, 0)
    return Fit(parameters, q, elbo, elbo + log_prior(parameters)[0], jitter, status, history)
