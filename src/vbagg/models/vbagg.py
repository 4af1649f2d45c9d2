"""VBAgg: a Gaussian process for individuals, learnt from bag totals by variational inference."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Self

import jax
import numpy as np

from vbagg import kernels
from vbagg.bags import Bags
from vbagg.chunks import Chunk, make_chunks
from vbagg.elbo import APPROXIMATIONS, Parameters, Spec
from vbagg.errors import ConvergenceWarning, unknown_name
from vbagg.features import Basis, make_basis
from vbagg.inference import Fit, Problem, get_inference
from vbagg.kernels import Kernel, Prior
from vbagg.landmarks import Landmarks
from vbagg.likelihoods import Likelihood, get_likelihood
from vbagg.links import Link, get_link
from vbagg.models import setup
from vbagg.models.base import Estimator
from vbagg.posterior import (
    RATE_LAWS,
    TOTAL_LAWS,
    BagPosterior,
    Posterior,
    bag_moments,
    draw_bags,
    draw_rows,
    row_marginals,
)
from vbagg.priors import make_log_prior
from vbagg.progress import Report, reporting
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
        Within-bag covariance: "exact", "diagonal", "subset", or "auto" (exact up to 384 individuals, then subset).
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
        if not isinstance(bags, Bags):
            raise TypeError(
                f"`bags` must be a vbagg.Bags; got {type(bags).__name__}. Use vbagg.Bags(X, bag, weight)."
            )
        if len(bags) < 2:
            raise ValueError(
                f"`bags` must hold at least 2 bags; got {len(bags)}. One total says nothing of variation."
            )
        used, rows_offset = setup.drop_inert(bags, offset)
        values, n_trials = setup.check_outputs(used, y, trials, likelihood)
        kernel = (self.kernel or setup.default_kernel(used)).resolve(used.feature_names)
        log_prior_of = self.priors
        inference = get_inference(self.inference)

        self._scaler = Scaler.fit(used)
        scaled = setup.bag_weights(used.with_arrays(X=self._scaler.forward(used.X)), link)
        self.rate_scale_, self._base = setup.overall_rate(scaled, values, link, n_trials)
        components = kernel.components()
        options = self.landmarks if isinstance(self.landmarks, Landmarks) else Landmarks()
        if options.joint:
            components = setup.joint_components(components)
        with jax.enable_x64(True):
            start_kernel = tuple(component.initial_log_parameters(scaled.X) for component in components)
            landmarks = setup.component_landmarks(
                components, start_kernel, self.landmarks, scaled, self._scaler, self.random_state
            )
            start = Parameters(start_kernel, {k: np.log(v) for k, v in likelihood.start().items()}, landmarks)
            self._spec = setup.make_spec(components, likelihood, link, self.approximation)
            self._feature_names, self._named = used.feature_names, used.named
            aux = setup.auxiliary(scaled, likelihood, n_trials, self.rate_scale_)
            chunks = self._chunks(scaled, values, aux, rows_offset)
            problem = Problem(self._spec, chunks, landmarks, self._memory)
            log_prior = make_log_prior(components, log_prior_of)
            with reporting(progress, "vbagg") as report:
                fit = inference.run(
                    problem,
                    setup.starting_points(start, components),
                    setup.trainable(components, start, options.learn),
                    log_prior,
                    report,
                    self._validator(validation),
                )
            self._adopt(fit, problem)
        if not self.status_.converged:
            warnings.warn(self.status_.message, ConvergenceWarning, stacklevel=2)
        return self

    def posterior(self, X: Any, offset: Any = None) -> Posterior:
        """Posterior of the rate of individuals with these features."""
        self._check_fitted()
        rows = self._check_rows(X)
        link, scale = self._spec.link, self.rate_scale_
        known = setup.latent_offset(link, self._check_offset(offset, len(rows)), scale, self._base)
        with jax.enable_x64(True):
            mean, variance = row_marginals(*self._state, rows, known)

        def draw(n: int, seed: int) -> np.ndarray:
            with jax.enable_x64(True):
                return scale * draw_rows(*self._state, rows, known, n, seed)

        return Posterior(RATE_LAWS[link.name](mean, np.sqrt(variance), scale=scale), draw)

    def posterior_bags(self, bags: Bags, offset: Any = None) -> BagPosterior:
        """Posterior of each bag's expected total."""
        return self._bag_posterior(bags, offset)[0]

    def predictive_bags(self, bags: Bags, trials: Any = None, offset: Any = None) -> Posterior:
        """Law of a new output of each bag: noise and bag effect included."""
        posterior, M, V = self._bag_posterior(bags, offset)
        likelihood, link = self._spec.likelihood, self._spec.link.name
        if likelihood.name == "binomial" and trials is None:
            raise ValueError("likelihood 'binomial' needs `trials`: the number examined in each bag.")
        n_trials = None if trials is None else bags.align(trials, "trials")
        aux = setup.auxiliary(bags.drop_zero_weight(), likelihood, n_trials, self.rate_scale_)
        law = likelihood.predictive(M, V, link, aux, self.likelihood_parameters_)

        def draw(n: int, seed: int) -> np.ndarray:
            totals = posterior.sample(n, seed)
            return likelihood.simulate(
                totals, aux, self.likelihood_parameters_, np.random.default_rng([seed, 1])
            )

        return Posterior(law, draw)

    def predict(self, bags: Bags, trials: Any = None, offset: Any = None) -> np.ndarray:
        """Expected output of each bag."""
        if self._checked_likelihood().name == "binomial":
            return self.predictive_bags(bags, trials, offset).mean
        return self.posterior_bags(bags, offset).mean

    def score(self, bags: Bags, y: Any, trials: Any = None, offset: Any = None) -> float:
        """Mean log predictive density of the outputs of bags."""
        return float(np.mean(self.predictive_bags(bags, trials, offset).log_prob(bags.align(y, "y"))))

    @property
    def elbo_mc_(self) -> float:
        """ELBO of the fit by Monte Carlo with a control variate (512 fixed draws); comparable between models."""
        self._check_fitted()
        if self._elbo_mc is None:
            spec = self._spec
            if spec.likelihood.name != "normal":
                spec = replace(spec, approximation="montecarlo", n_draws=512)
            if self._training_chunks is None:
                raise AttributeError("elbo_mc_ needs the training data, which a loaded model does not hold.")
            with jax.enable_x64(True):
                problem = Problem(spec, self._training_chunks, self._parameters.landmarks, 0.0)
                self._elbo_mc = problem.at(self._parameters).elbo(self._q)
        return self._elbo_mc

    @property
    def parameters_(self) -> list[dict[str, Any]]:
        """Kernel parameters as rows of a table: standard units, user's units, relevance of ARD columns."""
        self._check_fitted()
        kernel = kernels.Sum(self._spec.feature_map.components)
        rows = kernels.describe(kernel, self._parameters.kernel, self._feature_names, self._scaler.scale)
        for name, value in self.likelihood_parameters_.items():
            rows.append(
                {"component": None, "kernel": None, "parameter": name, "value": value, "user_value": value}
            )
        return rows

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
        return likelihood, link

    def _checked_likelihood(self) -> Likelihood:
        self._check_fitted()
        return self._spec.likelihood

    @property
    def _memory(self) -> float:
        return DEFAULT_MEMORY if self.memory is None else float(self.memory)

    @property
    def _state(self) -> tuple[Spec, Basis, np.ndarray, np.ndarray]:
        return self._spec, self._basis, self._q.mu, self._q.factor

    def _adopt(self, fit: Fit, problem: Problem) -> None:
        """Keep what a fit learnt."""
        self._parameters, self._q, self._jitter = fit.parameters, fit.q, fit.jitter
        self._basis = make_basis(
            self._spec.feature_map, fit.parameters.kernel, fit.parameters.landmarks, fit.jitter
        )
        self._training_chunks: list[Chunk] | None = problem.chunks
        self._elbo_mc: float | None = None
        self.elbo_, self.status_, self.history_ = fit.elbo, fit.status, fit.history
        values = {name: float(np.exp(value)) for name, value in fit.parameters.likelihood.items()}
        if "tau" in values:
            values["tau"] *= self.rate_scale_**2
        self.likelihood_parameters_ = values
        components = self._spec.feature_map.components
        fitted = [kernels.with_values(c, p) for c, p in zip(components, fit.parameters.kernel, strict=True)]
        self.kernel_ = fitted[0] if len(fitted) == 1 else kernels.Sum(tuple(fitted))
        self.landmarks_ = [
            None if Z is None else self._scaler.backward(np.asarray(Z), component.columns_used)
            for component, Z in zip(components, fit.parameters.landmarks, strict=True)
        ]

    def _chunks(self, scaled: Bags, y: np.ndarray, aux: np.ndarray, offset: np.ndarray) -> list[Chunk]:
        known = setup.latent_offset(get_link(self.link), offset, self.rate_scale_, self._base)
        weighted = scaled.with_arrays(weight=scaled.weight * self.rate_scale_)
        return make_chunks(weighted, y, aux, known, self.residual, self._memory / 400, self.random_state)

    def _bag_posterior(self, bags: Bags, offset: Any) -> tuple[BagPosterior, np.ndarray, np.ndarray]:
        self._check_fitted()
        self._check_columns(bags.feature_names, bags.named, bags.n_features)
        used, rows_offset = setup.drop_inert(bags, offset)
        scaled = setup.bag_weights(used.with_arrays(X=self._scaler.forward(used.X)), self._spec.link)
        ones = np.ones(len(bags))
        with jax.enable_x64(True):
            chunks = self._chunks(scaled, ones, ones, rows_offset)
            M, V, directions = bag_moments(*self._state, chunks)

        def draw(n: int, seed: int) -> np.ndarray:
            with jax.enable_x64(True):
                return draw_bags(*self._state, chunks, n, seed)

        def covariance() -> np.ndarray:
            root = directions @ self._q.factor
            between = root @ root.T
            between[np.diag_indices_from(between)] = V
            return between

        return BagPosterior(TOTAL_LAWS[self._spec.link.name].from_moments(M, V), draw, covariance), M, V

    def _validator(self, validation: tuple[Bags, Any] | None) -> Callable[[Fit, Problem], float] | None:
        """Function that scores a fit on held-out bags."""
        if validation is None:
            return None
        bags, y = validation

        def score(fit: Fit, problem: Problem) -> float:
            self._adopt(fit, problem)
            return self.score(bags, y)

        return score

    def _check_rows(self, X: Any) -> np.ndarray:
        rows = Bags(X, np.zeros(len(X), dtype=int))
        self._check_columns(rows.feature_names, rows.named, rows.n_features)
        return self._scaler.forward(rows.X)

    def _check_columns(self, names: tuple[str, ...], named: bool, number: int) -> None:
        expected = self._feature_names
        if number != len(expected):
            raise ValueError(
                f"The model was fitted with {len(expected)} columns ({', '.join(expected)}); got {number}."
            )
        if named and tuple(names) != tuple(expected) and self._named:
            raise ValueError(
                f"The model was fitted with columns {list(expected)}; got {list(names)}. Reorder or rename."
            )

    def _check_offset(self, offset: Any, n: int) -> np.ndarray:
        if offset is None:
            return np.zeros(n)
        values = np.asarray(offset, dtype=float)
        if values.shape != (n,) or not np.isfinite(values).all():
            raise ValueError(f"`offset` must be {n} finite numbers, one per row; got shape {values.shape}.")
        return values
