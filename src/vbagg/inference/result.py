"""What an inference returns, and how it says whether it converged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any

import jax
import numpy as np

from vbagg.elbo import Parameters
from vbagg.inference.gaussian import Gaussian
from vbagg.inference.problem import Problem


@dataclass(frozen=True)
class Status:
    """How a fit ended. `message` says what happened and, if it did not converge, what to do."""

    converged: bool
    message: str
    iterations: int
    evaluations: int
    starts: tuple[float, ...] = ()
    """Objective reached from each start."""
    jitter: float = 0.0
    """Largest relative jitter that a factorisation needed."""
    representation_gap: float = 0.0
    """ELBO with all individuals minus that with the representatives of the search, at the learnt parameters."""
    effective: float = 1.0
    """Effective number of the parameter values that predictions average over."""
    points: int = 1
    """Parameter values that were tried for that."""
    notes: tuple[str, ...] = ()
    """What the data cannot tell, or the model should not claim."""
    residual_sd: np.ndarray = field(default_factory=lambda: np.zeros(0), repr=False, compare=False)
    """Of each training bag's total, relative to it: sd of what landmarks do not explain, the individual effect
    included."""
    noise_sd: np.ndarray = field(default_factory=lambda: np.zeros(0), repr=False, compare=False)
    """The same of the output's noise given its total, the bag's own effect included."""
    repeated: bool = False
    """Whether this start was stopped because it had come to an earlier start's optimum."""


@dataclass(frozen=True)
class Fit:
    """Learnt parameters, posterior of the weights, and the path to them."""

    parameters: Parameters
    q: Gaussian
    """Where the ELBO is largest."""
    posterior: Gaussian
    """What predictions use: the same mean, with the covariance of the linearised model."""
    elbo: float
    objective: float
    """ELBO plus log prior."""
    jitter: tuple[float, ...]
    """Relative jitter of each component's factorisation."""
    status: Status
    history: list[dict[str, Any]] = field(repr=False, default_factory=list)
    curvature: np.ndarray = field(repr=False, default_factory=lambda: np.zeros((0, 0)))
    """Inverse Hessian of minus the objective in the trainable parameters, as far as a search has learnt it."""
    spreads: tuple[np.ndarray, np.ndarray] | None = field(repr=False, default=None)
    """Residual and noise of each total (`Status.residual_sd`, `noise_sd`), if the inference has come by them."""


class FlatParameters:
    """The trainable part of a `Parameters` tree as one vector."""

    def __init__(self, start: Parameters, trainable: Parameters) -> None:
        self.leaves, self.tree = jax.tree.flatten(start)
        self.flags = jax.tree.leaves(trainable)
        self.landmark_leaves = len(jax.tree.leaves(start.landmarks))
        if len(self.flags) != len(self.leaves):
            raise ValueError("`trainable` must have one flag per parameter array.")

    def ravel(self, parameters: Parameters) -> np.ndarray:
        """Vector of the trainable numbers."""
        chosen = [np.ravel(x) for x, flag in zip(jax.tree.leaves(parameters), self.flags, strict=True) if flag]
        return np.concatenate(chosen).astype(float) if chosen else np.zeros(0)

    def unravel(self, vector: np.ndarray) -> Parameters:
        """Tree with the vector's numbers in place of the start's."""
        leaves, at = [], 0
        for leaf, flag in zip(self.leaves, self.flags, strict=True):
            size = np.size(leaf)
            leaves.append(np.reshape(vector[at : at + size], np.shape(leaf)) if flag else leaf)
            at += size if flag else 0
        return jax.tree.unflatten(self.tree, leaves)

    def together(self) -> np.ndarray:
        """Axes (k, groups) along which numbers of one array, as the length-scales of a kernel, move by the same amount.

        Landmarks, where they are learnt, stay where they are.
        """
        numbers = [np.full(np.shape(leaf), i) for i, leaf in enumerate(self.leaves)]
        which = self.ravel(jax.tree.unflatten(self.tree, numbers))
        kinds = np.unique(which[which < len(self.leaves) - self.landmark_leaves])
        return (which[:, None] == kinds).astype(float)


Validator = Callable[[Fit], float]


def choose(fits: list[Fit], problem: Problem, validator: Validator | None) -> Fit:
    """The fit with the best validation score, or objective without one, with a status that speaks of all fits."""
    scores = [fit.objective if validator is None else validator(fit) for fit in fits]
    if np.isnan(scores).all():
        raise FloatingPointError("No run stayed finite; try smaller `learning_rates` of Adam, or rescale the data.")
    best = fits[int(np.nanargmax(scores))]
    objectives = tuple(fit.objective for fit in fits)
    message = best.status.message
    own = [fit.objective for fit in fits if not fit.status.repeated]
    spread = max(own) - min(own)
    if spread > 1.0:
        message += f" {len(fits)} starts disagree by {spread:.1f} nats; the best was kept."
    status = Status(
        best.status.converged,
        message,
        sum(fit.status.iterations for fit in fits),
        sum(part.evaluations for part in problem.parts),
        objectives,
        max(part.max_jitter for part in problem.parts),
        best.status.representation_gap,
    )
    return replace(best, status=status)


def require_counts(options: Any, *names: str, otherwise: str = "") -> None:
    """Refuse options that are not whole numbers of at least one; `otherwise` says what else they may be."""
    for name in names:
        value = getattr(options, name)
        if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
            wanted = f"a whole number >= 1, {otherwise}" if otherwise else "a whole number >= 1"
            raise ValueError(f"`{name}` of {type(options).__name__} must be {wanted}; got {value!r}.")
