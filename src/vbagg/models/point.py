"""Models that give one rate per individual and no uncertainty: weights that minimise the loss of `bagloss`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import jax
import numpy as np

from vbagg import manifold as manifolds
from vbagg.bags import Bags
from vbagg.chunks import round_up
from vbagg.compiling import jit
from vbagg.elbo import Parameters
from vbagg.inference import Adam, Descent, Run, Status, get_inference
from vbagg.likelihoods import get_likelihood
from vbagg.likelihoods.base import Facts, Likelihood
from vbagg.links import Link, get_link
from vbagg.manifold import Manifold
from vbagg.models import setup
from vbagg.models.bagloss import BagLoss, Batches, flat_bags, manifold_terms, mean_log_prob
from vbagg.models.base import BagModel
from vbagg.models.frame import Frame, drop_inert
from vbagg.models.functions import LatentFunction
from vbagg.models.outputs import aligned_outputs
from vbagg.posterior import PointEstimate, Posterior
from vbagg.priors import LogPrior
from vbagg.progress import Report, reporting

ROWS_PER_CHUNK = 65536


@dataclass(frozen=True)
class PointFitted:
    """A latent function with its learnt weights."""

    frame: Frame
    likelihood: Likelihood
    function: LatentFunction
    weights: Any
    parameters: Parameters

    @property
    def rate_scale(self) -> float:
        """Overall rate, by which rates are scaled."""
        return self.frame.rate_scale

    def learnt(self) -> dict[str, float]:
        """Likelihood parameters in the user's units."""
        return self.likelihood.in_users_units(self.parameters.likelihood, self.rate_scale)

    def posterior(self, X: Any, offset: Any) -> PointEstimate:
        """Rates of individuals."""
        rows = self.frame.rows(X)
        return PointEstimate(self.rate_scale * self._rates(rows, self.frame.known_of_rows(offset, len(rows))))

    def posterior_bags(self, bags: Bags, offset: Any) -> PointEstimate:
        """Totals of bags."""
        self.frame.check_bags(bags)
        used, rows_offset = drop_inert(bags, offset)
        ready, known = self.frame.standardised(used, rows_offset)
        return PointEstimate(ready.sum_by_bag(ready.weight * self._rates(ready.X, known)))

    def predictive_bags(
        self, bags: Bags, trials: Any, offset: Any, completeness: Any = None, weight_sd: Any = None
    ) -> Posterior:
        """Distribution of a new output of each bag as if the rates were known: noise alone."""
        totals = self.posterior_bags(bags, offset).mean
        likelihood, facts = setup.to_predict(bags, self.likelihood, trials, completeness, weight_sd)
        return noise_alone(likelihood, totals, self.frame.link, facts, self.learnt())

    def _rates(self, rows: np.ndarray, known: np.ndarray) -> np.ndarray:
        """`Psi(f)` of rows in standard units, in chunks."""
        rates = np.empty(len(rows))
        with jax.enable_x64(True):
            for start in range(0, len(rows), ROWS_PER_CHUNK):
                part = slice(start, start + ROWS_PER_CHUNK)
                short = round_up(len(rows[part]), 1) - len(rows[part])
                X = np.pad(rows[part], ((0, short), (0, 0)), mode="edge").astype(np.float32)
                f = np.asarray(_latent(self.function, self.weights, self.parameters, X), float)
                rates[part] = self.frame.link.value(known[part] + f[: len(rows[part])])
        return rates


def noise_alone(
    likelihood: Likelihood, totals: np.ndarray, link: Link, facts: Facts, learnt: dict[str, float]
) -> Posterior:
    """Distribution of outputs for known totals."""
    law = likelihood.predictive(link.total_law.from_moments(totals, np.zeros_like(totals)), facts, learnt)

    def draw(n: int, seed: int) -> np.ndarray:
        return likelihood.simulate(np.tile(totals, (n, 1)), facts, learnt, np.random.default_rng(seed))

    return Posterior(law, draw)


@jit(static_argnames="function")
def _latent(function: LatentFunction, weights: Any, parameters: Parameters, X: Any) -> jax.Array:
    return function.apply(weights, parameters, X)


class PointModel(BagModel):
    """Common `fit` of the models in `nystrom`, `network` and `bagpixel`."""

    _fitted: PointFitted
    likelihood: str | Likelihood
    link: str
    penalty: float
    manifold: Manifold | None
    inference: Any
    random_state: int

    def fit(
        self,
        bags: Bags,
        y: Any,
        trials: Any = None,
        offset: Any = None,
        validation: tuple[Bags, Any] | None = None,
        progress: bool | Report | None = None,
        early_stop: tuple[Bags, Any] | None = None,
        bag_covariates: Any = None,
        upper: Any = None,
        completeness: Any = None,
        weight_sd: Any = None,
    ) -> Self:
        """Learn from bag outputs.

        Parameters
        ----------
        bags, y, trials, offset, progress, upper, completeness, weight_sd
            As for `VBAgg`.
        validation
            `(bags, y)` held out: decides between learning rates and seeds.
        early_stop
            `(bags, y)` held out: decides when to stop.
        bag_covariates
            (b, k) covariates of whole bags, in label order, for the manifold term on bags.
        """
        likelihood, link = get_likelihood(self.likelihood), get_link(self.link)
        likelihood.check_link(link.name)
        options = _check_options(self)
        told = {"upper": upper, "completeness": completeness, "weight_sd": weight_sd}
        data = setup.training_data(bags, y, trials, offset, likelihood, link, **told)
        covariates = manifolds.check_bag_covariates(bags, bag_covariates)
        covariates = None if covariates is None else covariates[data.seen]
        frame = data.frame
        viewed, viewed_offset = self._training_view(data.bags, data.offset)
        ready, known = frame.standardised(viewed, viewed_offset)
        with jax.enable_x64(True):
            function, start, trainable, log_prior = self._structure(data, likelihood)
            similar, constants = manifold_terms(self.manifold, ready, covariates, self.random_state)
            constants["penalty"] = float(self.penalty)
            objective = BagLoss(function, data.likelihood, link, log_prior, "bag_kernel" in constants)
            facts = likelihood.facts(viewed, data.trials, frame.rate_scale) | data.told
            flat = flat_bags(ready, known, data.y, facts, similar)

            def state(seed: int) -> Any:
                weights = function.start(start, ready.n_features, seed + self.random_state)
                return {"weights": weights, "parameters": start}

            flags = {"weights": jax.tree.map(lambda _: True, state(0)["weights"]), "parameters": trainable}
            descent = Descent(objective, constants, flat, len(ready), state, flags, Batches(ready))

            def fitted(state: Any) -> PointFitted:
                weights, parameters = (jax.tree.map(np.asarray, state[name]) for name in ("weights", "parameters"))
                return PointFitted(frame, likelihood, function, weights, parameters)

            training_score = mean_log_prob(objective, ready, flat)
            stopper = self._stopper(objective, frame, early_stop)
            validator = _validator(setup.held_out_score(frame, likelihood, validation, "validation"), fitted)
            stopping = options.stopping_score(stopper, validator)
            runs: list[Run] = []
            with reporting(progress, type(self).__name__) as report:
                for rate in options.learning_rates:
                    for seed in options.seeds:
                        measure = lambda state: {"log_prob": training_score(state)}  # noqa: E731
                        runs.append(descent.run(options, rate, seed, measure, stopping, report))
            scores = [(validator or training_score)(run.state) for run in runs]
        if np.isnan(scores).all():
            raise FloatingPointError("No run stayed finite; try smaller `learning_rates` of Adam.")
        best = runs[int(np.nanargmax(scores))]
        self._fitted = fitted(best.state)
        self.history_ = best.history
        message = f"Ran {best.epochs} epochs; stochastic gradients do not test convergence."
        self.status_ = Status(True, message, best.epochs, 0, tuple(scores), notes=data.notes)
        return self

    @abstractmethod
    def _structure(
        self, data: setup.TrainingData, likelihood: Likelihood
    ) -> tuple[LatentFunction, Parameters, Parameters, LogPrior]:
        """Latent function, starting parameters, which of them are learnt, and their prior."""

    def _training_view(self, bags: Bags, offset: np.ndarray) -> tuple[Bags, np.ndarray]:
        """Bags as the loss sees them, in the user's units, and the offset of their individuals."""
        return bags, offset

    def _stopper(
        self, objective: BagLoss, frame: Frame, early_stop: tuple[Bags, Any] | None
    ) -> Callable[[Any], float] | None:
        """Mean log density of the early-stop bags, as the loss sees them."""
        if setup.held_out_score(frame, objective.likelihood, early_stop, "early_stop") is None:
            return None
        assert early_stop is not None
        outputs = aligned_outputs(*early_stop, None)
        used, offset = self._training_view(*drop_inert(early_stop[0][outputs.seen], None))
        ready, known = frame.standardised(used, offset)
        facts = objective.likelihood.facts(used, None, frame.rate_scale)
        return mean_log_prob(objective, ready, flat_bags(ready, known, outputs.observed().y, facts))


def _validator(score: Callable[..., Any] | None, fitted: Callable[[Any], PointFitted]) -> Callable[[Any], float] | None:
    return None if score is None else lambda state: score(fitted(state))


def _check_options(model: PointModel) -> Adam:
    inference = get_inference(model.inference)
    if not isinstance(inference, Adam):
        raise ValueError(f"`inference` of {type(model).__name__} must be 'adam' or a vbagg.Adam; got {inference!r}.")
    if not model.penalty >= 0:
        raise ValueError(f"`penalty` must be non-negative; got {model.penalty!r}.")
    if model.manifold is not None and not isinstance(model.manifold, Manifold):
        raise TypeError(f"`manifold` must be a vbagg.Manifold or None; got {model.manifold!r}.")
    return inference
