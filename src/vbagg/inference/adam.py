"""The paper's inference: Adam over `q` and all parameters at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vbagg.chunks import Chunk
from vbagg.elbo import Spec, data_term, kl_divergence, stage
from vbagg.features import make_basis
from vbagg.inference.base import Inference, Task, Traits
from vbagg.inference.descent import Descent, Run, Schedule
from vbagg.inference.gaussian import Gaussian
from vbagg.inference.problem import Problem
from vbagg.inference.result import Fit, Status, choose
from vbagg.priors import LogPrior

JITTER = 1e-6
"""Relative jitter of every factorisation: a compiled epoch cannot raise it when needed."""


SETTLED = 0.5
"""Nats by which the objective of a run that has come to its end may still rise in its last fifth."""


@dataclass(frozen=True)
class NegativeElbo:
    """Minus the ELBO and log prior, estimated from a mini-batch of bags."""

    spec: Spec
    log_prior: LogPrior

    @property
    def jitter(self) -> tuple[float, ...]:
        """Relative jitter of each component."""
        return tuple(JITTER for _ in self.spec.feature_map.components)

    def loss(self, state: Any, constants: Any, data: Chunk, batch: Any) -> jax.Array:
        """Of the bags at the positions `batch`."""
        part = jax.tree.map(lambda leaf: leaf[batch], data)
        factor = jnp.tril(state["factor"])
        parameters = state["parameters"]
        basis = make_basis(self.spec.feature_map, parameters.kernel, parameters.landmarks, self.jitter)
        staged = stage(self.spec, basis, part, collapse=False)
        expected = data_term(self.spec, parameters.likelihood, staged, state["mu"], factor)
        bound = expected * (len(data.y) / len(batch)) - kl_divergence(state["mu"], factor)
        return -(bound + self.log_prior.density(parameters))


@dataclass(frozen=True)
class Adam(Schedule, Inference):
    """The paper's inference: stochastic gradients on mini-batches of bags, over `q` and all parameters at once.

    Parameters
    ----------
    learning_rates, seeds
        Every combination is run and the best kept: by validation score if a validation set is given to `fit`,
        by the training objective otherwise.
    epochs
        Passes over the bags.
    batch_size
        Bags in a mini-batch; None: a tenth of them.
    early_stopping
        Stop when the score of the held-out bags has not improved for `patience` epochs, counted from `first_stop`,
        and go back to the best epoch. The bags are `early_stop` of `fit`, which asks for it by itself, or else
        its `validation`.
    record_every
        Epochs between entries of `history_` (each costs a pass over the data).
    """

    @property
    def traits(self) -> Traits:
        """Mini-batches of any bags; parameters stay where the descent ends."""
        return Traits(any_batch=True, early_stop=True, averaged=False)

    def run(self, task: Task) -> Fit:
        """Run every learning rate and seed, and keep the best."""
        problem = task.problem
        objective = NegativeElbo(problem.spec, task.log_prior)
        m = problem.n_features
        state: Any = {"parameters": task.starts[0], "mu": np.zeros(m), "factor": 0.1 * np.eye(m)}
        flags = {"parameters": task.trainable, "mu": True, "factor": True}
        descent = Descent(objective, None, merge_chunks(problem.chunks), problem.n_bags, lambda seed: state, flags)
        stopping = self.stopping_score(task.stopper, task.validator)

        def as_fit(state: Any, run: Run | None = None) -> Fit:
            return _as_fit(problem, objective, state, run)

        fits = []
        for rate in self.learning_rates:
            for seed in self.seeds:
                run = descent.run(
                    self,
                    rate,
                    seed,
                    lambda state: {"elbo": as_fit(state).elbo},
                    None if stopping is None else lambda state: stopping(as_fit(state)),
                    task.report,
                )
                fits.append(as_fit(run.state, run))
        return choose(fits, problem, task.validator)


def merge_chunks(chunks: list[Chunk]) -> Chunk:
    """All bags in one padded chunk without tiles, so that any of them can share a mini-batch."""
    size = max(chunk.shape[1] for chunk in chunks)

    def merged(name: str) -> np.ndarray | None:
        parts = []
        for chunk in chunks:
            values = getattr(chunk, name)
            if values is None:
                return None
            kept = np.asarray(values)[np.asarray(chunk.valid) > 0]
            if name in ("X", "weight", "known", "rows"):
                short = size - kept.shape[1]
                width = ((0, 0), (0, short), (0, 0))[: kept.ndim]
                kept = np.pad(kept, width) if name == "weight" else np.pad(kept, width, mode="edge")
            parts.append(kept)
        return np.concatenate(parts)

    names = ("X", "weight", "known", "y", "valid", "residual_scale", "position", "rows", "drawn")
    kept = [np.asarray(chunk.valid) > 0 for chunk in chunks]
    facts = {
        name: np.concatenate([np.asarray(chunk.facts[name])[own] for chunk, own in zip(chunks, kept, strict=True)])
        for name in chunks[0].facts
    }
    arrays = {name: merged(name) for name in names}
    return Chunk(**arrays, facts=facts, tiles=None, groups=None, residual=chunks[0].residual)


def _as_fit(problem: Problem, objective: NegativeElbo, state: Any, run: Run | None) -> Fit:
    parameters = jax.tree.map(np.asarray, state["parameters"])
    factor = np.tril(np.asarray(state["factor"]))
    q = Gaussian(np.asarray(state["mu"]), factor * np.where(np.diag(factor) < 0, -1.0, 1.0))
    elbo = problem.at(parameters, objective.jitter).elbo(q)
    epochs, history = (run.epochs, run.history) if run else (0, [])
    status = Status(*_ending(run), epochs, 0)
    objective_ = elbo + objective.log_prior(parameters)[0]
    return Fit(parameters, q, q, elbo, objective_, objective.jitter, status, history)


def _ending(run: Run | None) -> tuple[bool, str]:
    """Whether a run came to its end, and how."""
    if run is None:
        return False, "Not run yet."
    if run.stopped_early:
        return True, f"Ran {run.epochs} epochs, until held-out bags were predicted no better."
    rise, noise = last_rise(-np.array(run.losses, dtype=float))
    if rise <= max(SETTLED, 2 * noise):
        return True, f"Ran {run.epochs} epochs; the objective no longer rises by more than its noise."
    return False, (
        f"Not converged: in the last fifth of {run.epochs} epochs the objective still rose by {rise:.1f} nats."
        " Try more epochs or other learning rates (`inference=Adam(epochs=..., learning_rates=...)`), or 'newton'."
    )


def last_rise(objective: np.ndarray) -> tuple[float, float]:
    """How much higher the objective is in the last fifth of all epochs than in the fifth before, and its error."""
    k = max(1, len(objective) // 5)
    before, last = objective[-2 * k : -k], objective[-k:]
    if not len(before):
        return np.inf, 0.0
    noise = np.sqrt((before.var() + last.var()) / k)
    return float(last.mean() - before.mean()), float(noise)
