"""A model with answers that can be written down, and a way to see everything that an object holds."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from vbagg import laws
from vbagg.bags import Bags
from vbagg.posterior import PointEstimate


class KnownModel:
    """Rates are `level * exp(x / 4)`, `x` the first column; uncertain by the share `spread` of them, or certain.

    Its law of rates is Normal if it has a `tau`, else gamma; totals add up independent individuals.
    """

    def __init__(self, level: float = 1.0, spread: float | None = None, **noise: float) -> None:
        self.level, self.spread, self.likelihood_parameters_ = level, spread, noise
        self.elbo_ = 0.0
        self.fits: list[dict[str, Any]] = []
        self.asked: list[Bags] = []

    def fit(self, bags: Bags, y: np.ndarray, **options: Any) -> None:
        self.fits.append({"bags": bags, "y": y, **options})

    def get_params(self) -> dict[str, Any]:
        known = {"tau": "normal", "dispersion": "negative_binomial"}
        return {
            "level": self.level,
            "spread": self.spread,
            "likelihood": next(
                (name for noise, name in known.items() if noise in self.likelihood_parameters_), "poisson"
            ),
        }

    def rates(self, X: np.ndarray) -> np.ndarray:
        return self.level * np.exp(X[:, 0] / 4)

    def posterior(self, X: np.ndarray) -> Any:
        mean = self.rates(X)
        if self.spread is None:
            return PointEstimate(mean)
        law = laws.Normal if "tau" in self.likelihood_parameters_ else laws.Gamma
        return law.from_moments(mean, (self.spread * mean) ** 2)

    def predict(self, bags: Bags) -> np.ndarray:
        return bags.sum_by_bag(bags.weight * self.rates(bags.X))

    def predictive_bags(self, bags: Bags) -> Any:
        self.asked.append(bags)
        mean, spread = self.predict(bags), self.spread or 0.0
        variance = bags.sum_by_bag((bags.weight * spread * self.rates(bags.X)) ** 2)
        if "tau" in self.likelihood_parameters_:
            return laws.Normal.from_moments(mean, variance + self.likelihood_parameters_["tau"] * bags.weight_squares())
        return laws.NegativeBinomial.from_moments(mean, variance)

    def score(self, bags: Bags, y: np.ndarray) -> float:
        return float(np.mean(self.predictive_bags(bags).log_prob(y)))


def arrays_within(thing: Any, seen: dict[int, Any] | None = None) -> Iterator[np.ndarray]:
    """Every array that can be reached: attributes, entries, and the arrays that others are views of."""
    seen = {} if seen is None else seen
    if thing is None or id(thing) in seen or isinstance(thing, str | bytes | int | float | type):
        return
    seen[id(thing)] = thing
    inner: list[Any] = []
    if isinstance(thing, np.ndarray) or hasattr(thing, "__array__"):
        if not isinstance(thing, Bags):
            yield np.asarray(thing)
        inner.append(getattr(thing, "base", None))
        inner += thing.tolist() if isinstance(thing, np.ndarray) and thing.dtype.hasobject else []
    if isinstance(thing, Mapping):
        inner += [*thing.keys(), *thing.values()]
    elif isinstance(thing, list | tuple | set | frozenset):
        inner += thing
    inner += vars(thing).values() if hasattr(thing, "__dict__") and not callable(thing) else ()
    for other in inner:
        yield from arrays_within(other, seen)
