"""ManifoldNN: the paper's baseline of a manifold-regularised neural network."""

from __future__ import annotations

from typing import Any

import numpy as np

from vbagg.elbo import Parameters
from vbagg.likelihoods.base import Likelihood
from vbagg.manifold import Manifold
from vbagg.models import setup
from vbagg.models.functions import LatentFunction, Network
from vbagg.models.point import PointModel
from vbagg.priors import LogPrior, make_log_prior


class ManifoldNN(PointModel):
    """One hidden layer of rectified linear units, trained on bag totals.

    Parameters
    ----------
    likelihood, link
        As for `VBAgg`.
    hidden
        Units of the hidden layer.
    penalty
        On half the sum of squared weights.
    manifold
        A `vbagg.Manifold` that asks for similar values of similar individuals or bags; None for none.
    inference
        "adam" or a `vbagg.Adam(...)`.
    random_state
        Seed of the random features, added to the seeds of `inference` for starting weights.
    """

    def __init__(
        self,
        likelihood: str | Likelihood = "poisson",
        link: str = "exp",
        hidden: int = 50,
        penalty: float = 1.0,
        manifold: Manifold | None = Manifold(),  # noqa: B008 (immutable)
        inference: Any = "adam",
        random_state: int = 0,
    ) -> None:
        self.likelihood, self.link, self.hidden, self.penalty = likelihood, link, hidden, penalty
        self.manifold, self.inference, self.random_state = manifold, inference, random_state

    def _structure(
        self, data: setup.TrainingData, likelihood: Likelihood
    ) -> tuple[LatentFunction, Parameters, Parameters, LogPrior]:
        if not (isinstance(self.hidden, int) and self.hidden >= 1):
            raise ValueError(f"`hidden` must be a whole number >= 1; got {self.hidden!r}.")
        start = {name: np.log(prior.median) for name, prior in likelihood.priors().items()}
        flags = Parameters((), dict.fromkeys(start, True), ())
        return (
            Network(self.hidden),
            Parameters((), start, ()),
            flags,
            make_log_prior((), "default", likelihood, data.frame.link),
        )
