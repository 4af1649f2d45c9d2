"""Nystrom: the paper's baseline of a point estimate on explicit kernel features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vbagg.elbo import Parameters
from vbagg.kernels import Kernel, Prior
from vbagg.likelihoods.base import Likelihood
from vbagg.manifold import Manifold
from vbagg.models import setup
from vbagg.models.functions import LandmarkFunction, LatentFunction
from vbagg.models.point import PointModel
from vbagg.priors import LogPrior, make_log_prior


class Nystrom(PointModel):
    """`f = Phi(x) beta` on landmark features: the best `beta` and kernel parameters under their priors.

    Parameters
    ----------
    likelihood, link, kernel, landmarks, priors
        As for `VBAgg`.
    penalty
        Precision of the normal prior of `beta`, `1 / gamma^2`.
    manifold
        A `vbagg.Manifold` that asks for similar values of similar individuals or bags; None for none.
    inference
        "adam" or a `vbagg.Adam(...)`.
    random_state
        Seed of landmark choice and random features, added to the seeds of `inference` for starting weights.
    """

    def __init__(
        self,
        likelihood: str | Likelihood = "poisson",
        link: str = "exp",
        kernel: Kernel | None = None,
        landmarks: Any = None,
        penalty: float = 1.0,
        manifold: Manifold | None = None,
        inference: Any = "adam",
        priors: str | Mapping[str, Prior] | None = "default",
        random_state: int = 0,
    ) -> None:
        self.likelihood, self.link, self.kernel, self.landmarks = likelihood, link, kernel, landmarks
        self.penalty, self.manifold, self.inference = penalty, manifold, inference
        self.priors, self.random_state = priors, random_state

    def _structure(
        self, data: setup.TrainingData, likelihood: Likelihood
    ) -> tuple[LatentFunction, Parameters, Parameters, LogPrior]:
        components, learn_landmarks = setup.resolve_components(self.kernel, self.landmarks, data.bags)
        spec = setup.make_spec(components, likelihood, data.frame.link, "matched")
        start = setup.start_parameters(spec, self.landmarks, data.portions, data.frame.scaler, self.random_state)
        return (
            LandmarkFunction(spec.feature_map),
            start,
            setup.trainable(components, start, learn_landmarks),
            make_log_prior(components, self.priors, likelihood, data.frame.link),
        )
