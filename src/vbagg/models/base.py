"""What every model shares: scikit-learn's parameter contract over bags, and predictions from its fitted state."""

from __future__ import annotations

import inspect
import os
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from vbagg.bags import Bags
from vbagg.errors import NotFittedError
from vbagg.likelihoods.base import Likelihood
from vbagg.models.frame import check_is_bags
from vbagg.models.outputs import aligned_outputs
from vbagg.models.reporting import aligned_told
from vbagg.posterior import PointEstimate, Posterior


class Estimator:
    """Parameters are stored by `__init__` and never changed by `fit`; learnt state ends in an underscore.

    scikit-learn's contract, without importing scikit-learn.
    """

    @classmethod
    def _parameter_names(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Constructor parameters by name."""
        return {name: getattr(self, name) for name in self._parameter_names()}

    def set_params(self, **params: Any) -> Self:
        """Change constructor parameters."""
        known = self._parameter_names()
        for name, value in params.items():
            if name not in known:
                raise ValueError(f"{type(self).__name__} has no parameter {name!r}; it has {', '.join(known)}.")
            setattr(self, name, value)
        return self

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import Tags, TargetTags

        return Tags(estimator_type=None, target_tags=TargetTags(required=True))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_fitted")

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self).__init__).parameters
        changed = [f"{k}={v!r}" for k, v in self.get_params().items() if v is not defaults[k].default]
        return f"{type(self).__name__}({', '.join(changed)})"


class FittedState(Protocol):
    """What a fitted model predicts from; nothing of the training data."""

    @property
    def likelihood(self) -> Likelihood:
        """Density of a bag's output."""
        ...

    @property
    def rate_scale(self) -> float:
        """Overall rate, by which rates are scaled."""
        ...

    def learnt(self) -> dict[str, float]:
        """Likelihood parameters in the user's units."""
        ...

    def posterior(self, X: Any, offset: Any) -> Posterior | PointEstimate:
        """Posterior of the rate of individuals."""
        ...

    def posterior_bags(self, bags: Bags, offset: Any) -> Posterior | PointEstimate:
        """Posterior of the totals of bags."""
        ...

    def predictive_bags(
        self, bags: Bags, trials: Any, offset: Any, completeness: Any = None, weight_sd: Any = None
    ) -> Posterior:
        """Distribution of a new output of each bag."""
        ...


class BagModel(Estimator):
    """Predictions of individuals and bags from the state that `fit` leaves in `_fitted`."""

    _not_stored: ClassVar[tuple[str, ...]] = ()
    _fitted: FittedState

    def posterior(self, X: Any, offset: Any = None) -> Posterior | PointEstimate:
        """Posterior of the rate of individuals with these features, or of those of bags (in the order of `bags.X`)."""
        return self._checked().posterior(X.X if isinstance(X, Bags) else X, offset)

    def posterior_bags(self, bags: Bags, offset: Any = None) -> Posterior | PointEstimate:
        """Posterior of each bag's expected total."""
        return self._checked().posterior_bags(bags, offset)

    def predictive_bags(
        self, bags: Bags, trials: Any = None, offset: Any = None, completeness: Any = None, weight_sd: Any = None
    ) -> Posterior:
        """Distribution of a new output of each bag: noise and bag effect included.

        That of all that occurs among the individuals as they are given, whatever a fit was told, unless `completeness`
        and `weight_sd` say otherwise: as in `VBAgg.fit`.
        """
        return self._checked().predictive_bags(bags, trials, offset, completeness, weight_sd)

    def predict(
        self, bags: Bags, trials: Any = None, offset: Any = None, completeness: Any = None, weight_sd: Any = None
    ) -> np.ndarray:
        """Expected output of each bag: the mean of `predictive_bags`."""
        return self.predictive_bags(bags, trials, offset, completeness, weight_sd).mean

    def score(
        self,
        bags: Bags,
        y: Any,
        trials: Any = None,
        offset: Any = None,
        upper: Any = None,
        completeness: Any = None,
        weight_sd: Any = None,
    ) -> float:
        """Mean log predictive density of the outputs of bags, those that are missing (NaN) left out.

        Where `upper` is more than `y` it is the log probability of an output between them. `completeness` and
        `weight_sd` are those of `predictive_bags`.
        """
        self._checked()
        check_is_bags(bags)
        outputs = aligned_outputs(bags, y, trials, upper)
        outputs.require(1)
        told = aligned_told(bags, completeness, weight_sd, outputs.seen)
        found = self.predictive_bags(bags, outputs.trials_for_all, offset, **told).log_prob(outputs.y, outputs.upper)
        return float(np.mean(found[outputs.seen]))

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
        return self._checked().learnt()

    def _checked(self) -> Any:
        if not hasattr(self, "_fitted"):
            raise NotFittedError(f"This {type(self).__name__} is not fitted yet; call `fit(bags, y)` first.")
        return self._fitted
