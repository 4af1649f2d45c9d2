"""Adam on mini-batches of bags, one compiled call per epoch, whatever is minimised."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from vbagg.compiling import jit
from vbagg.inference.result import require_counts
from vbagg.progress import Report


@dataclass(frozen=True)
class Schedule:
    """How fast to descend, how long, and when to stop; `Adam` says what the fields are."""

    learning_rates: tuple[float, ...] = (0.01,)
    seeds: tuple[int, ...] = (0,)
    epochs: int = 450
    batch_size: int | None = None
    early_stopping: bool = False
    first_stop: int = 150
    patience: int = 10
    record_every: int = 10

    def __post_init__(self) -> None:
        require_counts(self, "epochs", "patience", "record_every")
        if self.batch_size is not None:
            require_counts(self, "batch_size", otherwise="or None for a tenth of the bags")

    def stopping_score(self, stopper: Any, validator: Any) -> Any:
        """The score that decides when to stop: that of the early-stop bags, of the validation bags, or None."""
        if stopper is not None:
            return stopper
        if self.early_stopping and validator is None:
            raise ValueError("Adam(early_stopping=True) needs `early_stop=(bags, y)` or `validation=(bags, y)` in fit.")
        return validator if self.early_stopping else None


class Objective(Protocol):
    """A loss of a mini-batch; hashable, since compiled functions depend on it."""

    def loss(self, state: Any, constants: Any, data: Any, batch: Any) -> jax.Array:
        """Loss of the bags of one mini-batch, `batch` being one step of what `Descent.batches` gives."""
        ...


@dataclass
class Run:
    """Where one learning rate and seed arrived."""

    state: Any
    epochs: int
    history: list[dict[str, Any]] = field(default_factory=list)
    stopped_early: bool = False
    """Whether held-out bags ended it."""
    losses: list[Any] = field(default_factory=list)
    """Mean loss of the mini-batches of each epoch."""


@dataclass(frozen=True)
class Descent:
    """What is minimised, over what, from where."""

    objective: Objective
    constants: Any
    data: Any
    n_bags: int
    start: Callable[[int], Any]
    """Starting state for a seed."""
    trainable: Any
    """Flags shaped like the state, True or False for each array."""
    batches: Callable[[np.ndarray], Callable[[int], Any]] = lambda orders: orders.__getitem__
    """From the positions (epochs, steps, batch) of all mini-batches to a function that gives those of one epoch."""

    def run(
        self,
        options: Schedule,
        rate: float,
        seed: int,
        measure: Callable[[Any], dict[str, float]],
        stopping_score: Callable[[Any], float] | None,
        report: Report,
    ) -> Run:
        """Minimise; `measure` describes a state for the history, `stopping_score` is larger for better states."""
        state = jax.tree.map(jnp.asarray, self.start(seed))
        parted = Parted(jax.tree.structure(state), tuple(jax.tree.leaves(self.trainable)))
        free, still = parted.split(state)
        memory = _optimiser().init(free)
        size = min(self.n_bags, options.batch_size or max(1, self.n_bags // 10))
        rng = np.random.default_rng(seed)
        orders = np.stack(
            [rng.permutation(self.n_bags)[: self.n_bags // size * size] for _ in range(options.epochs)]
        ).reshape(options.epochs, -1, size)
        batches = self.batches(orders)
        run, best, since = Run(state, 0), -np.inf, 0
        for epoch in range(options.epochs):
            free, memory, loss = _epoch(
                self.objective, parted, rate, self.constants, self.data, batches(epoch), still, free, memory
            )
            state = parted.merge(free, still)
            run.losses.append(loss)
            done = epoch + 1
            if done == options.epochs or epoch % options.record_every == 0:
                run.history.append({"epoch": epoch, "learning_rate": rate, "seed": seed, **measure(state)})
                report(run.history[-1])
            if stopping_score is None or done <= options.first_stop:
                run.state, run.epochs = state, done
                continue
            score = stopping_score(state)
            if score > best:
                best, since = score, 0
                run.state, run.epochs = state, done
            else:
                since += 1
            if since >= options.patience:
                run.stopped_early = True
                break
        return run


@dataclass(frozen=True)
class Parted:
    """Which arrays of a state are learnt: slopes of the others are not even computed."""

    structure: Any
    learnt: tuple[bool, ...]

    def split(self, state: Any) -> tuple[list[Any], list[Any]]:
        """Arrays that are learnt, and the others."""
        pairs = list(zip(jax.tree.leaves(state), self.learnt, strict=True))
        return [leaf for leaf, learnt in pairs if learnt], [leaf for leaf, learnt in pairs if not learnt]

    def merge(self, free: list[Any], still: list[Any]) -> Any:
        """The state again."""
        parts = {True: iter(free), False: iter(still)}
        return jax.tree.unflatten(self.structure, [next(parts[learnt]) for learnt in self.learnt])


def _optimiser() -> Any:
    import optax

    return optax.scale_by_adam()


@jit(static_argnames=("objective", "parted"))
def _epoch(
    objective: Objective,
    parted: Parted,
    rate: Any,
    constants: Any,
    data: Any,
    batches: Any,
    still: list[Any],
    free: list[Any],
    memory: Any,
) -> tuple[list[Any], Any, jax.Array]:
    optimiser = _optimiser()

    def step(carry: tuple[Any, Any], batch: Any) -> tuple[tuple[Any, Any], jax.Array]:
        free, memory = carry

        def loss_of(free: list[Any]) -> jax.Array:
            return objective.loss(parted.merge(free, still), constants, data, batch)

        loss, slopes = jax.value_and_grad(loss_of)(free)
        updates, memory = optimiser.update(slopes, memory)
        moved = [(leaf - rate * update).astype(leaf.dtype) for leaf, update in zip(free, updates, strict=True)]
        return (moved, memory), loss

    (free, memory), losses = jax.lax.scan(step, (free, memory), batches)
    return free, memory, jnp.mean(losses)
