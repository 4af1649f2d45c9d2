"""VBAgg: a Gaussian process for individuals, learnt from bag totals by variational inference."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from numbers import Real
from typing import Any, ClassVar, Self

import jax
import numpy as np
from threadpoolctl import threadpool_limits

from vbagg import kernels
from vbagg.bags import Bags
from vbagg.chunks import Chunk, make_chunks, uniform_residual
from vbagg.elbo import APPROXIMATIONS
from vbagg.errors import ConvergenceWarning, NotFittedError, unknown_name
from vbagg.inference import Adam, Fit, Gaussian, Problem, Validator, average, get_inference
from vbagg.kernels import Kernel, Prior
from vbagg.landmarks import Landmarks
from vbagg.likelihoods import Likelihood, get_likelihood
from vbagg.links import Link, get_link
from vbagg.models import setup
from vbagg.models.base import Estimator
from vbagg.models.fitted import Fitted, Member
from vbagg.posterior import BagPosterior, Posterior
from vbagg.priors import make_log_prior
from vbagg.progress import Report, reporting
from vbagg.representatives import representative_bags
from vbagg.scaling import Scaler

DEFAULT_MEMORY = 2e9


class VBAgg(Estimator):
    """Rates of individuals from totals of bags.

    Parameters
    ----------
    likelihood
        "poisson", "normal", "exponential", "negative_binomial", "binomial", or an instance from
        `vbagg.likelihoods` (for a known `tau` or `dispersion`).
    link
        "square", "exp", "identity" or "logistic".
    approximation
        Of the expected log density: "matched" (default), "taylor", "bound" or "montecarlo".
    kernel
        A kernel; None: linear + ARD RBF on the covariates, plus Matern 3/2 on coordinates. Its numbers are in
        standard units: one sd of a covariate, one common sd of the coordinates.
    landmarks
        None (chosen from the size of the data), a number, an array, a `vbagg.Landmarks`, or a list of these with
        one entry per additive component that needs landmarks.
    residual
        Within-bag covariance: "exact", "diagonal", "subset", or "auto" (exact up to 128 individuals, then subset).
    inference
        "newton" (deterministic), "adam" (the paper's), or an instance `vbagg.Newton(...)`, `vbagg.Adam(...)`.
    priors
        "default", None, or a mapping from parameter names to `vbagg.Prior` that replaces some defaults.
    hyper
        "point": kernel parameters at their best; "average": average over their posterior.
    memory
        Bytes that intermediate arrays may take; None for 2 GB.
    random_state
        Seed of landmark choice, subset residuals and stochastic inference.
    """

    _not_stored: ClassVar[tuple[str, ...]] = ("_training_chunks",)

    def __init__(
        self,
        likelihood: str | Likelihood = "poisson",
        link: str = "square",
        approximation: str = "matched",
        kernel: Kernel | None = None,
        landmarks: Any = None,
        residual: str = "auto",
        inference: Any = "newton",
        priors: str | Mapping[str, Prior] | None = "default",
        hyper: str = "point",
        memory: float | None = None,
        random_state: int = 0,
    ) -> None:
        self.likelihood, self.link, self.approximation = likelihood, link, approximation
        self.kernel, self.landmarks, self.residual = kernel, landmarks, residual
        self.inference, self.priors, self.hyper = inference, priors, hyper
        self.memory, self.random_state = memory, random_state

    def fit(
        self,
        bags: Bags,
        y: Any,
        trials: Any = None,
        offset: Any = None,
        validation: tuple[Bags, Any] | None = None,
        progress: bool | Report | None = None,
    ) -> Self:
        """Learn from bag outputs.

        Parameters
        ----------
        bags
            The individuals of each bag.
        y
            Output of each bag: an array in the order of `bags.labels`, or a Series by label.
        trials
            Number examined in each bag, for the binomial.
        offset
            Known term of `f` per row of the data that made `bags`.
        validation
            `(bags, y)` held out: decides between starts, and when `adam` stops early.
        progress
            None, True, False or a function of one dict per evaluation.
        """
        likelihood, link = self._check_choices()
        setup.check_is_bags(bags)
        setup.check_kernel(self.kernel)
        if len(bags) < 2:
            raise ValueError(f"`bags` must hold at least 2 bags; got {len(bags)}. One total says nothing of variation.")
        inference = get_inference(self.inference)
        used, rows_offset = setup.drop_inert(bags, offset)
        values, n_trials = setup.check_outputs(used, y, trials, likelihood)
        kernel = (self.kernel or setup.default_kernel(used)).resolve(used.feature_names)
        options = self.landmarks if isinstance(self.landmarks, Landmarks) else Landmarks()
        components = setup.joint_components(kernel.components()) if options.joint else kernel.components()
        spec = setup.make_spec(components, likelihood, link, self.approximation)
        log_prior = make_log_prior(components, self.priors, link.name)
        scaler = Scaler.fit(used)
        rate_scale, base = setup.overall_rate(setup.bag_weights(used, link), values, link, n_trials)
        with jax.enable_x64(True):
            start = setup.start_parameters(spec, self.landmarks, used, scaler, self.random_state)
            blank = Member(1.0, spec, start, Gaussian(np.zeros(0), np.zeros((0, 0))), ())
            residual = uniform_residual(self.residual, used.sizes) if isinstance(inference, Adam) else self.residual
            memory = DEFAULT_MEMORY if self.memory is None else float(self.memory)
            names, named = used.feature_names, used.named
            frame = Fitted((blank,), scaler, rate_scale, base, names, named, residual, memory, self.random_state)
            validator = _validator(frame, validation)
            aux = setup.training_auxiliary(used, likelihood, n_trials, rate_scale)
            chunked = partial(make_chunks, y=values, aux=aux, random_state=self.random_state)
            ready, known = frame.standardised(used, rows_offset)
            chunks = chunked(ready, known=known, residual=residual)
            problem = Problem(spec, chunks, start.landmarks, frame.memory)
            number = getattr(inference, "representatives", None)
            if number is not None and residual != "diagonal" and used.sizes.max() > number:
                fewer, fewer_known = representative_bags(ready, known, number)
                problem.rough = Problem(spec, chunked(fewer, known=fewer_known), start.landmarks, frame.memory)
            trainable = setup.trainable(components, start, options.learn)
            # small matrices gain nothing from threads, which would fight with those of the compiled functions
            with reporting(progress, "vbagg") as report, threadpool_limits(1, user_api="blas"):
                fit = inference.run(
                    problem,
                    setup.starting_points(start, components),
                    trainable,
                    log_prior,
                    report,
                    validator,
                )
                members = [(1.0, fit)]
                if self.hyper == "average":
                    members = average(problem, fit, trainable, log_prior, report)
        self._fitted = _with_members(frame, members)
        self._training_chunks: list[Chunk] | None = chunks
        self._elbo_mc: float | None = None
        self.elbo_, self.status_, self.history_ = fit.elbo, fit.status, fit.history
        if not fit.status.converged:
            warnings.warn(fit.status.message, ConvergenceWarning, stacklevel=2)
        return self

    def posterior(self, X: Any, offset: Any = None) -> Posterior:
        """Posterior of the rate of individuals with these features."""
        return self._checked().posterior(X, offset)

    def posterior_bags(self, bags: Bags, offset: Any = None) -> BagPosterior:
        """Posterior of each bag's expected total."""
        return self._checked().posterior_bags(bags, offset)

    def predictive_bags(self, bags: Bags, trials: Any = None, offset: Any = None) -> Posterior:
        """Law of a new output of each bag: noise and bag effect included."""
        return self._checked().predictive_bags(bags, trials, offset)

    def predict(self, bags: Bags, trials: Any = None, offset: Any = None) -> np.ndarray:
        """Expected output of each bag."""
        if self._checked().spec.likelihood.name == "binomial":
            return self.predictive_bags(bags, trials, offset).mean
        return self.posterior_bags(bags, offset).mean

    def score(self, bags: Bags, y: Any, trials: Any = None, offset: Any = None) -> float:
        """Mean log predictive density of the outputs of bags."""
        return float(np.mean(self.predictive_bags(bags, trials, offset).log_prob(bags.align(y, "y"))))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one file; `vbagg.load` reads it."""
        from vbagg.io import save

        self._checked()
        save(self, path)

    @property
    def rate_scale_(self) -> float:
        """Overall rate, by which rates are scaled internally."""
        return self._checked().rate_scale

    @property
    def likelihood_parameters_(self) -> dict[str, float]:
        """Learnt parameters of the likelihood (`tau`, `dispersion`) in the user's units."""
        return self._best.learnt(self.rate_scale_)

    @property
    def kernel_(self) -> Kernel:
        """The kernel with its learnt values, in standard units."""
        components, values = self._best.spec.feature_map.components, self._best.parameters.kernel
        fitted = [kernels.with_values(c, p) for c, p in zip(components, values, strict=True)]
        return fitted[0] if len(fitted) == 1 else kernels.Sum(tuple(fitted))

    @property
    def landmarks_(self) -> list[np.ndarray | None]:
        """Landmarks of each additive component in its own columns and the user's units; None where not needed."""
        components, landmarks = self._best.spec.feature_map.components, self._best.parameters.landmarks
        scaler = self._checked().scaler
        return [
            None if Z is None else scaler.backward(np.asarray(Z), component.columns_used)
            for component, Z in zip(components, landmarks, strict=True)
        ]

    @property
    def parameters_(self) -> list[dict[str, Any]]:
        """All learnt parameters as rows of a table: standard units, user's units, relevance of ARD columns."""
        fitted = self._checked()
        rows: list[dict[str, Any]] = []
        components, values = self._best.spec.feature_map.components, self._best.parameters.kernel
        for number, (component, value) in enumerate(zip(components, values, strict=True)):
            for row in kernels.describe(component, value, fitted.feature_names, fitted.scaler.scale):
                rows.append({**row, "component": number})
        for name, number_ in self.likelihood_parameters_.items():
            rows.append(
                {
                    "component": None,
                    "kernel": None,
                    "parameter": name,
                    "value": number_,
                    "user_value": number_,
                }
            )
        return rows

    @property
    def elbo_mc_(self) -> float:
        """ELBO of the fit by Monte Carlo with a control variate (512 fixed draws); comparable between models."""
        self._checked()
        if self._elbo_mc is None:
            if self._training_chunks is None:
                raise AttributeError("elbo_mc_ needs the training data, which a loaded model does not hold.")
            best, spec = self._best, self._best.spec
            if spec.likelihood.name != "normal":
                spec = replace(spec, approximation="montecarlo", n_draws=512)
            with jax.enable_x64(True):
                problem = Problem(spec, self._training_chunks, best.parameters.landmarks, 0.0)
                self._elbo_mc = problem.at(best.parameters, best.jitter).elbo(best.q)
        return self._elbo_mc

    def _checked(self) -> Fitted:
        if not hasattr(self, "_fitted"):
            raise NotFittedError(f"This {type(self).__name__} is not fitted yet; call `fit(bags, y)` first.")
        return self._fitted

    @property
    def _best(self) -> Member:
        return self._checked().members[0]

    def _check_choices(self) -> tuple[Likelihood, Link]:
        likelihood, link = get_likelihood(self.likelihood), get_link(self.link)
        likelihood.check_link(link.name)
        choices = (
            ("approximation", self.approximation, APPROXIMATIONS),
            ("residual", self.residual, setup.RESIDUALS),
            ("hyper", self.hyper, ("point", "average")),
        )
        for name, value, known in choices:
            if value not in known:
                raise unknown_name(name, value, known)
        if self.memory is not None and not (isinstance(self.memory, Real) and self.memory > 0):
            raise ValueError(f"`memory` must be a positive number of bytes, such as 2e9, or None; got {self.memory!r}.")
        return likelihood, link


def _with_members(frame: Fitted, members: Sequence[tuple[float, Fit]]) -> Fitted:
    built = [Member(w, frame.spec, fit.parameters, fit.q, fit.jitter) for w, fit in members]
    return replace(frame, members=tuple(built))


def _validator(frame: Fitted, validation: tuple[Bags, Any] | None) -> Validator | None:
    """Function that scores a fit by its mean log predictive density on held-out bags."""
    if validation is None:
        return None
    if not (isinstance(validation, tuple) and len(validation) == 2):
        raise TypeError(f"`validation` must be a pair (bags, y); got {type(validation).__name__}.")
    bags, y = validation
    frame.check_bags(bags)
    if frame.spec.likelihood.name == "binomial":
        raise ValueError("`validation` cannot carry `trials`; compare binomial models with `score` instead.")
    outputs, _ = setup.check_outputs(bags, y, None, frame.spec.likelihood)

    def score(fit: Fit, problem: Problem) -> float:
        law = _with_members(frame, [(1.0, fit)]).predictive_bags(bags, None, None)
        return float(np.mean(law.log_prob(outputs)))

    return score
