"""BagGLM: a regression of bag outputs on the mean covariates of bags, the usual first model of such data."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import jax
import jax.numpy as jnp
import numpy as np

from vbagg.bags import Bags
from vbagg.errors import ConvergenceWarning
from vbagg.inference import Status
from vbagg.likelihoods import get_likelihood
from vbagg.likelihoods.base import Likelihood
from vbagg.links import Link, get_link
from vbagg.models import setup
from vbagg.models.bagpixel import bag_means
from vbagg.models.base import BagModel
from vbagg.models.frame import Frame, drop_inert
from vbagg.models.glm_fit import LEAST_NOISE, Design, estimate
from vbagg.portions import Portions
from vbagg.posterior import BagPosterior, Posterior

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class GLMFitted:
    """Coefficients in standard units with the Gaussian approximation of their posterior."""

    frame: Frame
    likelihood: Likelihood
    columns: tuple[int, ...]
    coefficients: np.ndarray
    covariance: np.ndarray
    noise: dict[str, float]

    @property
    def rate_scale(self) -> float:
        """Overall rate, by which rates are scaled."""
        return self.frame.rate_scale

    def learnt(self) -> dict[str, float]:
        """Likelihood parameters in the user's units."""
        return self.noise

    def posterior(self, X: Any, offset: Any) -> Posterior:
        """Posterior of the rate of individuals, as if the relation between bags held within bags."""
        rows = self.frame.rows(X)
        known, Z = self.frame.known_of_rows(offset, len(rows)), with_ones(rows[:, self.columns])
        law = self.frame.link.rate_law(*self._predictor(Z, known), scale=self.rate_scale)

        def draw(n: int, seed: int) -> np.ndarray:
            return self._draw(Z, known, np.full(len(Z), self.rate_scale), n, seed)

        return Posterior(law, draw)

    def posterior_bags(self, bags: Bags, offset: Any) -> BagPosterior:
        """Posterior of the totals of bags: the rate at their mean covariates times their weight."""
        Z, known, weight = self._of_bags(bags, offset)
        mean, sd = self._predictor(Z, known)
        law = self.frame.link.rate_law(mean, sd, scale=weight)
        far = ~np.isfinite(law.std)
        if far.any():
            raise ValueError(
                f"The GLM cannot predict bag {bags.labels[far][0]!r} ({far.sum()} such bags): its covariates lie too"
                " far outside those of the training bags. Leave out covariates that hardly vary between those."
            )

        def covariance() -> np.ndarray:
            link = self.frame.link
            with jax.enable_x64(True):
                slope = weight * np.asarray(link.slope(jnp.asarray(mean), jnp.asarray(sd**2)))
                first_order = np.outer(slope, slope) * (Z @ self.covariance @ Z.T)
                result = np.array(link.total_covariance(law.mean[:, None], law.mean[None, :], jnp.asarray(first_order)))
            np.fill_diagonal(result, law.std**2)
            return result

        return BagPosterior(law, lambda n, seed: self._draw(Z, known, weight, n, seed), covariance)

    def predictive_bags(
        self, bags: Bags, trials: Any, offset: Any, completeness: Any = None, weight_sd: Any = None
    ) -> Posterior:
        """Distribution of a new output of each bag: noise and uncertain coefficients."""
        totals = self.posterior_bags(bags, offset)
        likelihood, facts = setup.to_predict(bags, self.likelihood, trials, completeness, weight_sd)
        total = self.frame.link.total_law.from_moments(totals.mean, totals.std**2)
        law = likelihood.predictive(total, facts, self.noise)

        def draw(n: int, seed: int) -> np.ndarray:
            rng = np.random.default_rng([seed, 1])
            return likelihood.simulate(totals.sample(n, seed), facts, self.noise, rng)

        return Posterior(law, draw)

    def _of_bags(self, bags: Bags, offset: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        self.frame.check_bags(bags)
        return regressors(self.frame, self.columns, *drop_inert(bags, offset))

    def _predictor(self, Z: np.ndarray, known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and sd of the linear predictor of each row."""
        spread = Z @ np.linalg.cholesky(self.covariance)
        return known + Z @ self.coefficients, np.sqrt(np.einsum("ij,ij->i", spread, spread))

    def _draw(self, Z: np.ndarray, known: np.ndarray, scale: np.ndarray, n: int, seed: int) -> np.ndarray:
        normal = np.random.default_rng(seed).standard_normal((n, len(self.coefficients)))
        coefficients = self.coefficients + normal @ np.linalg.cholesky(self.covariance).T
        with jax.enable_x64(True):
            return scale * np.asarray(self.frame.link.value(jnp.asarray(known + coefficients @ Z.T)))


class BagGLM(BagModel):
    """Generalised linear model of bag outputs on bag means: `y_a` with mean `w_a Psi(b_0 + x_a b)`.

    `x_a` is the weighted mean of a bag and `w_a` its total weight. The link follows from the likelihood: log for
    counts and exponential outputs, identity for the Normal, logit for the binomial (whose `w_a` is one). Coefficients
    maximise the likelihood, and so does the dispersion of the negative binomial; the Normal's `tau` is the residual
    sum of squares over the residual degrees of freedom.

    Posteriors use the normal approximation of the coefficients around their best values (Fisher information, noise
    parameters taken as known). Rates of individuals apply the coefficients to the individuals' own covariates. This is
    the ecological approximation: a relation between bags need not hold within them, and these rates do not add up to
    the totals that the model predicts for bags.

    Parameters
    ----------
    likelihood
        As for `VBAgg`.
    coordinates
        Whether coordinate columns enter, as a linear trend; None: only where there are no others. A trend helps little
        among neighbours, and runs off exponentially (with the log link) beyond the region of the training bags.
    ridge
        Precision of a normal prior of each coefficient, per standard deviation of its column between bags and, for
        the Normal, of the bags' rates; the intercept's is centred at the overall rate. The default, a prior sd of 10,
        does not matter unless columns are collinear or outputs separated.
    """

    _fitted: GLMFitted

    def __init__(
        self, likelihood: str | Likelihood = "poisson", coordinates: bool | None = None, ridge: float = 0.01
    ) -> None:
        self.likelihood, self.coordinates, self.ridge = likelihood, coordinates, ridge

    @property
    def link(self) -> str:
        """Name of the link that goes with the likelihood."""
        return get_likelihood(self.likelihood).links[0]

    def fit(
        self,
        bags: Bags,
        y: Any,
        trials: Any = None,
        offset: Any = None,
        progress: Any = None,
        upper: Any = None,
        completeness: Any = None,
        weight_sd: Any = None,
    ) -> Self:
        """Regress bag outputs on bag means.

        Parameters
        ----------
        bags, y, trials, upper, completeness, weight_sd
            As for `VBAgg`.
        offset
            Known term of the linear predictor per row of the data that made `bags`. A bag has the logarithm of the
            mean of `exp(offset)` with the log link, the mean of `offset` with others.
        progress
            Ignored: the fit takes no time.
        """
        if not self.ridge > 0:
            raise ValueError(f"`ridge` must be positive; got {self.ridge!r}. A tiny number such as 1e-6 is allowed.")
        likelihood = get_likelihood(self.likelihood)
        link = get_link(self.link)
        told = {"upper": upper, "completeness": completeness, "weight_sd": weight_sd}
        data = setup.training_data(bags, y, trials, offset, likelihood, link, **told)
        columns = self._columns(data.bags)
        frame = _bag_frame(data, link, columns)
        facts = likelihood.facts(data.bags, data.trials) | data.told
        design = Design(*regressors(frame, columns, data.bags, data.offset), data.y, facts)
        least = (LEAST_NOISE * frame.rate_scale) ** 2
        beta, precision, noise, wrong = estimate(data.likelihood, link, design, self.ridge, least)
        self._fitted = GLMFitted(frame, likelihood, columns, beta, np.linalg.inv(precision), noise)
        self.status_ = Status(not wrong, wrong or "Coefficients maximise the likelihood.", 0, 0, notes=data.notes)
        if wrong:
            warnings.warn(wrong, ConvergenceWarning, stacklevel=2)
        return self

    @property
    def coefficients_(self) -> pd.DataFrame:
        """Coefficients of the linear predictor: `estimate` and `std_error` in the user's units, and `per_sd`.

        `per_sd` is the effect of one standard deviation between bags, and the mean bag's predictor for the intercept.
        """
        import pandas as pd

        fitted = self._checked()
        frame, columns = fitted.frame, list(fitted.columns)
        unit, level = frame.link.latent_unit(frame.rate_scale), frame.link.latent_shift(frame.rate_scale)
        to_user = np.diag(np.concatenate([[1.0], 1 / frame.scaler.scale[columns]])) * unit
        to_user[0, 1:] = -unit * frame.scaler.centre[columns] / frame.scaler.scale[columns]
        shift = np.zeros(len(columns) + 1)
        shift[0] = unit * frame.base + level
        return pd.DataFrame(
            {
                "estimate": to_user @ fitted.coefficients + shift,
                "std_error": np.sqrt(np.diag(to_user @ fitted.covariance @ to_user.T)),
                "per_sd": unit * fitted.coefficients + shift,
                "per_sd_std_error": unit * np.sqrt(np.diag(fitted.covariance)),
            },
            index=["intercept", *(frame.feature_names[j] for j in columns)],
        )

    def _columns(self, bags: Bags) -> tuple[int, ...]:
        covariates = tuple(j for j in range(bags.n_features) if j not in bags.coordinates)
        with_coordinates = not covariates if self.coordinates is None else self.coordinates
        columns = tuple(range(bags.n_features)) if with_coordinates else covariates
        if len(bags) <= len(columns) + 1:
            raise ValueError(
                f"A GLM needs more bags than coefficients; got {len(bags)} bags for an intercept and {len(columns)}"
                " columns. Leave covariates out, or use vbagg.Constant."
            )
        return columns


def with_ones(rows: np.ndarray) -> np.ndarray:
    """Rows with a column of ones in front."""
    return np.column_stack([np.ones(len(rows)), rows])


def regressors(
    frame: Frame, columns: tuple[int, ...], bags: Bags, offset: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of the regression, the known part of the linear predictor and the weight of each bag."""
    mean_offset = frame.link.mean_offset(bags, offset)
    ready, known = frame.standardised(bag_means(bags), mean_offset)
    return with_ones(ready.X[:, columns]), known, ready.weight


def _bag_frame(data: setup.TrainingData, link: Link, columns: tuple[int, ...]) -> Frame:
    """Units of bag means; a column whose means do not vary is an error."""
    means = bag_means(data.bags)
    flat = [j for j in columns if means.X[:, j].std() <= 1e-9 * data.frame.scaler.scale[j]]
    if flat:
        name = data.bags.feature_names[flat[0]]
        raise ValueError(
            f"Every column of a GLM must vary between bags; column {name!r} has the same mean in all of them"
            f" ({len(flat)} such columns). Drop it."
        )
    return Frame.fit(Portions.of(means, np.zeros(len(means))), data.y, link, data.exposure)
